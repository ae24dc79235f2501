"""What a ledger holds: receipts, entries and accounts, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from sfumato.errors import LedgerError

NOTHING = Fraction(0)
UNSTATED = "unstated"  # how the ledger writes a total delta that nobody named

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,399})/([1-9][0-9]{0,399})")
_HEX_128 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Receipt:
    """Proof of a reservation; it travels in the release and is checked against the ledger."""

    ledger: str
    entry: int
    dataset: str
    epsilon: Fraction
    delta: Fraction
    nonce: str

    def to_dict(self) -> dict[str, str | int]:
        """The receipt in JSON's own types.

        >>> Receipt("0" * 32, 1, "census", Fraction(1, 2), Fraction(0), "f" * 32).to_dict()["epsilon"]
        '1/2'
        """
        written = {"epsilon": write_fraction(self.epsilon), "delta": write_fraction(self.delta)}
        return {"ledger": self.ledger, "entry": self.entry, "dataset": self.dataset, **written, "nonce": self.nonce}

    @classmethod
    def from_dict(cls, fields: Mapping[str, object]) -> Receipt:
        """Read a receipt back; anything missing, added or of another shape is refused."""
        try:
            exact = {"epsilon": read_fraction(fields["epsilon"]), "delta": read_fraction(fields["delta"])}
            receipt = cls(**{**fields, **exact})  # type: ignore[arg-type]
            well_formed = (
                is_hex(receipt.ledger)
                and (type(receipt.entry) is int and receipt.entry >= 1)
                and is_name(receipt.dataset)
                and (receipt.epsilon > 0 and receipt.delta < 1)
                and is_hex(receipt.nonce)
            )
        except (KeyError, TypeError, ValueError):
            well_formed = False
        if not well_formed:
            raise LedgerError("the ledger receipt is malformed; use the release file as it was published")
        return receipt


@dataclass(frozen=True)
class Entry:
    """One reservation: immutable but for its state and the digest of what was published."""

    number: int
    dataset: str
    epsilon: Fraction
    delta: Fraction
    mechanism: str
    nonce: str
    reserved_at: str
    state: str
    digest: str | None
    chain: str


@dataclass(frozen=True)
class Account:
    """Where a dataset stands. Epsilons add up and deltas add up (basic composition), which never counts too little.

    total_delta: None where no total was stated; then the deltas are counted, and only their sum of 1 is refused.
    """

    dataset: str
    total: Fraction
    spent: Fraction
    total_delta: Fraction | None
    spent_delta: Fraction
    entries: int
    published: int

    @property
    def left(self) -> Fraction:
        """What may still be spent; nothing, where the total was lowered below what is spent."""
        return max(NOTHING, self.total - self.spent)

    @property
    def left_delta(self) -> Fraction | None:
        """The delta that may still be spent; None where no total was stated."""
        return None if self.total_delta is None else max(NOTHING, self.total_delta - self.spent_delta)


@dataclass(frozen=True)
class Book:
    """Everything in the ledger, read and found consistent within one transaction."""

    id: str
    totals: dict[str, tuple[Fraction, Fraction | None]]
    entries: tuple[Entry, ...]

    @property
    def chain(self) -> str:
        return self.entries[-1].chain if self.entries else self.id

    def account(self, dataset: str) -> Account:
        mine = [entry for entry in self.entries if entry.dataset == dataset]
        epsilon, delta = self.totals.get(dataset, (NOTHING, None))
        spent = sum((entry.epsilon for entry in mine), NOTHING), sum((entry.delta for entry in mine), NOTHING)
        published = sum(entry.state == "published" for entry in mine)
        return Account(dataset, epsilon, spent[0], delta, spent[1], len(mine), published)


def write_fraction(amount: Fraction) -> str:
    return f"{amount.numerator}/{amount.denominator}"


def read_fraction(text: object) -> Fraction:
    found = _FRACTION.fullmatch(text) if isinstance(text, str) else None
    if found is None or gcd(int(found[1]), int(found[2])) != 1:
        raise ValueError("not a fraction in lowest terms")
    return Fraction(int(found[1]), int(found[2]))


def write_total(delta: Fraction | None) -> str:
    return UNSTATED if delta is None else write_fraction(delta)


def read_total(text: object) -> Fraction | None:
    return None if text == UNSTATED else read_fraction(text)


def is_hex(text: object) -> bool:
    return isinstance(text, str) and _HEX_128.fullmatch(text) is not None


def is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= 200 and text.isprintable() and text == text.strip()


def check_name(text: object, what: str) -> None:
    if not is_name(text):
        raise LedgerError(f"the {what} must be 1 to 200 printable characters without blanks around them; rename it")
