"""Margins as measured, without what a model made of them: counts and sums are unbiased.

A model draws small counts towards their neighbours or towards nothing, and most values come out nearer to the truth;
but a sum of many drawn values is off to one side. Least squares of all noisy tables, part by part (views.py), carries
noise of mean 0 and nothing else, and tells every question whose attributes lie inside one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import QueryError
from sfumato.models.margins.file import CELL_BY_CELL
from sfumato.models.margins.views import Observed, parts
from sfumato.queries import Identity
from sfumato.releases.contents.content import NOT_UNBIASED

if TYPE_CHECKING:
    from sfumato.measurement import Measurement
    from sfumato.models.margins.content import Margins
    from sfumato.models.margins.table import Places, Table

NO_NOISE = 1e-100  # in the place of no variance at all, so that means by precision stay numbers


def as_measured(content: Margins) -> tuple[dict[str, dict[Places, Table]], tuple[tuple[Places, Measurement], ...]]:
    """For every statistic the parts of its noisy tables, each pooled by precision; and the measurements they are of."""
    used = [*_tables(content)]
    observed: dict[str, list[Observed]] = defaultdict(list)
    for places, one in used:
        shape = [content.domain.shape[place] for place in places]
        values = one.answers.astype(np.float64).reshape(shape)
        observed[one.of].append(Observed(places, values, max(one.noise.variance, NO_NOISE)))
    tables = {of: parts(observed[of]) for of in content.tables}
    if any(() not in found for found in tables.values()):
        raise QueryError(f"this release does not hold the noisy tables that it was made of; {NOT_UNBIASED}")
    return tables, tuple(used)


def _tables(content: Margins) -> Iterator[tuple[Places, Measurement]]:
    """The measurements that are noisy tables, cell by cell; what else was measured tells of errors alone."""
    how = content.asked or (CELL_BY_CELL,) * len(content.measured)
    for (places, one), asked in zip(content.measured, how, strict=True):
        cells = prod(content.domain.shape[place] for place in places)
        by_cell = asked == CELL_BY_CELL and isinstance(one.queries, Identity) and len(one.answers) == cells
        if by_cell and one.of in content.tables:
            yield places, one
