"""Errors measured by kind: what they may cost, what they charge, and that they find errors that nobody claimed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from fitted import SCHEMA, SIZE, example
from grid_tables import line

from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.budget import Budget
from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.fit import BLOCKS, EMPTY, FILLED, ONE_WAY, TILES, TWO_RANGES, TWO_WAY, Brought
from sfumato.models.calibration.misfits_by_kind import mean_error, measure_errors, part_of_budget
from sfumato.models.tree.fit import fit_tree
from sfumato.queries import Identity, Ranges
from sfumato.schema import Schema


def test_a_part_of_the_budget_falls_with_the_number_of_cells():
    parts = [part_of_budget(line(cells).domain, [BLOCKS]) for cells in (64, 4096, 2**20)]
    assert parts == sorted(parts, reverse=True) and parts[1] < Fraction(1, 100) and parts[0] <= Fraction(1, 49)
    assert 0 < part_of_budget(line(4096).domain) - parts[1] < Fraction(11, 1000)
    assert part_of_budget(line(64).domain) == parts[0]  # as large as tiles
    assert part_of_budget(SCHEMA.domain, [ONE_WAY]) < part_of_budget(SCHEMA.domain)


@pytest.mark.parametrize("budget", [Budget.pure("1/2"), Budget.zcdp("1/2")])
def test_what_is_measured_is_charged(budget):
    curator = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=1, rho=budget.rho and budget.rho * 2)
    scales, measured = measure_errors(
        curator, Brought(example("leaves")), budget, Budget.pure(1) if budget.is_pure else budget
    )
    spent = curator.charge.fullest / curator.charge.limit
    assert 0 < spent <= Fraction(1, 2) and len(measured) >= 2
    assert set(scales.kinds.tolist()) <= {EMPTY, FILLED, TILES, ONE_WAY}


def test_a_misfit_that_its_noise_hides_is_never_said_to_be_none():
    """An estimate that is right, at a small epsilon: what is said lies below comes from the noise of each sum.

    Seeded, so it passes always or never. Three sums over 9 and 7 questions, with noise of deviation 200 each.
    """
    noise = Laplace(Fraction(200) / Fraction(2**0.5))
    sums = np.array([-500, 150, 420])
    measured = Measurement("misfit", Identity(3), sums, (noise,))
    assert mean_error(measured, [2], 7) == 60.0
    assert mean_error(measured, [0], 9) == pytest.approx(-1.959964 * noise.variance**0.5 / 9)
    assert mean_error(measured, [1], 9) == pytest.approx(-(150 + 1.959964 * noise.variance**0.5) / 9)
    assert mean_error(measured, range(3), 16) == pytest.approx(-(70 + 1.959964 * (3 * noise.variance) ** 0.5) / 16)
    right = replace(example("leaves"), estimate=np.arange(SIZE) * 7.0)
    budget = Budget.pure("1/1000")
    scales, _ = measure_errors(
        curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=1), Brought(right), budget, Budget.pure(1)
    )
    assert (scales.errors < 0).any() and not any("off by 0 rows" in said for said in scales.words)
    assert any("less than the measurement can see (" in said for said in scales.words)


def test_errors_that_nobody_claimed_are_found():
    """At an epsilon of 1,000 noise is nothing: an estimate off by 1,000 in every cell asks for large factors."""
    tree = example("leaves")
    wrong = replace(tree, estimate=np.arange(SIZE) * 7.0 + np.where(np.arange(SIZE) % 2, 1000.0, -1000.0) + 2000.0)
    factors = []
    for fit in (replace(tree, estimate=np.arange(SIZE) * 7.0 + 1.0), wrong):
        curator = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=1000)
        scales, _ = measure_errors(curator, Brought(fit), Budget.pure(500), Budget.pure(1000), without=[TILES])
        factors.append(scales.factors[scales.kinds == FILLED].max())
    assert factors[1] > 10 * factors[0]


def test_what_is_off_along_a_diagonal_of_two_attributes_is_seen_in_ranges_of_two():
    """Errors of both corners of two attributes, whatever the third is: next to nothing in a cell, 768 in a corner."""
    sides = (16, 16, 6)
    schema = Schema.from_dict(
        {
            "dataset": "boxes",
            "privacy_unit": "row",
            "attributes": {f"a{i}": {"type": "integer", "lower": 0, "upper": n - 1} for i, n in enumerate(sides)},
        }
    )
    first, second, _ = np.indices(sides)
    off = np.where((first < 8) == (second < 8), 2.0, -2.0).reshape(-1)
    tree = BinaryTree.over(schema.domain)
    nodes = Ranges(len(tree.order), np.arange(len(tree.order)), np.arange(len(tree.order)))
    fit = fit_tree(Measurement("count", nodes, np.full(len(tree.order), 40), (Laplace(Fraction(1)),)), tree)
    found = []
    for wrong in (0.0, off):
        curator = curator_of(schema, np.full(len(tree.order), 40), epsilon=1000)
        moved = replace(fit, estimate=np.full(len(tree.order), 40.0) + wrong)
        scales, _ = measure_errors(curator, Brought(moved), Budget.pure(500), Budget.pure(1000), without=[BLOCKS])
        found.append({kind: scales.factors[scales.kinds == kind].max() for kind in (TWO_WAY, TWO_RANGES)})
    assert found[1][TWO_RANGES] > 1.5 * found[1][TWO_WAY] and found[1][TWO_RANGES] > 10 * found[0][TWO_RANGES]
