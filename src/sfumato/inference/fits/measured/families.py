"""Fits with measured errors, other than trees: buckets taken as even, cells and buckets together, a learned shape."""

from __future__ import annotations

from sfumato.inference.by_kind.scales import Scales
from sfumato.inference.fits.base import FitReader
from sfumato.inference.fits.measured.fit import MeasuredFit
from sfumato.inference.fits.partition import PartitionFit
from sfumato.inference.fits.scaled_shape import ScaledShape
from sfumato.inference.fits.shrinkage import ShrinkageFit


class MeasuredShape(MeasuredFit):
    """A learned shape; of its errors the total's noise is known, and everything else was measured."""

    family = "measured-shape"
    room = ScaledShape.room

    @classmethod
    def read(cls, file: FitReader) -> MeasuredShape:
        inner = ScaledShape.read(file)
        return cls(inner, file.domain, Scales.read(file), file.others())


class MeasuredShrinkage(MeasuredFit):
    """Noisy cells and noisy totals of buckets; the noise is known, what is left out by evening out was measured."""

    family = "measured-nested"
    room = ShrinkageFit.room

    @classmethod
    def read(cls, file: FitReader) -> MeasuredShrinkage:
        inner = ShrinkageFit.read(file, together=False)
        return cls(inner, file.domain, Scales.read(file), file.others())


class MeasuredPartition(MeasuredFit):
    """Totals of buckets, divided evenly; what was measured of their unevenness comes before what is of other errors."""

    family = "measured-regional"
    room = PartitionFit.room

    @classmethod
    def read(cls, file: FitReader) -> MeasuredPartition:
        inner = PartitionFit.read(file, file.domain)
        return cls(inner, file.domain, Scales.read(file), ())
