"""Between a release and its file: what goes into the manifest and the members, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ReleaseFileError
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.queries import Cells, Identity, Total
from sfumato.releases.artifact import CELL, Artifact, write_artifact
from sfumato.releases.cube import Cube
from sfumato.releases.manifest import LaplaceRecord, Manifest, MechanismRecord, Statistic
from sfumato.releases.manifest import Total as TotalRecord
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.releases.release import Release

MEMBER = "cells"


def save_release(release: Release, path: Path) -> None:
    """Write the release, whole or not at all."""
    cube = release.cube
    columns = {_column(m.of): m.answers for m in cube.measurements}
    if cube.measurements[0].cells is not None:
        columns = {CELL: cube.measurements[0].cells, **columns}
    manifest = Manifest(
        kind="sparse-cube" if cube.sparse else "cube",
        schema=cube.schema.to_dict(),
        mechanism=MechanismRecord(release.mechanism),
        guarantee=release.guarantee,
        private=release.private,
        statistics=[_statistic(m, cube.schema) for m in cube.measurements],
        receipt=release.receipt,
        threshold=cube.threshold,
        totals=[TotalRecord(t.of, int(t.answers[0]), _record(t.noise)) for t in cube.totals],
    )
    digest = write_artifact(path, manifest, {MEMBER: columns})
    if release.published is not None:
        release.published(digest)


def read_cube(artifact: Artifact) -> Cube:
    """The cube in a file nobody has vouched for."""
    manifest = artifact.manifest
    schema = artifact.schema
    columns = artifact.read(MEMBER)
    size = schema.domain.size
    cells = columns.get(CELL)
    statistics = [s.of for s in manifest.statistics]
    expected = ["count", *schema.measures]
    if statistics != expected[: len(statistics)] or (cells is None and len(statistics) < len(expected)):
        raise ReleaseFileError("the file's statistics do not match its schema; ask the publisher for a fresh copy")
    measurements = []
    for statistic in manifest.statistics:
        answers = columns[statistic.column]
        first = statistic.of == "count"
        queries = Identity(size) if cells is None or first else Cells(size, cells)
        above, listed = (manifest.threshold, cells) if first else (None, None)
        measurements.append(
            Measurement(statistic.of, queries, answers, (statistic.noise.noise,), above=above, cells=listed)
        )
    totals = tuple(
        Measurement(total.of, Total(size), np.array([total.value]), (total.noise.noise,)) for total in manifest.totals
    )
    if [t.of for t in totals] != ([] if cells is None else expected):
        raise ReleaseFileError("the file's totals do not match its schema; ask the publisher for a fresh copy")
    return Cube(schema, tuple(measurements), totals)


def _statistic(measurement: Measurement, schema: Schema) -> Statistic:
    of = measurement.of
    noise = _record(measurement.noise)
    if of == "count":
        return Statistic(of, MEMBER, _column(of), noise)
    measure = schema.measures[of]
    return Statistic(of, MEMBER, _column(of), noise, measure.step, measure.centre)


def _column(of: str) -> str:
    return "count" if of == "count" else f"sum of {of}"


def _record(noise: Noise) -> LaplaceRecord:
    if not isinstance(noise, Laplace):
        raise ReleaseFileError("only Laplace noise can be written to a file so far")
    return LaplaceRecord(noise.scale)
