"""Every family of fits, by the word that a file knows it by: a new one is a file beside this one and a line here.

A family is imported when it is looked up: most releases have fits of one family.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module

from sfumato.inference.fits.base import Fit

WITHOUT_ESTIMATE = frozenset({"solved"})  # families of which a file keeps measurements alone


class _Families(UserDict[str, type[Fit] | str]):
    """Classes, or where they live."""

    def __getitem__(self, family: str) -> type[Fit]:
        found = self.data[family]
        if isinstance(found, str):
            module, _, name = found.rpartition(".")
            found = self.data[family] = getattr(import_module(module), name)
        assert not isinstance(found, str)  # noqa: S101 (for the type checker)
        return found


FAMILIES = _Families(
    {
        "averages": "sfumato.inference.fits.averages.AveragesFit",
        "linear": "sfumato.inference.fits.linear.LinearFit",
        "regional": "sfumato.inference.fits.partition.PartitionFit",
        "nested": "sfumato.inference.fits.shrinkage.ShrinkageFit",
        "solved": "sfumato.inference.fits.solved.SolvedFit",
        "shaped": "sfumato.inference.fits.scaled_shape.ScaledShape",
        "measured-nested": "sfumato.inference.fits.measured.families.MeasuredShrinkage",
        "measured-regional": "sfumato.inference.fits.measured.families.MeasuredPartition",
        "measured-shape": "sfumato.inference.fits.measured.families.MeasuredShape",
        "measured-tree": "sfumato.inference.fits.measured.families.MeasuredTree",
        "tree": "sfumato.inference.fits.tree.TreeFit",
    }
)
