"""Implicit linear queries over the cells of a domain: what can be asked, and how much one row can move the answers.

They hold no data. `base` has the contract, the other modules the families, `trust` what the kernel accepts.
"""

from sfumato.queries.base import Queries, Transposed
from sfumato.queries.cells import Cells, Predicates
from sfumato.queries.compose import Scaled, Stack
from sfumato.queries.haar import Haar
from sfumato.queries.identity import Identity, Prefix, Total
from sfumato.queries.kron import Kron
from sfumato.queries.marginals import Marginals, over
from sfumato.queries.nominal import NominalHaar
from sfumato.queries.ranges import AllRanges, Ranges
from sfumato.queries.selected import Selected
from sfumato.queries.tree import Tree
from sfumato.queries.trust import trusted
from sfumato.queries.weighted import Weighted
from sfumato.queries.workload import Workload, default_workload

__all__ = [
    "AllRanges",
    "Cells",
    "Haar",
    "Identity",
    "Kron",
    "Marginals",
    "NominalHaar",
    "Predicates",
    "Prefix",
    "Queries",
    "Ranges",
    "Scaled",
    "Selected",
    "Stack",
    "Total",
    "Transposed",
    "Tree",
    "Weighted",
    "Workload",
    "default_workload",
    "over",
    "trusted",
]
