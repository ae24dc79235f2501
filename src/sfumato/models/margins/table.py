"""Marginal tables with error variances, and the covariance of sums over a table joined from them.

The error of a joined table has an independent part for each set T of its axes, spread over the other axes in proportion
to a public base b (the one-way margins, or evenly):

    e(cell) = sum over T of  b(axes not in T) * (C_T z_T)(cell along T)

The z_T are independent with a variance for each cell of table T, and C_T removes what would change a margin. So a sum
with weights w has variance: sum over T of sum over cells of T of variance_T * w_T^2, where w_T is the component of w
that varies along all axes of T and along no others (analysis of variance under the base).

One-way margins are centred otherwise: joining.onto_total projects them on the total by the same shift for every value
that holds rows, so the error of the total is spread evenly over such values (`levels`), not in proportion to rows.

Errors of neighbours are correlated, so a set may also have variances for blocks of its cells (`Coarse`), which meet
only the block means of the weights.

All groups of a GROUP BY are computed at once: along a grouping axis the varying component of group g is [value = g] -
b(g), whose square is 1 - 2 b(g) at g plus b(g)^2 everywhere. Own method.

Structural zeros: impossible combinations, and functions of finer attributes.

One-way margins are made to agree with the rules (`coherent`): a coarser attribute's margin is the sum of the finer
one's, both pooled by precision; margins that no table with these zeros has are moved to the nearest that one has.
Pairs start from quasi-independence (Goodman 1968), the product of margins with zeros, fitted to the margins. A coarser
attribute's tables are sums of the finer one's where that was measured; where only the coarser was, the finer one is
independent of the rest within each value of the coarser (`by_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from itertools import combinations, combinations_with_replacement
from math import prod
from typing import NamedTuple, TypeVar

import numpy as np

from sfumato.answers.fit import in_parts
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Function, Structure
from sfumato.frozen import dataclass

# Statistics that only measurements have: how far guesses lie from the counts, and signed sums of rows.
MISFIT, CONTRAST = "misfit", "contrast"
# For functions that multiply matrices in single precision: OpenBLAS reads beyond the ends of rows and so may raise the
# flag of an invalid operation on good numbers (numpy's issue 24067).
ON_GOOD_NUMBERS = np.errstate(invalid="ignore")
WIDER = 1.1  # times the measured size, as errors have longer tails than the normal ones they are taken for
Places = tuple[int, ...]  # of axes in their domain, rising
Noisy = tuple[Floats, float]  # numbers along some axes, and the variance of the noise on each


@dataclass(frozen=True, eq=False)
class Table:
    """Estimated marginal table along some axes, with error variances by cell.

    estimate, noise, model: arrays with one axis for each of `places`. noise and model are the variances that its own
    noise and its own model add beyond the errors of its margins, which stand in the tables of these.
    """

    places: Places
    estimate: Floats
    noise: Floats
    model: Floats

    def rounded(self) -> Table:
        """Round to the digits of a file: estimates and standard errors in 1024ths."""
        return self._rounded

    @cached_property
    def _rounded(self) -> Table:
        """Cached rounded table: calibration makes contents of the same tables again and again."""
        errors = (in_parts(np.sqrt(np.maximum(each, 0.0))) ** 2 for each in (self.noise, self.model))
        return Table(self.places, in_parts(self.estimate), *errors)

    def errors_of(self, cells: Flags) -> Table:
        """The same table with the error variances of the flagged cells alone."""
        return Table(self.places, self.estimate, self.noise * cells, self.model * cells)

    def summed(self, kinds: Mapping[int, Codes]) -> Table:
        """Aggregate the table over classes of values. kinds: for each axis, the class of every value."""
        parts = self.estimate, self.noise, self.model
        return Table(self.places, *(sum_kinds(part, [kinds[place] for place in self.places]) for part in parts))


def sum_kinds(values: Floats, kinds: Sequence[Codes]) -> Floats:
    """Aggregate an array along each axis over classes of values. kinds: for each axis, the class of every value."""
    for axis, kind in enumerate(kinds):
        member = _kept(kind.tobytes()) if len(kind) <= SHORT and kind.dtype == np.int64 else _members(kind)
        if member is not None:
            values = along(member, values, axis)
    return np.asarray(values, dtype=np.float64)


SHORT = 128  # values of an axis up to which the members of its classes are kept


@lru_cache(maxsize=2**9)
def _kept(kind: bytes) -> Floats | None:
    """Cached `_members`, by the bytes of the class of every value: many tables are summed by the same classes."""
    return _members(np.frombuffer(kind, dtype=np.int64))


def _members(kind: Codes) -> Floats | None:
    """Indicator matrix of the values of each class, (classes, values); None if every value is its own class."""
    number = int(kind.max(initial=-1)) + 1
    if number == len(kind) and np.array_equal(kind, np.arange(number)):
        return None
    member = np.zeros((number, len(kind)))
    member[kind, np.arange(len(kind))] = 1.0
    return member


def spread_out(values: Floats, places: Places, among: Sequence[int]) -> Floats:
    """Reshape an array along `places` to one axis per element of `among`, of length 1 for the others."""
    return values[_at(places, tuple(among))]


@lru_cache(maxsize=2**12)
def _at(places: Places, among: Places) -> tuple[slice | None, ...]:
    """Index that spreads an array along `places` over the axes of `among`."""
    return tuple(slice(None) if place in places else None for place in among)


def sum_out(values: Floats, places: Iterable[int], among: Sequence[int]) -> Floats:
    """Marginalise an array with an axis per element of `among` to the axes in `places`."""
    kept = set(places)
    return np.asarray(values.sum(axis=tuple(axis for axis, place in enumerate(among) if place not in kept)))


def subsets(places: Sequence[int]) -> list[Places]:
    """All subsets of a sequence, smaller ones first.

    >>> subsets((3, 5))
    [(), (3,), (5,), (3, 5)]
    """
    return [part for size in range(len(places) + 1) for part in combinations(places, size)]


def pooled(noisy: Sequence[tuple[Places, Noisy]], places: Places) -> tuple[Floats, float]:
    """Inverse-variance mean of a margin over all noisy tables that contain it, and the variance of its cells."""
    top, weight = np.zeros(()), 0.0
    for of, (sums, variance) in noisy:
        if set(places) <= set(of):
            margin = sum_out(sums, places, of)
            precision = margin.size / (sums.size * variance)
            top, weight = top + precision * margin, weight + precision
    return top / weight, 1.0 / weight


def independent(one_way: Sequence[Floats], total: float) -> Floats:
    """Product table of one-way margins with this total, as if the attributes were independent."""
    return product_of([margin / max(total, 1e-9) for margin in one_way], total)


def product_of(shares: Sequence[Floats], total: float) -> Floats:
    """Table with this total of which every axis has its shares, whatever the others."""
    joint: Floats = np.full([1] * len(shares), total)
    for axis, each in enumerate(shares):
        joint = joint * spread_out(each, (axis,), range(len(shares)))
    return joint


def guess_of(guessed: Sequence[Floats], pair: Places) -> Floats:
    """Whole numbers nearest to the product table of a pair, with which its counts are compared.

    guessed: the number of all rows, and then every one-way margin.
    """
    return np.asarray(np.rint(independent([guessed[1 + place] for place in pair], float(guessed[0][0]))))


SumWeights = Sequence[Floats | None]
Key = TypeVar("Key")


class _Sums(NamedTuple):
    """Weights of several sums (see `JoinedErrors.covariances`), grouping axes, and the covariances to be added to."""

    split: SumWeights
    whole: SumWeights
    groups: Places
    result: Floats


@dataclass(frozen=True, eq=False)
class Coarse:
    """Error variances of blocks of cells at one scale.

    shares: for each axis an array (blocks, values), the share of each value in its block's base. variances: for sets of
    axes, by block; negative where the cells inside already claim more than the blocks err by.
    """

    shares: tuple[Floats, ...]
    variances: Mapping[Places, Floats]


@dataclass(frozen=True, eq=False)
class JoinedErrors:
    """Covariance model of the errors of a table that was joined from marginals.

    As in an analysis of variance, the error of a cell is a sum over sets of axes T of (product of bases[a] over axes a
    outside T) * z_T, with independent z_T of these variances, centred along the axes of T. A weighted sum of cells thus
    has the variance: sum over T of variances[T] * (weights averaged outside T, centred inside)^2.

    bases: for each axis, shares of its values, sum 1. variances: for each set of axes, by cell. levels: for each axis,
    derivative of its margin by the total, sum 1; the base if None. apart: for an axis, variances of values whose margin
    does not follow the total. coarse: further errors of blocks of cells, one entry per scale.
    """

    bases: tuple[Floats, ...]
    variances: Mapping[Places, Floats]
    levels: tuple[Floats, ...] | None = None
    apart: Mapping[int, Floats] = field(default_factory=dict)
    coarse: Sequence[Coarse] = ()

    def __add__(self, other: JoinedErrors) -> JoinedErrors:
        """Sum of two independent errors of the same table, with the same scales."""
        coarse = tuple(
            Coarse(mine.shares, _added(mine.variances, its.variances))
            for mine, its in zip(self.coarse, other.coarse, strict=True)
        )
        variances, apart = _added(self.variances, other.variances), _added(self.apart, other.apart)
        return replace(self, variances=variances, apart=apart, coarse=coarse)

    def without(self, part: Places) -> JoinedErrors:
        """Error model without the cell errors of one set of axes."""
        left = {each: variances for each, variances in self.variances.items() if each != part}
        return replace(self, variances=left)

    def alone(self, part: Places) -> JoinedErrors:
        """Error model with the cell errors of one set of axes alone."""
        return JoinedErrors(self.bases, {each: v for each, v in self.variances.items() if each == part})

    def of_cells(self) -> Floats:
        """Variance of every single cell."""
        every = tuple(range(len(self.bases)))
        return self.covariances([np.ones([1] * len(every))], [None], every)[..., 0, 0]

    def covariances(self, split: SumWeights, whole: SumWeights, groups: Places) -> Floats:
        """Covariance matrices of several sums for every group: an array (*grouping axes, sums, sums).

        split: for each sum, weights on the cells of the group. whole: for each sum, weights on all cells whatever the
        group. Weights are arrays that broadcast to the table, or None for none.
        """
        sums = _Sums(split, whole, groups, np.zeros([*(len(self.bases[axis]) for axis in groups), *[len(split)] * 2]))
        for part in subsets(self._axes):
            if part not in self.variances or not self.variances[part].any():
                continue
            if not part and self.levels is not None:
                self._add_total(sums, self.levels)
                continue
            centres = self.levels if len(part) == 1 and self.levels is not None else self.bases
            self._add(sums, part, self.variances[part], centres)
        nowhere = tuple(np.zeros_like(base) for base in self.bases)
        for axis, variance in self.apart.items():
            self._add(sums, (axis,), variance, nowhere)
        for scale in self.coarse:
            for part, variances in scale.variances.items():
                if variances.any():
                    self._add_coarse(sums, part, variances, scale.shares)
        return sums.result

    @property
    def _axes(self) -> Places:
        return tuple(range(len(self.bases)))

    def _add_coarse(self, sums: _Sums, part: Places, variances: Floats, shares: Sequence[Floats]) -> None:
        """Add the covariances from block errors of one set of axes: weights enter by block means less overall mean.

        variances: by block; shares: see `Coarse`.
        """
        variance = spread_out(variances, part, self._axes)
        squares, moves = variance, []
        for axis in sums.groups:  # what a group's own values are of every block, less what they are of all rows
            base = self.bases[axis]
            if axis in part:
                moved = shares[axis].T - base[:, None]
                squares = along(moved**2, squares, axis)
            else:
                moved = base[:, None]
                squares = squares * spread_out(base**2, (axis,), self._axes)
            moves.append((axis, moved))

        def met(other: Floats) -> Floats:
            result = variance * other
            for axis, moved in moves:
                result = along(moved, result, axis)
            return result

        self._fill(sums, variance, squares, met, lambda w, axes: self._over_blocks(w, part, axes, shares))

    def _over_blocks(self, weights: Floats, part: Places, axes: Places, shares: Sequence[Floats]) -> Floats:
        """Block means of weights along the axes of a set, less their mean; overall means along other axes."""
        for axis in axes:
            if weights.shape[axis] == 1:
                mean = weights * float(self.bases[axis].sum())
                weights = weights - mean if axis in part else mean
                continue
            mean = along(self.bases[axis][None], weights, axis)
            weights = along(shares[axis], weights, axis) - mean if axis in part else mean
        return weights

    def _add_total(self, sums: _Sums, levels: Sequence[Floats]) -> None:
        """Add the covariances from the error of the total, which to first order shifts every margin by its level."""
        full = [len(base) if axis in sums.groups else 1 for axis, base in enumerate(self.bases)]
        moved = [np.zeros(full) for _ in sums.split]
        for index, (mine, every) in enumerate(zip(sums.split, sums.whole, strict=True)):
            for weights, fixed in ((mine, sums.groups), (every, ())):
                if weights is not None:
                    moved[index] = moved[index] + self._along_levels(weights, levels, fixed)
        shape = [len(self.bases[axis]) for axis in sums.groups]
        for i, first in enumerate(moved):
            for j, second in enumerate(moved):
                sums.result[..., i, j] += float(self.variances[()]) * (first * second).reshape(shape)

    def _along_levels(self, weights: Floats, levels: Sequence[Floats], fixed: Places) -> Floats:
        """Derivative of a sum by the total when all margins shift, for every group along the fixed axes."""
        axes = tuple(range(len(self.bases)))

        def through(changed: int | None) -> Floats:
            result = weights
            for axis in axes:
                base = self.bases[axis] if axis != changed else levels[axis] - self.bases[axis]
                held = spread_out(base, (axis,), axes)
                if axis in fixed:
                    result = result * held
                elif result.shape[axis] == 1:
                    result = result * float(base.sum())
                else:
                    result = (result * held).sum(axis=axis, keepdims=True)
            return result

        return np.asarray(through(None) + sum(through(axis) for axis in axes))

    def _add(self, sums: _Sums, part: Places, variances: Floats, centres: Sequence[Floats]) -> None:
        """Add the covariances from the cells of one set of axes.

        variances: by cell. centres: for each axis of the set, the weights by which its errors are centred.
        """
        variance = spread_out(variances, part, self._axes)
        scale = np.ones([1] * len(self.bases))
        squares = variance
        for axis in sums.groups:
            if axis in part:
                centre = spread_out(centres[axis], (axis,), self._axes)
                squares = (1.0 - 2.0 * centre) * squares + centre**2 * squares.sum(axis=axis, keepdims=True)
            else:
                scale = scale * spread_out(self.bases[axis], (axis,), self._axes)

        def met(other: Floats) -> Floats:
            result = variance * other
            for axis in sums.groups:
                if axis in part:
                    centre = spread_out(centres[axis], (axis,), self._axes)
                    result = result - centre * result.sum(axis=axis, keepdims=True)
            return result * scale

        self._fill(sums, variance, scale**2 * squares, met, lambda w, axes: self._varying(w, part, axes, centres))

    def _fill(
        self,
        sums: _Sums,
        variance: Floats,
        squares: Floats,
        met: Callable[[Floats], Floats],
        projected: Callable[[Floats, Places], Floats],
    ) -> None:
        """Add the covariances of several sums under independent errors of one set of axes.

        squares: variances times the squared projection of a group's indicator. met: applies the projection on a group
        to errors weighed by weights on all cells. projected: weights projected on the errors along some axes.
        """
        others = tuple(axis for axis in self._axes if axis not in sums.groups)
        inside = [None if w is None else projected(w, others) for w in sums.split]
        outside = [None if w is None else projected(w, self._axes) for w in sums.whole]
        full = [len(base) if axis not in others else 1 for axis, base in enumerate(self.bases)]
        shape = [len(self.bases[axis]) for axis in sums.groups]

        def over(values: Floats) -> Floats:
            if not shape:  # one group of all rows
                return np.asarray(np.add.reduce(values, axis=others), dtype=np.float64)
            return np.broadcast_to(values.sum(axis=others, keepdims=True), full).reshape(shape)

        for i, j in combinations_with_replacement(range(len(inside)), 2):
            value: Floats = np.zeros(shape)
            for first, second in ((inside[i], outside[j]), (inside[j], outside[i])):
                if first is not None and second is not None:
                    value = value + over(first * met(second))
            for first, second, weight in ((inside[i], inside[j], squares), (outside[i], outside[j], None)):
                if first is not None and second is not None:
                    both = first * second
                    value = value + (over(both * weight) if weight is not None else float((both * variance).sum()))
            sums.result[..., i, j] += value
            if i != j:
                sums.result[..., j, i] += value

    def _varying(self, weights: Floats, part: Places, along: Places, centres: Sequence[Floats]) -> Floats:
        """Component of the weights that varies along the axes of a set; other axes of `along` are averaged out."""
        for axis in along:
            base = centres[axis] if axis in part else self.bases[axis]
            same = weights.shape[axis] == 1  # all along the axis
            held = float(base.sum()) if same else spread_out(base, (axis,), range(len(self.bases)))
            mean = (weights * held).sum(axis=axis, keepdims=True)
            weights = weights - mean if axis in part else mean
        return weights


def along(matrix: Floats, values: Floats, axis: int) -> Floats:
    """Multiply an array by a matrix along one axis."""
    if axis == values.ndim - 1:
        return np.asarray(values @ matrix.T, dtype=np.float64)
    before, (size, *after) = values.shape[:axis], values.shape[axis:]
    result = matrix @ values.reshape(*before, size, prod(after))
    return np.asarray(result.reshape(*before, len(matrix), *after), dtype=np.float64)


def along_all(matrices: Sequence[Floats], values: Floats) -> Floats:
    """Multiply an array by a matrix along each of its axes."""
    for axis, matrix in enumerate(matrices):
        values = along(matrix, values, axis)
    return values


def _added(first: Mapping[Key, Floats], second: Mapping[Key, Floats]) -> dict[Key, Floats]:
    """Sum two mappings of variances key by key."""
    result = {**first}
    for key, variances in second.items():
        result[key] = result[key] + variances if key in result else variances
    return result


ROUNDS_OF_ZEROS = 500  # of fitting a table with zeros to its margins, which takes more than one without
AGREEING = 1e-7  # of the rows: nearer than this margins agree
SWEEPS = 20  # over the pairs whose margins do not agree with their zeros


def fitted_with_zeros(table: Floats, rows: Floats, columns: Floats, possible: Flags) -> Floats:
    """Proportional fitting of a pair with zeros to its margins, as far as they allow it (Deming, Stephan 1940)."""
    fitted: Floats = np.maximum(table, 0.0) * possible
    empty = possible & (fitted <= 0.0) & (rows > 0.0)[:, None] & (columns > 0.0)
    fitted = fitted + 1e-9 * max(float(rows.sum()), 1.0) / table.size * empty
    for _ in range(ROUNDS_OF_ZEROS):
        now = fitted.sum(axis=1)
        fitted *= np.where(now > 0.0, rows / np.maximum(now, 1e-300), 0.0)[:, None]
        now = fitted.sum(axis=0)
        if float(np.abs(now - columns).sum()) <= AGREEING * float(rows.sum()):
            break
        fitted *= np.where(now > 0.0, columns / np.maximum(now, 1e-300), 0.0)
    return fitted


def guess_with_zeros(guessed: Sequence[Floats], pair: Places, structure: Structure) -> Floats:
    """Whole numbers nearest to the quasi-independent table of a pair, as `table.guess_of` without zeros."""
    possible = structure.possible(pair)
    if possible is None:
        return guess_of(guessed, pair)
    margins = [guessed[1 + place] for place in pair]
    product = independent(margins, float(guessed[0][0]))
    return np.asarray(np.rint(fitted_with_zeros(product, margins[0], margins[1], possible)))


def zeros_of_pairs(structure: Structure) -> dict[Places, Flags]:
    """Flags of possible cells of each pair that has impossible ones."""
    axes = sorted(structure.axes)
    pairs = {(a, b): structure.possible((a, b)) for a in axes for b in axes if a < b}
    return {pair: flags for pair, flags in pairs.items() if flags is not None}


def coherent(
    structure: Structure, total: float, margins: Sequence[Floats], unsure: Sequence[Floats]
) -> tuple[list[Floats], list[Floats]]:
    """One-way margins that agree with all rules, and variances of their values.

    unsure: variances by value. Where an attribute follows from another, sums over the finer one's values are pooled
    with the coarser one's counts by precision.
    """
    result, errors = [each.copy() for each in margins], [each.copy() for each in unsure]
    for place in structure.axes:
        flags = structure.possible((place,))
        if flags is not None:
            held = np.where(flags, result[place], 0.0)
            result[place] = held * (total / held.sum()) if held.sum() > 0 else flags * total / flags.sum()
            errors[place] = errors[place] * flags
    for function in structure.ordered:  # the coarsest first
        fine, coarse, image = result[function.fine], result[function.coarse], function.image
        sums, number = np.bincount(image, fine, len(coarse)), np.bincount(image, minlength=len(coarse))
        mine = np.bincount(image, errors[function.fine], len(coarse))
        its = errors[function.coarse]
        weight = np.where(mine + its > 0, its / np.maximum(mine + its, 1e-300), 1.0)  # of the sums
        pooled = np.maximum(weight * sums + (1.0 - weight) * coarse, 0.0) * (number > 0)
        pooled *= total / pooled.sum() if pooled.sum() > 0 else 1.0
        even = pooled[image] / np.maximum(number, 1)[image]
        result[function.fine] = np.where(sums[image] > 0, fine * (pooled / np.maximum(sums, 1e-300))[image], even)
        # Within a group values keep their errors; those of the group's sum are shared out.
        ratio = np.where(mine > 0, weight, 1.0)
        errors[function.fine] = errors[function.fine] * (1.0 - (1.0 - ratio[image]) / np.maximum(number, 1)[image])
        errors[function.coarse] = weight * mine
        result[function.coarse] = pooled
    _made_feasible(structure, result)
    for function in reversed(structure.ordered):
        sums = np.bincount(function.image, result[function.fine], len(result[function.coarse]))
        result[function.coarse] = np.asarray(sums, dtype=np.float64)
    return result, errors


def pooled_errors(tables: Mapping[Places, Table], structure: Structure) -> dict[Places, Table]:
    """One-way tables with the error variance of pooled counts, where one attribute is a function of a finer one.

    A coarse value is measured twice, by itself and as a sum of finer values; precisions add up. Counts stay.
    """
    result: dict[Places, Table] = {}
    for function in reversed(structure.ordered):  # the finest first
        fine, coarse = (result.get((place,), tables[place,]) for place in (function.fine, function.coarse))
        sums = np.bincount(function.image, fine.noise, len(coarse.noise))  # 0 for a value that nothing leads to
        noise = sums * coarse.noise / np.maximum(sums + coarse.noise, 1e-300)
        result[function.coarse,] = replace(coarse, noise=noise)
    return result


def _made_feasible(structure: Structure, margins: list[Floats]) -> None:
    """Move margins, in place, until some table with each pair's zeros has them."""
    zeros = {pair: flags for pair, flags in zeros_of_pairs(structure).items() if structure.essential(pair) == pair}
    for _ in range(SWEEPS):
        moved = 0.0
        for (a, b), flags in zeros.items():
            rows, columns = margins[a], margins[b]
            total = max(float(rows.sum()), 1e-9)
            table = fitted_with_zeros(np.outer(rows, columns) / total, rows, columns, flags)
            now = table.sum(axis=1)
            off = float(np.abs(now - rows).sum() + np.abs(table.sum(axis=0) - columns).sum())
            if off > 1e-5 * total and table.sum() > 0:
                other = table * np.where(now > 0.0, rows / np.maximum(now, 1e-300), 0.0)[:, None]
                middle = table / table.sum() + other / max(float(other.sum()), 1e-300)
                margins[a], margins[b] = (middle.sum(axis=axis) * total / 2.0 for axis in (1, 0))
                moved = max(moved, off / total)
        if moved <= 1e-5:
            break


def with_zeros(noisy: Noisy, possible: Flags) -> Noisy:
    """Noisy table with 0 in impossible cells, and the mean variance of its cells."""
    numbers, variance = noisy
    return np.where(possible, numbers, 0.0), variance * float(possible.mean())


def respecting(tables: Mapping[Places, Table], structure: Structure) -> dict[Places, Table]:
    """Set impossible cells of tables to 0, estimate and error."""
    result = dict(tables)
    for places, table in tables.items():
        flags = structure.possible(places) if len(places) > 1 else None
        if flags is not None:
            result[places] = replace(table.errors_of(flags), estimate=table.estimate * flags)
    return result


def seen_by_functions(seen: Mapping[Places, Noisy], structure: Structure, axes: int) -> dict[Places, Noisy]:
    """Noisy pairs of a coarse attribute (a function of a finer one), pooled with sums of the finer attribute's pairs.

    seen: noisy pairs. A set that is measured never holds an attribute and one that follows from it, so noises of both
    are independent; of several finer pairs the most precise is taken.
    """
    steps, result = {each.coarse: each for each in structure.functions}, dict(seen)
    done: set[Places] = set()

    def of(pair: Places) -> Noisy | None:
        """Pooled noisy table of one pair, after those of its finer attributes (recursive)."""
        if pair in done:
            return result.get(pair)
        done.add(pair)
        candidates: list[Noisy] = []
        for place in pair:
            each, (other,) = steps.get(place), (one for one in pair if one != place)
            if each is None or structure.essential((each.fine, other)) != (each.fine, other):
                continue
            below: Places = (min(each.fine, other), max(each.fine, other))
            noisy = of(below)
            if noisy is not None:
                numbers = _gathered(noisy[0], below.index(each.fine), each.image, each.values)
                numbers = numbers if below.index(each.fine) == pair.index(place) else numbers.T
                candidates.append((numbers, noisy[1] * len(each.image) / max(len(np.unique(each.image)), 1)))
        if candidates:
            best, own = min(candidates, key=lambda one: one[1]), result.get(pair)
            if own is None:
                result[pair] = best
            else:
                weight = best[1] / (best[1] + own[1])
                result[pair] = weight * own[0] + (1.0 - weight) * best[0], own[1] * weight
        return result.get(pair)

    for coarse in steps:
        for other in range(axes):
            pair = (min(coarse, other), max(coarse, other))
            if coarse != other and structure.essential(pair) == pair:
                of(pair)
    return {pair: result[pair] for pair in sorted(result)}


def by_functions(tables: Mapping[Places, Table], structure: Structure, told: Sequence[Places]) -> dict[Places, Table]:
    """Fit pairs of a finer attribute to those of the coarser one that it determines; the pair of both is exact.

    told: pairs of which cells were measured, or sums of them. A pair of a finer attribute that was not is independent
    within each value of the coarser.
    """
    result, measured = dict(tables), {*told}
    for function in structure.ordered:  # the coarsest first
        fine, coarse = function.fine, function.coarse
        for other in (places[0] for places in tables if len(places) == 1):
            pair: Places = (min(fine, other), max(fine, other))
            above: Places = (min(coarse, other), max(coarse, other))
            if other == coarse:
                flags, margin = function.possible(), result[fine,].estimate
                diagonal = flags * (margin[:, None] if fine < coarse else margin)
                result[pair] = Table(pair, diagonal, np.zeros(flags.shape), np.zeros(flags.shape))
            elif other != fine and structure.essential(above) == above and structure.essential(pair) == pair:
                if pair not in measured and above in measured:
                    result[pair] = _below(result, function, pair, above)
                    measured.add(pair)
                result[pair] = _fitted_to(result, function, pair, above)
    for function in reversed(structure.ordered):  # of two steps in a row, such as county and country
        for coarse, fine in ((pair, each) for pair in structure.above(function.coarse) for each in (function.fine,)):
            pair = (min(coarse, fine), max(coarse, fine))
            image = structure.behind(coarse, (fine,))[1]
            flags = image[:, None] == np.arange(structure.shape[coarse])
            diagonal = flags * result[fine,].estimate[:, None]
            diagonal = diagonal if fine < coarse else diagonal.T
            result[pair] = Table(pair, diagonal, np.zeros(diagonal.shape), np.zeros(diagonal.shape))
    return result


def _gathered(table: Floats, axis: int, image: Codes, values: int) -> Floats:
    """Sum a table over the values of one axis that a function maps to the same image."""
    member = np.zeros((values, len(image)))
    member[image, np.arange(len(image))] = 1.0
    return along(member, table, axis)


def _below(tables: Mapping[Places, Table], function: Function, pair: Places, above: Places) -> Table:
    """Pair of a finer attribute from that of the coarser: independent within each value of the coarser.

    Errors of the coarser pair are shared out so that those of a group's values add up to them.
    """
    table, margin, image = tables[above], tables[function.fine,].estimate, function.image
    parts = [part if above[0] == function.coarse else part.T for part in (table.estimate, table.noise, table.model)]
    rows = np.maximum(np.bincount(image, margin, len(parts[0])), 1e-300)
    share = (margin / rows[image])[:, None]
    estimate, noise, model = (part[image] * share for part in parts)
    made = (estimate, noise, model + estimate)
    return Table(pair, *(made if pair[0] == function.fine else (part.T for part in made)))


def _fitted_to(tables: Mapping[Places, Table], function: Function, pair: Places, above: Places) -> Table:
    """Pair of a finer attribute, fitted to that of the coarser and to its own margin."""
    table, image = tables[pair], function.image
    fitted = (table.estimate if pair[0] == function.fine else table.estimate.T).copy()
    wanted = tables[above].estimate if above[0] == function.coarse else tables[above].estimate.T
    margin = tables[function.fine,].estimate
    for _ in range(ROUNDS_OF_ZEROS):
        now = _gathered(fitted, 0, image, len(wanted))
        fitted *= np.where(now > 0.0, wanted / np.maximum(now, 1e-300), 0.0)[image]
        rows = fitted.sum(axis=1)
        if float(np.abs(rows - margin).sum()) <= AGREEING * max(float(margin.sum()), 1e-9):
            break
        fitted *= np.where(rows > 0.0, margin / np.maximum(rows, 1e-300), 0.0)[:, None]
    return replace(table, estimate=fitted if pair[0] == function.fine else fitted.T)


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Query rewritten without attributes that are functions of others: only the finer ones stay as axes.

    shape: number of classes of every original axis. kinds: for each axis that stays, the class of every value, refined
    by the classes of its functions. cells: for every cell of the axes that stay, its index among the original cells.
    roots: for each axis left out, the axis that it is a function of, and its class for every class of that axis.
    """

    shape: tuple[int, ...]
    kinds: Mapping[int, Codes]
    cells: Codes
    roots: Mapping[int, tuple[int, Codes]]
    before: Mapping[int, Codes]

    @classmethod
    def of(cls, structure: Structure, kinds: Mapping[int, Codes]) -> Narrowed | None:
        """Rewrite a query; None where no attribute is a function of another. kinds: class of every value, by axis."""
        left = structure.essential(tuple(kinds))
        if len(left) == len(kinds):
            return None
        behind = {place: structure.behind(place, left) for place in kinds if place not in left}
        narrow: dict[int, Codes] = {}
        before: dict[int, Codes] = {}
        roots: dict[int, tuple[int, Codes]] = {}
        for place in left:
            mine = [(coarse, image) for coarse, (root, image) in behind.items() if root == place]
            columns = np.stack([kinds[place], *(kinds[coarse][image] for coarse, image in mine)])
            classes, narrow[place] = np.unique(columns, axis=1, return_inverse=True)
            narrow[place] = narrow[place].reshape(-1)
            before[place] = classes[0]
            roots |= {coarse: (place, classes[1 + n]) for n, (coarse, _) in enumerate(mine)}
        sizes = {place: int(kind.max(initial=0)) + 1 for place, kind in kinds.items()}
        cells: Codes = np.zeros([len(before[place]) for place in left], dtype=np.int64)
        for place in kinds:
            root, codes = roots.get(place, (place, before.get(place)))
            along = [len(before[root]) if each == root else 1 for each in left]
            cells = cells * sizes[place] + np.asarray(codes).reshape(along)
        return cls(tuple(sizes.values()), narrow, cells, roots, before)

    def expand(self, table: Floats) -> Floats:
        """Expand a table of the rewritten query to the original axes, with 0 in all other cells."""
        result = np.zeros(self.shape)
        result.reshape(-1)[self.cells.reshape(-1)] = table.reshape(-1)
        return result
