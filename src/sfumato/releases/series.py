"""Open a series as a release: its content, its guarantee over all parts, and single parts taken out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path

from sfumato.errors import ReleaseFileError
from sfumato.kernel.ledger.composition import Loss, composed
from sfumato.plain_text import unit_in_words
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.file.artifact import is_series, whole_or_not_at_all
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.file.series import PartRecord, SeriesFile, open_series
from sfumato.releases.release import Release, release_in
from sfumato.schema import Schema
from sfumato.schema.series import Series


def load_series(
    path: str | Path, most_cells: int | None = None, require_signature: str | PathLike[str] | None = None
) -> Release:
    """Open a series from a file nobody has vouched for. require_signature: a public key by which it must be signed."""
    file = open_series(path, most_cells)
    if require_signature is not None:
        from sfumato.releases.signature import check_signature

        check_signature(path, file.digest, require_signature)
    return release_of(file)


def release_of(file: SeriesFile) -> Release:
    """An open series as a release, whose guarantee is that of all parts together."""

    def part(record: PartRecord) -> Part:
        return Part(record.number, record.period, lambda: release_in(file.artifact(record)))

    content = SeriesContent.of([part(record) for record in file.head.parts], file)
    newest = file.head.parts[-1]
    guarantee = guarantee_of_parts(file.head.parts, file.series, content.schema)
    return Release(content, newest.mechanism, guarantee, all(each.private for each in file.head.parts))


def extract(path: str | Path, period: str, out: str | Path, number: int | None = None) -> Path:
    """Write one part of a series to a file of its own, which is the release that was published then.

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
    body = file.body(found[-1])
    with whole_or_not_at_all(Path(out)) as written:
        written.write(body)
    return Path(out)


def guarantee_of_parts(parts: Sequence[PartRecord], series: Series, schema: Schema) -> Guarantee:
    """What all parts together promise to the unit that the series names.

    A person in one period: the costliest period. A person in at most k periods: an upper bound of any k of them, by the
    k costliest pure parts and the k costliest of zCDP; corrections, which concern whoever was in the period corrected,
    are all added. For ever: all parts.
    """
    promise, whom = series.promise, unit_in_words(schema.privacy_unit.column, schema.privacy_unit.contributions)
    if promise.alone:
        periods = [[part for part in parts if part.period == label] for label in {part.period for part in parts}]
        together = [_composed(each) for each in periods]
        epsilon, delta, rho = (max(each) for each in zip(*together, strict=True))
        whom = f"{whom} in one {_word(series)}"
    elif promise.most is not None:
        first = [part for part in parts if part.corrects is None]
        pure = sorted((part for part in first if part.rho is None), key=lambda part: part.epsilon)
        noisy = sorted((part for part in first if part.rho is not None), key=lambda part: part.rho or 0)
        most = promise.most
        kept = [*pure[-most:], *noisy[-most:], *(part for part in parts if part.corrects is not None)]
        epsilon, delta, rho = _composed(kept)
        whom = f"{whom} in the at most {most:,} {_word(series)}s in which they are counted"
    else:
        epsilon, delta, rho = _composed(parts)
        whom = f"{whom} in all {_word(series)}s"
    return guarantee_of(epsilon, whom, delta=delta, rho=rho if delta else None)


def _word(series: Series) -> str:
    return "period" if series.period == "name" else series.period


def _composed(parts: Sequence[PartRecord]) -> tuple[Fraction, Fraction, Fraction]:
    """Epsilon, delta and rho of several parts about the same rows; rho of a pure one is epsilon^2 / 2."""
    found = composed([Loss(part.epsilon, part.delta, part.rho) for part in parts], None)
    rho = sum((part.epsilon**2 / 2 if part.rho is None else part.rho for part in parts), Fraction(0))
    return found.epsilon, found.delta, rho
