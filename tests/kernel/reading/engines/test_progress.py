"""How far a reading is, for whoever waits; nothing is asked where nobody does."""

from __future__ import annotations

import pytest
from waiting import wait_until

from sfumato.kernel.reading import engines as progress
from sfumato.kernel.reading.engines import followed, is_watched, tell, watched
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema


def test_nobody_is_told_unless_somebody_watches():
    def never() -> float:
        raise AssertionError

    assert not is_watched()
    with followed(never):
        tell(0.5)


def test_an_engine_is_asked_now_and_then(monkeypatch):
    monkeypatch.setattr(progress, "OFTEN", 0.001)
    told, shares = list[float](), iter([None, 0.25, 2.0])

    def share() -> float | None:
        return next(shares)  # and then an error, which is nothing to stop for

    with watched(told.append), followed(share):
        wait_until(lambda: len(told) >= 2)
    assert told == [0.25, 1.0] and not is_watched()


def test_duckdb_tells_how_far_it_is(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(progress, "OFTEN", 0.001)
    path = tmp_path / "t.parquet"
    duckdb.sql("SELECT range % 100 AS x FROM range(3_000_000)").write_parquet(str(path), row_group_size=100_000)
    facts = {"type": "integer", "lower": 0, "upper": 99, "bins": 7}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": facts}})
    told: list[float] = []
    for _ in range(100):  # one reading is over in a moment, and may be over before anybody has looked
        with watched(told.append):
            assert open_table(path).aggregate(schema, 1).counts.sum() == 3_000_000
        if told:
            break
    assert told and told == sorted(told) and 0 < told[0] <= told[-1] <= 1


def test_the_engine_itself_prints_nothing(tmp_path, capfd):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql("SELECT range % 10 AS x FROM range(10)").write_parquet(str(path))
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "boolean"}}})
    with watched(lambda share: None):
        open_table(path).aggregate(schema, 1)
    assert capfd.readouterr() == ("", "")
