"""Request for a release: the parameters that the curator states, as one immutable value."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.kernel.budget import Amount
    from sfumato.queries import Workload
    from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that a curator says about a release, except the private table and the randomness.

    Both entries, `sfumato.release` and the command line, make one; preparing, publishing and rehearsing take it. All of
    it is public: neither the table nor an address with a password is in it, so whatever is settled from a request alone
    cannot depend on private data. Nothing is checked here. Each field is checked where it is used, so that refusals
    come in the order in which a release goes on.

    schema: what is public about the table; its dataset is charged.
    epsilon, delta: what the release costs; without a delta the guarantee is pure epsilon.
    mechanism: a name, or auto for the one that a plan would choose.
    workload: the queries that matter most, as SELECT statements or as a matrix; if None, the default ones.
    options: of the mechanism, by name; the mechanism must then be named too.
    even_if_useless: go on even if every count of a single value is expected to be noise.
    table_name, dialect, allow_views: of a table in a database its name, its SQL, and whether it may be a view.
    ledger: where the cost is reserved.
    another_unit: the schema's privacy unit may be one that the ledger does not know for this dataset.
    again: the release may be the same as the dataset's last.
    """

    schema: Schema
    epsilon: Amount
    delta: Amount | None = None
    mechanism: str = "auto"
    workload: Workload | str | Path | None = None
    options: Mapping[str, object] | None = None
    even_if_useless: bool = False
    table_name: str | None = None
    dialect: str | None = None
    allow_views: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    another_unit: bool = False
    again: bool = False

    @property
    def cost(self) -> Cost:
        """Epsilon and delta as exact fractions; refused here if they are no amounts of privacy."""
        return Cost.stated(self.epsilon, self.delta)
