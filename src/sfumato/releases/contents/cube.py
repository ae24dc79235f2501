"""Cube: an estimate of every statistic in every cell of the domain, with its fit.

Kind `cube`: every cell was measured independently. Kind `fitted-cube`: cells were estimated from other measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.answers.fit import PARTS, Errors, Fit, NoisyCells
from sfumato.arrays import Floats, Whole
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise, Trail
from sfumato.queries import Identity, Queries
from sfumato.releases.contents.content import NOT_UNBIASED, About, Content, ContentOfCells, Written
from sfumato.releases.file import members
from sfumato.releases.file.fit_records import Arrays, Reading, from_whole_numbers, in_whole_numbers, write_fits
from sfumato.releases.file.manifest import Manifest, Statistic
from sfumato.releases.file.members import CELLS, NUMBERS, VALUE, Columns, parts_column
from sfumato.releases.file.records import WITHOUT_ESTIMATE, refusal
from sfumato.schema import Schema
from sfumato.schema.facts import Fact, facts_in_words

if TYPE_CHECKING:
    from sfumato.answers.evaluate import NoiseSource, View
    from sfumato.answers.guaranteed_columns import FromFits
    from sfumato.answers.question import Kinds
    from sfumato.answers.results import Estimate
    from sfumato.releases.contents.leaning import Seen
    from sfumato.releases.rows.from_cells import RowsOfCells
    from sfumato.sql import Select

MOST_LOOKED = 64  # cells whose errors tell how much is gained by leaning


@dataclass(frozen=True, eq=False)
class Cube(ContentOfCells):
    """Fit of each statistic over all cells, "count" first.

    The sum of a measure in a cell is step * estimate + centre * count.
    """

    answers_linear: ClassVar[bool] = True
    uses: ClassVar[frozenset[str]] = frozenset({"fits", "queries", "arrays"})

    schema: Schema
    fits: tuple[Fit, ...]

    @classmethod
    def of_cells(cls, schema: Schema, measurements: Sequence[Measurement]) -> Cube:
        """Cube whose cells were measured independently."""
        return cls(schema, tuple(NoisyCells(measured) for measured in measurements))

    @property
    def plain(self) -> bool:
        """Whether every cell was measured independently."""
        return all(isinstance(fit, NoisyCells) for fit in self.fits)

    @property
    def trail(self) -> Trail | None:
        """Fresh noises of which the error of each cell is made, where it is spread over the parts of a series."""
        trails: list[Trail | None] = [getattr(fit, "trail", None) for fit in self.fits]
        first = trails[0]
        same = (one and first and one.run == first.run and np.array_equal(one.weights, first.weights) for one in trails)
        return first if all(same) else None

    @cached_property
    def shown(self) -> tuple[Fit, ...]:
        """Fits that answers come from: with 0 in cells that the schema calls impossible, and agreeing with facts."""
        structure = self.schema.structure
        if structure is None:
            return (self._agreeing[0], *self.fits[1:])
        from sfumato.answers.constrained_fit import without_impossible

        return tuple(without_impossible(fit, structure.whole) for fit in self.fits)

    @cached_property
    def _agreeing(self) -> tuple[Fit, tuple[Fact, ...]]:
        """Fit of counts that agrees with the schema's facts, and those facts that noisy counts contradict."""
        if not self.schema.known:
            return self.fits[0], ()
        from sfumato.answers.constrained_fit import agreeing

        return agreeing(self.fits[0], self.schema.known, self.domain)

    @property
    def values(self) -> dict[str, Floats]:
        """Estimate of every cell by statistic, (cells,) each."""
        return {fit.of: fit.estimate for fit in self.shown}

    @property
    def noises(self) -> dict[str, Noise]:
        """Noise drawn for each cell by statistic, where every cell was measured independently."""
        return {fit.of: fit.measurements[0].noise for fit in self.fits}

    def view(self, kinds: Kinds) -> View:
        from sfumato.answers.evaluate import CountedNoise, View
        from sfumato.answers.fitted_noise import FittedNoise
        from sfumato.answers.question import gathered, gathered_by_kind

        plain = self.plain and not self.schema.known
        counted = plain or self.trail is not None  # in every cell noise of one size, independent of other cells
        noises: NoiseSource = CountedNoise(self.noises) if plain else FittedNoise(self.shown, self.domain)
        if self.trail is not None:
            from sfumato.answers.along_time import AlongTime

            noises = AlongTime(self.noises, self.trail)
        axes = sorted(self.domain.place(name) for name in kinds)
        summed = {fit.of: fit.sums(self.domain, axes) for fit in self.shown}
        structure = self.schema.structure
        if counted and (axes or structure is not None):
            by_place = {place: np.asarray(kinds[self.domain.names[place]]) for place in axes}
            if structure is None:
                return View(self.schema, gathered_by_kind(self.domain, summed, by_place), noises)
            others = tuple(place for place in range(len(self.domain.axes)) if place not in axes)
            flags = structure.whole.reshape(self.domain.shape)  # cells that bring noise are those that rows can be in
            summed["possible"] = np.asarray(flags.sum(axis=others), dtype=np.float64).reshape(-1)
            cells = gathered_by_kind(self.domain, summed, by_place)
            many = np.asarray(cells.values["possible"], dtype=np.int64)
            cells = replace(cells, values={of: cells.values[of] for of in self.values}, merged=1, many=many)
            return View(self.schema, cells, noises)
        return View(self.schema, gathered(self.domain, summed, axes), noises)

    @property
    def groups_by_class(self) -> bool:
        return True

    @property
    def independent(self) -> bool:
        return self.plain and not self.schema.known

    def exact_at(self, confidence: float) -> float | None:
        return confidence if all(fit.exact for fit in self.fits) and not self.schema.known else None

    def together(self, select: Select, confidence: float) -> float | None:
        from sfumato.answers.joint_confidence import together

        if self.exact_at(confidence) is None:
            return None
        return together(select, self.schema, self.view, self.shown, confidence)

    def sure(self, kinds: Kinds) -> FromFits:
        from sfumato.answers.guaranteed_columns import FromFits, finders

        return FromFits(self.domain, finders(self.shown, self.domain), kinds)

    def as_measured(self) -> Cube:
        """Cube of unbiased estimates: itself if all fits are, or the independently measured cells that they rest on.

        Measurements of buckets that were chosen by the cells' noise depend on it and are left out; so are counts that
        were measured because earlier noisy ones were large. No combination of these is unbiased.
        """
        if all(fit.exact for fit in self.fits):
            return self
        cells = [_cells(fit, self.domain.size) for fit in self.fits]
        if None in cells:
            raise QueryError(
                "what this release measured was chosen by earlier noise, or is of whole regions, so that it holds no "
                f"unbiased counts; {NOT_UNBIASED}"
            )
        return Cube.of_cells(self.schema, [one for one in cells if one is not None])

    def leaning(self, others: Sequence[Content], before: int) -> Content:
        """Cube whose counts borrow from other periods' cubes of the same cells (leaning.py)."""
        from sfumato.releases.contents.leaning import LeaningFit

        alike = [isinstance(each, Cube) and each.domain.axes == self.domain.axes for each in others]
        kept = [each for each, same in zip(others, alike, strict=True) if same and isinstance(each, Cube)]
        at = sum(alike[:before])
        listed = [each for each in (*kept[:at], self, *kept[at:]) if each.components is not None]
        if self.components is None or len(listed) < 2:
            return self
        seen = [each.components for each in listed if each.components is not None]
        count = LeaningFit.among([each.fits[0] for each in listed], seen, listed.index(self))
        return self if count is None else replace(self, fits=(count, *self.fits[1:]))

    @cached_property
    def components(self) -> Seen | None:
        """Measured and estimated counts, for smoothing over the periods of a series; None where it takes no part."""
        from sfumato.releases.contents.leaning import Seen

        if self.schema.structure is not None or self.trail is not None:
            return None
        return Seen.of(self.fits[0], self.domain)

    def spread_beside(self, other: Content) -> float | None:
        if not isinstance(other, Cube):
            return None
        columns = np.eye(self.domain.size)[:, :: -(-self.domain.size // MOST_LOOKED)]
        mine, its = (spread_of(each.fits[0].errors(columns)) for each in (self, other))
        return float(np.sqrt(mine / its)) if its > 0.0 else None

    def linear(self, queries: Queries, confidence: float, interval: str = "typical") -> Sequence[Estimate]:
        from sfumato.answers.linear import answer_by_cells, answer_by_fit
        from sfumato.answers.noise_sum import check_confidence

        check_confidence(confidence)
        if queries.columns != self.domain.size:
            raise QueryError(f"the queries span {queries.columns} cells, the release has {self.domain.size}")
        plain = self.plain and self.schema.structure is None and not self.schema.known
        if plain:
            estimates = answer_by_cells(queries, self.fits[0], self.noises["count"], confidence)
        else:
            estimates = answer_by_fit(queries, self.shown[0], confidence)
        if interval == "typical" and plain:
            return estimates
        from sfumato.answers.linear import in_kind, no_wider

        if interval == "typical":
            return no_wider(queries, self.shown[0], self.domain, estimates, confidence)
        return in_kind(queries, self.shown[0], self.domain, estimates, confidence, interval)

    def cells(self) -> Floats:
        return self.shown[0].estimate

    @cached_property
    def row_model(self) -> RowsOfCells:
        from sfumato.releases.rows.from_cells import RowsOfCells

        return RowsOfCells(self.schema, self.values, self._cell_errors() if self.schema.measures else {})

    def _cell_errors(self) -> dict[str, float]:
        """Standard error of one cell (the middle one) of each statistic."""
        middle = np.zeros((self.domain.size, 1))
        middle[self.domain.size // 2] = 1.0
        return {fit.of: float(np.sqrt(spread_of(fit.errors(middle)))) for fit in self.fits}

    @property
    def _facts(self) -> Sequence[str]:
        return facts_in_words(self.schema, self._agreeing[1]) if self.schema.known else ()

    @property
    def about(self) -> About:
        return About(
            self.domain.names,
            f"{self.domain.size:,} cells",
            tuple(measured for fit in self.fits for measured in fit.measurements),
            "every cell carries noise of its own, whose distribution is known exactly"
            if self.plain or self.trail is not None
            else "cells were fitted to noisy answers: their noise is known exactly, what the fit assumes is estimated",
            (*(words for fit in self.fits for words in fit.words), *self._facts),
        )

    def write(self) -> Written:
        noises = self.noises if self.plain else {}
        statistics = [members.statistic(fit.of, self.schema, noises.get(fit.of)) for fit in self.fits]
        columns: dict[str, Whole] = {}
        if self.plain:
            columns = {one.column: fit.measurements[0].answers for one, fit in zip(statistics, self.fits, strict=True)}
            if len(columns) < len(self.fits):
                raise ReleaseFileError("a file keeps each statistic of noisy cells once; put several into a fit")
            return Written("cube", statistics, {CELLS: columns})
        for index, fit in enumerate(self.fits):
            if fit.family in WITHOUT_ESTIMATE:
                statistics[index] = replace(statistics[index], member=NUMBERS, column=VALUE)
                continue
            column = statistics[index].column
            columns[column], columns[parts_column(column)] = in_whole_numbers(fit.estimate)
        written = write_fits(self.fits, self.domain)
        arrays = written.arrays.all
        further = {"fits": written.fits, "queries": written.queries, "arrays": [len(array) for array in arrays]}
        kept = {CELLS: columns} if columns else {}
        return Written("fitted-cube", statistics, {**kept, NUMBERS: {VALUE: np.concatenate(arrays)}}, further)

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        fitted = manifest.kind == "fitted-cube"
        if any((one.noise is None) != fitted for one in manifest.statistics):
            raise refusal("its statistics have a noise that does not go with its kind, or lack one")
        listed = [one.of for one in manifest.statistics] if fitted else []
        if [fit.of for fit in manifest.fits] != listed or (not fitted and (manifest.queries or manifest.arrays)):
            raise refusal("its manifest has fits or arrays that do not go with its kind or its statistics")
        kept, solved = _with_estimates(manifest)
        if any((one.member, one.column) != (NUMBERS, VALUE) for one in solved):
            raise refusal("its manifest names a place for estimates that are left out")
        parts = [(one.member, parts_column(one.column)) for one in kept]
        members.check_columns(manifest, [*parts, (NUMBERS, VALUE)] if fitted else [], kept)
        rows = dict.fromkeys(manifest.members, schema.domain.size)
        members.check_rows(manifest, rows | {NUMBERS: sum(manifest.arrays)} if fitted else rows)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Refuse fractional parts outside 0 .. PARTS - 1."""
        for one in manifest.statistics:
            parts = columns.get(parts_column(one.column))
            if parts is not None and not 0 <= parts.min() <= parts.max() < PARTS:
                raise refusal("its estimates are not spelled as Sfumato spells them")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Cube:
        columns: dict[str, Whole] = {}
        for name in dict.fromkeys(one.member for one in _with_estimates(manifest)[0]):
            columns |= member(name)
        if manifest.kind != "fitted-cube":
            noises = {one.of: one.noise.noise for one in manifest.statistics if one.noise is not None}
            every_cell, kept = Identity(schema.domain.size), manifest.statistics
            measured = (Measurement(one.of, every_cell, columns[one.column], (noises[one.of],)) for one in kept)
            return cls.of_cells(schema, tuple(measured))
        arrays = Arrays(members.arrays_in(manifest, member(NUMBERS)[VALUE]))
        reading = Reading(manifest.queries, arrays, schema.domain, schema.possible)
        fits = []
        for statistic, record in zip(manifest.statistics, manifest.fits, strict=True):
            estimate = None
            if record.family not in WITHOUT_ESTIMATE:
                # Taken out, so that they are not kept beside the estimate that is made of them.
                estimate = from_whole_numbers(
                    columns.pop(statistic.column), columns.pop(parts_column(statistic.column))
                )
            fits.append(reading.fit(record, estimate))
        reading.refuse_leftovers()
        return cls(schema, tuple(fits))


def spread_of(errors: Errors) -> float:
    """Sum of the variances of all sums."""
    many = 1 if errors.counts is None else errors.counts
    return float((errors.design.variances * many) @ (errors.weights**2).sum(axis=1) + np.trace(errors.model))


def _with_estimates(manifest: Manifest) -> tuple[list[Statistic], list[Statistic]]:
    """Statistics by storage: estimates kept in the file, and estimates recomputed from measurements."""
    families = [fit.family for fit in manifest.fits] or [""] * len(manifest.statistics)
    pairs = [*zip(manifest.statistics, families, strict=True)]
    kept = [one for one, family in pairs if family not in WITHOUT_ESTIMATE]
    return kept, [one for one, family in pairs if family in WITHOUT_ESTIMATE]


def _cells(fit: Fit, size: int) -> Measurement | None:
    """Measurement of every cell in a fit; None where it has none."""
    for one in fit.measurements:
        if one.of == fit.of and isinstance(one.queries, Identity) and len(one.answers) == size:
            return one
    return None
