"""List of the families whose stated sensitivity the kernel accepts; a new family is added here."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from sfumato.queries.arrays import is_frozen
from sfumato.queries.base import Queries
from sfumato.queries.cells import Cells, Predicates, Weighted
from sfumato.queries.compose import Scaled, Selected, Stack
from sfumato.queries.kron import Kron, Marginals
from sfumato.queries.ranges import AllRanges, Identity, Prefix, Ranges, Total
from sfumato.queries.tree import Tree
from sfumato.queries.wavelets import Haar, NominalHaar

FAMILIES: frozenset[type[Queries]] = frozenset(
    {
        AllRanges,
        Cells,
        Haar,
        Identity,
        Kron,
        Marginals,
        NominalHaar,
        Predicates,
        Prefix,
        Ranges,
        Scaled,
        Selected,
        Stack,
        Total,
        Tree,
        Weighted,
    }
)


def trusted(queries: object) -> bool:
    """Whether queries, and all parts they are made of, are exactly of this package's families and frozen.

    Privacy: a subclass may override `column_sums` and understate its sensitivity, so `isinstance` would not do. Stored
    arrays must be frozen too; a copy made by pickle or deepcopy is not, and is refused.

    >>> trusted(Identity(3)), trusted("queries")
    (True, False)
    """
    if type(queries) not in FAMILIES:
        return False
    return all(_sound(getattr(queries, part.name, None)) for part in fields(queries))  # type: ignore[arg-type]


def _sound(part: object) -> bool:
    """Whether one attribute is an integer, a frozen array, trusted queries, or a tuple of these."""
    if type(part) is int:
        return True
    if type(part) is tuple:
        return all(_sound(entry) for entry in part)
    if isinstance(part, np.ndarray):
        return is_frozen(part)
    return trusted(part)
