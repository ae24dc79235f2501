"""Statistics that are not sums: quantiles of an attribute, and how far its values spread; plain values, as a plan."""

from __future__ import annotations

from sfumato.domain.predicates import Predicate
from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Quantile:
    """The value of an ordered attribute below which a share of the rows lies; 0 is the least value, 1 the greatest.

    predicate: which rows. whole: whether the answer is a value that some row has (PERCENTILE_DISC), as far as bins
    tell. grouped: whether GROUP BY splits it.
    """

    predicate: Predicate
    of: str
    share: float
    whole: bool = False
    grouped: bool = True


@dataclass(frozen=True)
class Spread:
    """The variance of an attribute, or its root, the standard deviation.

    sample: divided by the number of rows less one, as VAR_SAMP is.
    """

    predicate: Predicate
    of: str
    sample: bool = True
    root: bool = False
    grouped: bool = True
