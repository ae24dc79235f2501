"""Parts of a combined release: the published files that were fused into it, and the guarantee that follows from theirs.

A combined file keeps, in place of a ledger's receipt, that of every part with its digest and its cost. Costs of parts
of one table are added up as the ledger adds up releases (docs/privacy.md, section 13). Parts of disjoint tables: a row
lies in one of the tables, so where the privacy unit is a row the largest cost counts; one person may have rows in
several tables, so where it is a person all costs are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, JsonValue, ValidationError

from sfumato.errors import BudgetError
from sfumato.kernel.budget import rounded
from sfumato.kernel.ledger.composition import Loss, composed, sum_of_rho
from sfumato.plain_text import write_fraction
from sfumato.releases.file.manifest import PARTS
from sfumato.releases.file.records import Exact, PositiveExact, Sha256, Size, Text, adapter, canonical, record, refusal

MOST_PARTS = 100
TOLD = Context(prec=6, rounding=ROUND_CEILING)


@record
class Part:
    """A published file within a combined one: its table (0, 1, ... of disjoint ones), digest, cost and receipt."""

    table: Size
    digest: Sha256
    mechanism: Text
    epsilon: PositiveExact
    delta: Exact
    rho: PositiveExact | None
    receipt: dict[str, JsonValue]

    @property
    def loss(self) -> Loss:
        return Loss(self.epsilon, self.delta, self.rho)

    @property
    def draw(self) -> tuple[object, object]:
        """Name of its noise: one reservation in one ledger is one draw, whatever became of the file."""
        return self.receipt.get("ledger"), self.receipt.get("nonce")


@record
class Parts:
    """All parts of a combined file."""

    parts: Annotated[list[Part], Field(min_length=2, max_length=MOST_PARTS)]


def parts_in(receipt: Mapping[str, Any] | None) -> tuple[Part, ...]:
    """Parts that the receipt of an untrusted file names; none of a file that is no combined one."""
    if receipt is None or PARTS not in receipt:
        return ()
    try:
        listed = adapter(Parts).validate_json(canonical({PARTS: receipt[PARTS]})).parts
    except (ValidationError, ValueError):
        raise refusal("its receipt has parts that are not well formed") from None
    tables = sorted({part.table for part in listed})
    named = [(type(part.draw[0]), type(part.draw[1])) == (str, str) for part in listed]
    costs = [0 <= part.delta < 1 and (part.delta == 0) == (part.rho is None) for part in listed]
    if tables != [*range(len(tables))] or not all(named) or not all(costs) or PARTS in _keys(listed):
        raise refusal("its receipt has parts that are not well formed")
    if len({part.draw for part in listed}) < len(listed):
        raise refusal("its receipt has a part twice")
    return tuple(listed)


def _keys(listed: Sequence[Part]) -> set[str]:
    return {key for part in listed for key in part.receipt}


def draws_of(receipt: Mapping[str, Any] | None) -> frozenset[tuple[object, object]]:
    """Names of all noise that a file shows; two files with a common one are not independent."""
    if receipt is None:
        return frozenset()
    listed = frozenset(part.draw for part in parts_in(receipt))
    return listed or frozenset({(receipt.get("ledger"), receipt.get("nonce"))})


def cost_of_parts(parts: Sequence[Part], *, by_row: bool) -> tuple[Fraction, Fraction, Fraction | None]:
    """Epsilon, delta and rho of all parts together; rho None where all are pure.

    by_row: whether the privacy unit is a row, which lies in one of disjoint tables.
    """
    tables = {part.table if by_row else 0 for part in parts}
    by_table = [[part.loss for part in parts if not by_row or part.table == table] for table in sorted(tables)]
    together = [composed(losses, None) for losses in by_table]
    delta = max(each.delta for each in together)
    rhos = [rho for losses in by_table if (rho := sum_of_rho(losses)) is not None]
    epsilon = max(each.epsilon for each in together)
    # Rounded up to what people read, so that a figure found by another order of the same worth is no contradiction.
    told = rounded(epsilon, TOLD) if any(each.rho is not None for each in together) else epsilon
    return told, delta, max(rhos) if delta else None


Amounts = tuple[Fraction, Fraction, Fraction | None]  # epsilon, delta and rho


def follows_from_parts(parts: Sequence[Part], amounts: Amounts, *, by_row: bool) -> bool:
    """Whether a guarantee of these amounts (epsilon, delta, rho) is at least the cost of its parts."""
    try:
        epsilon, *others = cost_of_parts(parts, by_row=by_row)
    except (BudgetError, ArithmeticError, ValueError):
        return False
    return amounts[0] >= epsilon * (1 - Fraction(1, 10**6)) and [*amounts[1:]] == others


def combined_receipt(dataset: str, parts: Sequence[Part], epsilon: Fraction, delta: Fraction) -> dict[str, Any]:
    """Receipt of a combined file, in JSON's own types."""
    listed = adapter(Parts).dump_python(Parts([*parts]), mode="json")[PARTS]
    return {"dataset": dataset, "epsilon": write_fraction(epsilon), "delta": write_fraction(delta), PARTS: listed}


def receipt_in_words(receipt: Mapping[str, Any] | None) -> str:
    """Sentence on the ledger entries that paid for a file."""
    if not receipt:
        return "no receipt"
    listed = [part.receipt for part in parts_in(receipt)] or [dict(receipt)]
    by_ledger: dict[str, list[str]] = {}
    for one in listed:
        by_ledger.setdefault(str(one.get("ledger")), []).append(str(one.get("entry")))
    entries = {ledger: "entry" if len(found) == 1 else "entries" for ledger, found in by_ledger.items()}
    return "; ".join(f"{ledger}, {entries[ledger]} {' and '.join(found)}" for ledger, found in by_ledger.items())
