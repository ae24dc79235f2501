"""Posterior of the size of model errors, from noisy sums of |true - estimated| and from noisy contrasts.

Three models, each with a scale that is unknown and integrated out so that 95 % intervals cover 95 % on average:

1. Common deviation (`allow_for_noise`, `deviation_of_shape`, `deviation_in_buckets`). A mean misfit was measured with
   Laplace noise, with a flat prior on the true mean; the deviation is the one that explains it under normal errors.

2. Factor on claimed deviations (`expected_sizes` to `factor_of`). Query i has variance f^2 m_i + n_i, with m_i claimed
   by the model and n_i the noise. Beyond the claim, variances differ between queries by an exponential variable E of
   mean 1 (maximum entropy given the mean), min(f, 1)^2 + E max(f^2 - 1, 0): errors are normal for f = 1 and near to
   Laplace's for large f. The prior of f on the grid `POSSIBLE` is proportional to (1 + log2(f)^2)^-2.

3. Scale mixture for contrasts (`learned_sizes`, `posterior`). A contrast is off by e ~ N(0, s c) plus noise N(0, v),
   with c claimed. The weights of the sizes s on the grid `SIZES` are learned from all families of contrasts together
   (empirical Bayes, EM), and give the posterior mean and variance of e.

Hidden rows (`hidden_deviation`, `thin_deviation`). Most cells estimated as empty are empty, so no deviation describes
the others. Two noisy sums identify them. With N cells, of which k hold rows, R in all, sum |count| = R, and for cells
estimated to hold t rows each (t = 1 for those estimated as empty)

    sum |count - t| = R + t (N - 2 k)   where no cell that holds rows holds fewer than t

R / k is the mean of a geometric distribution of sizes; its posterior, with a log-uniform prior from one row to eight
times the noise of the whole budget (larger counts would have been seen), gives the deviation of an interval that covers
95 % of the cells that hold rows.

Where noisy cells were measured, they show the misfit themselves (models/partition/buckets.py). Own methods; the root
finder is Chandrupatla's (1997).
"""

from __future__ import annotations

from collections import defaultdict
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
    """Error function of every number of an array; without loading SciPy where there are few."""
    if values.size > QUICK:
        from scipy.special import erf as of_many

        return np.asarray(of_many(values))
    return np.fromiter(map(erf, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def allow_for_noise(mean: float, scale: float) -> float:
    """Mean error to use in place of a true one that was measured with Laplace noise of this scale.

    Under a flat prior on means from 0 on, 95 % intervals made from the result cover 95 % on average over the posterior.

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
    """Solve for s: normal errors of variance s^2 model + noise have this mean size; 0 where the noise explains it.

    model, noise: (queries,), variances.
    """

    def surplus(deviation: float) -> float:
        return float(OF_NORMAL * np.sqrt(deviation**2 * model + noise).mean()) - mean

    if surplus(0.0) >= 0 or not (model > 0).any():
        return 0.0
    return crossing(surplus, mean / float(np.sqrt(model).mean()) / OF_NORMAL)


def deviation_in_buckets(misfit: float, scale: float, parts: Floats, deviations: Floats, most: Floats) -> float:
    """Standard deviation within buckets, common to all, that explains the misfit of parts of buckets.

    misfit: the sum over parts of |true - estimated|, with Laplace noise of this scale. parts: (parts,), share of its
    bucket's cells in each part. deviations: (parts,), standard deviation of the noise of its bucket's total. most:
    (parts,), largest deviation possible in its bucket.

    With a within-bucket deviation S and noise s in the total, both normal, a part p is off by sqrt(2 / pi) sqrt(p (1 -
    p) S^2 + p^2 s^2) on average. One S serves all buckets, capped by `most`: a partition chosen by its deviations makes
    them similar, and nothing else is known of differences between buckets.
    """
    wanted = (allow_for_noise(misfit, scale) if scale > 0.0 else misfit) / OF_NORMAL

    def surplus(deviation: float) -> float:
        uneven = parts * (1.0 - parts) * np.minimum(deviation, most) ** 2
        return float(np.sqrt(uneven + (parts * deviations) ** 2).sum()) - wanted

    top = float(most.max(initial=0.0))
    if surplus(0.0) >= 0:
        return 0.0
    return crossing(surplus, top) if surplus(top) >= 0 else top


def crossing(rising: Callable[[float], float], guess: float, close: float = CLOSE) -> float:
    """Root of an increasing function that is negative at 0 (Chandrupatla 1997), to within a share `close` of it.

    A bracket is found by doubling; inverse quadratic interpolation is used where it is safe, and bisection elsewhere.
    By default it is found to within about two units of rounding.

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
        least = close * max(far, last) / abs(far - last)
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
    """Posterior weights of the error sizes in `SIZES` for each family of contrasts (empirical Bayes, EM).

    items: for each family the observed deviations (n,), their claimed variances (n,), and the variance of the noise.
    Returns an array (sizes,) for each family; the prior is shared by all families and estimated from them.
    """
    if not items:
        return []
    logs, of_length = np.empty((len(items), len(SIZES))), defaultdict[int, list[int]](list)
    for index, (off, _, _) in enumerate(items):
        of_length[off.size].append(index)
    for some in of_length.values():
        offs = np.array([items[index][0].reshape(-1) for index in some])
        claims = np.array([items[index][1].reshape(-1) for index in some])
        expected = SIZES[:, None, None] * claims + np.array([items[index][2] for index in some])[:, None]
        logs[some] = -0.5 * (np.log(expected) + offs**2 / expected).sum(axis=-1).T
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(SIZES), 1.0 / len(SIZES))
    for _ in range(LEARNING):
        belief = likely * prior
        belief /= belief.sum(axis=1, keepdims=True)
        prior = belief.sum(axis=0) + SOME
        prior = prior / prior.sum()
    belief = likely * prior
    return list(belief / belief.sum(axis=1, keepdims=True))


def posterior(off: Floats, claimed: Floats, variance: float, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Posterior of contrasts' errors under a scale mixture of normals: mean, variance, and the noise's part of it.

    off: (n,), observed deviations. claimed: (n,), claimed variances. variance: of the noise. sizes: weights of `SIZES`.
    """
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
    """Nodes and weights of Gauss-Laguerre quadrature, for expectations over an exponential variable."""
    points, weights = np.polynomial.laguerre.laggauss(8)
    return points, weights


def spread_out(factors: Floats) -> Floats:
    """Squared factors of single queries at the quadrature nodes, (nodes, factors); their mean is the factor squared."""
    return np.asarray(
        np.minimum(factors, 1.0) ** 2 + np.multiply.outer(_beyond()[0], np.maximum(factors**2 - 1.0, 0.0))
    )


def expected_sizes(beside: Floats, model: Floats, noise: Floats | float = 0.0, *, peaked: bool = False) -> Floats:
    """Expected mean of |error| over queries, for every candidate factor on the model's deviations, (factors,).

    beside: (queries,), distance of each query's public target from its answer, as targets are whole numbers. model,
    noise: (queries,), variances. peaked: errors are single Laplace noises instead of sums of many.
    """
    off = np.abs(beside)
    deviation = np.maximum(np.sqrt(np.multiply.outer(POSSIBLE**2, model) + noise), 1e-12)
    if peaked:
        scale = deviation / sqrt(2.0)
        return np.asarray((off + scale * np.exp(-np.minimum(off / scale, 700.0))).mean(axis=1))
    mean_size = np.tensordot(
        _beyond()[1], np.sqrt(np.multiply.outer(spread_out(POSSIBLE), model) + noise), axes=1
    )  # on average
    far = np.minimum((off / deviation) ** 2 / 2.0, 700.0)
    return np.asarray((OF_NORMAL * mean_size * np.exp(-far) + off * _ends_of(np.sqrt(far))).mean(axis=1))


def _ends_of(far: Floats) -> Floats:
    """Error function of an array, evaluated only where it differs from 1."""
    result, near = np.ones(far.shape), far < FAR
    result[near] = erf_of(far[near])
    return result


def believed(log_likely: Floats) -> Floats:
    """Posterior of the factor on the grid `POSSIBLE`, from its log likelihood, (factors,).

    The prior, (1 + log2(f)^2)^-2, gives twice and half the claimed deviation a quarter of the weight of the claim.
    """
    chance = np.exp(log_likely - log_likely.max()) / (1.0 + np.log2(POSSIBLE) ** 2) ** 2
    return np.asarray(chance / chance.sum())


def chances_of(measured: Measurement, index: int, expected: Floats) -> Floats:
    """Posterior of the factor, (factors,), from one noisy sum of misfits; expected: (factors,), sums at each factor."""
    answer, noise = float(measured.answers[index]), measured.noise
    off = np.abs(answer - expected)
    return believed(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))


def factor_of(chances: Floats) -> float:
    """Factor on claimed deviations with which 95 % intervals cover 95 % on average over its posterior.

    chances: (groups, factors), posterior of each group of queries of a kind, or (factors,) of one. Groups are mixed,
    for a query may belong to any of them; so groups that differ make intervals wider.
    """
    mixture = np.atleast_2d(chances).mean(axis=0)
    likely = mixture > UNLIKELY * mixture.max()
    mixture, single = mixture[likely] / mixture[likely].sum(), np.sqrt(spread_out(POSSIBLE[likely]))
    near, weights = NORMAL_END / sqrt(2.0) / single, _beyond()[1]
    step = 2.0 * float(POSSIBLE[-1]) / 2**HALVINGS
    exact = crossing(lambda factor: float(weights @ _ends_of(factor * near) @ mixture) - COVERAGE, 2.0)
    return float(ceil(exact / step) * step)


SEEN = 8.0  # times the noise that all of the budget buys: what hides from it is no larger on average
GRID_SIZES, SUMS = 41, 81  # of the grid of what is possible
BISECTIONS = 40
CLEAR = 1.5  # deviations of its noise by which a sum says that most cells hold no rows


def hidden_deviation(rows: Measurement, beyond: Measurement, cells: int, unit: float, *, seen: bool = True) -> float:
    """Standard deviation whose 95 % interval around zero covers 95 % of the non-empty among cells estimated empty.

    rows: its first answer is the noisy number of rows in these cells. beyond: the noisy sum of |count - 1|. unit:
    standard deviation of the noise that the whole budget buys. seen: counts far above that cannot have stayed hidden.
    """
    most = max(SEEN * unit, 1.0 + 1e-9, 0.0 if seen else float(rows.answers[0]))
    return _deviation(*_sizes(rows, beyond, 0, cells, 1.0, (1.0, most)))


def thin_deviation(
    rows: Measurement, beyond: Measurement, index: int, cells: int, target: float
) -> tuple[float, float] | None:
    """`hidden_deviation` for cells estimated at `target` rows each; None where it is not clear that most are empty.

    rows: its answer at `index` is the noisy number of rows in these cells. beyond: the noisy sum of |count - target|.
    Returns the deviation, and the mean number of rows of a non-empty cell.
    """
    noise = float(np.sqrt(rows.noise.variance + beyond.noise.variance))
    if float(beyond.answers[index]) - float(rows.answers[index]) < CLEAR * noise or target <= 0.0:
        return None
    least = max(2.0 * target, 1.0)
    chance, size = _sizes(rows, beyond, index, cells, target, (least, max(float(rows.answers[index]), 2.0 * least)))
    return _deviation(chance, size), float(chance @ size)


def _sizes(
    rows: Measurement, beyond: Measurement, index: int, cells: int, target: float, ends: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Posterior of the mean size of non-empty cells on a log-uniform grid, weighed by the number of such cells.

    Returns (weights, sizes), each of length `GRID_SIZES`. ends: of the grid.
    """
    answer = max(float(rows.answers[index]), 0.0)
    size = np.exp(np.linspace(np.log(ends[0]), np.log(ends[1]), GRID_SIZES))[:, None]
    possible = np.maximum(answer + np.linspace(-20.0, 20.0, SUMS) * float(np.sqrt(rows.noise.variance)), 0.0)
    expected = possible + target * (cells - 2.0 * possible / size)
    likely = _log_likely(rows, possible, index) + _log_likely(beyond, expected, index)
    chance = np.exp(likely - likely.max()) * (possible + 1e-9) / size
    return chance.sum(axis=1) / chance.sum(), size[:, 0]


def _deviation(chance: Floats, size: Floats) -> float:
    """Standard deviation d such that a geometric size exceeds 1.96 d with probability 5 %.

    chance, size: (sizes,), posterior of the mean of the geometric distribution.
    """
    going_on = 1.0 - 1.0 / size
    low, high = 0.0, 64.0 * float(size[-1])
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance @ going_on**middle > 1.0 - COVERAGE else (low, middle)
    return max(high, 1.0) / NORMAL_END


def _log_likely(measured: Measurement, truth: Floats, index: int) -> Floats:
    """Log likelihood, up to a constant, of a noisy answer at candidate true values, with Laplace or Gaussian noise."""
    off, noise = np.abs(float(measured.answers[index]) - truth), measured.noise
    return np.asarray(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))
