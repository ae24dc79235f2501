"""Quantiles of ordered attributes, of all rows or group by group, with what is known of the rows between them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, reduce
from math import prod
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.answers.answer import check_confidence, result_of
from sfumato.answers.estimate import Estimate
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.manner import GUARANTEED, Manner
from sfumato.answers.statistics.quantile_line import Found, QuantileLine
from sfumato.answers.statistics.quantile_tree import choices
from sfumato.domain import Axis
from sfumato.domain.boxes import cover
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.quantiles import file as quantiles_file
from sfumato.lab.papers.quantiles.file import Line
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.members import Columns
from sfumato.schema import Schema
from sfumato.sql.plan import Column, Select
from sfumato.sql.statistics.rules import Quantile

if TYPE_CHECKING:
    from sfumato.answers.result import Result

FINEST = 10**6  # parts of a share that SQL asks for
NAMES = {Fraction(0): "least", Fraction(1, 2): "median", Fraction(1): "greatest"}
FEW = 12  # findings that are printed


@dataclass(frozen=True, eq=False)
class Quantiles(Content):
    """Lines by attribute. quantiles: in order; epsilon: of all choices on one person's rows."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})
    answers_counts: ClassVar[bool] = False

    schema: Schema
    by: tuple[str, ...]
    quantiles: tuple[Fraction, ...]
    epsilon: Fraction
    lines: tuple[Line, ...]

    @cached_property
    def by_attribute(self) -> dict[str, list[QuantileLine]]:
        """For each attribute, the line of each group."""
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
        return self._select(select, confidence, surely=False)

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        return self._select(select, confidence, surely=manner.interval == "guaranteed")

    def _select(self, select: Select, confidence: float, *, surely: bool) -> Result:
        check_confidence(confidence)
        groups = Groups.of(select, self.domain)
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
        """One quantile of one group, without SQL."""
        rule = Quantile(Predicate.everything(), of, float(quantile))
        return self._estimate(rule, self.by_attribute[of][group].find(quantile, confidence), confidence)

    def _group(self, predicate: Predicate, of: str, codes: dict[str, int]) -> int:
        """The one group that a question is about; anything between groups has no answer here."""
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
        return quantiles_file.written(self)

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        quantiles_file.check(manifest, schema)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        quantiles_file.check_values(columns)

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Quantiles:
        return cls(schema, *quantiles_file.parts(manifest, schema, member))


def _value(axis: Axis, cells: float, whole: bool) -> float:
    """The value at a position along an axis, rows spread evenly inside a cell."""
    cell = min(int(cells), axis.places - 1)
    low, high = float(axis.edges[cell]), float(axis.edges[cell + 1]) - (1.0 if axis.discrete else 0.0)
    value = low + min(cells - cell, 1.0) * (high - low)
    return float(np.floor(value)) if whole and axis.discrete else value


def _text(axis: Axis, value: float) -> str:
    if axis.kind == "date":
        from sfumato.answers.result import when

        return str(when(value, timed=axis.timed))
    return f"{value:,.6g}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if not name.isidentifier() else name
