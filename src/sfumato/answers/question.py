"""Weights of a query on the published numbers: kind of interval, cells, groups, value classes and amounts.

An amount is a weighted sum over rows. Where a condition cuts a cell, or a value is known only by its bin, the true sum
lies between a least and a greatest one, so an amount becomes three weight vectors (`Weights`).

Value classes (`kinds_asked`): values of an attribute that the query weighs alike, as `hours > 40` makes two classes of
a hundred hours. Contents that aggregate on demand do so by class only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, inf, prod
from typing import Literal, get_args

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Box, Predicate, cover
from sfumato.domain.values import ValueSet
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS
from sfumato.schema.schema import missing_of
from sfumato.sql import Amount, Column, Select

Kind = Literal["typical", "guaranteed", "both"]
KINDS: tuple[str, ...] = get_args(Kind)
MOST_COMPARED = 2**24  # numbers looked at, over all intervals of an answer, up to which both kinds are worked out
MUCH_WORK = 2**18  # groups times values, beyond which counts are worked out together where they can be
OF_A_SUM = 2**12  # of them, as much work as there is besides for the ends of one sum
NO_SAMPLE = "this kind of release does not tell the error of sampling; ask about this table, without population"
GUARANTEED = "guaranteed intervals hold for every table: they come from the noise that was drawn and what is always so"


@dataclass(frozen=True)
class Manner:
    """Kind of the intervals of an answer.

    interval: "typical", "guaranteed" or "both". possible: clip to values that some table has. simultaneous: all
    intervals hold together. selected: intervals of rows that were shown because of their noisy values account for the
    selection. unbiased: values are as measured, and intervals reflect noise alone. population: intervals are about the
    population that rows were drawn from. one_of_many: the confidence is so high that the far tails of all errors matter
    (answer.py). compared: typical intervals give way to guaranteed ones that are narrower.
    """

    interval: str = "typical"
    possible: bool = False
    simultaneous: bool = False
    selected: bool = True
    unbiased: bool = False
    population: bool = False
    one_of_many: bool = False
    compared: bool = True

    def __post_init__(self) -> None:
        if self.interval not in KINDS:
            raise QueryError(f"an interval is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {self.interval!r}")
        if self.population and self.interval != "typical":
            raise QueryError(
                "a guaranteed interval holds for every table, and what sampling does is no matter of the table; about "
                "a population ask for typical intervals"
            )


@dataclass(frozen=True, eq=False)
class Gathered:
    """Cells of a domain summed over the attributes that a query does not mention.

    codes: for each mentioned attribute, the code of each gathered cell, (cells,). values: for each statistic, the
    estimate of each gathered cell in steps, (cells,). merged: number of domain cells per gathered cell; many: times
    this, (cells,), where values of one class were merged and the numbers differ.
    """

    codes: dict[str, Codes]
    values: Mapping[str, Floats]
    merged: int
    many: Codes | None = None

    @property
    def size(self) -> int:
        return len(self.values["count"])


def gathered(domain: Domain, summed: Mapping[str, Floats], places: Sequence[int]) -> Gathered:
    """Gathered cells along some axes, in order; summed: for each statistic, the sums over the other axes, (cells,)."""
    others = tuple(place for place in range(len(domain.axes)) if place not in places)
    shape = tuple(domain.shape[place] for place in places)
    codes = {
        domain.names[place]: np.broadcast_to(
            np.arange(domain.shape[place]).reshape([-1 if p == place else 1 for p in places]), shape
        ).reshape(-1)
        for place in places
    }
    return Gathered(codes, summed, prod(domain.shape[place] for place in others))


def gathered_by_kind(domain: Domain, summed: Mapping[str, Floats], kinds: Mapping[int, Codes]) -> Gathered:
    """Gathered cells with values of one class merged; kinds: class of each value by axis number, from 0."""
    shape = tuple(domain.shape[place] for place in kinds)
    values = {of: each.reshape(shape) for of, each in summed.items()}
    for along, kind in enumerate(kinds.values()):
        values = {of: _by_kind(each, along, kind) for of, each in values.items()}
    few = next(iter(values.values())).shape
    codes, many = {}, np.ones((), dtype=np.int64)
    for along, (place, kind) in enumerate(kinds.items()):
        _, first, number = np.unique(kind, return_index=True, return_counts=True)
        flat = [-1 if other == along else 1 for other in range(len(few))]
        codes[domain.names[place]] = np.broadcast_to(first.reshape(flat), few).reshape(-1)
        many = many * number.reshape(flat)
    others = prod(size for place, size in enumerate(domain.shape) if place not in kinds)
    return Gathered(codes, {of: each.reshape(-1) for of, each in values.items()}, others, many.reshape(-1))


def _by_kind(values: Floats, along: int, kind: Codes) -> Floats:
    """Sum over the values of each class along one axis; classes are few runs of neighbours."""
    starts = np.flatnonzero(np.append(True, kind[1:] != kind[:-1]))
    if len(starts) == len(kind) == int(kind.max()) + 1:
        return values
    runs = np.add.reduceat(values, starts, axis=along)
    summed = np.zeros((int(kind.max()) + 1, *np.delete(runs.shape, along)))
    np.add.at(summed, kind[starts], np.moveaxis(runs, along, 0))
    return np.moveaxis(summed, 0, along)


def gather(domain: Domain, values: Mapping[str, Floats], names: tuple[str, ...]) -> Gathered:
    """Sum all cells of a domain over the attributes that are not named."""
    places = sorted(domain.place(name) for name in names)
    others = tuple(place for place in range(len(domain.axes)) if place not in places)
    summed = {of: each.reshape(domain.shape).sum(axis=others).reshape(-1) for of, each in values.items()}
    return gathered(domain, summed, places)


def gather_listed(domain: Domain, cells: Codes, values: Mapping[str, Floats], names: tuple[str, ...]) -> Gathered:
    """Listed cells of a domain, not summed; cells: their indices, (cells,)."""
    return Gathered({name: domain.codes_along(name, cells) for name in names}, values, 1)


MOST_GROUPS = 1_000_000


@dataclass(frozen=True, eq=False)
class Groups:
    """Combinations of the GROUP BY attributes' values, numbered row-major, and those that a WHERE leaves (present)."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    present: Codes

    @classmethod
    def of(cls, select: Select, domain: Domain) -> Groups:
        """Groups of a query; a QueryError where there are too many."""
        names = select.group_by
        shape = tuple(domain[name].size for name in names)
        if prod(shape) > MOST_GROUPS:
            raise QueryError(
                f"GROUP BY {', '.join(names)} makes {prod(shape):,} groups and {MOST_GROUPS:,} is the most; "
                "group by fewer attributes, or ask for single cells with WHERE"
            )
        possible = np.zeros(shape, dtype=bool)
        for box in select.where.boxes:
            inside = np.ones(shape, dtype=bool)
            for place, name in enumerate(names):
                touched = cover(domain[name], box[name]).possible > 0
                inside &= touched.reshape([-1 if p == place else 1 for p in range(len(names))])
            possible |= inside
        if not names:  # without GROUP BY there is one row, even where nothing can match
            possible[...] = True
        return cls(names, shape, np.flatnonzero(possible))

    @property
    def number(self) -> int:
        return prod(self.shape)

    def of_cells(self, gathered: Gathered) -> Codes:
        """Group number of each gathered cell, (cells,)."""
        group = np.zeros(gathered.size, dtype=np.int64)
        for name, size in zip(self.names, self.shape, strict=True):
            group = group * size + gathered.codes[name]
        return group

    def code(self, name: str) -> Codes:
        """Code of each present group along one attribute, (present,)."""
        return np.asarray(np.unravel_index(self.present, self.shape)[self.names.index(name)], dtype=np.int64)


Kinds = Mapping[str, Codes]  # for each attribute, the kind of every cell of its axis, numbered from 0


@dataclass(frozen=True, eq=False)
class ByClass(Groups):
    """Combinations of classes of the attributes' values, numbered row-major. kinds: class of every value."""

    kinds: Kinds

    @classmethod
    def of_classes(cls, kinds: Kinds) -> ByClass:
        """Groups of all combinations of classes."""
        shape = tuple(int(kind.max()) + 1 for kind in kinds.values())
        return cls(tuple(kinds), shape, np.arange(prod(shape)), kinds)

    def of_cells(self, gathered: Gathered) -> Codes:
        """Group number of each gathered cell, (cells,)."""
        group = np.zeros(gathered.size, dtype=np.int64)
        for name, size in zip(self.names, self.shape, strict=True):
            group = group * size + self.kinds[name][gathered.codes[name]]
        return group

    def code(self, name: str) -> Codes:
        """Code of the first value of each present group's class along one attribute, (present,)."""
        first = np.unique(self.kinds[name], return_index=True)[1]
        return np.asarray(first[np.unravel_index(self.present, self.shape)[self.names.index(name)]], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CountsBySet:
    """Counts whose conditions differ only in a set of values of one attribute, as from GROUP BY of groups of values.

    select: the count of all rows under the conditions in common. classes: for every value of the attribute, the number
    of its set; values in none come last. places: for every column, the number of its set.
    """

    select: Select
    classes: Kinds
    places: dict[Column, int]

    @classmethod
    def of(cls, select: Select, domain: Domain) -> CountsBySet | None:
        """Read a query of such counts that would take more than MUCH_WORK one by one; None for any other query."""
        columns = dict.fromkeys(select.aggregates)
        amounts = [amount for column in columns if column.rule is None for amount in column.amounts]
        boxes = [dict(box.sets) for amount in amounts if amount.of is None for box in amount.predicate.boxes]
        several = not select.group_by and len(columns) >= max(2, len(select.columns))
        if not several or not len(columns) == len(amounts) == len(boxes):
            return None
        name = next((name for name in boxes[0] if name not in boxes[1] or boxes[1][name] != boxes[0][name]), "")
        listed = name in domain.names and domain[name].kind == "category" and all(name in box for box in boxes)
        if not listed or len(columns) * domain[name].size <= MUCH_WORK:
            return None
        rests = {Box.of({of: values for of, values in box.items() if of != name}) for box in boxes}
        rest = Predicate(tuple(rests))
        counts = {replace(each, name="n", numerator=(replace(each.numerator[0], predicate=rest),)) for each in columns}
        classes, alike = np.full(domain[name].size, len(columns)), len(rests) == len(counts) == 1
        for place, box in enumerate(boxes):
            for cells in _cells_of(domain[name], box[name]):
                alike &= bool((classes[cells] == len(columns)).all())
                classes[cells] = place
        if not alike:
            return None
        return cls(Select(tuple(counts), (), rest), {name: classes}, {one: n for n, one in enumerate(columns)})


def _cells_of(axis: Axis, values: ValueSet) -> Iterator[slice]:
    """Cells of a category in a set of values, as runs."""

    def cell(place: tuple[float, int], last: int) -> int:
        value, after = place
        if value == inf:
            return last if after else axis.places
        return 0 if value == -inf else floor(value) + 1 if after else ceil(value)

    for low, high in values.spans:
        yield slice(cell(low, axis.size), cell(high, axis.size))


def kinds_asked(select: Select, schema: Schema) -> Kinds:
    """Value classes that a query distinguishes, by attribute in order of name: class of each value, (axis size,)."""
    domain = schema.domain
    kinds: dict[str, Codes] = {}
    names = {*select.group_by, *(name for amount in select.amounts for name in amount.predicate.names)}
    counted = {name for column in select.aggregates for _, values in column.counted_by for name in values}
    valued = counted | {a.of for a in select.amounts if a.of is not None and a.of not in schema.summed}
    names |= valued
    for name in sorted(names):
        axis, classes = domain[name], np.zeros(domain[name].size, dtype=np.int64)
        sets = dict.fromkeys(box[name] for amount in select.amounts for box in amount.predicate.boxes)
        refine = _told_apart if len(sets) <= MANY_SETS else _runs_apart
        for values in sets:
            covered = cover(axis, values)
            for part in (covered.share, covered.sure, covered.possible):
                classes = refine(classes, part)
        if name in select.group_by or name in valued:
            seen = np.zeros(axis.size, dtype=bool)
            for predicate in (select.where, *(amount.predicate for amount in select.amounts)):
                for box in predicate.boxes:
                    seen |= cover(axis, box[name]).possible > 0
            classes = _told_apart(classes, np.where(seen, np.arange(axis.size, dtype=np.float64), -1.0))
        kinds[name] = classes
    return kinds


def _told_apart(kinds: Codes, by: Floats) -> Codes:
    """Refine classes by a further vector, numbered by first appearance; both are (axis size,).

    Neighbours mostly agree, so runs are compared and not single values, of which there may be millions.
    """
    changes = (kinds[1:] != kinds[:-1]) | (by[1:] != by[:-1])
    starts = np.flatnonzero(np.append(True, changes))
    numbers = np.unique(by[starts], return_inverse=True)[1].reshape(-1)
    both = kinds[starts] * (int(numbers.max()) + 1) + numbers
    _, first, kind = np.unique(both, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.repeat(rank[kind.reshape(-1)], np.diff(np.append(starts, len(kinds))))


MANY_SETS = 64  # of values of one attribute, beyond which alike values are merged only if they are neighbours


def _runs_apart(kinds: Codes, by: Floats) -> Codes:
    """Refine classes that are runs of neighbours by a further vector; both are (axis size,)."""
    more = np.flatnonzero(by[1:] != by[:-1])
    if not (kinds[more] == kinds[more + 1]).any():
        return kinds
    changes = kinds[1:] != kinds[:-1]
    changes[more] = True
    return np.cumsum(np.append(0, changes))


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of an amount, (cells,) each: for its value, its least and its greatest; one array where these agree."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def exactly(cls, value: Floats) -> Weights:
        """Weights whose value, low and high agree."""
        return cls(value, value, value)

    @property
    def exact(self) -> bool:
        """Whether value, low and high are one array."""
        return self.value is self.low and self.value is self.high

    def __add__(self, other: Weights) -> Weights:
        if self.exact and other.exact:
            return Weights.exactly(self.value + other.value)
        return Weights(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Weights:
        """Multiply all weights by a factor; a negative one swaps low and high."""
        if self.exact:
            return Weights.exactly(self.value * factor)
        low, high = (self.low, self.high) if factor >= 0 else (self.high, self.low)
        return Weights(self.value * factor, low * factor, high * factor)


ByStatistic = dict[str, Weights]


def total(parts: Iterable[ByStatistic]) -> ByStatistic:
    """Sum of several sets of weights, by statistic."""
    summed: ByStatistic = {}
    for part in parts:
        for of, weights in part.items():
            summed[of] = summed[of] + weights if of in summed else weights
    return summed


def columns_of(sides: list[Weights | None], size: int) -> list[Floats]:
    """Value, low and high weights of each side in order, (size,) each; zeros for a side that is None."""
    nothing = np.zeros(size)
    columns: list[Floats] = []
    for side in sides:
        columns += [nothing] * 3 if side is None else [side.value, side.low, side.high]
    return columns


def cell_weights(amount: Amount, schema: Schema, codes: Mapping[str, Codes], size: int) -> ByStatistic:
    """Weights of an amount on listed cells, by statistic; codes: of each cell along each attribute, (size,)."""
    share, sure, possible = (np.broadcast_to(w, size) for w in amount.predicate.weights(schema.domain, codes))
    exact = bool(np.array_equal(sure, possible))
    if amount.of is None:
        parts = {"count": Weights.exactly(share) if exact else Weights(share, sure, possible)}
        if amount.present is not None:
            parts[missing_of(amount.present)] = _less(share, sure, exact)
        return {of: weights.times(amount.factor) for of, weights in parts.items()}
    if amount.of == ROWS:
        weights = Weights.exactly(share) if exact else Weights(share, sure, possible)
        return {ROWS: weights.times(amount.factor * float(schema.summed[ROWS].step))}
    torn = possible - sure
    if amount.of in schema.summed:
        measure = schema.summed[amount.of]
        step, centre = float(measure.step), float(measure.centre)
        if exact:
            parts = {amount.of: Weights.exactly(share * step), "count": Weights.exactly(share * centre)}
        else:
            # In a cut cell some of the rows count, each with a value between the bounds; none of them may count.
            low, high = min(float(measure.lower), 0.0), max(float(measure.upper), 0.0)
            parts = {
                amount.of: Weights(share * step, sure * step, sure * step),
                "count": Weights(share * centre, sure * centre + torn * low, sure * centre + torn * high),
            }
        if measure.missing == "keep":
            parts[missing_of(amount.of)] = _less(share * centre, sure * centre, exact)
    else:
        axis = schema.domain[amount.of]
        least, _, greatest = (a[codes[amount.of]] for a in axis.amounts)
        if exact and np.array_equal(least, greatest):
            parts = {"count": Weights.exactly(share * least)}
        else:
            value = np.zeros(size)
            for box in amount.predicate.boxes:
                value += _along(box, schema.domain, amount.of, codes, size)
            parts = {
                "count": Weights(
                    value,
                    sure * least + torn * np.minimum(least, 0.0),
                    sure * greatest + torn * np.maximum(greatest, 0.0),
                )
            }
        if amount.present is not None:  # of rows that have a measure
            every = parts["count"]
            parts[missing_of(amount.present)] = Weights(*(-end for end in (every.value, every.low, every.high)))
    return {of: weights.times(amount.factor) for of, weights in parts.items()}


def _less(value: Floats, sure: Floats, exact: bool) -> Weights:
    """Negative weights for rows in which a measure is missing, which the cell counts include."""
    return Weights.exactly(-value) if exact else Weights(-value, -sure, -sure)


def volume(amount: Amount, schema: Schema, group_by: tuple[str, ...]) -> tuple[Floats, Floats, bool]:
    """Sum of an amount over all possible cells of the domain if each held one row, by group.

    Returns it for the value, (groups,); the number of cells that may belong to it, (groups,); and whether all cells of
    the domain surely do.
    """
    domain, structure = schema.domain, schema.structure
    groups = [domain[name].size for name in group_by] if amount.grouped else []
    value, possible = np.zeros(groups), np.zeros(groups)
    valued = None if amount.of in schema.summed else amount.of  # the attribute whose own values are summed
    for box in amount.predicate.boxes:
        shares, touched = np.ones(groups), np.ones(groups)
        if structure is not None:
            covers = [cover(axis, box[axis.name]) for axis in domain]
            moments = [
                axis.moment(box[axis.name]) if axis.name == valued else covered.share
                for axis, covered in zip(domain, covers, strict=True)
            ]
            kept = [domain.place(name) for name in group_by] if amount.grouped else []
            value = value + structure.summed(moments, kept)
            possible = possible + structure.summed([covered.possible for covered in covers], kept)
            continue
        for axis in domain:
            covered = cover(axis, box[axis.name])
            along = axis.moment(box[axis.name]) if axis.name == valued else covered.share
            if amount.grouped and axis.name in group_by:
                place = [-1 if name == axis.name else 1 for name in group_by]
                shares, touched = shares * along.reshape(place), touched * covered.possible.reshape(place)
            else:
                shares, touched = shares * along.sum(), touched * covered.possible.sum()
        value, possible = value + shares, possible + touched
    boxes = amount.predicate.boxes
    whole = len(boxes) == 1 and all(cover(domain[name], values).sure.all() for name, values in boxes[0].sets)
    return value.reshape(-1), possible.reshape(-1), bool(whole and not groups)


def _along(box: Box, domain: Domain, of: str, codes: Mapping[str, Codes], size: int) -> Floats:
    """Share of each listed cell inside a box, times the mean value there of the summed attribute, (size,)."""
    product = np.broadcast_to(domain[of].moment(box[of])[codes[of]], size).copy()
    for name, values in box.sets:
        if name != of:
            product *= cover(domain[name], values).share[codes[name]]
    return product


@dataclass(frozen=True, eq=False)
class WeightRange:
    """Weighted sum for one group: weights by statistic on the cells of a view.

    low, high: least and greatest weight of each cell, (cells,). unseen: number of suppressed cells that may belong to
    it.
    """

    low: Mapping[str, Floats]
    high: Mapping[str, Floats]
    unseen: float = 0.0

    @property
    def statistics(self) -> tuple[str, ...]:
        """Statistics with a nonzero weight."""
        return tuple(of for of in self.low if self.low[of].any() or self.high[of].any())

    def less(self, other: WeightRange, factor: float = 1.0) -> WeightRange:
        """Difference self - factor * other, where no cell of `other` is cut."""
        of_any = dict.fromkeys((*self.low, *other.low))

        def apart(mine: Mapping[str, Floats], theirs: Mapping[str, Floats]) -> dict[str, Floats]:
            return {of: np.asarray(mine.get(of, 0.0) - factor * theirs.get(of, 0.0)) for of in of_any}

        return WeightRange(
            apart(self.low, other.low), apart(self.high, other.high), self.unseen - factor * other.unseen
        )
