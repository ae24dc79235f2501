"""A fit of every kind, made by hand over one small table, and releases that hold them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from curators import curator_of

from sfumato.answers.along_time import RunningCells
from sfumato.answers.fit import Fit
from sfumato.domain import Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import Misfit
from sfumato.measurement import Gaussian, Measurement, Trail
from sfumato.models.calibration.adjusted_fit import Along, MovedFit, steadied
from sfumato.models.calibration.block_counts import BlockCounts, Blocks
from sfumato.models.calibration.fit import (
    Brought,
    MeasuredFit,
    MeasuredPartition,
    MeasuredShape,
    MeasuredShrinkage,
    MeasuredTree,
)
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.linear.fit import LinearFit, SolvedFit, SummedFit
from sfumato.models.partition.buckets import Halvings
from sfumato.models.partition.coarse_contrasts import CoarseFit
from sfumato.models.partition.fit import PartitionFit
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.models.sums.fit import AveragesFit
from sfumato.models.sums.posterior import Effects, Table
from sfumato.models.tree.fit import TreeFit, fit_tree
from sfumato.models.weights.fit import ScaledShape
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Identity, Kron, Ranges, Stack, Total, Tree
from sfumato.queries.ranges import GRID
from sfumato.releases.contents.cube import Cube
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": {"column": "person_id", "contributions": 2},
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 6},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
        "measures": {"charge": {"lower": 0, "upper": 100, "step": "0.5", "missing": "drop"}},
    }
)
SIZE = SCHEMA.domain.size
LABELS = np.array([0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2])
KINDS = (
    "linear",
    "solved",
    "summed",
    "even",
    "tree",
    "nested",
    "shape",
    "leaves",
    "averages",
    "running",
    "measured",
    "steadied",
    "measured buckets",
    "measured cells",
    "measured coarse",
    "measured shape",
    "measured cells along",
    "measured coarse along",
    "measured buckets along",
    "measured shape along",
    "measured cells blocks",
    "measured coarse blocks",
    "measured buckets blocks",
)


def example(kind: str) -> Fit:
    """A fit of the count: squares (kept, or solved), buckets (even, in a tree, halved), a shape, a tree, averages.

    The tree also with errors that were measured, and brought to counts along both attributes.
    """
    if kind in ("measured", "steadied"):
        return with_measured_errors(along=kind == "steadied")
    if kind.startswith("measured "):
        return measured(kind.removeprefix("measured "))
    curator = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=4)
    half = Budget.pure("1/2")
    totals = curator.reduce(Partition(SCHEMA.domain, LABELS)).measure(Tree(3, 2), half)
    misfit = curator.measure_misfit(Misfit(Identity(SIZE), np.arange(SIZE)), half, groups=LABELS)
    total = curator.measure(Total(SIZE), half)
    if kind == "linear":
        return LinearFit.of_answers(curator.measure(Identity(SIZE), half))
    if kind == "solved":
        return SolvedFit.of_answers(curator.measure(Kron(Tree(7, 2), Identity(2)), half))
    if kind == "summed":
        return SummedFit.of_answers([curator.measure(Identity(SIZE), half), curator.measure(Tree(SIZE, 2), half)])
    if kind == "shape":
        whole = curator.reduce(Partition(SCHEMA.domain, np.zeros(SIZE, dtype=np.int64))).measure(Identity(1), half)
        return ScaledShape.like(LinearFit.of_answers(whole), np.arange(1.0, SIZE + 1)).with_spread(7.25, misfit)
    if kind == "running":
        answers = GRID * 7 * np.arange(SIZE) + np.arange(-7, SIZE - 7) * 511
        noisy = Measurement("count", Identity(SIZE), answers, (Gaussian(Fraction(GRID**2 * 90)),))
        return RunningCells(noisy, Trail("0123456789abcdef" * 2, np.array([-0.125, -0.5, 1.0])))
    if kind == "averages":
        sides = SCHEMA.domain.shape
        by_sex, cells = Table(sides, (1, 2)), Table(sides, sides)
        asked, which = Stack(by_sex.queries(), cells.queries()), np.repeat([0, 1], [2, SIZE])
        sums = curator.measure(asked, scales=[Fraction(8), Fraction(20)], which=which)
        effects = Effects((Table(sides, (1, 1)), by_sex), (1 / 3, 1 / 64), 1 / 128, 1 / 5, 3.0)
        return AveragesFit.fitted(sums, sides, np.arange(SIZE) * 6.5, 1, effects)
    if kind == "nested":
        cells = curator.measure(Identity(SIZE), half)
        each = LinearFit.of_answers(curator.reduce(Partition(SCHEMA.domain, LABELS)).measure(Identity(3), half))
        order = np.array([4, 3, 2, 1, 0, 6, 5, 7, 8, 13, 12, 9, 10, 11])
        families = len(Halvings.of(np.bincount(LABELS)).above)
        return ShrinkageFit(
            LABELS, order, each, cells, np.array([0.5, 0.25, 0]), 1 / np.arange(1, families + 1), np.ones(families)
        )
    if kind == "tree":
        asked = Ranges(3, [0, 0, 1, 2], [2, 0, 1, 2])
        tree = curator.reduce(Partition(SCHEMA.domain, LABELS)).measure(asked, half)
        totals = fit_tree(tree, BinaryTree.line(3), np.bincount(LABELS))
        return PartitionFit(LABELS, totals, np.array([3.5, 0, 1]), besides=(misfit,))
    if kind == "leaves":
        over = BinaryTree.over(SCHEMA.domain)
        along = curator.reduce(Partition(SCHEMA.domain, np.argsort(over.order)))
        parts = Ranges(SIZE, [0, 0, 7, 7, 3], [SIZE - 1, 6, 13, 13, 4])  # the second half twice
        sizes = [Fraction(8), Fraction(20)]
        looks = along.measure(parts, scales=sizes, which=np.array([0, 0, 0, 1, 1]))
        fit = fit_tree(looks, over)
        return replace(fit, leanings=np.arange(len(fit.leanings)) / 8.0 - 1.0)  # of either sign
    return PartitionFit(LABELS, LinearFit.of_answers(totals), np.array([3.5, 0, 2**40 / 7]), (misfit, total))


def with_measured_errors(*, along: bool) -> MeasuredTree:
    curator, tree, half = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=4), example("leaves"), Budget.pure("1/2")
    assert isinstance(tree, TreeFit)
    steady = None
    if along:
        runs = Along(SCHEMA.domain, (0, 1), (3, 2))
        parts = [curator.reduce(Partition(SCHEMA.domain, runs.labels(number))) for number in (0, 1)]
        tree, steady = steadied(tree, runs, [parts[0].measure(Identity(3), half), parts[1].measure(Identity(2), half)])
    scales, misfits = measure_errors(curator, Brought(tree, steady), half, Budget.pure(4))
    return MeasuredTree(tree, SCHEMA.domain, scales, misfits, steady)


def measured(kind: str) -> MeasuredFit:
    """A fit that is no tree, with errors that were measured; `along`: brought to all rows, or to both attributes.

    `blocks`: brought to counts of these, too.
    """
    curator = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=4)
    if kind.endswith(" blocks"):
        return with_blocks(brought(measured(kind.removesuffix(" blocks")), curator), curator)
    if kind.endswith(" along"):
        return brought(measured(kind.removesuffix(" along")), curator)
    if kind == "shape":
        shape = example("shape")
        assert isinstance(shape, ScaledShape)
        errors = measure_errors(curator, Brought(shape), Budget.pure("1/2"), Budget.pure(4), seen=False)
        return MeasuredShape(shape, SCHEMA.domain, *errors)
    if kind in ("cells", "coarse"):
        nested = example("nested")
        assert isinstance(nested, ShrinkageFit)
        fit = replace(nested, together=False)
        if kind == "coarse":
            fit = CoarseFit.of_residuals(fit, Blocks(SCHEMA.domain, ((0, 3), (1, 2))))
        errors = measure_errors(curator, Brought(fit), Budget.pure("1/2"), Budget.pure(4))
        return MeasuredShrinkage(fit, SCHEMA.domain, *errors)
    buckets = example("tree")
    assert isinstance(buckets, PartitionFit)
    inner = replace(buckets, over=SCHEMA.domain)
    scales, misfits = measure_errors(curator, Brought(inner), Budget.pure("1/2"), Budget.pure(4), seen=False)
    return MeasuredPartition(inner, SCHEMA.domain, scales, misfits)


def brought(fit: MeasuredFit, curator: Curator) -> MeasuredFit:
    """Cells, which do not know all rows well, to these and to both attributes; others to attributes."""
    quarter, runs = Budget.pure("1/4"), Along(SCHEMA.domain, (0, 1), (3, 2))
    together = curator.reduce(Partition(SCHEMA.domain, np.zeros(SIZE, dtype=np.int64)))
    whole = together.measure(Identity(1), quarter) if isinstance(fit, MeasuredShrinkage) else None
    parts = [curator.reduce(Partition(SCHEMA.domain, runs.labels(number))) for number in (0, 1)]
    margins = [parts[0].measure(Identity(3), quarter), parts[1].measure(Identity(2), quarter)]
    moved, steady = steadied(MovedFit.brought(fit.inner, whole), runs, margins)
    return replace(fit, inner=moved, steadied=steady)


def with_blocks(fit: MeasuredFit, curator: Curator) -> MeasuredFit:
    """A fit that can be moved, brought to blocks of two or three ages and each sex."""
    assert isinstance(fit.inner, MovedFit)
    blocks = Blocks(SCHEMA.domain, ((0, 3), (1, 2)))
    counted = curator.reduce(Partition(SCHEMA.domain, blocks.labels)).measure(Identity(6), Budget.pure("1/4"))
    inner, steady, counts = BlockCounts.brought(fit.inner, fit.steadied, blocks, counted)
    return replace(fit, inner=inner, steadied=steady, blocks=counts)


def release_with(fit: Fit) -> Release:
    """A release whose count is a fit, beside a measure with noise on every cell."""
    budget = Budget.pure("1/2")
    sums = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=1, sums={"charge": np.arange(SIZE) - 5})
    charge = LinearFit.of_answers(sums.measure(Identity(SIZE), budget, of="charge"))
    cube = Cube(SCHEMA, fits=(fit, charge))
    return Release(cube, "hierarchical", describe_guarantee(Budget.pure(1), SCHEMA, None), False, {"entry": 1})
