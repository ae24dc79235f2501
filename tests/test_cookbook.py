"""The cookbook, followed to the letter: its schemas, its commands in order, on tables like those it talks about."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from running import sfumato

PAGE = (Path(__file__).parent.parent / "docs" / "cookbook.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    sfumato ")]
ROWS = 6000


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What every command printed."""
    folder = tmp_path_factory.mktemp("cookbook")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger.sqlite"))
        for name, schema in re.findall(r"`(\w+\.yaml)`.*?```yaml\n(.*?)```", PAGE, re.S):
            Path(name).write_text(schema)
        visits(), trips(), survey()
        return {command: sfumato(*shlex.split(command)[1:]) for command in COMMANDS}


def visits() -> None:
    rng = np.random.default_rng(1)
    wards, lines = ["Surgery", "medicine", "MATERNITY", "intensive"], ["patient;age;sex;ward;arrived;charge"]
    for row in range(ROWS):
        day, month = rng.integers(1, 29), rng.integers(1, 13)
        charge = "" if rng.random() < 0.3 else f"{rng.integers(0, 8000)},{rng.integers(0, 100):02}"
        sex, ward = rng.choice(["w", "m", "F", "M", ""]), wards[rng.integers(0, 4)]
        lines.append(f"{row // 2};{rng.integers(0, 100)};{sex};{ward};{day:02}.{month:02}.2024;{charge}")
    Path("visits.csv").write_text("\n".join(lines) + "\n")


def trips() -> None:
    rng = np.random.default_rng(2)
    with Path("trips.jsonl").open("w") as file:
        for _ in range(ROWS):
            pickup = f"2024-06-{rng.integers(1, 31):02} {rng.integers(0, 24):02}:{rng.integers(0, 60):02}:00"
            trip = {"pickup": pickup, "zone": int(rng.integers(1, 41)), "fare": round(float(rng.gamma(2, 8)), 2)}
            file.write(json.dumps(trip) + "\n")


def survey() -> None:
    rng = np.random.default_rng(3)
    lines = ["region,age,job,q1,q2,q3,q4,q5"]
    for _ in range(ROWS):
        mood = rng.integers(0, 2)
        given = ["" if rng.random() < 0.1 else str(rng.integers(1, 4) + 2 * mood) for _ in range(5)]
        region, job = rng.choice(["north", "south", "east", "west"]), rng.choice(["office", "factory", "field", "sea"])
        lines.append(",".join([region, str(rng.integers(18, 98)), job, *given]))
    Path("survey.csv").write_text("\n".join(lines) + "\n")


def test_the_questions_are_numbered():
    assert [int(number) for number in re.findall(r"^\*\*(\d+)\. ", PAGE, re.M)] == list(range(1, 32))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_works_as_written(answers, command):
    found = answers[command]
    assert found.returncode == 0, found.stderr
    assert "Traceback" not in found.stderr


def test_what_the_page_says_of_answers(answers):
    """Notes that it promises, and numbers that the made-up tables must give within their own intervals."""

    def said(words: str) -> str:
        (found,) = [found for command, found in answers.items() if words in command]
        return found.stdout + found.stderr

    assert "FOR YOUR EYES ONLY" in said("sfumato check")
    assert "chance" in said("AS gap") or "real" in said("AS gap")
    assert "HAVING" in said("HAVING")
    full = json.loads(answers[next(one for one in COMMANDS if "json-full" in one)].stdout)
    assert {"rows", "notes", "guarantee", "confidence"} <= set(full)
    assert sum(row["n"] for row in full["rows"]) == pytest.approx(ROWS, rel=0.1)
