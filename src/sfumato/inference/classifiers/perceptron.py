"""A perceptron over cells: rows that it gets wrong pull its weights towards them, and only sums of these are asked for.

Averaged over the later half of the rounds (after Freund, Schapire 1999): the first are about which class is the more
common, and on tables with a rare class they would drown the rest. All numbers are whole: the label depends on no common
factor of weights, so that sums are added up as they come and nothing is divided by the number of rows: it is private.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.domain import Axis
from sfumato.inference.classifiers.additive import Additive

UNITS = 8  # the largest size of a coordinate
GAPS = (1 / 16, 1 / 8, 1 / 4)  # of the largest gap there can be, between which predictions are told apart


def coordinates(axis: Axis) -> Whole:
    """What every cell of an attribute is to a perceptron: a number where it is ordered, one mark among many where not.

    Either way one row adds no more than `UNITS` in all.
    """
    if not axis.ordered:
        return UNITS * np.eye(axis.size, dtype=np.int64)
    middles = (2 * np.arange(axis.size) + 1) / axis.places - 1.0
    placed = np.rint(UNITS * middles).astype(np.int64)
    placed[axis.places :] = 0  # rows without a value lie nowhere
    return placed[:, None]


def vectors(classes: int) -> int:
    """How many weight vectors there are: two classes need one, which parts them."""
    return 1 if classes == 2 else classes


def pulls(weights: Whole, points: Whole, truth: Codes, classes: int) -> Whole:
    """For each cell, what its rows add to all weights: nothing where the label is right.

    weights: a row for each vector. points: the coordinates of each cell, the last of which is the same for all.
    """
    scores = points @ weights.T
    if classes == 2:
        sign = 2 * truth - 1
        wrong = sign * scores[:, 0] <= 0
        return np.asarray((sign * wrong)[:, None] * points)
    own = scores[np.arange(len(truth)), truth]
    others = scores.copy()
    others[np.arange(len(truth)), truth] = np.iinfo(np.int64).min
    rival = others.argmax(axis=1)
    wrong = (own <= others.max(axis=1)).astype(np.int64)
    sides = np.zeros((len(truth), classes), dtype=np.int64)
    sides[np.arange(len(truth)), truth] += wrong
    sides[np.arange(len(truth)), rival] -= wrong
    return np.asarray((sides[:, :, None] * points[:, None, :]).reshape(len(truth), -1))


def learnt(updates: Sequence[Whole], axes: Sequence[Axis], classes: int) -> Additive:
    """The classifier that noisy sums of pulls make, round by round: weights averaged over the later half."""
    width = sum(coordinates(axis).shape[1] for axis in axes) + 1
    weights = np.zeros((vectors(classes), width), dtype=np.int64)
    total = weights.copy()
    for number, update in enumerate(updates, 1):
        weights = weights + update.reshape(weights.shape)
        total = total + (weights if number > len(updates) // 2 else 0)
    by_class = np.vstack([np.zeros_like(total), total]) if classes == 2 else total
    tables, start = [], 0
    for axis in axes:
        points = coordinates(axis)
        tables.append(points @ by_class[:, start : start + points.shape[1]].T)
        start += points.shape[1]
    base = UNITS * by_class[:, -1]
    most = sum(int(np.ptp(table - table[:, :1], axis=0).max()) for table in tables) + int(np.ptp(base))
    return Additive(tuple(tables), base, tuple(int(gap * most) for gap in GAPS))


def latest(updates: Sequence[Whole], width: int, classes: int) -> Whole:
    """The weights after some rounds, not averaged: those that the next round starts from."""
    found = np.zeros((vectors(classes), width), dtype=np.int64)
    for update in updates:
        found = found + update.reshape(found.shape)
    return found


def points_of(axes: Sequence[Axis], codes: Sequence[Codes]) -> Whole:
    """The coordinates of cells; a last one for all alike."""
    parts = [coordinates(axis)[along] for axis, along in zip(axes, codes, strict=True)]
    return np.hstack([*parts, np.full((len(codes[0]), 1), UNITS, dtype=np.int64)])
