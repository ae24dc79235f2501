"""The errors of many groups at once are those of one group after another."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sfumato.answers.fit import ByGroup, Grouped
from sfumato.domain import Axis, Domain
from sfumato.domain.binary_tree import BinaryTree
from sfumato.measurement import Laplace, Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.buckets import Halvings
from sfumato.models.partition.fit import PartitionFit
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.models.tree.fit import FINE, TreeFit, has_slices, inner_nodes
from sfumato.models.weights.fit import ScaledShape
from sfumato.queries import Identity, Ranges

THREE = Laplace(Fraction(3))
SIDES = (7, 11, 3)
CELLS = 231


def stream(seed=4):
    return np.random.default_rng(seed)


def tree_fit(tree: BinaryTree) -> TreeFit:
    """With slopes, deviations and leanings out of the air; leanings of either sign."""
    inner, leaves = inner_nodes(tree), len(tree.order)
    whole = Measurement("count", Ranges(leaves, [0], [leaves - 1]), np.zeros(1, dtype=np.int64), (THREE,))
    slopes = np.rint(stream().uniform(-0.2, 1.2, inner) * FINE).astype(np.int64)
    leanings = stream(5).uniform(-2, 2, inner) if has_slices(tree) else np.zeros(0)
    return TreeFit(whole, tree, np.zeros(leaves), slopes, stream(6).uniform(0, 3, inner + 1), leanings)


def over_cells() -> TreeFit:
    axes = tuple(Axis(name, "integer", np.arange(size + 1.0)) for name, size in zip("xyz", SIDES, strict=True))
    return tree_fit(BinaryTree.over(Domain(axes)))


def of_buckets() -> PartitionFit:
    labels = stream().integers(0, 19, CELLS)
    labels[:19] = np.arange(19)
    return PartitionFit(labels, tree_fit(BinaryTree.line(19)), stream().uniform(0, 5, 19))


def of_a_shape() -> ScaledShape:
    answers = np.array([4000], dtype=np.int64)
    total = LinearFit.of_answers(Measurement("count", Identity(1), answers, (THREE,)))
    return ScaledShape(total, stream().integers(0, 1000, CELLS), 17.0)


def shrunken() -> ShrinkageFit:
    """With two buckets of one cell, and others that are halved up to seven times."""
    labels = np.sort(stream().choice(9, CELLS, p=[0.4, 0.2, 0.2, 0.1, 0.04, 0.03, 0.03, 0, 0]))
    labels[-2:] = 7, 8
    order = np.lexsort((stream().random(CELLS), labels))
    cells = Measurement("count", Identity(CELLS), stream().integers(0, 50, CELLS), (Laplace(Fraction(2)),))
    totals = LinearFit.of_answers(Measurement("count", Identity(9), stream().integers(0, 500, 9), (THREE,)))
    families = len(Halvings.of(np.bincount(labels)).above)
    numbers = stream().uniform(0, 1, (3, max(families, 9)))
    return ShrinkageFit(labels, order, totals, cells, numbers[0, :9], numbers[1, :families], 5 * numbers[2, :families])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("made", [over_cells, of_buckets, of_a_shape])
@pytest.mark.parametrize("grouping", ["by x", "by y", "scattered"])
def test_errors_of_groups_are_those_of_their_columns(made, grouping, whole):
    fit, codes = made(), np.unravel_index(np.arange(CELLS), SIDES)
    group = {"by x": codes[0], "by y": codes[1], "scattered": stream().integers(-1, 9, CELLS)}[grouping]
    groups = int(group.max()) + 2  # the last one has no cell
    weights = np.stack([np.ones(CELLS), codes[2] + 5.0, stream().normal(size=CELLS)], axis=1)
    weights[stream().random(CELLS) < 0.2] = 0.0
    everywhere = np.stack([np.zeros(CELLS), np.ones(CELLS), codes[0] - 3.0], axis=1) if whole else None
    assert isinstance(fit, ByGroup)
    found = fit.errors_by_group(Grouped.of_cells(group, groups, weights, everywhere))
    assert found is not None and len(found) == groups
    for number, one in enumerate(found):
        columns = weights * (group == number)[:, None] + (0.0 if everywhere is None else everywhere)
        expected = fit.errors(columns)
        scale = np.abs(expected.model).max()
        assert np.allclose(one.model, expected.model, rtol=1e-9, atol=1e-9 * scale)
        assert np.allclose(one.weights, expected.weights) and np.array_equal(one.unknown, expected.unknown)


@pytest.mark.parametrize("grouping", ["by x", "by y", "scattered"])
def test_cells_that_are_counted_are_those_that_were_listed(grouping):
    """Of every noise and every weight there are as many; weights that cancel are told apart from none by rounding."""
    fit, codes = shrunken(), np.unravel_index(np.arange(CELLS), SIDES)
    group = {"by x": codes[0], "by y": codes[1], "scattered": stream().integers(-1, 9, CELLS)}[grouping]
    weights = np.stack([np.ones(CELLS), np.where(codes[1] < 4, 1.0, codes[2] + 5.0)], axis=1)
    groups = int(group.max()) + 2
    found = fit.errors_by_group(Grouped.of_cells(group, groups, weights, None))
    for number, one in enumerate(found):
        expected = fit.errors(weights * (group == number)[:, None])
        assert np.allclose(one.model, expected.model, rtol=1e-9, atol=1e-9)
        ones = np.ones(len(expected.weights), dtype=np.int64)
        assert kinds(one, one.counts) == kinds(expected, ones)
    assert fit.errors_by_group(Grouped.of_cells(group, groups, weights, weights)) is None


def kinds(errors, counts):
    found = Counter()
    for noise, row, count in zip(errors.design.which, errors.weights, counts, strict=True):
        if np.abs(row).max() > 1e-9:
            found[int(noise), *np.round(np.pi * row, 7).tolist()] += int(count)
    return found


def test_a_group_costs_its_own_cells_only():
    """As many rows are looked at for all groups together as there are cells, not as many for each."""
    codes = np.unravel_index(np.arange(CELLS), SIDES)
    asked = Grouped.of_cells(codes[0], 7, np.ones((CELLS, 2)), None)
    assert len(asked.place) == CELLS
    labels = np.repeat(np.arange(CELLS // 3), 3)
    number, example = asked.together(labels)
    assert len(example) == CELLS // 3 and np.array_equal(number, labels)
