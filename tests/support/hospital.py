"""Small linked tables for tests: households with persons, whose visits belong to them."""

from __future__ import annotations

import atexit
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.publishing.publish import release
from sfumato.releases.file.linked import TableRecord, write_linked
from sfumato.releases.linked import Linked
from sfumato.releases.release import Release, open_release
from sfumato.schema import Schema

REGIONS = ("north", "south", "west")
ILLS = ("cough", "fever", "fall")
ILL_OF_PERSON = {"region": {"type": "category", "values": list(REGIONS)}}
AGE = {"age": {"type": "integer", "lower": 0, "upper": 99, "width": 20}}

PERSONS = Schema(
    dataset="persons",
    privacy_unit={"column": "household_id", "contributions": 4},
    budget={"epsilon": 1000, "delta": "1e-3"},
    attributes={
        **AGE,
        **ILL_OF_PERSON,
        "sex": {"type": "category", "values": ["f", "m"]},
        "visits": {"type": "integer", "lower": 0, "upper": 6},
    },
)
VISITS = Schema(
    dataset="visits",
    privacy_unit={"column": "household_id", "contributions": 24},
    budget={"epsilon": 1000, "delta": "1e-3"},
    attributes={**AGE, **ILL_OF_PERSON, "ill": {"type": "category", "values": list(ILLS)}},
    measures={"cost": {"lower": 0, "upper": 100, "step": 1}},
)
LINKS = (
    TableRecord("persons", 4, key="person_id", counts={"visits": "visits"}),
    TableRecord("visits", 24, "persons", "person_id", at_most=6, carried=["age", "region"]),
)


def rows(households: int = 1500) -> dict[str, pa.Table]:
    """Rows of both tables, as public as the seed; the true answers are counts of them."""
    random = np.random.default_rng(1)
    home = np.repeat(np.arange(households), random.integers(1, 5, households))
    many = len(home)
    age, region = random.integers(0, 100, many), np.array(REGIONS)[random.integers(0, 3, households)[home]]
    visits = np.minimum(random.poisson(np.where(age > 60, 3.0, 1.0)), 6)
    whose = np.repeat(np.arange(many), visits)
    persons = {"household_id": home, "person_id": np.arange(many), "age": age, "region": region, "visits": visits}
    persons["sex"] = np.array(["f", "m"])[random.integers(0, 2, many)]
    ill = np.array(ILLS)[random.integers(0, 3, len(whose))]
    mine = {"household_id": home[whose], "person_id": whose, "age": age[whose], "region": region[whose], "ill": ill}
    mine["cost"] = random.integers(0, 100, len(whose)).astype(float)
    return {"persons": pa.table(persons), "visits": pa.table(mine)}


@cache
def parts_of(mechanism: str, epsilon: int = 8) -> dict[str, Release]:
    """Releases of both tables, with noise that is the same in every run."""
    table, more = rows(), dict[str, Any](delta="1e-9") if mechanism == "margins" else {}
    first = crc32(f"{mechanism} {epsilon}".encode())
    return {
        schema.dataset: release(
            table[schema.dataset],
            schema,
            epsilon,
            mechanism=mechanism,
            entropy=TestingEntropy(first + number),
            again=True,
            **more,
        )
        for number, schema in enumerate((PERSONS, VISITS))
    }


def linked_file(folder: Path, mechanism: str = "cells", epsilon: int = 8) -> Path:
    """A file of both tables."""
    parts = parts_of(mechanism, epsilon)
    files = [(link, replace(parts[link.name], published=None).save(folder / f"{link.name}.part")) for link in LINKS]
    write_linked(folder / "linked.sfumato", "hospital", files)
    return folder / "linked.sfumato"


@cache
def linked_once(mechanism: str = "cells", epsilon: int = 8) -> Linked:
    """Both tables opened from a file that lasts as long as the run, for tests that change nothing."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return linked(Path(folder.name), mechanism, epsilon)


def linked(folder: Path, mechanism: str = "cells", epsilon: int = 8) -> Linked:
    found = open_release(linked_file(folder, mechanism, epsilon), allow_not_private=True)
    assert isinstance(found, Linked)
    return found
