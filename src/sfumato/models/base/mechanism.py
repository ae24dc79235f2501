"""Declarative description of a mechanism: its function, the domains it accepts, its forecast and its options.

Every mechanism's file ends with a `Mechanism` value, and `sfumato.models` lists where it is. Code that needs to know
something of a mechanism asks this value, never the name. A plain mechanism needs a name, a summary and a function.
Options are what a user states by `--with name=value`, parsed by the types of a dataclass. They are public: written into
the release, and part of what the ledger identifies a request by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from fractions import Fraction
from functools import cache, partial
from math import exp, isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_type_hints

import numpy as np

from sfumato.arrays import MOST_DENSE
from sfumato.domain import LARGEST_NUMBER
from sfumato.domain.structural import MOST_CELLS as LARGEST_TABLE
from sfumato.errors import MechanismError
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget
    from sfumato.kernel.curator import Curator
    from sfumato.queries import Queries, Workload
    from sfumato.queries.strategy import Strategy
    from sfumato.releases.contents.content import Content
    from sfumato.schema import Schema

ROWS = "rows"
LEAST_SHOWN = 1e-6


@dataclass(frozen=True)
class Figure:
    """Number that a plan shows; what: its description, unit: its unit."""

    what: str
    value: float
    unit: str = ROWS

    @property
    def shown(self) -> str:
        """Text of the value: three significant digits, or whole where it is an integer or at least 100.

        >>> [Figure("", value).shown for value in (12345.6, 0.04567, 42, 1e-20)]
        ['12,346', '0.0457', '42', 'under 0.000001']
        """
        if not isfinite(self.value):
            return "more than there are"
        if self.value < LEAST_SHOWN:
            return f"under {LEAST_SHOWN:.6f}"
        whole = isinstance(self.value, int) or self.value >= 100
        return f"{self.value:,.0f}" if whole else f"{self.value:.3g}"


@dataclass(frozen=True)
class Promises:
    """Error figures of a plan, and sentences for errors that no figure expresses."""

    figures: tuple[Figure, ...]
    words: tuple[str, ...] = ()


# Schema, budget, how sure figures are, and the workload where one is stated; options come by name.
Foretells = Callable[["Schema", "Budget", float, "Workload | None"], Promises]


def sure(confidence: float) -> str:
    """Text of a confidence level, for figures of a plan.

    >>> sure(0.95)
    '95 % sure'
    """
    return f"{100 * confidence:g} % sure"


def with_rows(schema: Schema, *figures: Callable[[int], Figure]) -> tuple[Figure, ...]:
    """Figures that need the expected number of rows; none where the schema does not state it."""
    rows = schema.expected_rows
    return () if not rows else tuple(figure(rows) for figure in figures)


def without_rows(schema: Schema, what: str) -> tuple[str, ...]:
    """Advice to state the expected number of rows, where such figures are missing."""
    return () if schema.expected_rows else (f"State expected_rows in the schema to see {what}.",)


def stated_options(given: Sequence[str]) -> dict[str, object]:
    """Parse `name=value` texts into a mapping; the value `@file` stands for the file's contents.

    >>> stated_options(["of=age", "quantiles=0.1,0.9"])
    {'of': 'age', 'quantiles': '0.1,0.9'}
    """
    options: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise MechanismError(f"--with takes name=value, such as --with target=income, not {text!r}")
        if name.strip() in options:
            raise MechanismError(f"--with states {name.strip()} twice; state it once")
        options[name.strip()] = _held(value.strip()[1:]) if value.strip().startswith("@") else value.strip()
    return options


def _held(path: str) -> str:
    """Contents of an option's file: a request is identified by the contents and not by the file's name."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise MechanismError(f"--with cannot read the file {path!r}; after name=@ stands the path of a text") from None


def read_options(mechanism: str, options: type[Any] | None, stated: Mapping[str, object]) -> Any:
    """Parse stated options by the types of a mechanism's dataclass; lists are separated by commas."""
    types = {} if options is None else get_type_hints(options)
    values = {}
    for name, value in stated.items():
        if name not in types:
            there = f"there are {', '.join(types)}" if types else "it takes none"
            raise MechanismError(f"{mechanism} has no option {name!r}; {there}")
        values[name] = _read(f"{mechanism}'s option {name}", types[name], value)
    assert options is not None  # noqa: S101 (nothing would have been known)
    return options(**values)


def as_texts(options: Any) -> dict[str, str]:
    """Options as they are written down, defaults included and empty ones left out."""
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    return {name: _text(value) for name, value in values.items() if value is not None and value != ()}


def _text(value: object) -> str:
    """Text of one option's value."""
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str, kind: Any, value: object) -> object:
    """Validate one option's value against its type."""
    from pydantic import ValidationError

    many = "tuple" in str(kind)
    try:
        if isinstance(value, str) and many:
            value = [part.strip() for part in value.split(",") if part.strip()]
        if "Fraction" in str(kind):
            value = [Fraction(str(each)) for each in value] if many else Fraction(str(value))  # type: ignore[attr-defined]
        return _checker(kind).validate_python(value)
    except (ValidationError, ValueError, TypeError, ZeroDivisionError):
        raise MechanismError(f"{name} cannot be {_said(value)}; it takes {_words(kind)}") from None


@cache
def _checker(kind: Any) -> Any:
    """Validator of a type."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))


def _said(value: object) -> str:
    """Stated value, for an error message."""
    return repr(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _words(kind: Any) -> str:
    """Description of a type in words, for an error message."""
    text = str(kind)
    if "Literal" in text:
        return "one of " + text.partition("[")[2].partition("]")[0].replace("'", "")
    single = "a number" if "Fraction" in text or "float" in text else "a whole number" if "int" in text else "a text"
    single = "true or false" if "bool" in text else single
    return f"a list of these, with commas: {single}" if "tuple" in text else single


Refusal = Callable[["Schema", "Workload | None"], "str | None"]
Work = Callable[["Schema", "Workload", "Budget", int], int]  # schema, workload, budget, about how many rows
Remark = Callable[[Mapping[str, float], "Schema", "Workload"], "str | None"]


class Run(Protocol):
    """Function from curator, schema, budget and workload to the content to publish; it spends the whole budget."""

    def __call__(self, c: Curator, s: Schema, b: Budget, w: Workload | None = None, /) -> Content: ...


def fits_every_schema(schema: Schema, workload: Workload | None) -> str | None:
    """Refuse nothing: default of `Mechanism.refuses`, for mechanisms limited only by the size of the domain."""
    return None


def per_cell(updates: int) -> Work:
    """Cost in proportion to the number of cells.

    updates: updates of a number in memory for each cell, estimated from release times at about 64 per microsecond.
    """

    def work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
        return updates * schema.domain.size

    return work


A_FEW_PASSES = per_cell(128)


@dataclass(frozen=True)
class Limit:
    """Known undercoverage of 95 % intervals: table of the audit, kind of query, and observed coverage."""

    table: str
    kind: str
    covered: float


@dataclass(frozen=True)
class Foresight:
    """Expected errors, in rows: of one value of each attribute (noise alone), by kind of query, and of any queries.

    of_block: root mean square error over a block of queries. of_sums: of each measure's total, each
    row counted from the middle of its bounds, in the measure's unit.
    """

    one_way: Mapping[str, float]
    by_kind: Mapping[str, float]
    of_block: Callable[[Queries], float]
    of_sums: Mapping[str, float] = field(default_factory=dict)

    def overall(self, workload: Workload | None) -> float:
        """Error over a workload; where none can be written down, the geometric mean over kinds of query."""
        if workload is None:
            return exp(sum(map(log, self.by_kind.values())) / len(self.by_kind))
        return workload.overall(np.array([self.of_block(block) for block in workload.blocks]))


@dataclass(frozen=True)
class Holds:
    """Domains that a mechanism can hold in memory.

    most_cells: that it lays out; None for a mechanism that publishes noisy cells as they are and takes any number:
    those that are too many to lay out are published above a threshold only.
    sparse: whether it always publishes cells above a threshold only.
    by_margins: whether it lays out margins alone, so that it takes any number of attributes.
    zeros: whether its contents can have 0 in cells that a schema calls impossible; others refuse such schemas.
    most_with_zeros: cells, possible or not, that it takes where some are impossible; None for any number.
    """

    most_cells: int | None = MOST_DENSE
    sparse: bool = False
    by_margins: bool = False
    zeros: bool = False
    most_with_zeros: int | None = None


class ErrorIfFull(Protocol):
    """Error on a dense table, from schema, workload served and budget: over that workload, or a second one, `of`."""

    def __call__(self, s: Schema, w: Workload, b: Budget, /, *, of: Workload | None = None) -> float: ...


@dataclass(frozen=True)
class Forecast:
    """Expected error and cost of a mechanism before any data is read, for plans and for `auto`.

    strategy: of a linear mechanism, the queries that it measures (schema, workload, whether the budget is pure
    epsilon). Its expected error is exact.
    checks_itself: whether it selects queries or buckets privately, and so spends a part of the budget on measuring the
    error of its own estimate, which the noise alone does not tell.
    error_if_full: of an adaptive mechanism, its approximate error on a dense table, where there is nothing to adapt to:
    over the workload that it serves, or over a second one.
    foretold: approximate errors for the number of rows that the schema states, where these depend on the table in part.
    promises: of a mechanism with one purpose, the figures of its plan.
    least_of_sums: for each measure, the least budget that any table of its sums is measured with, if that is fixed
    before data is read; a measure's step that a schema leaves out is chosen so that this noise can be drawn.
    optimised: whether its strategy is searched for, which takes long on many cells.
    work: approximate number of numbers in memory that one release changes: the cost of a trial by public quantities
    alone, so that nothing in a plan depends on the clock.
    remark: a sentence to add to a plan, from the expected errors of all mechanisms that were priced, or None.
    for_auto: whether `auto` considers it; not where another mechanism was always at least as good.
    """

    strategy: Callable[[Schema, Workload, bool], Strategy] | None = None
    checks_itself: bool = False
    error_if_full: ErrorIfFull | None = None
    foretold: Callable[[Schema, Budget, Workload | None], Foresight] | None = None
    promises: Foretells | None = None
    least_of_sums: Callable[[Schema, Budget], Mapping[str, Budget]] | None = None
    optimised: bool = False
    work: Work = A_FEW_PASSES
    remark: Remark | None = None
    for_auto: bool = True


@dataclass(frozen=True)
class Lab:
    """Settings with which audits and tests run a mechanism.

    example: for a mechanism with one purpose, a small schema that suits it, by the number of rows of a person.
    tried_with: options for it.
    known_limits: where its 95 % intervals are known to undercover; the audit checks each.
    """

    example: Callable[[int], Schema] | None = None
    tried_with: Mapping[str, str] = field(default_factory=dict)
    known_limits: tuple[Limit, ...] = ()


@dataclass(frozen=True)
class Mechanism:
    """Recipe that turns a private table into something to publish.

    paper: citation, as in the README.
    page: in docs/, by default its name.
    gaussian: whether it takes rho-zCDP besides pure epsilon.
    refuses: reason why it does not fit a schema other than the size of the domain, or None.
    answers: what can be asked of its release.
    options: a frozen dataclass of what a user may state by `--with`; `run`, `refuses` and the forecast's `promises`
    take one as `options=`.
    chosen: stated options, as text.
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
        """Mechanism with stated options bound: names, and values as text or of their own types."""

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
        """Whether the mechanism has a single purpose, on schemas that suit it."""
        return self.lab.example is not None

    @property
    def error(self) -> Literal["exact", "simulated", "measured"]:
        """Source of its expected error: exact from the noise, simulated on public tables, or measured by itself."""
        if self.forecast.strategy is not None:
            return "exact"
        return "measured" if self.forecast.checks_itself else "simulated"

    @property
    def adaptive(self) -> bool:
        """Whether earlier noisy counts decide later queries: `auto` tries it, and the audit replays its descents."""
        return self.forecast.error_if_full is not None

    @property
    def as_measured(self) -> bool:
        """Whether it publishes noisy cells without an estimate made from them."""
        return self.holds.most_cells is None

    @property
    def docs(self) -> str:
        """File name of the mechanism's page in docs/."""
        return f"{self.page or self.name}.md"

    def serves(self, workload: Workload | None) -> Workload | None:
        """Workload passed to `run`: only the named queries for a mechanism that measures queries themselves."""
        return workload if workload is None or self.answers == "everything" else workload.asked

    def is_sparse(self, schema: Schema) -> bool:
        """Whether a schema's cells are published above a threshold only."""
        return not self.holds.by_margins and (
            self.holds.sparse or schema.domain.size > max(MOST_DENSE, self.holds.most_cells or 0)
        )

    def respects(self, schema: Schema) -> bool:
        """Whether what it publishes can have 0 in every cell that a schema calls impossible."""
        fits = schema.domain.size <= (self.holds.most_with_zeros or schema.domain.size)
        counted = schema.structure is None or schema.structure.countable or not self.is_sparse(schema)
        return fits and counted and self.holds.zeros

    def agrees(self, schema: Schema) -> bool:
        """Whether its estimates can agree with a schema's public counts; margins can with those of one attribute."""
        shown = self.answers == "everything" and not self.special and not self.is_sparse(schema)
        alone = all(len(names) < 2 for names in _stated(schema))
        return shown and ((self.holds.zeros and alone) or not self.holds.by_margins)

    def why_not(self, schema: Schema, workload: Workload | None = None) -> str | None:
        """Reason why it does not fit a schema and a workload, with an alternative; or None."""
        cells = schema.domain.size
        if schema.structure is not None and not self.respects(schema):
            most, sparse = self.holds.most_with_zeros, self.holds.zeros and self.is_sparse(schema)
            beyond = "" if most is None else f" in more than {most:,} cells"
            beyond = f" about attributes of more than {LARGEST_TABLE:,} cells together" if sparse else beyond
            others = "use margins, or drop some" if sparse else "use sfumato, cells or margins, or drop them"
            return f"{self.name} cannot respect `impossible` and `follows`{beyond}; {others}"
        if schema.weight is not None and (self.special or self.is_sparse(schema)):
            return (
                f"{self.name} counts rows one by one and not by their weights; use margins or cells, or drop `weight`"
            )
        if _stated(schema) and not self.agrees(schema):
            stated = "invariants" if schema.invariants else "facts"
            return f"{self.name} cannot agree with `{stated}`{_remedy_for_facts(schema)}"
        if self.holds.by_margins or (cells <= (self.holds.most_cells or LARGEST_NUMBER)):
            return self.refuses(schema, workload)
        if self.holds.most_cells is None:
            return f"{self.name} numbers its cells, and about {cells:.0e} are too many; use margins"
        others = "hierarchical or cells" if cells <= MOST_DENSE else "sparse-cells, which lays none of them out"
        return f"{self.name} takes at most {self.holds.most_cells:,} cells, there are {cells:,}; use {others}"

    def check(self, schema: Schema, workload: Workload | None = None) -> None:
        """Raise MechanismError where the mechanism does not fit a schema and workload."""
        if (reason := self.why_not(schema, workload)) is not None:
            named = reason.startswith(self.name)
            raise MechanismError(reason if named else f"{self.name} does not fit: {reason}")


def _stated(schema: Schema) -> Sequence[Sequence[object]]:
    """Attributes of each table of public counts that estimates must agree with: of `invariants`, or of known facts."""
    return schema.exact_sets or [fact.places for fact in schema.known]


def _remedy_for_facts(schema: Schema) -> str:
    """End of a refusal: the mechanisms that agree with the facts of a schema."""
    if any(len(names) > 1 for names in _stated(schema)):
        return " by several attributes together; use cells or sfumato, or count by one attribute"
    return "; use cells, sfumato or margins, or drop them"
