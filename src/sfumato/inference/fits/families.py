"""Every family of fits, by the word that a file knows it by: a new one is a file beside this one and a line here."""

from __future__ import annotations

from sfumato.inference.fits.base import Fit
from sfumato.inference.fits.linear import LinearFit
from sfumato.inference.fits.partition import PartitionFit
from sfumato.inference.fits.scaled_shape import ScaledShape
from sfumato.inference.fits.shrinkage import ShrinkageFit
from sfumato.inference.fits.tree import TreeFit

FAMILIES: dict[str, type[Fit]] = {
    LinearFit.family: LinearFit,
    PartitionFit.family: PartitionFit,
    ShrinkageFit.family: ShrinkageFit,
    ScaledShape.family: ScaledShape,
    TreeFit.family: TreeFit,
}
