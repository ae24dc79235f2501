"""Fits with measured errors, by what is inside: a tree, buckets taken as even, cells and buckets, a learned shape."""

from __future__ import annotations

from typing import Self

from sfumato.answers.fit import FitReader
from sfumato.errors import QueryError
from sfumato.models.calibration.adjusted_fit import MovedFit
from sfumato.models.calibration.fit import MeasuredFit
from sfumato.models.partition.fit import PartitionFit
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.models.tree.fit import TreeFit
from sfumato.models.weights.fit import ScaledShape


class MeasuredTree(MeasuredFit):
    """A posterior over a tree."""

    family = "measured-tree"
    room = TreeFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        return cls.read_around(file, TreeFit.read(file))


class MeasuredShape(MeasuredFit):
    """A learned shape; of its errors the total's noise is known, and everything else was measured."""

    family = "measured-shape"
    room = ScaledShape.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = ScaledShape.read(file)
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


class MeasuredShrinkage(MeasuredFit):
    """Noisy cells and noisy totals of buckets; the noise is known, what is left out by evening out was measured."""

    family = "measured-nested"
    room = ShrinkageFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = ShrinkageFit.read(file, together=False)
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


class MeasuredPartition(MeasuredFit):
    """Totals of buckets, divided evenly; how uneven they are was measured, and then the errors of all of it."""

    family = "measured-regional"
    room = PartitionFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = PartitionFit.read(file, file.domain)
        if not isinstance(inner.totals, TreeFit):
            raise QueryError("buckets whose errors were measured have totals over a tree")
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)
