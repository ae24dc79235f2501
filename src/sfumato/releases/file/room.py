"""How much memory a file would take, known from its manifest alone, and refused where that is more than was agreed to.

Equal numbers pack to almost nothing, so that a file of 3 MB can claim a gigabyte. What is counted here are numbers of
eight bytes: those in the file, the bytes of the file itself, the edges of the axes, and what fits make of their numbers
while they are read (`room` of each family, measured in tests/releases/file/test_room.py on files at the bound).
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.limits import MOST_SPANNED
from sfumato.releases.file.families import FAMILIES
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.strict_json import refusal

MOST_CELLS = 24_000_000  # numbers that any file may lay out unless more is asked for: about 300 MB
PER_BYTE = 6  # and for each byte of a larger file, so that whoever could send 30 MB can have them opened


def usual_bound(size: int) -> int:
    """How many numbers a file of so many bytes may lay out unless more is asked for.

    >>> usual_bound(3_000_000), usual_bound(30_000_000)
    (24000000, 180000000)
    """
    return max(MOST_CELLS, PER_BYTE * size)


def check_room(manifest: Manifest, axes: Sequence[int], most: int | None) -> None:
    """Refuse a file that would lay out more than `most` numbers. axes: how many cells each attribute has."""
    needed = numbers_laid_out(manifest, axes)
    if most is not None and needed > most:
        raise refusal(
            f"it lays out {needed:,} numbers in memory, and a file may lay out {most:,} unless more is allowed",
            f"if you trust its publisher, allow it with --most-cells {needed} (in Python: most_cells={needed})",
        )


def numbers_laid_out(manifest: Manifest, axes: Sequence[int]) -> int:
    """How many numbers of eight bytes there are in memory, at most, while a file is opened."""
    read = sum(member.rows * len(member.columns) for member in manifest.members.values())
    held = sum(member.bytes for member in manifest.members.values()) // 8
    each = max((FAMILIES[fit.family].room for fit in manifest.fits), default=1)
    cells = max((member.rows for member in manifest.members.values()), default=0)
    spanned = [one.columns for fit in manifest.fits for one in fit.measurements]
    besides = sum(3 * min(columns, MOST_SPANNED) for columns in spanned if columns > cells)
    # While an axis is made there are two of it; by the time the values are read there is one.
    return sum(axes) + max([each * read + held + besides, *axes])
