"""NOT PRIVATE: broken budget ledgers, with the checks that catch them.

A ledger draws nothing at random that could be sampled. A check presents a curator's mistake to a broken ledger, or to
the real one, and complains in words if the ledger accepts it. A part is one release of a series of periods; looks are
private queries of one table that share a reservation (`Looks` in kernel/discovering.py).
"""

from __future__ import annotations

import secrets
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BudgetError, BudgetExhausted, LedgerError, NewLedgerWarning, PrivacyError
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.discovering import Looks, open_looks
from sfumato.kernel.ledger.book import Series
from sfumato.kernel.ledger.ledger import ROW, Ledger, Receipt, Unit
from sfumato.kernel.ledger.past_noise import PastNoise
from sfumato.kernel.ledger.register import Register
from sfumato.kernel.ledger.reservation import Wanted
from sfumato.kernel.opening import Terms, open_curator
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.schema import Schema

PERSON = Unit("person_id")
MONTHS = Unit("person_id", Series("person in at most 2 months", 2))


def spends_twice(kind: type[Ledger]) -> str | None:
    """Complaint if a ledger grants an epsilon of 2 twice out of a total of 3."""
    with _place() as (path, _):
        ledger = kind(path)
        try:
            for _ in range(2):
                _ask(ledger, 2, ROW)
        except BudgetExhausted:
            return None
        return "an epsilon of 2 was granted twice out of a total of 3"


def adds_two_promises(kind: type[Ledger]) -> str | None:
    """Complaint if a ledger adds an epsilon per row to one per person without being told to."""
    for first, second in ((PERSON, ROW), (ROW, PERSON), (PERSON, Unit("household_id"))):
        with _place() as (path, _):
            ledger = kind(path)
            _ask(ledger, 1, first)
            try:
                _ask(ledger, 1, second)
            except BudgetError:
                if ledger.account("mutants").spent == 1:
                    continue
            return f"an epsilon to {second.in_words(1)} was added to one to {first.in_words(1)}, unasked"
    return None


def tells_spellings_apart(kind: type[Ledger]) -> str | None:
    """Complaint if a ledger grants an epsilon of 2 twice out of a total of 3 to two spellings of a dataset."""
    for other in ("Mutants", "MUTANTS"):
        with _place() as (path, _):
            try:
                _ask(kind(path), 2, ROW)
                _ask(kind(path), 2, ROW, dataset=other)
            except BudgetExhausted:
                continue
        return f"the total of mutants was granted once more to {other}, which SQL takes for the same"
    return None


def starts_afresh(kind: type[Ledger]) -> str | None:
    """Complaint if a ledger that was lost is made anew in silence, or made anew at all where one is required."""
    with _place() as (path, said):
        _ask(kind(path), 3, ROW)
        path.unlink()
        said.clear()
        _ask(kind(path), 3, ROW)
        if not any(issubclass(warning.category, NewLedgerWarning) for warning in said):
            return "a ledger was lost, a new one was made, and nobody was told"
    requiring: tuple[tuple[str, Callable[[Path], object]], ...] = (
        ("by the curator", lambda path: _ask(kind(path, required=True), 1, ROW)),
        ("by the schema", lambda path: _ask(kind(path), 1, ROW, identity="0" * 32)),
    )
    for who, attempt in requiring:
        with _place() as (path, _):
            try:
                attempt(path)
            except LedgerError:
                if not path.exists():
                    continue
            return f"a ledger was required {who}, none was there, and a new one was made"
    return None


def forgets_exact_counts(kind: type[Ledger]) -> str | None:
    """Complaint if exact counts are handed out that the ledger's entry does not name before the table is read."""
    import pyarrow as pa

    parts: dict[str, Any] = {"dataset": "mutants", "privacy_unit": "row", "budget": {"epsilon": 9}}
    schema = Schema.from_dict({**parts, "attributes": {"ill": {"type": "boolean"}}, "invariants": [[], "ill"]})
    with _place() as (path, _):
        ledger, named = kind(path), list[object]()

        def step(name: str) -> None:
            if name == "read":
                named.extend(one.exact for one in Ledger(path).entries())

        terms = Terms(schema, Cost(Fraction(1)), "cells", exact=True)
        how: dict[str, Any] = {"ledger": ledger, "entropy": TestingEntropy(1), "step": step}
        how["nonce"] = secrets.token_hex(16)
        opened = open_curator(open_table(pa.table({"ill": [True, True, False]})), terms, **how)
        shown = [opened.curator.disclose(names).tolist() for names in schema.exact_sets]
    if shown == [[3], [1, 2]] and named != [schema.exact_sets]:
        return f"exact counts of {schema.exact_counts} were handed out, and the ledger named {named}"
    return None


class FreshLedger(Ledger):
    """NOT PRIVATE: every reservation starts a ledger of its own, so that none sees what the others spent."""

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        return Ledger(self.path.with_name(nonce)).reserve(wanted, nonce)


class UnitBlindLedger(Ledger):
    """NOT PRIVATE: epsilons are added up whatever they protect, a row or a person."""

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        return super().reserve(replace(wanted, another_unit=True), nonce)


class LiteralLedger(Ledger):
    """NOT PRIVATE: a dataset has a budget for each way to write its name."""

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        spelled = "".join(f"{ord(letter):x}." for letter in wanted.dataset)
        return super().reserve(replace(wanted, dataset=spelled), nonce)


class ForgetfulLedger(Ledger):
    """NOT PRIVATE: the ledger's entry does not name the exact counts that are handed out."""

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        return super().reserve(replace(wanted, exact=()), nonce)


class SilentLedger(Ledger):
    """NOT PRIVATE: a ledger that is lost is made anew without a word, even where one is required."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{**named, "required": False})

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewLedgerWarning)
            return super().reserve(replace(wanted, identity=None), nonce)


@contextmanager
def _place() -> Iterator[tuple[Path, list[warnings.WarningMessage]]]:
    """Path of a ledger that does not exist yet, and the list of warnings caught meanwhile."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NewLedgerWarning)
        yield Path(folder) / "ledger.sqlite", said


def _ask(ledger: Ledger, epsilon: int, unit: Unit, **more: Any) -> Receipt:
    asked = Wanted(more.pop("dataset", "mutants"), Fraction(epsilon), Fraction(3), "cells", unit, 1, **more)
    return ledger.reserve(asked, secrets.token_hex(16))


def counts_too_often(kind: type[Register]) -> str | None:
    """Complaint if a register counts somebody in more than two periods, or leaves somebody out for what others did.

    People have all possible histories over four periods. Each period is registered by a new object, as by a process
    that follows one that was killed.
    """
    histories = list(product([False, True], repeat=4))
    with _place() as (path, _):
        for period in range(4):
            here = [number for number, history in enumerate(histories) if history[period]]
            try:
                flags = _admitted(kind, path, f"2026-0{period + 1}", [b"%d" % number for number in here])
            except LedgerError:
                return "people could not be told apart"
            for number, flag in zip(here, flags, strict=True):
                if flag != (sum(histories[number][:period]) < 2):
                    return f"somebody was {'counted too often' if flag else 'left out for what others did'}"
    return None


def loses_people(kind: type[Register]) -> str | None:
    """Complaint if a register that was lost is made anew, so that people are counted again."""
    with _place() as (path, _):
        for period in ("2026-01", "2026-02"):
            _admitted(kind, path, period, [b"ann"])
        Path(f"{path}.register").unlink()
        try:
            return "somebody was counted a third time" if _admitted(kind, path, "2026-03", [b"ann"]).any() else None
        except LedgerError:
            return None


def _admitted(kind: type[Register], path: Path, period: str, people: list[bytes]) -> NDArray[np.bool_]:
    ledger = Ledger(path)
    receipt = _ask(ledger, 1, MONTHS, period=period)
    return kind(ledger, "mutants", MONTHS).admit(receipt, period, people)


def adds_too_few_periods(kind: type[Ledger]) -> str | None:
    """Complaint if a ledger grants people in two months an epsilon of 2 in each, out of a total of 3."""
    with _place() as (path, _):
        try:
            for period in ("2026-01", "2026-02"):
                _ask(kind(path), 2, MONTHS, period=period)
        except BudgetExhausted:
            return None
        return "an epsilon of 2 was granted in two months to the same people, out of a total of 3"


class MonthlyLedger(Ledger):
    """NOT PRIVATE: each period has an account of its own, although a person may be in several."""

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        alone = Series("person in a month", 1, alone=True)
        return super().reserve(replace(wanted, unit=replace(wanted.unit, series=alone)), nonce)


class FreeCorrections(Ledger):
    """NOT PRIVATE: a correction is not charged; it uses the charge of the part that it corrects."""

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        for entry in self.entries(wanted.dataset):
            if entry.period == wanted.period:
                return Receipt(
                    self.identity() or "", entry.number, entry.dataset, entry.epsilon, entry.delta, entry.nonce
                )
        return super().reserve(wanted, nonce)


class EveryMonth(Table):
    """NOT PRIVATE: every period reads the rows of all periods, with one cap on a person's rows for all together."""

    def read(self, *given: Any, **named: Any) -> Any:
        return super().read(*given, **{**named, "period": None})


class UnheededRegister(Register):
    """NOT PRIVATE: people are recorded, but all are counted, also those beyond their number of periods."""

    def admit(self, receipt: Receipt, period: str, people: Sequence[bytes]) -> NDArray[np.bool_]:
        return super().admit(receipt, period, people) | True


class OneMoreRegister(Register):
    """NOT PRIVATE: a person is left out after one period too many."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.most += 1


class NamelessRegister(Register):
    """NOT PRIVATE: only the first byte of a person's name is hashed, so that people cannot be told apart."""

    def _hashed(self, key: bytes, name: bytes) -> bytes:
        return super()._hashed(key, name[:1])


class LateRegister(Register):
    """NOT PRIVATE: people are recorded when the release is done, which a kill prevents."""

    def admit(self, receipt: Receipt, period: str, people: Sequence[bytes]) -> NDArray[np.bool_]:
        super().admit(receipt, period, [])
        return np.ones(len(people), dtype=bool)  # as they stood before anybody was recorded


class NewRegister(Register):
    """NOT PRIVATE: a register that is lost is made anew, whatever the ledger knows of it."""

    def _marks(self) -> list[str]:
        return []


class ForkedNoise(PastNoise):
    """NOT PRIVATE: an old copy of the file of past noise is accepted, so that two parts take back the same noise."""

    def _marks(self) -> list[str]:
        return []


class UncorrectedNoise(PastNoise):
    """NOT PRIVATE: noise of superseded parts is taken back too, so a period counts before and after its correction."""

    def _standing(self, periods: Sequence[str], label: str) -> list[int]:
        return [*range(1, len(periods) + 1)]


# -- several looks on one reservation

HALF, RARE = Fraction(1, 2), Fraction(1, 10**6)


def looks_for_less(opener: Callable[..., Looks]) -> str | None:
    """Complaint if looks spend more than the ledger's entry says, or have a receipt that says something else."""
    import pyarrow as pa

    attribute = {"type": "category", "values": ["a"], "other": True}
    parts: dict[str, Any] = {"dataset": "mutants", "privacy_unit": "row", "attributes": {"v": attribute}}
    schema, table = Schema.from_dict({**parts, "budget": {"epsilon": 9, "delta": "1e-3"}}), pa.table({"v": ["a"] * 20})
    with _place() as (path, _):
        terms, ledger = Terms(schema, Cost(Fraction(1), RARE), "discover", by_sums=True), Ledger(path)
        how = {"ledger": ledger, "entropy": TestingEntropy(1), "step": lambda _: None, "nonce": secrets.token_hex(16)}
        looks = opener(lambda: open_table(table), terms, [(schema, Cost(HALF, RARE))], **how)
        listed = sum(_granted(looks.values, schema, HALF, RARE, most=3, values_a_person=1) for _ in range(3))
        counted = sum(_granted(looks.curator, schema, HALF / 2) for _ in range(6))
        paid = [(one.epsilon, one.delta) for one in ledger.entries("mutants")]
        told = [(looks.receipt.epsilon, looks.receipt.delta)]
        taken = counted * HALF / 2 + listed * HALF, listed * RARE
    if len(paid) != 1 or taken[0] > paid[0][0] or taken[1] > paid[0][1]:
        return f"looks took epsilon {taken[0]} and delta {taken[1]}, and the ledger has {paid}"
    return None if told == paid else f"the receipt says {told}, and the ledger has {paid}"


def _granted(look: Callable[..., object], *given: object, **named: object) -> bool:
    try:
        look(*given, **named)
    except PrivacyError:
        return False
    return True


def looking(kind: type[Looks]) -> Callable[..., Looks]:
    """Opener of looks of a broken class `kind`, with a correct reservation."""
    return lambda opened, terms, trials, *, entropy, **how: kind(
        opened, terms, open_looks(opened, terms, trials, entropy=entropy, **how).receipt, entropy
    )


class ForgetfulLooks(Looks):
    """NOT PRIVATE: each look may spend all that was reserved, whatever the others spent."""

    def take(self, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Budget:
        before = self._epsilon, self._delta
        budget = super().take(epsilon, delta)
        self._epsilon, self._delta = before
        return budget


class UnpaidLooks(Looks):
    """NOT PRIVATE: looks that list values are not debited from the reservation."""

    def values(self, schema: Schema, epsilon: Fraction, delta: Fraction, **how: Any) -> Any:
        before = self._epsilon, self._delta
        self._epsilon, self._delta = epsilon, delta
        try:
            return super().values(schema, epsilon, delta, **how)
        finally:
            self._epsilon, self._delta = before


def unrecorded(opened: Any, terms: Terms, trials: Any, *, ledger: Ledger, **how: Any) -> Looks:
    """NOT PRIVATE: the looks are reserved in another ledger, not in the dataset's."""
    return open_looks(opened, terms, trials, ledger=Ledger(ledger.path.with_name("other.sqlite")), **how)


def half_reserved(opened: Any, terms: Terms, trials: Any, *, entropy: Any, **how: Any) -> Looks:
    """NOT PRIVATE: half of the epsilon that the looks may spend is reserved."""
    less = replace(terms, cost=Cost(terms.cost.epsilon / 2, terms.cost.delta))
    return Looks(opened, terms, open_looks(opened, less, trials, entropy=entropy, **how).receipt, entropy)


def kind_receipt(opened: Any, terms: Terms, trials: Any, **how: Any) -> Looks:
    """NOT PRIVATE: the receipt, which schema and certificate repeat, says half of what was spent."""
    looks = open_looks(opened, terms, trials, **how)
    looks.receipt = replace(looks.receipt, epsilon=looks.receipt.epsilon / 2)
    return looks
