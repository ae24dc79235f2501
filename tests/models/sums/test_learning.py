"""What is learned of averages is what they were made of, and what was expected where nothing was seen."""

from __future__ import annotations

import numpy as np

from sfumato.models.sums.posterior import ANYWHERE, Seen, Table, expected, learned

SIDES = (20, 40)
TABLES = [Table(SIDES, (1, 1)), Table(SIDES, (20, 1)), Table(SIDES, (1, 40)), Table(SIDES, SIDES)]


def test_variances_are_found_from_noisy_cells_and_nothing_below_zero():
    """20 effects have a variance of 0.04, within a factor of 4 but for a chance far below 1e-6 (chi-square, 19)."""
    stream = np.random.default_rng(1)
    counts = np.full(800, 50.0)
    effects = 0.2 * stream.normal(size=20)
    sums = counts * effects[TABLES[1].labels()] + stream.normal(size=800) * np.sqrt(0.1 * counts)
    seen = Seen(TABLES[-1], sums + 4.0 * stream.normal(size=800), 16.0)
    found = learned(counts, expected(TABLES, 1.0), [seen])
    between = dict(zip(found.tables, found.between, strict=True))
    assert 0.01 < between[TABLES[1]] < 0.16 and between.get(TABLES[2], 0.0) < 0.002 and found.inside < 0.01
    assert 0.0 <= found.rows <= ANYWHERE


def test_nothing_seen_is_nothing_learned():
    before = expected(TABLES, 2.0)
    assert learned(np.zeros(800), before, []) is before
    assert learned(np.ones(800), before, [Seen(TABLES[0], np.zeros(1), 1.0)]) is before
    assert sum(before.between[1:]) + before.inside < ANYWHERE and before.besides == 2.0 * ANYWHERE
