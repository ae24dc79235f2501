"""Counts along attributes first: where many attributes make sums of very many nodes, and nowhere else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from grid_tables import GRID, line

from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.budget import Budget
from sfumato.models.calibration.first_stage import (
    MarginsFirst,
    margins_beside_cells,
    margins_beside_tree,
    part_for_all_rows,
    shared_out,
)
from sfumato.schema import Schema

SURVEY = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {f"a{n}": {"type": "category", "values": list("vwxyz")} for n in range(6)},
    }
)


@pytest.mark.parametrize("pure", [True, False])
def test_margins_pay_with_many_attributes(pure):
    found = margins_beside_tree(SURVEY.domain, BinaryTree.over(SURVEY.domain), pure=pure)
    assert found.along is not None and found.along.runs == (5,) * 6 and found.tells_all
    assert 0 < found.part <= Fraction(1, 4)
    for schema in (line(1000), GRID):
        nothing = margins_beside_tree(schema.domain, BinaryTree.over(schema.domain), pure=pure)
        assert nothing.along is None and not nothing.part and not nothing.tells_all


def test_only_attributes_that_a_tree_knows_badly_are_measured():
    """One that is cut late is the sum of very many nodes; the others are not, and share no budget with it."""
    census = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {
                "age": {"type": "integer", "lower": 0, "upper": 19},
                **{
                    f"a{n}": {"type": "category", "values": list("tuvwxyz")[:size]}
                    for n, size in enumerate((2, 7, 6, 5, 4))
                },
            },
        }
    )
    found = margins_beside_tree(census.domain, BinaryTree.over(census.domain), pure=True)
    assert found.along is not None and found.along.axes == (0,) and 0 < found.part <= Fraction(1, 10)
    assert not found.tells_all


def test_they_are_measured_with_what_was_set_aside():
    tree = BinaryTree.over(SURVEY.domain)
    found = margins_beside_tree(SURVEY.domain, tree, pure=True)
    curator = curator_of(SURVEY, np.ones(SURVEY.domain.size))
    rest, errors, (first,) = shared_out(Budget.pure(1), Fraction(1, 50), found.part)
    measured = found.measure(curator, first)
    assert [len(one.answers) for one in measured] == [5] * 6
    assert curator.charge.fullest == found.part * curator.charge.limit
    assert first.epsilon + rest.epsilon + errors.epsilon == 1
    assert shared_out(Budget.pure(1), Fraction(1, 50), Fraction(0))[2] == [None]
    assert MarginsFirst(SURVEY.domain).measure(curator, None) == []


def test_beside_noisy_cells_margins_pay_where_values_have_many_cells_and_all_rows_sooner():
    found = margins_beside_cells(SURVEY.domain, pure=True)
    assert found.along is not None and found.tells_all and 0 < found.part <= Fraction(1, 4)
    assert margins_beside_cells(GRID.domain, pure=True).along is None
    assert part_for_all_rows(line(400).domain) == 0 < part_for_all_rows(line(401).domain) < Fraction(1, 10)
