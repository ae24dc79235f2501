"""Independent noises side by side: what the answers of all groups with the same noises are worked out from.

A GROUP BY asks hundreds of questions of the same noises, each with weights of its own; a sum over thousands of cells
has thousands of them. As arrays they are weighed together, and what does not hang on the question is found once.

What was assumed is taken as normal, as its variance is known on average over many cells. Of one cell it is not, and the
largest of many errors is where it is largest: a normal error whose variance has an inverse gamma law is Student's. Of
whole degrees of freedom three are the fewest that leave it the variance that was measured, so far out that is the law.
How far noise and model reach is then added in squares, which is exact for normal errors and too much for long tails
(public/comparison/difference.py).

The noises in an answer from a fitted cube, group by group.

A fit says with which weight every measured noise enters a weighted sum of cells. Rows with the same weights are counted
together; of very many the weightiest stay as they are and the others, each of them small, are taken together as one
normal distribution with their covariance, which moves the end of a 95 % interval by less than 0.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fit import Errors, Fit
from sfumato.answers.intervals.fieller import Term
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.least_squares.classes import told_apart
from sfumato.measurement import Gaussian, Noise

NUMBERS_AT_ONCE = 2**24  # weights of cells that are laid out at a time
SUMS_AT_ONCE = 240
ALONE = 24  # measured rows that keep their own distribution
MANY = 2**16  # rows from which those of a small share are not looked at one by one
SMALL = 2.0**-12  # of the variance
NEGLIGIBLE = 1e-12  # a share of the variance that changes no figure of any answer
SMOOTH = 2**10  # steps in a standard deviation of the lattice that stands for a normal distribution
NORMAL = Gaussian(Fraction(SMOOTH**2))


def spread_over(domain: Domain, names: Sequence[str], columns: Floats) -> Floats:
    """Weights on the cells of some axes, (cells of these axes, k), as weights on all cells of the domain."""
    places = sorted(domain.place(name) for name in names)
    shape = [domain.shape[place] if place in places else 1 for place in range(len(domain.shape))]
    wide = np.broadcast_to(columns.reshape([*shape, columns.shape[1]]), [*domain.shape, columns.shape[1]])
    return np.ascontiguousarray(wide).reshape(domain.size, columns.shape[1])


def at_once(cells: int) -> int:
    """How many sums are worked out at a time: the covariance of all of them is, and it takes their square."""
    return max(6, min(SUMS_AT_ONCE, NUMBERS_AT_ONCE // cells))


def noises_of(fits: Sequence[tuple[Fit, Floats]], order: Sequence[Sequence[int]]) -> list[tuple[Term, ...] | None]:
    """The noises of several answers; None where the measurements do not determine one.

    fits: each statistic's fit with weights on its cells, (cells, k). order: for every answer, the columns that are its
    value, low and high end, and those of its denominator if there is one.
    """
    found: list[list[Term]] = [[] for _ in order]
    unknown = [False] * len(order)
    for fit, columns in fits:
        if not columns.any():
            continue
        errors = fit.errors(columns)
        for place, chosen in enumerate(order):
            if errors.unknown[list(chosen)].any():
                unknown[place] = True
            else:
                found[place] += terms_of(errors, list(chosen))
    return [None if unknown[place] else tuple(terms) for place, terms in enumerate(found)]


def terms_of(errors: Errors, chosen: Sequence[int]) -> list[Term]:
    """The noises of one answer. chosen: the columns that are its value, low and high end, and its denominator's."""
    distinct, back = np.unique(chosen, return_inverse=True)
    weights = errors.weights[:, distinct]
    variances = errors.design.variances
    parts = variances[:, None] * weights**2
    whole = parts.sum(axis=0) if errors.counts is None else errors.counts @ parts
    shares = (parts / np.where(whole > 0, whole, 1.0)).max(axis=1)
    rows = np.flatnonzero(shares > NEGLIGIBLE)
    terms: list[Term] = []
    rest = np.zeros((len(distinct), len(distinct)))
    each = np.ones(len(shares), dtype=np.int64) if errors.counts is None else errors.counts
    if each[rows].sum() > MANY:
        # So many that sorting them would take longest of all. A sum of noises none of which has more than a small share
        # of the variance is normal but for a kurtosis of three times that share.
        tiny = rows[shares[rows] <= SMALL]
        rest, rows = _covariance(weights[tiny], variances[tiny] * each[tiny]), rows[shares[rows] > SMALL]
    kinds, counts = _alike(errors, weights[rows], rows, each[rows])
    if len(kinds) > ALONE:
        order = np.argsort(-shares[rows[kinds]] * counts)
        many = order[ALONE:]
        rest = rest + _covariance(weights[rows[kinds[many]]], variances[rows[kinds[many]]] * counts[many])
        kinds, counts = kinds[order[:ALONE]], counts[order[:ALONE]]
    for kind, count in zip(kinds, counts, strict=True):
        row = rows[kind]
        terms.append(Term.of(_noise(errors, int(row)), int(count), *weights[row][back].tolist()))
    model = errors.model[np.ix_(distinct, distinct)]
    return [*terms, *normal_terms(rest, back, model=False), *normal_terms(model, back, model=True)]


def _covariance(weights: Floats, variances: Floats) -> Floats:
    return np.asarray(weights.T @ (weights * variances[:, None]))


def _noise(errors: Errors, row: int) -> Noise:
    which = errors.design.which
    return errors.design.noises[0 if which is None else int(which[row])]


def _alike(errors: Errors, weights: Floats, rows: Codes, each: Codes) -> tuple[Codes, Codes]:
    """An example of each kind of row, same noise and same weights to ten digits, and how many there are of each."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    which = np.zeros(len(rows)) if errors.design.which is None else errors.design.which[rows].astype(np.float64)
    scale = np.abs(weights).max(axis=0)
    rounded = np.rint(weights / np.where(scale > 0, scale, 1.0) * 1e10)
    key = np.column_stack([which, rounded])
    kind = told_apart(key)
    return np.unique(kind, return_index=True)[1], np.bincount(kind, each).astype(np.int64)


def normal_terms(covariance: Floats, back: NDArray[np.int64], *, model: bool) -> list[Term]:
    """Independent normal terms that have this covariance."""
    if not covariance.any():
        return []
    if len(covariance) == 1:
        factor = np.sqrt(np.maximum(covariance[0], 0.0)) / SMOOTH
        return [replace(Term.of(NORMAL, 1, *factor[back].tolist()), model=model)]
    values, vectors = np.linalg.eigh(covariance)
    kept = np.flatnonzero(values > NEGLIGIBLE * max(values.max(), 0.0))
    factors = vectors[:, kept] * np.sqrt(values[kept]) / SMOOTH
    return [replace(Term.of(NORMAL, 1, *factor[back].tolist()), model=model) for factor in factors.T]


def terms_in_tails(terms: Sequence[Term], drawn: tuple[Noise, int] | None) -> tuple[Term, ...]:
    """The same errors, each of its variance, by laws that hold far out, where the largest of many errors lies.

    What is assumed is marked, and has Student's law there (noises.py). drawn: a noise and how many of it, the sum of
    which has the longest tail of those that are taken as normal; None where every noise has its own law.
    """
    return tuple(_in_tail(term, drawn) for term in terms)


def _in_tail(term: Term, drawn: tuple[Noise, int] | None) -> Term:
    if term.model:
        return replace(term, far=True)
    if drawn is None or term.noise != NORMAL:
        return term
    noise, many = drawn
    size = float(np.sqrt(NORMAL.variance * term.multiplicity / (noise.variance * many)))
    return Term.of(noise, many, *(size * weight for weight in term.weights))
