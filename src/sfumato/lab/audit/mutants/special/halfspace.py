"""NOT PRIVATE: halfspaces that are charged wrongly, kept so that the audit can be seen to catch them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Partition
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity, Prefix, Queries
from sfumato.schema import Schema


def directions_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Count a square along two directions, each with the whole budget."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for bins in ([0, 0, 1, 1], [0, 1, 1, 2]):
            seen = curator.reduce(Partition(curator.domain, np.array(bins)))
            found.append(seen.measure(Identity(seen.domain.size), budget))
    return found


def nested_halfspaces(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Counts of halfspaces that lie within each other."""
    return curator.measure(Prefix(curator.domain.size), budget)


class DirectionsApartCurator(Curator):
    """NOT PRIVATE: every direction has a charge of its own, as if a row lay in the bins of one of them only."""

    def reduce(self, partition: Partition) -> Curator:
        view = super().reduce(partition)
        view.charge = Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        return view


class HalfspacesAsBinsCurator(Curator):
    """NOT PRIVATE: halfspaces along a direction are charged as its bins, where a row of data lies in many of them."""

    def _noises(self, queries: Queries, *rest: Any) -> tuple[tuple[Noise, ...], Codes | None]:
        return super()._noises(Identity(queries.columns), *rest)

    def _loads(self, queries: Queries, *rest: Any) -> list[Load]:
        return super()._loads(Identity(queries.columns), *rest)
