"""How a private table is opened: check, reserve, read; in this order and no other.

What can be refused from names and types alone is refused before anything is spent. Then the budget is reserved in the
ledger and committed to disk, and only then is the table read. A crash at any later moment leaves the reservation in
place: the ledger can over-count, never under-count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.charge import Charge
from sfumato.kernel.counts import Aggregate, Rows
from sfumato.kernel.curator import Curator
from sfumato.kernel.ledger.book import Unit
from sfumato.kernel.ledger.ledger import Account, Ledger, Receipt
from sfumato.kernel.ledger.reservation import Wanted
from sfumato.kernel.reading.table import Table
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.schema import Schema

Step = Callable[[str], None]  # told the name of each step as it begins; never anything about the data


@dataclass(frozen=True)
class Opened:
    """A curator bound to what was reserved for it."""

    curator: Curator
    receipt: Receipt


def open_curator(
    table: Table,
    schema: Schema,
    cost: Cost,
    *,
    ledger: Ledger,
    mechanism: str,
    entropy: Entropy,
    step: Step,
    nonce: str,
    another_unit: bool = False,
    request: str | None = None,
    again: bool = True,
    for_margins: bool = False,
) -> Opened:
    """Reserve `cost` for `schema.dataset`, then read the table into a curator that can spend it and no more.

    nonce: under which the ledger knows the reservation, 32 hexadecimal digits drawn for this one.
    another_unit: the schema's privacy unit may be one that the ledger does not know for this dataset.
    request, again: what is asked for, as a digest of what is public about it; it may be what was asked for last.
    for_margins: whether the mechanism counts margins alone, which says how rows are best held.
    """
    step("check")
    table.check(schema)
    key = int.from_bytes(entropy.bytes(7), "big")  # which of a person's rows survive the cap depends on it
    # What can be spent and what is reserved come from one value, so that neither can be more than the other.
    budget = cost.budget
    step("reserve")
    terms = terms_of(schema, cost, mechanism, another_unit=another_unit, request=request, again=again)
    receipt = ledger.reserve(schema.dataset, cost.epsilon, nonce=nonce, **terms)
    step("read")
    held = table.read(schema, key, for_margins=for_margins)
    return Opened(curator_of(schema, held, budget, entropy), receipt)


def rehearse(
    table: Table,
    schema: Schema,
    cost: Cost,
    *,
    ledger: Ledger,
    mechanism: str,
    another_unit: bool = False,
    request: str | None = None,
    again: bool = True,
) -> Account:
    """Refuse what `open_curator` would refuse, by names and types alone; nothing is reserved and no row is read."""
    table.check(schema)
    terms = terms_of(schema, cost, mechanism, another_unit=another_unit, request=request, again=again)
    return ledger.foresee(Wanted.stated(schema.dataset, cost.epsilon, **terms))


def terms_of(
    schema: Schema, cost: Cost, mechanism: str, *, another_unit: bool, request: str | None, again: bool
) -> dict[str, Any]:
    """What is said to the ledger besides the dataset and epsilon, from values that are public."""
    return {
        "delta": cost.delta,
        "limit": schema.epsilon,
        "limit_delta": schema.delta,
        "mechanism": mechanism,
        "unit": Unit(schema.privacy_unit.column),
        "contributions": schema.privacy_unit.contributions,
        "another_unit": another_unit,
        "identity": schema.ledger,
        "request": request,
        "again": again,
    }


def curator_of(
    schema: Schema, held: Aggregate | Rows, budget: Budget, entropy: Entropy, kind: type[Curator] = Curator
) -> Curator:
    """A curator that can spend a budget on the counts of a table, and no more."""
    charge = Charge(budget, schema.privacy_unit.contributions, schema.domain.size)
    return kind(schema.domain, held, schema.units, charge, entropy)
