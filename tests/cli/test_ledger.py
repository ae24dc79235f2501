"""sfumato ledger, and what a release says of ledgers: promises told apart, new ledgers told of, required ones kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from running import sfumato

from sfumato.kernel.ledger.file import user_name
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.reservation import Wanted
from sfumato.kernel.opening import unit_of
from sfumato.schema import Schema

SCHEMA = """
dataset: census
privacy_unit: {column: person_id, contributions: 3}
budget: {epsilon: 3}
attributes:
  age: {type: integer, lower: 0, upper: 9}
"""
BY_ROW = SCHEMA.replace("{column: person_id, contributions: 3}", "row")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCHEMA)
    (tmp_path / "row.yaml").write_text(BY_ROW)
    (tmp_path / "t.csv").write_text("person_id,age\n" + "".join(f"{n},{n % 10}\n" for n in range(50)))
    return tmp_path


def release(*more: str, schema: str = "s.yaml", out: str = "r.sfumato") -> subprocess.CompletedProcess[str]:
    return sfumato("release", "t.csv", "--schema", schema, "--epsilon", "1", "--mechanism", "cells", "-o", out, *more)


def refused(run: subprocess.CompletedProcess[str], *words: str) -> None:
    """One clear line on stderr, exit code 1, nothing on stdout and no release."""
    assert run.returncode == 1 and run.stdout == "" and not Path("r.sfumato").exists(), run.stderr
    assert run.stderr.startswith("sfumato: ") and run.stderr.count("\n") == 1 and "internal error" not in run.stderr
    for word in words:
        assert word in run.stderr, run.stderr


def test_two_promises_are_told_apart(folder):
    assert release(out="1.sfumato").returncode == 0
    shown = sfumato("ledger", "show").stdout
    assert "census: epsilon 1 to the rows of any one person_id (at most 3 rows each).\n" in shown
    assert "add up to one" not in shown
    refused(release(schema="row.yaml"), "any one row", "person_id", "--another-unit")
    made = release("--another-unit", schema="row.yaml", out="2.sfumato")
    assert made.returncode == 0, made.stderr
    words = (
        "epsilon 1 to the rows of any one person_id (at most 3 rows each), epsilon 1 to any one row; "
        "these are two promises and do not add up to one"
    )
    for said in (made.stdout, sfumato("ledger", "show").stdout, sfumato("ledger", "show", "census").stdout):
        assert words in said
    assert release("--again", schema="row.yaml", out="3.sfumato").returncode == 0  # known by now
    shown = sfumato("ledger", "show", "census").stdout.splitlines()
    entries = [line.split() for line in shown if " cells " in line]
    assert [line[-2:] for line in entries] == [["person_id", "3"], ["row", "1"], ["row", "1"]]


def test_a_new_ledger_is_told_of_and_no_error(folder):
    for place in ("one.sqlite", "two.sqlite"):
        made = release("--ledger", place, out=f"{place}.sfumato")
        assert made.returncode == 0
        (note,) = made.stderr.splitlines()
        assert note.startswith(f"NOTE: a NEW ledger was made at {folder.resolve() / place} ")
        assert "no earlier release" in note and "restore" in note and "--ledger" in note
        assert release("--ledger", place, "--again", out=f"{place}.again").stderr == ""
    made = sfumato("ledger", "set", "census", "--epsilon", "3", "--ledger", "three.sqlite")
    assert made.returncode == 0 and made.stderr.startswith("NOTE: a NEW ledger was made at ")
    assert sfumato("ledger", "set", "census", "--epsilon", "4", "--ledger", "three.sqlite").stderr == ""


@pytest.mark.parametrize("filters", ["error", "ignore"])
def test_a_new_ledger_is_told_of_whatever_python_does_with_warnings(folder, filters):
    command = [sys.executable, "-m", "sfumato", "ledger", "set", "census", "--epsilon", "3"]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONWARNINGS": filters}
    )
    assert run.returncode == 0 and run.stderr.startswith("NOTE: "), run.stderr
    assert run.stderr.count("\n") == 1


def test_the_demo_is_silent_about_its_own_ledger(folder, own_ledger):
    run = sfumato("demo", "--folder", "d")
    assert run.returncode == 0 and run.stderr == "" and not own_ledger.exists()


def test_a_required_ledger_that_is_missing(folder, own_ledger):
    refused(release("--require-ledger"), "a ledger is required", str(own_ledger), "--ledger")
    assert not own_ledger.exists()
    assert sfumato("ledger", "set", "census", "--epsilon", "3").returncode == 0
    assert release("--require-ledger").returncode == 0


def test_a_ledger_that_the_schema_names(folder, own_ledger):
    assert sfumato("ledger", "set", "census", "--epsilon", "3").returncode == 0
    (identity,) = set(re.findall("[0-9a-f]{32}", sfumato("ledger", "show").stdout))
    assert identity == Ledger().identity()
    Path("s.yaml").write_text(SCHEMA + f'ledger: "{identity}"\n')
    refused(release("--ledger", "other.sqlite"), f"the schema requires the ledger {identity}", "other.sqlite")
    assert not Path("other.sqlite").exists()
    own_ledger.unlink()
    refused(release(), f"the schema requires the ledger {identity}")
    assert not own_ledger.exists()


def test_the_history_of_a_total(folder):
    assert release().returncode == 0
    said = sfumato("ledger", "set", "census", "--epsilon", "4", "--delta", "1e-6", "--reason", "[/bold] as agreed")
    assert said.returncode == 0
    assert sfumato("ledger", "set", "census", "--epsilon", "5").returncode == 0
    shown = [line for line in sfumato("ledger", "show", "census").stdout.splitlines() if line.startswith("Total ")]
    when = r" at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, reason: "
    by = f": by {re.escape(user_name())}{when}"
    patterns = (
        rf"Total epsilon 3{by}stated in the schema\.",
        rf"Total epsilon 4 and delta 0\.000001 instead of epsilon 3{by}\[/bold\] as agreed\.",
        rf"Total epsilon 5 and delta 0\.000001 instead of epsilon 4 and delta 0\.000001{by}not stated\.",
    )
    assert len(shown) == len(patterns)
    for pattern, line in zip(patterns, shown, strict=True):
        assert re.fullmatch(pattern, line), line
    assert "Total epsilon" not in sfumato("ledger", "show").stdout


def test_a_reason_that_is_none(folder, own_ledger):
    refused(sfumato("ledger", "set", "census", "--epsilon", "4", "--reason", "x" * 201), "1 to 200 printable")
    refused(sfumato("ledger", "set", "census", "--epsilon", "4", "--reason", "a\tb"), "1 to 200 printable")
    assert not own_ledger.exists()


def test_budgets_in_rho_from_schema_to_certificate(folder):
    Path("s.yaml").write_text(SCHEMA.replace("{epsilon: 3}", "{rho: 0.5}"))
    made = ["release", "t.csv", "--schema", "s.yaml", "--mechanism", "hierarchical", "-o"]
    first = sfumato(*made, "1.sfumato", "--rho", "0.3", "--delta", "1e-9")
    assert first.returncode == 0, first.stderr
    assert "from rho 0.3 of zero-concentrated privacy" in first.stdout
    assert "rho 0.3 of 0.5 spent" in first.stdout and "rho 0.2 left" in first.stdout
    shown = sfumato("ledger", "show", "census").stdout
    assert "rho 0.5" in shown and "rho 0.2" in shown and "Total rho 0.5" in shown
    refused(sfumato(*made, "r.sfumato", "--rho", "0.21"), "asked for rho 0.21", "0.2 is left", "--rho 0.51")
    certificate = sfumato("certificate", "1.sfumato").stdout
    assert "rho 0.5, as the schema states it" in certificate
    pure = sfumato("release", "t.csv", "--schema", "s.yaml", "--mechanism", "cells", "--rho", "0.2", "-o", "2.sfumato")
    assert pure.returncode == 0 and "rho 0.5 of 0.5 spent" in pure.stdout, pure.stdout + pure.stderr


def test_a_plan_in_rho(folder):
    plan = sfumato("plan", "--schema", "s.yaml", "--rho", "0.1", "--delta", "1e-9")
    assert plan.returncode == 0, plan.stderr
    assert "rho 0.1, which is epsilon" in plan.stdout
    assert "give a delta now" in sfumato("plan", "--schema", "s.yaml", "--epsilon", "1").stdout


@pytest.mark.parametrize(
    "command", [["release", "t.csv", "--schema", "s.yaml", "-o", "r"], ["ledger", "set", "census"]]
)
@pytest.mark.parametrize(
    ("amounts", "word"), [([], "give --epsilon or --rho"), (["--epsilon", "1", "--rho", "1"], "give one of them")]
)
def test_one_amount_and_no_more(folder, command, amounts, word):
    run = sfumato(*command, *amounts)
    assert run.returncode == 2 and word in run.stderr


@pytest.mark.parametrize("rho", ["0", "-1", "nan", "1e999", "x", "1e-320", "2000000"])
def test_rhos_that_are_none(folder, rho):
    refused(sfumato("release", "t.csv", "--schema", "s.yaml", "--rho", rho, "-o", "r.sfumato"), "rho")
    run = sfumato("ledger", "set", "census", "--rho", rho)
    assert run.returncode == 1 and "rho" in run.stderr and run.stderr.count("\n") == 1


def test_a_schema_says_epsilon_or_rho(folder):
    for budget in ("{}", "{epsilon: 1, rho: 1}", "{delta: 1e-6}"):
        Path("s.yaml").write_text(SCHEMA.replace("{epsilon: 3}", budget))
        refused(release(), "either epsilon", "rho")


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("person in a month", "each period is an account of its own"),
        (
            "person in at most 2 months",
            "the sum of the 2 costliest of 3; a period without a part may spend epsilon 0.5",
        ),
        ("person for ever", "3 of 9 planned periods have parts"),
    ],
)
def test_periods_of_a_series_are_told(folder, unit, told):
    series = {"period": "month", "unit": unit, "periods": 9}
    whose = {"column": "who", "contributions": 1}
    schema = Schema(dataset="v", privacy_unit=whose, attributes={"a": {"type": "boolean"}}, series=series)
    ledger = Ledger(folder / "own.sqlite")
    for place, cost in enumerate(("0.3", "0.5", "0.1"), 1):
        wanted = Wanted("v", cost, 1, "cells", unit_of(schema), 1, period=f"2026-0{place}")
        ledger.reserve(wanted, f"{place:032x}")
    shown = sfumato("ledger", "show", "v", "--ledger", str(ledger.path)).stdout
    assert told in " ".join(shown.split()) and shown.count("2026-02") == 1 + (unit != "person for ever")
    given = json.loads(sfumato("ledger", "show", "v", "--ledger", str(ledger.path), "--json").stdout)
    assert [entry["period"] for entry in given["entries"]] == ["2026-01", "2026-02", "2026-03"]
    assert len(given["datasets"][0]["periods"]) == (0 if unit == "person for ever" else 3)


def test_a_budget_of_a_year_is_told_by_the_year(folder):
    whose, months = {"column": "who", "contributions": 1}, {"period": "month", "unit": "person in a month"}
    schema = Schema(
        dataset="v",
        privacy_unit=whose,
        attributes={"a": {"type": "boolean"}},
        series=months,
        budget={"epsilon": 2, "per": "year"},
    )
    ledger = Ledger(folder / "own.sqlite")
    for place, period in enumerate(("2025-12", "2026-01", "2026-02"), 1):
        ledger.reserve(Wanted("v", "0.5", 2, "cells", unit_of(schema), 1, period=period), f"{place:032x}")
    shown = sfumato("ledger", "show", "v", "--ledger", str(ledger.path)).stdout
    told = (
        "each calendar year is an account of its own, to which its periods add up, and spent is that of the costliest"
    )
    assert f"{told}; 2026 may spend epsilon 1 more, a year without a part 2." in shown
    assert "each period" not in shown and [line.split()[:2] for line in shown.splitlines() if line[:3] == "202"] == [
        ["2025", "1"],
        ["2026", "2"],
    ]
    given = json.loads(sfumato("ledger", "show", "v", "--ledger", str(ledger.path), "--json").stdout)
    assert [one["period"] for one in given["datasets"][0]["periods"]] == ["2025", "2026"]


EXACT = BY_ROW + "invariants: [[], age]\n"


def test_exact_counts_are_refused_unless_they_are_meant(folder):
    (folder / "exact.yaml").write_text(EXACT)
    refused(release(schema="exact.yaml"), "exact counts of all rows, and rows by age", "--even-though-exact")
    refused(release("--dry-run", schema="exact.yaml"), "--even-though-exact")
    refused(release("--even-though-exact", schema="row.yaml"), "is for a schema with invariants")
    refused(release("--even-though-exact"), "is for a schema with invariants")
    assert "Nothing has been spent" in sfumato("ledger", "show").stdout
    plan = sfumato("plan", "--schema", "exact.yaml", "--epsilon", "1", "--explain").stdout
    assert plan.startswith("EXACT COUNTS of all rows, and rows by age would be published too, protected by nothing")
    assert "--even-though-exact" in plan and "family left out" not in plan and "whether one row is in" not in plan
    told = json.loads(sfumato("plan", "--schema", "exact.yaml", "--epsilon", "1", "--json").stdout)
    assert told["exact_counts"] == "all rows, and rows by age"


def test_exact_counts_stay_in_the_ledger_and_come_first_in_the_promise(folder):
    (folder / "exact.yaml").write_text(EXACT)
    made = release("--even-though-exact", schema="exact.yaml")
    assert made.returncode == 0, made.stderr
    assert release(schema="row.yaml", out="2.sfumato").returncode == 0  # and a usual one after it
    words = "EXACT COUNTS of all rows, and rows by age in the table are published in this file and protected by nothing"
    info = sfumato("info", "r.sfumato").stdout.splitlines()
    assert info[1].startswith(words) and any(line.startswith(words) for line in made.stdout.splitlines())
    assert not any("EXACT" in line for line in sfumato("info", "2.sfumato").stdout.splitlines())
    shown = "census: entry 1 has exact counts of all rows, and rows by age beside it, protected by nothing.\n"
    assert shown in sfumato("ledger", "show").stdout and shown in sfumato("ledger", "show", "census").stdout
    entries = json.loads(sfumato("ledger", "show", "census", "--json").stdout)["entries"]
    assert [one["exact_counts"] for one in entries] == [[[], ["age"]], []]
    assert "45 to 45" in sfumato("query", "r.sfumato", "SELECT COUNT(*) AS n FROM census WHERE age < 9").stdout


def test_a_paid_look_takes_no_exact_counts(folder):
    (folder / "exact.yaml").write_text(EXACT.replace("lower: 0, upper: 9", "lower: , upper: "))
    looked = sfumato("discover", "t.csv", "--schema", "exact.yaml", "--epsilon", "1", "-o", "found.yaml")
    assert looked.returncode == 1 and looked.stderr.count("\n") == 1 and "invariants" in looked.stderr, looked.stderr
    assert not Path("found.yaml").exists() and "Nothing has been spent" in sfumato("ledger", "show").stdout
