"""Naive Bayes from noisy counts by class and one attribute: the class under which a row's values are likeliest.

Noise makes small counts meaningless, and a ratio of two of them a wild witness. So the shares within a class are drawn
towards those of all rows, by as many rows as the noise of a cell amounts to: where there is nothing but noise an
attribute says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.inference.classifiers.additive import Additive

UNITS = 1024  # of a score, in a nat
TOWARDS_ALL = 1.0  # standard errors of noise, for each value, by which shares are drawn towards those of all rows
ODDS = (1.5, 3.0, 9.0)  # of the best class against the next, between which predictions are told apart


def naive_bayes(tables: Sequence[Floats], errors: Sequence[float]) -> Additive:
    """tables: for each attribute, noisy counts by value (rows) and class. errors: of one cell of each table."""
    classes = class_counts(tables, errors)
    found = [_scores(table, error) for table, error in zip(tables, errors, strict=True)]
    base = np.log(classes / classes.sum())
    return Additive(tuple(map(_whole, found)), _whole(base), tuple(round(UNITS * log(odds)) for odds in ODDS))


def class_counts(tables: Sequence[Floats], errors: Sequence[float]) -> Floats:
    """The rows of each class, from all tables, each of which tells them as well as its noise allows; at least one."""
    trust = np.array([1.0 / (len(table) * error**2) for table, error in zip(tables, errors, strict=True)])
    sums = np.array([table.sum(axis=0) for table in tables])
    return np.asarray(np.maximum(trust @ sums / trust.sum(), 1.0))


def posterior(scores: Whole) -> Floats:
    """The probability of each class, if attributes were independent within classes."""
    lifted = np.exp((scores - scores.max(axis=1, keepdims=True)) / UNITS)
    return np.asarray(lifted / lifted.sum(axis=1, keepdims=True))


def _scores(table: Floats, error: float) -> Floats:
    counts, towards = np.maximum(table, 0.0), TOWARDS_ALL * error * len(table)
    every = counts.sum(axis=1) + error + 1.0
    share = every / every.sum()
    within = (counts + (towards + 1.0) * share[:, None]) / (counts.sum(axis=0) + towards + 1.0)
    return np.asarray(np.log(within))


def _whole(scores: Floats) -> Whole:
    return np.rint(UNITS * scores).astype(np.int64)
