"""Empirical-Bayes shrinkage of noisy two-way tables, and of larger ones, towards what smaller tables imply.

Pairs (`shrink_pairs`). Deviations of a noisy pair from the product of its margins are expanded in the eigenvectors of a
prior covariance of each attribute's values (`Directions`). A coefficient is N(g, s * size) plus noise: size from the
eigenvalues, g zero or what other pairs predict; g and s are weighed by marginal likelihood with a prior learned from
all pairs (EM), with scale-mixture tails.

Prediction from other pairs (`mediated`). With B the matrix of all standardised pair tables and Q its inverse, the part
of block ab that all other attributes explain linearly is B_ab - [(Q_SS)^-1]_ab, S being the values of a and b. A ridge
bounds the trust in noisy mediators.

`all_pairs` makes two passes: each pair alone, then each with the first pass of all others. `larger_tables` shrinks
tables of three attributes and more towards their maximum-entropy join, cell by cell. Own method.

Pairs whose cells are mostly empty (`sparser`). Shrinkage along directions leaves noise in every cell of a pair such as
county and state, of which most cells are empty for good. Two further models of a pair, with the same noise, are
compared with it by marginal likelihood of the noisy cells:

Functional dependency (`determined`). Every value a of one attribute goes with a single value b(a) of the other, but for
a small share e of its rows that follow the margin q: x_ab = n_a ((1 - e) [b = b(a)] + e q_b). Posterior of b(a) with
prior q, row by row; e by likelihood.

Ratios (`by_ratios`). A cell has x = r m rows, m those of the product of margins or of other pairs' prediction, bounded
by both margins; r is 0 or on a grid, with weights learned from all cells of the pair (EM; a nonparametric maximum
likelihood prior, Kiefer and Wolfowitz 1956). Each atom scatters as independent rows do. The weights that were learned
are paid for as by Schwarz 1978.

A model replaces the shrunk estimate as far as its posterior probability goes. Own method.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import combinations
from math import log, pi

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Structure
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import LENGTHS, join_counts
from sfumato.models.margins.table import (
    ON_GOOD_NUMBERS,
    Noisy,
    Places,
    Table,
    fitted_with_zeros,
    independent,
    pooled,
    spread_out,
    subsets,
    sum_out,
    with_zeros,
)

RATIOS = np.logspace(-1.0, 2.0, 20)  # of a cell's rows to what margins imply, besides none
EMPTY = 0.1  # cells that hold no rows, before any is seen
RATIO_TRUST = 5.0  # cells that the prior of ratios is worth
RATIO_ROUNDS = 15  # of learning the weights of ratios
LEAKS = (0.0, 0.01, 0.03, 0.1)  # shares of rows besides a functional dependency
ODDS = 7.0  # in logarithms, against such a model before a pair is seen: a thousand to one
FAR = 0.5  # of the rows, that a pair which is mostly empty is from the product of its margins at least
NEARLY = 1e-3  # of what margins imply, that an empty cell keeps: tables that contradict each other can still be joined
SURE = 50.0  # log odds beyond which nothing changes
LITTLE = 1e-12


@dataclass(frozen=True, eq=False)
class SparseFit:
    """Posterior mean and variance of the cells of a pair, and the log likelihood of its noisy cells."""

    estimate: Floats
    variance: Floats
    evidence: float


def sparser(noisy: Noisy, shrunk: SparseFit, product: Floats, said: Sequence[Floats]) -> SparseFit:
    """Average the shrunk estimate of a pair with the likeliest sparse model, by posterior probability.

    product: table of the product of its margins. said: predictions from other pairs.
    """
    if float(np.abs(shrunk.estimate - product).sum()) < FAR * float(product.sum()):
        return shrunk
    fits = [determined(noisy, product), _turned(determined((noisy[0].T, noisy[1]), product.T))]
    most = np.minimum(product.sum(axis=1)[:, None], product.sum(axis=0))
    fits += [by_ratios(noisy, guess, most) for guess in (product, *said[-1:])]
    best = max(fits, key=lambda fit: fit.evidence)
    odds = best.evidence - ODDS - shrunk.evidence
    if odds < -SURE / 10.0:
        return shrunk
    weight = float(1.0 / (1.0 + np.exp(-min(odds, SURE))))
    apart = weight * (1.0 - weight) * (best.estimate - shrunk.estimate) ** 2
    estimate = weight * np.maximum(best.estimate, NEARLY * product) + (1.0 - weight) * shrunk.estimate
    variance = weight * best.variance + (1.0 - weight) * shrunk.variance + apart
    return SparseFit(estimate, variance, best.evidence)


def _turned(fit: SparseFit) -> SparseFit:
    """Transpose a fit."""
    return SparseFit(fit.estimate.T, fit.variance.T, fit.evidence)


def determined(noisy: Noisy, product: Floats) -> SparseFit:
    """Fit a functional dependency of the columns on the rows of a pair: one column for every row, with a small leak.

    product: table of the product of its margins.

    >>> fit = determined((np.array([[40.0, 3.0], [-2.0, 61.0]]), 4.0), np.array([[16.0, 24.0], [24.0, 36.0]]))
    >>> np.round(fit.estimate).tolist()
    [[40.0, 0.0], [0.0, 60.0]]
    """
    cells, noise = noisy
    rows, share = product.sum(axis=1, keepdims=True), product.sum(axis=0) / max(float(product.sum()), LITTLE)
    best = SparseFit(product, product, -np.inf)
    for leak in LEAKS:
        off, main = cells - leak * rows * share, (1.0 - leak) * rows
        logs = np.log(np.maximum(share, LITTLE)) + (main * off - 0.5 * main**2) / noise
        top = logs.max(axis=1, keepdims=True)
        chances = np.exp(logs - top)
        sums = chances.sum(axis=1, keepdims=True)
        evidence = float((top + np.log(sums)).sum()) - 0.5 * (float(np.square(off).sum()) / noise)
        if evidence > best.evidence:
            chances /= sums
            estimate = main * chances + leak * rows * share
            best = SparseFit(estimate, main**2 * chances * (1.0 - chances) + leak * rows * share, evidence)
    constant = 0.5 * cells.size * log(2.0 * pi * noise) + log(len(LEAKS))
    return SparseFit(best.estimate, best.variance, best.evidence - constant)


def by_ratios(noisy: Noisy, guess: Floats, most: Floats) -> SparseFit:
    """Fit each cell as a ratio of a guess, 0 or on a grid, whose weights are learned from all cells of the table.

    most: upper bound of every cell, by its margins.
    """
    cells, noise = noisy[0].reshape(-1, 1), noisy[1]
    prior = np.exp(-0.5 * np.log2(RATIOS) ** 2)  # a factor of 2, give or take
    prior = np.append(EMPTY, (1.0 - EMPTY) * prior / prior.sum())
    rows = np.minimum(np.maximum(guess, 0.0).reshape(-1, 1) * np.append(0.0, RATIOS), most.reshape(-1, 1))
    spread = noise + rows
    logs = -0.5 * ((cells - rows) ** 2 / spread + np.log(2.0 * pi * spread))
    top = logs.max(axis=1)
    likely, weights = np.exp(logs - top[:, None]), prior
    for _ in range(RATIO_ROUNDS):
        belonging = (likely / (likely @ weights)[:, None]).sum(axis=0) * weights
        weights = (belonging + RATIO_TRUST * prior) / (len(cells) + RATIO_TRUST)
    sums = likely @ weights
    learned = int((weights * len(cells) > 1.0).sum())
    evidence = float((np.log(sums) + top).sum()) - 0.5 * learned * log(len(cells))
    belonging = likely * weights / sums[:, None]
    means, within = rows + rows / spread * (cells - rows), rows * noise / spread
    estimate = np.maximum((belonging * means).sum(axis=1), 0.0)
    variance = np.maximum((belonging * (within + means**2)).sum(axis=1) - estimate**2, 0.0)
    return SparseFit(estimate.reshape(noisy[0].shape), variance.reshape(noisy[0].shape), evidence)


ALONE = 0.1  # of the variance along an order that every value has by itself
LEARNED = 0.7  # how far the directions seen in other pairs are believed against those of the order
POWER = 0.75  # of expected rows by which deviations grow: between counts, 1/2, and shares, 1
SMALLEST = 1e-14  # of the whole variance, that of any direction
WEIGHTS = np.array([0.5, 1.0, 1.5, 2.0])  # of what other pairs say; beyond 1, since it was shrunk on its way
BIN = 0.35  # in the logarithm of sizes: coefficients of like size are looked at together
BINS = 80
SPREADS = np.arange(-18.0, 6.0, 0.4)  # logarithms of the common variance, per unit of size: from none to all
NEAR = np.exp(-0.5 * (np.arange(-5, 6) / 2) ** 2) / np.sqrt(8 * np.pi)  # spreads of like size support each other
SOME_MEAN, SOME_SPREAD = 0.5, 0.1  # pairs' worth of belief in each mean and each spread, before any pair is seen
TAILS = np.exp(1.5 * np.arange(-3.0, 4.0))  # by what single coefficients' spreads differ from the common one
TAIL_SHARES = np.array([0.02, 0.04, 0.10, 0.68, 0.10, 0.04, 0.02])  # how many do, before any is seen
TAIL_TRUST = 20.0  # coefficients that this is worth
TAIL_ROUNDS = 12  # of learning how many do
PRIOR_ROUNDS = 20  # of learning the prior of all pairs
SCATTERS = np.logspace(-2.0, 1.5, 15)  # of cells around a guess, as a share of it


@dataclass(frozen=True, eq=False)
class Directions:
    """Eigenvectors of the prior covariance of an attribute's values, orthogonal to the constant.

    sizes: (directions,), log eigenvalues. vectors: (values, directions).
    """

    sizes: Floats
    vectors: Floats

    @classmethod
    def of(cls, share: Floats, ordered: bool, seen: Floats | None = None) -> Directions:
        """Eigendecomposition of the prior covariance, conditional on a sum of zero.

        share: (values,), of the rows. ordered: neighbours are correlated. seen: (values, values), covariance of the
        values in other pairs, of any scale.
        """
        sizes = share**POWER
        covariance = sizes[:, None] * _alike(len(share), ordered) * sizes
        covariance = covariance / max(float(np.trace(covariance)), 1e-300)
        if seen is not None and np.trace(seen) > 0:
            covariance = (1.0 - LEARNED) * covariance + LEARNED * seen / np.trace(seen)
        along = covariance.sum(axis=1)
        covariance = covariance - np.outer(along, along) / max(float(along.sum()), 1e-300)
        lengths, vectors = np.linalg.eigh(covariance)
        return cls(np.log(np.maximum(lengths[:0:-1], SMALLEST)), vectors[:, :0:-1])


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Shrunk estimate, its error variances by cell from noise and from the model, and the log likelihood if known."""

    estimate: Floats
    noise: Floats
    model: Floats
    evidence: float = -np.inf


def shrink_pairs(
    seen: Mapping[Places, Noisy],
    products: Mapping[Places, Floats],
    said: Mapping[Places, Sequence[Floats]],
    along: Mapping[Places, tuple[Directions, Directions]],
    *,
    errors: bool = True,
) -> tuple[dict[Places, Shrunk], Floats]:
    """Shrink measured pairs towards their prior means; return them and each prediction's mean weight, (predictions,).

    products: product tables of the margins. said: for each pair the same number of predictions from other pairs. along:
    directions of both attributes. errors: work out error variances, and whether a pair is mostly empty.
    """
    result = {}
    work = {places: _Pair.of(seen[places], products[places], said[places], along[places]) for places in seen}
    prior = _learned_prior([pair.likelihood for pair in work.values() if pair is not None])
    for places, pair in work.items():
        if pair is None:
            nothing = np.zeros(products[places].shape)
            result[places] = Shrunk(products[places], nothing, nothing)
        else:
            result[places] = pair.shrunk(products[places], prior, errors=errors)
            if errors:
                result[places] = _or_sparse(seen[places], products[places], said[places], pair, prior, result[places])
    return result, _weights(np.exp(prior))


def _or_sparse(
    noisy: Noisy, product: Floats, said: Sequence[Floats], pair: _Pair, prior: Floats, shrunk: Shrunk
) -> Shrunk:
    """Shrunk estimate of a pair, or that of a likelier model of a table that is mostly empty."""
    if not said:  # the first pass
        return shrunk
    dependent = SparseFit(shrunk.estimate, shrunk.noise + shrunk.model, pair.evidence(noisy[0] - product, prior))
    fit = sparser(noisy, dependent, product, said)
    if fit is dependent:
        return shrunk
    noise = np.minimum(fit.variance, fit.variance**2 / noisy[1])
    return Shrunk(fit.estimate, noise, fit.variance - noise)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Eigenbasis coefficients of a two-way table, and their log likelihood by prior mean and spread.

    measured: (row directions, column directions). towards: the coefficients of each prediction. sizes: log prior
    variances. likelihood: (means, spreads).
    """

    measured: Floats
    towards: list[Floats]
    variance: float
    sizes: Floats
    likelihood: Floats
    along: tuple[Directions, Directions]

    @classmethod
    def of(
        cls, noisy: Noisy, product: Floats, said: Sequence[Floats], along: tuple[Directions, Directions]
    ) -> _Pair | None:
        """Expand a noisy pair in the directions of both attributes; None if one has a single value."""
        rows, columns = along
        if not len(rows.sizes) or not len(columns.sizes):  # an attribute with one value
            return None

        def turned(table: Floats) -> Floats:
            return np.asarray(rows.vectors.T @ (table - product) @ columns.vectors, dtype=np.float64)

        numbers, variance = noisy
        sizes = _Sizes.of(rows.sizes[:, None] + columns.sizes + 2.0 * np.log(max(float(product.sum()), 1.0)))
        measured, towards = turned(numbers), [turned(each) for each in said]
        around = [measured, *(measured - weight * each for each in towards for weight in WEIGHTS)]
        return cls(measured, towards, variance, sizes.sizes, sizes.likelihood(around, variance), along)

    def shrunk(self, product: Floats, prior: Floats, *, errors: bool) -> Shrunk:
        """Posterior table of the pair; prior: (means, spreads), log prior of mean and spread."""
        belief = np.exp(self.likelihood + prior - (self.likelihood + prior).max())
        belief /= belief.sum()
        guess = np.zeros(self.measured.shape)
        if self.towards:
            guess = sum((weight * each for weight, each in zip(_weights(belief), self.towards, strict=True)), guess)
        spread = np.exp(belief.sum(axis=0) @ SPREADS + self.sizes)
        trust, left = posterior(self.measured - guess, spread, self.variance)
        rows, columns = (each.vectors for each in self.along)
        estimate = product + rows @ (guess + trust * (self.measured - guess)) @ columns.T
        if not errors:
            return Shrunk(estimate, product, product)
        by_noise = np.minimum(trust**2 * self.variance, left)
        noise, model = (rows**2 @ part @ (columns**2).T for part in (by_noise, left - by_noise))
        return Shrunk(estimate, noise, model)

    def evidence(self, off: Floats, prior: Floats) -> float:
        """Log marginal likelihood of the noisy cells over mean and spread. off: cells less the product of margins."""
        both = self.likelihood + prior
        best = float(both.max())
        likelihood = best + log(float(np.exp(both - best).sum())) - log(float(np.exp(prior).sum()))
        others = off.size - self.measured.size  # of margins, where the product is off by noise alone
        rest = max(float(np.square(off).sum() - np.square(self.measured).sum()), 0.0)
        return likelihood - 0.5 * (others * log(self.variance) + rest / self.variance + off.size * log(2.0 * pi))


def _weights(belief: Floats) -> Floats:
    """Mean weight of each prediction, (predictions,). belief: probabilities, (means, spreads); scalar without pairs."""
    return np.asarray(belief.sum(axis=1)[1:].reshape(-1, len(WEIGHTS)) @ WEIGHTS if belief.ndim else np.zeros(0))


def _learned_prior(likelihoods: Sequence[Floats]) -> Floats:
    """Log prior of means and spreads, (means, spreads), learned from all pairs by EM with pseudo-counts."""
    if not likelihoods:
        return np.zeros(())
    likely = np.exp(np.array([each - each.max() for each in likelihoods]))
    means, spreads = np.ones(likely.shape[1]), np.ones(likely.shape[2])
    for _ in range(PRIOR_ROUNDS):
        belief = likely * means[:, None] * spreads
        belief /= belief.sum(axis=(1, 2), keepdims=True)
        means = belief.sum(axis=(0, 2)) + SOME_MEAN
        spreads = np.convolve(belief.sum(axis=(0, 1)), NEAR, mode="same") + SOME_SPREAD
        means, spreads = means / means.sum(), spreads / spreads.sum()
    return np.asarray(np.log(means)[:, None] + np.log(spreads), dtype=np.float64)


def shrink_cells(noisy: Floats, variance: float, guess: Floats) -> Shrunk:
    """Shrink a noisy table cell by cell towards a guess m, with variance (c m)^2 + m and c by maximum likelihood."""
    rows, off = np.maximum(guess, 0.0), noisy - guess
    best, prior = -np.inf, rows
    for scatter in SCATTERS:
        spread = scatter**2 * rows**2 + rows
        likelihood = -0.5 * float((np.log(spread + variance) + off**2 / (spread + variance)).sum())
        if likelihood > best:
            best, prior = likelihood, spread
    trust = prior / (prior + variance)
    evidence = best - 0.5 * off.size * log(2.0 * pi)
    return Shrunk(guess + trust * off, trust**2 * variance, (1.0 - trust) ** 2 * prior, evidence)


@lru_cache(maxsize=64)
def _alike(values: int, ordered: bool) -> Floats:
    """Prior correlation matrix, (values, values): a mixture of exponential kernels along an order, else identity."""
    if not ordered or values < 3:
        return np.eye(values)
    gaps = np.abs(np.subtract.outer(np.arange(values), np.arange(values)))
    smooth = np.mean([np.exp(-gaps / length) for length in LENGTHS if length < values], axis=0)
    return np.asarray(ALONE * np.eye(values) + (1.0 - ALONE) * smooth, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """Coefficients binned by prior size, so that a likelihood costs a few bins instead of all cells.

    bin: of every coefficient. number, mean: (BINS,), of each bin. sizes: log prior variances.
    """

    bin: Codes
    number: Floats
    mean: Floats
    sizes: Floats

    @classmethod
    def of(cls, sizes: Floats) -> _Sizes:
        """Bin coefficients by their log prior variances."""
        places = np.minimum(((sizes.max() - sizes) / BIN).astype(np.int64), BINS - 1).reshape(-1)
        number = np.bincount(places, minlength=BINS).astype(np.float64)
        mean = np.bincount(places, sizes.reshape(-1), BINS) / np.maximum(number, 1.0)
        return cls(places, number, mean, sizes)

    def likelihood(self, candidates: Sequence[Floats], variance: float) -> Floats:
        """Log likelihood of candidates for the coefficients at every common spread, (candidates, spreads)."""
        squares = np.array([np.bincount(self.bin, (each**2).reshape(-1), BINS) for each in candidates])
        held = self.number > 0
        expected = np.exp(SPREADS[:, None] + self.mean[held]) + variance
        logs, precisions = np.log(expected) @ self.number[held], 1.0 / expected
        return np.asarray(-0.5 * (logs + squares[:, held] @ precisions.T), dtype=np.float64)


@ON_GOOD_NUMBERS
def posterior(coefficients: Floats, spread: Floats, variance: float) -> tuple[Floats, Floats]:
    """Posterior weights (trust in the measured value) and variances of coefficients under scale-mixture tails.

    coefficients, spread: deviations from the prior mean and prior variances. variance: of the noise. The weights of the
    tails are learned by EM.
    """
    shape, tails = coefficients.shape, TAILS.astype(np.float32)[:, None]
    most = np.sqrt(np.finfo(np.float32).max)  # next to no noise: trusted whole, however much less it is
    ratios, squares = (  # in units of the noise, single precision does
        np.minimum(each / variance, most).reshape(-1).astype(np.float32) for each in (spread, np.square(coefficients))
    )
    trusts = ratios * tails
    precisions = 1.0 / (trusts + np.float32(1.0))
    trusts *= precisions
    likelihood = np.log(precisions)
    likelihood -= squares * precisions
    likelihood *= np.float32(0.5)
    likelihood -= likelihood.max(axis=0)
    np.exp(likelihood, out=likelihood)
    shares = TAIL_SHARES.astype(np.float32)
    prior = np.float32(TAIL_TRUST) * shares
    for _ in range(TAIL_ROUNDS):
        shares = shares * np.dot(likelihood, 1.0 / np.dot(shares, likelihood)) + prior
        shares = shares / shares.sum()
    likelihood *= shares[:, None]  # and with that the posterior of each tail
    likelihood /= likelihood.sum(axis=0)
    precisions -= np.einsum("tc,tc->c", likelihood, precisions)
    precisions *= precisions
    trust, between = (np.einsum("tc,tc->c", likelihood, each) for each in (trusts, precisions))
    left = (trust + squares * between).reshape(shape)
    return trust.reshape(shape).astype(np.float64), variance * left.astype(np.float64)


RIDGES = (0.1, 0.3, 1.0)  # how far pairs are trusted as mediators; chosen pair by pair, by likelihood
FITTING_ROUNDS = 10  # of fitting a pair to its margins
LEAST = 1e-9  # of the rows, in a cell of a pair
AT_ONCE = 2**18  # numbers of matrices that are worked on together
MOST_VALUES = 600  # of an attribute whose directions are looked for; the time that it takes grows with their cube
MOST_CELLS = 2**18  # of a pair that is measured, or kept if it was not
MOST_TOGETHER = 2400  # values of all attributes that mediate, likewise

NO_ZEROS: Mapping[Places, Flags] = {}
Kin = Mapping[int, frozenset[int]]
NO_KIN: Kin = {}
NO_TABLES: Mapping[Places, Floats] = {}
Pairs = Mapping[Places, Floats]
Along = dict[Places, tuple[Directions, Directions]]
Variation = Mapping[tuple[int, Places], Floats]  # by attribute and pair


def all_pairs(
    one_way: Sequence[Floats],
    seen: Mapping[Places, Noisy],
    ordered: Sequence[bool],
    zeros: Mapping[Places, Flags] = NO_ZEROS,
    kin: Kin = NO_KIN,
    expected: Mapping[Places, Floats] = NO_TABLES,
) -> dict[Places, Table]:
    """Estimates of two-way tables: all, but for those of more than `MOST_CELLS` cells that nothing is known of.

    one_way: margins, with one sum. seen: noisy pairs; the others are predicted from these. zeros: for pairs with
    structural zeros, flags of their possible cells. kin: attributes that follow from each one, or it from them: their
    pairs were pooled, share noise, and do not predict each other. expected: predictions of pairs from elsewhere, such
    as earlier periods, another prior mean beside the others. A table that is left out is the product of its margins
    wherever it is asked for.
    """
    total, axes = float(one_way[0].sum()), len(one_way)
    seen = {**seen, **{places: with_zeros(seen[places], flags) for places, flags in zeros.items() if places in seen}}
    small = _small([len(margin) for margin in one_way])
    product: dict[Places, Floats] = {
        (a, b): independent([one_way[a], one_way[b]], total)
        for a, b in combinations(range(axes), 2)
        if (a, b) in seen or (small[a] and small[b]) or len(one_way[a]) * len(one_way[b]) <= MOST_CELLS
    }
    for (a, b), flags in zeros.items():
        if (a, b) in product:
            product[a, b] = fit_margins(product[a, b], one_way[a], one_way[b], possible=flags)
    among = {places: each for places, each in product.items() if all(small[place] for place in places)}
    near = {places: noisy for places, noisy in seen.items() if places in among}
    shares = [margin / max(total, LEAST) for margin in one_way]

    def fitted(estimates: Mapping[Places, Floats]) -> dict[Places, Floats]:
        """Fit pairs to their margins (IPF), those of one shape together."""
        found: dict[Places, Floats] = {}
        for p in estimates.keys() & zeros.keys():
            found[p] = fit_margins(estimates[p], one_way[p[0]], one_way[p[1]], possible=zeros[p])
        for some in of_one_shape((p for p in estimates if p not in zeros), [len(margin) for margin in one_way]):
            rows, columns = (np.array([one_way[pair[side]] for pair in some]) for side in (0, 1))
            found |= zip(some, fit_margins(np.array([estimates[p] for p in some]), rows, columns), strict=True)
        return found

    first = {axis: Directions.of(shares[axis], ordered[axis]) for axis in range(axes) if small[axis]}
    by_order: Along = {(a, b): (first[a], first[b]) for a, b in near}
    elsewhere = fitted({places: expected[places] for places in near}) if expected else {}
    further = {places: [elsewhere[places]] if expected else [] for places in near}
    alone, _ = shrink_pairs(near, among, further, by_order, errors=False)
    known = among | fitted({places: each.estimate for places, each in alone.items()})
    said = predicted_by_others(one_way, known, kin)
    for each in said:
        each.update(fitted({places: each[places] for places in zeros if places in each}))
    by_others = _along(shares, ordered, _variation(one_way, known, among, list(near)), list(near))
    shrunk, weights = shrink_pairs(near, among, {p: [each[p] for each in said] + further[p] for p in near}, by_others)
    found = {p: shrunk[p] if p in shrunk else shrink_cells(*seen[p], product[p]) for p in product if p in seen}
    estimates = {places: each.estimate for places, each in found.items()}
    for places, apart in among.items():
        if places not in seen:  # predictions weigh as much as they do on average for measured pairs
            predictions = [each[places] for each in said] + [expected[p] for p in [places] if p in expected]
            estimates[places] = apart
            for weight, prediction in zip(weights.tolist(), predictions, strict=False):
                estimates[places] = estimates[places] + weight * (prediction - apart)
    tables, estimates = dict[Places, Table](), product | fitted(estimates)
    for places, estimate in estimates.items():
        if places in seen:
            tables[places] = with_tails(places, estimate, found[places])
        else:
            tables[places] = Table(places, estimate, np.zeros(estimate.shape), estimate)
    for pair, flags in zeros.items():
        if pair in tables:
            tables[pair] = tables[pair].errors_of(flags)
    return tables


def _along(shares: Sequence[Floats], ordered: Sequence[bool], varying: Variation, pairs: Sequence[Places]) -> Along:
    """Directions of both attributes of each pair, by their variation in all other pairs."""

    def of(axis: int, places: Places) -> Directions:
        """Eigenvectors of one attribute's prior covariance, learned from pairs other than this one."""
        return Directions.of(shares[axis], ordered[axis], varying[axis, places])

    return {places: (of(places[0], places), of(places[1], places)) for places in pairs}


def with_tails(places: Places, estimate: Floats, shrunk: Shrunk) -> Table:
    """Table with model variances raised in proportion to rows, as errors have heavier tails than normal ones."""
    usual = float((shrunk.noise + shrunk.model).mean()) / max(float(estimate.mean()), LEAST)
    return Table(places, estimate, shrunk.noise, shrunk.model + usual * estimate)


def _small(sizes: Sequence[int]) -> list[bool]:
    """Flag attributes with few enough values to enter the matrix of all pairs, the smallest first."""
    flags, values = [False] * len(sizes), 0
    for axis in np.argsort(sizes, kind="stable").tolist():
        values += sizes[axis]
        flags[axis] = sizes[axis] <= MOST_VALUES and values <= MOST_TOGETHER
    return flags


def fit_margins(
    table: Floats,
    rows: Floats,
    columns: Floats,
    rounds: int = FITTING_ROUNDS,
    possible: Flags | None = None,
    cells: Floats | None = None,
) -> Floats:
    """Iterative proportional fitting of two-way tables to their margins; empty where a margin is.

    table: (..., values, values), one or several; rows, columns: (..., values) each. possible: of one table, flags of
    cells; the others are empty. cells: (...), numbers of those that tables are not filled up with; all by default.
    """
    if possible is not None:
        return fitted_with_zeros(table, rows, columns, possible)
    least = LEAST * rows.sum(axis=-1) / (table.shape[-2] * table.shape[-1] if cells is None else cells)
    fitted: Floats = np.maximum(table, least[..., None, None])
    left, right = (np.asarray(margin > 0.0, dtype=np.float64)[..., None] for margin in (rows, columns))
    turned, rows, columns = fitted.swapaxes(-1, -2), rows[..., None], columns[..., None]
    for _ in range(rounds):  # factors of rows and of columns alone change
        left *= rows / np.maximum(left * (fitted @ right), 1e-12)
        right *= columns / np.maximum(right * (turned @ left), 1e-12)
    fitted *= left
    fitted *= right.swapaxes(-1, -2)
    return fitted


def of_one_shape(pairs: Iterable[Places], sizes: Sequence[int] | Mapping[int, int]) -> Iterator[list[Places]]:
    """Batches of pairs with the same numbers of values, small enough to be worked on together."""
    by_shape: dict[Places, list[Places]] = {}
    for a, b in pairs:
        by_shape.setdefault((sizes[a], sizes[b]), []).append((a, b))
    for (first, second), batch in by_shape.items():
        together = max(1, AT_ONCE // (first + second) ** 2)
        yield from (batch[start : start + together] for start in range(0, len(batch), together))


def predicted_anew(
    one_way: Sequence[Floats],
    tables: Mapping[Places, Table],
    wanted: Collection[Places],
    zeros: Mapping[Places, Flags],
    kin: Kin,
) -> dict[Places, Table]:
    """Predict unmeasured pairs from all others, once contrasts have corrected these.

    In the first prediction (`all_pairs`) all that unmeasured pairs say is missing. one_way, zeros, kin: see there.
    """
    small = _small([len(margin) for margin in one_way])
    pairs: list[Places] = [places for places in tables if len(places) == 2 and all(small[place] for place in places)]
    known, result = {places: tables[places].estimate for places in pairs}, dict[Places, Table]()
    for places, said in predicted_by_others(one_way, known, kin, RIDGES[:1], wanted)[0].items():
        first, second = (one_way[place] for place in places)
        estimate = fit_margins(said, first, second, possible=zeros.get(places))
        result[places] = Table(places, estimate, np.zeros(estimate.shape), estimate)
    return result


def predicted_by_others(
    one_way: Sequence[Floats],
    pairs: Pairs,
    kin: Kin,
    ridges: Sequence[float] = RIDGES,
    wanted: Collection[Places] | None = None,
) -> list[dict[Places, Floats]]:
    """Predict every pair, or the wanted ones, from pairs of other attributes that are no kin of its own, by ridge."""
    chosen = [places for places in pairs if wanted is None or places in wanted]
    of_kin: dict[frozenset[int], list[Places]] = {}
    for a, b in chosen:
        of_kin.setdefault((kin.get(a, frozenset()) | kin.get(b, frozenset())) - {a, b}, []).append((a, b))
    results: list[dict[Places, Floats]] = [{} for _ in ridges]
    for without, batch in of_kin.items():
        others = {places: table for places, table in pairs.items() if not without & {*places}}
        for result, found in zip(results, mediated(one_way, others, ridges, batch), strict=True):
            result.update(found)
    return [{places: result[places] for places in chosen} for result in results]


def mediated(
    one_way: Sequence[Floats], pairs: Pairs, ridges: Sequence[float], wanted: Sequence[Places] | None = None
) -> list[dict[Places, Floats]]:
    """Predict every pair, or the wanted ones, linearly from all other pairs.

    ridges: each added to the diagonal of the matrix of all pairs. One eigendecomposition serves all.
    """
    wanted = list(pairs) if wanted is None else wanted
    total = float(one_way[0].sum())
    axes = sorted({axis for places in pairs for axis in places})
    if not axes:
        return [{} for _ in ridges]
    ends = np.cumsum([len(one_way[axis]) for axis in axes]).tolist()
    at = {axis: slice(end - len(one_way[axis]), end) for axis, end in zip(axes, ends, strict=True)}
    root = np.sqrt(np.maximum(np.concatenate([one_way[axis] for axis in axes]) / max(total, LEAST), 1e-12))
    expected, every = np.outer(root, root), np.eye(ends[-1])
    for axis in axes:
        every[at[axis], at[axis]] -= expected[at[axis], at[axis]]
    for (a, b), table in pairs.items():
        every[at[a], at[b]] = table / max(total, LEAST) / expected[at[a], at[b]] - expected[at[a], at[b]]
        every[at[b], at[a]] = every[at[a], at[b]].T
    lengths, vectors = np.linalg.eigh(every)
    values = {axis: np.arange(ends[-1])[at[axis]] for axis in axes}
    results = list[dict[Places, Floats]]()
    for ridge in ridges:
        sizes = np.maximum(lengths + ridge, ridge / 2.0)  # noise can make it indefinite
        raised = sizes > lengths + ridge
        whole = every  # off its diagonal
        if raised.any():
            whole = every + (vectors[:, raised] * (sizes - lengths - ridge)[raised]) @ vectors[:, raised].T
        scaled = vectors / np.sqrt(sizes)
        inverse = scaled @ scaled.T
        alone = {axis: np.asarray(np.linalg.inv(inverse[at[axis], at[axis]]), np.float64) for axis in axes}
        result: dict[Places, Floats] = {}
        for batch in of_one_shape(wanted, [len(margin) for margin in one_way]):
            first, second = (np.array([values[pair[side]] for pair in batch]) for side in (0, 1))
            block = first[:, :, None], second[:, None, :]
            own = _off_diagonal(inverse, (first, second), [[alone[pair[side]] for pair in batch] for side in (0, 1)])
            product = expected[block]
            explained = (whole[block] - own + product) * product * total
            rows, columns = (np.array([one_way[pair[side]] for pair in batch]) for side in (0, 1))
            result |= zip(batch, fit_margins(explained, rows, columns, FITTING_ROUNDS // 2), strict=True)
        results.append({places: result[places] for places in wanted})
    return results


def _off_diagonal(matrix: Floats, sides: tuple[Codes, Codes], inverses: Sequence[Sequence[Floats]]) -> Floats:
    """Blocks ab of inverses of submatrices of rows and columns a, b: -A^-1 B (D - B' A^-1 B)^-1, A the larger block.

    sides: (batch, values) each. inverses: of the diagonal blocks of both sides.
    """
    large, small = (0, 1) if sides[0].shape[1] >= sides[1].shape[1] else (1, 0)
    cross = matrix[sides[large][:, :, None], sides[small][:, None, :]]
    moved = np.array(inverses[large]) @ cross
    left = matrix[sides[small][:, :, None], sides[small][:, None, :]] - cross.transpose(0, 2, 1) @ moved
    result = -moved @ np.linalg.inv(left)
    return np.asarray(result.transpose(0, 2, 1) if large else result, dtype=np.float64)


def _variation(
    one_way: Sequence[Floats], pairs: Pairs, product: Pairs, seen: Sequence[Places]
) -> dict[tuple[int, Places], Floats]:
    """Covariance of an attribute's values over all its other pairs, by attribute and pair, (values, values) each."""
    least = LEAST * max(float(one_way[0].sum()), 1.0)
    whole = {axis: np.zeros((len(one_way[axis]),) * 2) for places in seen for axis in places}
    own: dict[tuple[int, Places], Floats] = {}
    for places in seen:
        a, b = places
        off = pairs[places] - product[places]
        own[a, places] = (off / np.maximum(one_way[b], least)) @ off.T
        own[b, places] = (off.T / np.maximum(one_way[a], least)) @ off
        whole[a] += own[a, places]
        whole[b] += own[b, places]
    return {(axis, places): whole[axis] - part for (axis, places), part in own.items()}


ROUNDS_OF_LARGER = 12  # of making a table agree with smaller ones


def larger_tables(
    noisy: Sequence[tuple[Places, Noisy]], known: Mapping[Places, Table], structure: Structure | None = None
) -> dict[Places, Table]:
    """Estimates of all tables of three axes and more that lie inside a measured one.

    noisy: measured tables. known: tables of one axis and of two. structure: cells that no row can be in.
    """
    views = {places for places, _ in noisy if len(places) > 2}
    wanted = sorted(
        {part for view in views for part in subsets(view) if len(part) > 2}, key=lambda part: (len(part), part)
    )
    tables = dict(known)
    for places in wanted:
        axes = range(len(places))
        parts: dict[Places, Floats] = {
            tuple(places.index(axis) for axis in smaller): tables[smaller].estimate
            for smaller in combinations(places, len(places) - 1)
        }
        possible = None if structure is None else structure.possible(places)
        guess = join_counts([tables[axis,].estimate for axis in places], parts, possible=possible)
        own = pooled(noisy, places)
        shrunk = _cells_or_ratios(own if possible is None else with_zeros(own, possible), guess, parts)
        agreed = _agreeing(shrunk.estimate, shrunk.noise + shrunk.model, parts, axes, possible)
        made = with_tails(places, agreed, shrunk)
        tables[places] = made if possible is None else made.errors_of(possible)
    return {places: tables[places] for places in wanted}


def _cells_or_ratios(noisy: Noisy, guess: Floats, parts: Mapping[Places, Floats]) -> Shrunk:
    """Shrink a noisy table towards its join, by the likelier of normal deviations and of ratios with empty cells."""
    shrunk, axes = shrink_cells(*noisy, guess), range(guess.ndim)
    most = reduce(np.minimum, [spread_out(margin, places, axes) for places, margin in parts.items()])
    fit = by_ratios(noisy, guess, most)
    if fit.evidence - ODDS < shrunk.evidence:
        return shrunk
    noise = np.minimum(fit.variance, fit.variance**2 / noisy[1])
    return Shrunk(np.maximum(fit.estimate, NEARLY * guess), noise, fit.variance - noise)


def _agreeing(
    table: Floats, unsure: Floats, parts: Mapping[Places, Floats], axes: range, possible: Flags | None = None
) -> Floats:
    """Make a table consistent with its margins: by weighted least squares, then by proportional fitting.

    unsure: variances by cell; cells with larger ones move more. possible: flags of cells; the others are 0.
    """
    for _ in range(ROUNDS_OF_LARGER):
        for places, margin in parts.items():
            lacking = (margin - sum_out(table, places, axes)) / np.maximum(sum_out(unsure, places, axes), LEAST)
            table = np.maximum(table + unsure * spread_out(lacking, places, axes), 0.0)
    table = np.maximum(table, LEAST) if possible is None else np.maximum(table, LEAST) * possible
    for _ in range(ROUNDS_OF_LARGER):
        for places, margin in parts.items():
            now = np.maximum(sum_out(table, places, axes), LEAST)
            table = table * spread_out(margin / now, places, axes)
    if possible is not None and table.sum() > 0:  # margins with noise may ask for rows where none can be
        table = table * (next(iter(parts.values())).sum() / table.sum())
    return table
