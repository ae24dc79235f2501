"""Bets on all groups of an answer at once, on shares that are made up."""

from __future__ import annotations

from math import log

import numpy as np

from sfumato.lab.audit.calibration.calibrate import bet_at_once


def shares(rng: np.random.Generator, holding):
    """Releases of 32 groups each, which hold independently with a chance that hangs on the confidence."""

    def of_one(asked):
        return [float((rng.random(32) < holding(confidence)).mean()) for _, confidence in asked]

    return of_one


def test_what_holds_too_seldom_at_one_confidence_is_found():
    """Right but at 90 %, where 70 % hold: 20 releases win a millionfold, by what 6 others chose."""
    found = bet_at_once(shares(np.random.default_rng(1), lambda c: 0.7 if c == 0.9 else c), 2, 6, 20)
    assert found.confidence == 0.9 and found.releases == 20 and 0.6 < found.held < 0.8
    assert found.evidence > log(1e6)


def test_what_holds_wins_nothing():
    """In 200 bets on what is promised, none wins a thousandfold; one in 5 of such runs may by Markov's bound."""
    rng = np.random.default_rng(2)
    assert max(bet_at_once(shares(rng, lambda c: c), 1, 2, 20).evidence for _ in range(200)) < log(1e3)
