"""Rows in short words: what the words are about, and what is gathered from them, against plain counting."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from placed_rows import boxes, rows_of

from sfumato.errors import QueryError
from sfumato.kernel.counts import LONGEST_WORD, words_of


@given(st.lists(st.integers(1, 300) | st.integers(1, 2**20), min_size=1, max_size=40))
def test_words_are_short_runs_of_all_attributes(sizes):
    runs = words_of(boxes(sizes))
    assert [place for run in runs for place in run] == list(range(len(sizes)))
    for run in runs:
        assert len(run) == 1 or np.prod([sizes[place] for place in run], dtype=object) <= LONGEST_WORD


@given(st.lists(st.integers(1, 400), min_size=1, max_size=7), st.integers(0, 40), st.integers(0, 2**32))
def test_codes_and_cells_are_those_of_the_rows(sizes, count, seed):
    domain, random = boxes(sizes), np.random.default_rng(seed)
    codes = random.integers(0, sizes, (count, len(sizes)))
    codes = codes[random.integers(0, max(count // 2, 1), count)] if count else codes  # some rows are equal
    steps = random.integers(-9, 10, count)
    rows = rows_of(domain, codes, {"m": steps})
    for place, name in enumerate(domain.names):
        assert rows.codes(name, slice(0, count)).tolist() == codes[:, place].tolist()
        assert rows.codes(name, slice(1, 3)).tolist() == codes[1:3, place].tolist()
    cells = [int(np.ravel_multi_index(row, sizes)) for row in codes.tolist()]
    sums: Counter = Counter()
    for cell, step in zip(cells, steps.tolist(), strict=True):
        sums[cell] += step
    there = sorted(set(cells))
    for found in (rows.gathered, rows_of(domain, codes).gathered):
        assert found.cells.tolist() == there
        assert found.counts.tolist() == [Counter(cells)[cell] for cell in there]
    assert rows.gathered.sums["m"].tolist() == [sums[cell] for cell in there]


def test_cells_that_have_no_number_are_not_gathered():
    rows = rows_of(boxes([10] * 100), np.ones((5, 100), dtype=int))
    assert len(rows.words) == 25 and len(rows) == 5
    with pytest.raises(QueryError, match=r"span 1e\+100 cells, more than the 2\^62 that can be numbered"):
        _ = rows.gathered


def test_rows_do_not_show_in_a_repr():
    assert "7" not in repr(rows_of(boxes([8, 9]), np.array([[7, 7]]))).split(" at ")[0]
