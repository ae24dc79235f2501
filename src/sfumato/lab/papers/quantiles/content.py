"""Release of quantiles of ordered attributes, of all rows or group by group, with noisy counts between them.

File format; a line is cut into pieces, and a run is several neighbouring pieces:

cuts     for each attribute, group and quantile: how many pieces lie before it
totals   for each attribute and group: its noisy rows
counts   for each attribute, group and run (lab/papers/quantiles/quantile_line.py): its noisy rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sfumato.answers.answer import result_of
from sfumato.answers.noise_sum import check_confidence
from sfumato.answers.question import GUARANTEED, Groups, Manner
from sfumato.answers.results import Estimate
from sfumato.arrays import MOST_DENSE, Codes, Whole
from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate, cover
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.quantiles.quantile_line import Found, QuantileLine, choices, runs_between
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import Exact, PositiveExact, Scale, Text, adapter, noise_record, record, refusal
from sfumato.schema import Schema
from sfumato.sql.plan import Column, Quantile, Select

if TYPE_CHECKING:
    from sfumato.answers.results import Result

COLUMNS = {"cuts": ["place"], "totals": ["rows"], "counts": ["count"]}
MOST_QUANTILES = 1000
MOST_PIECES = 2**20


@dataclass(frozen=True, eq=False)
class Line:
    """Quantiles of one attribute by group, and noisy counts between them. pieces: number into which a cell is cut.

    cuts: position of each group's quantiles, as the number of pieces before it. total: noisy number of rows of each
    group. counted: counts between successive quantiles, group by group.
    """

    of: str
    pieces: int
    cuts: Codes
    total: Measurement
    counted: Measurement

    def edges(self, quantiles: Sequence[Fraction], length: int) -> Iterator[tuple[dict[Fraction, int], Whole]]:
        """For each group, positions by quantile, and the edges of the intervals that were counted."""
        scale = float(_laplace(self.counted.noise).scale)
        for cuts, rows in zip(self.cuts.tolist(), self.total.answers.tolist(), strict=True):
            placed = dict(zip(quantiles, cuts, strict=True))
            yield placed, runs_between(placed, length, float(rows), scale)


@record
class QuantilesRecord:
    """Manifest of quantiles.

    pieces: number per value, by attribute. epsilon: of all choices for one attribute. total: noise scale of totals.
    """

    of: Annotated[list[Text], Field(min_length=1)]
    by: list[Text]
    quantiles: Annotated[list[Exact], Field(min_length=1, max_length=MOST_QUANTILES)]
    pieces: list[Annotated[int, Field(ge=1, le=MOST_PIECES)]]
    epsilon: PositiveExact
    total: Scale


def _statistics(noise: Noise) -> list[Statistic]:
    return [Statistic("count", "counts", "count", noise_record(_laplace(noise)))]


def _laplace(noise: Noise) -> Laplace:
    if not isinstance(noise, Laplace):
        raise QueryError("quantiles are counted with Laplace noise")
    return noise


FINEST = 10**6  # parts of a share that SQL asks for
NAMES = {Fraction(0): "least", Fraction(1, 2): "median", Fraction(1): "greatest"}
FEW = 12  # findings that are printed


@dataclass(frozen=True, eq=False)
class Quantiles(Content):
    """Content of quantiles by attribute. quantiles: in order; epsilon: of all choices on one person's rows."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})
    answers_counts: ClassVar[bool] = False

    schema: Schema
    by: tuple[str, ...]
    quantiles: tuple[Fraction, ...]
    epsilon: Fraction
    lines: tuple[Line, ...]

    @cached_property
    def by_attribute(self) -> dict[str, list[QuantileLine]]:
        """Quantile lines by attribute, one for each group."""
        wanted = choices(self.quantiles)
        scale = self.schema.privacy_unit.contributions / self.epsilon
        found: dict[str, list[QuantileLine]] = {}
        for line in self.lines:
            start, found[line.of] = 0, []
            for placed, edges in line.edges(self.quantiles, self.domain[line.of].places * line.pieces):
                counts = line.counted.answers[start : start + len(edges) - 1]
                start += len(edges) - 1
                noise, cell = line.counted.noise, float(line.pieces)
                found[line.of].append(QuantileLine(wanted, placed, edges, counts, noise, scale, cell))
        return found

    def select(self, select: Select, confidence: float) -> Result:
        return self.select_as(select, confidence, Manner())

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        check_confidence(confidence)
        groups, surely = Groups.of(select, self.domain), manner.interval == "guaranteed"
        notes: dict[str, None] = {}
        estimates = {
            column: self._estimates(column, groups, confidence, notes, surely=surely)
            for column in dict.fromkeys(select.aggregates)
        }
        if surely:
            notes[GUARANTEED] = None
        return result_of(select, groups, self.domain, estimates, confidence, tuple(notes))

    def _estimates(
        self, column: Column, groups: Groups, confidence: float, notes: dict[str, None], *, surely: bool
    ) -> list[Estimate]:
        rule = column.rule
        if not isinstance(rule, Quantile) or rule.of not in self.by_attribute:
            there = ", ".join(self.by_attribute)
            raise QueryError(
                f"this release holds quantiles of {there} and nothing else; ask for MEDIAN, MIN, MAX or "
                f"QUANTILE of {there}, or release with another mechanism"
            )
        if rule.grouped and (other := set(groups.names) - set(self.by)):
            raise QueryError(f"{self._whose}; do not group by {' and '.join(sorted(other))}")
        share = Fraction(rule.share).limit_denominator(FINEST)
        found = []
        for row in range(len(groups.present) if rule.grouped else 1):
            codes = {name: int(groups.code(name)[row]) for name in groups.names} if rule.grouped else {}
            line = self.by_attribute[rule.of][self._group(rule.predicate, rule.of, codes)]
            position = line.find(share, confidence)
            if not position.chosen:
                notes[f"the quantile {float(share):g} was not chosen; it is interpolated, with a wider interval"] = None
            if surely:
                low, high = line.surely(share, (1.0 - confidence) / 2.0)
                position = position._replace(low=min(low, position.value), high=max(high, position.value))
            found.append(self._estimate(rule, position, confidence))
        return found if rule.grouped else found * len(groups.present)

    def value_of(self, of: str, group: int, quantile: Fraction, confidence: float = 0.95) -> Estimate:
        """Estimate one quantile of one group, without SQL."""
        rule = Quantile(Predicate.everything(), of, float(quantile))
        return self._estimate(rule, self.by_attribute[of][group].find(quantile, confidence), confidence)

    def _group(self, predicate: Predicate, of: str, codes: dict[str, int]) -> int:
        """Index of the one group that a query selects; a QueryError for parts or unions of groups."""
        domain = self.domain
        shape = tuple(domain[name].size for name in self.by)
        inside = np.zeros(shape, dtype=bool)
        for box in predicate.boxes:
            for name, values in box.sets:
                axis = domain[name]
                if name not in self.by and not (cover(axis, values).sure[: axis.places] > 0).all():
                    raise QueryError(f"{self._whose}; leave out the condition on {name}")
            each = [cover(domain[name], box[name]).possible > 0 for name in self.by]
            inside |= reduce(np.logical_and.outer, each, np.array(True))
        for place, name in enumerate(self.by):
            if name in codes:
                other = np.arange(shape[place]) != codes[name]
                inside[(slice(None),) * place + (other,)] = False
        chosen = np.flatnonzero(inside)
        if len(chosen) != 1:
            raise QueryError(f"{self._whose}; group by {' and '.join(self.by)}, or name one value of each by WHERE")
        return int(chosen[0])

    @property
    def _whose(self) -> str:
        return f"quantiles are of {'each ' + ' and '.join(self.by) if self.by else 'all rows together'}"

    def _estimate(self, rule: Quantile, found: Found, confidence: float) -> Estimate:
        axis = self.domain[rule.of]
        pieces = next(line.pieces for line in self.lines if line.of == rule.of)
        low, high = axis.edges[:-1], axis.edges[1:] - (1.0 if axis.discrete else 0.0)
        first = min(int(found.low // pieces), axis.places - 1)
        last = max(first, min(int(-(-found.high // pieces)) - 1, axis.places - 1))
        value = _value(axis, found.value / pieces, rule.whole)
        least, most = float(low[first]), float(high[last])
        error = (most - least) / 2.0 / NormalDist().inv_cdf((1.0 + confidence) / 2.0)
        model = min(float(high[last] - low[last]) / 12**0.5, error)
        noise = max(error**2 - model**2, 0.0) ** 0.5
        value = min(max(value, least), most)
        dates = axis.kind == "date"
        return Estimate(value, error, least, most, confidence, noise, model, dates=dates, timed=axis.timed)

    @cached_property
    def about(self) -> About:
        groups = prod(self.domain[name].size for name in self.by)
        extent = f"{len(self.quantiles)} quantiles of {', '.join(self.by_attribute)}"
        return About(
            (*self.by_attribute, *self.by),
            f"{extent} for each {' and '.join(self.by)}" if self.by else extent,
            tuple(measured for line in self.lines for measured in (line.total, line.counted)),
            "quantiles were chosen by rank with the exponential mechanism, and rows between them counted with noise, "
            "which tells how far the ranks may be off in values",
            self._findings if groups == 1 else (),
            tuple(self._examples),
        )

    @property
    def _findings(self) -> tuple[str, ...]:
        said = []
        for of in self.by_attribute:
            axis = self.domain[of]
            for quantile in self.quantiles:
                estimate = self.value_of(of, 0, quantile)
                name = NAMES.get(quantile, f"{float(quantile):g} quantile")
                value, low, high = (_text(axis, each) for each in (estimate.value, estimate.low, estimate.high))
                said.append(f"{name} of {of}: {value} (95 % interval {low} to {high})")
        return tuple(said[:FEW])

    @property
    def _examples(self) -> list[str]:
        said = []
        listed = "".join(f"{_quoted(name)}, " for name in self.by)
        grouped = f" GROUP BY {listed[:-2]}" if self.by else ""
        for of in self.by_attribute:
            named = {Fraction(0): f"MIN({_quoted(of)})", Fraction(1): f"MAX({_quoted(of)})"}
            some = [named.get(q, f"QUANTILE({_quoted(of)}, {float(q):g})") for q in self.quantiles[:FEW]]
            said.append(
                f"SELECT {listed}{', '.join(f'{each} AS q{n}' for n, each in enumerate(some))} FROM release{grouped}"
            )
        return said

    def write(self) -> Written:
        lines = self.lines
        about = QuantilesRecord(
            [line.of for line in lines],
            list(self.by),
            list(self.quantiles),
            [line.pieces for line in lines],
            self.epsilon,
            _laplace(lines[0].total.noise).scale,
        )
        columns: dict[str, dict[str, Whole]] = {
            "cuts": {"place": np.concatenate([line.cuts.reshape(-1) for line in lines])},
            "totals": {"rows": np.concatenate([line.total.answers for line in lines])},
            "counts": {"count": np.concatenate([line.counted.answers for line in lines])},
        }
        details: dict[str, Any] = adapter(QuantilesRecord).dump_python(about, mode="json")
        return Written("quantiles", _statistics(lines[0].counted.noise), columns, {"details": details})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
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

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Refuse negative positions; consistency between positions is checked on reading."""
        if "place" in columns and (columns["place"] < 0).any():
            raise refusal("its quantiles lie outside its schema")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Quantiles:
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
        return cls(schema, tuple(about.by), tuple(about.quantiles), about.epsilon, tuple(lines))


def _value(axis: Axis, cells: float, whole: bool) -> float:
    """Value at a position along an axis, interpolated linearly within a cell."""
    cell = min(int(cells), axis.places - 1)
    low, high = float(axis.edges[cell]), float(axis.edges[cell + 1]) - (1.0 if axis.discrete else 0.0)
    value = low + min(cells - cell, 1.0) * (high - low)
    return float(np.floor(value)) if whole and axis.discrete else value


def _text(axis: Axis, value: float) -> str:
    if axis.kind == "date":
        from sfumato.answers.results import when

        return str(when(value, timed=axis.timed))
    return f"{value:,.6g}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if not name.isidentifier() else name
