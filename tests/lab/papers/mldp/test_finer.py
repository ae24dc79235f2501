"""Blocks are cut where rows are, and never beyond single cells or the number that is allowed."""

from __future__ import annotations

import numpy as np

from sfumato.domain import Axis, Domain
from sfumato.lab.papers.mldp.error_bars import finer
from sfumato.lab.papers.mldp.training_queries import Blocks


def domain(*sizes: int) -> Domain:
    return Domain(tuple(Axis(f"a{place}", "integer", np.arange(size + 1.0)) for place, size in enumerate(sizes)))


def test_a_full_block_is_cut_down_to_its_cells_before_an_empty_one_is_touched():
    blocks = Blocks.at_most(domain(64), 8)
    found = finer(blocks, np.array([0, 0, 5000, 0, 0, 0, 3, -7]), 15)
    assert found.starts == ((0, 8, *range(16, 24), 24, 32, 40, 48, 56),)


def test_there_are_as_many_blocks_as_allowed_or_as_there_are_cells():
    empty = np.zeros(4, dtype=np.int64)
    assert finer(Blocks.at_most(domain(64), 4), empty, 11).size == 11
    assert finer(Blocks.at_most(domain(9), 4), np.zeros(3, dtype=np.int64), 50).size == 9
    even = finer(Blocks.at_most(domain(64), 4), empty, 8)
    assert even.starts == (tuple(range(0, 64, 8)),)  # where nothing is known the longest is cut


def test_along_several_axes_the_fullest_slab_is_cut():
    blocks = Blocks.at_most(domain(16, 16), 16)
    noisy = np.zeros((4, 4), dtype=np.int64)
    noisy[2] = 100
    found = finer(blocks, noisy.reshape(-1), 20)
    assert found.starts == ((0, 4, 8, 10, 12), (0, 4, 8, 12))
    assert found.size <= 20
