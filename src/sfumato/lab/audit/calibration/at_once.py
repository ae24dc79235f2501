"""All groups of one answer at once, which show in few releases that bounds are not as sure as they say.

Where an interval is the tightest of several bounds and the confidence was not split over them, every question misses
somewhat too often, and no single one by much. So the share of the intervals of a GROUP BY that hold is looked at: if
each holds with the confidence it promises, so does the mean share, however groups hang together; releases are
independent. Whoever bets that it is less wins nothing on average (betting.py). By which attributes and with which
confidence groups are asked for is settled on other releases, those that would have won most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from sfumato.frozen import dataclass
from sfumato.lab.audit.calibration.betting import evidence_below

CONFIDENCES = 0.6, 0.8, 0.9, 0.95

By = tuple[int, ...]  # places of attributes
Shares = Callable[[Sequence[tuple[By, float]]], list[float]]  # of one release: how many intervals of each answer hold


@dataclass(frozen=True)
class AtOnce:
    """What a bet came to. held: the mean share. evidence: the logarithm of the money won."""

    by: By
    confidence: float
    releases: int
    held: float
    evidence: float


def bet_at_once(shares: Shares, axes: int, pilot: int, releases: int) -> AtOnce:
    """Choose groups and a confidence by some releases, and bet on others."""
    every = tuple(range(axes))
    groups = list(dict.fromkeys([every, *((axis,) for axis in every), every[:2]]))
    choices = list(product(groups, CONFIDENCES))
    seen = np.array([shares(choices) for _ in range(pilot)])
    won = [float(evidence_below(seen[:, place], confidence)) for place, (_, confidence) in enumerate(choices)]
    by, confidence = choices[int(np.argmax(won))]
    found = np.array([shares([(by, confidence)])[0] for _ in range(releases)])
    return AtOnce(by, confidence, releases, float(found.mean()), float(evidence_below(found, confidence)))
