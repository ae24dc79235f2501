"""Guaranteed ends of sums: they hold on tables that averages do not fit at all."""

from __future__ import annotations

import numpy as np
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.models.tree.measure import sfumato
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "g": {"type": "category", "values": ["a", "b", "c"]},
            "x": {"type": "integer", "lower": 0, "upper": 19},
        },
        "measures": {"m": {"lower": -10, "upper": 10, "step": 1, "missing": "drop"}},
    }
)
BUDGET = Budget.pure(1)
QUESTIONS = "SELECT SUM(m), AVG(m) FROM t WHERE {}"


def test_ends_hold_where_one_cell_has_everything_there_is():
    """A question missed by 7 of 8 releases or more has a chance below 1e-8 at 95 %, any of 8 one below 1e-7."""
    counts, sums = np.zeros((3, 20), dtype=np.int64), np.zeros((3, 20), dtype=np.int64)
    counts[1], sums[1] = 40, np.where(np.arange(20) % 2, 400, -400)
    counts[2, 7], sums[2, 7] = 3000, -30000
    masks = {"g = 'b'": np.s_[1], "x < 8": np.s_[:, :8], "g = 'c' AND x = 7": np.s_[2, 7]}
    masks |= {"g = 'b' AND x = 4": np.s_[1, 4]}
    missed, narrow = np.zeros((4, 2)), 0
    for _ in range(8):
        curator = curator_of(SCHEMA, counts, epsilon=1, sums={"m": sums.reshape(-1)})
        release = Release(sfumato(curator, SCHEMA, BUDGET), "sfumato", describe_guarantee(BUDGET, SCHEMA), False)
        for place, (text, mask) in enumerate(masks.items()):
            ((total, average),) = release.query(QUESTIONS.format(text), interval="guaranteed").rows
            true = sums[mask].sum(), sums[mask].sum() / counts[mask].sum()
            missed[place] += [not one.low <= each <= one.high for one, each in zip((total, average), true, strict=True)]
            narrow += total.high - total.low < 10 * counts[mask].sum()
    assert missed.max() < 7 and narrow >= 8  # the bounds alone would make none of them so narrow
