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
class Mechanism:
    """A recipe that turns a private table into something to publish.

    strategy: for linear mechanisms, what they ask (schema, workload, whether the budget is pure epsilon); their error
    is known before any data is. paper: who it is from, as the README cites it. page: in docs/, by default its name.
    gaussian: whether it takes rho-zCDP too, besides pure epsilon.
    most_cells: that it lays out; None for one that publishes noisy cells as they are, which takes any number of them,
    as those that are too many to lay out are published above a threshold only. sparse: whether it always does that.
    by_margins: whether it lays out margins alone, so that it takes any number of attributes.
    refuses: why it does not fit for another reason, or None. answers: what can be asked of its release.
    checks_itself: whether it asks privately which queries or buckets suit the data, and so spends a part on measuring
    how far its own estimate is off, which no noise tells.
    optimised: whether its strategy is searched for, which takes long on many cells.
    for_auto: whether `auto` considers it; not one that others were never behind.
    error_if_full: for one that adapts to the table, about its error where there is nothing to adapt to.
    foretold: about its errors with as many rows as the schema states, where they depend on the table but not wholly.
    least_of_sums: for each measure, the least budget that any table of its sums is measured with, if that is settled
    beforehand; steps that a schema leaves out are filled in for it.
    work: about how many numbers in memory one release changes. It tells what a trial costs by public numbers alone, so
    that nothing in a plan depends on the clock.
    known_limits: where its 95 % intervals are known to hold too seldom; the audit checks each figure.
    remark: a sentence worth adding to a plan, from the expected errors of all that were priced, or None.
    example: for one with a purpose of its own, a small schema that suits it, for so many rows of a person: audits and
    tests try it there, with the options of `tried_with`. options: a frozen dataclass of what a user may state by
    `--with`; `run`, `refuses` and `promises` take one as `options=`. chosen: what was stated, as text.
    promises: for one with a purpose of its own, what a plan can say of it without data.
    """

    name: str
    summary: str
    run: Run
    strategy: Callable[[Schema, Workload, bool], Strategy] | None = None
    paper: str = ""
    page: str = ""
    gaussian: bool = False
    most_cells: int | None = MOST_DENSE
    sparse: bool = False
    by_margins: bool = False
    refuses: Refusal = fits_every_schema
    answers: Literal["everything", "its workload", "its own questions"] = "everything"
    checks_itself: bool = False
    optimised: bool = False
    for_auto: bool = True
    error_if_full: Callable[[Schema, Workload, Budget], float] | None = None
    foretold: Callable[[Schema, Budget], Foresight] | None = None
    least_of_sums: Callable[[Schema, Budget], Mapping[str, Budget]] | None = None
    work: Work = A_FEW_PASSES
    known_limits: tuple[Limit, ...] = ()
    remark: Remark | None = None
    example: Callable[[int], Schema] | None = None
    promises: Foretells | None = None
    options: type[Any] | None = None
    tried_with: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)

    def with_options(self, stated: Mapping[str, object]) -> Mechanism:
        """The same with what a user states: names of options, and values as text or of their own types."""
        from sfumato.models.base.options import as_texts, read_options

        if not stated:
            return self
        made = read_options(self.name, self.options, stated)

        def bound(said: Any) -> Any:
            return None if said is None else partial(said, options=made)

        run, refuses, promises = bound(self.run), bound(self.refuses), bound(self.promises)
        return replace(self, run=run, refuses=refuses, promises=promises, chosen=as_texts(made))

    @property
    def special(self) -> bool:
        """Whether it serves one purpose, on schemas that suit it."""
        return self.example is not None

    @property
    def error(self) -> Literal["exact", "simulated", "measured"]:
        """How its error is known: from the noise alone, by trials on public tables, or by its own measurement too."""
        if self.strategy is not None:
            return "exact"
        return "measured" if self.checks_itself else "simulated"

    @property
    def adaptive(self) -> bool:
        """Whether it decides as it goes what to ask next: `auto` tries it, and the audit replays its descents."""
        return self.error_if_full is not None

    @property
    def as_measured(self) -> bool:
        """Whether it publishes noisy cells as they are, with no estimate made from them."""
        return self.most_cells is None

    @property
    def docs(self) -> str:
        """The file of its page."""
        return f"{self.page or self.name}.md"

    def is_sparse(self, schema: Schema) -> bool:
        """Whether a schema's cells are published above a threshold only."""
        return not self.by_margins and (self.sparse or schema.domain.size > MOST_DENSE)

    def why_not(self, schema: Schema, workload: Workload | None = None) -> str | None:
        """Why it does not fit a schema and a workload, and what would; or None."""
        cells = schema.domain.size
        if self.by_margins or (cells <= (self.most_cells or LARGEST_NUMBER)):
            return self.refuses(schema, workload)
        if self.most_cells is None:
            return f"{self.name} numbers its cells, and about {cells:.0e} are too many; use margins"
        others = "hierarchical or cells" if cells <= MOST_DENSE else "sparse-cells, which lays none of them out"
        return f"{self.name} takes at most {self.most_cells:,} cells, there are {cells:,}; use {others}"

    def check(self, schema: Schema, workload: Workload | None = None) -> None:
        """Refuse, by name, what it does not fit."""
        if (reason := self.why_not(schema, workload)) is not None:
            named = reason.startswith(self.name)
            raise MechanismError(reason if named else f"{self.name} does not fit: {reason}")
