"""The contents of a ledger as plain values: privacy units, receipts, entries, changes of totals, and accounts.

A privacy unit says whom an epsilon protects: any one row, or all rows of one person. Amounts are kept apart by unit.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd

from sfumato.errors import LedgerError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import rho_for
from sfumato.kernel.ledger.composition import Composed, Loss, Period, Total, borne, composed, sum_of_rho
from sfumato.plain_text import unit_in_words, write_fraction


@dataclass(frozen=True)
class Series:
    """Promise of a series to a person: in how many of its periods he or she is counted.

    words: as the schema states it. most: None where a person may be in all periods. alone: each period is a promise of
    its own, and nobody has to keep count of a person's periods. planned: the most periods that there may be. per: the
    span, "year", whose periods add up to one promise; None where each period is one.
    """

    words: str
    most: int | None
    alone: bool = False
    planned: int | None = None
    per: str | None = None

    @property
    def in_short(self) -> str:
        """Text of the promise after that of the unit: "in a month"."""
        return self.words.removeprefix("person ")

    @property
    def keeps_register(self) -> bool:
        """Whether a register must say in which periods each person was counted."""
        return self.most is not None and not self.alone


@dataclass(frozen=True)
class Unit:
    """Privacy unit: any one row, or all rows of any one value of a column; in a series, by what it promises.

    How many rows of each are used (`contributions`) is no part of it. Neighbouring tables differ by *all* rows of one
    unit, whatever cap is put on them afterwards, and the noise already pays for the cap. So two releases with one
    column and two caps make the same promise about the same neighbours, and their epsilons add up.

    column: None where every row is a unit of its own. series: None of a table that is not published period by period.
    """

    column: str | None
    series: Series | None = None

    def in_words(self, *contributions: int, as_one: bool = False) -> str:
        """Text of the unit for a guarantee.

        >>> ROW.in_words(1), Unit("person_id").in_words(1), Unit("person_id").in_words(3, 1, 3)  # doctest: +ELLIPSIS
        ('any one row', 'the rows of any one person_id (at most 1 row each)', '...(at most 1 or 3 rows each)')
        """
        unit = unit_in_words(self.column, *contributions, as_one=as_one)
        if self.series is None:
            return unit
        return f"{unit} in a calendar {self.series.per}" if self.series.per else f"{unit} {self.series.in_short}"

    def written(self) -> str:
        """Text of the unit in the ledger; a column named "row" is distinguished from a row.

        >>> ROW.written(), Unit("row").written()
        ('row', 'column "row"')
        """
        return "row" if self.column is None else f"column {json.dumps(self.column)}"

    def promised(self) -> str | None:
        """Text of the series' promise in the ledger."""
        one = self.series
        per = () if one is None or one.per is None else (one.per,)
        return None if one is None else json.dumps([one.words, one.most, one.alone, one.planned, *per])

    @classmethod
    def read(cls, text: object, promised: object = None) -> Unit:
        """Parse the texts of `written` and `promised`; a ValueError for any other."""
        if not isinstance(text, str) or not text.startswith(("row", 'column "')):
            raise ValueError("not a privacy unit")
        series = Series(*json.loads(promised)) if isinstance(promised, str) else None
        unit = cls(None if text == "row" else json.loads(text.removeprefix("column ")), series)
        if unit.written() != text or unit.promised() != promised:
            raise ValueError("not a privacy unit as the ledger writes it")
        return unit


ROW = Unit(None)


NOTHING = Fraction(0)
UNSTATED = "unstated"  # how the ledger writes a total delta that nobody named
NO_RHO = "none"  # how it writes that a release is not zCDP, or pure
IN_RHO = "rho "  # before a total that is no epsilon but a rho

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,399})/([1-9][0-9]{0,399})")
_HEX_128 = re.compile(r"[0-9a-f]{32}")
_HEX_256 = re.compile(r"[0-9a-f]{64}")


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
                and is_count(receipt.entry)
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
    """One reservation: immutable but for its state and the digest of what was published.

    unit, contributions: None in entries that were made before the ledger recorded them (formats 1 and 2).
    request: a digest of what was asked for (table by name, schema, mechanism, cost, workload), never of what the table
    holds; None before format 4, and for tables that have no name.
    rho: of a release that is zCDP; None for a pure one, or one with a threshold.
    period: of a release that is part of a series. registered: digests of the private files that the release needs,
    separated by a blank: of the register with everybody whom it counts, of the noise that it uses, or both in this
    order; None where neither is kept, and until they are written: then nobody has been counted.
    exact: attributes of each marginal table that was to be handed out exactly; () stands for the number of all rows.
    """

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
    unit: Unit | None
    contributions: int | None
    request: str | None
    rho: Fraction | None = None
    period: str | None = None
    registered: str | None = None
    exact: tuple[tuple[str, ...], ...] = ()

    @property
    def marks(self) -> list[str]:
        """Digests of the files beside the ledger that the release needed, as far as they were written."""
        return [] if self.registered is None else self.registered.split(" ")

    @property
    def loss(self) -> Loss:
        """Privacy loss of the release, for composition."""
        return Loss(self.epsilon, self.delta, self.rho, period_of(self.unit, self.period))


def period_of(unit: Unit | None, label: str | None) -> Period | None:
    """Period whose losses compose separately from other periods'; None where all losses of the dataset compose."""
    if unit is None or unit.series is None or unit.series.most is None or label is None:
        return None
    # Spring and spring are one period, as spellings of a dataset's name are one dataset.
    spelled, span = same_dataset(label), unit.series.per is not None
    whose = f"{unit.written()} {unit.promised()}"
    return Period(year_of(spelled) if span else spelled, unit.series.most, whose, span)


def year_of(label: str) -> str:
    """Calendar year that a period's label begins with; empty for labels without one, which count as one year.

    >>> year_of("2026-11"), year_of("2026-W47"), year_of("spring")
    ('2026', '2026', '')
    """
    return label[:4] if re.match(r"[0-9]{4}(?![0-9])", label) else ""


@dataclass(frozen=True)
class Change:
    """Statement or change of a total: by whom, when and why. The first of a dataset has no old total.

    rho, old_rho: of a total that was stated in rho.
    """

    number: int
    dataset: str
    old_total: Fraction | None
    old_delta: Fraction | None
    total: Fraction
    total_delta: Fraction | None
    who: str
    changed_at: str
    reason: str
    chain: str
    rho: Fraction | None = None
    old_rho: Fraction | None = None


@dataclass(frozen=True)
class Promise:
    """Epsilon and delta of all releases of a dataset together, under one privacy unit.

    unit: None for entries from before units were recorded. contributions: every cap on rows that was used with it.
    """

    unit: Unit | None
    contributions: tuple[int, ...]
    spent: Fraction
    spent_delta: Fraction

    @property
    def whom(self) -> str:
        """Text of the privacy unit, for messages."""
        return "a unit that was not recorded" if self.unit is None else self.unit.in_words(*self.contributions)


@dataclass(frozen=True)
class Account:
    """Balance of a dataset: what its releases cost together, by the best valid way of adding up (composition.py).

    The total bounds all releases together, as if they protected one unit. Those of two units are no promise to
    anybody: `promises` tells what was spent under each.
    total_delta: None where no total was stated; then the deltas are counted, and only their sum of 1 is refused.
    total_rho: of a total that was stated in rho: the sum of rhos keeps to it, and `total` tells the epsilon that it is.
    spellings: how the dataset's name was written, p and P, wherever something was recorded under it.
    labels: the period of each release, as it is written in files.
    """

    dataset: str
    total: Fraction
    total_delta: Fraction | None
    losses: tuple[Loss, ...]
    published: int
    promises: tuple[Promise, ...]
    spellings: tuple[str, ...] = ()
    total_rho: Fraction | None = None
    labels: tuple[str | None, ...] = ()

    @property
    def entries(self) -> int:
        return len(self.losses)

    def within(self, period: Period | None) -> Account:
        """Account of the losses that one person of a period can bear (`borne`): the period's alone if `most` is 1."""
        return replace(self, losses=borne(self.losses, period))

    @cached_property
    def together(self) -> Composed:
        """Composition of the losses of all releases of the account."""
        return composed(self.losses, self.total_delta)

    @property
    def spent(self) -> Fraction:
        """Epsilon of all releases together."""
        return self.together.epsilon

    @property
    def spent_delta(self) -> Fraction:
        """The delta at which `spent` holds."""
        return self.together.delta

    @cached_property
    def spent_rho(self) -> Fraction | None:
        """Rho of all releases together; None where one of them has none."""
        return sum_of_rho(self.losses)


@dataclass(frozen=True)
class Book:
    """Contents of a ledger, read and checked within one transaction.

    totals: by the spelling under which each was recorded; those of one dataset are taken together by `total`.
    """

    id: str
    totals: dict[str, Total]
    entries: tuple[Entry, ...]
    changes: tuple[Change, ...]

    @property
    def chain(self) -> str:
        return self.entries[-1].chain if self.entries else self.id

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever recorded, which proves as little as a missing ledger."""
        return not self.totals and not self.entries

    def spellings(self, dataset: str) -> tuple[str, ...]:
        """Spellings of a dataset's name with totals of their own; before format 5 there could be several."""
        return tuple(sorted(name for name in self.totals if same_dataset(name) == same_dataset(dataset)))

    def total(self, dataset: str) -> Total | None:
        """The dataset's total, the smaller where two spellings have two (no rhos then); None where none is known."""
        known = [self.totals[name] for name in self.spellings(dataset)]
        if not known or any(total.rho is not None for total in known):
            return min(known, key=lambda total: (total.rho is None, total.rho), default=None)
        deltas = [total.delta for total in known if total.delta is not None]
        return Total(min(total.epsilon for total in known), min(deltas, default=None))

    def of(self, dataset: str) -> list[Entry]:
        """Entries of a dataset, under any spelling of its name."""
        names = {entry.dataset for entry in self.entries}
        names = {name for name in names if same_dataset(name) == same_dataset(dataset)}
        return [entry for entry in self.entries if entry.dataset in names]

    def account(self, dataset: str) -> Account:
        """The account of a dataset: amounts spent under any spelling of its name add up."""
        mine = self.of(dataset)
        names = {entry.dataset for entry in mine}
        total = self.total(dataset) or Total(NOTHING)
        spellings = tuple(sorted(names.union(self.spellings(dataset))))
        published = sum(entry.state == "published" for entry in mine)
        promises = tuple(_promise(unit, mine, total.delta) for unit in dict.fromkeys(entry.unit for entry in mine))
        losses, labels = tuple(entry.loss for entry in mine), tuple(entry.period for entry in mine)
        return Account(dataset, total.epsilon, total.delta, losses, published, promises, spellings, total.rho, labels)


def _promise(unit: Unit | None, entries: list[Entry], delta: Fraction | None) -> Promise:
    mine = [entry for entry in entries if entry.unit == unit]
    contributions = sorted({entry.contributions for entry in mine if entry.contributions is not None})
    together = composed([entry.loss for entry in mine], delta)
    return Promise(unit, tuple(contributions), together.epsilon, together.delta)


def same_dataset(name: str) -> str:
    """Canonical form of a dataset's name: SQL takes p and P for one, so they share one account.

    For privacy it is at least as coarse as SQL's comparison (`str.lower`): Unicode's canonical caseless matching, by
    which an accent may also be written as a character of its own.

    >>> same_dataset("Straße") == same_dataset("STRASSE"), same_dataset("é") == same_dataset("E\u0301")
    (True, True)
    """
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def chained(previous: str, row: tuple[object, ...]) -> str:
    """Hash-chain digest of a row's immutable fields and, through `previous`, of all rows before it."""
    return hashlib.sha256(json.dumps([previous, *row]).encode()).hexdigest()


def read_fraction(text: object) -> Fraction:
    found = _FRACTION.fullmatch(text) if isinstance(text, str) else None
    if found is None or gcd(int(found[1]), int(found[2])) != 1:
        raise ValueError("not a fraction in lowest terms")
    return Fraction(int(found[1]), int(found[2]))


def write_rho(rho: Fraction | None) -> str:
    return NO_RHO if rho is None else write_fraction(rho)


def read_rho(text: object, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Rho of an entry. Before format 6 none was written: every release with a delta then got `rho_for` to spend."""
    if text is None:
        return _rho_of_old(epsilon, delta) if delta else None
    rho = None if text == NO_RHO else read_fraction(text)
    if rho is not None and not (rho > 0 and delta > 0):
        raise ValueError("no rho of a release")
    return rho


_rho_of_old = lru_cache(maxsize=1024)(rho_for)


def write_total(total: Total) -> tuple[str, str]:
    """Text of a total in the ledger: its epsilon or "rho" with its rho, and its delta."""
    amount = write_fraction(total.epsilon) if total.rho is None else IN_RHO + write_fraction(total.rho)
    return amount, UNSTATED if total.delta is None else write_fraction(total.delta)


def read_total(amount: object, delta: object) -> Total:
    """Parse the text of `write_total`; a ValueError for any other."""
    at = None if delta == UNSTATED else read_fraction(delta)
    if isinstance(amount, str) and amount.startswith(IN_RHO):
        return Total.in_rho(read_fraction(amount.removeprefix(IN_RHO)), at)
    return Total(read_fraction(amount), at)


def is_hex(text: object) -> bool:
    return isinstance(text, str) and _HEX_128.fullmatch(text) is not None


def is_digest(text: object) -> bool:
    return isinstance(text, str) and _HEX_256.fullmatch(text) is not None


def is_count(number: object) -> bool:
    return type(number) is int and number >= 1


def is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= 200 and text.isprintable() and text == text.strip()


def check_name(text: object, what: str) -> None:
    if not is_name(text):
        raise LedgerError(
            f"the {what} must be 1 to 200 printable characters without blanks around them; rename it", kind="input"
        )
