"""Every family of fits, by the word that a file knows it by: a new one is a file beside this one and a line here.

A family is imported when it is looked up: most releases have fits of one family.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module

from sfumato.answers.fit import Fit

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
        "averages": "sfumato.models.sums.fit.AveragesFit",
        "linear": "sfumato.models.linear.fit.LinearFit",
        "regional": "sfumato.models.partition.fit.PartitionFit",
        "nested": "sfumato.models.partition.shrinkage.ShrinkageFit",
        "solved": "sfumato.models.linear.fit.SolvedFit",
        "shaped": "sfumato.models.weights.fit.ScaledShape",
        "measured-nested": "sfumato.models.calibration.families.MeasuredShrinkage",
        "measured-regional": "sfumato.models.calibration.families.MeasuredPartition",
        "measured-shape": "sfumato.models.calibration.families.MeasuredShape",
        "measured-tree": "sfumato.models.calibration.families.MeasuredTree",
        "tree": "sfumato.models.tree.fit.TreeFit",
    }
)
