"""Blocks, and what queries look like in terms of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain import Axis, Domain
from sfumato.lab.papers.mldp.training_queries import Blocks, along_runs


def grid(*sizes: int) -> Domain:
    return Domain(tuple(Axis(f"a{place}", "integer", np.arange(size + 1.0)) for place, size in enumerate(sizes)))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_blocks_hold_every_cell_once_and_are_no_more_than_wanted(sizes, number):
    blocks = Blocks.at_most(grid(*sizes), number)
    assert blocks.size <= number and blocks.partition.size == blocks.size
    assert len(np.unique(blocks.partition.labels)) == blocks.size
    other = blocks.uneven(number)
    assert other.size <= number and len(np.unique(other.partition.labels)) == other.size


def test_a_query_becomes_shares_ends_and_volume():
    blocks = Blocks.at_most(grid(8), 4)
    first_three = (np.arange(8) < 3).astype(float)
    assert blocks.of_boxes([[first_three]]).tolist() == [1.0, 0.5, 0.0, 0.0, 0.0, 3 / 8, 3 / 8]
    assert blocks.of_boxes([]).tolist() == [0.0] * 4 + [1.0, 0.0, 0.0]
    assert blocks.features == 7


@given(st.integers(0, 2**12 - 1))
@settings(max_examples=50, deadline=None)
def test_sets_of_blocks_and_boxes_of_them_agree(bits):
    blocks = Blocks.at_most(grid(8, 6), 12)
    mask = np.array([bits >> place & 1 for place in range(12)], dtype=float)
    places = [np.unravel_index(place, blocks.shape) for place in np.flatnonzero(mask)]
    boxes = [along_runs(blocks, place, place) for place in places]
    assert np.allclose(blocks.of_sets(mask[None, :])[0], blocks.of_boxes(boxes))
