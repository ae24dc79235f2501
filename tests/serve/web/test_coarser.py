"""A chart of too many numbers takes neighbours together: the same rows, with the errors of their sums."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.releases.release import Release
from sfumato.serve.web import answers
from sfumato.serve.web.questions import Chart
from sfumato.serve.web.requests import Refusal, Shelf

SCHEMA = {
    "dataset": "squares",
    "privacy_unit": "row",
    "budget": {"epsilon": 9},
    "attributes": {
        "x": {"type": "integer", "lower": 0, "upper": 99, "missing": "keep"},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-03-31"},
        "code": {"type": "category", "values": [f"c{place}" for place in range(50)]},
    },
}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    some, rows = np.random.default_rng(3), 2_000
    table = pa.table(
        {
            "x": pa.array(some.integers(0, 100, rows), mask=some.random(rows) < 0.1),
            "day": pa.array(np.datetime64("2024-01-01") + some.integers(0, 91, rows)),
            "code": some.choice(SCHEMA["attributes"]["code"]["values"], rows),
        }
    )
    ledger = tmp_path_factory.mktemp("ledger") / "ledger"
    made: Release = sf.release(table, sf.Schema.from_dict(SCHEMA), 1, mechanism="cells", ledger=ledger)
    return Shelf.of([("squares.sfumato", made)]).books[0]


def chart(book, **asked):
    import json

    return json.loads(answers.chart(book, Chart(**asked)))


def test_bins_are_sums_of_their_cells_with_the_errors_of_sums(book):
    found = chart(book, by=["x", "day"])
    assert "x is shown in 20 bins of 5; day is shown in 19 bins of 5" in found["notes"][0]
    assert found["keys"][0] == ["0 to 4", "2024-01-01 to 2024-01-05"] and len(found["keys"]) == 21 * 19
    assert ["no value", "2024-01-01 to 2024-01-05"] in found["keys"]
    where = [{"attribute": "x", "first": 0, "last": 4}, {"attribute": "day", "last": "2024-01-05"}]
    cells = chart(book, by=["x", "day"], where=where)
    assert len(cells["keys"]) == 25 and cells["notes"] == []
    assert found["values"][0] == sum(cells["values"])
    assert found["stderr"][0] == pytest.approx(cells["stderr"][0] * sqrt(25), rel=1e-6)
    again = book.release.query(found["sql"])
    assert again.rows[0][-1].value == found["values"][0]


def test_filters_say_what_is_cut_into_bins(book):
    found = chart(book, by=["day", "code"], where=[{"attribute": "day", "first": "2024-01-06"}])
    assert found["keys"][0] == ["2024-01-06 to 2024-01-10", "c0"]  # 86 days of 50 codes
    assert chart(book, by=["x"], interval="guaranteed")["notes"][0].startswith("guaranteed")


def test_what_has_no_order_is_refused_with_what_to_do(book):
    with pytest.raises(Refusal, match="up to 4,096") as refused:
        from sfumato.serve.web.charts import coarser

        coarser(Chart(by=["code"]), book, 10_000)
    assert "filters" in refused.value.what_to_do


def test_a_last_bin_of_fewer_cells_is_said_to_be_cut_short(book):
    """91 days in bins of 5: the last has one. Cells as they are, of which none is shorter, have no such mark."""
    found = chart(book, by=["x", "day"])
    assert found["cut_short"] == {"day": [["2024-03-31", "1 of 5"]]} and found["keys"][-1][1] == "2024-03-31"
    assert chart(book, by=["day"])["cut_short"] == {}


def test_weeks_that_the_bounds_cut_are_said_to_be_cut_short(tmp_path):
    days = {"type": "date", "lower": "2024-01-03", "upper": "2024-01-22", "by": "week"}
    schema = sf.Schema.from_dict({**SCHEMA, "attributes": {"day": days}})
    made = sf.release(
        pa.table({"day": pa.array(np.datetime64("2024-01-01") + np.arange(30))}), schema, 1, ledger=tmp_path / "ledger"
    )
    (shelved,) = Shelf.of([("weeks.sfumato", made)]).books
    assert chart(shelved, by=["day"])["cut_short"] == {
        "day": [["2024-W01", "5 of 7 days"], ["2024-W04", "1 of 7 days"]]
    }
