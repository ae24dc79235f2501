"""Fits from a file nobody has vouched for: whatever does not go together is refused.

Arrays are looked at before they are counted by, every array and every record has exactly one use, and an estimate that
does not follow from the fit it is said to come from is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.domain.binary_tree import BinaryTree, nodes_over
from sfumato.errors import QueryError
from sfumato.inference.fits.base import PARTS, Fit
from sfumato.inference.fits.linear import LinearFit
from sfumato.inference.fits.partition import PartitionFit
from sfumato.inference.fits.scaled_shape import ScaledShape
from sfumato.inference.fits.shrinkage import ShrinkageFit
from sfumato.inference.fits.tree import MOST_LEAVES, MOST_NODES, TreeFit
from sfumato.limits import MOST_SPANNED
from sfumato.measurement import Measurement
from sfumato.queries import Queries, Ranges
from sfumato.releases.file.fit_records import LARGEST, from_whole_numbers
from sfumato.releases.file.query_records import Arrays, Column, rebuild
from sfumato.releases.file.records import FitRecord, MeasurementRecord, QueriesRecord
from sfumato.releases.file.strict_json import refusal


@dataclass
class Reading:
    """Untrusted records on their way to being fits again."""

    queries: list[QueriesRecord]
    arrays: Arrays
    domain: Domain
    _built: dict[int, Queries] = field(default_factory=dict)

    def fit(self, record: FitRecord, estimate: Floats) -> Fit:
        """One fit, whatever its kind, over as many cells as there are estimates."""
        if record.family == "linear":
            return self._linear(record, estimate)
        taken = {name: self.arrays.take(place) for name, place in record.arrays.items()}
        try:
            if record.family == "tree":
                return self._tree(record, taken, estimate)
            read = {"regional": self._regional, "nested": self._nested, "shaped": self._shaped}[record.family]
            fit = read(record, taken, len(estimate))
            follows = np.allclose(fit.estimate, estimate, rtol=1e-9, atol=2 / PARTS)
        except (QueryError, LookupError, ValueError):  # ValueError: equations without a solution
            raise refusal("a fit in it contradicts itself") from None
        if not follows:
            raise refusal("its estimates do not follow from its fits")
        return fit

    def _linear(self, record: FitRecord, estimate: Floats) -> Fit:
        if len(record.measurements) != 1 or record.arrays:
            raise refusal("a fit in it has measurements or arrays that do not go with its kind")
        return LinearFit(self.measurement(record.measurements[0], len(estimate), record.of), estimate)

    def _tree(self, record: FitRecord, given: dict[str, Column], estimate: Floats) -> Fit:
        slopes = given.pop("slopes", None)
        deviations, leanings = _numbers(given, "deviations"), _numbers(given, "leanings")
        if slopes is None or given or len(record.measurements) != 1:
            raise refusal("a fit in it has measurements or arrays that do not go with its kind")
        if len(estimate) > MOST_LEAVES or nodes_over(self.domain) > MOST_NODES:
            raise refusal("a fit in it has a tree of more cells than Sfumato makes")
        measured = self.measurement(record.measurements[0], len(estimate), record.of)
        if type(measured.queries) is not Ranges:
            raise refusal("a fit in it has a tree that was not measured by ranges of its leaves")
        return TreeFit(measured, BinaryTree.over(self.domain), estimate, slopes, deviations, leanings)

    def _regional(self, record: FitRecord, given: dict[str, Column], size: int) -> Fit:
        labels, slopes = given.pop("labels", None), given.pop("slopes", None)
        spread, estimate = _numbers(given, "spread"), _numbers(given, "totals")
        deviations = None if slopes is None else _numbers(given, "deviations")
        if given:
            raise refusal("a fit in it has arrays that do not go with its kind")
        if not record.measurements:
            raise refusal("a fit in it lacks a measurement")
        measured = self.measurement(record.measurements[0], len(estimate), record.of)
        totals: LinearFit | TreeFit = LinearFit(measured, estimate)
        if slopes is not None and deviations is not None:
            totals = TreeFit(measured, BinaryTree.line(len(estimate)), estimate, slopes, deviations, np.zeros(0))
        besides = tuple(self._beside(beside) for beside in record.measurements[1:])
        return PartitionFit(_labels(labels, size, len(spread)), totals, spread, besides)

    def _nested(self, record: FitRecord, given: dict[str, Column], size: int) -> Fit:
        labels, order = given.pop("labels", None), given.pop("order", None)
        lean, keep, spread = (_numbers(given, name) for name in ("lean", "keep", "spread"))
        if order is None or given or len(record.measurements) != 2:
            raise refusal("a fit in it has measurements or arrays that do not go with its kind")
        labels = _labels(labels, size, len(lean))
        cells = self.measurement(record.measurements[0], size, record.of)
        totals = self.measurement(record.measurements[1], len(lean), record.of)
        if cells.queries.rows != size or totals.queries.rows != len(lean):
            raise refusal("a fit in it does not measure every cell and every region")
        return ShrinkageFit(labels, order, LinearFit.of_answers(totals), cells, lean, keep, spread)

    def _shaped(self, record: FitRecord, given: dict[str, Column], size: int) -> Fit:
        mass = given.pop("mass", None)
        total, spread = (_numbers(given, name) for name in ("total", "spread"))
        if mass is None or given or len(mass) != size or len(spread) != 1 or not 1 <= len(record.measurements) <= 2:
            raise refusal("a fit in it has measurements or arrays that do not go with its kind")
        if mass.sum(dtype=np.float64) >= LARGEST:  # as whole numbers they would come to less than nothing
            raise refusal("a fit in it has cells of more mass than there is")
        counted = LinearFit(self.measurement(record.measurements[0], 1, record.of), total)
        misfit = self._beside(record.measurements[1]) if len(record.measurements) > 1 else None
        return ScaledShape(counted, mass, float(spread[0]), misfit)

    def _beside(self, record: MeasurementRecord) -> Measurement:
        """A measurement that no estimate leans on, over whatever it says it spans."""
        return self.measurement(record, min(record.columns, MOST_SPANNED))

    def measurement(self, record: MeasurementRecord, columns: int, of: str | None = None) -> Measurement:
        """A measurement over so many cells or regions, with an answer and a noise for every row."""
        if record.columns != columns or of not in (None, record.of):
            raise refusal("a fit in it leans on another statistic, or on other cells than its own")
        queries = self._queries(record.queries, columns)
        answers = self.arrays.take(record.answers)
        which = None if record.which is None else self.arrays.take(record.which)
        if len(answers) != queries.rows or (which is not None and len(which) != queries.rows):
            raise refusal("it does not have an answer and a noise for each of its queries")
        kinds = len(record.noises)
        if (which is None and kinds != 1) or (which is not None and not 0 <= which.min() <= which.max() < kinds):
            raise refusal("it does not say which of its answers carry which noise")
        return Measurement(record.of, queries, answers, tuple(noise.noise for noise in record.noises), which)

    def _queries(self, place: int, columns: int) -> Queries:
        if place >= len(self.queries):
            raise refusal("it names queries that it does not have")
        if place not in self._built:
            self._built[place] = rebuild(self.queries[place], self.arrays, columns)
        if self._built[place].columns != columns:
            raise refusal("its queries do not span its cells")
        return self._built[place]

    def refuse_leftovers(self) -> None:
        """Every record and every array has a use."""
        self.arrays.refuse_leftovers()
        if len(self._built) < len(self.queries):
            raise refusal("it has queries that nothing in it names")


def _numbers(given: dict[str, Column], name: str) -> Floats:
    """Numbers per region, taken out of the arrays of a fit."""
    whole, parts = given.pop(name, None), given.pop(f"{name}_parts", None)
    if whole is None or parts is None or len(parts) != len(whole) or ((parts < 0) | (parts >= PARTS)).any():
        raise refusal("a fit in it has numbers that are not spelled as Sfumato spells them")
    return from_whole_numbers(whole, parts)


def _labels(labels: Column | None, size: int, groups: int) -> Column:
    """The group of each cell, looked at before anything is counted by it: a label can be as large as it likes."""
    if labels is None or not groups or len(labels) != size or not 0 <= labels.min() <= labels.max() < groups:
        raise refusal("a fit in it does not put each cell into one of its regions")
    return labels
