"""Local-level model of counts along time: its variances by moments, Kalman filters, and covariances of smoothed errors.

Model. The expected count mu of a cell, at a common number of rows, is a random walk; the count x of a period scatters
around it, and the release adds noise of known variance r:

    mu_t = mu_(t-1) + drift,   Var drift = q mu^2          x_t = mu_t + scatter,   Var scatter = k mu
    y_t  = x_t + noise,        Var noise = r_t

q and k are learned by moments: E (y_t - y_s)^2 - r_t - r_s = 2 k mu + |t - s| q mu^2. Forward and backward filters over
the other periods give a prediction of a cell that shares no noise with its own period. A cell whose innovation is
beyond `LET_GO` standard deviations lets go of its past (a jump).

Covariance of two periods' errors (`Walk.shared`). With v the variance of an estimate alone, s that of scatter and e
that of the prediction, the smoothed error is that of the period alone times (s + e) / (v + s + e), plus that of the
prediction less scatter times v / (v + s + e). Two periods predict each other from the same others: their covariance is
v^2 e / ((v + s) (v + s + e)), what is known of mu in either, times what is left of it over a lag with drift: on average
over all lags, and by lag beside that average (neighbours share more than the first and the last).

Kalman 1960; Rauch, Tung, Striebel 1965. All of it works on published numbers: nothing is spent.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.frozen import dataclass

LET_GO = 4.0  # standard deviations of an innovation; one in 16,000 is that far off by chance
NEAR = 2.0  # the same where jumps are looked for: all but a few differences are of none
BY_CHANCE = 1.0  # the least scatter: that of rows which come independently
ROUNDS = 8  # of learning drift and scatter, with weights and outliers by those of the round before
LEAST = 1e-9  # below which a variance is rounding


@dataclass(frozen=True, eq=False)
class Walk:
    """Variances of a cell along time: drift per period, as a share of its squared rows; scatter, as a share of rows.

    periods: their number.
    """

    drift: float
    scatter: float
    periods: int

    def shared(self, step: Floats, error: Floats, scatter: Floats, alone: Floats) -> tuple[Floats, Floats]:
        """Covariances of a smoothed cell's errors in two periods: averaged over all pairs of periods, and by lag.

        By lag they are multiples of that average, the same for all cells, from lag 0 on: (periods,).

        step: variances of its drift in a period. error: of its prediction from other periods. scatter: of the counts
        around their expectation. alone: of an estimate by one period alone.
        """
        seen = alone + scatter
        steps, by_lag = self._fading
        many = np.arange(self.periods, 0, -1)
        fading = by_lag[:, 1:] @ many[1:] / max(float(many[1:].sum()), 1.0)
        both = alone**2 * error / np.maximum(seen * (seen + error), LEAST)
        found = both * np.interp(step / np.maximum(seen, LEAST), steps, fading)
        typical = np.abs(fading - found.sum() / max(float(both.sum()), LEAST)).argmin()
        return np.asarray(found), by_lag[typical] / max(float(fading[typical]), LEAST)

    @cached_property
    def _fading(self) -> tuple[Floats, Floats]:
        """Grid of signal-to-noise ratios, and autocorrelation of smoothed errors by lag at each, (steps, periods)."""
        steps, apart = np.append(0.0, np.logspace(-5.0, 2.0, 29)), np.diff(np.eye(self.periods), axis=0)
        smoothed = [np.linalg.inv(np.eye(self.periods) + apart.T @ apart / max(step, LEAST)) for step in steps]
        by_lag = np.array([[np.diagonal(each, lag).mean() for lag in range(self.periods)] for each in smoothed])
        return steps, by_lag / by_lag[:, :1]


LEAST_VARIANCE = 1e-200  # whose inverse is a number, also times a count


@dataclass(frozen=True, eq=False)
class Prediction:
    """Expected counts of a table's cells from other periods, and their variances; inf where nothing is known.

    periods: number of periods that it rests on, by cell.
    """

    mean: Floats
    variance: Floats
    periods: Floats

    @classmethod
    def of_nothing(cls, shape: tuple[int, ...]) -> Prediction:
        """Diffuse prior: infinite variance in every cell."""
        return cls(np.zeros(shape), np.full(shape, np.inf), np.zeros(shape))

    def __and__(self, other: Prediction) -> Prediction:
        """Inverse-variance mean of two independent predictions."""
        first, second = (
            1.0 / np.maximum(one.variance, LEAST_VARIANCE) for one in (self, other)
        )  # of none: next to none
        both = np.maximum(first + second, 1e-300)
        known = first + second > 0
        mean = np.where(known, (first * self.mean + second * other.mean) / both, 0.0)
        return Prediction(mean, np.where(known, 1.0 / both, np.inf), self.periods + other.periods)

    def forgetting(self, cells: Flags) -> Prediction:
        """Reset flagged cells to a diffuse prior."""
        return Prediction(self.mean, np.where(cells, np.inf, self.variance), np.where(cells, 0.0, self.periods))

    def after(self, seen: tuple[Floats, float | Floats], scatter: Floats) -> Prediction:
        """Kalman update by a noisy table; scatter: of the counts around their expectation, by cell."""
        return self & Prediction(seen[0], seen[1] + scatter, np.ones(scatter.shape))

    def jumps(self, seen: tuple[Floats, float | Floats], scatter: Floats) -> Flags:
        """Flags of the cells whose innovation is beyond its predicted spread."""
        return np.asarray((seen[0] - self.mean) ** 2 > LET_GO**2 * (self.variance + scatter + seen[1]))


def learned(square: Floats, noise: Floats, steps: Floats, rows: Floats, cut: float = LET_GO) -> tuple[Floats, float]:
    """Drift and scatter by weighted least squares on squared differences, outliers cut (Winsor); error of the drift.

    The expected square is noise + drift * steps + scatter * 2 * rows, each (differences,). cut: in standard deviations;
    up to a share 1 / cut^2 of outliers is tolerated.
    """
    features = np.stack([steps, 2.0 * rows], axis=1)
    result = np.array([0.0, BY_CHANCE])
    weights = np.ones(len(square))
    for _ in range(ROUNDS):
        expected = noise + features @ result
        above, weights = np.minimum(square, cut**2 * expected) - noise, expected**-2.0
        result = positive_fit(features, above, weights)
        if result[1] < BY_CHANCE:
            result = np.append(positive_fit(features[:, :1], above - 2.0 * BY_CHANCE * rows, weights), BY_CHANCE)
    return result, float(np.sqrt(2.0 / max(float((steps**2 * weights).sum()), 1e-300)))


def positive_fit(features: Floats, wanted: Floats, weights: Floats) -> Floats:
    """Weighted least squares with non-negative coefficients, of one feature or two; features: (n, coefficients)."""
    gram, right = (features * weights[:, None]).T @ features, features.T @ (weights * wanted)
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    gram, right = gram / np.outer(scale, scale), right / scale
    candidates = [np.diag(np.maximum(right, 0.0))[index] for index in range(len(right))]  # each by itself
    both = np.linalg.lstsq(gram, right, rcond=1e-9)[0]
    best = min(
        [*candidates, *([both] if (both >= 0).all() else [])],
        key=lambda each: float(each @ gram @ each - 2.0 * right @ each),
    )
    return np.asarray(best / scale)
