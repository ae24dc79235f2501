"""The plan of a SELECT as plain values (aggregates, quantiles, spreads, keys, order): no data, no noise, no SQL.

A release evaluates a plan; a planner can price it before any data is read.

Averages and shares have public bounds, which they cannot leave whatever the table holds (`ratio_bounds`). Statistics
such as a median come from counts in bins; a note for each says how (`statistic_notes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS


@dataclass(frozen=True)
class Quantile:
    """The value of an ordered attribute below which a share of the rows lies; 0 is the least value, 1 the greatest.

    predicate: which rows. whole: whether the answer is a value that some row has (PERCENTILE_DISC), as far as bins
    tell. grouped: whether GROUP BY splits it.
    """

    predicate: Predicate
    of: str
    share: float
    whole: bool = False
    grouped: bool = True


@dataclass(frozen=True)
class Spread:
    """The variance of an attribute, or its root, the standard deviation.

    sample: divided by the number of rows less one, as VAR_SAMP is.
    """

    predicate: Predicate
    of: str
    sample: bool = True
    root: bool = False
    grouped: bool = True


CRAMERS_V = "cramers_v"  # the statistic of two columns that takes their values as names


@dataclass(frozen=True)
class Bivariate:
    """A statistic of two columns: their covariance or correlation, Cramer's V, or least squares of `of` on `by`.

    of: an attribute, or a measure (`measured`) where the statistic needs no squares of it. by: an attribute.
    """

    predicate: Predicate
    of: str
    by: str
    statistic: str
    measured: bool = False
    grouped: bool = True


@dataclass(frozen=True)
class Distinct:
    """The number of values that have rows, of an attribute or an expression. of: what it is called.

    predicates: the rows of each value that the schema lists, in which no row is twice.
    """

    predicates: tuple[Predicate, ...]
    of: str
    grouped: bool = True

    @property
    def counts(self) -> tuple[Column, ...]:
        """The count of the rows of each value."""
        return tuple(Column("", (Amount(rows, None, grouped=self.grouped),)) for rows in self.predicates)


Kind = Literal[
    "count", "sum", "average", "share", "ratio", "difference", "quantile", "variance", "stddev", "extreme", "distinct"
]


@dataclass(frozen=True)
class Amount:
    """A weighted sum over rows.

    predicate: which rows; the WHERE of the query is already part of it.
    of: what each row adds: 1 for None, else the measure of that name, or, where there is no such measure, the middle
        of the row's cell on the attribute of that name.
    factor: what the sum is multiplied with.
    grouped: whether GROUP BY splits it; a grand total is not split and is the same in every group.
    present: the measure without which a row does not count; need not be stated where it is `of` itself.
    """

    predicate: Predicate
    of: str | None
    factor: float = 1.0
    grouped: bool = True
    present: str | None = None


@dataclass(frozen=True)
class Column:
    """An aggregate: scale * sum of the numerator / sum of the denominator (1 where there is none).

    bounds: what the ratio, before scaling, cannot leave for any table; None where nothing is known.
    kind: count (whole numbers of rows), sum, average (of amounts per row), share (between counts, one inside the
        other) or ratio (any other).
    rule: what is worked out where it is not such a ratio; there is no numerator then.
    difference: whether it says how far two things are apart, so that zero would mean not at all.
    """

    name: str
    numerator: tuple[Amount, ...]
    denominator: tuple[Amount, ...] | None = None
    scale: float = 1.0
    bounds: tuple[float, float] | None = None
    kind: Kind = "count"
    rule: Formula | Quantile | Spread | Bivariate | Extreme | Distinct | None = None
    difference: bool = False

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """All sums over rows that enter the column; for a statistic of an attribute, the sum of that attribute."""
        if isinstance(self.rule, Formula | Extreme):
            return tuple(amount for column in self.rule.columns for amount in column.amounts)
        if isinstance(self.rule, Distinct):
            return tuple(amount for column in self.rule.counts for amount in column.numerator)
        if self.rule is not None:
            names = (self.rule.of, self.rule.by) if isinstance(self.rule, Bivariate) else (self.rule.of,)
            return tuple(Amount(self.rule.predicate, name, grouped=self.rule.grouped) for name in names)
        return self.numerator + (self.denominator or ())

    @property
    def counted_by(self) -> Iterator[tuple[Amount, tuple[str, ...]]]:
        """Amounts, each with the attributes whose single values the statistic needs (quantile, spread, correlation)."""
        if isinstance(self.rule, Formula | Extreme):
            for column in self.rule.columns:
                yield from column.counted_by
        elif isinstance(self.rule, Bivariate):
            yield self.amounts[1], (self.rule.by,)
            yield self.amounts[0], (self.rule.by,) if self.rule.measured else (self.rule.of, self.rule.by)
        else:
            values = (self.rule.of,) if isinstance(self.rule, Quantile | Spread) else ()
            yield from ((amount, values) for amount in self.amounts)


@dataclass(frozen=True)
class Formula:
    """Arithmetic of columns that have no common denominator: two averages subtracted, or one divided by the other."""

    operator: Literal["+", "*", "/"]
    left: Formula | Column | float
    right: Formula | Column | float

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it is made of, each once."""
        found: list[Column] = []
        for part in (self.left, self.right):
            found += part.columns if isinstance(part, Formula) else [part] if isinstance(part, Column) else []
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Extreme:
    """The greatest or the least of several columns, such as MAX(n) over the groups of a subquery."""

    columns: tuple[Column, ...]
    greatest: bool


@dataclass(frozen=True)
class Key:
    """A column that says which group a row of the answer is about."""

    name: str
    attribute: str


class Order(NamedTuple):
    """One rule of ORDER BY: by a place in the select list (from 0), or by a column that is not shown."""

    by: int | Key | Column
    descending: bool
    nulls_first: bool = False  # where rows without a value stand, in either direction


@dataclass(frozen=True)
class Cut:
    """Condition that cuts through a bin of an attribute; what: 'income <= 2500 cuts the bin [2000, 4000)'."""

    attribute: str
    what: str


@dataclass(frozen=True)
class Select:
    """A whole query.

    columns: in the order of the select list. where: rows outside it belong to no group, so a group that cannot
    contain any of its rows is not part of the answer. cuts: conditions that lean on the spread of rows inside cells.
    notes: sentences a reader of the answer should see.
    """

    columns: tuple[Key | Column, ...]
    group_by: tuple[str, ...]
    where: Predicate
    order_by: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    cuts: tuple[Cut, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether no condition cuts through a cell."""
        return not self.cuts

    @property
    def aggregates(self) -> tuple[Column, ...]:
        """Every aggregate that has to be worked out, those that only serve ORDER BY included."""
        shown = [column for column in self.columns if isinstance(column, Column)]
        return (*shown, *(order.by for order in self.order_by if isinstance(order.by, Column)))

    @property
    def chooses(self) -> bool:
        """Whether LIMIT or OFFSET after ORDER BY an aggregate selects the groups, and so noise does."""
        return bool(self.ordering) and (self.limit is not None or self.offset > 0)

    @property
    def ordering(self) -> tuple[tuple[Column, bool], ...]:
        """The aggregates that ORDER BY goes by, and whether the largest come first."""
        by = ((self.columns[one.by] if isinstance(one.by, int) else one.by, one.descending) for one in self.order_by)
        return tuple((column, descending) for column, descending in by if isinstance(column, Column))

    @property
    def amounts(self) -> Iterator[Amount]:
        """Every amount of every aggregate."""
        return (amount for column in self.aggregates for amount in column.amounts)


def strict_check(select: Select, domain: Domain) -> None:
    """Refuse a query that leans on an assumption about how rows are spread inside a cell."""
    for cut in select.cuts:
        edges = [f"{edge:.15g}" for edge in domain[cut.attribute].edges[:4]]
        if domain[cut.attribute].kind == "date":
            edges = [str(label) for label in domain[cut.attribute].labels()[:4]]
        raise QueryError(
            f"{cut.what}, and a strict answer may not guess how rows are spread inside a bin; "
            f"use the limits of bins of {cut.attribute} ({', '.join(edges)}, ...) or ask without strict"
        )


Bounds = tuple[float, float]


def ratio_bounds(top: tuple[Amount, ...], bottom: tuple[Amount, ...], schema: Schema) -> Bounds | None:
    """Bounds of top / bottom where bottom counts rows that every amount of the top is taken from; else None.

    Such a ratio is an average over the counted rows: each row adds its amount, or 0 where it is not in the amount's
    predicate. Bounds of the amounts therefore add up to bounds of the ratio.
    """
    if len(bottom) != 1 or bottom[0].of is not None or bottom[0].factor != 1.0:
        return None
    parts = [_part(amount, bottom[0], schema) for amount in top]
    known = [part for part in parts if part is not None]
    return (sum(low for low, _ in known), sum(high for _, high in known)) if len(known) == len(parts) else None


def _part(amount: Amount, rows: Amount, schema: Schema) -> Bounds | None:
    if ROWS in (amount.of, rows.of) or (rows.grouped and not amount.grouped):
        return None  # rows beside their weights, or a total over all groups beside the rows of one
    try:
        if not amount.predicate.inside(rows.predicate):
            return None
        all_rows = amount.grouped == rows.grouped and rows.predicate.inside(amount.predicate)
    except QueryError:  # too complicated to tell
        return None
    needed = amount.present
    if amount.of in schema.summed and schema.summed[amount.of].missing == "keep":
        needed = amount.of
    if rows.present not in (None, needed):
        return None  # rows may be added up that are not counted
    low, high = row_bounds(amount.of, schema)
    if not all_rows or needed != rows.present:
        low, high = min(low, 0.0), max(high, 0.0)
    ends = sorted((amount.factor * low, amount.factor * high))
    return ends[0], ends[1]


def row_bounds(of: str | None, schema: Schema) -> Bounds:
    """The least and greatest amount that one row can add."""
    if of is None:
        return 1.0, 1.0
    if of in schema.summed:
        measure = schema.summed[of]
        return float(measure.lower), float(measure.upper)
    low, _, high = schema.domain[of].amounts
    return float(low.min()), float(high.max())


def statistic_notes(columns: Iterable[Column], schema: Schema) -> list[str]:
    """The notes of all statistics among some columns, each once."""
    found = (note for column in columns for rule in _rules(column) for note in _notes(rule, schema))
    return list(dict.fromkeys(found))


def _rules(column: Column) -> Iterator[Quantile | Spread | Bivariate | Distinct]:
    if isinstance(column.rule, Formula | Extreme):
        for part in column.rule.columns:
            yield from _rules(part)
    elif column.rule is not None:
        yield column.rule


def _notes(rule: Quantile | Spread | Bivariate | Distinct, schema: Schema) -> Iterator[str]:
    if isinstance(rule, Distinct):
        yield (
            f"the number of values of {rule.of} is that of the {len(rule.predicates):,} listed ones that surely have "
            "rows, all taken together; the high end of its interval counts those that may have rows too"
        )
        return
    if isinstance(rule, Bivariate):
        if rule.statistic == CRAMERS_V:
            yield "CRAMERS_V is over the values that surely have rows; what noise adds to it is taken off"
            return
        names = [name for name in (rule.of, rule.by) if name in schema.domain and _by_bins(schema.domain[name])]
        if names:
            yield (
                f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} known by bins only: rows are taken at the "
                "middle of their bin, and the interval allows for a smooth spread inside"
            )
        return
    axis = schema.domain[rule.of]
    binned = _by_bins(axis)
    if isinstance(rule, Spread):
        if binned:
            yield (
                f"{axis.name} is known by its bins only: its variance takes every row at the middle of its bin, and "
                "the interval allows for any place in it"
            )
    elif rule.share in (0.0, 1.0):
        what, there = ("least", "at or below") if rule.share == 0.0 else ("greatest", "at or above")
        yield (
            f"the {what} {axis.name} is the {'first' if what == 'least' else 'last'} with surely a row {there} it: "
            "single rows further out do not show through the noise, and the interval says how far out they may be"
        )
    elif binned:
        yield (
            f"{axis.name} is known by its bins only: a quantile takes rows as spread evenly inside a bin, and its "
            "interval reaches to the ends of bins"
        )


def _by_bins(axis: Axis) -> bool:
    """Whether values of an attribute are known by bins only."""
    return bool(axis.kind == "number" or axis.timed or (axis.edges[1:] - axis.edges[:-1] > 1.0).any())


_SUFFIXES = ("", "_stderr", "_low", "_high", "_real")  # what an answer appends to the name of an aggregate


def unique_names(wanted: list[tuple[str, bool]]) -> list[str]:
    """Names that cannot be mistaken for each other; those of keys, which name attributes, before those of numbers."""
    taken, names = set[str](), {}
    for place, (wish, is_number) in sorted(enumerate(wanted), key=lambda item: item[1][1]):
        suffixes = _SUFFIXES if is_number else _SUFFIXES[:1]
        name, number_of_it = wish, 1
        while any(name + suffix in taken for suffix in suffixes):
            number_of_it += 1
            name = f"{wish}_{number_of_it}"
        taken.update(name + suffix for suffix in suffixes)
        names[place] = name
    return [names[place] for place in range(len(wanted))]
