"""Margins against plain counting, row by row: from cells and from rows, whatever is counted together or kept."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placed_rows import boxes, rows_of

from sfumato.errors import QueryError
from sfumato.kernel import counts as margin_counts
from sfumato.kernel.counts import Aggregate, MarginCounts


def slowly(codes, values, domain, names) -> list[int]:
    """The sum of the values in every cell of a margin, one row at a time, in Python's own numbers modulo 2^64."""
    places = [domain.place(name) for name in domain.along(names).names]
    total: Counter = Counter()
    for row, value in zip(codes.tolist(), values, strict=True):
        total[tuple(row[place] for place in places)] += int(value)
    every = np.ndindex(*(domain.shape[place] for place in places))
    return [(total[cell] + 2**63) % 2**64 - 2**63 for cell in every]


def dense(aggregate: Aggregate, size: int, of: str) -> list[int]:
    vector = np.zeros(size, dtype=np.int64)
    vector[aggregate.cells] = aggregate.of(of)
    return vector.tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(0, 30),
    st.sampled_from([3, 2**40, 2**62]),
    st.sampled_from([4, 2**16]),
    st.integers(0, 2**32),
)
def test_margins_are_those_of_the_rows(sizes, count, largest, block, seed):
    domain, random = boxes(sizes), np.random.default_rng(seed)
    codes = random.integers(0, sizes, (count, len(sizes)))
    steps = random.integers(-largest, largest + 1, count)
    rows = rows_of(domain, codes, {"m": steps})
    held = rows.gathered
    sets = [names for k in range(len(sizes) + 1) for names in combinations(domain.names, k)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margin_counts, "BLOCK", block)
        patch.setattr(margin_counts, "MOST_AT_ONCE", 10 * block)
        patch.setattr(margin_counts, "MOST_KEPT", int(random.integers(0, 200)))
        for source in (rows, held):
            margins = MarginCounts(domain, source)
            found = dict(margins.counts([margins.domain_along(names) for names in sets]))
            assert sorted(found) == list(range(len(sets)))
            for place, names in enumerate(sets):
                wanted = slowly(codes, [1] * count, domain, names)
                assert found[place].tolist() == wanted
                view, aggregate = margins.along(names[::-1])
                assert view == domain.along(names)
                assert dense(aggregate, view.size, "count") == wanted
                assert dense(aggregate, view.size, "m") == slowly(codes, steps, domain, names)
                assert list(aggregate.sums) == ["m"] and (aggregate.counts > 0).all()


def test_cells_with_more_rows_than_doubles_can_count():
    domain = boxes([2, 2])
    counts = np.array([2**62, 2**62 + 1, 2**61, 1])
    margins = MarginCounts(domain, Aggregate(np.arange(4), counts))
    ((_, found),) = margins.counts([margins.domain_along(["a0"])])
    assert [int(each) % 2**64 for each in found] == [2**63 + 1, 2**61 + 1]


def test_counts_that_are_kept_cannot_be_changed():
    margins = MarginCounts(boxes([2, 3]), rows_of(boxes([2, 3]), np.array([[1, 2]])))
    domain = margins.domain_along(["a1"])
    ((_, found),) = margins.counts([domain])
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 5
    assert next(margins.counts([domain]))[1] is found  # from memory, the second time


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nobody"], "no attribute 'nobody'"),
        ("a0", r"takes a list of attributes; write \['a0'\]"),
        (["a0", "a1", "a2"], r"has 1e\+09 cells, and 33,554,432 can be held; take fewer attributes"),
    ],
)
def test_what_is_no_margin_is_refused(names, said):
    margins = MarginCounts(boxes([1000] * 4), rows_of(boxes([1000] * 4), np.ones((3, 4), dtype=int)))
    for ask in (margins.domain_along, margins.along):
        with pytest.raises(QueryError, match=said):
            ask(names)
    assert margins.domain_along(["a1", "a1"]).names == ("a1",)


def test_nothing_shows_in_a_repr():
    margins = MarginCounts(boxes([2]), rows_of(boxes([2]), np.array([[1]])))
    assert repr(margins).startswith("<sfumato.kernel.counts.MarginCounts object")
    assert repr(margins.along(["a0"])[1].sums).startswith("<sfumato.kernel.counts._SumsInCells object")
