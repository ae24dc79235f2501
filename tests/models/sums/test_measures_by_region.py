"""Sums by region: the whole budget on every cell, nothing but what was published decides, and better than cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.lab.audit.attacks.replay import replay
from sfumato.lab.audit.subjects.subject import Row, small_schema
from sfumato.models.linear.fit import LinearFit
from sfumato.models.sums.fit import AveragesFit
from sfumato.models.sums.measure import sums_by_region
from sfumato.queries import Identity, Kron, Total, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "region": {"type": "category", "values": list("abcdefgh")},
            "x": {"type": "integer", "lower": 0, "upper": 99},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "keep"}},
    }
)
SIZE = SCHEMA.domain.size


def fits_of(counts, budget, workload=None, sums=None):
    curator = curator_of(SCHEMA, counts, epsilon=budget.epsilon or 1, rho=budget.rho, sums=sums or {})
    for_count, *shares = budget.split(*SCHEMA.weights.values())
    count = LinearFit.of_answers(curator.measure(Identity(SIZE), for_count))
    return curator, sums_by_region(curator, SCHEMA, shares, count, workload)


@pytest.mark.parametrize("budget", [Budget.pure(Fraction(1, 3)), Budget.zcdp(Fraction(1, 7))])
@pytest.mark.parametrize("rows", [0, 3, 10**6])
def test_every_cell_bears_the_whole_budget_whatever_the_counts(budget, rows):
    curator, fits = fits_of(np.full(SIZE, rows), budget)
    assert curator.charge.fullest == curator.charge.limit
    assert [fit.of for fit in fits] == ["m", "missing m"]
    scales = [getattr(one, "scale", None) or one.sigma_squared for one in fits[0].measurement.design.noises]
    assert all(type(one) in (int, Fraction) for one in scales)  # a lattice, whatever the shares are
    assert all(isinstance(fit, AveragesFit) and np.isfinite(fit.estimate).all() for fit in fits)
    looked = fits[0].blocks[0][0].parts == SCHEMA.domain.shape
    assert rows == 3 or looked == (rows == 10**6)  # where cells hold so many rows they are looked at; of 3, it depends


def test_few_cells_are_measured_as_they_are():
    schema = small_schema(8, 1, measured=True)
    curator = curator_of(schema, np.full(8, 50), epsilon=2)
    for_count, *shares = Budget.pure(2).split(*schema.weights.values())
    count = LinearFit.of_answers(curator.measure(Identity(8), for_count))
    found = sums_by_region(curator, schema, shares, count)
    assert not any(isinstance(fit, AveragesFit) for fit in found)
    assert curator.charge.fullest == curator.charge.limit


def test_who_asks_for_regions_gets_regions():
    """The error of 8 sums stays below 8 scales each but for a chance of 8 exp(-8 * 7), far below 1e-6."""
    workload = Workload(("region",), (Kron(Identity(8), Total(100)),))
    sums = np.arange(SIZE) % 90 - 45
    _, (fit, missing) = fits_of(np.full(SIZE, 200), Budget.pure(2), workload, {"m": sums * 100})
    assert [table.parts for table, _ in fit.blocks] == [(8, 1)]
    off = (fit.estimate - sums * 100).reshape(8, 100).sum(axis=1)
    assert (np.abs(off) < 50 * 56).all() and np.abs(missing.estimate.reshape(8, 100).sum(axis=1)).max() < 56


@pytest.mark.parametrize("epsilon", [1, 40])
def test_nothing_but_what_was_published_decides(epsilon):
    """On neighbouring tables, with the same noisy numbers, every call is the same: with a look at cells and without."""
    schema = small_schema(16, 1, measured=True)
    steps = tuple(0 for _ in schema.measures)
    crowd = [Row(person, person % 16, steps) for person in range(1, 600)]
    mine = Row(0, 3, tuple(measure.half_units for measure in schema.measures.values()))

    def run(curator, schema, budget):
        for_count, *shares = budget.split(*schema.weights.values())
        count = LinearFit.of_answers(curator.measure(Identity(schema.domain.size), for_count))
        return Cube(schema, (count, *sums_by_region(curator, schema, shares, count)))

    found = replay(run, schema, [*crowd, mine], crowd, Budget.pure(epsilon))
    assert not found.complaints and 0.0 < found.loss <= epsilon * (1 + 1e-9)
