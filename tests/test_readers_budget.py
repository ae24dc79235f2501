"""The reader's budget: in how many files a function runs while a user does one thing, for eight journeys.

What a reader of code pays is files opened. These are limits on that, in place of limits on lines or on files a folder;
`python benchmarks/house.py` prints them beside what is wanted, and `--files JOURNEY` lists the files of one.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "house.py"

MOST = {
    "release cells": 65,
    "release sfumato": 90,
    "query cells": 41,
    "query sfumato": 52,
    "margins alone": 30,
    "sfumato alone": 36,
    "interval cells": 14,
    "interval margins": 18,
}


def house():
    specification = importlib.util.spec_from_file_location("house", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_journey_has_a_budget():
    assert set(MOST) == set(house().JOURNEYS)


@pytest.mark.parametrize("journey", MOST)
def test_a_journey_runs_in_few_files(journey):
    files = house().files_of(journey)
    assert "answers/evaluate.py" in files or not journey.startswith(("query", "interval cells"))  # it was watched
    assert 0 < len(files) <= MOST[journey], "\n".join([f"{len(files)} files; may they be fewer?", *files])
