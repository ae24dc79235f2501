"""Sparse cube: noisy numbers of the cells above a threshold, and noisy totals of all cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.answers.evaluate import CountedNoise, View
from sfumato.answers.question import Kinds, gather_listed
from sfumato.answers.suppressed import Suppressed
from sfumato.arrays import Codes, Flags, Floats, Whole
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Cells, Identity, Total
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file import members
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.manifest import Total as TotalRecord
from sfumato.releases.file.members import CELL, CELLS, Columns
from sfumato.releases.file.records import noise_record, refusal
from sfumato.releases.rows.from_cells import RowsOfListedCells
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.answers.guaranteed_sums import FromThreshold


@dataclass(frozen=True, eq=False)
class SparseCube(ContentOfCells):
    """Noisy numbers of the cells whose noisy count reaches a threshold.

    measurements: "count" first, with the threshold and the cells; measures are missing where no cell was published.
    totals: of every statistic over all cells.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"threshold", "totals"})

    schema: Schema
    measurements: tuple[Measurement, ...]
    totals: tuple[Measurement, ...]

    @property
    def listed(self) -> Codes:
        """Indices of the published cells that rows can be in, (published,)."""
        return self._cells if self._kept is None else self._cells[self._kept]

    @property
    def _cells(self) -> Codes:
        """Indices of all published cells."""
        cells = self.measurements[0].cells
        assert cells is not None  # noqa: S101 (measured above a threshold)
        return cells

    @cached_property
    def _kept(self) -> Flags | None:
        """Flags of the published cells that are no structural zeros, whose noise alone reached the threshold."""
        structure = self.schema.structure
        if structure is None:
            return None
        return structure.agrees(np.stack([self.domain.codes_along(name, self._cells) for name in self.domain.names]))

    @property
    def threshold(self) -> int:
        above = self.measurements[0].above
        assert above is not None  # noqa: S101 (measured above a threshold)
        return above

    @cached_property
    def values(self) -> dict[str, Floats]:
        """Noisy number of each published cell by statistic, (published,) each; zeros if none was measured."""
        kept = slice(None) if self._kept is None else self._kept
        answers = {measured.of: measured.answers[kept].astype(np.float64) for measured in self.measurements}
        return {of: answers.get(of, np.zeros(len(self.listed))) for of in self.total_noises}

    @cached_property
    def remainder(self) -> dict[str, float]:
        """Sum over the unpublished cells by statistic: noisy total less the published numbers."""
        return {total.of: float(total.answers[0]) - float(self.values[total.of].sum()) for total in self.totals}

    @property
    def total_noises(self) -> dict[str, Noise]:
        return {total.of: total.noise for total in self.totals}

    @property
    def noises(self) -> dict[str, Noise]:
        """Noise on each cell by statistic; that of the total where no cell was published, which then enters nothing."""
        return self.total_noises | {measured.of: measured.noise for measured in self.measurements}

    @property
    def suppressed(self) -> Suppressed:
        return Suppressed(self.schema, self.threshold, len(self.listed), self.remainder, self.noises["count"])

    def view(self, kinds: Kinds) -> View:
        cells = gather_listed(self.domain, self.listed, self.values, tuple(kinds))
        return View(self.schema, cells, CountedNoise(self.noises, self.total_noises), self.suppressed)

    def sure(self, kinds: Kinds) -> FromThreshold:
        from sfumato.answers.guaranteed_sums import FromThreshold, Thresholded

        (total,) = (total for total in self.totals if total.of == "count")
        thresholded = Thresholded(self.threshold, self.noises["count"], float(total.answers[0]), total.noise)
        return FromThreshold(thresholded, float(self.schema.possible_cells))

    def cells(self) -> Floats:
        """Estimated count of every cell, (cells,); the remainder is spread evenly over possible unpublished ones."""
        hidden = max(1, self.schema.possible_cells - len(self.listed))
        estimate = np.full(self.domain.size, self.remainder["count"] / hidden)
        if self.schema.possible is not None:
            estimate *= self.schema.possible
        estimate[self.listed] = self.values["count"]
        return estimate

    @cached_property
    def row_model(self) -> RowsOfListedCells:
        errors = {of: float(np.sqrt(noise.variance)) for of, noise in self.noises.items()}
        return RowsOfListedCells(self.schema, self.values, errors, self.listed, self.remainder)

    @property
    def about(self) -> About:
        return About(
            self.domain.names,
            f"{len(self.listed):,} of {self.schema.possible_cells:,} cells",
            (*self.measurements, *self.totals),
            self.suppressed.note,
        )

    def write(self) -> Written:
        statistics = [members.statistic(measured.of, self.schema, measured.noise) for measured in self.measurements]
        columns: dict[str, Whole] = {CELL: self._cells}
        columns |= {one.column: m.answers for one, m in zip(statistics, self.measurements, strict=True)}
        if len(columns) <= len(self.measurements):
            raise ReleaseFileError("a file keeps each statistic of noisy cells once; put several into a fit")
        totals = [TotalRecord(total.of, int(total.answers[0]), noise_record(total.noise)) for total in self.totals]
        return Written("sparse-cube", statistics, {CELLS: columns}, {"threshold": self.threshold, "totals": totals})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        if manifest.threshold is None or not manifest.totals:
            raise refusal("its manifest has a threshold or totals that do not go with its kind")
        if len(manifest.members) != 1:
            raise refusal("it is a sparse cube and does not have exactly one member")
        if any(one.noise is None for one in manifest.statistics):
            raise refusal("its statistics have a noise that does not go with its kind, or lack one")
        members.check_columns(manifest, [(name, CELL) for name in manifest.members])
        members.check_rows(manifest, dict.fromkeys(manifest.members, schema.domain.size), at_most=True)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Refuse cells out of order or outside the domain, and counts below the threshold."""
        cells = columns[CELL]
        counts = next(columns[one.column] for one in manifest.statistics if one.of == "count")
        if len(cells) and (cells[0] < 0 or cells[-1] >= schema.domain.size or not (cells[1:] > cells[:-1]).all()):
            raise refusal("its cells are not in order, or lie outside its schema")
        if manifest.threshold is None or (counts < manifest.threshold).any():
            raise refusal("it holds a count below its own threshold")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> SparseCube:
        size = schema.domain.size
        (name,) = manifest.members
        columns = member(name)
        cells = columns[CELL]
        measurements = []
        for statistic in manifest.statistics:
            assert statistic.noise is not None  # noqa: S101 (checked when the file was opened)
            answers, noises = columns[statistic.column], (statistic.noise.noise,)
            if statistic.of == "count":
                counted = Measurement(
                    statistic.of, Identity(size), answers, noises, above=manifest.threshold, cells=cells
                )
                measurements.append(counted)
            else:
                measurements.append(Measurement(statistic.of, Cells(size, cells), answers, noises))
        totals = (Measurement(t.of, Total(size), np.array([t.value]), (t.noise.noise,)) for t in manifest.totals)
        return cls(schema, tuple(measurements), tuple(totals))
