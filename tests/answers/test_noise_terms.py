"""Answers from fitted cubes: the same as from cells where both can be had, and right where only a fit can."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of

from sfumato.answers.noise_sum import half_width
from sfumato.kernel.budget import Budget
from sfumato.models.base.measure_and_fit import measure_and_fit
from sfumato.models.linear.fit import LinearFit
from sfumato.queries import Identity, Kron, Prefix, Stack, Total
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube
from sfumato.releases.rows.coding import draw_batches
from sfumato.schema import Schema
from sfumato.sql import compile_select

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 11},
            "g": {"type": "category", "values": ["a", "b"]},
            "v": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)
SIZE = SCHEMA.domain.size
QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE x BETWEEN 3 AND 8",
    "SELECT COUNT(*) FROM t WHERE g = 'a' OR x > 9",
    "SELECT SUM(m) FROM t WHERE g = 'a'",
    "SELECT SUM(x) FROM t WHERE g = 'b'",
    "SELECT AVG(m) FROM t WHERE x < 10",
    "SELECT COUNT(*) FILTER (WHERE x < 5) / COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE v < 5.5",
    "SELECT AVG(v) FROM t",
    "SELECT g, x, COUNT(*), AVG(m) FROM t WHERE x < 3 GROUP BY g, x",
    "SELECT g, COUNT(*) / (SELECT COUNT(*) FROM t) AS part FROM t GROUP BY g",
)


def curator(epsilon: Fraction | int = 1):
    counts = 40 + np.arange(SIZE) % 7
    return curator_of(SCHEMA, counts, sums={"m": counts * (np.arange(SIZE) % 11 - 5)}, epsilon=epsilon)


def numbers(result) -> list[float]:
    return [float(value) for record in result.records() for value in record.values() if isinstance(value, (int, float))]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_fit_to_single_cells_answers_like_the_cells_themselves(sql):
    held = curator()
    measured = tuple(
        held.measure(Identity(SIZE), share, of=of)
        for of, share in zip(held.statistics, Budget.pure(1).evenly(2), strict=True)
    )
    plain = Cube.of_cells(SCHEMA, measured)
    fitted = Cube(SCHEMA, fits=tuple(LinearFit.of_answers(m) for m in measured))
    select = compile_select(sql, SCHEMA)
    one, other = (cube.select(select, 0.95) for cube in (plain, fitted))
    # ALONE rows keep their own law, the others become a normal one: a few parts in a thousand of the width.
    assert numbers(other) == pytest.approx(numbers(one), rel=5e-3, abs=0.6)


def test_linear_queries_on_a_fit_have_the_exact_law_of_their_noise():
    cube = measure_and_fit(curator(), SCHEMA, Strategy(Stack(Identity(SIZE), Total(SIZE))), Budget.pure(1))
    queries = Prefix(SIZE)
    estimates = cube.linear(queries, 0.95)
    design = cube.fits[0].measurements[0].design
    a = design.queries.dense() / np.sqrt(design.variances)[:, None]
    covariance = np.linalg.inv(a.T @ a)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", queries.dense(), covariance, queries.dense()))
    assert [e.stderr for e in estimates] == pytest.approx(expected.tolist(), rel=1e-6)
    # The total is nearly one noise: its interval is that of a Laplace law, wider than a normal one.
    whole = half_width([(1.0, design.noises[0], 1)], 0.95)
    assert abs((estimates[-1].high - estimates[-1].low) / 2 - whole) < 0.05 * whole


def test_what_was_not_measured_is_unknown_and_says_so():
    only_x = Strategy(Kron(Identity(12), Total(10)))
    cube = measure_and_fit(curator(), SCHEMA, only_x, Budget.pure(1))
    known = cube.select(compile_select("SELECT COUNT(*) FROM t WHERE x < 4", SCHEMA), 0.95)
    assert known.notes == () and known.records()[0]["count_stderr"] > 0
    unknown = cube.select(compile_select("SELECT COUNT(*) FROM t WHERE g = 'a'", SCHEMA), 0.95)
    assert unknown.records() == [{"count": None, "count_stderr": None, "count_low": None, "count_high": None}]
    assert "does not determine" in unknown.notes[0]
    assert np.isnan(cube.linear(Identity(SIZE)[:1], 0.95)[0].value)


def test_budget_is_spent_exactly_by_shares_and_for_measures():
    held = curator(Fraction(1, 3))
    strategy = Strategy(Stack(Identity(SIZE), Total(SIZE)), (3, 7), np.repeat([0, 1], [SIZE, 1]))
    cube = measure_and_fit(held, SCHEMA, strategy, Budget.pure(Fraction(1, 3)))
    assert held.charge.fullest == held.charge.limit
    by_cell, in_all = cube.fits[0].measurements[0].noises
    assert (by_cell.scale, in_all.scale) == (Fraction(60, 3), Fraction(60, 7))  # (3 + 7) / (1/6), over the share


def test_synthetic_rows_come_from_fitted_cubes_too():
    cube = measure_and_fit(curator(100), SCHEMA, Strategy(Identity(SIZE)), Budget.pure(100))
    rows = pa.Table.from_batches(draw_batches(cube.row_model, SCHEMA, 500))
    assert rows.num_rows == 500 and set(rows.column_names) == {"x", "g", "v", "m"}
