"""What a mechanism says about itself, as data: whoever needs to know asks the value, never the name.

Every mechanism's file ends with one, and the package says in one line where it is. A plain mechanism needs a name, a
summary and a function; all else has a default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sfumato.domain import LARGEST_NUMBER
from sfumato.errors import MechanismError
from sfumato.frozen import dataclass
from sfumato.limits import MOST_DENSE

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget
    from sfumato.kernel.curator import Curator
    from sfumato.models.base.promises import Foretells
    from sfumato.queries import Workload
    from sfumato.queries.strategy import Strategy
    from sfumato.releases.contents.content import Content
    from sfumato.schema import Schema

Refusal = Callable[["Schema", "Workload | None"], "str | None"]
Work = Callable[["Schema", "Workload", "Budget", int], int]  # schema, workload, budget, about how many rows
Remark = Callable[[Mapping[str, float], "Schema", "Workload"], "str | None"]


class Run(Protocol):
    """From a curator, a schema, a budget and perhaps a workload to what is published; the budget is spent in full."""

    def __call__(self, c: Curator, s: Schema, b: Budget, w: Workload | None = None, /) -> Content: ...


def fits_every_schema(schema: Schema, workload: Workload | None) -> str | None:
    """Nothing is refused but too many cells."""
    return None


def per_cell(updates: int) -> Work:
    """Work in proportion to the cells.

    updates: of a number in memory, for each cell; from release times, a microsecond being about 64 of them.
    """

    def work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
        return updates * schema.domain.size

    return work


A_FEW_PASSES = per_cell(128)


@dataclass(frozen=True)
class Limit:
    """Intervals known to hold too seldom: on which table of the audit, for which kind of question, and how often."""

    table: str
    kind: str
    covered: float


@dataclass(frozen=True)
class Foresight:
    """Errors to expect, in rows: on what everybody asks, of one value of each attribute, and by kind of question."""

    overall: float
    one_way: Mapping[str, float]
    by_kind: Mapping[str, float]


@dataclass(frozen=True)
class Holds:
    """The domains that a mechanism can hold in memory.

    most_cells: that it lays out; None for one that publishes noisy cells as they are, which takes any number of them:
    those that are too many to lay out are published above a threshold only.
    sparse: whether it always publishes cells above a threshold only.
    by_margins: whether it lays out margins alone, so that it takes any number of attributes.
    """

    most_cells: int | None = MOST_DENSE
    sparse: bool = False
    by_margins: bool = False


@dataclass(frozen=True)
class Forecast:
    """Knowledge about a mechanism's error and cost before any data is read, for plans and for `auto`.

    strategy: of a linear mechanism, the queries that it measures (schema, workload, whether the budget is pure
    epsilon). Its error is known exactly.
    checks_itself: whether it asks privately which queries or buckets suit the data, and so spends a part on measuring
    how far its own estimate is off, which no noise tells.
    error_if_full: of an adaptive one, about its error where there is nothing to adapt to.
    foretold: about its errors with as many rows as the schema states, where they depend on the table but not wholly.
    promises: of one with a purpose of its own, what a plan can say of it.
    least_of_sums: for each measure, the least budget that any table of its sums is measured with, if that is settled
    beforehand; steps that a schema leaves out are filled in for it.
    optimised: whether its strategy is searched for, which takes long on many cells.
    work: about how many numbers in memory one release changes. It tells what a trial costs by public numbers alone, so
    that nothing in a plan depends on the clock.
    remark: a sentence worth adding to a plan, from the expected errors of all that were priced, or None.
    for_auto: whether `auto` considers it; not one that others were never behind.
    """

    strategy: Callable[[Schema, Workload, bool], Strategy] | None = None
    checks_itself: bool = False
    error_if_full: Callable[[Schema, Workload, Budget], float] | None = None
    foretold: Callable[[Schema, Budget], Foresight] | None = None
    promises: Foretells | None = None
    least_of_sums: Callable[[Schema, Budget], Mapping[str, Budget]] | None = None
    optimised: bool = False
    work: Work = A_FEW_PASSES
    remark: Remark | None = None
    for_auto: bool = True


@dataclass(frozen=True)
class Lab:
    """How audits and tests try a mechanism.

    example: for one with a purpose of its own, a small schema that suits it, for so many rows of a person.
    tried_with: options that it is tried with there.
    known_limits: where its 95 % intervals are known to hold too seldom; the audit checks each figure.
    """

    example: Callable[[int], Schema] | None = None
    tried_with: Mapping[str, str] = field(default_factory=dict)
    known_limits: tuple[Limit, ...] = ()


@dataclass(frozen=True)
class Mechanism:
    """A recipe that turns a private table into something to publish.

    paper: who it is from, as the README cites it. page: in docs/, by default its name.
    gaussian: whether it takes rho-zCDP too, besides pure epsilon.
    refuses: why it does not fit for another reason than the size of the domain, or None.
    answers: what can be asked of its release.
    options: a frozen dataclass of what a user may state by `--with`; `run`, `refuses` and the forecast's `promises`
    take one as `options=`. chosen: what was stated, as text.
    """

    name: str
    summary: str
    run: Run
    paper: str = ""
    page: str = ""
    gaussian: bool = False
    holds: Holds = Holds()
    refuses: Refusal = fits_every_schema
    answers: Literal["everything", "its workload", "its own questions"] = "everything"
    forecast: Forecast = Forecast()
    options: type[Any] | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    lab: Lab = Lab()

    def with_options(self, stated: Mapping[str, object]) -> Mechanism:
        """The same with what a user states: names of options, and values as text or of their own types."""
        from sfumato.models.base.options import as_texts, read_options

        if not stated:
            return self
        made = read_options(self.name, self.options, stated)

        def bound(said: Any) -> Any:
            return None if said is None else partial(said, options=made)

        forecast = replace(self.forecast, promises=bound(self.forecast.promises))
        run, refuses = bound(self.run), bound(self.refuses)
        return replace(self, run=run, refuses=refuses, forecast=forecast, chosen=as_texts(made))

    @property
    def special(self) -> bool:
        """Whether it serves one purpose, on schemas that suit it."""
        return self.lab.example is not None

    @property
    def error(self) -> Literal["exact", "simulated", "measured"]:
        """How its error is known: from the noise alone, by trials on public tables, or by its own measurement too."""
        if self.forecast.strategy is not None:
            return "exact"
        return "measured" if self.forecast.checks_itself else "simulated"

    @property
    def adaptive(self) -> bool:
        """Whether it decides as it goes what to ask next: `auto` tries it, and the audit replays its descents."""
        return self.forecast.error_if_full is not None

    @property
    def as_measured(self) -> bool:
        """Whether it publishes noisy cells as they are, with no estimate made from them."""
        return self.holds.most_cells is None

    @property
    def docs(self) -> str:
        """The file of its page."""
        return f"{self.page or self.name}.md"

    def is_sparse(self, schema: Schema) -> bool:
        """Whether a schema's cells are published above a threshold only."""
        return not self.holds.by_margins and (self.holds.sparse or schema.domain.size > MOST_DENSE)

    def why_not(self, schema: Schema, workload: Workload | None = None) -> str | None:
        """Why it does not fit a schema and a workload, and what would; or None."""
        cells = schema.domain.size
        if self.holds.by_margins or (cells <= (self.holds.most_cells or LARGEST_NUMBER)):
            return self.refuses(schema, workload)
        if self.holds.most_cells is None:
            return f"{self.name} numbers its cells, and about {cells:.0e} are too many; use margins"
        others = "hierarchical or cells" if cells <= MOST_DENSE else "sparse-cells, which lays none of them out"
        return f"{self.name} takes at most {self.holds.most_cells:,} cells, there are {cells:,}; use {others}"

    def check(self, schema: Schema, workload: Workload | None = None) -> None:
        """Refuse, by name, what it does not fit."""
        if (reason := self.why_not(schema, workload)) is not None:
            named = reason.startswith(self.name)
            raise MechanismError(reason if named else f"{self.name} does not fit: {reason}")
