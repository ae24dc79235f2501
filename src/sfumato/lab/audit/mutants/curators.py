"""NOT PRIVATE: broken curators, charges and descents, kept so that the audit can be seen to catch them.

Each curator overrides one step of the kernel's own class. The small mechanisms beside them bring the broken step to
light. A descent may follow the noisy counts wherever they lead, but it may follow nothing else, and along every path
its shares must sum to no more than the budget (docs/sfumato.md). Each broken descent forgets one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Which, Whole
from sfumato.domain import Axis, Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.audit.attacks.replay import Run, descent_finding
from sfumato.lab.audit.mutants import noise
from sfumato.lab.audit.subjects.subject import HIDDEN, Outputs, aggregate_of, curator_of, line
from sfumato.measurement import Gaussian, Laplace, Measurement, Noise
from sfumato.models.tree.descent import Frontier, Geometry, GoOn, Planned, next_measurements
from sfumato.models.tree.measure import descend
from sfumato.queries import Identity, Queries, Total, default_workload
from sfumato.queries.ranges import GRID
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of

WHOLE = Budget.pure(1)


# -- small mechanisms


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
    """Spend the whole budget on the total of each half of the cells."""
    halves = (Partition(curator.domain, np.array(labels)) for labels in ([0, 0, -1, -1], [-1, -1, 0, 0]))
    return [curator.reduce(half).measure(Total(1), budget) for half in halves]


# -- broken charges and curators


def fresh(charge: Charge) -> Charge:
    """New charge with the same bounds and no load."""
    return Charge(charge.budget, charge.contributions, charge.cells)


class DisclosingCurator(Curator):
    """NOT PRIVATE: any exact count is handed out, whatever the ledger names."""

    def disclose(self, names: Sequence[str]) -> Whole:
        self._exact = (*self._exact, tuple(names))
        return super().disclose(names)


class FinerCurator(Curator):
    """NOT PRIVATE: tables that the ledger names are handed out cell by cell, by all attributes together."""

    def disclose(self, names: Sequence[str]) -> Whole:
        super().disclose(names)
        return self._dense("count")


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


class WeightlessCurator(Curator):
    """NOT PRIVATE: a row is charged as one, however much it weighs."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.charge = Charge(self.charge.budget, 1, self.charge.cells)


class LargestCurator(ForgetfulCurator):
    """NOT PRIVATE: its charge takes the largest load where it must take the sum."""

    charging = LargestCharge


class CoarseNoiseCurator(Curator):
    """NOT PRIVATE: noise of running totals in whole rows, which does not hide fractions of rows in earlier noise."""

    def _fresh(self, noise: Noise) -> Whole:
        return GRID * draw(Gaussian(noise.parameter / GRID**2), self.domain.size, self._entropy)


class OnePeriodCurator(Curator):
    """NOT PRIVATE: running totals with noise for one release, although later ones measure the same rows again."""

    def _running_noises(
        self, shares: Mapping[str, Budget], periods: int, together: int
    ) -> tuple[dict[str, Noise], list[Load]]:
        return super()._running_noises(shares, 1, 1)


class OneColumnCurator(Curator):
    """NOT PRIVATE: running totals charged as if a person were in one period, although several are allowed."""

    def _running_noises(
        self, shares: Mapping[str, Budget], periods: int, together: int
    ) -> tuple[dict[str, Noise], list[Load]]:
        return super()._running_noises(shares, periods, 1)


class UnsplitCurator(Curator):
    """NOT PRIVATE: every statistic is measured under a charge of its own, so a split of the budget can be forgotten."""

    def measure(self, queries: Queries, *args: Any, **named: Any) -> Measurement:
        self.charge = fresh(self.charge)
        return super().measure(queries, *args, **named)


class OverlappingCurator(Curator):
    """NOT PRIVATE: a curator of some cells sees the rows of all, yet is charged for its own cells only."""

    def reduce(self, partition: Partition) -> Curator:
        group = super().reduce(partition)
        group._aggregate = self._aggregate.regroup(np.maximum(partition.labels, 0))
        return group


class ScaleFromDataCurator(Curator):
    """NOT PRIVATE: the noise grows with the number of rows, so that its scale tells that number."""

    def _noises(self, *args: Any) -> tuple[tuple[Noise, ...], Which]:
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


class ViewsApartCurator(Curator):
    """NOT PRIVATE: every view has a charge of its own, as if a row lay in one of the margins, bins or subsets only."""

    def margin(self, names: Sequence[str]) -> Curator:
        return self._apart(super().margin(names))

    def recode(self, axes: Mapping[str, tuple[Axis, Codes]]) -> Curator:
        return self._apart(super().recode(axes))

    def reduce(self, partition: Partition) -> Curator:
        return self._apart(super().reduce(partition))

    def subset(self, seed: int, number: int) -> Curator:
        return self._apart(super().subset(seed, number))

    def _apart(self, view: Curator) -> Curator:
        view.charge = fresh(self.charge)
        return view


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
    """Sampler of cells with a positive noisy count: their numbers in the order published, then their counts.

    Cells carry independent noise, so many runs are laid side by side in one long domain.
    """

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        size = len(tables[which])
        cells = runs * size
        curator = curator_of(line(cells), aggregate_of(tuple(tables[which] * runs)), entropy, kind=kind)
        seen = curator.measure(Identity(cells), WHOLE, above=1)
        if seen.cells is None:
            raise TypeError("measured above a threshold, so the cells are named")
        found = np.full((runs, 2 * size), HIDDEN, dtype=np.int64)
        of_run, own = np.divmod(seen.cells, size)
        found[of_run, size + own] = seen.answers
        by_run = np.argsort(of_run, kind="stable")
        place = np.arange(len(by_run)) - np.searchsorted(of_run[by_run], of_run[by_run])
        found[of_run[by_run], place] = own[by_run]
        return found

    return run


def descending(go_on: GoOn = next_measurements) -> Callable[[Curator, Schema, Budget], Measurement]:
    """Mechanism that descends a tree by a rule `go_on`: the product's, or a broken one."""

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


def descent_fault(run: Run) -> str | None:
    """First complaint of the replay audit of a descent; access past the recorder is reported last."""
    complaints = descent_finding("descent", WHOLE, run).complaints
    return min((one.what for one in complaints), key=lambda what: ("reached for" in what, what), default=None)
