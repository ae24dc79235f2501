"""A reservation as it is asked for: exact amounts, well-formed names, and what the ledger has to say to it."""

from __future__ import annotations

import shlex
from fractions import Fraction

from sfumato.errors import BudgetError, LedgerError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, as_delta, as_epsilon
from sfumato.kernel.ledger.book import NOTHING, Account, Book, check_name, is_count, is_digest
from sfumato.kernel.ledger.refusals import refuse_another_unit, refuse_overspending, refuse_repetition
from sfumato.kernel.unit import Unit


@dataclass(frozen=True)
class Wanted:
    """What a reservation is for. `Ledger.reserve` says what each field means.

    where: what a command needs in order to reach the same ledger, so that one that is proposed can be pasted.
    """

    dataset: str
    epsilon: Fraction
    delta: Fraction
    limit: Fraction | None
    limit_delta: Fraction | None
    mechanism: str
    unit: Unit
    contributions: int
    another_unit: bool
    request: str | None
    again: bool
    identity: str | None
    where: str = ""

    @classmethod
    def stated(
        cls,
        dataset: str,
        epsilon: Amount,
        *,
        limit: Amount | None,
        mechanism: str,
        unit: Unit,
        contributions: int,
        another_unit: bool = False,
        delta: Amount = 0,
        limit_delta: Amount | None = None,
        identity: str | None = None,
        request: str | None = None,
        again: bool = True,
    ) -> Wanted:
        """Check every field by itself, before any ledger is looked at."""
        check_name(dataset, "dataset")
        check_name(mechanism, "mechanism")
        amounts = as_epsilon(epsilon), delta_of(delta)
        total = None if limit is None else as_epsilon(limit, "the budget's epsilon")
        total_delta = None if limit_delta is None else delta_of(limit_delta)
        if type(unit) is not Unit or not is_count(contributions) or contributions >= 2**63:
            raise LedgerError("a reservation needs a unit, ROW or Unit('person_id'), and its contributions, such as 1")
        if not (request is None or is_digest(request)):
            raise LedgerError("a request is told by its SHA-256 digest, 64 hexadecimal digits, or not at all")
        totals = total, total_delta
        return cls(dataset, *amounts, *totals, mechanism, unit, contributions, another_unit, request, again, identity)

    def total_in(self, book: Book) -> tuple[Fraction, Fraction | None]:
        """The dataset's total: the one that the ledger has recorded, or the schema's, which is recorded first."""
        if (known := book.total(self.dataset)) is not None:
            return known
        if self.limit is None:
            raise BudgetError(
                f"dataset {self.dataset!r} has no total budget yet; state the total once: budget: {{epsilon: 3}} in "
                f"the schema, or `sfumato ledger set {shlex.quote(self.dataset)} --epsilon 3{self.where}`",
                kind="budget",
            )
        return self.limit, self.limit_delta

    def refuse_in(self, book: Book) -> Account:
        """Everything that a ledger can have against it; where the dataset stands, if that is nothing."""
        account = book.account(self.dataset)
        if not self.another_unit:
            refuse_another_unit(account, self.unit, self.contributions)
        refuse_overspending(account, self.epsilon, self.delta, self.limit, self.limit_delta, self.where)
        if not self.again:
            refuse_repetition(book, self.dataset, self.request)
        return account


def delta_of(value: Amount) -> Fraction:
    return NOTHING if value == 0 and not isinstance(value, bool) else as_delta(value)
