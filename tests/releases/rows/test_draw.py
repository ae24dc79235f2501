from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.queries import Identity, Workload
from sfumato.releases.rows.coding import BATCH, draw_batches
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99, "bins": 10},
            "sex": {"type": "category", "values": ["F", "M"]},
            "height": {"type": "number", "lower": 1, "upper": 2, "bins": 4},
            "urgent": {"type": "boolean"},
            "day": {"type": "date", "lower": "2024-01-15", "upper": "2024-03-20", "by": "month"},
        },
        "measures": {"cost": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)


CELLS = Workload(("cells",), (Identity(SCHEMA.domain.size),))


def cube_of(
    counts: np.ndarray, sums: np.ndarray, epsilon: int, mechanism: str = "cells", workload: Workload | None = None
):
    curator = curator_of(SCHEMA, counts, sums={"cost": sums}, epsilon=epsilon)
    return MECHANISMS[mechanism].run(curator, SCHEMA, Budget.pure(epsilon), workload)


def drawn(cube, rows: int, seed: int | None = None) -> pa.Table:
    return pa.Table.from_batches(draw_batches(cube.row_model, SCHEMA, rows, seed))


SHAPED = ["mwem", "pmw"]  # they learn a shape, which comes near the cells
EVERY_CELL = [name for name in MECHANISMS if name not in SHAPED]


@pytest.mark.parametrize("mechanism", EVERY_CELL)
def test_rows_follow_the_release(mechanism):
    """Asked for every cell, so that even those mechanisms determine each that measure nothing but the workload."""
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[2, 0, 1, 1, 0], counts[5, 1, 3, 0, 2] = 300, 100
    rows = drawn(cube_of(counts, counts * 20, 10**5, mechanism, CELLS), 400, seed=6).to_pandas()
    women, men = rows[rows.sex == "F"], rows[rows.sex == "M"]
    drawn_at_random = MECHANISMS[
        mechanism
    ].holds.by_margins  # few rows out of many that fit: 400 scatter by 8.7, 5 times that
    assert abs(len(women) - 300) <= (43 if drawn_at_random else 0) and len(men) == 400 - len(women)
    assert women.age.between(20, 29).all() and women.age.nunique() > 5
    assert women.height.between(1.25, 1.5).all() and women.urgent.all()
    assert {str(day)[:7] for day in men.day} == {"2024-03"} and max(str(day) for day in men.day) <= "2024-03-20"
    assert abs(rows.cost.mean() - 70) < 8  # centred on 50, 20 more each; 400 values with a deviation of 25
    assert rows.cost.between(0, 100).all() and rows.cost.nunique() > 30 and rows.cost.dtype == np.int64
    assert len(set(map(tuple, women[["age", "height"]].to_numpy()))) > 200  # rows differ inside a cell


@pytest.mark.parametrize("mechanism", SHAPED)
def test_rows_follow_a_shape_that_was_learned(mechanism):
    """Rounds are few and end a little off, and no cell gets nothing: most rows are where they should be."""
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[2, 0, 1, 1, 0], counts[5, 1, 3, 0, 2] = 300, 100
    rows = drawn(cube_of(counts, counts * 20, 10**5, mechanism, CELLS), 400, seed=6).to_pandas()
    women = rows.age.between(20, 29) & (rows.sex == "F") & rows.height.between(1.25, 1.5) & rows.urgent
    men = rows.age.between(50, 59) & (rows.sex == "M") & rows.height.between(1.75, 2) & ~rows.urgent
    assert abs(women.sum() - 300) <= 12 and abs(men.sum() - 100) <= 12
    assert abs(rows.cost[women | men].mean() - 70) < 8
    assert rows.cost.between(0, 100).all()


@pytest.mark.full
@pytest.mark.parametrize("mechanism", [one.name for one in MECHANISMS.values() if one.answers == "its workload"])
def test_rows_follow_what_a_workload_determines(mechanism):
    """Five attributes, asked two by two: single cells are anyone's guess, but the rows keep the shape's outline."""
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[2, 0, 1, 1, 0], counts[5, 1, 3, 0, 2] = 300, 100
    cube = cube_of(counts, counts * 20, 10**5, mechanism)
    gathered = cube.view({"age": np.arange(10), "sex": np.arange(2)}).cells.values["count"].reshape(10, 2)
    assert np.allclose(gathered, counts.sum(axis=(2, 3, 4)), atol=0.5)
    rows = drawn(cube, 400, seed=6).to_pandas()
    assert len(rows[rows.sex == "F"]) > len(rows[rows.sex == "M"])
    assert (rows.age.between(20, 29) | rows.age.between(50, 59)).mean() > 0.5
    assert rows.cost.between(0, 100).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_any_number_of_rows_even_from_noise_alone(mechanism):
    """Unless the noisy total is not above zero: then there is nothing to draw, and one line says so."""
    nothing = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    cube = cube_of(nothing, nothing, 1, mechanism, CELLS)
    for rows in (1, 17, 1000):
        if cube.row_model.total > 0:
            assert drawn(cube, rows).num_rows == rows
        else:
            with pytest.raises(QueryError, match="nothing to draw"):
                drawn(cube, rows)


@pytest.mark.parametrize("rows", [0, -1, 10**10])
def test_a_senseless_number_of_rows_is_refused_at_once(rows):
    nothing = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    with pytest.raises(QueryError, match="from 1 to"):
        draw_batches(cube_of(nothing, nothing, 1).row_model, SCHEMA, rows)


def test_a_seed_draws_the_same_rows_and_no_seed_others():
    cube = cube_of(np.full(SCHEMA.domain.shape, 3), np.zeros(SCHEMA.domain.shape), 1)
    assert drawn(cube, 500, seed=7).equals(drawn(cube, 500, seed=7))
    assert not drawn(cube, 500, seed=7).equals(drawn(cube, 500, seed=8))
    assert not drawn(cube, 500).equals(drawn(cube, 500))


def test_batches_are_small_and_each_is_a_sample_of_its_own():
    """Three batches of 40,000 rows or so, over 24 x 40 cells of one weight: each has half of them women, to 1 %.

    Stratified by cells that alternate between women and men, a batch is off by 0.2 % at most; drawn one by one, rows
    would have a deviation of 0.25 %, so that the bound is beyond four deviations either way.
    """
    cube = cube_of(np.full(SCHEMA.domain.shape, 50), np.zeros(SCHEMA.domain.shape), 10**5)
    batches = list(draw_batches(cube.row_model, SCHEMA, 2 * BATCH + 1))
    assert [batch.num_rows for batch in batches] and max(batch.num_rows for batch in batches) <= BATCH
    assert sum(batch.num_rows for batch in batches) == 2 * BATCH + 1 and len(batches) == 3
    for batch in batches:
        assert abs(np.mean(np.array(batch["sex"]) == "F") - 0.5) < 0.01


def test_cells_of_one_weight_do_not_resonate_with_the_number_of_rows():
    """As many rows as half the cells: taking every second cell would draw one sex only."""
    cube = cube_of(np.full(SCHEMA.domain.shape, 50), np.zeros(SCHEMA.domain.shape), 10**5)
    urgent = np.array(drawn(cube, SCHEMA.domain.size // 6, seed=1)["urgent"])
    assert 0.2 < urgent.mean() < 0.8


def test_memory_does_not_grow_with_the_number_of_rows():
    """Ten times the batches: what is held at most stays the same, to a fifth of a batch."""
    cube = cube_of(np.full(SCHEMA.domain.shape, 50), np.zeros(SCHEMA.domain.shape), 10**5)
    peaks = []
    for batches in (2, 20):
        tracemalloc.start()
        for _ in draw_batches(cube.row_model, SCHEMA, batches * BATCH):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
