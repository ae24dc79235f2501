"""sfumato discover on the command line: from a draft with blanks to a schema, a dry run, JSON and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from running import sfumato

from sfumato.kernel.ledger.ledger import Ledger
from sfumato.schema import Schema


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    rows = zip(rng.integers(0, 90, 4000), rng.choice(["Aa", "Ulm"], 4000), strict=True)
    Path("t.csv").write_text("age;town\n" + "".join(f"{age};{town}\n" for age, town in rows))
    done = sfumato("init", "t.csv", "--delimiter", ";", "-o", "draft.yaml", "--unit", "row", "--epsilon", "3")
    assert done.returncode == 0 and "can be bought from the table" in done.stdout
    assert "sfumato discover t.csv --schema draft.yaml" in done.stdout
    return tmp_path


def look(*more: str, epsilon: str = "2"):
    return sfumato("discover", "t.csv", "--schema", "draft.yaml", "--epsilon", epsilon, *more)


def test_a_draft_becomes_a_schema_that_a_release_takes(folder):
    done = look("--delta", "1e-6", "-o", "t.yaml")
    assert done.returncode == 0, done.stderr
    assert "It cost epsilon 2 and delta 0.000001" in done.stdout and "of rows lie inside" in done.stdout
    schema = Schema.load("t.yaml")
    assert schema.attributes["town"].listed == ("Aa", "Ulm") and schema.attributes["age"].upper <= 100
    made = sfumato("release", "t.csv", "--schema", "t.yaml", "--epsilon", "1", "-o", "t.sfumato")
    assert made.returncode == 0 and "were bought before, with epsilon 2" in made.stdout
    assert "were bought before" in sfumato("info", "t.sfumato").stdout
    assert "with this release" in sfumato("certificate", "t.sfumato").stdout


def test_a_column_of_text_whose_values_are_numbers_is_named(folder):
    stated = "dataset: t\nprivacy_unit: row\nbudget: {epsilon: 3, delta: 1e-6}\nfile: {delimiter: ';'}\nattributes:\n"
    Path("draft.yaml").write_text(
        stated + "  age:\n    type: category\n    values:\n  town: {type: category, values: [Aa]}\n"
    )
    done = look("--delta", "1e-6", "-o", "t.yaml", epsilon="3")
    assert done.returncode == 0, done.stderr
    assert (
        "All values found of age are whole numbers, from " in done.stdout and "write its type as integer" in done.stdout
    )
    assert "values found of town" not in done.stdout


def test_a_dry_run_says_what_would_be_asked_and_paid(folder):
    done = look("--delta", "1e-6", "--dry-run", "--share", "town=3")
    assert done.returncode == 0 and "nothing was spent" in done.stdout
    assert [line.split()[-2:] for line in done.stdout.splitlines() if line.startswith("town")] == [["1.5", "0.000001"]]
    facts = json.loads(look("--delta", "1e-6", "--dry-run", "--json").stdout)
    assert [one["asks"] for one in facts["looks"]] == ["bounds", "values"]
    assert facts["would_charge"] == {"epsilon": "2", "delta": "0.000001"}
    assert Ledger().entries("t") == []


def test_json_has_what_was_found_and_what_is_left(folder):
    facts = json.loads(look("--column", "age", "-o", "t.yaml", "--json").stdout)
    assert facts["found"][0]["found"]["attributes.age.lower"] == 0 and facts["left_blank"] == ["attributes.town.values"]
    assert facts["charged"] == {"epsilon": "2", "delta": "0"} and facts["entry"] == 1


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["-o", "t.yaml"], 1, "needs a delta"),
        (["--delta", "1e-6"], 2, "-o FILE"),
        (["--delta", "1e-6", "-o", "nowhere/t.yaml"], 1, "cannot be written"),
        (["--delta", "1e-6", "-o", "t.yaml", "--column", "x"], 1, "no blank called 'x'"),
        (["--delta", "1e-6", "-o", "t.yaml", "--share", "town"], 2, "COLUMN=NUMBER"),
        (["--delta", "1e-6", "-o", "t.yaml", "--share", "town=-1"], 1, "greater than 0"),
        (["--delta", "2", "-o", "t.yaml"], 1, "delta must lie between"),
    ],
)
def test_refusals_are_one_line_and_spend_nothing(folder, options, code, said):
    done = look(*options)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr
    assert Ledger().entries("t") == []


def test_the_same_command_twice_is_refused_in_a_script(folder):
    assert look("--delta", "1e-6", "-o", "t.yaml", epsilon="1").returncode == 0
    done = look("--delta", "1e-6", "-o", "t.yaml", epsilon="1")
    assert done.returncode == 1 and "--again" in done.stderr
