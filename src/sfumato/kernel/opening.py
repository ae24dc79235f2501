"""Open a private table: check, reserve, read; in this order and no other.

Whatever can be refused from names and types alone is refused before anything is spent. Then the budget is reserved in
the ledger and committed to disk, and only then is the table read. A crash at any later moment leaves the reservation
in place: the ledger can over-count, never under-count. So can the register of a series, which is written when it is
known who would be counted, and before anybody is; and the noise of a part is on disk before it is added to a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BudgetError, PrivacyError, SchemaError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, Cost, conversion_gap, order_for
from sfumato.kernel.charge import Charge
from sfumato.kernel.counts import Aggregate, Rows
from sfumato.kernel.curator import Curator
from sfumato.kernel.ledger.book import Series, Unit
from sfumato.kernel.ledger.ledger import Account, Ledger, Receipt
from sfumato.kernel.ledger.reservation import Wanted
from sfumato.kernel.reading.engines import Admit
from sfumato.kernel.reading.table import Table
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.schema import Schema
from sfumato.schema.invariants import ExactSets

if TYPE_CHECKING:  # few tables are parts of a series
    from sfumato.kernel.ledger.past_noise import Carried, PastNoise
    from sfumato.kernel.ledger.register import Register

Step = Callable[[str], None]  # told the name of each step as it begins; never anything about the data


@dataclass(frozen=True)
class Opened:
    """Curator with the receipt of the budget reserved for it."""

    curator: Curator
    receipt: Receipt


@dataclass(frozen=True)
class Terms:
    """Public parameters of one access to a private table.

    cost: reserved in the ledger, and all that the curator can spend.
    mechanism: its name, as the ledger records it.
    request: digest of the public part of what is asked for. again: whether it may equal the last request.
    another_unit: the schema's privacy unit may be one that the ledger does not know for this dataset.
    period: of the series that the schema states, as `Series.label` writes it; it must be named if there is one.
    by_sums: the cost has no rho (a look's thresholds), so that the ledger adds up epsilons and deltas.
    exact: what the schema calls invariants is to be handed out exactly; the ledger says so for ever.
    """

    schema: Schema
    cost: Cost
    mechanism: str
    request: str | None = None
    another_unit: bool = False
    again: bool = True
    period: str | None = None
    by_sums: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        series = self.schema.series
        self.schema.check_span()
        if self.exact != bool(self.schema.invariants):
            raise PrivacyError("only a release that says so hands out exact counts; take invariants out")
        if series is None and self.period is not None:
            raise SchemaError("a period is named, but the schema states no series; add `series`, or name no period")
        if series is not None and (self.period is None or series.label(self.period) != self.period):
            raise SchemaError(
                f"the schema states a series, published {series.period} by {series.period}; name the series' file and "
                "the period of this table (--series, --period), or take `series` out of the schema"
            )
        if self.schema.running and self.cost.delta and not _adds_up(self.cost):
            raise BudgetError(
                "running: true needs an epsilon that is not small beside delta, so that parts add up; give a smaller "
                "delta, such as 1e-9",
                kind="budget",
            )

    @property
    def wanted(self) -> Wanted:
        """Request for a reservation in the ledger, from these terms."""
        schema = self.schema
        return Wanted(
            schema.dataset,
            self.cost.epsilon,
            schema.epsilon,
            self.mechanism,
            unit_of(schema),
            schema.privacy_unit.contributions,
            self.another_unit,
            delta=self.cost.delta,
            rho=None if self.by_sums else self.cost.budget.rho,
            limit_delta=schema.delta,
            limit_rho=schema.rho,
            identity=schema.required_ledger,
            request=self.request,
            again=self.again,
            period=self.period,
            exact=self.schema.exact_sets,
        )


def _adds_up(cost: Cost) -> bool:
    """Whether sums of epsilons and deltas hold for parts that share noise (docs/privacy.md, theorem 14)."""
    return conversion_gap(order_for(cost.epsilon, cost.delta), cost.delta) >= 0


def unit_of(schema: Schema) -> Unit:
    """Privacy unit that a release of this schema protects."""
    one = schema.series
    if one is None:
        return Unit(schema.privacy_unit.column)
    promise = one.promise
    planned = one.periods if promise.most is None else None
    return Unit(schema.privacy_unit.column, Series(promise.words, promise.most, promise.alone, planned, schema.per))


def open_curator(
    table: Table, terms: Terms, *, ledger: Ledger, entropy: Entropy, step: Step, nonce: str, for_margins: bool = False
) -> Opened:
    """Reserve the cost for the schema's dataset, then read the table into a curator that can spend it and no more.

    nonce: under which the ledger knows the reservation, 32 hexadecimal digits drawn for this one.
    for_margins: whether the mechanism counts margins alone, which says how rows are best held.
    """
    schema, cost, wanted = terms.schema, terms.cost, terms.wanted
    step("check")
    register, past = _checked(table, terms, ledger)
    key = int.from_bytes(entropy.bytes(7), "big")  # which of a person's rows survive the cap depends on it
    # What can be spent and what is reserved come from one value, so that neither can be more than the other.
    budget = cost.budget
    step("reserve")
    receipt = ledger.reserve(wanted, nonce)
    step("read")
    # Whom a release counts is on disk, in the register, before it counts anybody.
    admit = None if register is None else _admitting(register, receipt, terms.period or "", step)
    held = table.read(schema, key, for_margins=for_margins, period=terms.period, admit=admit)
    carried = None if past is None else past.carried(receipt, schema, terms.period)
    return Opened(curator_of(schema, held, budget, entropy, carried=carried, exact=wanted.exact), receipt)


@dataclass(frozen=True)
class Share:
    """One of several tables that are opened on one reservation, with the part of the budget that it may spend."""

    table: Table
    schema: Schema
    budget: Budget
    for_margins: bool = False


def open_shares(
    shares: Sequence[Share], terms: Terms, *, ledger: Ledger, entropy: Entropy, step: Step, nonce: str
) -> Iterator[Opened]:
    """Reserve the cost once, then open one table after another, each with its part of the cost.

    terms: those of all tables together; their schema says dataset, privacy unit and total.
    """
    step("check")
    check_shares(shares, terms)
    step("reserve")
    receipt = ledger.reserve(terms.wanted, nonce)
    step("read")
    for share in shares:
        key = int.from_bytes(entropy.bytes(7), "big")
        held = share.table.read(share.schema, key, for_margins=share.for_margins)
        yield Opened(curator_of(share.schema, held, share.budget, entropy), receipt)


def check_shares(shares: Sequence[Share], terms: Terms) -> None:
    """Refuse what names and types of any table refuse, and parts that together are more than the cost."""
    whole = terms.cost.budget
    # What one person loses over all tables is at most the sum: of epsilons, or of rho, of which epsilon^2 / 2 is one.
    spent = [one.budget.amount if whole.is_pure else _rho_of(one.budget) for one in shares]
    if any(one.budget.is_pure < whole.is_pure for one in shares) or sum(spent) > whole.amount:
        raise PrivacyError("the parts of a budget are more than what is reserved; nothing is read")
    for share in shares:
        share.table.check(share.schema)


def _rho_of(budget: Budget) -> Fraction:
    return budget.amount**2 / 2 if budget.is_pure else budget.amount


def rehearse(table: Table, terms: Terms, *, ledger: Ledger) -> Account:
    """Refuse what `open_curator` would refuse from names and types; reserves nothing and reads no row."""
    _checked(table, terms, ledger)
    return ledger.foresee(terms.wanted)


def _admitting(register: Register, receipt: Receipt, period: str, step: Step) -> Admit:
    def admit(people: Sequence[bytes]) -> NDArray[np.bool_]:
        step("register")
        return register.admit(receipt, period, people)

    return admit


def _checked(table: Table, terms: Terms, ledger: Ledger) -> tuple[Register | None, PastNoise | None]:
    """Refuse by names, types and the ledger's side files; return the register and past noise that the terms need."""
    unit = terms.wanted.unit
    register = past = None
    if unit.series is not None and unit.series.keeps_register:
        from sfumato.kernel.ledger.register import Register

        register = Register(ledger, terms.schema.dataset, unit)
    table.check(terms.schema, terms.period, with_people=register is not None)
    if register is not None:
        register.check()
    if terms.schema.running:
        from sfumato.kernel.ledger.past_noise import PastNoise

        past = PastNoise(ledger, terms.schema.dataset, unit)
        past.check()
    return register, past


def curator_of(
    schema: Schema,
    held: Aggregate | Rows,
    budget: Budget,
    entropy: Entropy,
    kind: type[Curator] = Curator,
    carried: Carried | None = None,
    exact: ExactSets = (),
) -> Curator:
    """A curator that can spend a budget on a table's counts, and no more. carried, exact: as `Holding` has them."""
    # A row that weighs w steps is charged as w rows, at most schema.weight.most (docs/privacy.md, theorem W).
    charge = Charge(budget, schema.most_of_a_unit, schema.domain.size, max(schema.domain.shape))
    return kind(schema.domain, held, schema.units, charge, entropy, carried=carried, exact=exact)
