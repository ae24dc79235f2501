"""Exact audit of looks at values: what one person changes, at the delta that is paid for.

Where a person has one value, `find_values` itself is run with every noise that there is, on tables that DuckDB read
with and without a person; so what is published has a known distribution, and its hockey-stick divergence, the delta at
this epsilon, is a sum of fractions. Pairs are those that thresholds are about: a person who alone has a value, or
several, one more of few, and two values of which one person more decides the order.

Where people have several values, noise is Gaussian: the weights that a person adds to both rounds are compared with the
rho that their noise pays for, and the chances of values that he alone has with the delta of the thresholds.

Exact audit of running totals: the noises that would give the same numbers with and without a person.

A series is played with a person in some periods, with noise z of its own making. Then it is played without, and of each
part that noise z' is found with which it shows exactly the same numbers: the verb is asked once with no noise at all,
on copies of its files, which tells what it takes back. Noise is discrete Gaussian, so that the loss of this outcome is
the sum of (z' - z)^2 / (2 sigma^2) in zero-concentrated privacy, with the sigma of the curator at work; it is infinite
if z' is no number that the curator draws. It is held against what the ledger tells of the account. Nothing is taken
from the proof.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from math import erfc, gcd, inf, prod, sqrt
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Whole
from sfumato.errors import LedgerError, NewLedgerWarning
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost, rho_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.discovering import FULL, FoundValue, Held, find_values, rounds_of, threshold_noise, values_schema
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.ledger.book import period_of
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.past_noise import Carried, PastNoise
from sfumato.kernel.ledger.register import Register
from sfumato.kernel.opening import Terms, unit_of
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.exact import TOLERANCE, ExactFinding
from sfumato.measurement import Noise, Trail
from sfumato.models.cells.cells import CELLS
from sfumato.schema import Schema
from sfumato.schema.parts import PrivacyUnit

EPSILON, DELTA = "1", "1e-3"  # large, so that noise has few values
COST = Cost.stated(EPSILON, DELTA)
LIKELY = Context(prec=60).exp(Decimal(EPSILON))
MOST = 3  # values of a person who has several
Rows = tuple[tuple[str, str], ...]  # (person, value)
Answer = tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]]
Finder = Callable[..., list[FoundValue]]
Dealer = Callable[[Held, NDArray[np.int64], int], NDArray[np.int64]]


def crowd(value: str, people: int) -> Rows:
    """Rows of `people` persons, each with this one value."""
    return tuple((f"{value} {number}", value) for number in range(people))


MANY = len(threshold_noise(COST).weights)  # people of a value that is always found
PAIRS: dict[str, tuple[Rows, Rows]] = {  # the others, and the person's rows
    "alone with a value": ((), (("ann", "x"),)),
    "one more of few": (crowd("x", 2), (("ann", "x"),)),
    "alone with three values": ((), (("ann", "x"), ("ann", "y"), ("ann", "z"))),
    "with two values of others": (crowd("x", 3) + crowd("y", 6), (("ann", "x"), ("ann", "y"))),
    "with a hundred rows": (crowd("x", 1), (("ann", "x"),) * 100),
    "first of two": (crowd("x", MANY) + crowd("y", MANY), (("ann", "y"),)),
}


@dataclass(frozen=True)
class Kept:
    """Table that was read once: its answer is given again for every noise."""

    rows: Rows
    answers: dict[int, Answer] = field(default_factory=dict)

    def read_values(self, schema: Schema, key: int, most: int) -> Answer:
        """The answer of the kernel's own reading."""
        import pyarrow as pa

        if most not in self.answers:
            names = {"who": [who for who, _ in self.rows], "x": [value for _, value in self.rows]}
            frame = pa.table({name: pa.array(texts, pa.string()) for name, texts in names.items()})
            self.answers[most] = open_table(frame).read_values(schema, key, most)
        return self.answers[most]


class Scripted(TestingEntropy):
    """Random bits from which `ThresholdNoise.draw` makes given noise. places: indices of `ThresholdNoise.weights`."""

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__(0)
        self.places = places

    def words(self, count: int) -> NDArray[np.uint64]:
        """Words just above the lower edges, in `rising`, of the noise at these indices."""
        noise = threshold_noise(COST)
        return np.array([(noise.rising[place] >> (noise.bits - 64)) + 1 for place in self.places], dtype=np.uint64)


def values_law(finder: Finder, table: Kept) -> dict[tuple[FoundValue, ...], Fraction]:
    """Distribution of what a look publishes, from all noises that its values can draw."""
    schema, noise = values_schema("x", PrivacyUnit(column="who", contributions=1)), threshold_noise(COST)
    values = len(table.read_values(schema, 1, 1)[0])
    law: dict[tuple[FoundValue, ...], Fraction] = {}
    for places in product(range(len(noise.weights)), repeat=values):
        found = finder(cast(Table, table), schema, COST, most=10, values_a_person=1, key=1, entropy=Scripted(places))
        chance = Fraction(prod(noise.weights[place] for place in places), 1 << noise.bits * values)
        law[tuple(found)] = law.get(tuple(found), Fraction(0)) + chance
    return law


def lost_delta(one: dict[Any, Fraction], other: dict[Any, Fraction]) -> Fraction:
    """Hockey-stick divergence at the audit's epsilon, the larger of both ways."""
    times = Fraction(LIKELY.next_plus())
    nothing = Fraction(0)
    ways = [[(p, b.get(y, nothing)) for y, p in a.items()] for a, b in ((one, other), (other, one))]
    return max(sum((max(nothing, p - times * q) for p, q in way), nothing) for way in ways)


def share_of_delta(finder: Finder, pair: tuple[Rows, Rows], table: type[Kept] = Kept) -> float:
    """Exact delta between outputs with and without a person's rows, as a share of the delta paid."""
    others, own = pair
    return float(lost_delta(values_law(finder, table(others)), values_law(finder, table(others + own))) / COST.delta)


def person_moves(dealer: Dealer) -> float:
    """Largest rho that a person's weights cost in two rounds, as a share of the rho paid."""
    rounds = rounds_of(COST, MOST)
    paid = rho_for(COST.epsilon - COST.delta, COST.delta / 2)
    most = 0
    for shares in product((0, 7, FULL), repeat=MOST):
        places = np.arange(MOST, dtype=np.int64)
        people = Held(np.append(places, 0), np.append(np.full(MOST, 1), 2), MOST, MOST)
        alone = Held(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), MOST, MOST)
        moved = dealer(people, np.array(shares), rounds.one) - dealer(alone, np.array(shares), rounds.one)
        most = max(most, sum(int(by) ** 2 for by in moved))
    return float(sum(most / (2 * noise.sigma_squared) for noise in rounds.noises) / paid)


def alone_passes(dealer: Dealer) -> float:
    """Probability that values of a single person pass in two rounds, as a share of the thresholds' delta."""
    rounds, most = rounds_of(COST, MOST), 0.0
    for values in range(1, MOST + 1):
        held = Held(np.arange(values), np.ones(values, dtype=np.int64), values, MOST)
        weights = dealer(held, np.full(values, FULL), rounds.one)
        sides = zip(rounds.noises, rounds.thresholds, strict=True)
        lost = [
            erfc((least - int(weight) - 1) / sqrt(2 * float(noise.sigma_squared))) / 2
            for noise, least in sides
            for weight in weights
        ]
        most = max(most, sum(lost))
    return most / float(COST.delta / 2)


def finds_too_much(finder: Finder, table: type[Kept] = Kept) -> str | None:
    """Complaint if a look tells of a person by more than its delta, in any of the pairs; else None."""
    for name, pair in PAIRS.items():
        share = share_of_delta(finder, pair, table)
        if share > 1 + TOLERANCE:
            return f"epsilon {EPSILON} and delta {DELTA} claimed, {share:.3f} of this delta lost ({name})"
    return None


def deals_too_much(dealer: Dealer) -> str | None:
    """Complaint if the weights dealt to one person cost more rho or delta than was paid for; else None."""
    moved, passed = person_moves(dealer), alone_passes(dealer)
    if max(moved, passed) <= 1 + TOLERANCE:
        return None
    return f"a person costs {moved:.3f} of the rho that was paid for, and {passed:.3f} of the thresholds' delta"


def value_findings() -> list[ExactFinding]:
    """Exact audit of looks at values, in shares of what was paid for."""
    one = [
        ExactFinding(f"values, a person {name}, share of delta", Fraction(1), share_of_delta(find_values, pair), 1)
        for name, pair in PAIRS.items()
    ]
    dealt = {"share of rho": person_moves(Held.weights), "share of the thresholds' delta": alone_passes(Held.weights)}
    return one + [ExactFinding(f"values dealt, {name}", Fraction(1), share, 1) for name, share in dealt.items()]


# -- exact running

SAMPLED = 64  # draws that show on which multiples noise lies


QUARTERS = ("2026-Q1", "2026-Q2", "2026-Q3", "2026-Q4", "2027-Q1", "2027-Q2")


@dataclass(frozen=True)
class Story:
    """Simulated series with running totals. periods: of its parts, in the order in which they are tried.

    inside: periods in whose tables the person is. unit: the promise; one about quarters is accounted by calendar year.
    old_copy: before the last part, the file of past noise is restored as it was after this number of parts.
    """

    periods: tuple[str, ...]
    planned: int
    contributions: int = 1
    old_copy: int | None = None
    unit: str = "person in a period"
    inside: tuple[str, ...] = ("a",)

    @property
    def by_year(self) -> bool:
        return "quarter" in self.unit

    @property
    def name(self) -> str:
        told = "" if self.inside == ("a",) else f", {self.unit}"
        return ", ".join(self.periods) + told + (" by the year" if self.by_year else "")


STORIES = (
    Story(("a", "b", "c", "d"), 4),
    Story(("a", "b", "c", "d"), 4, contributions=2),
    Story(("b", "a", "c"), 3),
    Story(("a", "b", "a", "c"), 4),  # corrected, or tried again after a kill
    Story(("a", "b", "c"), 2),  # more than were planned
    Story(("a", "b", "c"), 2, old_copy=1),
    Story(("a", "b", "c", "d"), 4, unit="person in at most 2 periods", inside=("a", "b")),
    Story(("a", "b", "c", "d"), 4, 2, unit="person in at most 3 periods", inside=("a", "b", "c", "d")),
    Story(("a", "b", "a", "c"), 4, unit="person in at most 2 periods", inside=("a", "b", "c")),
    Story(QUARTERS, 6, unit="person in a quarter", inside=QUARTERS[:4]),
)


class _Played:
    """Past noise of one part, with fresh noise that is given instead of drawn."""

    def __init__(self, carried: Carried, given: Whole | None) -> None:
        self.carried, self.given, self.planned = carried, given, carried.planned
        self.together = carried.together
        self.noises: list[Noise] = []
        self.fresh = np.zeros(0, dtype=np.int64)

    def errors(self, noises: Sequence[Noise], drawn: Callable[[], Whole]) -> tuple[Trail, Whole]:
        """As `Carried.errors`."""

        def fresh() -> Whole:
            self.noises, self.fresh = [*noises], drawn() if self.given is None else self.given
            return self.fresh

        return self.carried.errors(noises, fresh)


class _Series:
    """A series on disk that is played part by part."""

    def __init__(self, folder: Path, story: Story, kind: type[Curator], past: type[PastNoise]) -> None:
        length = "quarter" if story.by_year else "name"
        series = {"period": length, "unit": story.unit, "periods": story.planned, "running": True}
        self.schema = Schema(
            dataset="audit",
            privacy_unit={"column": "who", "contributions": story.contributions},
            budget={"epsilon": 10_000, **({"per": "year"} if story.by_year else {})},
            attributes={"cell": {"type": "integer", "lower": 0, "upper": 1}},
            measures={"cost": {"lower": 0, "upper": 2, "step": 1, "missing": "keep"}},
            series=series,
        )
        self.story, self.kind, self.past = story, kind, past
        folder.mkdir()
        self.folder, self.ledger = folder, Ledger(folder / "ledger.sqlite")
        self.cost = Cost.stated(None, None, Fraction(1, 2))

    def part(self, number: int, inside: bool, given: Whole | None = None, *, probe: bool = False) -> _Part:
        """Publish a part of the simulated series. inside: whether the person is counted. probe: restore all files."""
        with tempfile.TemporaryDirectory() as kept:
            shutil.copytree(self.folder, kept, dirs_exist_ok=True)
            if self.story.old_copy == number:
                shutil.copy(self.noise, f"{self.folder}.copy")
            if self.story.old_copy is not None and number + 1 == len(self.story.periods):
                shutil.copy(f"{self.folder}.copy", self.noise)
            found = self._part(number, inside, given)
            if probe:
                shutil.rmtree(self.folder)
                shutil.copytree(kept, self.folder)
        return found

    @property
    def noise(self) -> Path:
        return Path(f"{self.ledger.path}.noise")

    def _part(self, number: int, inside: bool, given: Whole | None) -> _Part:
        period = self.story.periods[number]
        terms = Terms(self.schema, self.cost, CELLS.name, period=period)
        unit, receipt = terms.wanted.unit, self.ledger.reserve(terms.wanted, secrets.token_hex(16))
        if unit.series is not None and unit.series.keeps_register:
            inside = bool(Register(self.ledger, "audit", unit).admit(receipt, period, [b"person"] * inside).any())
        many = self.story.contributions * inside
        counts = np.array([3, 1], dtype=np.int64) + np.array([many, 0])
        sums = {"cost": np.array([many, 0])}
        curator = over_counts(self.schema, counts, self.cost.budget, TestingEntropy(number), sums, self.kind)
        past = self.past(self.ledger, "audit", unit)
        played = _Played(Carried(past, receipt, period, self.story.planned, "audit", self.schema.together), given)
        curator._carried = played  # type: ignore[assignment]
        measured, _ = curator.measure_running(self.cost.budget, [*self.schema.weights.values()])
        return _Part(np.concatenate([each.answers for each in measured]), played.fresh, played.noises)

    @property
    def charged(self) -> Fraction:
        """Rho of the ledger's account of a person who is counted in the first period of `inside`."""
        period = period_of(unit_of(self.schema), self.story.inside[0])
        return self.ledger.account("audit").within(period).spent_rho or Fraction(0)


@dataclass(frozen=True, eq=False)
class _Part:
    """Numbers that a part shows, the fresh noise in them, and its distribution by statistic."""

    shown: Whole
    fresh: Whole
    noises: Sequence[Noise]


def running_loss(
    story: Story, kind: type[Curator] = Curator, past: type[PastNoise] = PastNoise
) -> tuple[float, Fraction] | None:
    """Privacy loss, in rho, between the series with and without the person, and the rho charged; None if refused."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", NewLedgerWarning)
        one, other = (_Series(Path(folder, name), story, kind, past) for name in ("with", "without"))
        loss, parts = 0.0, range(len(story.periods))
        lattice = _lattice(one, kind)
        for number in parts:
            try:
                shown = one.part(number, story.periods[number] in story.inside)
                taken = other.part(number, False, np.zeros_like(shown.fresh), probe=True)
                wanted = shown.shown - taken.shown
                other.part(number, False, wanted)
            except LedgerError:
                return None
            moved = wanted - shown.fresh
            if (moved % lattice).any():
                return inf, one.charged
            sizes = np.repeat([float(noise.parameter) for noise in shown.noises], len(moved) // len(shown.noises))
            loss += float((moved.astype(np.float64) ** 2 / (2.0 * sizes)).sum())
        return loss, one.charged


def _lattice(series: _Series, kind: type[Curator]) -> int:
    """Greatest common divisor of a sample of fresh noise."""
    zeros = np.zeros(2, dtype=np.int64)
    budget = series.cost.budget
    curator = over_counts(series.schema, zeros, budget, TestingEntropy(5), {}, kind)
    shares = dict(zip(curator.statistics, budget.split(*series.schema.weights.values()), strict=True))
    noises, _ = curator._running_noises(shares, series.story.planned, series.schema.together)
    return gcd(*(int(each) for _ in range(SAMPLED) for each in curator._fresh(noises["count"])))


def tells_too_much(kinds: tuple[type[Curator], type[PastNoise]]) -> str | None:
    """Complaint if a person costs more than was charged, in any of the stories; else None."""
    for story in STORIES:
        found = running_loss(story, *kinds)
        if found is not None and found[0] > float(found[1]) + TOLERANCE:
            told = "a part shows what cannot be without this person" if found[0] == inf else f"rho {found[0]:.3f}"
            return f"{told}, where {float(found[1]):g} was charged (parts {story.name})"
    return None


def running_findings() -> list[ExactFinding]:
    """Exact audit of running totals in every story that is not refused, in rho."""
    found = {story: running_loss(story) for story in STORIES}
    return [
        ExactFinding(f"running totals of {story.name}, in rho", one[1], one[0], 1)
        for story, one in found.items()
        if one is not None
    ]
