from __future__ import annotations

import numpy as np
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.releases.rows.write import Tally


def test_what_chance_would_do_is_what_it_does(census):
    """Rows that are drawn one by one from a table of 200 even cells: mean and largest difference are as foretold."""
    content = MECHANISMS["cells"].run(curator_of(census, np.full(200, 50), epsilon=10**6), census, Budget.pure(10**6))
    at, tally = np.random.default_rng(1), Tally.over(census.domain)
    for _ in range(4):
        cells = at.integers(0, 200, 5000)
        tally.add({name: census.domain.codes_along(name, cells) for name in census.domain.names})
    assert tally.rows == 20_000
    one, two = tally.compare(content.row_model)
    assert (one.of, one.tables, one.groups) == ("one attribute", 2, 34)  # 100 ages in 32 ranges, and two sexes
    assert (two.of, two.tables, two.groups) == ("two attributes", 1, 64)
    for found in (one, two):
        assert 0.5 < found.mean / found.mean_by_chance < 1.6
        assert 0.4 < found.largest / found.largest_by_chance < 2


def test_a_difference_is_seen(census):
    content = MECHANISMS["cells"].run(curator_of(census, np.full(200, 50), epsilon=10**6), census, Budget.pure(10**6))
    tally = Tally.over(census.domain)
    tally.add({"age": np.arange(1000) % 100, "sex": np.zeros(1000, dtype=np.int64)})
    one, two = tally.compare(content.row_model)
    assert one.largest == 0.5 and one.largest > 5 * one.largest_by_chance and two.largest > two.largest_by_chance


def test_rows_that_no_cell_holds_count_as_rows(census):
    tally = Tally.over(census.domain)
    tally.add({"age": np.array([-1, 0, 1, 99]), "sex": np.array([0, -1, 1, 1])})
    assert tally.rows == 4 and [int(counts.sum()) for counts in tally.counts] == [3, 3, 2]
