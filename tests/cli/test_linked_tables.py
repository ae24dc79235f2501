"""Linked tables on the command line: planned, released, described, drawn from, and opened as a database."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hospital import AGE, ILLS, REGIONS, rows
from pyarrow import csv
from running import sfumato

from sfumato.schema.linked import LinkedSchema

REGION = {"region": {"type": "category", "values": list(REGIONS)}}
TABLES = {
    "persons": {"source": "persons.csv", "unit": "household_id", "key": "person_id", "attributes": {**AGE, **REGION}},
    "visits": {
        "source": "visits.csv",
        "belongs_to": "persons",
        "by": "person_id",
        "at_most": 6,
        "share": 3,
        "with_parents": ["age", "region"],
        "attributes": {"ill": {"type": "category", "values": list(ILLS)}},
    },
}
SCHEMA = {
    "dataset": "hospital",
    "privacy_unit": {"column": "household_id", "contributions": 4},
    "budget": {"epsilon": 8},
    "tables": TABLES,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hospital.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    table = rows(400)
    csv.write_csv(table["persons"].drop_columns(["visits"]), tmp_path / "persons.csv")
    csv.write_csv(table["visits"].select(["person_id", "ill"]), tmp_path / "visits.csv")
    return tmp_path


def test_from_plan_to_rows(folder):
    plan = json.loads(
        sfumato("plan", "--schema", "hospital.yaml", "--epsilon", "4", "--mechanism", "cells", "--json").stdout
    )
    assert {name: one["epsilon"] for name, one in plan["tables"].items()} == {"persons": "1", "visits": "3"}
    needed = sfumato("plan", "--schema", "hospital.yaml", "--error", "100", "--mechanism", "cells").stdout
    assert "All tables together need epsilon" in needed and "0.25 of the budget, at most 4 rows of a unit" in needed
    made = sfumato(
        *("release", ".", "--schema", "hospital.yaml", "--epsilon", "4", "--mechanism", "cells", "-o", "h.sfumato")
    )
    assert made.returncode == 0, made.stderr
    about = json.loads(sfumato("info", "h.sfumato", "--json").stdout)
    assert about["guarantee"]["epsilon"] == "4" and list(about["tables"]) == ["persons", "visits"]
    assert "visits   persons     person_id" in sfumato("info", "h.sfumato").stdout
    asked = "SELECT COUNT(*) FROM visits JOIN persons USING (person_id) WHERE age >= 60"
    assert sfumato("query", "h.sfumato", asked, "-q").returncode == 0
    drawn = sfumato("sample", "h.sfumato", "-o", "rows", "--seed", "1")
    assert drawn.returncode == 0, drawn.stderr
    persons, visits = (csv.read_csv(folder / "rows" / f"{name}.csv") for name in ("persons", "visits"))
    assert set(visits.column("person_id").to_pylist()) <= set(persons.column("person_id").to_pylist())
    assert sfumato("sample", "h.sfumato", "-o", "rows-{}.parquet").returncode == 0
    assert (folder / "rows-visits.parquet").exists()
    for wrong in (("-o", "rows.csv"), ("-o", "rows", "--where", "age < 3"), ("-o", "h.sfumato")):
        refused = sfumato("sample", "h.sfumato", *wrong)
        assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert sfumato("report", "h.sfumato", "-o", "r.html").returncode == 1
    assert sfumato("report", "h.sfumato", "--table", "visits", "-o", "r.html").returncode == 0
    told = sfumato("certificate", "h.sfumato").stdout
    assert "at most 4 of persons, 24 of visits" in told and "entry 1" in told


def test_sqlalchemy_sees_both_tables(folder):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    common = ("--schema", "hospital.yaml", "--epsilon", "4", "--mechanism", "cells", "-o", "h.sfumato", "-q")
    assert sfumato("release", ".", *common).returncode == 0
    sqlalchemy.dialects.registry.register("sfumato", "sfumato.dbapi.sqlalchemy_dialect", "SfumatoDialect")
    engine = sqlalchemy.create_engine(f"sfumato:///{folder / 'h.sfumato'}")
    seen = sqlalchemy.inspect(engine)
    assert seen.get_table_names() == ["persons", "visits"]
    assert [one["name"] for one in seen.get_columns("visits")] == ["ill", "age", "region"]
    engine.dispose()


def test_the_schema_of_the_page_is_one():
    page = (Path(__file__).parents[2] / "docs" / "linked.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    stated = LinkedSchema.from_dict(yaml.safe_load(text))
    assert stated.tables["visits"].limit == 72 and stated.tables["visits"].with_parents == ("age", "region")
