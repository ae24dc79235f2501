"""Borrow strength across periods for cubes: orthogonal components, each a local-level model (answers/local_level.py).

Components. Along an axis E_0, E_1, ..., E_L average over ever finer blocks of values: all values, then runs of
neighbours of an ordered axis, then single values. The components of a cube y are the tables

    z_T = (G_1 x ... x G_d) y,   G = R_l - R_l E_(l-1),   y = sum over T of (G_1 x ... x G_d)^T z_T

for every choice T of a level l on each axis, with R_l the normalised indicators of the blocks (a multilevel analysis
of variance). So a margin that moves as a whole is one component's drift, and no cell's. Each entry of a component is a
local level, with drift and scatter learned from all of its entries; the total does not lean.

Estimate. With r the variance of an entry's noise, e that of its prediction by other periods, s that of scatter,

    weight w = r / (r + e + s),    z = own + w (predicted - own),    variance = (1 - w)^2 r + w^2 (e + s)

A weighted sum q of cells has the weights G q on the entries. Its own noise is that of the fit inside, for the weights
q - sum of G^T w G q. Entries are predicted with independent errors: sum of (G q)^2 w^2 (e + s) / share, with the share
of a block's variance that the projection leaves. Where the fit inside has errors of a model, of which a part comes
again in every period, only what changes between periods is taken to be noise (`fresh`, learned like drift), and
intervals claim the share `CLAIMED` of the gain: what a model shrinks moves less than rows do.

All of it works on published numbers: nothing is spent. Guaranteed intervals are those of the fit inside. Own method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from sfumato.answers.fit import ByModel, Errors, Fit, FitReader, Grouped, Inside, NoisyCells, Sets
from sfumato.answers.fitted_noise import at_once
from sfumato.answers.local_level import LEAST, LET_GO, NEAR, Prediction, Walk, learned
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find

MOST_CELLS = 2**12  # of a cube that leans: errors of all of its cells are then worked out in seconds
MOST_FITTED = 2**10  # the same where noises of cells are not independent
FINER = 2  # blocks of an ordered axis, of each block of the level above
SURE = 2.0  # standard errors of a drift that are added to it: few periods do not show all of it
MOST_LAID_OUT = 2**21  # weights of components on cells
CLAIMED = 0.5  # of what leaning takes off a model's variance, what intervals become narrower by
LOOKS = 8  # entries of a component by which its noise is known, where cells have no noise of their own


@dataclass(frozen=True, eq=False)
class Level:
    """One level of an axis: indicators of its blocks as orthonormal rows, and their contrasts to the coarser level.

    blocks, contrasts: (blocks, values). parent: block of the level above, (blocks,).
    """

    blocks: Floats
    contrasts: Floats
    parent: Codes

    @cached_property
    def projection(self) -> Floats:
        return np.asarray(self.contrasts @ self.blocks.T)


def levels_of(values: int, *, ordered: bool) -> tuple[Level, ...]:
    """Levels of an axis: all values, runs of neighbours where values are ordered, single values."""
    sizes = [1] if values == 1 else [1, values]
    while ordered and values > 1 and 2 * FINER * sizes[-2] <= values:
        sizes.insert(-1, FINER * sizes[-2])
    found, label = list[Level](), np.zeros(values, dtype=np.int64)
    for size in sizes:
        above, label = label, np.arange(values) * size // values
        flags = (label == np.arange(size)[:, None]).astype(np.float64)
        blocks = flags / np.sqrt(flags.sum(axis=1, keepdims=True))
        coarser = found[-1].blocks if found else np.zeros((1, values))
        first = np.searchsorted(label, np.arange(size))
        found.append(Level(blocks, blocks - blocks @ coarser.T @ coarser, above[first]))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Components:
    """Orthogonal components of cubes over some axes (analysis of variance), concatenated, coarse ones first."""

    axes: tuple[tuple[Level, ...], ...]

    @classmethod
    def over(cls, domain: Domain) -> Components:
        """Components of the cubes of a domain, the same object for all periods."""
        return _components(tuple((axis.size, axis.ordered) for axis in domain.axes))

    @cached_property
    def every(self) -> list[tuple[Level, ...]]:
        """Level of every axis, for each component."""
        return list(product(*self.axes))

    @cached_property
    def parts(self) -> list[slice]:
        """Index range of the entries of each component."""
        ends = np.cumsum([0, *(prod(len(level.parent) for level in levels) for levels in self.every)])
        return [slice(start, end) for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]

    @property
    def size(self) -> int:
        return int(self.parts[-1].stop)

    def split(self, columns: Floats, *, whole: bool = False) -> Floats:
        """Analysis: components of columns on the cells, (entries, columns); whole: block sums instead of contrasts."""
        if not whole and self._matrix is not None:
            return np.asarray(self._matrix @ columns)
        return self._split(columns, whole=whole)

    @cached_property
    def _matrix(self) -> Floats | None:
        """Dense matrix of the components, (entries, cells); faster for few cells."""
        cells = prod(axis[0].blocks.shape[1] for axis in self.axes)
        return self._split(np.eye(cells), whole=False) if self.size * cells <= MOST_LAID_OUT else None

    def _split(self, columns: Floats, *, whole: bool) -> Floats:
        """Components of columns axis by axis."""
        shape = tuple(axis[0].blocks.shape[1] for axis in self.axes)
        result = np.empty((self.size, columns.shape[1]))
        begun: dict[tuple[Level, ...], Floats] = {(): columns.reshape(*shape, columns.shape[1])}
        for place, axis in enumerate(self.axes):
            begun = {
                (*levels, level): _along(level.blocks if whole else level.contrasts, values, place)
                for levels, values in begun.items()
                for level in axis
            }
        for levels, part in zip(self.every, self.parts, strict=True):
            result[part] = begun[levels].reshape(-1, columns.shape[1])
        return result

    def joined(self, entries: Floats) -> Floats:
        """Synthesis: columns on the cells from components, (cells, columns); entries: (entries, columns)."""
        if self._matrix is not None:
            return np.asarray(self._matrix.T @ entries)
        left = {
            levels: entries[part].reshape(*(len(level.parent) for level in levels), entries.shape[1])
            for levels, part in zip(self.every, self.parts, strict=True)
        }
        for place in reversed(range(len(self.axes))):
            summed: dict[tuple[Level, ...], Floats] = {}
            for levels, values in left.items():
                told = _along(levels[place].contrasts.T, values, place)
                summed[levels[:place]] = summed[levels[:place]] + told if levels[:place] in summed else told
            left = summed
        return left[()].reshape(-1, entries.shape[1])

    def variances(self, entries: Floats) -> Floats:
        """Variances of entries after projection, (entries,); entries: variances of the independent blocks before it."""
        result = np.empty(self.size)
        for levels, part in zip(self.every, self.parts, strict=True):
            values = entries[part].reshape(*(len(level.parent) for level in levels))
            for place, level in enumerate(levels):
                values = _along(level.projection**2, values, place)
            result[part] = values.reshape(-1)
        return result

    @cached_property
    def share(self) -> Floats:
        """Share of the variance of equal block noise that remains in each entry after projection, (entries,)."""
        found = [reduce(np.multiply.outer, [np.diag(level.projection) for level in levels]) for levels in self.every]
        share: Floats = np.concatenate([np.asarray(each).reshape(-1) for each in found])
        return np.where(share > LEAST, share, 0.0)

    def of_cells(self, entries: Floats) -> Floats:
        """Variances of single cells, (cells,); entries: variances of the independent entries before projection."""
        found = np.zeros([axis[0].blocks.shape[1] for axis in self.axes])
        for levels, part in zip(self.every, self.parts, strict=True):
            values = entries[part].reshape(*(len(level.parent) for level in levels))
            for place, level in enumerate(levels):
                values = _along((level.contrasts**2).T, values, place)
            found += values
        return found.reshape(-1)

    def let_go(self, flags: Flags) -> Flags:
        """Spread jump flags to finer entries and, as shares add up to one, to the whole axis of a value that jumps."""
        known: dict[tuple[Level, ...], Flags] = {}
        for levels, part in zip(self.every, self.parts, strict=True):
            own = flags[part].reshape(*(len(level.parent) for level in levels))
            varying = [place for place, level in enumerate(levels) if level is not self.axes[place][0]]
            for place in varying:
                axis = self.axes[place]
                coarser = (*levels[:place], axis[axis.index(levels[place]) - 1], *levels[place + 1 :])
                own = own | np.take(known[coarser], levels[place].parent, axis=place)
            known[levels] = np.full(own.shape, own.any()) if len(varying) == 1 else own
        return np.concatenate([each.reshape(-1) for each in known.values()])


@lru_cache(maxsize=16)
def _components(axes: tuple[tuple[int, bool], ...]) -> Components:
    return Components(tuple(levels_of(values, ordered=ordered) for values, ordered in axes))


def _along(matrix: Floats, values: Floats, place: int) -> Floats:
    """Product of a matrix with an array along one axis."""
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, place)), 0, place)


@dataclass(frozen=True, eq=False)
class Seen:
    """Components of one period's estimate with noise variances. modelled: the variances include model error."""

    components: Components
    values: Floats
    noise: Floats
    total: float
    modelled: bool

    @classmethod
    def of(cls, fit: Fit, domain: Domain) -> Seen | None:
        """Components of a fit; None where it does not estimate every cell, or there are too many cells."""
        if domain.size > (MOST_CELLS if isinstance(fit, NoisyCells) else MOST_FITTED):
            return None
        components = Components.over(domain)
        values = components.split(fit.estimate[:, None])[:, 0]
        total = max(float(fit.estimate.sum()), 1.0)
        if isinstance(fit, NoisyCells):
            variance = fit.measurement.noise.variance
            return cls(components, values, variance * components.share, total, modelled=False)
        noise = np.zeros(components.size)
        for part in components.parts:
            looked = part.start + np.flatnonzero(components.share[part])
            looked = looked[:: -(-len(looked) // LOOKS)] if len(looked) > LOOKS else looked
            if not len(looked):
                continue
            chosen = np.zeros((components.size, len(looked)))
            chosen[looked, np.arange(len(looked))] = 1.0
            errors = fit.errors(components.joined(chosen))
            if errors.unknown.any():
                return None
            drawn = errors.design.variances @ errors.weights**2 if errors.counts is None else 0.0
            variances = drawn + np.diag(errors.model)
            noise[part] = variances.sum() / components.share[looked].sum() * components.share[part]
        return cls(components, values, noise, total, modelled=not fit.exact)


class Levels:
    """Local levels of the components of several periods, in the order of time, at a common number of rows."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.components, self.rows = seen[0].components, float(np.mean([each.total for each in seen]))
        self.totals = [each.total for each in seen]
        scales = [self.rows / total for total in self.totals]
        self.values = [each.values * scale for each, scale in zip(seen, scales, strict=True)]
        self.noise = [each.noise * scale**2 for each, scale in zip(seen, scales, strict=True)]
        mean = self.components.joined(np.mean(self.values, axis=0)[:, None])
        length = self.components.split(np.ones((len(mean), 1)), whole=True)[:, 0]
        blocks = np.maximum(self.components.split(mean, whole=True)[:, 0], 1.0 / length)
        self._steps, self._rows = self.components.variances(blocks**2), self.components.variances(blocks / length)
        self.fresh = np.ones(self.components.size)
        self.step, self.likely, self.scatter = np.zeros((3, self.components.size))  # variances; step: at most
        for part in self.components.parts[1:]:
            mine = part.start + np.flatnonzero(self.components.share[part])
            if len(mine):
                self._learn(mine, modelled=any(each.modelled for each in seen))

    def _learn(self, mine: Codes, *, modelled: bool) -> None:
        """Learn the random walk of some entries from squared differences at lags of powers of two, without jumps.

        Jumps are found first, from differences of neighbouring periods, with a tighter cut, which bears more outliers.
        """
        many, steps, rows = len(self.values), self._steps[mine], self._rows[mine]
        values, noise = (np.stack(each)[:, mine] for each in (self.values, self.noise))
        square, drawn = np.diff(values, axis=0) ** 2, noise[1:] + noise[:-1]
        if modelled:
            # Errors of a model change less between periods than noise would: by as much as differences show.
            above = float((square - 2.0 * rows).sum() / drawn.sum())
            self.fresh[mine] = min(max(above, 0.0), 1.0)
            noise, drawn = noise * self.fresh[mine[0]], drawn * self.fresh[mine[0]]
        (drift, scatter), _ = learned(*_flat([(square, drawn, steps, rows)]), cut=NEAR)
        jumped = square > LET_GO**2 * (drawn + 2.0 * scatter * rows + drift * steps)
        broken = np.cumsum(np.concatenate([np.zeros((1, len(mine)), dtype=bool), jumped]), axis=0)
        pairs, kept = [], []
        for lag in (2**power for power in range(many.bit_length()) if 2**power < many):
            pairs.append(((values[lag:] - values[:-lag]) ** 2, noise[lag:] + noise[:-lag], lag * steps, rows))
            kept.append((broken[lag:] == broken[:-lag]).reshape(-1))
        (drift, scatter), error = learned(*_flat(pairs, np.concatenate(kept)))
        self.step[mine], self.likely[mine] = (drift + SURE * error) * steps, drift * steps
        self.scatter[mine] = scatter * rows

    def predicted(self, at: int) -> Prediction:
        """Predict one period's entries from all other periods, before and after it, at its own number of rows."""
        both = self._along(range(at), at) & self._along(range(len(self.values) - 1, at, -1), at)
        scale = self.totals[at] / self.rows
        return Prediction(both.mean * scale, both.variance * scale**2, both.periods)

    def _along(self, others: range, at: int) -> Prediction:
        """Kalman filter over some periods towards one; an entry that jumps is reset to a diffuse prior."""
        state = Prediction.of_nothing((self.components.size,))
        for period in [*others, at]:
            state = replace(state, variance=state.variance + self.step)
            seen = self.values[period], self.fresh * self.noise[period]
            state = state.forgetting(self.components.let_go(state.jumps(seen, self.scatter)))
            if period != at:
                state = state.after(seen, self.scatter)
        return state


def _flat(
    pairs: Sequence[tuple[Floats, Floats, Floats, Floats]], kept: Flags | slice = slice(None)
) -> tuple[Floats, Floats, Floats, Floats]:
    """Flatten squared differences, noise variances and regressors to vectors; kept: mask of differences to use."""
    every = [[each.reshape(-1) for each in np.broadcast_arrays(*some)] for some in pairs]
    first, second, third, fourth = (np.concatenate(each)[kept] for each in zip(*every, strict=True))
    return first, second, third, fourth


@dataclass(frozen=True, eq=False)
class LeaningFit(ByModel):
    """Fit of counts shrunk towards predictions from other periods. Computed on demand; no file keeps it.

    inner: fit as published. weight: of the prediction, (entries,). Variances before projection, (entries,): predicted,
    added by the prediction; shared, average covariance of the errors of two periods; own, of the published entries.
    fresh: share of `own` that is noise, (entries,). lags: covariance at each lag over the average one, (periods,).
    """

    family = "leaning"
    room = 1

    inner: Fit
    components: Components
    estimate: Floats
    weight: Floats
    predicted: Floats
    shared: Floats
    fresh: Floats
    own: Floats
    lags: Floats

    @classmethod
    def among(cls, fits: Sequence[Fit], seen: Sequence[Seen], at: int) -> LeaningFit | None:
        """Build the fit of one period; fits in the order of time; None where other periods get no weight."""
        levels, own, inner = Levels(seen), seen[at], fits[at]
        components, told, scale = levels.components, levels.predicted(at), seen[at].total / levels.rows
        scatter, step, noise = levels.scatter * scale, levels.likely * scale**2, levels.fresh * own.noise
        known = np.isfinite(told.variance) & (components.share > 0.0)
        known[0] = False  # the total
        error = np.where(known, told.variance, 0.0)
        weight = np.where(known, noise / np.maximum(noise + error + scatter, LEAST), 0.0)
        if not weight.any():
            return None
        values = own.values + weight * (told.mean - own.values)
        shared, lags = Walk(0.0, 1.0, len(seen)).shared(step, error, scatter, noise)
        shared = np.where(known, shared, 0.0)
        share = np.where(components.share > 0.0, components.share, 1.0)
        estimate = components.joined(values[:, None])[:, 0]
        found = (weight**2 * (error + scatter) / share, shared / share)
        return cls(inner, components, estimate, weight, *found, levels.fresh, own.noise / share, lags)

    @property
    def of(self) -> str:
        return self.inner.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.inner.measurements

    @property
    def words(self) -> tuple[str, ...]:
        return self.inner.words

    @property
    def alone(self) -> float | None:
        """Variance of the noise that every cell has of its own; None where noises of cells are not independent."""
        return self.inner.measurement.noise.variance if isinstance(self.inner, NoisyCells) else None

    def errors(self, columns: Floats) -> Errors:
        """Covariance of weighted sums of cells, all of it normal; columns: (cells, sums)."""
        told = self.components.split(columns)
        if self.alone is not None:
            return self._of_entries(told, (1.0 - self.weight) ** 2 * self.alone + self.predicted)
        if not self.inner.exact:
            return self._scaled(columns, told, 1.0 - CLAIMED * self.fresh * self.weight)
        left = self.components.joined((1.0 - self.weight)[:, None] * told)
        own, more = self._inside(left), self._of_entries(told, self.predicted)
        return replace(own, model=own.model + more.model)

    @property
    def recurring(self) -> Fit:
        """Component of the errors that is shared with other periods, as a fit."""
        return _Recurring(self.inner, *(getattr(self, each) for each in list(type(self).__annotations__)[1:]))

    def _of_entries(self, told: Floats, variances: Floats) -> Errors:
        """Errors of sums of independent entries; told: weights of the entries, (entries, sums)."""
        return Errors.all_model(self.measurements[0].design, told.T @ (variances[:, None] * told))

    def _scaled(self, columns: Floats, told: Floats, times: Floats) -> Errors:
        """Errors of weighted sums by the inner fit, rescaled by each sum's ratio of new to old variance.

        columns: weights of the cells, (cells, sums). told: of the entries, (entries, sums). times: ratio of the new to
        the old variance of each entry, (entries,).
        """
        own = self._inside(columns)
        before, after = ((told**2 * each[:, None]).sum(axis=0) for each in (self.own, times * self.own))
        scale = np.sqrt(after / np.maximum(before, LEAST))
        return replace(own, model=own.model * np.outer(scale, scale))

    def _inside(self, columns: Floats) -> Errors:
        """Errors of the inner fit as one normal covariance."""
        errors = self.inner.errors(columns)
        many = np.ones(len(errors.weights)) if errors.counts is None else errors.counts
        drawn = errors.weights.T @ ((errors.design.variances * many)[:, None] * errors.weights)
        return Errors.all_model(self.measurements[0].design, drawn + errors.model)

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """Errors of many groups; None where noises of cells are not independent."""
        return (
            None
            if self.alone is None
            else self._by_group(asked, (1.0 - self.weight) ** 2 * self.alone + self.predicted)
        )

    def _by_group(self, asked: Grouped, variances: Floats) -> Sequence[Errors]:
        """Errors of the sums of many groups; variances: of the independent entries, (entries,)."""
        design, sums = self.measurements[0].design, asked.sums
        if asked.whole is None and len(np.unique(asked.group)) == len(asked.group):
            cells, found = self.components.of_cells(variances), np.zeros((asked.groups, sums, sums))
            found[asked.group] = cells[asked.place][:, None, None] * (
                asked.weights[:, :, None] * asked.weights[:, None, :]
            )
            return Errors.all_models(design, found)
        covariances, block = list[Floats](), max(1, at_once(self.components.size) // sums)
        for start in range(0, asked.groups, block):
            inside = (asked.group >= start) & (asked.group < start + block)
            many = min(block, asked.groups - start)
            columns = np.zeros((len(self.estimate), many, sums))
            if asked.whole is not None:
                columns += asked.whole[:, None, :]
            np.add.at(columns, (asked.place[inside], asked.group[inside] - start), asked.weights[inside])
            told = self.components.split(columns.reshape(len(columns), -1)).reshape(-1, many, sums)
            covariances += list(np.einsum("egi,e,egj->gij", told, variances, told, optimize=True))
        return Errors.all_models(design, covariances)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Guaranteed bounds of the inner fit, which use this period alone."""
        return self.inner.guaranteed(domain, rows)

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.inner.measured_inside(within)

    def record(self, domain: Domain) -> NoReturn:
        raise QueryError(
            "estimates that lean on other periods are made when they are asked for; save the series itself"
        )

    @classmethod
    def read(cls, file: FitReader) -> NoReturn:
        raise QueryError("a file keeps no estimates that lean on other periods")


class _Recurring(LeaningFit):
    """Component of a fit's errors that it shares with other periods, in the form of a fit."""

    def errors(self, columns: Floats) -> Errors:
        told = self.components.split(columns)
        found = self._of_entries(told, self.shared)
        if self.inner.exact:
            return found
        return replace(found, model=found.model + self._scaled(columns, told, 1.0 - self.fresh).model)

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        return self._by_group(asked, self.shared) if self.inner.exact else None
