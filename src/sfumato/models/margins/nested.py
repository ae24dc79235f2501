"""Content of a release of marginals in which long attributes enter by groups, with their values below (hierarchy.py).

A query's classes of values are refined so that each lies in one group, or covers whole groups (`Line`). Groups are
joined as usual (content.py), and a class has its share of its group. The error of a sum with weights w over classes f
of group g and cells r of the other attributes, with Q(r | g) the shares of these, has three independent parts:

    errors of the joined table by groups, with weights  sum over f of p(f) w(f, r)
    errors of counts by value, V_f each, centred in the group:   sum of V_f (E_Q w)^2
    values of a group that differ in other attributes:   sum of (m_f + c^2 sum of m_v^2) Var_Q(w),  centred alike

(`Below`). Along an axis that a query groups by, the weights of class f are an indicator, and all are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.evaluate import Sum, View
from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.question import Gathered, Groups, Kinds
from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.models.margins import file as margins_file
from sfumato.models.margins.content import Margins
from sfumato.models.margins.hierarchy import Hierarchy, coarse, hierarchies, mean_by, shares_within
from sfumato.models.margins.noise import ErrorsOf, FromTables, JoinedNoise, longest_tail
from sfumato.models.margins.scales import FINEST, in_parts
from sfumato.models.margins.table import WIDER, JoinedErrors, Places, Weights, spread_out
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file.fit_records import from_whole_numbers, in_whole_numbers
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import Columns, parts_column
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, RowModel, gather_margin
from sfumato.schema import Schema

VALUES = "values"  # the member of a file that keeps counts by value
COLUMNS = ["estimate", parts_column("estimate"), "answer"]


@dataclass(frozen=True, eq=False)
class Values:
    """Counts of a long attribute's values. estimate: (values,), they add up to their groups'. measured: the noisy ones.

    uneven: c^2 of values of a group, by the place of another attribute.
    """

    hierarchy: Hierarchy
    estimate: Floats
    measured: Measurement
    uneven: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class Line:
    """Classes of a long attribute's values, refined: each inside one group, or made of whole groups.

    kind: (values,), class of each value. inner: (classes,), rising, the class of groups that each lies in; of_groups:
    (groups,), the class of each group. share: of each class in that, (classes,). noise: variance of the counts that a
    class adds up; level: what it takes of an error of its group's count. rows, squares: sums of m_v and of m_v^2. The
    last four are 0 where a class has whole groups.
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
        """A table along classes of groups, divided among the classes of values."""
        shape = [1] * table.ndim
        shape[axis] = len(self.share)
        return np.asarray(np.take(table, self.inner, axis=axis) * self.share.reshape(shape))

    def up(self, weights: Floats, axis: int) -> Floats:
        """Mean weights of each class of groups."""
        return weights if weights.shape[axis] == 1 else mean_by(weights, self.inner, self.share, axis, self.number)


@dataclass(frozen=True, eq=False)
class Below:
    """Errors of values below groups along one axis: independent for each class, centred within classes of groups.

    variance: (classes,). centre: (classes,), by which they are centred; sums to 1 where the variance is not 0. varying:
    whether they reach what weights vary by over the other axes, or their mean there.
    """

    axis: int
    inner: Codes
    variance: Floats
    centre: Floats
    varying: bool

    def add(self, result: Floats, shares: Floats, split: Weights, whole: Weights, groups: Places) -> None:
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
        """Sums over the classes of each class of groups, at each of them."""
        summed = mean_by(values, self.inner, np.ones(len(self.inner)), self.axis, int(self.inner[-1]) + 1)
        return np.take(summed, self.inner, axis=self.axis)


@dataclass(frozen=True, eq=False)
class NestedErrors:
    """Errors of a table with long attributes: those of groups, and those of values below. shares: Q for each axis."""

    groups: JoinedErrors
    lines: Mapping[int, Line]
    below: Sequence[Below]
    shares: Mapping[int, Floats]

    @property
    def variances(self) -> Mapping[Places, Floats]:
        """Variances by set of attributes of the groups' errors."""
        return self.groups.variances

    def covariances(self, split: Weights, whole: Weights, groups: Places) -> Floats:
        """Covariance matrices of several sums for every group, as `JoinedErrors.covariances` has them."""
        result = self._of_groups(split, whole, groups)
        for part in self.below:
            part.add(result, self.shares[part.axis], split, whole, groups)
        return result

    def _of_groups(self, split: Weights, whole: Weights, groups: Places) -> Floats:
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
    """Errors of all statistics of a table with long attributes; which set's model matters most is not told."""

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        return None


@record
class BelowRecord:
    """Manifest entry of a long attribute: its place, noise, and c^2 in parts of 2^20 by place of other attributes."""

    attribute: int
    noise: NoiseRecord
    uneven: list[int]


@record
class NestedRecord:
    """Long attributes in a manifest's details, besides those of marginals."""

    below: list[BelowRecord]


@dataclass(frozen=True, eq=False)
class NestedMargins(ContentOfCells):
    """Marginals in which long attributes are their groups, and counts of these attributes' values, by place."""

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
        """Refined classes of the long attributes that a query tells apart, and the classes of all attributes."""
        lines = {
            name: Line.of(self.values[self.domain.place(name)], np.asarray(kind))
            for name, kind in kinds.items()
            if self.domain.place(name) in self.values and kind.max(initial=0) > 0
        }
        return lines, {name: lines[name].kind if name in lines else np.asarray(kind) for name, kind in kinds.items()}

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        return longest_tail(frozenset(one.noise for one in self.about.measured), confidence)

    def sure(self, kinds: Kinds) -> Source:
        """Guaranteed bounds: from tables by groups where a query asks for whole groups, else from those without."""
        lines, fine = self._lines(kinds)
        if all((line.share == 1.0).all() and not line.noise.any() for line in lines.values()):
            return self.groups.sure({n: lines[n].of_groups if n in lines else k for n, k in kinds.items()})
        first: list[tuple[Places, Measurement]] = [((place,), each.measured) for place, each in self.values.items()]
        known = [(places, one) for places, one in self.groups.measured if places and one.of != margins_file.CONTRAST]
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
        """Rows by groups, and a value of each row's group by its share."""
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
        margins_file.check(rest, coarse(schema))

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        margins_file.check_values(columns)

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
    """A manifest's own details, and the manifest as one of marginals has it."""
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
    """Shares that errors are centred by, 0 where there are none."""
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
