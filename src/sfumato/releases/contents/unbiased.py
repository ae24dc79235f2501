"""Unbiased twins of contents that shrink: the same measurements, without what a model made of them.

A model draws small counts towards their neighbours or towards nothing, and most values come out nearer to the truth;
but a sum of many drawn values is off to one side. Numbers as measured carry noise of mean 0 and nothing else.

Margins: least squares of all noisy tables, part by part (models/margins/views.py), tells every question whose
attributes lie inside one of them. Cubes: cells that were measured one by one, before buckets were found in their noise;
what was measured of buckets afterwards hangs on that noise, and does not enter. Counts that were asked because earlier
noisy ones were large (sfumato, mwem, pmw) are chosen by noise: no combination of them is unbiased.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import QueryError
from sfumato.models.margins.content import Margins
from sfumato.models.margins.file import CELL_BY_CELL
from sfumato.models.margins.views import Observed, parts
from sfumato.queries import Identity
from sfumato.releases.contents.cube import Cube

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.answers.alike import Kinds
    from sfumato.answers.fit import Fit
    from sfumato.answers.view import View
    from sfumato.measurement import Measurement
    from sfumato.models.margins.table import Places
    from sfumato.releases.contents.content import Content

NO_NOISE = 1e-100  # in the place of no variance at all, so that means by precision stay numbers
MOST_NAMED = 3  # sets of attributes in a refusal
REMEDY = "ask without unbiased, or release by cells, hierarchical, residual or another mechanism that does not shrink"


def as_measured(content: Content) -> Content:
    """A content without what a model made of its measurements: counts and sums are unbiased."""
    if isinstance(content, Margins):
        return measured_margins(content)
    if isinstance(content, Cube):
        return measured_cells(content)
    raise QueryError(f"this kind of release holds no unbiased counts; {REMEDY}")


class MeasuredMargins(Margins):
    """Margins as measured. A question that no noisy table holds is refused."""

    def view(self, kinds: Kinds) -> View:
        asked = {name for name, kind in kinds.items() if kind.max(initial=0) > 0}
        sets = [{self.domain.names[place] for place in places} for places in self.tables["count"]]
        if not any(asked <= names for names in sets):
            largest = [names for names in sets if len(names) > 1 and not any(names < other for other in sets)]
            near = sorted(largest, key=lambda names: (-len(names & asked), len(names)))[:MOST_NAMED]
            told = "; ".join(", ".join(name for name in self.domain.names if name in names) for names in near)
            raise QueryError(
                f"{', '.join(sorted(asked))} were not measured together, so there is no unbiased answer; ask about "
                f"attributes that were ({told or 'one at a time'}), or without unbiased"
            )
        return super().view(kinds)


def measured_margins(content: Margins) -> Margins:
    """Margins as measured: for every statistic the parts of its noisy tables, each pooled by precision."""
    if content.unbiased:
        return content
    used = [*_tables(content)]
    observed: dict[str, list[Observed]] = defaultdict(list)
    for places, one in used:
        shape = [content.domain.shape[place] for place in places]
        values = one.answers.astype(np.float64).reshape(shape)
        observed[one.of].append(Observed(places, values, max(one.noise.variance, NO_NOISE)))
    tables = {of: parts(observed[of]) for of in content.tables}
    if any(() not in found for found in tables.values()):
        raise QueryError(f"this release does not hold the noisy tables that it was made of; {REMEDY}")
    return MeasuredMargins(content.schema, tables, measured=tuple(used), unbiased=True)


def _tables(content: Margins) -> Iterator[tuple[Places, Measurement]]:
    """The measurements that are noisy tables, cell by cell; what else was measured tells of errors alone."""
    how = content.asked or (CELL_BY_CELL,) * len(content.measured)
    for (places, one), asked in zip(content.measured, how, strict=True):
        cells = prod(content.domain.shape[place] for place in places)
        by_cell = asked == CELL_BY_CELL and isinstance(one.queries, Identity) and len(one.answers) == cells
        if by_cell and one.of in content.tables:
            yield places, one


def measured_cells(content: Cube) -> Cube:
    """A cube whose fits are unbiased, or the cells that they lean on, where these were measured one by one."""
    if all(fit.exact for fit in content.fits):
        return content
    cells = [_cells(fit, content.domain.size) for fit in content.fits]
    if None in cells:
        raise QueryError(
            "what this release measured was chosen by earlier noise, or is of whole regions, so that it holds no "
            f"unbiased counts; {REMEDY}"
        )
    return Cube.of_cells(content.schema, [one for one in cells if one is not None])


def _cells(fit: Fit, size: int) -> Measurement | None:
    """What was measured of every cell by itself."""
    return next(
        (
            one
            for one in fit.measurements
            if one.of == fit.of and isinstance(one.queries, Identity) and len(one.answers) == size
        ),
        None,
    )
