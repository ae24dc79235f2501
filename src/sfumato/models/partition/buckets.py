"""What fits over buckets share: cells that were put together, and errors that may run through all of their buckets."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.answers.fit import ByModel, Fit, Inside, Sets
from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError


class OverBuckets(ByModel):
    """A fit whose cells lie in buckets, of which the totals were fitted.

    labels: the bucket of each cell, numbered from 0. totals: the fit of the buckets' totals.
    """

    labels: Codes
    totals: Fit

    @property
    def of(self) -> str:
        return self.totals.of

    @cached_property
    def sizes(self) -> Codes:
        """The number of cells in each bucket."""
        return np.bincount(self.labels)

    def means(self, columns: Floats) -> Floats:
        """Means over the cells of each bucket."""
        return np.stack([np.bincount(self.labels, weights=one) for one in columns.T], axis=1) / self.sizes[:, None]

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.totals.measured_inside(self.buckets_inside(within))

    def buckets_inside(self, within: Sets) -> Sets:
        """Which buckets lie wholly inside each set of cells."""
        outside = [np.bincount(self.labels, weights=~one) for one in within.T]
        return np.asarray(np.stack(outside, axis=1) == 0.0)

    def _check_labels(self) -> None:
        """Freeze the labels, looked at before anything is counted by them: a stranger's can be as large as it likes."""
        labels, buckets = np.array(self.labels, dtype=np.int64), len(self.totals.estimate)
        within = labels.size > 0 and labels.min() >= 0 and labels.max() < buckets
        if not within or not np.bincount(labels, minlength=buckets).all():
            raise QueryError(f"{buckets} buckets need labels from 0 to {buckets - 1}, each at least once")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)


def erring_together(apart: Floats, together: Floats) -> Floats:
    """The covariance of sums whose parts miss the same way, as where one slope runs through all that a query cuts.

    apart: the covariance if all parts erred independently. together: the variance of each sum if they do not. With less
    than full correlation, intervals for boxes of a smooth table of several attributes held the truth in too few
    releases.
    """
    alone = np.diagonal(apart)
    wider = np.sqrt(np.divide(together, alone, out=np.ones_like(together), where=alone > 0.0))
    return np.asarray(apart * np.outer(wider, wider), dtype=np.float64)
