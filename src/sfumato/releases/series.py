"""Series as a whole: its guarantee over all parts, a check of every byte, and single parts taken out."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from sfumato.errors import ReleaseFileError
from sfumato.kernel.ledger.book import Series as Promise
from sfumato.kernel.ledger.book import Unit, period_of
from sfumato.kernel.ledger.composition import Loss, composed, sum_of_rho
from sfumato.releases.file.artifact import is_series
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.file.series import PartRecord, SeriesFile, open_series
from sfumato.schema import Schema
from sfumato.schema.series import Series


def checked_series(path: str | PathLike[str], most_cells: int | None = None) -> SeriesFile:
    """An open series of which every byte was checked, not only what is asked for."""
    file = open_series(path, most_cells)
    for part in file.head.parts:
        file.artifact(part)
    return file


def extracted(path: str | Path, period: str, number: int | None = None) -> bytes:
    """One part of a series: the bytes of the release file that was published then.

    number: of a part that was corrected since; by default the part that answers for the period.
    """
    if not is_series(path):
        raise ReleaseFileError(f"{path} is not a series; name the file that --series made", kind="input")
    file = open_series(path)
    label = file.series.label(period)
    found = [part for part in file.head.parts if part.period == label and number in (None, part.number)]
    if not found:
        there = ", ".join(dict.fromkeys(part.period for part in file.head.parts[-6:]))
        raise ReleaseFileError(f"{path} has no such part of {label}; its last periods are {there}", kind="input")
    return file.body(found[-1])


def guarantee_of_parts(parts: Sequence[PartRecord], series: Series, schema: Schema) -> Guarantee:
    """What all parts together promise to the unit that the series names: in one period, in the costliest of as many
    as a person is counted in, or in all (kernel/ledger/composition.py).
    """
    promise, unit = series.promise, schema.privacy_unit
    whose = Unit(unit.column, Promise(promise.words, promise.most, promise.alone, None, schema.per))
    whom = whose.in_words(unit.contributions)
    losses = [Loss(part.epsilon, part.delta, part.rho, period_of(whose, part.period)) for part in parts]
    found = composed(losses, None)
    return guarantee_of(found.epsilon, whom, delta=found.delta, rho=sum_of_rho(losses) if found.delta else None)
