"""How contents lay out their members: names that all kinds share, estimates as whole numbers, many arrays in one.

A column called `cell` numbers the cells of its member. A column called `parts of X` adds 1024ths to column X. The
member `numbers` holds arrays one after the other, whose lengths stand in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from sfumato.arrays import Whole
from sfumato.measurement import Noise
from sfumato.releases.file.manifest import Manifest, Statistic
from sfumato.releases.file.records import noise_record
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema

Columns = Mapping[str, Whole]

CELLS, CELL = "cells", "cell"
NUMBERS, VALUE = "numbers", "value"


def statistic(of: str, schema: Schema, noise: Noise | None) -> Statistic:
    """What a manifest says of a statistic that is kept with the cells."""
    written = None if noise is None else noise_record(noise)
    if of == "count":
        return Statistic(of, CELLS, "count", written)
    if of not in schema.measures:
        return Statistic(of, CELLS, of, written)
    measure = schema.measures[of]
    return Statistic(of, CELLS, f"sum of {of}", written, measure.step, measure.centre)


def parts_column(column: str) -> str:
    """The column that adds 1024ths to another; no statistic's own column can have such a name."""
    return f"parts of {column}"


def arrays_in(manifest: Manifest, numbers: Whole) -> list[Whole]:
    """The arrays that stand one after the other in one member."""
    return np.split(numbers, list(accumulate(manifest.arrays))[:-1]) if manifest.arrays else []


def check_columns(
    manifest: Manifest, besides: Sequence[tuple[str, str]], statistics: Sequence[Statistic] | None = None
) -> None:
    """Refuse members that do not hold exactly the columns of all or some statistics and those `besides`.

    besides: member and column each.
    """
    kept_by = manifest.statistics if statistics is None else statistics
    places = [(one.member, one.column) for one in kept_by] + list(besides)
    kept = [(name, column) for name, member in manifest.members.items() for column in member.columns]
    if sorted(places) != sorted(kept):
        raise refusal("its statistics are not the columns of its members, one each")


def check_rows(manifest: Manifest, rows: Mapping[str, int], *, at_most: bool = False) -> None:
    """Refuse a member without a row for each cell of its schema or number of its arrays; at_most: or with too many."""
    for name, member in manifest.members.items():
        if member.rows > rows[name] or (member.rows < rows[name] and not at_most):
            raise refusal(f"its member {name} does not have a row for each cell of its schema, or number of its arrays")
