"""The search for the question whose intervals hold least often, on sound intervals and on ones of half the width."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from sfumato.answers.results import Estimate
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.lab.audit.calibration.tables import SMALL, small_cases
from sfumato.lab.audit.calibration.worst_question import (
    AT_ONCE,
    FALSE_ALARM,
    FLOOR,
    KINDS,
    TOP,
    Ground,
    Search,
    WorstQuestion,
    worst_questions,
)

SHORT = Search(questions=26, sets=1, pilot=3, worst=2, confirmations=14)
NOT_SELECTED = [kind for kind in KINDS if kind != TOP]  # the largest groups were chosen by their noise


@pytest.fixture(scope="module")
def smooth() -> Ground:
    """The rows of a case whose counts and sums are known: 20,000 of them in 100 cells."""
    x, g = np.divmod(np.repeat(np.arange(100), small_cases()[0].counts.reshape(-1)), 2)
    return Ground(SMALL, pa.table({"x": x, "g": np.array(["a", "b"])[g], "m": 50.0 + 20 * g - x % 7}))


def cells(epsilon: Fraction = Fraction(1, 2)):
    """Releases with noise of their own."""
    case, number = small_cases()[0], count(70)
    return lambda: release_of("cells", (case.counts, case.sums), epsilon, TestingEntropy(next(number)), SMALL)


class Halved:
    """NOT CALIBRATED: the intervals of a release, half as wide as they should be."""

    def __init__(self, release):
        self.release = release

    def query(self, sql, **how):
        result = self.release.query(sql, **how)
        return replace(result, rows=tuple(tuple(map(halved, row)) for row in result.rows))


def halved(cell):
    if not isinstance(cell, Estimate):
        return cell
    return replace(cell, low=(cell.low + cell.value) / 2, high=(cell.high + cell.value) / 2)


def test_sound_intervals_are_not_called_broken(smooth):
    """14 new releases, 2 questions each; where all hold 85 %, a false alarm has a chance of 1e-6 (Markov)."""
    found = worst_questions(smooth, cells(), SHORT, kinds=NOT_SELECTED)
    assert len(found) == 2 and not any(one.broken for one in found)
    assert all(len(one.shares) == 14 and one.alpha == FALSE_ALARM / 2 for one in found)


def test_intervals_of_half_the_width_are_found(smooth):
    """The same search: 50 groups at once then hold in next to no release."""
    make = cells()
    found = worst_questions(smooth, lambda: Halved(make()), SHORT, kinds=NOT_SELECTED)
    assert found[0].broken and found[0].kind == AT_ONCE and found[0].held < 0.2
    assert "BROKEN: held" in str(found[0]) and 'GROUP BY "x"' in str(found[0])


def test_single_questions_of_half_the_width_are_found(smooth):
    """Two groups that hold two thirds of the time: 200 new releases."""
    make, single = cells(), Search(questions=3, sets=1, pilot=2, worst=1, confirmations=200)
    (worst,) = worst_questions(smooth, lambda: Halved(make()), single, kinds=["groups in a range"])
    assert worst.broken and 0.5 < worst.held < FLOOR


def test_what_was_worst_is_judged_by_new_releases_alone(smooth):
    """A search of so many releases makes as many again, and the figure is of these."""
    made, make = [], cells()

    def release():
        made.append(make())
        return made[-1] if len(made) > SHORT.pilot else Halved(made[-1])

    found = worst_questions(smooth, release, SHORT, kinds=NOT_SELECTED)
    assert len(made) == SHORT.pilot + SHORT.confirmations
    assert found[0].pilot < FLOOR and not any(one.broken for one in found)


def test_bounds_hold_the_share_and_few_releases_prove_nothing():
    few, many = (WorstQuestion("share", "SELECT", 0.5, np.full(n, 0.7), 1e-6) for n in (3, 200))
    assert few.between[0] < 0.7 < few.between[1] and not few.broken
    assert many.between[1] < FLOOR and many.broken
