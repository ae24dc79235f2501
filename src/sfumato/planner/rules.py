"""The rules by which `auto` takes a mechanism, in order: the first that applies decides.

They are the table of docs/planning.md, in the same words, and the page has the trials that they come from. Nothing in
them looks at data: a mechanism whose error the noise alone decides is known exactly, and one that adapts to the data is
tried on public tables, if the schema says how many rows to expect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from math import inf, isfinite, log10, sqrt

import numpy as np

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.limits import MOST_DENSE
from sfumato.mechanisms import MECHANISMS, considered, sparse_mechanism
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.forecast import Outlook
from sfumato.queries import Workload, default_workload
from sfumato.schema import Schema

MOST_TRIED = 2**9  # cells up to which mechanisms are tried for a choice, in half a second; beyond, a rule decides
ALIKE = 1.01  # times the least error is as good, and then the plainer mechanism is preferred
NEXT_TO_BEST = 2  # times the noise on one query that spends everything: little is left to gain for anyone
MANY_CELLS = 2**20  # beyond which files and queries that cost several times more must be worth it
WORTH_A_LARGE_FILE = 1.5  # times the least error is as good there, and then the plainer mechanism is preferred

FULLNESS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # rows times epsilon per cell
# What sfumato has of its error on a full table, for each of these: geometric means over benchmarks/choosing.py.
GAINS_OF_FEW = (0.17, 0.32, 0.59, 0.79, 0.79, 0.83)  # one and two attributes
GAINS_OF_MANY = (0.053, 0.11, 0.29, 0.51, 0.61, 0.61)  # three and more
UNSTATED = 0.5  # of it where no rows are stated: the middle of the first line, and that of 10 rows a cell in the second

UNTRIED = Outlook("", "not priced")
DEPENDENCE = "Which attributes depend on each other: that is measured, and decides what is spent where."
PRIVATE = "How the table lies is not looked at, as that would cost budget."


def may_try(schema: Schema) -> bool:
    """Whether mechanisms are tried for a choice."""
    return schema.expected_rows is not None and schema.domain.size <= MOST_TRIED


@dataclass(frozen=True, eq=False)
class Case:
    """What a choice hangs on, all of it public. outlooks: what was priced, the plainest first."""

    outlooks: Sequence[Outlook]
    schema: Schema
    budget: Budget
    workload: Workload | None

    @property
    def cells(self) -> int:
        return self.schema.domain.size

    @cached_property
    def _exact(self) -> list[Outlook]:
        """A release is asked other things too, so what leaves them unknown is taken by name only."""
        known = [found for found in self.outlooks if found.how == "exact" and isfinite(found.overall)]
        return [found for found in known if MECHANISMS[found.mechanism].answers == "everything"]

    @cached_property
    def best(self) -> Outlook:
        """The least error that is known whatever the data; of those alike the plainest comes first."""
        alike = ALIKE if self.cells <= MANY_CELLS else WORTH_A_LARGE_FILE
        return next(found for found in self._exact if found.overall <= alike * self.least.overall)

    @cached_property
    def least(self) -> Outlook:
        return min(self._exact, key=lambda found: found.overall)

    @property
    def plain(self) -> str:
        """The best and what comes next, in words."""
        others = sorted((found for found in self._exact if found is not self.best), key=lambda found: found.overall)
        mine = f"{as_rows(self.best.overall)} rows a query whatever the data"
        if self.best.overall > ALIKE * self.least.overall:
            much = f"{self.least.mechanism} has {as_rows(self.least.overall)}, not {WORTH_A_LARGE_FILE} times less"
            return f"{mine}; {much}, with a file and queries that cost several times more"
        following = ", ".join(f"{found.mechanism} {as_rows(found.overall)}" for found in others[:2])
        said = f"{mine}, the least of those that do not depend on it"
        return f"{said}; next {following}" if following else said

    @cached_property
    def tried(self) -> Outlook:
        """The least error of those that adapt. A plan tries more than `auto` does, and must name what `auto` takes."""
        found = [one for one in self.outlooks if one.how == "simulated" and MECHANISMS[one.mechanism].adaptive]
        return min(found if may_try(self.schema) else [], key=lambda one: one.overall, default=UNTRIED)

    @cached_property
    def adaptive(self) -> list[Mechanism]:
        """What adapts and fits: the first is taken where nothing could be tried."""
        if self.cells > MANY_CELLS and self.schema.expected_rows is None:
            return []
        every = (one for one in considered() if one.adaptive)
        return [one for one in every if one.why_not(self.schema, self.workload) is None]

    @cached_property
    def if_full(self) -> float:
        """About its error on a table with many rows everywhere."""
        error = self.adaptive[0].error_if_full
        assert error is not None and self.workload is not None  # noqa: S101 (it adapts, and cells were laid out)
        return error(self.schema, self.workload, self.budget)

    @cached_property
    def one_query(self) -> float:
        """The standard error of one query that spends all that the count may."""
        share = self.budget.split(*self.schema.weights.values())[0]
        contributions = self.schema.privacy_unit.contributions
        return sqrt(noise_for(share, contributions, l1=Fraction(1), l2_squared=Fraction(1)).variance)

    @property
    def fullness(self) -> float:
        """Rows per cell over the size of the noise, how far single cells stand out: rows times epsilon per cell."""
        if self.schema.expected_rows is None:
            return inf
        return max(1, self.schema.expected_rows) / self.cells * sqrt(2.0) / max(self.one_query, 1e-9)

    @cached_property
    def foretold(self) -> float:
        """About its error with as many rows as are stated, or with some where none are."""
        if self.schema.expected_rows is None:
            return UNSTATED * self.if_full
        gains = np.log(GAINS_OF_FEW if len(self.schema.domain.shape) < 3 else GAINS_OF_MANY)
        return self.if_full * float(np.exp(np.interp(np.log(self.fullness), np.log(FULLNESS), gains)))

    @cached_property
    def by_margins(self) -> Mechanism | None:
        """What lays out margins alone, if there are three attributes and more and nobody says what else matters."""
        usual = self.cells > MOST_DENSE or self.workload is default_workload(self.schema.domain)
        if len(self.schema.domain.axes) < 3 or not usual:
            return None
        return next(one for one in considered() if one.by_margins and one.foretold is not None)

    @cached_property
    def of_margins(self) -> float:
        """About its error."""
        mechanism = self.by_margins
        if mechanism is None or mechanism.foretold is None:
            return inf
        return mechanism.foretold(self.schema, self.budget).overall

    @cached_property
    def otherwise(self) -> float:
        """The least error of all others."""
        adapting = self.tried.overall if self.tried is not UNTRIED else self.foretold if self.adaptive else inf
        return min(self.best.overall, adapting)

    @property
    def rows(self) -> str:
        """How many rows that is about, in words."""
        if self.schema.expected_rows is None:
            return "with a middling number of rows, as none is stated"
        return f"with {self.schema.expected_rows:,} rows"

    @property
    def unsaid(self) -> str:
        """What is not known of a table that nothing adapts to."""
        if self.schema.expected_rows is None:
            return "Whether the table is empty in places: state expected_rows, if it may be."
        return "Whether the table is empty or even in places: so many cells are not adapted to."

    @property
    def untried(self) -> str:
        """What trials would have told."""
        if self.schema.expected_rows is None:
            return "How many rows there are: state expected_rows, which decides what empty places are worth."
        return f"Whether the table is empty or even in places, from which {self.adaptive[0].name} would gain."


Words = Callable[[Case], str]


@dataclass(frozen=True)
class Rule:
    """When a mechanism is taken and which: in the words of the page, and as functions; and what is said about it."""

    when: str
    takes: str
    applies: Callable[[Case], bool]
    taken: Words
    why: Words
    unknown: Words


def _best(case: Case) -> str:
    return case.best.mechanism


def _margins(case: Case) -> Mechanism:
    assert case.by_margins is not None  # noqa: S101 (the rule applies)
    return case.by_margins


def _many(cells: int) -> str:
    return f"{cells:,}" if cells < 10**9 else f"about 10^{log10(cells):.0f}"


def _known(case: Case) -> str:
    return f"{_best(case)} has {as_rows(case.best.overall)}"


RULES = (
    Rule(
        when=f"there are more than {MOST_DENSE:,} cells, of three attributes or more",
        takes="`margins`, which lays out margins alone",
        applies=lambda case: case.cells > MOST_DENSE and case.by_margins is not None,
        taken=lambda case: _margins(case).name,
        why=lambda case: (
            f"{len(case.schema.attributes)} attributes span {_many(case.cells)} cells, and {_margins(case).name} lays "
            "out margins alone"
        ),
        unknown=lambda case: DEPENDENCE,
    ),
    Rule(
        when=f"there are more than {MOST_DENSE:,} cells, of one attribute or two",
        takes="`sparse-cells`, the only one that never lays them out",
        applies=lambda case: case.cells > MOST_DENSE,
        taken=lambda case: sparse_mechanism().name,
        why=lambda case: f"{case.cells:,} cells are too many for memory, and sparse-cells never lays them out",
        unknown=lambda case: "How many cells hold enough rows to be published.",
    ),
    Rule(
        when=f"the exact one has at most {NEXT_TO_BEST} times the noise on a single query that spends everything",
        takes="the exact one: nobody could do much better",
        applies=lambda case: case.best.overall <= NEXT_TO_BEST * case.one_query,
        taken=_best,
        why=lambda case: (
            f"{as_rows(case.best.overall)} rows a query whatever the data, where a single query that spends everything "
            f"has {as_rows(case.one_query)}: nobody could do much better"
        ),
        unknown=lambda case: "Whether the table is empty or even in places, from which little could be gained here.",
    ),
    Rule(
        when=(
            "there are three attributes or more, no workload is stated, and about as much error is to be expected of "
            "`margins` as of any other, or less"
        ),
        takes="`margins`",
        applies=lambda case: case.by_margins is not None and case.of_margins <= case.otherwise,
        taken=lambda case: _margins(case).name,
        why=lambda case: (
            f"about {as_rows(case.of_margins)} rows a query to be expected {case.rows}, where {_known(case)} whatever "
            "the data"
        ),
        unknown=lambda case: DEPENDENCE,
    ),
    Rule(
        when="`sfumato` was tried, and by the geometric mean over the five tables has no more error than the exact one",
        takes="`sfumato`",
        applies=lambda case: case.tried.overall <= case.best.overall,
        taken=lambda case: case.tried.mechanism,
        why=lambda case: (
            f"{as_rows(case.tried.overall)} rows a query in the middle of the public shapes with "
            f"{case.schema.expected_rows:,} rows, where {_known(case)} whatever the data"
        ),
        unknown=lambda case: (
            f"Its error depends on the data: from {as_rows(case.tried.best)} rows on the kindest shape to "
            f"{as_rows(case.tried.worst)} on the unkindest."
        ),
    ),
    Rule(
        when="it was tried, and has more",
        takes="the exact one",
        applies=lambda case: case.tried is not UNTRIED,
        taken=_best,
        why=lambda case: (
            f"{case.plain}; {case.tried.mechanism} has {as_rows(case.tried.overall)} in the middle of the public shapes"
        ),
        unknown=lambda case: "Whether the table is kinder than the public shapes.",
    ),
    Rule(
        when=f"it does not fit the schema, or no rows are stated for more than {MANY_CELLS:,} cells",
        takes="the exact one",
        applies=lambda case: not case.adaptive,
        taken=_best,
        why=lambda case: case.plain,
        unknown=lambda case: case.unsaid,
    ),
    Rule(
        when=(
            "its error on a full table, times what it has of that with so many rows per cell, "
            "is no more than the error of the exact one"
        ),
        takes="`sfumato`",
        applies=lambda case: case.foretold <= case.best.overall,
        taken=lambda case: case.adaptive[0].name,
        why=lambda case: (
            f"about {as_rows(case.foretold)} rows a query to be expected {case.rows} "
            f"(up to {as_rows(case.if_full)} if every cell is full), where {_known(case)} whatever the data"
        ),
        unknown=lambda case: case.untried,
    ),
    Rule(
        when="otherwise",
        takes="the exact one",
        applies=lambda case: True,
        taken=_best,
        why=lambda case: f"{case.plain}; {case.adaptive[0].name} would have about {as_rows(case.foretold)} {case.rows}",
        unknown=lambda case: case.untried,
    ),
)


def first_rule(case: Case) -> tuple[Rule, str]:
    """The rule that decides, and what it takes."""
    rule = next(rule for rule in RULES if rule.applies(case))
    return rule, rule.taken(case)
