"""Series as a whole: its guarantee over all parts, whose signatures they have, and single parts taken out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sfumato.errors import ReleaseFileError
from sfumato.kernel.ledger.book import Series as Promise
from sfumato.kernel.ledger.book import Unit, period_of
from sfumato.kernel.ledger.composition import Loss, composed, sum_of_rho
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.file.artifact import Artifact, is_series
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.file.series import PartRecord, SeriesFile, open_series
from sfumato.releases.release import Release, release_in
from sfumato.releases.signature import Signature, checked_signature
from sfumato.schema import Schema
from sfumato.schema.series import Series


def extracted(path: str | Path, period: str, number: int | None = None) -> tuple[bytes, Signature | None]:
    """One part of a series: the bytes of the release file that was published then, and its own signature.

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
    return file.body(found[-1]), checked_signature(found[-1])


def guarantee_of_parts(parts: Sequence[PartRecord], series: Series, schema: Schema) -> Guarantee:
    """What all parts together promise to the unit that the series names: in one period, in the costliest of as many
    as a person is counted in, or in all (kernel/ledger/composition.py).
    """
    promise, unit = series.promise, schema.privacy_unit
    whose = Unit(unit.column, Promise(promise.words, promise.most, promise.alone, None, schema.per))
    whom = whose.in_words(unit.contributions, as_one=schema.per_person is not None)
    losses = [Loss(part.epsilon, part.delta, part.rho, period_of(whose, part.period)) for part in parts]
    found = composed(losses, None)
    return guarantee_of(
        found.epsilon, whom, delta=found.delta, rho=sum_of_rho(losses) if found.delta else None, bought=schema.bought
    )


def series_in(file: SeriesFile) -> Release:
    """An open series as a release, whose guarantee is that of all parts together; parts are opened when asked for."""

    def part(record: PartRecord) -> Part:
        kept: Artifact | None = None  # between a look at its schema and a question to it

        def artifact() -> Artifact:
            nonlocal kept
            found = kept = kept or file.artifact(record)
            return found

        def opened() -> Release:
            nonlocal kept
            found, kept = release_in(artifact()), None
            return found

        return Part(record.number, record.period, opened, lambda: artifact().schema)

    content, listed = SeriesContent.of([part(record) for record in file.head.parts], file), file.head.parts
    guarantee = guarantee_of_parts(listed, file.series, content.schema)
    return Release(content, listed[-1].mechanism, guarantee, all(each.private for each in listed))


def opened(path: str | Path, most_cells: int | None = None) -> tuple[str, Callable[[], Release]]:
    """Digest of a series file, and the function that opens it."""
    file = open_series(path, most_cells)
    return file.digest, partial(series_in, file)
