"""A cube: an estimate of every statistic in every cell of the domain, and how each was come by.

Kind `cube`: every cell was measured by itself. Kind `fitted-cube`: cells were fitted to measurements of other things.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.inference.fits.base import PARTS, Fit
from sfumato.inference.fits.noisy_cells import NoisyCells
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity, Queries
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.fits import Reading, from_whole_numbers, in_whole_numbers, write_fits
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.members import (
    CELLS,
    NUMBERS,
    VALUE,
    Columns,
    arrays_in,
    check_columns,
    check_rows,
    check_statistics,
    parts_column,
    statistic,
)
from sfumato.releases.file.query_records import Arrays, Column
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.kernel.sampling.entropy import Entropy
    from sfumato.releases.answers.estimate import Estimate
    from sfumato.releases.answers.result import Result
    from sfumato.releases.answers.view import View
    from sfumato.sql import Select


@dataclass(frozen=True, eq=False)
class Cube(Content):
    """An estimate for each statistic, "count" first. A measure's sum in a cell is step * estimate + centre * count."""

    answers_linear: ClassVar[bool] = True

    schema: Schema
    fits: tuple[Fit, ...]

    @classmethod
    def of_cells(cls, schema: Schema, measurements: Sequence[Measurement]) -> Cube:
        """A cube whose cells were measured one by one."""
        return cls(schema, tuple(NoisyCells(measured) for measured in measurements))

    @property
    def plain(self) -> bool:
        """Whether every cell was measured by itself."""
        return all(isinstance(fit, NoisyCells) for fit in self.fits)

    @property
    def values(self) -> dict[str, Floats]:
        """The estimates of each statistic."""
        return {fit.of: fit.estimate for fit in self.fits}

    @property
    def noises(self) -> dict[str, Noise]:
        """The noise on each cell, by statistic, where every cell was measured by itself."""
        return {fit.of: fit.measurements[0].noise for fit in self.fits}

    def view(self, names: tuple[str, ...]) -> View:
        """The cells along some attributes, for the evaluator."""
        from sfumato.releases.answers.counted_noise import CountedNoise
        from sfumato.releases.answers.fitted_noise import FittedNoise
        from sfumato.releases.answers.gathered import gather
        from sfumato.releases.answers.view import View

        noises = CountedNoise(self.noises) if self.plain else FittedNoise(self.fits, self.domain)
        return View(self.schema, gather(self.domain, self.values, names), noises)

    def select(self, select: Select, confidence: float) -> Result:
        from sfumato.releases.answers.answer import answer_select

        return answer_select(select, self.schema, self.view, confidence)

    def linear(self, queries: Queries, confidence: float) -> Sequence[Estimate]:
        from sfumato.releases.answers.answer import check_confidence
        from sfumato.releases.answers.linear import answer_by_cells, answer_by_fit

        check_confidence(confidence)
        if queries.columns != self.domain.size:
            raise QueryError(f"the queries span {queries.columns} cells, the release has {self.domain.size}")
        if self.plain:
            return answer_by_cells(queries, self.fits[0], self.noises["count"], confidence)
        return answer_by_fit(queries, self.fits[0], confidence)

    def cells(self) -> Floats:
        return self.fits[0].estimate

    def draw(self, rows: int, entropy: Entropy | None = None) -> pa.Table:
        from sfumato.releases.sampling import Known, sample_rows

        return sample_rows(Known(self.schema, self.values, self._cell_errors()), rows, entropy)

    def _cell_errors(self) -> dict[str, float]:
        """The standard error of one cell of each statistic, a typical one where they differ."""
        middle = np.zeros((self.domain.size, 1))
        middle[self.domain.size // 2] = 1.0
        found = {}
        for fit in self.fits:
            if self.plain:
                found[fit.of] = float(np.sqrt(self.noises[fit.of].variance))
            else:
                errors = fit.errors(middle)
                noise = float((errors.design.variances * errors.weights[:, 0] ** 2).sum())
                found[fit.of] = float(np.sqrt(noise + errors.model[0, 0]))
        return found

    @property
    def about(self) -> About:
        return About(
            self.domain.names,
            f"{self.domain.size:,} cells",
            tuple(measured for fit in self.fits for measured in fit.measurements),
            "every cell carries noise of its own, whose distribution is known exactly"
            if self.plain
            else "cells were fitted to noisy answers: their noise is known exactly, what the fit assumes is estimated",
        )

    def write(self) -> Written:
        statistics = [
            statistic(fit.of, self.schema, fit.measurements[0].noise if self.plain else None) for fit in self.fits
        ]
        columns: dict[str, Column] = {}
        if self.plain:
            for one, fit in zip(statistics, self.fits, strict=True):
                columns[one.column] = fit.measurements[0].answers
            if len(columns) < len(self.fits):
                raise ReleaseFileError("a file keeps each statistic of noisy cells once; put several into a fit")
            return Written("cube", statistics, {CELLS: columns})
        for one, fit in zip(statistics, self.fits, strict=True):
            columns[one.column], columns[parts_column(one.column)] = in_whole_numbers(fit.estimate)
        written = write_fits(self.fits, self.domain)
        arrays = written.arrays.all
        further = {"fits": written.fits, "queries": written.queries, "arrays": [len(array) for array in arrays]}
        members = {CELLS: columns, NUMBERS: {VALUE: np.concatenate(arrays)}}
        return Written("fitted-cube", statistics, members, further)

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        fitted = manifest.kind == "fitted-cube"
        if manifest.threshold is not None or manifest.totals:
            raise refusal("its manifest has a threshold or totals that do not go with its kind")
        if any((one.noise is None) != fitted for one in manifest.statistics):
            raise refusal("its statistics have a noise that does not go with its kind, or lack one")
        listed = [one.of for one in manifest.statistics]
        if [fit.of for fit in manifest.fits] != (listed if fitted else []) or (manifest.queries and not fitted):
            raise refusal("its manifest has fits that do not go with its kind or its statistics")
        if manifest.arrays and not fitted:
            raise refusal("its manifest has arrays that do not go with its kind")
        parts = [(one.member, parts_column(one.column)) for one in manifest.statistics]
        check_columns(manifest, [*parts, (NUMBERS, VALUE)] if fitted else [])
        rows = dict.fromkeys(manifest.members, schema.domain.size)
        check_rows(manifest, rows | {NUMBERS: sum(manifest.arrays)} if fitted else rows)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Parts are parts: they never reach a whole."""
        for one in manifest.statistics:
            parts = columns.get(parts_column(one.column))
            if parts is not None and not 0 <= parts.min() <= parts.max() < PARTS:
                raise refusal("its estimates are not spelled as Sfumato spells them")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Cube:
        check_statistics(manifest, schema, all_of_them=True)
        columns: dict[str, Column] = {}
        for name in dict.fromkeys(one.member for one in manifest.statistics):
            columns |= member(name)
        if manifest.kind == "cube":
            every_cell = Identity(schema.domain.size)
            return cls.of_cells(
                schema,
                [
                    Measurement(one.of, every_cell, columns[one.column], (one.noise.noise,))
                    for one in manifest.statistics
                    if one.noise is not None  # checked when the file was opened
                ],
            )
        arrays = Arrays(arrays_in(manifest, member(NUMBERS)[VALUE]))
        reading = Reading(manifest.queries, arrays, schema.domain)
        fits = []
        for one, record in zip(manifest.statistics, manifest.fits, strict=True):
            # Taken out, so that they are not kept beside the estimate that is made of them.
            estimate = from_whole_numbers(columns.pop(one.column), columns.pop(parts_column(one.column)))
            fits.append(reading.fit(record, estimate))
        reading.refuse_leftovers()
        return cls(schema, tuple(fits))
