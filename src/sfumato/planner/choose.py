"""Choose a mechanism without reading data: forecast the error of those that fit, and apply the rules in order.

Rules by which `auto` chooses a mechanism: an ordered list, the first that applies decides.

They are the table of docs/planning.md, in the same words. No rule depends on data: the error of a mechanism with
data-independent noise is known exactly, and an adaptive one has one forecast (forecast.py), which a plan prints too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from math import inf, isfinite, log10

from sfumato.arrays import MOST_DENSE
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, Cost
from sfumato.models import MECHANISMS, considered, sparse_mechanism
from sfumato.models.base.mechanism import Foresight, Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.forecast import Outlook, Question, Tried, expected_error, noise_of_one_query, outlook, takes_long
from sfumato.queries import Workload, default_workload
from sfumato.schema import Schema

ALIKE = 1.01  # times the least error is as good, and then the plainer mechanism is preferred
NEXT_TO_BEST = 2  # times the noise on one query that spends everything: little is left to gain for anyone
MOST_ADAPTED = 5  # attributes up to which an adaptive mechanism is weighed against marginals
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
        """Mechanism that measures marginals alone; None below three attributes, or a workload alone over few cells."""
        usual = self.cells > MOST_DENSE or self.workload is default_workload(self.schema.domain) or self.tilted
        if len(self.schema.domain.axes) < 3 or not usual:
            return None
        return next(one for one in considered() if one.holds.by_margins and one.forecast.foretold is not None)

    @property
    def tilted(self) -> bool:
        """Whether the workload combines stated queries with the default workload."""
        return self.workload is not None and bool(self.workload.named)

    @cached_property
    def _foresight(self) -> Foresight | None:
        mechanism = self.by_margins
        if mechanism is None or mechanism.forecast.foretold is None:
            return None
        return mechanism.forecast.foretold(self.schema, self.budget, self.workload)

    @cached_property
    def of_margins(self) -> float:
        """Forecast error of the mechanism `by_margins`; inf where there is none."""
        workload = None if self.cells > MOST_DENSE else self.workload
        return inf if self._foresight is None else self._foresight.overall(workload)

    @cached_property
    def otherwise(self) -> float:
        """Least forecast error that `by_margins` has to be below: of the best exact mechanism, or an adaptive one.

        The latter of few attributes only. Of more its error over the workload is that of cells that nobody asks for:
        counts in two ranges are off by 1.2 to 5 times as much as those of margins (docs/planning.md).
        """
        few = len(self.schema.domain.axes) <= MOST_ADAPTED
        return min(self.best.overall, self.adapting.overall) if few else self.best.overall

    @cached_property
    def margins_do(self) -> bool:
        """Whether marginals have the least error, or, if tilted, little, and less than `best` on the unnamed part."""
        if self._foresight is None or self.of_margins <= self.otherwise:
            return self._foresight is not None
        if not self.tilted or self.workload is None or self.of_margins > NEXT_TO_BEST * self.one_query:
            return False
        mine = self._foresight.overall(self.workload.asked)
        return self._elsewhere(self.of_margins, mine) < self._elsewhere(self.best.overall, self.best.named)

    def _elsewhere(self, overall: float, named: float) -> float:
        """Mean square error over the unnamed part of a tilted workload, times that part's share.

        overall, named: errors over the whole workload and over its named part.
        """
        assert self.workload is not None  # noqa: S101 (it is tilted)
        share = sum(self.workload.weights[: self.workload.named]) / len(self.workload.weights)
        return overall**2 - share * named**2

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
    """Rule of the choice: condition and mechanism, in words of docs/planning.md and as functions; texts of a plan."""

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
        when=(
            f"the exact one has at most {NEXT_TO_BEST} times the noise on a single query that spends everything (with "
            "a `--workload`: and `margins` has more)"
        ),
        takes="the exact one: nobody could do much better",
        applies=lambda case: (
            case.best.overall <= NEXT_TO_BEST * case.one_query and not (case.tilted and case.margins_do)
        ),
        taken=_best,
        why=lambda case: (
            f"{as_rows(case.best.overall)} rows a query whatever the data, where a single query that spends everything "
            f"has {as_rows(case.one_query)}: nobody could do much better"
        ),
        unknown=lambda case: "Whether the table is empty or even in places, from which little could be gained here.",
    ),
    Rule(
        when=(
            "there are three attributes or more, no workload stands alone, and about as much error is to be expected "
            f"of `margins` as of any other (beyond {MOST_ADAPTED} attributes: as of the exact one), or less (with a "
            f"`--workload`: or at most {NEXT_TO_BEST} times that noise, and less than of the exact one on what nobody "
            "named)"
        ),
        takes="`margins`",
        applies=lambda case: case.margins_do,
        taken=lambda case: _margins(case).name,
        why=lambda case: (
            f"about {as_rows(case.of_margins)} rows a query to be expected {case.rows}, where {_known(case)} whatever "
            f"the data{', and more than it on all that nobody named' * (case.of_margins > case.otherwise)}"
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


# -- choice


HOPE = 0.85  # of the least error otherwise: the least that a search over one or two attributes ever found
WORTH_IT = 0.95  # times the error of what is taken: with less, what was left aside is worth a hint

ONLY_THE_WORKLOAD = (
    "With it, what does not follow from the queries of the workload has no answer in the release, "
    "so it is taken by name only."
)


@dataclass(frozen=True)
class Choice:
    """Recommended mechanism, the reason, and what cannot be known without the data.

    expected: the error that the choice rests on, in rows a query as the workload weighs them; inf where none is known.
    """

    name: str
    why: str
    unknown: str
    expected: float = inf


def choose_for(
    schema: Schema, cost: Cost, workload: Workload | None = None, tried: Tried | None = None
) -> tuple[Choice, Cost]:
    """Mechanism of least expected error and its cost: a delta only where Gaussian noise has less error."""
    plain = choose_mechanism(schema, cost.without_delta.budget, workload, tried)
    if not cost.pure:
        allowed = choose_mechanism(schema, cost.budget, workload, tried)
        if MECHANISMS[allowed.name].gaussian and allowed.expected < plain.expected:
            return allowed, cost
    return plain, cost.without_delta


def choose_mechanism(
    schema: Schema, budget: Budget, workload: Workload | None = None, tried: Tried | None = None
) -> Choice:
    """Mechanism of least expected error; reads no data and spends nothing.

    tried: simulations of this schema and workload made so far, extended in place.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> choose_mechanism(schema, Budget.pure(1)).name in MECHANISMS
    True
    """
    if tried is not None:
        return _chosen(schema, budget, workload, tried)
    return _remembered(json.dumps(schema.to_dict()), budget, workload)


@lru_cache(maxsize=64)
def _remembered(written: str, budget: Budget, workload: Workload | None) -> Choice:
    """Choice for a schema given as JSON text, cached."""
    return _chosen(Schema.from_dict(json.loads(written)), budget, workload, {})


def _chosen(schema: Schema, budget: Budget, workload: Workload | None, tried: Tried) -> Choice:
    """Choice from forecasts of all mechanisms that fit schema, workload and budget."""
    schema = schema.in_rows
    if schema.domain.size > MOST_DENSE:
        return choose_among([], schema, budget, workload)
    queries = workload or default_workload(schema.domain)
    question = Question(schema, (), queries, trials=tried)
    fitting = [one for one in considered() if _may_take(one, schema, queries)]
    if not budget.is_pure:
        fitting = [one for one in fitting if one.gaussian] or fitting[:1]
    plain = [one for one in fitting if not one.forecast.optimised]
    outlooks = [found for one in plain if (found := _exact_forecast(one, question, budget)) is not None]
    if schema.expected_rows is not None or schema.domain.size <= MANY_CELLS:
        outlooks += [outlook(one, question, budget) for one in plain if one.adaptive]
    searched = [one for one in fitting if one.forecast.optimised]
    if searched and _could_win(outlooks, schema, budget, queries):
        outlooks += [found for one in searched if (found := _exact_forecast(one, question, budget)) is not None]
    return choose_among(outlooks, schema, budget, queries)


def _may_take(mechanism: Mechanism, schema: Schema, workload: Workload) -> bool:
    """Whether `auto` may take a mechanism: it answers everything, fits, and its error can be forecast."""
    wanted = mechanism.forecast.for_auto and mechanism.answers == "everything"
    return (
        wanted
        and (mechanism.forecast.strategy is not None or mechanism.adaptive)
        and not mechanism.why_not(schema, workload)
    )


def _could_win(outlooks: list[Outlook], schema: Schema, budget: Budget, workload: Workload) -> bool:
    """Whether an optimised strategy could win if it were as much better (HOPE) as any has ever been."""
    if len(schema.domain.shape) > 2:
        return True
    hoped = [replace(found, overall=HOPE * found.overall) if found.how == "exact" else found for found in outlooks]
    taken = first_rule(Case(hoped, schema, budget, workload))[1]
    return not MECHANISMS[taken].adaptive


def choose_among(outlooks: list[Outlook], schema: Schema, budget: Budget, workload: Workload | None) -> Choice:
    """Apply the rules to the forecasts."""
    case = Case(outlooks, schema, budget, workload)
    rule, name = first_rule(case)
    expected = next((found.overall for found in outlooks if found.mechanism == name), inf)
    if case.by_margins is not None and name == case.by_margins.name:
        expected = case.of_margins
    return Choice(name, rule.why(case), f"{rule.unknown(case)} {PRIVATE}", expected)


def with_hints(choice: Choice, outlooks: Sequence[Outlook]) -> Choice:
    """Add hints on mechanisms with less error that `auto` does not take."""
    unknown = choice.unknown
    asked = next((found.named for found in outlooks if found.mechanism == choice.name), choice.expected)
    bound = [found for found in outlooks if MECHANISMS[found.mechanism].answers == "its workload"]
    if bound and (least := min(bound, key=lambda found: found.named)).named < WORTH_IT * asked:
        unknown += f" {least.mechanism} would have {as_rows(least.named)} rows on these queries. {ONLY_THE_WORKLOAD}"
    better = [(found, MECHANISMS[found.mechanism]) for found in outlooks if found.overall < WORTH_IT * choice.expected]
    if aside := [found for found, mechanism in better if found.how == "simulated" and not mechanism.adaptive]:
        listed = ", ".join(f"{found.mechanism} ({as_rows(found.overall)} rows)" for found in aside)
        unknown += f" On the public shapes {listed} did better; ask by name if your table is like them."
    return replace(choice, unknown=unknown)


def _exact_forecast(mechanism: Mechanism, question: Question, budget: Budget) -> Outlook | None:
    """Exact error of a mechanism, where it does not depend on the data and is quickly computed; None otherwise."""
    if takes_long(mechanism, question) is not None:
        return None
    try:
        return expected_error(mechanism, question, budget)
    except SfumatoError:  # one that cannot be priced here cannot be recommended either
        return None
