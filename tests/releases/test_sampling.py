from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.mechanisms import MECHANISMS
from sfumato.queries import Identity, Workload
from sfumato.releases.rows import write_rows
from sfumato.releases.sampling import without_negatives
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
        "measures": {"cost": {"lower": 0, "upper": 100, "step": 1}},
    }
)


CELLS = Workload(("cells",), (Identity(SCHEMA.domain.size),))


def cube_of(
    counts: np.ndarray, sums: np.ndarray, epsilon: int, mechanism: str = "cells", workload: Workload | None = None
):
    curator = curator_of(SCHEMA, counts, sums={"cost": sums}, epsilon=epsilon)
    return MECHANISMS[mechanism].run(curator, SCHEMA, Budget.pure(epsilon), workload)


SHAPED = ["mwem", "pmw"]  # they learn a shape, which comes near the cells
EVERY_CELL = [name for name in MECHANISMS if name not in SHAPED]


@pytest.mark.parametrize("mechanism", EVERY_CELL)
def test_rows_follow_the_release(mechanism):
    """Asked for every cell, so that even those mechanisms determine each that measure nothing but the workload."""
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[2, 0, 1, 1, 0], counts[5, 1, 3, 0, 2] = 300, 100
    rows = cube_of(counts, counts * 20, 10**5, mechanism, CELLS).draw(400, TestingEntropy(6)).to_pandas()
    women, men = rows[rows.sex == "F"], rows[rows.sex == "M"]
    assert len(women) == 300 and len(men) == 100
    assert women.age.between(20, 29).all() and women.age.nunique() > 5
    assert women.height.between(1.25, 1.5).all() and women.urgent.all()
    assert {str(day)[:7] for day in men.day} == {"2024-03"} and max(str(day) for day in men.day) <= "2024-03-20"
    assert np.allclose(rows.cost, 70)  # centred on 50, 20 more each
    assert len(set(map(tuple, women[["age", "height"]].to_numpy()))) > 200  # rows differ inside a cell


@pytest.mark.parametrize("mechanism", SHAPED)
def test_rows_follow_a_shape_that_was_learned(mechanism):
    """Rounds are few and end a little off, and no cell gets nothing: most rows are where they should be."""
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[2, 0, 1, 1, 0], counts[5, 1, 3, 0, 2] = 300, 100
    rows = cube_of(counts, counts * 20, 10**5, mechanism, CELLS).draw(400, TestingEntropy(6)).to_pandas()
    women = rows.age.between(20, 29) & (rows.sex == "F") & rows.height.between(1.25, 1.5) & rows.urgent
    men = rows.age.between(50, 59) & (rows.sex == "M") & rows.height.between(1.75, 2) & ~rows.urgent
    assert abs(women.sum() - 300) <= 12 and abs(men.sum() - 100) <= 12
    assert np.allclose(rows.cost[women | men], 70, atol=5)
    assert rows.cost.between(0, 100).all()


@pytest.mark.parametrize("mechanism", [one.name for one in MECHANISMS.values() if one.answers == "its workload"])
def test_rows_follow_what_a_workload_determines(mechanism):
    """Five attributes, asked two by two: single cells are anyone's guess, but the rows keep the shape's outline."""
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    counts[2, 0, 1, 1, 0], counts[5, 1, 3, 0, 2] = 300, 100
    cube = cube_of(counts, counts * 20, 10**5, mechanism)
    gathered = cube.view({"age": np.arange(10), "sex": np.arange(2)}).cells.values["count"].reshape(10, 2)
    assert np.allclose(gathered, counts.sum(axis=(2, 3, 4)), atol=0.5)
    rows = cube.draw(400, TestingEntropy(6)).to_pandas()
    assert len(rows[rows.sex == "F"]) > len(rows[rows.sex == "M"])
    assert (rows.age.between(20, 29) | rows.age.between(50, 59)).mean() > 0.5
    assert rows.cost.between(0, 100).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_any_number_of_rows_even_from_noise_alone(mechanism):
    nothing = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    cube = cube_of(nothing, nothing, 1, mechanism, CELLS)
    for rows in (1, 17, 1000):
        assert cube.draw(rows).num_rows == rows


@pytest.mark.parametrize("rows", [0, -1, 10**10])
def test_a_senseless_number_of_rows_is_refused(rows):
    nothing = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    with pytest.raises(QueryError):
        cube_of(nothing, nothing, 1).draw(rows)


def test_the_nearest_table_without_negatives_keeps_the_total():
    noisy = np.array([5.0, -3.0, 2.0, 0.5, -0.5])
    found = without_negatives(noisy)
    assert found.min() >= 0 and found.sum() == pytest.approx(noisy.sum())
    for other in np.eye(5) * noisy.sum():  # nearer than any corner of the simplex
        assert ((found - noisy) ** 2).sum() <= ((other - noisy) ** 2).sum()
    assert without_negatives(np.array([-1.0, -2.0])).tolist() == [0.0, 0.0]


def test_rows_are_written_whole_or_not_at_all(tmp_path):
    nothing = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    rows = cube_of(nothing, nothing, 1).draw(5)
    with pytest.raises(ReleaseFileError):
        write_rows(rows, tmp_path / "no" / "x.csv")
    write_rows(rows, tmp_path / "x.csv")
    write_rows(rows, tmp_path / "x.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv", "x.parquet"]
