"""Small series for tests: a clinic's visits by month, released with the testing generator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.publishing.publish import release
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.release import Release
from sfumato.schema import Schema

MONTHS = ("2026-01", "2026-02", "2026-04")
WARDS = ("surgery", "children", "heart")


def schema_of(**changes: Any) -> Schema:
    """The clinic's schema, a series by month, with some keys replaced."""
    parts: dict[str, Any] = {
        "dataset": "visits",
        "privacy_unit": "row",
        "series": {"period": "month", "unit": "person in a month"},
        "budget": {"epsilon": 1000, "delta": "1e-3"},
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99, "width": 20},
            "ward": {"type": "category", "values": list(WARDS)},
            "stay": {"type": "integer", "lower": 0, "upper": 7},
        },
        "measures": {"cost": {"lower": 0, "upper": 1000, "step": 1}},
    }
    return Schema(**{**parts, **changes})


def visits(month: int, rows: int = 2000) -> pa.Table:
    """Visits of one month, as public as the seed."""
    random = np.random.default_rng(month)
    ward = np.array(WARDS)[random.integers(0, 3, rows)]
    age = np.where(ward == "children", random.integers(0, 16, rows), random.integers(16, 100, rows))
    cost = random.integers(0, 1000, rows).astype(float)
    return pa.table({"age": age, "ward": ward, "stay": random.integers(0, 8, rows), "cost": cost})


def part_of(
    month: str, mechanism: str, schema: Schema | None = None, table: pa.Table | None = None, **more: Any
) -> Release:
    """The release of one month, with noise that is the same in every run."""
    number = int(month[-2:])
    more = {"delta": "1e-9"} | more if mechanism == "margins" else more
    return release(
        visits(number) if table is None else table,
        schema or schema_of(),
        more.pop("epsilon", 1),
        mechanism=mechanism,
        period=month,
        entropy=TestingEntropy(number + 1000 * more.pop("seed", 0)),
        again=True,
        **more,
    )


@cache
def months_of(mechanism: str) -> tuple[Release, ...]:
    return tuple(part_of(month, mechanism) for month in MONTHS)


def series_of(parts: Sequence[Release], months: Sequence[str] = MONTHS) -> Release:
    """Several releases as one series, in memory."""
    each = enumerate(zip(months, parts, strict=True), start=1)
    listed = [Part(number, month, lambda one=one: one) for number, (month, one) in each]
    return Release(SeriesContent.of(listed), parts[-1].mechanism, parts[-1].guarantee, private=False)
