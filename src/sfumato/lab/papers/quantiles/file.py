"""How a file keeps quantiles: where they part the pieces of every line, and noisy counts of the runs between.

cuts     for each attribute, group and quantile: how many pieces lie before it
totals   for each attribute and group: its noisy rows
counts   for each attribute, group and run (answers/statistics/quantile_tree.py): its noisy rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from sfumato.answers.statistics.quantile_tree import runs_between
from sfumato.arrays import Codes, Whole
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.limits import MOST_DENSE
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.queries import Identity
from sfumato.releases.contents.content import Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import Exact, PositiveExact, Scale, Text, adapter, noise_record, record
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.lab.papers.quantiles.content import Quantiles

COLUMNS = {"cuts": ["place"], "totals": ["rows"], "counts": ["count"]}
MOST_QUANTILES = 200
MOST_PIECES = 2**20


@dataclass(frozen=True, eq=False)
class Line:
    """Of one attribute: into how many pieces a cell is cut, where each group's quantiles are, and counts between.

    cuts: for each group and quantile, how many pieces lie before it. total: rows of each group, with noise. counted:
    the runs of all groups in order.
    """

    of: str
    pieces: int
    cuts: Codes
    total: Measurement
    counted: Measurement

    def edges(self, quantiles: Sequence[Fraction], length: int) -> Iterator[tuple[dict[Fraction, int], Whole]]:
        """Where quantiles and runs are, group by group."""
        scale = line_scale(self.counted.noise)
        for cuts, rows in zip(self.cuts.tolist(), self.total.answers.tolist(), strict=True):
            placed = dict(zip(quantiles, cuts, strict=True))
            yield placed, runs_between(placed, length, float(rows), scale)


@record
class QuantilesRecord:
    """What a manifest says of quantiles.

    pieces: of a value, by attribute. epsilon: of all choices of one attribute. total: the scale of the noise of totals.
    """

    of: Annotated[list[Text], Field(min_length=1)]
    by: list[Text]
    quantiles: Annotated[list[Exact], Field(min_length=1, max_length=MOST_QUANTILES)]
    pieces: list[Annotated[int, Field(ge=1, le=MOST_PIECES)]]
    epsilon: PositiveExact
    total: Scale


def line_scale(noise: Noise) -> float:
    """The scale of the noise that runs are counted with."""
    assert isinstance(noise, Laplace)  # noqa: S101 (pure epsilon alone is taken)
    return float(noise.scale)


def written(content: Quantiles) -> Written:
    """All that a file keeps."""
    lines = content.lines
    about = QuantilesRecord(
        [line.of for line in lines],
        list(content.by),
        list(content.quantiles),
        [line.pieces for line in lines],
        content.epsilon,
        _laplace(lines[0].total.noise).scale,
    )
    columns: dict[str, dict[str, Whole]] = {
        "cuts": {"place": np.concatenate([line.cuts.reshape(-1) for line in lines])},
        "totals": {"rows": np.concatenate([line.total.answers for line in lines])},
        "counts": {"count": np.concatenate([line.counted.answers for line in lines])},
    }
    details: dict[str, Any] = adapter(QuantilesRecord).dump_python(about, mode="json")
    return Written("quantiles", _statistics(lines[0].counted.noise), columns, {"details": details})


def check(manifest: Manifest, schema: Schema) -> None:
    """Refuse a manifest that does not go with its schema."""
    about, domain = details_as(QuantilesRecord, manifest), schema.domain
    named = [*about.of, *about.by]
    if any(name not in domain for name in named) or len(set(named)) < len(named):
        raise refusal("its quantiles are of attributes that its schema does not have, or of one twice")
    if not all(domain[name].ordered for name in about.of):
        raise refusal("its quantiles are of an attribute without an order")
    rising = all(a < b for a, b in pairwise(about.quantiles))
    if not rising or not 0 <= about.quantiles[0] <= about.quantiles[-1] <= 1:
        raise refusal("its quantiles are not in order between 0 and 1")
    groups = prod(domain[name].size for name in about.by)
    if len(about.pieces) != len(about.of) or any(groups * domain[name].size > MOST_DENSE for name in about.of):
        raise refusal("its lines are longer than Sfumato makes them")
    if {name: member.columns for name, member in manifest.members.items()} != COLUMNS:
        raise refusal("its members are not those of quantiles")
    noise = manifest.statistics[0].noise
    if noise is None or not isinstance(noise.noise, Laplace) or manifest.statistics != _statistics(noise.noise):
        raise refusal("its statistics are not those of quantiles")
    if manifest.members["cuts"].rows != groups * len(about.quantiles) * len(about.of):
        raise refusal("it does not have a place for each of its quantiles")
    if manifest.members["totals"].rows != groups * len(about.of):
        raise refusal("it does not have a total for each of its groups")


def check_values(columns: Columns) -> None:
    """Refuse places before the start of a line; how they go together is seen when they are read."""
    if "place" in columns and (columns["place"] < 0).any():
        raise refusal("its quantiles lie outside its schema")


def parts(
    manifest: Manifest, schema: Schema, member: Callable[[str], Columns]
) -> tuple[tuple[str, ...], tuple[Fraction, ...], Fraction, tuple[Line, ...]]:
    """Groups, quantiles, epsilon and lines of a file nobody has vouched for."""
    about = details_as(QuantilesRecord, manifest)
    groups = prod(schema.domain[name].size for name in about.by)
    places, counts = member("cuts")["place"].reshape(len(about.of), groups, -1), member("counts")["count"]
    noise = manifest.statistics[0].noise
    assert noise is not None  # noqa: S101 (checked when the file was opened)
    totals = member("totals")["rows"].reshape(len(about.of), groups)
    lines, start = [], 0
    for of, pieces, cuts, rows in zip(about.of, about.pieces, places, totals, strict=True):
        length = schema.domain[of].places * pieces
        if (np.diff(cuts, axis=1) < 0).any() or (cuts > length).any():
            raise refusal("its quantiles are not in order, or lie outside its schema")
        total = Measurement("count", Identity(groups), rows, (Laplace(about.total),))
        none = Measurement("count", Identity(1), counts[:1], (noise.noise,))
        runs = Line(of, pieces, cuts, total, none).edges(about.quantiles, length)
        end = start + sum(len(edges) - 1 for _, edges in runs)
        if end > len(counts):
            raise refusal("it has fewer counts than runs between its quantiles")
        counted = Measurement("count", Identity(end - start), counts[start:end], (noise.noise,))
        lines.append(Line(of, pieces, cuts, total, counted))
        start = end
    if start != len(counts):
        raise refusal("it has more counts than runs between its quantiles")
    return tuple(about.by), tuple(about.quantiles), about.epsilon, tuple(lines)


def _statistics(noise: Noise) -> list[Statistic]:
    return [Statistic("count", "counts", "count", noise_record(_laplace(noise)))]


def _laplace(noise: Noise) -> Laplace:
    if not isinstance(noise, Laplace):
        raise QueryError("quantiles are counted with Laplace noise")
    return noise
