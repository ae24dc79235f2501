"""Between a release and its file: what goes into the manifest and the members, and back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ReleaseFileError
from sfumato.measurement import Measurement
from sfumato.queries import Cells, Identity, Total
from sfumato.releases.cube import Cube
from sfumato.releases.file.artifact import Artifact, write_artifact
from sfumato.releases.file.consistency import CELL, CELLS, NUMBERS, VALUE, parts_column
from sfumato.releases.file.fits import Reading, from_whole_numbers, in_whole_numbers, write_fits
from sfumato.releases.file.manifest import Manifest, MechanismRecord, Statistic
from sfumato.releases.file.manifest import Total as TotalRecord
from sfumato.releases.file.query_records import Arrays, Column
from sfumato.releases.file.records import noise_record
from sfumato.releases.publication import Publication
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.measurement import Noise

Members = dict[str, dict[str, Column]]


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file is written from. Nothing else of a release goes into it, so who looks at this has seen the file."""

    manifest: Manifest
    members: Members

    @property
    def columns(self) -> dict[str, dict[str, Column]]:
        """The columns of all members, where one that holds many arrays is cut into them."""
        found = {name: dict(columns) for name, columns in self.members.items()}
        if NUMBERS in found and self.manifest.arrays:
            arrays = arrays_in(self.manifest, found[NUMBERS].pop(VALUE))
            found[NUMBERS] |= {f"array {place}": array for place, array in enumerate(arrays)}
        return found


def contents_of(release: Publication) -> Contents:
    """What the file of a release is written from."""
    return Contents(*(_fitted if release.cube.fits else _measured)(release))


def save_release(release: Publication, path: Path) -> None:
    """Write the release, whole or not at all."""
    contents = contents_of(release)
    digest = write_artifact(path, contents.manifest, contents.members)
    if release.published is not None:
        release.published(digest)


def read_cube(artifact: Artifact) -> Cube:
    """The cube in a file nobody has vouched for."""
    statistics = [statistic.of for statistic in artifact.manifest.statistics]
    expected = ["count", *artifact.schema.measures]
    dense = artifact.manifest.kind != "sparse-cube"
    if statistics != expected[: len(statistics)] or (dense and len(statistics) < len(expected)):
        raise ReleaseFileError("the file's statistics do not match its schema; ask the publisher for a fresh copy")
    return _read_fitted(artifact) if artifact.manifest.kind == "fitted-cube" else _read_measured(artifact, expected)


def _measured(release: Publication) -> tuple[Manifest, Members]:
    """A cube whose cells were measured one by one."""
    cube = release.cube
    columns = {_column(m.of): m.answers for m in cube.measurements}
    if len(columns) < len(cube.measurements):
        raise ReleaseFileError("a file keeps each statistic of noisy cells once; put several measurements into a fit")
    if cube.measurements[0].cells is not None:
        columns = {CELL: cube.measurements[0].cells, **columns}
    manifest = Manifest(
        kind="sparse-cube" if cube.sparse else "cube",
        schema=cube.schema.to_dict(),
        mechanism=MechanismRecord(release.mechanism),
        guarantee=release.guarantee,
        private=release.private,
        statistics=[_statistic(m.of, cube.schema, m.noise) for m in cube.measurements],
        receipt=release.receipt,
        threshold=cube.threshold,
        totals=[TotalRecord(t.of, int(t.answers[0]), noise_record(t.noise)) for t in cube.totals],
    )
    return manifest, {CELLS: columns}


def _read_measured(artifact: Artifact, expected: list[str]) -> Cube:
    manifest = artifact.manifest
    columns = _columns(artifact)
    size = artifact.schema.domain.size
    cells = columns.get(CELL)
    measurements = []
    for statistic in manifest.statistics:
        answers = columns[statistic.column]
        first = statistic.of == "count"
        queries = Identity(size) if cells is None or first else Cells(size, cells)
        above, listed = (manifest.threshold, cells) if first else (None, None)
        assert statistic.noise is not None  # noqa: S101 (checked when the file was opened)
        measurements.append(
            Measurement(statistic.of, queries, answers, (statistic.noise.noise,), above=above, cells=listed)
        )
    totals = tuple(
        Measurement(total.of, Total(size), np.array([total.value]), (total.noise.noise,)) for total in manifest.totals
    )
    if [t.of for t in totals] != ([] if cells is None else expected):
        raise ReleaseFileError("the file's totals do not match its schema; ask the publisher for a fresh copy")
    return Cube(artifact.schema, tuple(measurements), totals)


def _fitted(release: Publication) -> tuple[Manifest, Members]:
    """A cube that was estimated from measurements of other things than single cells."""
    cube = release.cube
    written = write_fits(cube.fits, cube.domain)
    columns: dict[str, Column] = {}
    for fit in cube.fits:
        name = _column(fit.of)
        columns[name], columns[parts_column(name)] = in_whole_numbers(fit.estimate)
    manifest = Manifest(
        kind="fitted-cube",
        schema=cube.schema.to_dict(),
        mechanism=MechanismRecord(release.mechanism),
        guarantee=release.guarantee,
        private=release.private,
        statistics=[_statistic(fit.of, cube.schema, None) for fit in cube.fits],
        receipt=release.receipt,
        fits=written.fits,
        queries=written.queries,
        arrays=[len(array) for array in written.arrays.all],
    )
    return manifest, {CELLS: columns, NUMBERS: {VALUE: np.concatenate(written.arrays.all)}}


def _read_fitted(artifact: Artifact) -> Cube:
    manifest = artifact.manifest
    columns = _columns(artifact)
    arrays = Arrays(arrays_in(manifest, artifact.read(NUMBERS)[VALUE]))
    reading = Reading(manifest.queries, arrays, artifact.schema.domain)
    fits = []
    for statistic, record in zip(manifest.statistics, manifest.fits, strict=True):
        # Taken out, so that they are not kept beside the estimate that is made of them.
        estimate = from_whole_numbers(columns.pop(statistic.column), columns.pop(parts_column(statistic.column)))
        fits.append(reading.fit(record, estimate))
    reading.refuse_leftovers()
    return Cube(artifact.schema, fits=tuple(fits))


def arrays_in(manifest: Manifest, numbers: Column) -> list[Column]:
    """The arrays that stand one after the other in one member."""
    return np.split(numbers, list(accumulate(manifest.arrays))[:-1]) if manifest.arrays else []


def _columns(artifact: Artifact) -> dict[str, Column]:
    """The columns of all members, by name; the manifest's statistics are known to be among them."""
    columns: dict[str, Column] = {}
    for member in dict.fromkeys(statistic.member for statistic in artifact.manifest.statistics):
        columns |= artifact.read(member)
    return columns


def _statistic(of: str, schema: Schema, noise: Noise | None) -> Statistic:
    written = None if noise is None else noise_record(noise)
    if of == "count":
        return Statistic(of, CELLS, _column(of), written)
    measure = schema.measures[of]
    return Statistic(of, CELLS, _column(of), written, measure.step, measure.centre)


def _column(of: str) -> str:
    return "count" if of == "count" else f"sum of {of}"
