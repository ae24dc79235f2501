"""The posterior of all cells from noisy counts of the regions of a binary tree.

Bottom-up, every region gathers from its halves the likelihood of its own number of rows, a mixture over the ways in
which they may fall into the halves (inference/splits.py), and passes it on as one normal law, together with the
likelihood that it is empty. Top-down, every region's number of rows is divided between its halves, the ways weighed by
what is known from above and from below. How common each way is on a level is learned by repeating this (EM), which
costs no privacy. Time and memory are linear in the number of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.inference.noisy_normal import log_at_zero, log_normal, observe
from sfumato.inference.splits import FIRST_EMPTY, FREE, POWERS, SECOND_EMPTY, WAYS, Halves, power

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

ROUNDS = 5  # of learning how common the ways are; more change no figure
EVEN_MAGNITUDES = 2.0  # regions' worth of belief that every power of two up to 2^16 is as common
PRIOR_COUNT = 0.2  # regions' worth of belief in each way, on every level
RAREST = 1e-4
LIKELY = 16  # powers of two
UNKNOWN = 1e13  # the variance of a number of rows of which nothing is known
AT_ONCE = 2**15  # regions worked out at a time, so that memory stays small
UNEVEN = np.array([0.25, 0.25, 0.0, *(0.25 * size**2 for size in (1 / 128, 1 / 32, 1 / 8)), 1 / 6])  # of X^2, by way


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of every region, level by level from the root.

    cells: the estimate for every leaf. total: the variance of the whole. slopes: how much of one row more in a region
    its first half gets. variances: of how many rows fall into the first half, given those of the region.
    """

    cells: Floats
    total: float
    slopes: tuple[Floats, ...]
    variances: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _Messages:
    """What the subtree of each region on a level says about it."""

    mean: Floats
    variance: Floats
    weight: Floats


class Multiscale:
    """Noisy counts of the regions of a binary tree: level h has 2^h of them.

    sizes: cells in each region. answers: noisy counts; scales: of their noise, inf where a region was not measured;
    those of Laplace noise, or standard deviations of Gaussian noise.
    """

    def __init__(
        self, sizes: Sequence[Codes], answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
    ) -> None:
        self.sizes, self.answers, self.laplace = sizes, answers, laplace
        self.measured = [np.isfinite(scale) for scale in scales]
        self.scales = [np.where(seen, scale, 1.0) for seen, scale in zip(self.measured, scales, strict=True)]
        self.height = len(sizes) - 1
        self.zero: list[Floats] = []
        self.told: list[NDArray[np.bool_]] = []  # whether anything was measured in a region or below it
        for level in range(self.height, -1, -1):
            zero = np.where(self.measured[level], log_at_zero(answers[level], self.scales[level], laplace=laplace), 0.0)
            told = self.measured[level].copy()
            if level < self.height:
                zero += self.zero[0].reshape(-1, 2).sum(axis=1)
                told |= self.told[0].reshape(-1, 2).any(axis=1)
            self.zero.insert(0, zero)
            self.told.insert(0, told)
        self.inner = [np.flatnonzero(self.told[level + 1].reshape(-1, 2).any(axis=1)) for level in range(self.height)]
        self.magnitudes = [np.full(POWERS, 1.0 / LIKELY) for _ in range(self.height)]
        self.ways = [np.full(WAYS, 1.0 / WAYS) for _ in range(self.height)]

    def posterior(self) -> Posterior:
        """The posterior of all regions and cells."""
        for _ in range(ROUNDS - 1):
            self._down(self._up(), None)
        slopes = tuple(np.full(2**level, 0.5) for level in range(self.height))
        variances = tuple(np.zeros(2**level) for level in range(self.height))
        messages = self._up()
        cells = self._down(messages, (slopes, variances))
        total = float(messages[0].variance[0])
        return Posterior(cells, min(total, UNKNOWN), slopes, variances)

    def _up(self) -> list[_Messages]:
        found: list[_Messages] = []
        for level in range(self.height, -1, -1):
            noise = (2.0 if self.laplace else 1.0) * self.scales[level] ** 2
            seen = self.measured[level]
            mean, variance = np.where(seen, self.answers[level], 0.0), np.where(seen, noise, UNKNOWN)
            weight = np.zeros(2**level)
            if level < self.height:
                for some in _blocks(self.inner[level]):
                    likely, rows, spread = self._states(level, some, found[0])
                    mean[some], variance[some], weight[some] = _as_one(likely, rows, spread)
            found.insert(0, _Messages(mean, variance, weight))
        return found

    def _halves(self, level: int, some: Codes, below: _Messages) -> Halves:
        pair = np.stack([2 * some, 2 * some + 1])
        sizes = self.sizes[level + 1][pair]
        mean, variance = below.mean[pair], below.variance[pair]
        both, spread = mean.sum(axis=0), variance.sum(axis=0)
        scale = self.scales[level][some]
        noise = (2.0 if self.laplace else 1.0) * scale**2
        combined = (np.maximum(both, 0.0) * noise + self.answers[level][some] * spread) / (noise + spread)
        plug = np.where(self.measured[level][some], np.maximum(combined, scale), np.maximum(both, np.sqrt(spread)))
        share = sizes[0] / np.maximum(sizes.sum(axis=0), 1)
        return Halves(
            mean, variance, below.weight[pair], self.zero[level + 1][pair], share, plug, self.magnitudes[level]
        )

    def _states(self, level: int, some: Codes, below: _Messages) -> tuple[Floats, Floats, Floats]:
        """For each way, the likelihood of the rows of some regions, from below and from their own answer."""
        weight, mean, variance = self._halves(level, some, below).together()
        weight = weight + np.log(self.ways[level])[:, None]
        seen = self.measured[level][some]
        if seen.any():
            own = observe(
                mean[:, seen],
                variance[:, seen],
                self.answers[level][some][seen],
                self.scales[level][some][seen],
                laplace=self.laplace,
            )
            weight[:, seen] += own[0]
            mean[:, seen], variance[:, seen] = own[1], own[2]
        return weight, mean, variance

    def _down(self, messages: list[_Messages], keep: tuple[tuple[Floats, ...], tuple[Floats, ...]] | None) -> Floats:
        """Divide the rows of every region; learns the ways on the way, and fills in slopes and variances if asked."""
        rows, spread = messages[0].mean.copy(), messages[0].variance.copy()
        alive = np.ones(1)  # the chance that a region is not empty; rows and spread are given that it is not
        for level in range(self.height):
            count = 2**level
            sizes = self.sizes[level + 1].reshape(-1, 2)
            share = sizes[:, 0] / np.maximum(sizes.sum(axis=1), 1)
            first, slope = share * rows, share.copy()
            deviation = (rows**2 + spread) * 4.0 * share * (1.0 - share) * float(UNEVEN @ self.ways[level])
            lives = np.ones((count, 2))
            halves_rows = np.stack([first, rows - first], axis=1)
            halves_spread = np.stack([slope**2 * spread, (1.0 - slope) ** 2 * spread], axis=1) + deviation[:, None]
            learned = np.zeros(WAYS)
            sizes_seen = np.zeros(POWERS)
            below = messages[level + 1]
            for some in _blocks(self.inner[level]):
                halves = self._halves(level, some, below)
                likely, mean, variance = self._states(level, some, below)
                found = _divided(halves, likely, mean, variance, rows[some], spread[some], messages[level], some)
                learned += (found.chances * alive[some]).sum(axis=1)
                finest = np.sqrt(halves.variance.min(axis=0))
                sizes_seen += np.bincount(
                    power(np.maximum(halves.mean.min(axis=0), finest)),
                    weights=found.chances[FREE] * alive[some],
                    minlength=POWERS,
                )
                slope[some], deviation[some] = found.slope, found.variance
                lives[some], halves_rows[some], halves_spread[some] = found.lives, found.rows, found.spread
            if keep is not None:
                keep[0][level][:], keep[1][level][:] = slope, alive * np.maximum(deviation, 0.0)
            if len(self.inner[level]):
                learned[[FIRST_EMPTY, SECOND_EMPTY]] = learned[[FIRST_EMPTY, SECOND_EMPTY]].mean()
                ways = (learned + PRIOR_COUNT) / (learned.sum() + WAYS * PRIOR_COUNT)
                self.ways[level] = np.maximum(ways, RAREST)
                spread_out = (
                    sizes_seen * 0.5 + 0.25 * np.append(sizes_seen[1:], 0.0) + 0.25 * np.insert(sizes_seen[:-1], 0, 0.0)
                )
                self.magnitudes[level] = (spread_out + EVEN_MAGNITUDES / LIKELY) / (spread_out.sum() + EVEN_MAGNITUDES)
            elif level:
                self.ways[level] = self.ways[level - 1]
            alive = (alive[:, None] * lives).reshape(-1)
            rows, spread = halves_rows.reshape(-1), np.maximum(halves_spread.reshape(-1), 1e-6)
        return np.asarray(alive * rows)


@dataclass(frozen=True, eq=False)
class _Divided:
    chances: Floats
    slope: Floats
    variance: Floats
    lives: Floats
    rows: Floats
    spread: Floats


def _divided(
    halves: Halves,
    likely: Floats,
    mean: Floats,
    variance: Floats,
    rows: Floats,
    spread: Floats,
    message: _Messages,
    some: Codes,
) -> _Divided:
    """Both halves of regions of which the rows are known in mean and variance."""
    own_mean, own_variance = message.mean[some], message.variance[some]
    # What is known from elsewhere: the whole of what is known, less what the region itself says.
    precision = np.maximum(1.0 / spread - 1.0 / own_variance, 0.0)
    helps = precision > 1e-9 / own_variance
    outer = 1.0 / np.where(helps, precision, 1.0)
    centre = outer * (rows / spread - own_mean / own_variance)
    likely = np.where(helps, likely + log_normal(mean, centre, variance + outer), likely)
    chances = np.exp(likely - likely.max(axis=0))
    chances /= chances.sum(axis=0)
    known = np.where(helps, 1.0 / (1.0 / variance + 1.0 / outer), variance)
    state = np.where(helps, known * (mean / variance + centre / outer), mean)
    short = rows - (chances * state).sum(axis=0)  # a mixture of normal laws does not keep the mean to the last digit
    state = state + short * known / np.maximum((chances * known).sum(axis=0), 1e-12)
    first, slope, within = halves.divide(state)
    second = state - first
    given = slope**2 * known + within, (1.0 - slope) ** 2 * known + within
    given[1][FIRST_EMPTY], given[1][SECOND_EMPTY] = known[FIRST_EMPTY], 0.0
    x1 = (chances * first).sum(axis=0)
    spread_x = (chances * (known + (state - rows) ** 2)).sum(axis=0)
    together = (chances * (slope * known + (first - x1) * (state - rows))).sum(axis=0)
    spread_1 = (chances * (given[0] + (first - x1) ** 2)).sum(axis=0)
    regression = together / np.maximum(spread_x, 1e-12)
    lives = np.maximum(1.0 - chances[[FIRST_EMPTY, SECOND_EMPTY]], 1e-12)
    held = np.stack([x1, rows - x1]) / lives
    spreads = []
    for half, (values, inner) in enumerate(zip((first, second), given, strict=True)):
        there = np.delete(np.arange(WAYS), half)
        square = (chances[there] * (inner[there] + values[there] ** 2)).sum(axis=0) / lives[half]
        spreads.append(np.maximum(square - held[half] ** 2, 1e-6))
    left = np.maximum(spread_1 - regression**2 * spread_x, 0.0)
    return _Divided(chances, regression, left, lives.T, held.T, np.stack(spreads, axis=1))


def _as_one(likely: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """A mixture as one normal law: mean, variance, and the logarithm of its weight."""
    most = likely.max(axis=0)
    chances = np.exp(likely - most)
    whole = chances.sum(axis=0)
    chances /= whole
    middle = (chances * mean).sum(axis=0)
    spread = (chances * (variance + (mean - middle) ** 2)).sum(axis=0)
    return middle, np.maximum(spread, 1e-6), most + np.log(whole)


def _blocks(places: Codes) -> list[Codes]:
    return [places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE)]
