"""Attributes of many listed values below public groups (`groups` of the schema); sums of releases of disjoint tables.

A long attribute enters tables of two and more attributes by its groups. Its single values v of group g(v) are counted
once, along the attribute alone, and hang below the groups:

    n(v, rest) = n(g(v), rest) * p(v),   p(v) = n(v) / n(g(v)),

which is what maximum entropy makes of tables by group and of counts by value. Counts by value are brought to their
group's count by least squares: all that hold rows move alike, and none is negative (joining.by_halves).

How far values of one group differ in other attributes is measured (`unevenness`): in a value of m rows the share q of
another attribute's value varies around that of the group with variance c^2 q (1 - q), as in a Dirichlet-multinomial
model, so a count has variance (m + c^2 m^2) q (1 - q).

Content (`NestedMargins`), in which long attributes enter by groups, with their values below.

A query's classes of values are refined so that each lies in one group, or covers whole groups (`Line`). Groups are
joined as usual (content.py), and a class has its share of its group. The error of a sum with weights w over classes f
of group g and cells r of the other attributes, with Q(r | g) the shares of these, has three independent parts:

    errors of the joined table by groups, with weights  sum over f of p(f) w(f, r)
    errors of counts by value, V_f each, centred in the group:   sum of V_f (E_Q w)^2
    values of a group that differ in other attributes:   sum of (m_f + c^2 sum of m_v^2) Var_Q(w),  centred alike

(`Below`). Along an axis that a query groups by, the weights of class f are an indicator, and all are computed at once.

Sums (`SummedMargins`) of disjoint tables, such as those of two offices: a question is put to each, and answers add up.

Tables of two offices are not joined as one. If offices differ, what one attribute says of another differs between them,
and summed pairs would no longer tell what each office's pairs did. So every release stays as it is, and numbers are
added when a question is asked: noises are independent, model errors are added as those of the parts of a series are
(answers/parts.py), and guaranteed bounds are sums of bounds, each with its share of the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.evaluate import Sum, View
from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.parts import NoiseOfParts, PartView, SourceOfParts, cells_of_parts
from sfumato.answers.question import Gathered, Groups, Kinds
from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.errors import QueryError, SchemaError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.content import Margins
from sfumato.models.margins.guaranteed import FromTables
from sfumato.models.margins.joining import MOST_SMOOTHED, SPIKE_OF_MANY, by_halves
from sfumato.models.margins.noise import ErrorsOf, JoinedNoise, longest_tail
from sfumato.models.margins.scales import FINEST, in_parts
from sfumato.models.margins.table import CONTRAST, WIDER, JoinedErrors, Places, SumWeights, spread_out
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file.fit_records import from_whole_numbers, in_whole_numbers
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import Columns, parts_column
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.releases.parts import MOST_PARTS
from sfumato.releases.rows.from_parts import dealt_out
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, RowModel, gather_margin
from sfumato.schema import Schema
from sfumato.schema.attributes.lists import OTHER, Category

HALVINGS = 24
LEAST_UNEVEN = 1e-9  # c^2, below which it is none


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Groups of a long attribute: name of their column in the schema, axis of groups, group of each value (values,)."""

    column: str
    axis: Axis
    groups: Codes


def hierarchies(schema: Schema) -> dict[int, Hierarchy]:
    """Attributes that enter tables by groups, by index: of more than MOST_SMOOTHED values, in at most that many groups.

    Of several columns of groups, the one with the most groups within that limit. A schema with measures has no such
    attribute, as their sums are not estimated for values below groups.
    """
    return {place: found[1] for place, found in _found(schema).items()}


def coarse(schema: Schema) -> Schema:
    """Schema in which attributes that enter tables by groups are these groups."""
    names, attributes = list(schema.attributes), dict(schema.attributes)
    for place, (attribute, _) in _found(schema).items():
        attributes[names[place]] = attribute
    return Schema(
        dataset=schema.dataset,
        privacy_unit=schema.privacy_unit,
        attributes=attributes,
        weight=schema.weight,
        expected_rows=schema.expected_rows,
    )


def _found(schema: Schema) -> dict[int, tuple[Category, Hierarchy]]:
    result: dict[int, tuple[Category, Hierarchy]] = {}
    if schema.summed:
        return result
    for place, (name, attribute) in enumerate(schema.attributes.items()):
        if not isinstance(attribute, Category) or attribute.size <= MOST_SMOOTHED or not attribute.groups:
            continue
        columns = {column: [*dict.fromkeys(each)] for column, each in attribute.group_columns.items()}
        few = [column for column, groups in columns.items() if 1 < len(groups) <= MOST_SMOOTHED]
        if not few:
            continue
        column = max(few, key=lambda each: len(columns[each]))
        listed = [group for group in columns[column] if group is not None]
        values = tuple(str(group) for group in (listed[:-1] if attribute.other else listed))
        try:
            made = Category(values=values, other=attribute.other, missing=attribute.missing, column=attribute.column)
        except (ValueError, SchemaError):  # a group is called as what the schema adds
            continue
        code = {group: index for index, group in enumerate((*values, *[OTHER] * attribute.other))}
        cells = attribute.group_columns[column]
        groups = np.array([len(code) if group is None else code[group] for group in cells], dtype=np.int64)
        result[place] = made, Hierarchy(column, made.axis(name), groups)
    return result


def values_below(noisy: Floats, variance: float, groups: Codes, totals: Floats) -> Floats:
    """Counts by value, non-negative, that add up to their group's count, (values,). totals: (groups,)."""
    estimate: Floats = np.zeros(len(noisy))
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(totals) + 1))
    spike = SPIKE_OF_MANY * float(np.sqrt(variance))
    for group, total in enumerate(totals.tolist()):
        inside = order[starts[group] : starts[group + 1]]
        if len(inside):
            estimate[inside] = by_halves(noisy[inside], total, spike)
    return estimate


def shares_within(estimate: Floats, groups: Codes, number: int) -> Floats:
    """Share of each value in its group, (values,); even in a group without rows."""
    totals, sizes = np.bincount(groups, estimate, number), np.bincount(groups, minlength=number)
    held = totals[groups] > 0
    return np.where(held, estimate / np.where(held, totals[groups], 1.0), 1.0 / np.maximum(sizes[groups], 1))


def unevenness(
    rows: Floats, shares: Floats, sure: Floats | float, guess: Floats, measured: float, error: float
) -> float:
    """Variance c^2 of shares between values of a group, from the noisy misfit of values by another attribute.

    rows: (values, 1), of each value. shares: (values, others), of its group. sure: variance of each guess from
    noise in the counts by value. guess: (values, others). measured: the misfit, sum of |count - guess|; error: standard
    deviation of its noise, half of which is added.
    """
    spread = shares * (1.0 - shares)

    def expected(uneven: float) -> float:
        size = OF_NORMAL * np.sqrt(sure + (rows + uneven * rows**2) * spread)
        return float(np.minimum(size, 2.0 * guess + np.sqrt(sure)).sum())

    low, high = LEAST_UNEVEN, 1.0
    if expected(low) >= measured + error / 2.0:
        return 0.0
    if expected(high) <= measured:
        return 1.0
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if expected(middle) < measured + error / 2.0 else (low, middle)
    return high


def mean_by(values: Floats, of: Codes, weights: Floats, axis: int, number: int) -> Floats:
    """Weighted sums of an array by class along one axis. of: (n,), class of each entry, rising; weights: (n,)."""
    shape = [1] * values.ndim
    shape[axis] = len(weights)
    starts = np.searchsorted(of, np.arange(number))
    return np.asarray(np.add.reduceat(values * weights.reshape(shape), starts, axis=axis), dtype=np.float64)


VALUES = "values"  # the member of a file that keeps counts by value
COLUMNS = ["estimate", parts_column("estimate"), "answer"]


@dataclass(frozen=True, eq=False)
class Values:
    """Counts of a long attribute's values, summing to their groups' counts: estimate, (values,), and noisy measurement.

    uneven: c^2 of values of a group, by the index of the other attribute.
    """

    hierarchy: Hierarchy
    estimate: Floats
    measured: Measurement
    uneven: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class Line:
    """Classes of a long attribute's values, refined so that each lies in one group or is a union of whole groups.

    kind: (values,), class of each value. inner: (classes,), rising, the class of groups that each lies in; of_groups:
    (groups,), the class of each group. share: each class's share of its class of groups, (classes,). noise: variance of
    the counts that a class adds up; level: its share of an error of its group's count. rows, squares: sums of m_v and
    of m_v^2. The last four are 0 where a class has whole groups.
    """

    kind: Codes
    inner: Codes
    of_groups: Codes
    share: Floats
    noise: Floats
    level: Floats
    rows: Floats
    squares: Floats

    @classmethod
    def of(cls, values: Values, kind: Codes) -> Line:
        """Refine classes of values by groups."""
        groups, number = values.hierarchy.groups, values.hierarchy.axis.size
        low, high = np.full(number, np.iinfo(np.int64).max), np.full(number, -1, dtype=np.int64)
        np.minimum.at(low, groups, kind)
        np.maximum.at(high, groups, kind)
        classes = int(kind.max(initial=0)) + 1
        whole = np.where(low == high, low, classes + np.arange(number))
        of_groups = np.unique(np.where(high < 0, whole[0], whole), return_inverse=True)[1].reshape(-1)
        key, fine = np.unique(of_groups[groups] * classes + kind, return_inverse=True)
        fine, inner = fine.reshape(-1), key // classes
        split, shares = (low < high)[groups], shares_within(values.estimate, groups, number)
        held = values.estimate > 0.0
        held |= np.bincount(groups, held, number)[groups] == 0  # a group without rows: all alike
        level = split * held / np.bincount(groups, held, number)[groups]

        def added(each: NDArray[np.floating[Any]]) -> Floats:
            return np.asarray(np.bincount(fine, each, len(key)), dtype=np.float64)

        share = np.where(added(split * 1.0) > 0, added(split * shares), 1.0)
        noise = added(split * values.measured.noise.continuous_variance)
        squares = [added(split * np.where(split, values.estimate, 0.0) ** power) for power in (1, 2)]
        return cls(fine, inner, of_groups, share, noise, added(level), *squares)

    @property
    def number(self) -> int:
        return int(self.inner[-1]) + 1

    def down(self, table: Floats, axis: int) -> Floats:
        """Divide a table by classes of groups among the classes of values, by share."""
        shape = [1] * table.ndim
        shape[axis] = len(self.share)
        return np.asarray(np.take(table, self.inner, axis=axis) * self.share.reshape(shape))

    def up(self, weights: Floats, axis: int) -> Floats:
        """Average weights over each class of groups."""
        return weights if weights.shape[axis] == 1 else mean_by(weights, self.inner, self.share, axis, self.number)


@dataclass(frozen=True, eq=False)
class Below:
    """Errors of values below groups along one axis: independent for each class, centred within classes of groups.

    variance: (classes,). centre: (classes,), by which they are centred; sums to 1 where the variance is not 0. varying:
    whether they enter a sum by the variance of its weights over the other axes, Var_Q(w), or by their mean, (E_Q w)^2.
    """

    axis: int
    inner: Codes
    variance: Floats
    centre: Floats
    varying: bool

    def add(self, result: Floats, shares: Floats, split: SumWeights, whole: SumWeights, groups: Places) -> None:
        """Add covariances of sums, as `JoinedErrors.covariances` has them. shares: Q, of the table's shape."""
        axis, rest = self.axis, tuple(each for each in range(shares.ndim) if each != self.axis)
        others = tuple(each for each in rest if each not in groups)
        by_class = axis in groups
        variance, centre = (spread_out(each, (axis,), range(shares.ndim)) for each in (self.variance, self.centre))

        def mean(weights: Floats, axes: Places) -> Floats:
            return np.asarray((shares * weights).sum(axis=axes, keepdims=True))

        def paired(one: Floats, other: Floats, both: tuple[Places, Places]) -> Floats:
            means = mean(one, both[0]) * mean(other, both[1])
            return mean(one * other, min(both, key=len)) - means if self.varying else means

        def centred(weights: Floats) -> Floats:
            if weights.shape[axis] == 1:
                return np.zeros(weights.shape)
            return weights - self._over(centre * weights)

        # Of a class by itself: V_f (1 - L_f)^2 + L_f^2 (V_g - V_f).
        alone = variance * (1.0 - 2.0 * centre) + centre**2 * self._over(variance)
        inside = [w if w is None or by_class else centred(w) for w in split]
        outside = [None if w is None else centred(w) for w in whole]
        met = [None if w is None else variance * w - centre * self._over(variance * w) for w in outside]
        shape = [shares.shape[each] for each in groups]

        def put(i: int, j: int, values: Floats) -> None:
            values = values if by_class else values.sum(axis=axis, keepdims=True)
            full = [shares.shape[each] if each in groups else 1 for each in range(shares.ndim)]
            result[..., i, j] += np.broadcast_to(values, full).reshape(shape)
            if i != j:
                result[..., j, i] += np.broadcast_to(values, full).reshape(shape)

        for i, j in combinations_with_replacement(range(len(split)), 2):
            if (one := inside[i]) is not None and (other := inside[j]) is not None:
                put(i, j, (alone if by_class else variance) * paired(one, other, (others, others)))
            for first, second in ((i, j), (j, i)):
                if (one := inside[first]) is not None and (other := (met if by_class else outside)[second]) is not None:
                    put(i, j, (1.0 if by_class else variance) * paired(one, other, (others, rest)))
            if (one := outside[i]) is not None and (other := outside[j]) is not None:
                total = variance * paired(one, other, (rest, rest))
                put(i, j, total.sum(axis=axis, keepdims=True) if by_class else total)

    def _over(self, values: Floats) -> Floats:
        """Sum over the classes within each class of groups, repeated at each class."""
        summed = mean_by(values, self.inner, np.ones(len(self.inner)), self.axis, int(self.inner[-1]) + 1)
        return np.take(summed, self.inner, axis=self.axis)


@dataclass(frozen=True, eq=False)
class NestedErrors:
    """Covariance model of a table with long attributes: errors of groups, and of values within. shares: Q by axis."""

    groups: JoinedErrors
    lines: Mapping[int, Line]
    below: Sequence[Below]
    shares: Mapping[int, Floats]

    @property
    def variances(self) -> Mapping[Places, Floats]:
        """Variances by set of attributes of the groups' errors."""
        return self.groups.variances

    def covariances(self, split: SumWeights, whole: SumWeights, groups: Places) -> Floats:
        """Covariance matrices of several sums for every group, as `JoinedErrors.covariances` has them."""
        result = self._of_groups(split, whole, groups)
        for part in self.below:
            part.add(result, self.shares[part.axis], split, whole, groups)
        return result

    def _of_groups(self, split: SumWeights, whole: SumWeights, groups: Places) -> Floats:
        """Covariances from errors by groups; along a long axis that is grouped by, a class is a share of its group."""
        along = [axis for axis in groups if axis in self.lines]
        whole = [None if w is None else self._up(w, self.lines) for w in whole]
        split = [None if w is None else self._up(w, [axis for axis in self.lines if axis not in along]) for w in split]
        if not along:
            return self.groups.covariances(split, whole, groups)
        same = all(_same(w, axis) for w in split if w is not None for axis in along)
        sizes = [len(self.lines[axis].share) if axis in self.lines else len(self.groups.bases[axis]) for axis in groups]
        result = np.zeros([*sizes, *[len(split)] * 2])
        nothing: list[Floats | None] = [None] * len(split)
        of_whole = self.groups.covariances(nothing, whole, groups)
        ranks = [
            np.arange(len(self.lines[a].inner)) - np.searchsorted(self.lines[a].inner, self.lines[a].inner)
            for a in along
        ]
        for rank in product(*(range(1 if same else int(each.max()) + 1) for each in ranks)):
            taken = list(split)
            for axis, own in zip(along, rank, strict=True):
                at = np.searchsorted(self.lines[axis].inner, np.arange(self.lines[axis].number))
                size = np.bincount(self.lines[axis].inner)
                at = at + np.minimum(own, size - 1)
                taken = [w if w is None or w.shape[axis] == 1 else np.take(w, at, axis=axis) for w in taken]
            alone = self.groups.covariances(taken, nothing, groups)
            crossed = self.groups.covariances(taken, whole, groups) - alone - of_whole
            here = [
                np.arange(size)
                if axis not in self.lines
                else np.flatnonzero(ranks[along.index(axis)] == rank[along.index(axis)])
                if not same
                else np.arange(size)
                for axis, size in zip(groups, sizes, strict=True)
            ]
            inner = [
                self.lines[axis].inner[at] if axis in self.lines else at for axis, at in zip(groups, here, strict=True)
            ]
            share = np.ones([1] * len(groups))
            for number, (axis, at) in enumerate(zip(groups, here, strict=True)):
                if axis in self.lines:
                    share = share * spread_out(self.lines[axis].share[at], (number,), range(len(groups)))
            share = share[..., None, None]
            index = np.ix_(*inner)
            result[np.ix_(*here)] = share**2 * alone[index] + share * crossed[index] + of_whole[index]
        return result

    def _up(self, weights: Floats, axes: Sequence[int] | Mapping[int, Line]) -> Floats:
        for axis in axes:
            weights = self.lines[axis].up(weights, axis)
        return weights


def _same(weights: Floats, axis: int) -> bool:
    """Whether weights are the same all along an axis."""
    first = weights.take([0], axis=axis)
    return weights.shape[axis] == 1 or bool((weights == first).all())


class NestedNoise(JoinedNoise):
    """Errors of all statistics of a table with long attributes; no table is named as contributing most to them."""

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        return None


@record
class BelowRecord:
    """Manifest entry of a long attribute: its index, noise, and c^2 by index of the other, in parts of 1 / FINEST."""

    attribute: int
    noise: NoiseRecord
    uneven: list[int]


@record
class NestedRecord:
    """Manifest record of the attributes with many values, in addition to that of marginals."""

    below: list[BelowRecord]


@dataclass(frozen=True, eq=False)
class NestedMargins(ContentOfCells):
    """Marginals with long attributes replaced by their groups; values: counts of each one's values, by its index."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    groups: Margins
    values: Mapping[int, Values]

    def __post_init__(self) -> None:
        """Round to the digits of a file, so that answers are the same before and after it."""
        rounded = {}
        for place, each in self.values.items():
            estimate = from_whole_numbers(*in_whole_numbers(each.estimate))
            uneven = {other: in_parts(spread) / FINEST for other, spread in each.uneven.items()}
            rounded[place] = replace(each, estimate=estimate, uneven=uneven)
        object.__setattr__(self, "values", rounded)

    def view(self, kinds: Kinds) -> View:
        """Joined table and its error model for a query. kinds: class of every value of each attribute."""
        lines, fine = self._lines(kinds)
        by_groups = self.groups._classes({n: lines[n].of_groups if n in lines else k for n, k in kinds.items()})
        axes = tuple(by_groups)
        named = {axis: lines[self.domain.names[axis]] for axis in axes if self.domain.names[axis] in lines}
        sizes = [len(named[axis].share) if axis in named else int(by_groups[axis].max()) + 1 for axis in axes]
        self.groups._check_size({axis: np.arange(size) for axis, size in zip(axes, sizes, strict=True)})
        joined = self.groups.joined(by_groups)["count"]
        errors = self.groups.errors("count", by_groups, {"count": joined})
        at = {axes.index(axis): line for axis, line in named.items()}
        table = joined
        for axis, line in at.items():
            table = line.down(table, axis)
        shares = {axis: _conditional(joined, axis, at) for axis in at}
        noise, model = list[Below](), list[Below]()
        for axis, line in at.items():
            uneven = self.values[axes[axis]].uneven
            spread = max((uneven.get(other, 1.0) for other in axes if other != axes[axis]), default=0.0)
            noise.append(Below(axis, line.inner, line.noise, line.level, varying=False))
            model.append(Below(axis, line.inner, (WIDER**2 - 1.0) * line.noise, line.level, varying=False))
            differing = line.rows + spread * line.squares
            model.append(Below(axis, line.inner, differing, _or_even(line.share, line), varying=True))
        made = ErrorsOf(
            NestedErrors(errors.noise, at, noise, shares),  # type: ignore[arg-type]
            NestedErrors(errors.model, at, model, shares),  # type: ignore[arg-type]
            errors.unknown,
        )
        codes = {}
        for name, kind in fine.items():
            place, first = self.domain.place(name), np.unique(kind, return_index=True)[1]
            along = spread_out(first.astype(np.float64), (place,), axes) if place in axes else np.asarray(first[0])
            codes[name] = np.broadcast_to(np.asarray(along, dtype=np.int64), table.shape).reshape(-1)
        merged = 1 if self.domain.size > 2**62 else self.domain.size // max(1, prod(table.shape))
        names = tuple(self.domain.names[axis] for axis in axes)
        noises = NestedNoise(names, fine, table.shape, {"count": lambda: made})
        return View(self.schema, Gathered(codes, {"count": table.reshape(-1)}, merged), noises, estimated=True)

    def _lines(self, kinds: Kinds) -> tuple[dict[str, Line], dict[str, Codes]]:
        """Classes of values that a query distinguishes: refined for attributes of many values, and for all."""
        lines = {
            name: Line.of(self.values[self.domain.place(name)], np.asarray(kind))
            for name, kind in kinds.items()
            if self.domain.place(name) in self.values and kind.max(initial=0) > 0
        }
        return lines, {name: lines[name].kind if name in lines else np.asarray(kind) for name, kind in kinds.items()}

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        return longest_tail(frozenset(one.noise for one in self.about.measured), confidence)

    def sure(self, kinds: Kinds) -> Source:
        """Guaranteed bounds from tables by groups; if a query divides groups, from counts by value and other tables."""
        lines, fine = self._lines(kinds)
        if all((line.share == 1.0).all() and not line.noise.any() for line in lines.values()):
            return self.groups.sure({n: lines[n].of_groups if n in lines else k for n, k in kinds.items()})
        first: list[tuple[Places, Measurement]] = [((place,), each.measured) for place, each in self.values.items()]
        known = [(places, one) for places, one in self.groups.measured if places and one.of != CONTRAST]
        others = [(places, one) for places, one in known if not {*places} & {*self.values}]
        asked = {self.domain.place(name): kind for name, kind in fine.items() if kind.max(initial=0) > 0}
        return FromTables(self.domain.shape, {place: asked[place] for place in sorted(asked)}, (*first, *others))

    def cells(self) -> Floats:
        raise QueryError("so many values are not laid out together; ask for them by SQL")

    def as_measured(self) -> NestedMargins:
        raise QueryError(
            "a release in which values stand below groups has no unbiased counts of them together; ask without unbiased"
        )

    @cached_property
    def row_model(self) -> RowModel:
        """Sampler: draw rows by group, then a value below each row's group in proportion to its share."""
        return RowsBelow(self, self.groups.row_model)

    @property
    def about(self) -> About:
        about = self.groups.about
        listed = ", ".join(
            f"{len(each.estimate):,} values of {self.domain.names[place]} below {each.hierarchy.axis.size:,} groups "
            f"({each.hierarchy.column})"
            for place, each in self.values.items()
        )
        return replace(
            about,
            extent=f"{about.extent}; {listed}",
            measured=(*about.measured, *(each.measured for each in self.values.values())),
            errors=f"{about.errors}; values of a group are taken to be alike in all other attributes, and how far that "
            "is off was measured with noise",
        )

    def write(self) -> Written:
        written, every = self.groups.write(), list(self.values.values())
        estimates, parts = in_whole_numbers(np.concatenate([each.estimate for each in every]))
        answers = np.concatenate([each.measured.answers for each in every])
        below = [
            {
                "attribute": place,
                "noise": noise_as_json(each.measured.noise),
                "uneven": [in_parts(each.uneven.get(other, 1.0)) for other in range(len(self.domain.axes))],
            }
            for place, each in self.values.items()
        ]
        members = {**written.members, VALUES: dict(zip(COLUMNS, (estimates, parts, answers), strict=True))}
        details = {**written.further["details"], "below": below}
        return Written("nested-margins", written.statistics, members, {"details": details})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        own, rest = _parted(manifest)
        member = manifest.members.get(VALUES)
        shape, places = schema.domain.shape, list(hierarchies(schema))
        sizes = sum(shape[place] for place in places)
        if member is None or member.columns != COLUMNS or member.rows != sizes:
            raise refusal("its counts by value are not those of its schema")
        if [each.attribute for each in own.below] != places or not places:
            raise refusal("its long attributes are not those of its schema")
        if any(len(each.uneven) != len(shape) or min(each.uneven) < 1 for each in own.below):
            raise refusal("its manifest says of its long attributes what Sfumato does not")
        Margins.check(rest, coarse(schema))

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        Margins.check_values(manifest, schema, columns)

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> NestedMargins:
        own, rest = _parted(manifest)
        groups = Margins.read(rest, coarse(schema), member)
        columns, start, values = member(VALUES), 0, {}
        every = from_whole_numbers(columns["estimate"], columns[parts_column("estimate")])
        if (every < 0).any():
            raise refusal("it holds negative counts, where none can be")
        for each, (place, hierarchy) in zip(own.below, hierarchies(schema).items(), strict=True):
            end = start + schema.domain.shape[place]
            measured = Measurement("count", Identity(end - start), columns["answer"][start:end], (each.noise.noise,))
            uneven = {other: spread / FINEST for other, spread in enumerate(each.uneven) if other != place}
            values[place] = Values(hierarchy, every[start:end], measured, uneven)
            start = end
        return cls(schema, groups, values)


def _parted(manifest: Manifest) -> tuple[NestedRecord, Manifest]:
    """Split a manifest into the details of nested attributes and a manifest of plain marginals."""
    details = dict(manifest.details)
    own = {"below": details.pop("below", None)}
    members = {name: member for name, member in manifest.members.items() if name != VALUES}
    return details_as(NestedRecord, replace(manifest, details=own)), replace(manifest, details=details, members=members)


def _conditional(table: Floats, axis: int, lines: Mapping[int, Line]) -> Floats:
    """Shares of the cells of all other axes at each class along one, alike within a group; of all rows if it has none.

    table: by groups.
    """
    for other, line in lines.items():
        table = table if other == axis else line.down(table, other)
    others = tuple(each for each in range(table.ndim) if each != axis)
    sums, every = table.sum(axis=others, keepdims=True), table.sum(axis=axis, keepdims=True)
    usual = every / every.sum() if every.sum() > 0 else np.full(every.shape, 1.0 / every.size)
    shares = np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), usual)
    return np.asarray(np.take(shares, lines[axis].inner, axis=axis))


def _or_even(share: Floats, line: Line) -> Floats:
    """Share of each class in its group, by which errors are centred; 0 for classes of whole groups, (classes,)."""
    return np.where(line.noise > 0, share, 0.0)


@dataclass(frozen=True, eq=False)
class RowsBelow:
    """Sampler of rows: by groups, then a value of each group by its share."""

    content: NestedMargins
    groups: RowModel

    @property
    def total(self) -> float:
        return self.groups.total

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        block = self.groups.draw(places, random)
        codes = dict(block.codes)
        for place, values in self.content.values.items():
            name, groups = self.content.domain.names[place], values.hierarchy.groups
            order = np.argsort(groups, kind="stable")
            shares = shares_within(values.estimate, groups, values.hierarchy.axis.size)[order]
            ends = np.cumsum(shares)
            starts = np.searchsorted(groups[order], np.arange(values.hierarchy.axis.size + 1))
            before = np.append(0.0, ends)[starts]
            at = codes[name]
            drawn = before[at] + random.uniform(len(at)) * (before[at + 1] - before[at])
            found = np.searchsorted(ends, drawn, side="right")
            codes[name] = order[np.clip(found, starts[at], starts[at + 1] - 1)]
        return Block(codes, block.means)

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        names = {axis.name: place for place, axis in enumerate(self.content.domain)}
        places = [names[grouping.name] for grouping in groupings]
        table = self.content.groups._along(tuple(sorted(places)))
        if places != sorted(places):
            table = table.T
        for axis, place in enumerate(places):
            if place in self.content.values:
                values = self.content.values[place]
                number = values.hierarchy.axis.size
                shares = shares_within(values.estimate, values.hierarchy.groups, number)
                table = np.take(table, values.hierarchy.groups, axis=axis) * spread_out(
                    shares, (axis,), range(table.ndim)
                )
        return gather_margin(table, groupings)


NOWHERE = ""  # name of the attribute that tells the tables apart: none
CAN_BE: dict[str, type[Margins | NestedMargins]] = {"margins": Margins, "nested-margins": NestedMargins}


@record
class OfTable:
    """Manifest entry of one release in a sum: kind and details, as in a file of its own."""

    kind: str
    details: dict[str, Any] = field(default_factory=dict)


@record
class SummedRecord:
    """Manifest entry of a sum of releases of disjoint tables."""

    of: list[OfTable]


@dataclass(frozen=True, eq=False)
class SummedMargins(ContentOfCells):
    """Marginals of several disjoint tables with one schema, whose counts and sums are added up."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    parts: tuple[Margins | NestedMargins, ...]

    @classmethod
    def of(cls, contents: Sequence[Margins | NestedMargins | SummedMargins]) -> SummedMargins:
        """Sum of releases, or of sums of them."""
        parts = [part for each in contents for part in (each.parts if isinstance(each, SummedMargins) else [each])]
        return cls(contents[0].schema, tuple(parts))

    def _views(self, kinds: Kinds) -> tuple[PartView, ...]:
        views, start = [], 0
        for number, part in enumerate(self.parts):
            view = part.view(kinds)
            views.append(PartView(number, view, start, view.cells.codes, {}, {}))
            start += view.cells.size
        return tuple(views)

    def view(self, kinds: Kinds) -> View:
        views = self._views(kinds)
        estimated = any(each.view.estimated for each in views)
        cells = cells_of_parts(views, NOWHERE, tuple(kinds))
        return View(self.schema, cells, NoiseOfParts(views, NOWHERE), estimated=estimated)

    def exact_at(self, confidence: float) -> float | None:
        every = [part.exact_at(confidence) for part in self.parts]
        known = [each for each in every if each is not None]
        return max(known) if len(known) == len(every) else None

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        return longest_tail(frozenset(one.noise for one in self.about.measured), confidence)

    def sure(self, kinds: Kinds) -> Source:
        return SourceOfParts(self._views(kinds), tuple(part.sure(kinds) for part in self.parts))

    def as_measured(self) -> SummedMargins:
        return replace(self, parts=tuple(part.as_measured() for part in self.parts))

    def cells(self) -> Floats:
        return np.asarray(sum(part.cells() for part in self.parts))

    @cached_property
    def row_model(self) -> RowModel:
        return RowsOfSum(tuple(part.row_model for part in self.parts))

    @property
    def about(self) -> About:
        every = [part.about for part in self.parts]
        extents = [*dict.fromkeys(each.extent for each in every)]
        errors = [*dict.fromkeys(each.errors for each in every)]
        measured = tuple(one for each in every for one in each.measured)
        extent = f"the sum of {len(every)} tables: {'; '.join(extents)}"
        return About(self.domain.names, extent, measured, f"tables are added up; of each, {'; '.join(errors)}")

    def write(self) -> Written:
        every = [part.write() for part in self.parts]
        members = {_member_of(name, at): each for at, one in enumerate(every) for name, each in one.members.items()}
        listed = [{"kind": one.kind, "details": one.further["details"]} for one in every]
        statistics = [replace(each, member=_member_of(each.member, 0)) for each in every[0].statistics]
        return Written("summed-margins", statistics, members, {"details": {"of": listed}})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        for kind, single in _of_tables(manifest):
            kind.check(single, schema)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        Margins.check_values(manifest, schema, columns)

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> SummedMargins:
        def of(at: int) -> Callable[[str], Columns]:
            return lambda name: member(_member_of(name, at))

        return cls(schema, tuple(kind.read(one, schema, of(at)) for at, (kind, one) in enumerate(_of_tables(manifest))))


def _member_of(member: str, at: int) -> str:
    """Name of a member of one of the tables."""
    return f"{member}_{at}"


def _of_tables(manifest: Manifest) -> list[tuple[type[Margins | NestedMargins], Manifest]]:
    """Kind of each table, and the manifest that a file of its own would have."""
    every = details_as(SummedRecord, manifest).of
    if not 2 <= len(every) <= MOST_PARTS or any(each.kind not in CAN_BE for each in every):
        raise refusal("its manifest has tables that no sum is made of")
    names, result = {*manifest.members}, list[tuple[type[Margins | NestedMargins], Manifest]]()
    statistics = [replace(one, member=one.member.removesuffix("_0")) for one in manifest.statistics]
    for at, each in enumerate(every):
        mine = [name for name in manifest.members if name.endswith(_member_of("", at))]
        members = {name.removesuffix(_member_of("", at)): manifest.members[name] for name in mine}
        own = replace(manifest, kind=each.kind, details=each.details, members=members, statistics=statistics)
        result.append((CAN_BE[each.kind], own))
        names -= {*mine}
    if names:
        raise refusal("it has members of no table")
    return result


@dataclass(frozen=True, eq=False)
class RowsOfSum:
    """Row sampler of a sum: a table in proportion to its rows, then a row of it."""

    models: tuple[RowModel, ...]

    @property
    def total(self) -> float:
        return sum(max(model.total, 0.0) for model in self.models)

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        return np.asarray(sum(model.margin(groupings) for model in self.models))

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        which, inside = dealt_out(np.array([max(model.total, 0.0) for model in self.models]), places)
        blocks = [
            model.draw(inside[which == at], random) for at, model in enumerate(self.models) if (which == at).any()
        ]
        return Block.joined(blocks)
