"""Fuse releases by `sfumato` of one table: the counts of both descents in one tree, and then its one posterior.

Where each descent went was decided by its own noise alone, and given that, its counts carry fresh noise; noise of two
releases is independent. So counts of the same node are averaged by the inverse of their variances, all others stand
beside them, and the posterior is that of one tree (models/tree/fit.py), updated with the one-way marginals of all.

What a release measured of its errors is about its own estimate: factors on what its fit claims, by kind of query. A fit
to more counts claims less and misjudges itself as much, so the fused fit takes the mean of the squared factors, by
precision; mean errors in rows are upper bounds, as nobody measured those of the fused estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import ReleaseFileError
from sfumato.measurement import Measurement, as_one
from sfumato.models.calibration.adjusted_fit import steadied
from sfumato.models.calibration.families import MeasuredTree
from sfumato.models.calibration.fit import Brought, Scales
from sfumato.models.tree.fit import TreeFit, fit_tree
from sfumato.queries import Ranges, Stack
from sfumato.releases.contents.cube import Cube

MEASURES = (
    "sums of measures by sfumato lean on one release's counts, and cannot be fused; combine releases of a schema "
    "without measures, or ones by hierarchical"
)


def fuse_trees(cubes: Sequence[Cube]) -> Cube:
    """Cube of all releases by `sfumato` of one table."""
    fits = [fit for cube in cubes for fit in cube.fits if isinstance(fit, MeasuredTree)]
    if any(len(cube.fits) > 1 for cube in cubes):
        raise ReleaseFileError(f"these releases cannot be combined: {MEASURES}")
    if len({type(_tree(fit).measurement.noises[0]) for fit in fits}) > 1:
        raise ReleaseFileError(
            "a pure release by sfumato and one with a delta cannot be fused, as a tree takes noise of one kind; "
            "combine those of either kind"
        )
    fits.sort(
        key=lambda fit: float(_tree(fit).measurement.design.sizes[0])
    )  # guaranteed intervals begin with the first
    return Cube(cubes[0].schema, (_fused(fits),))


def _tree(fit: MeasuredTree) -> TreeFit:
    """Posterior of a tree inside its calibration."""
    if not isinstance(fit.inner, TreeFit):
        raise ReleaseFileError("a release by sfumato holds a tree, and this one does not")
    return fit.inner


def _fused(fits: Sequence[MeasuredTree]) -> MeasuredTree:
    """Posterior from the counts of all releases, with the mean of their factors."""
    descents, tree = [_tree(fit).measurement for fit in fits], _tree(fits[0]).tree
    ranges = [one.queries for one in descents if isinstance(one.queries, Ranges)]
    lows, highs = (np.concatenate([getattr(each, end) for each in ranges]) for end in ("lows", "highs"))
    fused = fit_tree(as_one(descents, Ranges(len(tree.order), lows, highs)), tree, descents=descents)
    brought = Brought(fused)
    along = [fit.steadied for fit in fits if fit.steadied is not None]
    if along:
        first = along[0].along
        if len(along) < len(fits) or any((one.along.axes, one.along.runs) != (first.axes, first.runs) for one in along):
            raise ReleaseFileError(
                "these releases counted different attributes beside their trees, and cannot be fused"
            )
        counts = [_repeated([one.measured[number] for one in along]) for number in range(len(first.runs))]
        brought = Brought(*steadied(fused, first, counts))
    weights = np.array([1.0 / float(one.design.sizes[0]) for one in descents])
    scales = mean_scales([fit.scales for fit in fits], weights / weights.sum())
    return MeasuredTree.of_brought(brought, fits[0].domain, scales, tuple(one for fit in fits for one in fit.misfits))


def _repeated(measured: Sequence[Measurement]) -> Measurement:
    """The same counts in several releases, one after the other."""
    return as_one(measured, Stack(*(one.queries for one in measured)))


def mean_scales(every: Sequence[Scales], weights: Floats) -> Scales:
    """Error factors by the kinds and groups of the first release: root mean square of those of all, by weight.

    Groups of cells end at other numbers of rows in other releases; each is asked for the middle of a group.
    """
    first = every[0]
    squares, errors = np.zeros(len(first.kinds)), np.zeros(len(first.kinds))
    for place, (kind, end) in enumerate(zip(first.kinds.tolist(), first.ends.tolist(), strict=True)):
        before = first.ends[place - 1] if place and first.kinds[place - 1] == kind else min(0.0, end)
        middle, weight = (before + end) / 2.0, 0.0
        for scales, share in zip(every, weights.tolist(), strict=True):
            own = np.flatnonzero(scales.kinds == kind)
            if len(own):
                at = own[min(int(np.searchsorted(scales.ends[own], middle)), len(own) - 1)]
                squares[place] += share * scales.factors[at] ** 2
                errors[place] = max(errors[place], abs(float(scales.errors[at])))
                weight += share
        squares[place] /= weight
    return Scales(first.kinds, first.ends, np.sqrt(squares), -errors)
