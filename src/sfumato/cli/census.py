"""Generate the demo's synthetic census: no real person is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.arrays import Floats

REGIONS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
SHARES = (0.06, 0.09, 0.12, 0.22, 0.19, 0.08, 0.10, 0.14)

SCHEMA = """\
# Everything in here is public: it is written down by people, never read from the data.
dataset: census
privacy_unit: {column: person_id, contributions: 1}   # one person is protected, with at most one row
budget: {epsilon: 3.0}                                # what may ever be spent on this dataset
attributes:
  age:    {type: integer, lower: 0, upper: 99}
  sex:    {type: category, values: [F, M]}
  region: {type: category, values: [north, north-east, east, south-east, south, south-west, west, north-west]}
measures:
  income: {lower: 0, upper: 150000}                   # summed and averaged, clipped to these bounds
expected_rows: 60000
"""


def write_census(folder: Path, people: int = 60_000) -> tuple[Path, Path]:
    """Write the synthetic people and their schema; the same people every time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, schema = folder / "census.parquet", folder / "census.yaml"
    pq.write_table(pa.table(make_people(people)), table)
    schema.write_text(SCHEMA, encoding="utf-8")
    return table, schema


def make_people(people: int) -> dict[str, Any]:
    """Columns of synthetic people: an ageing population, incomes that rise and fall with age."""
    from sfumato.kernel.sampling.entropy import TestingEntropy

    stream = TestingEntropy(1503)  # fixed, so that the demo's figures can be talked about

    def uniform() -> Floats:
        return np.asarray((stream.words(people) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    ages = np.arange(100)
    alive = np.exp(-((ages / 82.0) ** 7)) * (1.0 + 0.25 * np.exp(-(((ages - 55) / 9.0) ** 2)))
    age = np.searchsorted(np.cumsum(alive)[:-1] / alive.sum(), uniform())
    female = uniform() < 0.49 + 0.0022 * np.maximum(age - 60, 0)
    region = np.searchsorted(np.cumsum(SHARES)[:-1], uniform())
    bell = np.sqrt(-2.0 * np.log(1.0 - uniform())) * np.cos(2.0 * np.pi * uniform())
    career = np.exp(-(((age - 49) / 22.0) ** 2)) * (age >= 16)
    income = np.round(career * 38_000 * np.exp(0.55 * bell) * np.where(region == 3, 1.2, 1.0), 2)
    return {
        "person_id": np.arange(people),
        "age": age.astype(np.int64),
        "sex": np.where(female, "F", "M"),
        "region": np.array(REGIONS)[region],
        "income": income,
    }
