"""Synthetic rows drawn from a release.

Post-processing: only published numbers are read. Rows are whole and never negative, so unlike the release's own answers
they are not unbiased: noisy cells are first moved to the nearest table without negative cells that has the same total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


MOST_ROWS = 10**9


@dataclass(frozen=True, eq=False)
class KnownCells:
    """What rows are drawn from.

    values: the estimates of each statistic in each cell, or in the `listed` ones. errors: the standard error of one
    cell. remainder: what the cells that are not listed hold together.
    """

    schema: Schema
    values: Mapping[str, Floats]
    errors: Mapping[str, float]
    listed: Codes | None = None
    remainder: Mapping[str, float] = field(default_factory=dict)


def sample_rows(known: KnownCells, rows: int, entropy: Entropy | None = None) -> pa.Table:
    """Draw synthetic rows: every attribute, and every measure at its cell's estimated mean."""
    import pyarrow as pa

    if not 0 < rows <= MOST_ROWS:
        raise QueryError(f"the number of rows must be a whole number from 1 to {MOST_ROWS:,}")
    entropy = entropy or SystemEntropy()
    domain, listed = known.schema.domain, known.listed
    weights = without_negatives(known.values["count"])
    places = _draw_places(weights, max(0.0, known.remainder.get("count", 0.0)), rows, entropy)
    inside = places >= 0
    cells = places.copy() if listed is None else np.zeros(rows, dtype=np.int64)
    if listed is not None:
        cells[inside] = listed[places[inside]]
        anywhere = _uniform(int((~inside).sum()), entropy) * domain.size
        cells[~inside] = np.minimum(anywhere.astype(np.int64), domain.size - 1)
    columns: dict[str, Any] = {
        axis.name: _values_in(axis, domain.codes_along(axis.name, cells), entropy) for axis in domain
    }
    for name in known.schema.measures:
        means, overall = _means(known, name)
        drawn = np.where(inside, means[np.maximum(places, 0)] if len(means) else overall, overall)
        columns[name if name not in columns else f"{name}_value"] = pa.array(drawn)
    return pa.table(columns)


def without_negatives(counts: Floats) -> Floats:
    """The nearest numbers (least squares) that are not negative and have the same sum.

    >>> without_negatives(np.array([5.0, -2.0, 1.0])).tolist()
    [4.0, 0.0, 0.0]
    """
    total = float(counts.sum())
    if total <= 0:
        return np.zeros(len(counts))
    falling = np.sort(counts)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]]
    return np.asarray(np.maximum(counts - shift, 0.0), dtype=np.float64)


def _draw_places(weights: Floats, elsewhere: float, rows: int, entropy: Entropy) -> Codes:
    """Which cell each row falls in, -1 for "elsewhere", in random order.

    One uniform shift serves all cells (systematic sampling): each cell gets its expected number of rows, rounded up or
    down, and the numbers sum to `rows`.
    """
    every = np.append(weights, elsewhere)
    if every.sum() <= 0:
        every[:] = 1.0  # nothing is known but the schema
    ends = np.cumsum(every) / every.sum() * rows
    ends[-1] = rows
    counts = np.diff(np.floor(ends + _uniform(1, entropy)[0]).astype(np.int64), prepend=0)
    counts[-1] += rows - counts.sum()
    places = np.repeat(np.append(np.arange(len(weights)), -1), counts)
    return np.asarray(places[np.argsort(entropy.words(rows), kind="stable")], dtype=np.int64)


def _values_in(axis: Axis, codes: Codes, entropy: Entropy) -> Any:
    """A value inside each cell: its own where the cell has one, spread evenly where it has several."""
    import pyarrow as pa

    if axis.values:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(axis.values))).cast(
            pa.bool_() if axis.kind == "boolean" else pa.string()
        )
    low, width = axis.edges[:-1][codes], np.diff(axis.edges)[codes]
    drawn = low + _uniform(len(codes), entropy) * width
    if axis.kind == "number":
        return pa.array(drawn)
    whole = np.floor(drawn).astype(np.int64)
    return pa.array(whole.astype(np.int32)).cast(pa.date32()) if axis.kind == "date" else pa.array(whole)


def _means(known: KnownCells, name: str) -> tuple[Floats, float]:
    """A measure's mean in each published cell, drawn towards the overall mean where the noise is large."""
    measure = known.schema.measures[name]
    step, centre = float(measure.step), float(measure.centre)
    counts, sums = np.maximum(known.values["count"], 0.0), known.values[name] * step
    rows = max(1.0, float(known.values["count"].sum()) + known.remainder.get("count", 0.0))
    everything = float(sums.sum()) + known.remainder.get(name, 0.0) * step
    low, high = float(measure.lower), float(measure.upper)
    overall = float(np.clip(centre + everything / rows, low, high))
    # Worth as many rows as would drown the noise of one cell's sum.
    trust = max(known.errors[name] / measure.half_units, 1e-9)
    return np.clip(centre + (sums + trust * (overall - centre)) / (counts + trust), low, high), overall


def _uniform(count: int, entropy: Entropy) -> Floats:
    return np.asarray((entropy.words(count) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
