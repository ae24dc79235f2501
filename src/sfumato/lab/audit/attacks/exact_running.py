"""Exact audit of running totals: the noises that would give the same numbers with and without a person.

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
from fractions import Fraction
from math import gcd, inf
from pathlib import Path

import numpy as np

from sfumato.arrays import Whole
from sfumato.errors import LedgerError, NewLedgerWarning
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.ledger.book import period_of
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.past_noise import Carried, PastNoise
from sfumato.kernel.ledger.register import Register
from sfumato.kernel.opening import Terms, unit_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.exact import TOLERANCE, ExactFinding
from sfumato.measurement import Noise, Trail
from sfumato.models.cells.cells import MECHANISM as CELLS
from sfumato.schema import Schema

SAMPLED = 64  # draws that show on which multiples noise lies


QUARTERS = ("2026-Q1", "2026-Q2", "2026-Q3", "2026-Q4", "2027-Q1", "2027-Q2")


@dataclass(frozen=True)
class Story:
    """Parts of a series in the order in which they are tried, by their periods.

    inside: periods in whose tables the person is. unit: what is promised; by the year, if the periods are quarters.
    old_copy: the file of past noise is put back, before the last part, as it was after so many parts.
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
    """Past noise of one part with given fresh noise in place of drawn one."""

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
        """Play a part. inside: whether the person is counted. probe: put all files back as they were."""
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
        """Rho of the account of whoever is in the person's periods, as the ledger tells it."""
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
    """Loss of rho by which a person is told from nobody, and what was charged; None if it is refused."""
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
    """Greatest number of which all fresh noise is a multiple."""
    zeros = np.zeros(2, dtype=np.int64)
    budget = series.cost.budget
    curator = over_counts(series.schema, zeros, budget, TestingEntropy(5), {}, kind)
    shares = dict(zip(curator.statistics, budget.split(*series.schema.weights.values()), strict=True))
    noises, _ = curator._running_noises(shares, series.story.planned, series.schema.together)
    return gcd(*(int(each) for _ in range(SAMPLED) for each in curator._fresh(noises["count"])))


def tells_too_much(kinds: tuple[type[Curator], type[PastNoise]]) -> str | None:
    """Whether a person is told from nobody by more than was charged, in any of a few stories."""
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
