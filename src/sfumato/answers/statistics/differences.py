"""Is a difference real? Its interval says so, and a note says it in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato.answers.estimate import Estimate
from sfumato.domain import Label
from sfumato.sql import Column, Key

MOST_NAMED = 6  # rows that a note lists


def difference_notes(
    columns: Sequence[Key | Column], rows: Sequence[Sequence[Label | Estimate]], confidence: float
) -> Iterator[str]:
    """A note for every column that is a difference: in which rows it is real, and in which it could be chance."""
    percent = f"{confidence * 100:.6g} %"
    for place, column in enumerate(columns):
        if not isinstance(column, Column) or not column.difference or not rows:
            continue
        real = [row for row in rows if _is_real(row[place])]
        if len(rows) == 1:
            said = (
                f"is real at {percent}: its interval excludes zero, so the privacy noise alone did not make it"
                if real
                else f"could be chance: its interval at {percent} holds zero, so the privacy noise may have made it"
            )
            yield f"{column.name}: the difference {said}"
            continue
        keys = [at for at, one in enumerate(columns) if isinstance(one, Key)]
        named = [", ".join(str(row[at]) for at in keys) for row in real]
        listed = f" ({'; '.join(named)})" if keys and 0 < len(real) <= MOST_NAMED and len(real) < len(rows) else ""
        others = "" if len(real) == len(rows) else ", elsewhere it could be chance"
        yield (
            f"{column.name}: the difference is real at {percent} in {len(real)} of {len(rows)} rows{listed}{others}; "
            f"the privacy noise alone makes about {(1.0 - confidence) * len(rows):.2g} of {len(rows)} look real"
        )


def _is_real(cell: Label | Estimate) -> bool:
    return isinstance(cell, Estimate) and bool(cell.real)
