"""What guaranteed ends of margins are found from: which tables were decided upon together, and misfits."""

from __future__ import annotations

import numpy as np
import pytest
from sure_coverage import SURVEY, content_of, dependent

from sfumato.kernel.budget import Budget
from sfumato.measurement import Laplace
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release

KINDS = {name: np.arange(2) for name in "acg"}


def test_misfits_are_those_of_the_guesses_that_a_file_keeps(tmp_path):
    """Each of three is within what its noise reaches but once in ten million times."""
    content = content_of("margins", "dependent")
    Release(content, "margins", describe_guarantee(Budget.pure(1), SURVEY), True).save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    found = [each.sure(KINDS).boxes_of("count").misfits for each in (content, opened.content)]
    assert [*found[0]] == [*found[1]] == [(0, 2), (0, 6), (2, 6)]
    for pair, (misfit, noise, guess) in found[1].items():
        counts = dependent().sum(axis=tuple(axis for axis in range(7) if axis not in pair))
        assert isinstance(noise, Laplace)
        assert abs(misfit - np.abs(counts - guess).sum()) < 17.0 * float(noise.scale)
        assert np.array_equal(guess, found[0][pair][2])


@pytest.mark.parametrize(("mechanism", "rounds"), [("margins", True), ("bayes", False)])
def test_tables_are_pooled_where_no_noise_of_one_decides_upon_another(mechanism, rounds):
    boxes = content_of(mechanism, "dependent").sure(KINDS).boxes_of("count")
    assert (boxes is not None) == rounds
    if rounds:
        assert [places for places, _ in boxes.first] == [(place,) for place in range(7)]
        assert boxes.tables
