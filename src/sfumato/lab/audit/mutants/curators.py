"""NOT PRIVATE: broken curators, charges and descents, kept so that the audit can be seen to catch them.

Each curator overrides one step of the kernel's own class. The small mechanisms beside them bring the broken step to
light. A descent may follow the noisy counts wherever they lead, but it may follow nothing else, and along every path
its shares must sum to no more than the budget (docs/sfumato.md). Each broken descent forgets one of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.domain import Axis, Domain, Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.audit.attacks.replay import Run, descent_finding, replay
from sfumato.lab.audit.mutants import noise
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables, small_schema
from sfumato.lab.audit.subjects.subject import HIDDEN, Outputs
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.models.tree.descent import Frontier, Geometry, GoOn, Planned, next_measurements
from sfumato.models.tree.measure import descend
from sfumato.queries import Identity, Queries, Total, default_workload
from sfumato.schema import Schema
from sfumato.schema.parts import missing_of

Check = Callable[[], str | None]

WHOLE = Budget.pure(1)


# -- small mechanisms, and the replay of them


def replaying(run: Run, kind: type[Curator] = Curator) -> Check:
    """The replay audit of a small mechanism, on all tables of up to 2 rows in 4 cells."""

    def check() -> str | None:
        schema = small_schema(4, 1, measured=True)
        steps = schema.measures["m"].half_units
        for one, other in neighbouring_tables(4, 2, 1, [(steps,), (None,)]):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:
                return complaint.what
        return None

    return check


def until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure the total with the whole budget again and again, four times at most."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        while len(found) < 4:
            found.append(curator.measure(Total(curator.domain.size), budget))
    return found


def with_even_shares(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure every statistic of every cell, each with its share of the budget."""
    shares = zip(curator.statistics, budget.evenly(len(curator.statistics)), strict=True)
    return [curator.measure(Identity(curator.domain.size), share, of=of) for of, share in shares]


def with_whole_budgets(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure every statistic of every cell, each with the whole budget."""
    return [curator.measure(Identity(curator.domain.size), budget, of=of) for of in curator.statistics]


def totals_of_groups(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Split the cells into two groups and spend the whole budget on the total of each."""
    groups = curator.split(Partition(curator.domain, np.array([0, 0, 1, 1])))
    return [group.measure(Total(group.domain.size), budget) for group in groups]


# -- broken charges and curators


class ForgetfulCharge(Charge):
    """NOT PRIVATE: every measurement is admitted as if it were the first."""

    def admit(self, loads: list[Load]) -> None:
        self._loads = 0
        super().admit(loads)


class LargestCharge(Charge):
    """NOT PRIVATE: composition takes the largest load where it must take the sum."""

    def admit(self, loads: list[Load]) -> None:
        before, denominator, self._loads = self._loads, self._denominator, 0
        super().admit(loads)
        if Fraction(int(np.max(before)), denominator) > self.fullest:
            self._loads, self._denominator = before, denominator


class ForgetfulCurator(Curator):
    """NOT PRIVATE: its charge does not add up, so that the same budget is spent again and again."""

    charging: type[Charge] = ForgetfulCharge

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.charge = self.charging(self.charge.budget, self.charge.contributions, self.charge.cells)


class LargestCurator(ForgetfulCurator):
    """NOT PRIVATE: its charge takes the largest load where it must take the sum."""

    charging = LargestCharge


class UnsplitCurator(Curator):
    """NOT PRIVATE: every statistic is measured under a charge of its own, so a split of the budget can be forgotten."""

    def measure(self, queries: Queries, *args: Any, **named: Any) -> Measurement:
        self.charge = Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        return super().measure(queries, *args, **named)


class OverlappingCurator(Curator):
    """NOT PRIVATE: the groups of a split overlap, yet each is charged to its own cells only."""

    def split(self, partition: Partition) -> tuple[Curator, ...]:
        groups = super().split(partition)
        first, second = (group._dense("count") for group in groups)
        groups[1]._aggregate = Aggregate(np.arange(len(second)), second + first)
        return groups


class ScaleFromDataCurator(Curator):
    """NOT PRIVATE: the noise grows with the number of rows, so that its scale tells that number."""

    def _noises(self, *args: Any) -> tuple[tuple[Noise, ...], Codes | None]:
        (noise,), which = super()._noises(*args)
        if not isinstance(noise, Laplace):
            raise TypeError("this mutant is for pure epsilon")
        return (Laplace(noise.scale * (1 + int(self._aggregate.counts.sum()))),), which


class MissingBySumsCurator(Curator):
    """NOT PRIVATE: missing values carry noise made for half of what one of them changes."""

    def _missing_noises(self, noises: tuple[Noise, ...], unit: int) -> tuple[Noise, ...]:
        return super()._missing_noises(noises, 2 * unit)


class MissingInBothCurator(Curator):
    """NOT PRIVATE: a row without a value is counted as missing and also moves the sum, and both are charged as one."""

    def _dense(self, of: str) -> NDArray[np.int64]:
        if missing_of(of) not in self._units:
            return super()._dense(of)
        return super()._dense(of) + self._units[of] * super()._dense(missing_of(of))


class NoEmptyCellsCurator(Curator):
    """NOT PRIVATE: above a threshold, cells without rows are never published."""

    def _sift(self, above: int, noise: Noise) -> tuple[Codes, NDArray[np.int64]]:
        noisy = self._aggregate.counts + draw(noise, len(self._aggregate.cells), self._entropy)
        kept = noisy >= above
        return self._aggregate.cells[kept], noisy[kept]


class ByCountCurator(Curator):
    """NOT PRIVATE: cells above a threshold are listed by their true counts."""

    def _sift(self, above: int, noise: Noise) -> tuple[Codes, NDArray[np.int64]]:
        cells, answers = super()._sift(above, noise)
        order = np.argsort(-self._dense("count")[cells], kind="stable")
        return cells[order], answers[order]


def sifted(tables: tuple[list[int], list[int]], kind: type[Curator] = Curator) -> noise.Run:
    """Cells whose noisy count is positive, by a curator: their numbers in the order published, then their counts.

    Cells carry independent noise, so many runs are laid side by side in one long domain.
    """

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        size = len(tables[which])
        counts = np.tile(np.array(tables[which], dtype=np.int64), runs)
        held = np.flatnonzero(counts)
        domain = Domain((Axis("cell", "integer", np.arange(len(counts) + 1.0)),))
        charge = Charge(WHOLE, 1, domain.size)
        curator = kind(domain, Aggregate(held, counts[held]), {"count": 1}, charge, entropy)
        seen = curator.measure(Identity(domain.size), WHOLE, above=1)
        if seen.cells is None:
            raise TypeError("measured above a threshold, so the cells are named")
        found = np.full((runs, 2 * size), HIDDEN, dtype=np.int64)
        of_run, cells = np.divmod(seen.cells, size)
        found[of_run, size + cells] = seen.answers
        by_run = np.argsort(of_run, kind="stable")
        place = np.arange(len(by_run)) - np.searchsorted(of_run[by_run], of_run[by_run])
        found[of_run[by_run], place] = cells[by_run]
        return found

    return run


def descending(go_on: GoOn = next_measurements) -> Callable[[Curator, Schema, Budget], Measurement]:
    """A descent that goes on in some way: the one of the mechanism, or a broken one."""

    def run(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
        domain = schema.domain
        return descend(curator, BinaryTree.over(domain), budget, default_workload(domain), go_on=go_on)

    return run


def paid_twice(frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Planned:
    """NOT PRIVATE: the last measurement on a path gets all the budget left there, and its share of it once more."""
    asked = next_measurements(frontier, tree, geometry, unit, pure=pure)
    return replace(asked, shares=np.where(asked.left == 0, 2 * asked.shares, asked.shares))


def steered_by_the_table(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """NOT PRIVATE: nodes that hold no row are leaves, by their true counts where it must be by the noisy ones."""
    truth = np.concatenate([[0], np.cumsum(curator._dense("count")[BinaryTree.over(schema.domain).order])])

    def go_on(frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Planned:
        asked = next_measurements(frontier, tree, geometry, unit, pure=pure)
        ranges = asked.ranges(tree)
        empty = truth[ranges.highs + 1] == truth[ranges.lows]
        shares = np.where(empty, asked.shares + asked.left, asked.shares)
        return replace(asked, shares=shares, left=np.where(empty, 0, asked.left))

    return descending(go_on)(curator, schema, budget)


def replaying_descent(run: Run, kind: type[Curator] = Curator) -> Callable[[], str | None]:
    """The replay audit of a descent; what a mechanism reached for says less than what it then did, and comes last."""

    def check() -> str | None:
        complaints = descent_finding("descent", Budget.pure(1), run, curator=kind).complaints
        said = sorted({complaint.what for complaint in complaints}, key=lambda what: ("reached for" in what, what))
        return said[0] if said else None

    return check
