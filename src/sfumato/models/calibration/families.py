"""File forms of calibrated fits, one per inner model: tree, partition, shrinkage, learned shape.

Each class reads its inner fit from a file and wraps it in a `MeasuredFit` (models/calibration/fit.py).
"""

from __future__ import annotations

from typing import Self

from sfumato.answers.fit import FitReader
from sfumato.errors import QueryError
from sfumato.models.calibration.adjusted_fit import MovedFit
from sfumato.models.calibration.fit import MeasuredFit
from sfumato.models.partition.coarse_contrasts import CoarseFit
from sfumato.models.partition.fit import PartitionFit
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.models.tree.fit import TreeFit
from sfumato.models.weights.fit import ScaledShape


class MeasuredTree(MeasuredFit):
    """Calibrated posterior of a tree of counts (`TreeFit`)."""

    family = "measured-tree"
    room = TreeFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        return cls.read_around(file, TreeFit.read(file))


class MeasuredShape(MeasuredFit):
    """Calibrated learned shape (`ScaledShape`).

    The noise of its total is known; the size of every other error was measured.
    """

    family = "measured-shape"
    room = ScaledShape.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = ScaledShape.read(file)
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


class MeasuredShrinkage(MeasuredFit):
    """Calibrated shrinkage of noisy cells towards noisy bucket totals (`ShrinkageFit`).

    The noise is known; the bias of the shrinkage was measured.
    """

    family = "measured-nested"
    room = ShrinkageFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        found = ShrinkageFit.read(file, together=False)
        inner = CoarseFit.read_around(file, found) or found
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


class MeasuredPartition(MeasuredFit):
    """Calibrated partition estimate (`PartitionFit`): bucket totals over a tree, divided evenly among cells.

    The variance within buckets was measured first, and then the error of the whole estimate.
    """

    family = "measured-regional"
    room = PartitionFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = PartitionFit.read(file, file.domain)
        if not isinstance(inner.totals, TreeFit):
            raise QueryError("buckets whose errors were measured have totals over a tree")
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)
