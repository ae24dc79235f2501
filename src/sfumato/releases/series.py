"""Series as a whole: its guarantee over all parts, whose signatures they have, and single parts taken out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import ReleaseFileError
from sfumato.kernel.ledger.book import Series as Promise
from sfumato.kernel.ledger.book import Unit, period_of
from sfumato.kernel.ledger.composition import Loss, composed, sum_of_rho
from sfumato.releases.file.artifact import is_series
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.file.series import PartRecord, open_series
from sfumato.releases.signature import Signature, checked_signature
from sfumato.schema import Schema
from sfumato.schema.series import Series

MOST_LISTED = 6  # periods in a line


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


def signed_parts(parts: Sequence[PartRecord]) -> str:
    """Describe which parts were signed by themselves, and by whom; empty where none was.

    Each signature is checked with the key that it names. Whose key that is, a reader knows by its fingerprint.
    """
    by_key: dict[str, list[str]] = {}
    for part in parts:
        if (signature := checked_signature(part)) is not None:
            by_key.setdefault(signature.by, []).append(part.period)
    said = []
    for key, periods in by_key.items():
        listed = ", ".join(periods[:MOST_LISTED]) + ", ..." * (len(periods) > MOST_LISTED)
        said.append(f"{len(periods)} of {len(parts)} by {key} ({listed})")
    return f"parts signed by themselves: {', '.join(said)}; checked with the keys that they name" if said else ""


def guarantee_of_parts(parts: Sequence[PartRecord], series: Series, schema: Schema) -> Guarantee:
    """What all parts together promise to the unit that the series names: in one period, in the costliest of as many
    as a person is counted in, or in all (kernel/ledger/composition.py).
    """
    promise, unit = series.promise, schema.privacy_unit
    whose = Unit(unit.column, Promise(promise.words, promise.most, promise.alone, None, schema.per))
    whom = whose.in_words(unit.contributions)
    losses = [Loss(part.epsilon, part.delta, part.rho, period_of(whose, part.period)) for part in parts]
    found = composed(losses, None)
    return guarantee_of(
        found.epsilon, whom, delta=found.delta, rho=sum_of_rho(losses) if found.delta else None, bought=schema.bought
    )
