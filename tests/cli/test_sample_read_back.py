"""A sample is a table like the one that the schema describes: released by it, it has the counts that it has."""

from __future__ import annotations

import csv
import random
from datetime import datetime, timedelta

import duckdb
import pytest
import yaml
from running import sfumato

import sfumato as sf
from sfumato.kernel.sampling.entropy import TestingEntropy

SCHEMA = {
    "dataset": "visits",
    "privacy_unit": {"column": "patient", "contributions": 2},
    "budget": {"epsilon": 10**6},
    "file": {"delimiter": ";", "decimal": ",", "encoding": "cp1252", "dates": "%d.%m.%Y %H:%M"},
    "attributes": {
        "weekday": {"type": "date", "by": "weekday", "column": "arrived"},
        "hour": {"type": "date", "by": "hour_of_day", "column": "arrived"},
        "ward": {"type": "category", "values": ["Süd", "Nord"], "map": {"n": "Nord"}, "other": True},
        "urgent": {"type": "boolean", "map": {"ja": True, "nein": False}, "missing": "keep"},
    },
    "measures": {"charge": {"lower": 0, "upper": 500, "step": "0.5"}},
}
WEEKDAYS = "SELECT weekday, COUNT(*) AS n, SUM(charge) AS s FROM visits GROUP BY weekday"
BOTH = "SELECT hour, ward, COUNT(*) AS n FROM visits GROUP BY hour, ward"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A messy table, and a release of it with next to no noise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", "ledger")
    draw = random.Random(1)
    with (tmp_path / "visits.csv").open("w", encoding="cp1252", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["patient", "arrived", "ward", "urgent", "charge"])
        for patient in range(2000):
            at = datetime(2024, 1, 1) + timedelta(minutes=draw.randrange(60 * 24 * 90))
            charge = f"{draw.randrange(1000) / 2:.2f}".replace(".", ",")
            ward, urgent = draw.choice(["Süd", "n", "Ost"]), draw.choice(["ja", "nein", ""])
            rows.writerow([patient, at.strftime("%d.%m.%Y %H:%M"), ward, urgent, charge])
    (tmp_path / "visits.yaml").write_text(yaml.safe_dump(SCHEMA, allow_unicode=True, sort_keys=False))
    done = sfumato("release", "visits.csv", "--schema", "visits.yaml", "--epsilon", "300000", "-o", "v.sfumato")
    assert done.returncode == 0, done.stderr
    return tmp_path


def released(path):
    """The answers of an exact release of a sample: for each group, rows and sums to the nearest step."""
    made = sf.release(path, "visits.yaml", epsilon=300_000, mechanism="cells", entropy=TestingEntropy(len(path)))
    by_day = {row["weekday"]: (round(row["n"]), round(2 * row["s"]) / 2) for row in made.query(WEEKDAYS).records()}
    return by_day, {(row["hour"], row["ward"]): round(row["n"]) for row in made.query(BOTH).records()}


def test_a_release_of_a_sample_has_the_counts_of_the_sample(folder):
    for name in ("rows.csv", "rows.parquet"):
        run = sfumato("sample", "v.sfumato", "--rows", "1500", "--seed", "3", "-o", name)
        assert run.returncode == 0, run.stderr
    rows = duckdb.read_parquet("rows.parquet")  # noqa: F841
    days = duckdb.sql("SELECT dayname(arrived), COUNT(*), SUM(charge) FROM rows GROUP BY ALL").fetchall()
    both = duckdb.sql("SELECT hour(arrived), ward, COUNT(*) FROM rows GROUP BY ALL").fetchall()
    for name in ("rows.csv", "rows.parquet"):
        by_day, by_both = released(name)
        assert by_day == {day: (count, total) for day, count, total in days} and len(by_day) == 7
        assert {key: count for key, count in by_both.items() if count} == {tuple(key): count for *key, count in both}


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_sample_passes_the_check(folder, name):
    assert sfumato("sample", "v.sfumato", "--rows", "1500", "--seed", "3", "-o", name).returncode == 0
    run = sfumato("check", name, "--schema", "visits.yaml", "--even-if-not-a-terminal")
    assert run.returncode == 0 and "1,500 rows read." in run.stdout, run.stderr
    assert "A release would count 1,500 rows." in run.stdout and "0 rows over the limit" in run.stdout


def test_a_sample_of_a_semicolon_table_has_semicolons_and_decimal_commas(folder):
    assert sfumato("sample", "v.sfumato", "--rows", "50", "--seed", "3", "-o", "rows.csv").returncode == 0
    lines = (folder / "rows.csv").read_text(encoding="cp1252").splitlines()
    assert lines[0] == "patient;arrived;ward;urgent;charge" and lines[1].startswith("1;0") and len(lines) == 51
    assert any(",5" in line and "Süd" in line for line in lines)


def test_a_sample_is_judged_as_it_is_read_by_a_release(folder):
    """Rows of a sample, as it was written, fall into the cells that a release of the same file counts them in."""
    import numpy as np

    from sfumato.releases.rows.coding import codes_in, read_rows
    from sfumato.schema import Schema

    schema = Schema.load("visits.yaml")
    for path in ("s.csv", "s.parquet"):
        assert sfumato("sample", "v.sfumato", "--rows", "800", "-o", path).returncode == 0
        codes = codes_in(read_rows(path, schema), schema, schema.domain.names)
        cells = np.ravel_multi_index([codes[name] for name in schema.domain.names], schema.domain.shape)
        made = sf.release(path, "visits.yaml", epsilon=100_000, mechanism="cells", entropy=TestingEntropy(len(path)))
        assert np.array_equal(np.rint(made.content.cells()), np.bincount(cells, minlength=schema.domain.size))


def test_a_sample_feeds_a_published_model(folder):
    how = (
        "--mechanism",
        "sq",
        "--with",
        "target=urgent",
        "--with",
        "features=weekday,hour,ward",
        "--epsilon",
        "100000",
    )
    done = sfumato("release", "visits.csv", "--schema", "visits.yaml", *how, "-o", "m.sfumato")
    assert done.returncode == 0, done.stderr
    assert sfumato("sample", "v.sfumato", "--rows", "50", "-o", "s.csv").returncode == 0
    told = sfumato("predict", "m.sfumato", "s.csv")
    assert told.returncode == 0, told.stderr
    rows = list(csv.DictReader(told.stdout.splitlines()))
    assert len(rows) == 50 and all(0 < float(row["probability"]) <= 1 for row in rows)
    assert {"arrived", "predicted", "probability_low", "probability_high"} <= rows[0].keys()
