"""Towns in regions in countries: groups of values in the schema are columns in SQL."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from running import sfumato

TOWNS = {"Aa": "North", "Bergen": "North", "Calw": "South", "Dorn": "East"}
LANDS = {"North": "Land", "South": "Land", "East": "Reich"}
SCHEMA = """
dataset: people
privacy_unit: row
budget: {epsilon: 1000000}
attributes:
  town: {type: category, values: {file: towns.csv, column: town, groups: [region, country]}, missing: keep}
  age: {type: integer, lower: 0, upper: 3}
"""
ROWS = [([*TOWNS, ""][n * 7 // 4 % 5], n % 4) for n in range(400)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    listed = "".join(f"{town},{region},{LANDS[region]}\n" for town, region in TOWNS.items())
    Path("towns.csv").write_text("town,region,country\n" + listed)
    Path("s.yaml").write_text(SCHEMA)
    Path("t.csv").write_text("town,age\n" + "".join(f"{town},{age}\n" for town, age in ROWS))
    return tmp_path


def release(mechanism: str = "cells") -> None:
    options = ("--mechanism", mechanism, "--epsilon", "5000", "-o", "r.sfumato")
    made = sfumato("release", "t.csv", "--schema", "s.yaml", *options)
    assert made.returncode == 0, made.stderr


def truth() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (town VARCHAR, region VARCHAR, country VARCHAR, age INT)")
    for town, age in ROWS:
        region = TOWNS.get(town)
        connection.execute("INSERT INTO people VALUES (?, ?, ?, ?)", [town or None, region, LANDS.get(region), age])
    return connection


@pytest.mark.parametrize("mechanism", ["cells", "sfumato", "hierarchical", "margins"])
def test_groups_are_columns(folder, mechanism):
    release(mechanism)
    known = truth()
    for query in (
        "SELECT region, COUNT(*) AS n FROM people GROUP BY region",
        "SELECT country, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY 1 ORDER BY 1",
        "SELECT country, region, COUNT(*) AS n FROM people GROUP BY country, region",
        "SELECT region, age, COUNT(*) AS n FROM people WHERE country = 'Land' GROUP BY region, age",
        "SELECT region, town, COUNT(*) AS n FROM people WHERE region IS NOT NULL GROUP BY ALL",
        "SELECT COUNT(*) AS n FROM people WHERE region IN ('North', 'East') AND town <> 'Aa'",
        "SELECT COUNT(*) AS n FROM people WHERE NOT region = 'North'",
        "SELECT COUNT(region) AS n FROM people",
    ):
        run = sfumato("query", "r.sfumato", query, "--format", "json")
        assert run.returncode == 0, (query, run.stderr)
        rows = json.loads(run.stdout)
        keys = [name for name in rows[0] if not name.startswith("n")]
        found = {tuple(row[key] for key in keys): round(row["n"]) for row in rows}
        wanted = {row[:-1]: row[-1] for row in known.execute(query).fetchall()}
        assert {key: n for key, n in found.items() if n} == wanted, query


def test_a_plan_and_a_workload_take_groups(folder):
    Path("w.sql").write_text("SELECT region, COUNT(*) FROM people GROUP BY region")
    plan = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--workload", "w.sql")
    assert plan.returncode == 0, plan.stderr


def test_a_group_is_asked_for_by_its_name(folder):
    release()
    run = sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM people WHERE region = 'Nord'")
    assert run.returncode != 0 and "region has no value 'Nord'; it has 'North', 'South', 'East'" in run.stderr
    run = sfumato("query", "r.sfumato", "SELECT SUM(region) FROM people")
    assert run.returncode != 0 and "region" in run.stderr and "internal" not in run.stderr
    run = sfumato("query", "r.sfumato", "SELECT region, COUNT(*) FROM people")
    assert run.returncode != 0 and "region is named but not in GROUP BY" in run.stderr
