"""Trees over the cells of a domain: every level a partition, halves that nest, slices that cover the same values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain import Axis, Domain
from sfumato.domain.binary_tree import BinaryTree, nodes_over

KINDS = ("integer", "category")


def domain_of(*sides: tuple[int, str]) -> Domain:
    axes = (Axis(f"a{place}", kind, np.arange(size + 1.0)) for place, (size, kind) in enumerate(sides))
    return Domain(tuple(axes))


some_domains = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(KINDS)), min_size=1, max_size=4).map(
    lambda sides: domain_of(*sides)
)


def boxes(domain: Domain, tree: BinaryTree, level: int) -> np.ndarray:
    """For every attribute and region the lowest and the highest value in it, (2, attributes, regions)."""
    values = np.array(np.unravel_index(tree.order, [axis.size for axis in domain]))
    begins = tree.begins[level][:-1]
    return np.stack([np.minimum.reduceat(values, begins, axis=1), np.maximum.reduceat(values, begins, axis=1)])


def cut_attribute(domain: Domain, tree: BinaryTree, level: int) -> int:
    """The one attribute of which regions of the next level cover fewer values."""
    before, after = boxes(domain, tree, level), boxes(domain, tree, level + 1)
    (cut,) = np.flatnonzero((before[..., tree.above(level + 1, np.arange(after.shape[2]))] != after).any(axis=(0, 2)))
    return int(cut)


@given(some_domains)
def test_every_level_partitions_the_cells_into_boxes_and_halves_nest(domain):
    tree = BinaryTree.over(domain)
    assert np.array_equal(np.sort(tree.order), np.arange(domain.size)) and tree.nodes(0) == 1
    assert tree.height == sum((axis.size - 1).bit_length() for axis in domain)
    for level, begins in enumerate(tree.begins):
        assert begins[0] == 0 and begins[-1] == domain.size and (np.diff(begins) > 0).all()
        lows, highs = boxes(domain, tree, level)
        assert np.array_equal(np.prod(highs - lows + 1, axis=0), np.diff(begins))
    assert (np.diff(tree.begins[-1]) == 1).all()
    for level in range(tree.height):
        first, second = tree.pair(level, np.arange(tree.nodes(level)))
        begins, ends, below = tree.begins[level][:-1], tree.begins[level][1:], tree.begins[level + 1]
        alone = second < 0
        assert np.array_equal(below[first], begins) and np.array_equal(below[first + 1][alone], ends[alone])
        assert np.array_equal(below[first + 1][~alone], below[second[~alone]])
        assert np.array_equal(below[second + 1][~alone], ends[~alone])


@given(some_domains)
def test_halves_are_as_even_as_can_be(domain):
    tree = BinaryTree.over(domain)
    for level in range(tree.height):
        lows, highs = boxes(domain, tree, level + 1)[:, cut_attribute(domain, tree, level)]
        assert np.ptp(highs - lows) <= 1


@given(some_domains)
def test_regions_of_a_slice_cover_the_same_values_of_the_attribute_that_is_cut(domain):
    tree = BinaryTree.over(domain)
    if len(tuple(domain)) == 1:
        assert all(slices is None for slices in tree.slices)
        return
    for level, slices in enumerate(tree.slices):
        lows, highs = boxes(domain, tree, level)[:, cut_attribute(domain, tree, level)]
        assert slices.shape == (tree.nodes(level),) and slices.min() >= 0
        pairs = set(zip(slices.tolist(), lows.tolist(), highs.tolist(), strict=True))
        assert len(pairs) == len(set(slices.tolist())) == len(set(zip(lows.tolist(), highs.tolist(), strict=True)))


@given(some_domains)
def test_attributes_without_an_order_are_cut_first_and_then_the_longest_side(domain):
    tree = BinaryTree.over(domain)
    ordered = [axis.ordered for axis in domain]
    cuts = [cut_attribute(domain, tree, level) for level in range(tree.height)]
    assert [ordered[attribute] for attribute in cuts] == sorted(ordered[attribute] for attribute in cuts)
    sides = [float(axis.size) for axis in domain]
    for level, attribute in enumerate(cuts):
        rivals = {other for other in cuts[level:] if ordered[other] == ordered[attribute]}
        assert sides[attribute] == max(sides[other] for other in rivals)
        sides[attribute] /= 2


@given(some_domains, st.data())
def test_parts_and_above_agree(domain, data):
    tree = BinaryTree.over(domain)
    level = data.draw(st.integers(0, tree.height))
    deeper = data.draw(st.integers(0, tree.height - level))
    some = np.array(sorted(data.draw(st.sets(st.integers(0, tree.nodes(level) - 1), min_size=1))))
    parts, counts = tree.parts(level, some, deeper)
    assert len(parts) == counts.sum() and (counts > 0).all()
    above = parts
    for at in range(level + deeper, level, -1):
        above = tree.above(at, above)
    assert np.array_equal(above, np.repeat(some, counts))
    spanned = np.diff(tree.begins[level + deeper])[parts].sum()
    assert spanned == np.diff(tree.begins[level])[some].sum()


def test_a_line_keeps_its_order_and_is_cut_where_sides_are():
    tree = BinaryTree.line(5)
    assert tree.order.tolist() == [0, 1, 2, 3, 4]
    assert [begins.tolist() for begins in tree.begins] == [[0, 5], [0, 2, 5], [0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5]]
    assert tree.pair(2, np.array([0, 3])).tolist() == [[0, 3], [-1, 4]]


@pytest.mark.parametrize("sides", [[(1, "integer")], [(1, "integer"), (1, "category")]])
def test_one_cell_is_a_root_without_halves(sides):
    tree = BinaryTree.over(domain_of(*sides))
    assert (tree.height, tree.order.tolist(), tree.nodes(0)) == (0, [0], 1)


def test_a_value_alone_changes_nothing_but_that_there_are_slices():
    line, flat = BinaryTree.line(6), BinaryTree.over(domain_of((1, "category"), (6, "integer"), (1, "integer")))
    assert np.array_equal(line.order, flat.order) and line.height == flat.height
    assert all(np.array_equal(a, b) for a, b in zip(line.begins, flat.begins, strict=True))
    assert line.slices == (None, None, None) and [slices.tolist() for slices in flat.slices] == [
        [0],
        [0, 1],
        [0, 1, 2, 3],
    ]


@st.composite
def grouped_domains(draw) -> Domain:
    """One or two attributes whose values are in groups, and perhaps in groups of groups."""
    axes = []
    for place in range(draw(st.integers(1, 2))):
        size = draw(st.integers(2, 12))
        fine = sorted(draw(st.sets(st.integers(1, size - 1), min_size=1)))
        coarse = sorted(draw(st.sets(st.sampled_from(fine), max_size=len(fine) - 1)))
        splits = (tuple(coarse), tuple(fine)) if coarse else (tuple(fine),)
        axes.append(Axis(f"a{place}", "category", np.arange(size + 1.0), splits=splits))
    return Domain(tuple(axes))


@given(grouped_domains())
def test_groups_are_told_apart_before_their_values(domain):
    tree = BinaryTree.over(domain)
    assert np.array_equal(np.sort(tree.order), np.arange(domain.size)) and tree.nodes(0) == 1
    assert nodes_over(domain) == sum(tree.nodes(level) for level in range(tree.height + 1))
    assert (np.diff(tree.begins[-1]) == 1).all()
    for level in range(tree.height + 1):
        lows, highs = boxes(domain, tree, level)
        assert np.array_equal(np.prod(highs - lows + 1, axis=0), np.diff(tree.begins[level]))  # still boxes
        for axis, low, high in zip(domain, lows, highs, strict=True):
            for cuts in axis.splits:  # what begins or ends within a group lies within it
                edges = np.array([0, *cuts, axis.size])
                first, last = (np.searchsorted(edges, place, side="right") - 1 for place in (low, high))
                within = (low > edges[first]) | (high < edges[last + 1] - 1)
                assert (first[within] == last[within]).all()
