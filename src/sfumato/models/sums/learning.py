"""How far averages differ, learned from noisy sums: the squares of what regions are off the mean by, less their noise.

A region's sum, less its count times the mean average, has a variance that is linear in what is to be learned: for each
table of effects the squared counts that the region has in common with its regions, and so on. Every measured table says
this of itself and of all tables that it lies inside; non-negative least squares, weighed by how surely each square is
known, finds the variances. Each is besides told once, as surely as a single region would, what to expect of values that
could lie anywhere between their bounds, so that what nothing was measured about is taken to be as it might well be.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.sums.posterior import Effects, Seen
from sfumato.models.sums.tables import Table, crossed, gathered

ANYWHERE = 1 / 3  # the variance of a value that lies anywhere between -1 and 1 with the same chance
ROUNDS = 4  # of weighing squares by what the last round found


def expected(tables: Sequence[Table], besides: float) -> Effects:
    """Before anything is known: the variance of a value is anything's, in even shares; the total's effect has it all.

    tables: the total, others, and that of cells.
    """
    share = ANYWHERE / len(tables)  # the tables but the total, and the rows of a cell
    between = (ANYWHERE, *[share] * (len(tables) - 2))
    return Effects(tuple(tables[:-1]), between, share, ANYWHERE, besides * ANYWHERE)


def learned(counts: Floats, before: Effects, seen: Sequence[Seen]) -> Effects:
    """What measured tables say of the variances of effects."""
    rows = float(counts.sum())
    if rows <= 0.0:
        return before
    mean = _mean(seen, rows)
    labels = [table.labels() for table in before.tables]
    said = [
        _said(_Region(labels[place], table), counts, before, labels, one, mean)
        for one in seen
        for place, table in enumerate(before.tables)
        if place and one.table.within(table)
    ]
    said += [_of_cells(counts, len(labels), one, mean) for one in seen if one.table.parts == one.table.sides]
    if not said:
        return before
    features, squares, noises = (np.concatenate(part) for part in zip(*said, strict=True))
    guess = np.array([*before.between[1:], before.inside, before.rows, before.besides])
    found, doubt = guess, np.zeros((len(guess),) * 2)
    for _ in range(ROUNDS):
        found, doubt = _weighed(features, squares, noises, found, guess)
    own = np.array([float(np.square(counts).mean()), float(counts.mean()), 1.0])
    doubtful = found[-2] + sqrt(max(float(own @ doubt[-3:, -3:] @ own), 0.0)) / own[1]
    found[-2] = max(found[-2], min(doubtful, ANYWHERE))  # or cells would seem surer than they are
    # Of cells that seem to hold no row, no more is known to be nothing than so many of them can tell.
    found[-1] = max(found[-1], min(found[-1] + sqrt(max(float(doubt[-1, -1]), 0.0)), before.besides))
    between = (before.between[0], *found[:-3].tolist())
    kept = [pair for pair in zip(before.tables, between, strict=True) if pair[1] > 0.0]
    return Effects(tuple(one for one, _ in kept), tuple(each for _, each in kept), *map(float, found[-3:]))


@dataclass(frozen=True, eq=False)
class _Region:
    label: Codes
    table: Table


def _mean(seen: Sequence[Seen], rows: float) -> float:
    precision = [1.0 / (one.variance * one.table.size) for one in seen]
    total = sum(float(one.answers.sum()) * each for one, each in zip(seen, precision, strict=True))
    return float(np.clip(total / (sum(precision) * rows), -1.0, 1.0))


def _said(
    to: _Region, counts: Floats, effects: Effects, labels: Sequence[Codes], seen: Seen, mean: float
) -> tuple[Floats, Floats, Floats]:
    """What a measured table says of a table that it lies inside: features, squares less noise, the noise."""
    size = to.table.size
    first = np.full(seen.table.size, -1)
    own = seen.table.labels() if seen.table.parts != seen.table.sides else np.arange(len(counts))
    first[own] = to.label
    answers = gathered(first, seen.answers, size)
    noise = np.asarray(seen.variance * np.bincount(first, minlength=size), dtype=np.float64)
    in_region = gathered(to.label, counts, size)
    shared = [
        np.square(crossed(to.label, label, counts, (size, table.size))).sum(axis=1)
        for label, table in zip(labels[1:], effects.tables[1:], strict=True)
    ]
    squares = gathered(to.label, counts**2, size)
    cells = np.bincount(to.label, minlength=size).astype(np.float64)
    features = np.stack([*shared, squares, in_region, cells], axis=1)
    return features, np.square(answers - mean * in_region) - noise, noise


def _of_cells(counts: Floats, tables: int, seen: Seen, mean: float) -> tuple[Floats, Floats, Floats]:
    features = np.stack([counts**2] * tables + [counts, np.ones_like(counts)], axis=1)
    noise = np.full(len(counts), seen.variance)
    return features, np.square(seen.answers - mean * counts) - noise, noise


def _weighed(features: Floats, squares: Floats, noises: Floats, found: Floats, guess: Floats) -> tuple[Floats, Floats]:
    """One round, each square weighed by one over its variance, twice the square of what is expected of it.

    Also the covariance of what is found, as if none of it had to be kept from falling below zero.
    """
    from scipy.optimize import nnls

    weights = 1.0 / (features @ found + noises)
    scaled = features * weights[:, None] * guess  # in parts of what was expected, of which 1 is told once
    gram = scaled.T @ scaled + np.eye(len(guess))
    root = np.linalg.cholesky(gram)
    answer, _ = nnls(root.T, np.linalg.solve(root, scaled.T @ (squares * weights) + 1.0))
    return np.asarray(answer * guess), 2.0 * np.linalg.inv(gram) * np.outer(guess, guess)
