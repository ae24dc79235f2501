"""What a fit claims of the errors of regions: the variance that goes with all rows or is noise, and the rest.

By how much errors of a kind are larger than claimed, from a noisy sum of their sizes.

The sum over many questions of |true - answer| was measured. If errors had the deviations that are claimed for them
times a factor, the sum would be known; the noise of the measurement leaves the factor open, and so the one that is used
makes 95 % intervals hold 95 % of the time on average over what it may be.

A model that is wrong is not wrong everywhere alike. What variances have beyond those claimed is a positive number of
which nothing but the mean is known, and so it is taken to fall off evenly over questions (exponential, the least that
can be said of it): errors are then normal where the factor is 1, and near to Laplace's shape where it is large.

How many rows a cell may hold that is estimated to hold none.

Most such cells hold none, so neither a deviation nor a mean error says what the others hold. Two sums do: of
|count - 0| over all of them, which is their rows, and of |count - 1|, which is one less for every cell that holds any.
Rows over cells that hold any are the mean size of what is hidden; sizes are taken to fall off evenly (geometric). What
the noise of both sums leaves open is averaged over; beforehand all orders of magnitude from one row to eight times the
noise that all of the budget buys are as likely, for what is larger is seen; up to all rows where it would not be seen.

Cells that are estimated to hold t rows each may be as thin: a fit that spreads rows over neighbours says of a hundred
cells that they hold three where two hold a hundred and fifty. |count - t| is t less than the count in a cell that holds
t or more, and t more in one that holds none: the same two sums tell.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.model_error import COVERAGE, NORMAL_END, OF_NORMAL, crossing, erf_of

POSSIBLE = 2.0 ** np.linspace(-4.0, 8.0, 121)  # factors that are looked at
CLAIMED = int(np.argmin(np.abs(POSSIBLE - 1.0)))  # where the factor is what is claimed
HALVINGS = 24  # of twice the largest of them: the steps in which a factor is told
UNLIKELY = 1e-6  # of the likeliest factor: others change no figure
FAR = 4.0  # where the error function is 1 to eight digits


@lru_cache(maxsize=1)
def _beyond() -> tuple[Floats, Floats]:
    """Variances beyond those claimed, in their mean, and how often each is: the points of an integral."""
    points, weights = np.polynomial.laguerre.laggauss(8)
    return points, weights


def spread_out(factors: Floats) -> Floats:
    """Squares of the factors that single questions have, at the points of an integral; their mean is the factor's."""
    return np.asarray(
        np.minimum(factors, 1.0) ** 2 + np.multiply.outer(_beyond()[0], np.maximum(factors**2 - 1.0, 0.0))
    )


def expected_sizes(beside: Floats, model: Floats, noise: Floats | float = 0.0, *, peaked: bool = False) -> Floats:
    """For every possible factor on deviations of the model, the mean of |error|, over questions.

    beside: by how far the public target of each question lies from its answer, as targets are whole numbers. peaked:
    errors have the shape of a single Laplace noise, not of a sum of many: of the same deviation, they are smaller on
    average.
    """
    off = np.abs(beside)
    deviation = np.maximum(np.sqrt(np.multiply.outer(POSSIBLE**2, model) + noise), 1e-12)
    if peaked:
        scale = deviation / sqrt(2.0)
        return np.asarray((off + scale * np.exp(-np.minimum(off / scale, 700.0))).mean(axis=1))
    each = np.tensordot(
        _beyond()[1], np.sqrt(np.multiply.outer(spread_out(POSSIBLE), model) + noise), axes=1
    )  # on average
    far = np.minimum((off / deviation) ** 2 / 2.0, 700.0)
    return np.asarray((OF_NORMAL * each * np.exp(-far) + off * _ends_of(np.sqrt(far))).mean(axis=1))


def _ends_of(far: Floats) -> Floats:
    """The error function; 1 far out, so that it is worked out only where that tells."""
    found, near = np.ones(far.shape), far < FAR
    found[near] = erf_of(far[near])
    return found


def believed(log_likely: Floats) -> Floats:
    """How likely each possible factor is, from how likely it makes what was measured.

    Beforehand, twice as much as claimed is a quarter as likely as what is claimed, and as likely as half as much.
    """
    chance = np.exp(log_likely - log_likely.max()) / (1.0 + np.log2(POSSIBLE) ** 2) ** 2
    return np.asarray(chance / chance.sum())


def chances_of(measured: Measurement, place: int, expected: Floats) -> Floats:
    """How likely each possible factor is; expected: the sums that go with them."""
    answer, noise = float(measured.answers[place]), measured.noise
    off = np.abs(answer - expected)
    return believed(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))


def factor_of(chances: Floats) -> float:
    """The factor with which 95 % intervals hold 95 % on average over the possible ones.

    chances: for each of several groups of questions, (groups, factors), or for one. Groups of a kind that differ make
    intervals wider, for a question may be like those of any of them.
    """
    each = np.atleast_2d(chances).mean(axis=0)
    likely = each > UNLIKELY * each.max()
    each, single = each[likely] / each[likely].sum(), np.sqrt(spread_out(POSSIBLE[likely]))
    near, weights = NORMAL_END / sqrt(2.0) / single, _beyond()[1]
    step = 2.0 * float(POSSIBLE[-1]) / 2**HALVINGS
    exact = crossing(lambda factor: float(weights @ _ends_of(factor * near) @ each) - COVERAGE, 2.0)
    return float(ceil(exact / step) * step)


SEEN = 8.0  # times the noise that all of the budget buys: what hides from it is no larger on average
SIZES, SUMS = 41, 81  # of the grid of what is possible
STEPS = 40
CLEAR = 1.5  # deviations of its noise by which a sum says that most cells hold no rows


def hidden_deviation(rows: Measurement, beyond: Measurement, cells: int, unit: float, *, seen: bool = True) -> float:
    """The deviation with which a 95 % interval around zero holds 95 % of the cells that do hold rows.

    rows: of which the first answer is the noisy number of rows. beyond: the noisy sum of |count - 1|. unit: the
    deviation of the noise that all of the budget buys. seen: whether what is far larger than that would not hide.
    """
    most = max(SEEN * unit, 1.0 + 1e-9, 0.0 if seen else float(rows.answers[0]))
    return _deviation(*_sizes(rows, beyond, 0, cells, 1.0, (1.0, most)))


def thin_deviation(
    rows: Measurement, beyond: Measurement, place: int, cells: int, target: float
) -> tuple[float, float] | None:
    """The same for cells estimated to hold so many rows each; None where it is not clear that most hold none.

    And how many rows those hold on average that hold any: a cell estimated to hold as many is one of them.
    rows: of which this answer is the noisy number of their rows. beyond: their noisy sum of |count - target|.
    """
    noise = float(np.sqrt(rows.noise.variance + beyond.noise.variance))
    if float(beyond.answers[place]) - float(rows.answers[place]) < CLEAR * noise or target <= 0.0:
        return None
    least = max(2.0 * target, 1.0)
    chance, size = _sizes(rows, beyond, place, cells, target, (least, max(float(rows.answers[place]), 2.0 * least)))
    return _deviation(chance, size), float(chance @ size)


def _sizes(
    rows: Measurement, beyond: Measurement, place: int, cells: int, target: float, ends: tuple[float, float]
) -> tuple[Floats, Floats]:
    """How likely each of some mean sizes is, weighed by how many cells then hold rows, and these sizes."""
    answer = max(float(rows.answers[place]), 0.0)
    size = np.exp(np.linspace(np.log(ends[0]), np.log(ends[1]), SIZES))[:, None]
    possible = np.maximum(answer + np.linspace(-20.0, 20.0, SUMS) * float(np.sqrt(rows.noise.variance)), 0.0)
    expected = possible + target * (cells - 2.0 * possible / size)
    likely = _log_likely(rows, possible, place) + _log_likely(beyond, expected, place)
    chance = np.exp(likely - likely.max()) * (possible + 1e-9) / size
    return chance.sum(axis=1) / chance.sum(), size[:, 0]


def _deviation(chance: Floats, size: Floats) -> float:
    """With which an interval around zero holds 95 % of what has one of these mean sizes."""
    going_on = 1.0 - 1.0 / size
    low, high = 0.0, 64.0 * float(size[-1])
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance @ going_on**middle > 1.0 - COVERAGE else (low, middle)
    return max(high, 1.0) / NORMAL_END


def _log_likely(measured: Measurement, truth: Floats, place: int) -> Floats:
    off, noise = np.abs(float(measured.answers[place]) - truth), measured.noise
    return np.asarray(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))
