"""Rules by which `auto` chooses a mechanism: an ordered list, the first that applies decides.

They are the table of docs/planning.md, in the same words. No rule depends on data: the error of a mechanism with
data-independent noise is known exactly, and an adaptive one has one forecast (forecast.py), which a plan prints too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import inf, isfinite, log10

from sfumato.arrays import MOST_DENSE
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS, considered, sparse_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.forecast import Outlook, noise_of_one_query
from sfumato.queries import Workload, default_workload
from sfumato.schema import Schema

ALIKE = 1.01  # times the least error is as good, and then the plainer mechanism is preferred
NEXT_TO_BEST = 2  # times the noise on one query that spends everything: little is left to gain for anyone
MANY_CELLS = 2**20  # beyond which files and queries that cost several times more must be worth it
WORTH_A_LARGE_FILE = 1.5  # times the least error is as good there, and then the plainer mechanism is preferred

UNKNOWN = Outlook("", "not priced")
DEPENDENCE = "Which attributes depend on each other: that is measured, and decides what is spent where."
PRIVATE = "How the table lies is not looked at, as that would cost budget."


@dataclass(frozen=True, eq=False)
class Case:
    """Public inputs of a choice. outlooks: forecasts, the simplest mechanism first."""

    outlooks: Sequence[Outlook]
    schema: Schema
    budget: Budget
    workload: Workload | None

    @property
    def cells(self) -> int:
        return self.schema.domain.size

    @cached_property
    def _exact(self) -> list[Outlook]:
        """Forecasts known exactly, of mechanisms that answer every query; others are taken by name only."""
        exact = [found for found in self.outlooks if found.how == "exact" and isfinite(found.overall)]
        return [found for found in exact if MECHANISMS[found.mechanism].answers == "everything"]

    @cached_property
    def best(self) -> Outlook:
        """Least error that does not depend on the data; within a tolerance, the simplest mechanism."""
        alike = ALIKE if self.cells <= MANY_CELLS else WORTH_A_LARGE_FILE
        return next(found for found in self._exact if found.overall <= alike * self.least.overall)

    @cached_property
    def least(self) -> Outlook:
        """Least error that does not depend on the data."""
        return min(self._exact, key=lambda found: found.overall)

    @property
    def plain(self) -> str:
        """Best data-independent mechanism and the runners-up, in words."""
        others = sorted((found for found in self._exact if found is not self.best), key=lambda found: found.overall)
        mine = f"{as_rows(self.best.overall)} rows a query whatever the data"
        if self.best.overall > ALIKE * self.least.overall:
            much = f"{self.least.mechanism} has {as_rows(self.least.overall)}, not {WORTH_A_LARGE_FILE} times less"
            return f"{mine}; {much}, with a file and queries that cost several times more"
        following = ", ".join(f"{found.mechanism} {as_rows(found.overall)}" for found in others[:2])
        said = f"{mine}, the least of those that do not depend on it"
        return f"{said}; next {following}" if following else said

    @cached_property
    def adaptive(self) -> list[Mechanism]:
        """Adaptive mechanisms that fit the schema and the workload."""
        if self.cells > MANY_CELLS and self.schema.expected_rows is None:
            return []
        every = (one for one in considered() if one.adaptive)
        return [one for one in every if one.why_not(self.schema, self.workload) is None]

    @cached_property
    def adapting(self) -> Outlook:
        """Forecast of the best adaptive mechanism, simulated or by formula."""
        names = [one.name for one in self.adaptive]
        return min(
            (one for one in self.outlooks if one.mechanism in names), key=lambda one: one.overall, default=UNKNOWN
        )

    @cached_property
    def one_query(self) -> float:
        """Standard error of one query that spends the count's whole budget."""
        return noise_of_one_query(self.schema, self.budget)

    @cached_property
    def by_margins(self) -> Mechanism | None:
        """Mechanism that measures marginals alone, if there are three or more attributes and no stated workload."""
        usual = self.cells > MOST_DENSE or self.workload is default_workload(self.schema.domain)
        if len(self.schema.domain.axes) < 3 or not usual:
            return None
        return next(one for one in considered() if one.holds.by_margins and one.forecast.foretold is not None)

    @cached_property
    def of_margins(self) -> float:
        """Forecast error of that mechanism; inf where there is none."""
        mechanism = self.by_margins
        if mechanism is None or mechanism.forecast.foretold is None:
            return inf
        workload = None if self.cells > MOST_DENSE else self.workload
        return mechanism.forecast.foretold(self.schema, self.budget).overall(workload)

    @cached_property
    def otherwise(self) -> float:
        """Least forecast error of all other mechanisms."""
        return min(self.best.overall, self.adapting.overall)

    @property
    def rows(self) -> str:
        """Stated number of rows, in words."""
        if self.schema.expected_rows is None:
            return "with a middling number of rows, as none is stated"
        return f"with {self.schema.expected_rows:,} rows"

    @property
    def unsaid(self) -> str:
        """Remark on sparsity that no adaptive mechanism exploits here."""
        if self.schema.expected_rows is None:
            return "Whether the table is empty in places: state expected_rows, if it may be."
        return "Whether the table is empty or even in places: so many cells are not adapted to."

    @property
    def hoped(self) -> str:
        """Forecast of the adaptive mechanism, in words."""
        forecast, about = self.adapting, as_rows(self.adapting.overall)
        if forecast.how == "simulated":
            return f"{about} rows a query in the middle of the public shapes {self.rows}"
        if self.schema.expected_rows is None:
            least, most = as_rows(forecast.best), as_rows(forecast.worst)
            return f"about {about} rows a query to be expected {self.rows} (from {least} if few to {most} if many)"
        return f"about {about} rows a query to be expected {self.rows}"

    @property
    def unforeseen(self) -> str:
        """Remark on what the adaptive mechanism's error depends on."""
        forecast = self.adapting
        if self.schema.expected_rows is None:
            return "How many rows there are: state expected_rows, which decides what empty places are worth."
        if forecast.how == "simulated":
            ends = (
                f"from {as_rows(forecast.best)} rows on the kindest shape to {as_rows(forecast.worst)} on the unkindest"
            )
            return f"How {forecast.mechanism} fares depends on the data: {ends}."
        return f"Whether the table is empty or even in places, from which {forecast.mechanism} would gain."


Words = Callable[[Case], str]


@dataclass(frozen=True)
class Rule:
    """Rule of the choice: condition and choice in the words of the page and as functions, and the texts shown."""

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
    """Number of cells, as a power of ten where it is huge."""
    return f"{cells:,}" if cells < 10**9 else f"about 10^{log10(cells):.0f}"


def _known(case: Case) -> str:
    """Error of the best data-independent mechanism, in words."""
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
        when=f"`sfumato` does not fit the schema, or no rows are stated for more than {MANY_CELLS:,} cells",
        takes="the exact one",
        applies=lambda case: case.adapting is UNKNOWN,
        taken=_best,
        why=lambda case: case.plain,
        unknown=lambda case: case.unsaid,
    ),
    Rule(
        when="no more error is to be expected of `sfumato` than the exact one has",
        takes="`sfumato`",
        applies=lambda case: case.adapting.overall <= case.best.overall,
        taken=lambda case: case.adapting.mechanism,
        why=lambda case: f"{case.hoped}, where {_known(case)} whatever the data",
        unknown=lambda case: case.unforeseen,
    ),
    Rule(
        when="otherwise",
        takes="the exact one",
        applies=lambda case: True,
        taken=_best,
        why=lambda case: f"{case.plain}; {case.adapting.mechanism} has {case.hoped}",
        unknown=lambda case: case.unforeseen,
    ),
)


def first_rule(case: Case) -> tuple[Rule, str]:
    """First rule that applies, and the mechanism that it chooses."""
    rule = next(rule for rule in RULES if rule.applies(case))
    return rule, rule.taken(case)
