"""Implicit linear queries over the cells of a domain, with their sensitivities. They hold no data.

`base` has the contract, the other modules the families, `trust` the list that the kernel accepts.
"""

from sfumato.queries.base import Queries as Queries
from sfumato.queries.base import Transposed as Transposed
from sfumato.queries.cells import Cells as Cells
from sfumato.queries.cells import Predicates as Predicates
from sfumato.queries.cells import Weighted as Weighted
from sfumato.queries.compose import Scaled as Scaled
from sfumato.queries.compose import Selected as Selected
from sfumato.queries.compose import Stack as Stack
from sfumato.queries.kron import Kron as Kron
from sfumato.queries.kron import Marginals as Marginals
from sfumato.queries.kron import over as over
from sfumato.queries.ranges import AllRanges as AllRanges
from sfumato.queries.ranges import Identity as Identity
from sfumato.queries.ranges import Prefix as Prefix
from sfumato.queries.ranges import Ranges as Ranges
from sfumato.queries.ranges import Total as Total
from sfumato.queries.tree import Tree as Tree
from sfumato.queries.trust import trusted as trusted
from sfumato.queries.wavelets import Haar as Haar
from sfumato.queries.wavelets import NominalHaar as NominalHaar
from sfumato.queries.workload import Workload as Workload
from sfumato.queries.workload import default_workload as default_workload
