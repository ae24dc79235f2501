"""Files of every family, written before their code was moved about, open and answer the same to the last digit.

They were made with a testing generator from 400 made-up rows, and are kept as they are: never make them anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sfumato as sf

FOLDER = Path(__file__).parent / "old_files"
KEPT = json.loads((FOLDER / "answers.json").read_text())


@pytest.mark.parametrize("name", sorted(KEPT["answers"]))
def test_an_old_file_answers_as_it_always_did(name):
    release = sf.open(FOLDER / name, allow_not_private=True)
    for sql, wanted in zip(KEPT["queries"], KEPT["answers"][name], strict=True):
        found = json.loads(json.dumps(release.query(sql).records(), default=str))
        assert _close(found, wanted), (sql, found, wanted)


def test_there_is_a_file_for_every_answer():
    assert {path.name for path in FOLDER.glob("*.sfumato")} == set(KEPT["answers"])
    assert len(KEPT["answers"]) >= 17


def _digits(key: str) -> float:
    """Ends of intervals are found by tables of noises that are rounded in the order in which noises are listed."""
    return 1e-6 if key.endswith(("_low", "_high")) else 1e-12


def _close(found: object, wanted: object, digits: float = 1e-12) -> bool:
    """Equal but for the last digits, which the order of floating-point sums decides on other processors."""
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(_close, found, wanted))
    if isinstance(wanted, dict) and isinstance(found, dict):
        return list(found) == list(wanted) and all(_close(found[key], wanted[key], _digits(key)) for key in wanted)
    if isinstance(wanted, int | float) and isinstance(found, int | float):  # a whole number is written without a point
        return found == pytest.approx(wanted, rel=digits, abs=digits, nan_ok=True)
    return found == wanted
