"""How wrong a model is, known only through a noisy misfit: the deviation that intervals need besides the noise.

A share of the budget was spent on the sum of |true - estimated| over many queries, or over parts of buckets that were
taken as even. Where noisy cells were measured, they show it themselves (models/partition/buckets.py).

Posterior of errors at one scale: how large they are is learned from noisy contrasts (empirical Bayes).

A contrast of an estimate is off by an error of unknown size, and was measured with noise. Sizes are multiples of what
is claimed of the error's variance, on a grid; families of contrasts teach each other which of them are likely.

What a fit claims of the errors of regions: the variance that goes with all rows or is noise, and the rest.

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

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil, erf, pi, sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.measurement import Laplace, Measurement

COVERAGE, NORMAL_END = 0.95, 1.959964
POINTS = 400  # of the grid of possible means
OF_NORMAL = sqrt(2 / pi)  # the mean size of a normal error, in deviations
CLOSE, STEPS = 2.0**-46, 200  # of a search for where a function passes 0: relative, and at most
QUICK = 2**12  # numbers, up to which Python's own function is done before a library is loaded


def erf_of(values: Floats) -> Floats:
    """The error function of every number."""
    if values.size > QUICK:
        from scipy.special import erf as of_many

        return np.asarray(of_many(values))
    return np.fromiter(map(erf, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def allow_for_noise(mean: float, scale: float) -> float:
    """The mean error to reckon with, when the true one was measured with Laplace noise of this scale.

    All means from 0 on are taken as equally likely beforehand; then 95 % intervals made from the result hold, averaged
    over what the mean may be, 95 %.

    >>> round(allow_for_noise(100.0, 0.1), 1), round(allow_for_noise(0.0, 1.0), 1)
    (100.0, 1.5)
    """
    top = max(mean, 0.0) + 20 * scale
    possible = (np.arange(POINTS) + 0.5) * top / POINTS
    if mean > 40 * scale:  # a finer grid, around what was measured
        possible = mean + (np.arange(POINTS) + 0.5 - POINTS / 2) * 40 * scale / POINTS
    chance = np.exp(-np.abs(possible - max(mean, 0.0)) / scale)
    chance /= chance.sum()

    def held(reckoned: float) -> float:
        return float(chance @ erf_of(NORMAL_END / sqrt(2) * reckoned / possible)) - COVERAGE

    return crossing(held, top)


def deviation_of_shape(mean: float, model: Floats, noise: Floats) -> float:
    """The s for which errors of variance s^2 model + noise have the given mean size, if normal; 0 where noise does.

    model, noise: variances of several queries.
    """

    def surplus(deviation: float) -> float:
        return float(OF_NORMAL * np.sqrt(deviation**2 * model + noise).mean()) - mean

    if surplus(0.0) >= 0 or not (model > 0).any():
        return 0.0
    return crossing(surplus, mean / float(np.sqrt(model).mean()) / OF_NORMAL)


def deviation_in_buckets(misfit: float, scale: float, parts: Floats, deviations: Floats, most: Floats) -> float:
    """The deviation within buckets, common to all of them, that explains how far parts of them are from being even.

    misfit: the sum over parts of buckets of |true - estimated|, with noise of this scale. parts: what share of its
    bucket each part is; deviations: of the noise in the total of its bucket; most: the largest deviation its bucket can
    have.

    For a normal unevenness of deviation S and normal noise of deviation s in the total, a part p of a bucket is off by
    sqrt(2 / pi) sqrt(p (1 - p) S^2 + p^2 s^2) on average. One deviation serves all, but where `most` caps it: a
    partition chosen by its deviations evens them out, and of no other difference between buckets is anything known.
    """
    wanted = (allow_for_noise(misfit, scale) if scale > 0.0 else misfit) / OF_NORMAL

    def surplus(deviation: float) -> float:
        uneven = parts * (1.0 - parts) * np.minimum(deviation, most) ** 2
        return float(np.sqrt(uneven + (parts * deviations) ** 2).sum()) - wanted

    top = float(most.max(initial=0.0))
    if surplus(0.0) >= 0:
        return 0.0
    return crossing(surplus, top) if surplus(top) >= 0 else top


def crossing(rising: Callable[[float], float], guess: float) -> float:
    """Where a rising function that is below 0 at 0 passes it: by doubling, then to the last digits but one or two.

    Chandrupatla 1997: a parabola through the last three points tells the next one where it can be trusted, and
    otherwise the middle does.

    >>> round(crossing(lambda x: x**3 - 2, 1.0), 12) == round(2 ** (1 / 3), 12)
    True
    """
    far, last = 0.0, guess
    of_far = rising(far)
    while (of_last := rising(last)) < 0:
        far, of_far, last = last, of_last, 2 * last
    share = 0.5
    for _ in range(STEPS):
        point = last + share * (far - last)
        value = rising(point)
        if (value < 0) == (of_last < 0):
            before, of_before = last, of_last
        else:
            before, of_before, far, of_far = far, of_far, last, of_last
        last, of_last = point, value
        least = CLOSE * max(far, last) / abs(far - last)
        if least > 0.5:
            break
        along, up = (last - far) / (before - far), (of_last - of_far) / (of_before - of_far)
        share = 0.5
        if 1.0 - sqrt(1.0 - along) < up < sqrt(along):
            first = of_last / (of_far - of_last) * of_before / (of_far - of_before)
            second = (before - last) / (far - last) * of_last / (of_before - of_last) * of_far / (of_before - of_far)
            share = min(max(first + second, least), 1.0 - least)
    return max(far, last)


SIZES = np.exp(np.arange(-4.0, 9.0, 0.5))  # of errors' variances at a scale, over what is claimed
SOME = 0.1  # contrasts' families' worth of belief in each size, before any is seen
LEARNING = 30  # rounds in which all families teach each other how large errors are
WIDER = 1.4  # times the deviations that are left, as errors have longer tails than normal ones
LEAST = 1e-9


def learned_sizes(items: Sequence[tuple[Floats, Floats, float]]) -> list[Floats]:
    """For each family of contrasts, how likely each of `SIZES` is, with a prior that all of them teach each other.

    items: what each contrast is off by, the variance claimed of it, and that of its noise.
    """
    if not items:
        return []
    logs = []
    for off, claimed, variance in items:
        expected = SIZES[:, None] * claimed.reshape(-1) + variance
        logs.append(-0.5 * (np.log(expected) + off.reshape(-1) ** 2 / expected).sum(axis=1))
    likely = np.exp([each - each.max() for each in logs])
    prior = np.full(len(SIZES), 1.0 / len(SIZES))
    for _ in range(LEARNING):
        belief = likely * prior
        belief /= belief.sum(axis=1, keepdims=True)
        prior = belief.sum(axis=0) + SOME
        prior = prior / prior.sum()
    belief = likely * prior
    return list(belief / belief.sum(axis=1, keepdims=True))


def posterior(off: Floats, claimed: Floats, variance: float, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """The posterior mean of errors, the variance that is left, and which part of that is the noise's."""
    prior = SIZES[:, None] * claimed
    kept = prior / (prior + variance)
    trust = sizes @ kept
    left = trust * variance + np.maximum(sizes @ kept**2 - trust**2, 0.0) * off**2
    return trust * off, left, np.minimum(trust**2 * variance, left)


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
GRID_SIZES, SUMS = 41, 81  # of the grid of what is possible
BISECTIONS = 40
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
    size = np.exp(np.linspace(np.log(ends[0]), np.log(ends[1]), GRID_SIZES))[:, None]
    possible = np.maximum(answer + np.linspace(-20.0, 20.0, SUMS) * float(np.sqrt(rows.noise.variance)), 0.0)
    expected = possible + target * (cells - 2.0 * possible / size)
    likely = _log_likely(rows, possible, place) + _log_likely(beyond, expected, place)
    chance = np.exp(likely - likely.max()) * (possible + 1e-9) / size
    return chance.sum(axis=1) / chance.sum(), size[:, 0]


def _deviation(chance: Floats, size: Floats) -> float:
    """With which an interval around zero holds 95 % of what has one of these mean sizes."""
    going_on = 1.0 - 1.0 / size
    low, high = 0.0, 64.0 * float(size[-1])
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance @ going_on**middle > 1.0 - COVERAGE else (low, middle)
    return max(high, 1.0) / NORMAL_END


def _log_likely(measured: Measurement, truth: Floats, place: int) -> Floats:
    off, noise = np.abs(float(measured.answers[place]) - truth), measured.noise
    return np.asarray(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))
