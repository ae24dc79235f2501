"""The kinds of attribute a schema can declare, and the cells each of them gives.

Bounds, bins and cuts are kept as the exact fractions that were written and rounded only once, when they become the
edges of cells: the third edge of a number cut in tenths is the very float that a reader gets by writing 0.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise
from operator import floordiv, truediv
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sfumato.arrays import Codes, Floats
from sfumato.domain import EPOCH, Axis
from sfumato.errors import SchemaError
from sfumato.schema.values import (
    EXACT_IN_A_FLOAT,
    ColumnName,
    Count,
    Day,
    Exact,
    ExactCuts,
    Flag,
    PositiveExact,
    Values,
    Whole,
    WholeCuts,
    check_order,
    decimal,
    exact,
    shown,
)

MOST_CELLS_OF_AN_AXIS = 10_000_000
OTHER = "other"

Grid = tuple[int, int, int]


class Declared(BaseModel):
    """A part of the schema: frozen, and without keys that nobody asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)  # for Fraction


class Column(Declared):
    """A part of the schema that reads one column: the one of its own name, unless `column` names another."""

    column: ColumnName = ""  # the schema fills in the name


class _Binned(Column):
    """Numbers from lower to upper, cut into cells by `bins` (how many), `width` (how wide) or `cuts` (where)."""

    needs_rule: ClassVar[bool] = False
    lower: int | Fraction
    upper: int | Fraction
    bins: Count | None = None
    width: int | Fraction | None = None
    cuts: tuple[int | Fraction, ...] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_order(self.lower, self.upper)
        rules = [key for key in ("bins", "width", "cuts") if getattr(self, key) is not None]
        if len(rules) > 1:
            raise ValueError(f"has {' and '.join(rules)}; keep one of them")
        if self.needs_rule and not rules:
            raise ValueError("is a number without cells; add bins (how many), width (how wide) or cuts (a list)")
        if self.width is not None and self.width > self._end - self.lower:
            raise ValueError(f"has a width of {shown(self.width)}, more than all values span; make it smaller")
        edges = [self.lower, *(self.cuts or ()), self._end]
        if any(low >= high for low, high in pairwise(edges)):
            raise ValueError("has cuts out of order; list them from small to large, each once, between lower and upper")
        _check_size(self.size, "gather values in fewer, wider cells with bins or width")
        return self

    @property
    def _end(self) -> int | Fraction:
        """Where the last cell ends."""
        return self.upper

    @property
    def _step(self) -> Fraction:
        return Fraction(self._end - self.lower) / self.bins if self.bins else Fraction(self.width or 1)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.cuts) + 1 if self.cuts is not None else math.ceil((self._end - self.lower) / self._step)

    @property
    def grid(self) -> Grid | None:
        """(a, b, den) with cell i starting at (a + i * b) / den, if cells are evenly spaced and floats hold all of it.

        The last edge is where the values end, which may come before the next place of the grid.
        """
        return self._spacing if self._held and self.cuts is None else None

    @property
    def _spacing(self) -> Grid:
        den = math.lcm(self.lower.denominator, self._step.denominator)
        return int(self.lower * den), int(self._step * den), den

    @property
    def _held(self) -> bool:
        a, b, den = self._spacing
        return max(abs(a) + self.size * b, den) <= EXACT_IN_A_FLOAT

    def _edges(self, divide: Callable[[Any, int], Any]) -> Floats:
        if self.cuts is not None:
            return _floats((self.lower, *self.cuts, self._end))
        (a, b, den), size = self._spacing, self.size
        if self._held:  # by whole numbers that floats hold, so that NumPy's one division rounds correctly
            places = np.arange(size + 1, dtype=np.int64)
            places *= b  # in place, for there may be ten million
            places += a
            places = divide(places, den)
            edges = np.asarray(places, dtype=np.float64)
        else:  # Python's division of whole numbers always does
            edges = np.fromiter((divide(a + i * b, den) for i in range(size + 1)), np.float64, size + 1)
        edges[-1] = float(self._end)
        edges.setflags(write=False)
        return edges


class Integer(_Binned):
    """Whole numbers from lower to upper, one cell each unless `bins`, `width` or `cuts` gathers them.

    >>> Integer(lower=0, upper=99, cuts=(18, 65)).axis("age").labels()
    ['0 to 17', '18 to 64', '65 to 99']
    """

    type: Literal["integer"] = "integer"
    lower: Whole
    upper: Whole
    width: Count | None = None
    cuts: WholeCuts | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        values = self._end - self.lower
        if self.bins is not None and self.bins > values:
            raise ValueError(f"has {self.bins} bins for {values} whole numbers; use at most {values} bins")
        return self

    @property
    def _end(self) -> int:
        return self.upper + 1

    @property
    def grid(self) -> Grid | None:
        """As for any number; uneven bins of whole numbers have none."""
        return super().grid if self._step.denominator == 1 else None

    def axis(self, name: str) -> Axis:
        """The numbered cells; bins are as equal as whole numbers allow."""
        return Axis(name, "integer", self._edges(floordiv))


class Number(_Binned):
    """Real numbers from lower to upper, both included, in cells given by `bins`, `width` or `cuts`.

    >>> float(Number(lower=Fraction(0), upper=Fraction(1), width=exact("0.1")).axis("share").edges[3])
    0.3
    """

    needs_rule: ClassVar[bool] = True
    type: Literal["number"] = "number"
    lower: Exact
    upper: Exact
    width: PositiveExact | None = None
    cuts: ExactCuts | None = None

    def axis(self, name: str) -> Axis:
        """The numbered cells; the last one includes upper."""
        edges = self._edges(truediv)
        if not (edges[1:] > edges[:-1]).all():
            raise SchemaError(
                f"attributes.{name} has cells so narrow that floating-point numbers cannot tell their edges apart; "
                "use fewer bins, a larger width or cuts further apart"
            )
        return Axis(name, "number", edges)


class Category(Column):
    """One of the listed values; rows with another are left out, or gathered in a last cell with `other: true`.

    >>> Category(values=("F", "M"), other=True).axis("sex").labels()
    ['F', 'M', 'other']
    """

    type: Literal["category"] = "category"
    values: Values
    other: Flag = False

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        seen: set[str] = set()
        for label in self.listed:
            if label in seen:
                raise ValueError(f"lists the value {shown(label)} twice; keep one")
            seen.add(label)
        if self.other and OTHER in seen:
            raise ValueError("lists a value 'other' and has other: true, which adds a cell of that name; drop one")
        _check_size(self.size, "list fewer values and set other: true")
        return self

    @property
    def numeric(self) -> bool:
        """Whether every value was written as a number, so that the column is compared as numbers, not as text."""
        return not any(isinstance(value, str) for value in self.values)

    @property
    def listed(self) -> tuple[str, ...]:
        """The values as text, without `other`."""
        return tuple(v if isinstance(v, str) else str(decimal(exact(v))) for v in self.values)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.values) + self.other

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        labels = (*self.listed, OTHER) if self.other else self.listed
        return Axis(name, "category", _floats(range(len(labels) + 1)), labels)


class Boolean(Column):
    """False or true.

    >>> Boolean().axis("married").labels()
    [False, True]
    """

    type: Literal["boolean"] = "boolean"

    @property
    def size(self) -> int:
        """How many cells there are."""
        return 2

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        return Axis(name, "boolean", _floats(range(3)), (False, True))


class Date(Column):
    """Days from lower to upper, both included, one cell for each day, calendar month or calendar year.

    >>> Date(lower=date(2023, 12, 24), upper=date(2024, 2, 10), by="month").axis("arrival").labels()
    ['2023-12', '2024-01', '2024-02']
    """

    type: Literal["date"] = "date"
    lower: Day
    upper: Day
    by: Literal["day", "month", "year"] = "day"

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_order(self.lower, self.upper)
        return self

    @property
    def size(self) -> int:
        """How many cells there are."""
        years = self.upper.year - self.lower.year
        months = 12 * years + self.upper.month - self.lower.month
        return {"day": (self.upper - self.lower).days, "month": months, "year": years}[self.by] + 1

    def axis(self, name: str) -> Axis:
        """The numbered cells; the first and last month or year may be cut by the bounds."""
        first = self.lower
        if self.by == "day":
            starts: Sequence[int] | Codes = np.arange(first.toordinal(), first.toordinal() + self.size)
        elif self.by == "month":
            months = (first.year * 12 + first.month + place for place in range(self.size - 1))
            starts = [first.toordinal(), *(date(m // 12, m % 12 + 1, 1).toordinal() for m in months)]
        else:
            starts = [first.toordinal(), *(date(first.year + n, 1, 1).toordinal() for n in range(1, self.size))]
        edges = np.append(starts, self.upper.toordinal() + 1).astype(np.float64) - EPOCH.toordinal()
        return Axis(name, "date", edges, by=self.by)


Attribute = Annotated[Integer | Number | Category | Boolean | Date, Field(discriminator="type")]
KINDS: dict[str, type[Column]] = {
    "integer": Integer,
    "number": Number,
    "category": Category,
    "boolean": Boolean,
    "date": Date,
}


def _floats(numbers: Sequence[int | Fraction | float]) -> Floats:
    return np.array([float(number) for number in numbers], dtype=np.float64)


def _check_size(size: int, remedy: str) -> None:
    if size > MOST_CELLS_OF_AN_AXIS:
        raise ValueError(f"has more than {MOST_CELLS_OF_AN_AXIS:,} cells; {remedy}")
