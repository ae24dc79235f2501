"""First-stage measurements: choice of one-way marginals, total and blocks, and of their shares of the budget.

A tree splits attributes one after the other, so a value of an attribute that is split late is the sum of very many
nodes; where cells are measured, every value is the sum of very many cells. The standard error of such a sum on a full
table is known in advance, and so is that of a marginal measured by itself with a share p of the budget, which makes
everything else worse by 1 / (1 - p) (pure) or its square root. The share and the set of attributes maximise

    mean over attributes of log(error by the fit alone / error with the marginal)  -  OTHERS * log(loss elsewhere)

Everything here depends on public facts alone (domain, budget), and the noisy counts are the only access to data.
`Shares` divides the budget of the count, `Counted` updates a fit with the counts (models/calibration/adjusted_fit.py).
Own method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.arrays import Flags
from sfumato.domain import Domain, Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.models.calibration.adjusted_fit import (
    MOST_NUMBERS,
    MOST_RUNS,
    Along,
    MovedFit,
    Moving,
    Spreading,
    steadied,
)
from sfumato.models.calibration.block_counts import MOST_BLOCKS, BlockCounts, Blocks
from sfumato.models.calibration.fit import BLOCKS, ONE_WAY, TWO_RANGES, Brought
from sfumato.models.calibration.misfits_by_kind import part_of_budget
from sfumato.models.tree.descent import error_if_full, geometry_of
from sfumato.queries import Identity, Workload
from sfumato.queries.kron import over

FEWEST = 3  # attributes: with two, a value is a line of the table, which a tree knows well
STEPS, FINEST = 10, 40  # parts of the budget that are tried: up to 10 / 40
FEW_NUMBERS = 2**22  # cells times runs, where covariances with all cells take longer than over a tree
FOR_ALL = Fraction(1, 20)  # of the budget, for all rows, where cells are measured and more than its square are
FOR_BLOCKS = Fraction(1, 10)  # of the budget, for a coarse grid
FEWEST_RUNS, MOST_CUT, OF_CELLS = 3, 3, 16  # of an attribute, attributes of a grid, cells for each block
OTHERS = 3.0  # kinds of question that a part for margins makes worse: pairs, larger sets and cells


@dataclass(frozen=True)
class MarginsFirst:
    """One-way marginals to measure before everything else.

    along: the attributes, and into how many runs of values each is cut; None to measure no marginals.
    part: share of the budget spent on them.
    """

    domain: Domain
    along: Along | None = None
    part: Fraction = Fraction(0)

    @property
    def tells_all(self) -> bool:
        """Whether every single value of every attribute is counted."""
        every = {axis: length for axis, length in enumerate(self.domain.shape) if length > 1}
        return self.along is not None and dict(zip(self.along.axes, self.along.runs, strict=True)) == every

    @property
    def known(self) -> frozenset[int]:
        """Kinds of query whose errors follow from these marginals, so that no budget is spent on measuring them."""
        return frozenset({ONE_WAY} if self.tells_all else ())

    def measure(self, curator: Curator, budget: Budget | None) -> list[Measurement]:
        """Measure noisy counts of each attribute's runs, with even shares of the budget.

        A row lies in one run of each attribute, so the charges of the attributes add up.
        """
        if self.along is None or budget is None:
            return []
        measurements = []
        for number, share in enumerate(budget.evenly(len(self.along.runs))):
            runs = curator.reduce(Partition(self.domain, self.along.labels(number)))
            measurements.append(runs.measure(Identity(self.along.runs[number]), share))
        return measurements


@lru_cache(maxsize=4)  # a plan, and the release that follows it
def margins_beside_tree(domain: Domain, tree: BinaryTree, *, pure: bool) -> MarginsFirst:
    """One-way marginals worth measuring before a tree is, and their share of the budget; reads no data."""
    return _worth_measuring(domain, lambda axis: _error_of_tree(domain, axis, tree, pure=pure), pure=pure)


def margins_beside_cells(domain: Domain, *, pure: bool) -> MarginsFirst:
    """One-way marginals worth measuring where all cells, or small buckets, are measured; reads no data.

    A value then carries the noise of all its cells: sqrt(cells / values) standard deviations.
    """
    shape, cells = domain.shape, float(domain.size)
    return _worth_measuring(domain, lambda axis: (cells / shape[axis]) ** 0.5, pure=pure, numbers=FEW_NUMBERS)


def part_for_all_rows(domain: Domain) -> Fraction:
    """Share of the budget for counting all rows, where cells are measured; 0 where it would not gain."""
    return FOR_ALL if FOR_ALL**2 * domain.size > 1 else Fraction(0)


def part_for_blocks(domain: Domain, *, seen: bool = False) -> Fraction:
    """Share of the budget for counting a coarse grid of blocks; 0 for none.

    seen: every cell was measured; then blocks gain nothing in two attributes, where a range has few regions.
    """
    return FOR_BLOCKS if blocks_of(domain) and len(domain.shape) >= (FEWEST if seen else 2) else Fraction(0)


def blocks_of(domain: Domain, possible: Flags | None = None) -> Blocks | None:
    """Coarse grid over the longest ordered attributes, at most three; None where blocks would be hardly coarser.

    possible: flags of the cells that are no structural zeros, (cells,); None: all.
    """
    able = [index for index, axis in enumerate(domain) if axis.ordered and axis.size >= FEWEST_RUNS]
    axes = sorted(sorted(able, key=lambda index: -domain.shape[index])[:MOST_CUT])
    if not axes:
        return None
    runs = _runs_of_blocks(domain, axes)
    return Blocks(domain, tuple(sorted(runs.items())), possible) if min(runs.values()) >= FEWEST_RUNS else None


def blocks_of_all(domain: Domain, possible: Flags | None = None) -> Blocks | None:
    """Coarse grid over all attributes, the shortest in single values; None where it would have one block.

    possible: see `blocks_of`.
    """
    runs = _runs_of_blocks(domain, range(len(domain.shape)))
    cut = tuple((axis, number) for axis, number in sorted(runs.items()) if number > 1)
    return Blocks(domain, cut, possible) if cut else None


def _runs_of_blocks(domain: Domain, axes: Sequence[int]) -> dict[int, int]:
    """Number of runs along each attribute of a grid of blocks, nearly equal over attributes."""
    most, runs = min(MOST_BLOCKS, domain.size // OF_CELLS, FEW_NUMBERS // domain.size), dict[int, int]()
    for left, axis in zip(range(len(axes), 0, -1), sorted(axes, key=lambda index: domain.shape[index]), strict=True):
        runs[axis] = min(domain.shape[axis], int(most ** (1.0 / left) + 1e-9), MOST_RUNS)
        most //= max(runs[axis], 1)
    return runs


def measure_blocks(curator: Curator, blocks: Blocks, budget: Budget) -> Measurement:
    """Noisy counts of the blocks of a grid."""
    return curator.reduce(Partition(curator.domain, blocks.labels)).measure(Identity(blocks.number), budget)


def _worth_measuring(
    domain: Domain, error: Callable[[int], float], *, pure: bool, numbers: int = MOST_NUMBERS
) -> MarginsFirst:
    """Maximise the expected gain over the share of the budget and the number of attributes measured.

    Attributes with the largest error come first. error: of a count of one value of an attribute on a full table, in
    standard deviations of the noise that the whole budget buys. numbers: limit on cells times runs.
    """
    able = [axis for axis, length in enumerate(domain.shape) if length > 1]
    if len(able) < FEWEST:
        return MarginsFirst(domain)
    errors = {axis: error(axis) for axis in able}
    worst_first = sorted(able, key=lambda axis: -errors[axis])
    best, part, chosen = 0.0, Fraction(0), 0
    for share in (Fraction(step, FINEST) for step in range(1, STEPS + 1)):
        lost = -float(np.log(1.0 - float(share))) * (1.0 if pure else 0.5)
        for number in range(1, len(able) + 1):
            gains = [_gain(errors[axis], number, float(share), pure=pure) for axis in worst_first[:number]]
            gain = (sum(gains) - lost * (len(able) - number)) / len(able)
            if gain - OTHERS * lost > best:
                best, part, chosen = gain - OTHERS * lost, share, number
    axes = sorted(worst_first[:chosen])
    runs = _runs(domain, axes, numbers)
    return MarginsFirst(domain, Along(domain, tuple(axes), runs), part) if runs else MarginsFirst(domain)


def shared_out(budget: Budget, errors: Fraction, *firsts: Fraction) -> tuple[Budget, Budget, list[Budget | None]]:
    """Split a budget: for the fit, for measuring errors, and for each first-stage share (None where that is 0)."""
    wanted = [part for part in firsts if part]
    most, last, *stages = budget.split(1 - errors - sum(wanted), errors, *wanted)
    budgets = iter(stages)
    return most, last, [next(budgets) if part else None for part in firsts]


def _gain(error: float, attributes: int, part: float, *, pure: bool) -> float:
    """Log ratio of the errors of an attribute's counts by the fit alone and with a marginal of its own.

    The two are combined by inverse variance. error: of the fit with the whole budget, in standard deviations of the
    noise that the whole budget buys. part: the share of the budget for the marginals of so many attributes.
    """
    own = attributes / part if pure else (attributes / part) ** 0.5
    tree = error / (1.0 - part) if pure else error / (1.0 - part) ** 0.5
    return float(np.log(tree) + 0.5 * np.log(1.0 / tree**2 + 1.0 / own**2))


def _error_of_tree(domain: Domain, axis: int, tree: BinaryTree, *, pure: bool) -> float:
    """Standard error of a tree's count of one value on a full table, in units of the whole budget's noise."""
    name = domain.axes[axis].name
    values = Workload((name,), (over(domain, {name: Identity(domain.shape[axis])}),))
    return error_if_full(tree, geometry_of(values, tree), 1.0, pure=pure)


def _runs(domain: Domain, axes: list[int], numbers: int) -> tuple[int, ...]:
    """Number of runs in which each attribute is counted; empty where there are too many cells for any."""
    most = numbers // domain.size // max(1, len(axes))
    if not axes or most < 2:
        return ()
    return tuple(min(domain.shape[axis], MOST_RUNS, most) for axis in axes)


@dataclass(frozen=True)
class Shares:
    """Division of the count's budget; public.

    known: kinds of query whose errors need not be measured. most: for the fit; errors: for calibration; margins,
    all_rows, blocks: for the first stage.
    """

    first: MarginsFirst
    known: frozenset[int]
    most: Budget
    errors: Budget
    margins: Budget | None
    all_rows: Budget | None = None
    blocks: Budget | None = None

    @classmethod
    def beside_tree(cls, domain: Domain, tree: BinaryTree, budget: Budget) -> Shares:
        """Division of the budget where a tree is measured; its root is the number of all rows."""
        first = margins_beside_tree(domain, tree, pure=budget.is_pure)
        known = first.known | {BLOCKS}  # a tree measures these
        most, errors, (margins,) = shared_out(budget, part_of_budget(domain, known), first.part)
        return cls(first, known, most, errors, margins)

    @classmethod
    def beside_cells(cls, domain: Domain, budget: Budget, *, seen: bool = True) -> Shares:
        """Division of the budget where all cells, or buckets chosen without data (seen=False), are measured."""
        first = margins_beside_cells(domain, pure=budget.is_pure)
        known = first.known | {TWO_RANGES}  # blocks of all cells show these
        whole = part_for_all_rows(domain) if seen else Fraction(0)
        parts = part_of_budget(domain, known, seen=seen), first.part, whole, part_for_blocks(domain, seen=seen)
        most, errors, (margins, all_rows, blocks) = shared_out(budget, *parts)
        return cls(first, known, most, errors, margins, all_rows, blocks)

    def measure(self, curator: Curator, possible: Flags | None = None) -> Counted:
        """Measure all first-stage counts; possible: flags of the cells that are no structural zeros, (cells,)."""
        margins = self.first.measure(curator, self.margins)
        whole = None
        if self.all_rows is not None:
            together = curator.reduce(Partition(curator.domain, np.zeros(curator.domain.size, dtype=np.int64)))
            whole = together.measure(Identity(1), self.all_rows)
        return Counted(self.first, margins, whole, _blocks(curator, self.blocks, possible))


@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy first-stage counts: one-way marginals, total and blocks."""

    first: MarginsFirst
    margins: list[Measurement]
    whole: Measurement | None
    blocks: tuple[Blocks, Measurement] | None = None

    def bring(self, fit: Moving) -> Brought:
        """Update a fit that can be moved with the one-way marginals, if there are any."""
        return Brought(fit) if self.first.along is None else Brought(*steadied(fit, self.first.along, self.margins))

    def bring_all(self, fit: Spreading) -> Brought:
        """Update any fit with the total, then with the one-way marginals, then with the blocks."""
        if self.whole is None and self.first.along is None and self.blocks is None:
            return Brought(fit)
        moved, along = MovedFit.brought(fit, self.whole), None
        if self.first.along is not None:
            moved, along = steadied(moved, self.first.along, self.margins)
        if self.blocks is None:
            return Brought(moved, along)
        return Brought(*BlockCounts.brought(moved, along, *self.blocks))


def counted_beside_shape(curator: Curator, budget: Budget, possible: Flags | None = None) -> tuple[Counted, Budget]:
    """Measure first-stage counts beside a shape learned from queries; return them and the budget left."""
    first = margins_beside_cells(curator.domain, pure=budget.is_pure)
    wanted = first.part, part_for_blocks(curator.domain)
    most, *shares = budget.split(1 - sum(wanted), *(part for part in wanted if part))
    margins, blocks = (shares.pop(0) if part else None for part in wanted)
    return Counted(first, first.measure(curator, margins), None, _blocks(curator, blocks, possible)), most


def _blocks(curator: Curator, budget: Budget | None, possible: Flags | None) -> tuple[Blocks, Measurement] | None:
    """Coarse grid and its noisy counts; None without a budget or a grid."""
    blocks = blocks_of(curator.domain, possible)
    return None if blocks is None or budget is None else (blocks, measure_blocks(curator, blocks, budget))
