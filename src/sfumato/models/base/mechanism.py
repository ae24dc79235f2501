"""What a mechanism of one purpose promises before any data is read: figures that `sfumato plan` shows.

What a user may state about a mechanism besides schema and budget: `--with name=value`, read by the types it says.

Options are public: they are written into the release, and into what the ledger knows a request by.

What a mechanism says about itself, as data: whoever needs to know asks the value, never the name.

Every mechanism's file ends with one, and the package says in one line where it is. A plain mechanism needs a name, a
summary and a function; all else has a default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from fractions import Fraction
from functools import cache, partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_type_hints

from sfumato.arrays import MOST_DENSE
from sfumato.domain import LARGEST_NUMBER
from sfumato.errors import MechanismError
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget
    from sfumato.kernel.curator import Curator
    from sfumato.queries import Workload
    from sfumato.queries.strategy import Strategy
    from sfumato.releases.contents.content import Content
    from sfumato.schema import Schema

ROWS = "rows"
LEAST_SHOWN = 1e-6


@dataclass(frozen=True)
class Figure:
    """One number. what: in words. unit: of the value."""

    what: str
    value: float
    unit: str = ROWS

    @property
    def shown(self) -> str:
        """Three figures are more than a promise deserves; what is counted is shown whole.

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
    """words: what no figure says, a sentence each."""

    figures: tuple[Figure, ...]
    words: tuple[str, ...] = ()


# Schema, budget, how sure figures are, and the workload where one is stated; options come by name.
Foretells = Callable[["Schema", "Budget", float, "Workload | None"], Promises]


def sure(confidence: float) -> str:
    """How sure a figure is, as it is said behind what it is.

    >>> sure(0.95)
    '95 % sure'
    """
    return f"{100 * confidence:g} % sure"


def with_rows(schema: Schema, *figures: Callable[[int], Figure]) -> tuple[Figure, ...]:
    """Figures that need to know about how many rows there are: none where the schema does not say."""
    rows = schema.expected_rows
    return () if not rows else tuple(figure(rows) for figure in figures)


def without_rows(schema: Schema, what: str) -> tuple[str, ...]:
    """What to do where such figures are missing."""
    return () if schema.expected_rows else (f"State expected_rows in the schema to see {what}.",)


def stated_options(given: Sequence[str]) -> dict[str, object]:
    """`name=value` texts by name; `name=@file` is what a file holds.

    >>> stated_options(["of=age", "quantiles=0.1,0.9"])
    {'of': 'age', 'quantiles': '0.1,0.9'}
    """
    found: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise MechanismError(f"--with takes name=value, such as --with target=income, not {text!r}")
        if name.strip() in found:
            raise MechanismError(f"--with states {name.strip()} twice; state it once")
        found[name.strip()] = _held(value.strip()[1:]) if value.strip().startswith("@") else value.strip()
    return found


def _held(path: str) -> str:
    """The text of a file: what it says is stated, so that a request is known again by it and not by its name."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise MechanismError(f"--with cannot read the file {path!r}; after name=@ stands the path of a text") from None


def read_options(mechanism: str, options: type[Any] | None, stated: Mapping[str, object]) -> Any:
    """The options of a mechanism as it says them; lists are texts with commas between."""
    known = {} if options is None else get_type_hints(options)
    values = {}
    for name, value in stated.items():
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "it takes none"
            raise MechanismError(f"{mechanism} has no option {name!r}; {there}")
        values[name] = _read(f"{mechanism}'s option {name}", known[name], value)
    assert options is not None  # noqa: S101 (nothing would have been known)
    return options(**values)


def as_texts(options: Any) -> dict[str, str]:
    """What was stated and what stands where nothing was, as it is written down; what is left open is left out."""
    every = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: _text(value) for name, value in every.items() if value is not None and value != ()}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str, kind: Any, value: object) -> object:
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
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))


def _said(value: object) -> str:
    return repr(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _words(kind: Any) -> str:
    text = str(kind)
    if "Literal" in text:
        return "one of " + text.partition("[")[2].partition("]")[0].replace("'", "")
    one = "a number" if "Fraction" in text or "float" in text else "a whole number" if "int" in text else "a text"
    one = "true or false" if "bool" in text else one
    return f"a list of these, with commas: {one}" if "tuple" in text else one


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
