"""sfumato plan, as a user meets it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from running import sfumato

from sfumato.cli.demo import SCHEMA as CENSUS
from sfumato.models import MECHANISMS

SCHEMA = """
dataset: people
privacy_unit: row
attributes:
  age: {type: integer, lower: 0, upper: 49}
  sex: {type: category, values: [F, M]}
expected_rows: 5000
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCHEMA)
    return tmp_path


def plan(*arguments: str, schema: str = "s.yaml") -> subprocess.CompletedProcess[str]:
    return sfumato("plan", "--schema", schema, *arguments)


def refused(run: subprocess.CompletedProcess[str], *words: str) -> None:
    """One clear line on stderr, exit code 1, nothing on stdout."""
    assert run.returncode == 1 and run.stdout == "", run.stderr
    assert run.stderr.startswith("sfumato: ") and run.stderr.count("\n") == 1 and "internal error" not in run.stderr
    for word in words:
        assert word in run.stderr


@pytest.mark.full
def test_the_demo_census_is_planned_for_every_mechanism(folder):
    Path("census.yaml").write_text(CENSUS)
    run = plan("--epsilon", "0.5", "--all", schema="census.yaml")
    assert run.returncode == 0, run.stderr
    for name in MECHANISMS:
        assert re.search(rf"^(.*, )?{name}[ ,:]", run.stdout, re.M), name
    for words in ("auto would take", "What it cannot know", "theorem 5.2", "AVG(income)", "nothing was spent"):
        assert words in run.stdout
    table = run.stdout[run.stdout.index("\nmechanism ") + 1 :].splitlines()
    assert table[0].endswith("how") and set(table[1]) == {"-"} and table[2].endswith(("exact", "simulated", "foretold"))


@pytest.mark.full
def test_a_hot_cell_is_explained(folder):
    """Thirty counts share one cell; sixty others share none."""
    hot = [f"SELECT COUNT(*) FROM people WHERE sex = 'F' AND (age = 37 OR age = {age})" for age in range(30)]
    cold = [f"SELECT COUNT(*) FROM people WHERE sex = 'M' AND age = {age}" for age in range(50)]
    cold += [f"SELECT COUNT(*) FROM people WHERE sex = 'F' AND age = {age}" for age in range(38, 48)]
    Path("w.sql").write_text(";\n".join(hot + cold))
    run = plan("--epsilon", "1", "--workload", "w.sql", "--all")
    assert run.returncode == 0, run.stderr
    assert "One cell is very hot: age 37, sex F counts in 30 of the 90" in run.stdout
    assert "Neither is best" in run.stdout and "auto would take" in run.stdout


@pytest.mark.full
def test_the_smallest_epsilon_of_each_mechanism(folder):
    Path("s.yaml").write_text(SCHEMA.replace("upper: 49", "upper: 9"))
    run = plan("--error", "50", "--confidence", "0.95", "--all")
    assert run.returncode == 0, run.stderr
    assert "smallest epsilon" in run.stdout and "All of the questions below need epsilon" in run.stdout
    one = plan("--error", "50", "--mechanism", "cells")
    assert "COUNT(*) of one cell" in one.stdout and "auto would take" not in one.stdout


def test_one_mechanism_by_name(folder):
    run = plan("--epsilon", "1", "--mechanism", "sparse-cells")
    assert run.returncode == 0 and "are not published; they are known in sum only" in run.stdout


def test_an_epsilon_is_explained_as_a_change_of_belief(folder):
    told = plan("--epsilon", "1", "--mechanism", "cells", "--explain").stdout
    assert re.search(r"^ +10 % +3\.9 % +23\.2 %$", told, re.M) and "right at most 73 times of 100" in told
    assert re.search(r"^ +2 +88 of 100 ", told, re.M) and "like a family" in told
    Path("s.yaml").write_text(SCHEMA.replace("row\n", "{column: id, contributions: 2}\n"))
    found = json.loads(plan("--rho", "0.1", "--mechanism", "hierarchical", "--explain", "--json").stdout)["explained"]
    assert found["but_for_a_chance_of"] == 2e-6 and len(found["beliefs"]) == 5
    assert [one["together"] for one in found["right_guesses"]] == [1, 2, 3, 4]


def test_what_cannot_be_planned_is_one_line(folder):
    refused(plan("--epsilon", "1", "--mechanism", "magic"), "magic", "cells")
    Path("w.sql").write_text("SELECT COUNT(*) FROM people WHERE height > 3")
    refused(plan("--epsilon", "1", "--workload", "w.sql"), "height")
    Path("w.sql").write_text("-- nothing\n")
    refused(plan("--epsilon", "1", "--workload", "w.sql"), "no query")
    refused(plan("--epsilon", "1", "--workload", "gone.sql"), "gone.sql", "cannot be read")
    refused(plan("--epsilon", "0"), "epsilon")
    huge = SCHEMA.replace("upper: 49}", "upper: 99999}\n  place: {type: integer, lower: 0, upper: 99999}")
    Path("huge.yaml").write_text(huge)
    refused(plan("--epsilon", "1", "--mechanism", "hierarchical", schema="huge.yaml"), "sparse-cells")
    assert "auto would take margins" in plan("--epsilon", "1", schema="huge.yaml").stdout  # it lays out margins alone


def test_a_mechanism_that_is_chosen_untried_still_says_what_to_expect(folder):
    """Too many cells to try it on, too few attributes for a plan of margins alone."""
    more = "".join(f"  a{n}: {{type: integer, lower: 1, upper: 40}}\n" for n in range(3))
    (folder / "wide.yaml").write_text(SCHEMA.replace("expected_rows", f"{more}expected_rows"))
    run = plan("--epsilon", "1", schema="wide.yaml")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith("question ")]
    assert all(lines[place + 2].startswith("all rows") for place in heads) and heads
    assert not any("unknown" in line for line in lines)
    assert not any(re.match(r"(\w+): \1 ", line) for line in lines)


def test_a_mechanism_of_one_purpose_says_what_it_promises(folder):
    run = plan("--epsilon", "1", "--mechanism", "pac", "--with", "target=sex", "--with", "rules=thresholds")
    assert run.returncode == 0, run.stderr
    for words in ("rules to choose from", "100  rules", "rows for an error of at most 0.05", "nothing was spent"):
        assert words in run.stdout
    rows = [line for line in run.stdout.splitlines() if line.endswith("  rows")]
    assert len({line.rindex("  rows") for line in rows}) == 1  # aligned
    told = plan("--epsilon", "1", "--mechanism", "pac", "--with", "target=sex", "--with", "rules=thresholds", "--json")
    (found,) = json.loads(told.stdout)["mechanisms"]
    assert found["how"] == "promised" and found["questions"] == []
    assert found["promises"][0] == {"what": "rules to choose from", "value": 100, "unit": "rules"}
    refused(plan("--error", "10", "--mechanism", "pac"), "--epsilon")
    refused(plan("--epsilon", "1", "--mechanism", "pac", "--with", "target=age"), "positive=VALUE")
    refused(plan("--epsilon", "1", "--with", "target=sex"), "--mechanism")


@pytest.mark.full
def test_json_has_every_mechanism_the_examples_and_what_twice_the_epsilon_buys(folder):
    Path("s.yaml").write_text(SCHEMA.replace("upper: 49", "upper: 4"))
    Path("w.sql").write_text("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    told = json.loads(plan("--epsilon", "1", "--workload", "w.sql", "--json").stdout)
    assert {one["name"] for one in told["mechanisms"]} == set(MECHANISMS)
    assert len(told["examples"]) == 6 and told["warnings"] == []
    first = told["examples"][0]
    assert first["question"] == "all rows" and first["share_of_rows"] == pytest.approx(first["expected_error"] / 5000)
    assert told["doubled_epsilon"]["error_then"] < told["doubled_epsilon"]["error"]
    refused(plan("--epsilon", "1", "--workload-only"), "--workload")
