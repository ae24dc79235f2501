from __future__ import annotations

import numpy as np
import pytest

from sfumato.releases.rows.coding import draw_blocks
from sfumato.releases.rows.from_cells import RowsOfListedCells
from sfumato.releases.rows.model import Grouping, RandomNumbers
from sfumato.schema import Schema

ROWS = 20_000


def schema_of(sizes: list[int]) -> Schema:
    kinds = {f"a{n}": {"type": "integer", "lower": 0, "upper": size - 1} for n, size in enumerate(sizes)}
    measures = {"cost": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": kinds, "measures": measures})


def model_of(sizes: list[int], cells: list[int], counts: list[float], rest: float) -> RowsOfListedCells:
    values = {"count": np.array(counts), "cost": np.array(counts) * 10}
    left = {"count": rest, "cost": -rest * 10}
    return RowsOfListedCells(schema_of(sizes), values, {"count": 1.0, "cost": 1.0}, np.array(cells, np.int64), left)


def test_the_rest_falls_on_cells_that_are_not_listed_evenly():
    """20,000 rows over 24 cells, three listed: every cell has what its share gives it, to five deviations."""
    model = model_of([4, 6], [0, 7, 23], [400.0, 300.0, 90.0], 210.0)
    blocks = list(draw_blocks(model, ROWS, RandomNumbers()))
    cells = np.concatenate([block.codes["a0"] * 6 + block.codes["a1"] for block in blocks])
    shares = np.full(24, 0.21 / 21)
    shares[[0, 7, 23]] = 0.4, 0.3, 0.09
    seen = np.bincount(cells, minlength=24) / ROWS
    assert (np.abs(seen - shares) < 5 * np.sqrt(shares / ROWS)).all()
    assert np.allclose(model.margin([Grouping("a0", np.arange(5))]), 1000 * shares.reshape(4, 6).sum(axis=1))
    means = np.concatenate([block.means["cost"] for block in blocks])
    assert abs(means[np.isin(cells, [0, 7, 23])].mean() - 60) < 1 and abs(means[cells == 1].mean() - 40) < 1


def test_rows_follow_the_answers_where_the_rest_is_negative():
    """A rest of -120 over ten cells lowers every answer by its cells; so are the rows' shares, where they can be."""
    model = model_of([3, 4], [0, 5], [600.0, 520.0], -120.0)
    blocks = list(draw_blocks(model, ROWS, RandomNumbers()))
    first = np.bincount(np.concatenate([block.codes["a0"] for block in blocks]), minlength=3) / ROWS
    answers = model.margin([Grouping("a0", np.arange(4))])
    assert answers.tolist() == [564.0, 484.0, -48.0]
    assert np.allclose(first, np.array([564, 484, 0]) / 1048, atol=0.01)


@pytest.mark.parametrize("sizes", [[2**20, 2**20, 2**20], [2**20, 2**11]])
def test_vast_domains_are_drawn_from_without_being_laid_out(sizes):
    model = model_of(sizes, [5], [10.0], 90.0)
    (block,) = draw_blocks(model, 5000, RandomNumbers(3))
    for name, size in zip(block.codes, sizes, strict=True):
        assert block.codes[name].min() >= 0 and block.codes[name].max() < size
        assert len(np.unique(block.codes[name])) > 1500 if size > 2**12 else True
    listed = (block.codes["a0"] == 0) & (block.codes[f"a{len(sizes) - 1}"] == 5)
    assert abs(listed.mean() - 0.1) < 0.025
