"""The survey again: every claim beside ours, quickly."""

from __future__ import annotations

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.reproduce.studies import survey as study


def test_every_exhibit_has_its_figures():
    exhibits = {one.title: one for one in study(TestingEntropy(3), lambda *_: None, quick=True).exhibits}
    oracle = next(one for title, one in exhibits.items() if title.startswith("Rows for k answers"))
    # At the survey's rows answers miss with probability 0.05 at most; 400 runs, 5 deviations of 0.011 (1e-6).
    assert all(float(row[4]) < 0.105 for row in oracle.rows) and oracle.rows[0][2] == "5,299"
    learners = next(one for title, one in exhibits.items() if "labelled rightly" in title)
    assert float(learners.rows[0][2]) > 0.87 and float(learners.rows[2][3]) > 0.87
    theorem = next(one for title, one in exhibits.items() if title.startswith("Dimensions"))
    assert theorem.rows[1][1] == "18,528" and theorem.rows[1][3] == "1.00"
    lines = next(one for title, one in exhibits.items() if title.startswith("Mean error"))
    projected, plain = (float(row[1].replace(",", "")) for row in lines.rows)
    assert plain < projected
