"""Numbers of this very release that show what may be concluded from it: one that is sure, two that differ, one lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite

from sfumato.answers.estimate import Estimate
from sfumato.frozen import dataclass
from sfumato.public.report.distributions import ROUGH, Distribution, half_width


@dataclass(frozen=True)
class Known:
    """One count. attribute and label: whose it is."""

    attribute: str
    label: str
    count: Estimate

    @property
    def looseness(self) -> float:
        """Half of the interval beside the count; what is not above zero is looser than anything."""
        return half_width(self.count) / self.count.value if self.count.value > 0 else float("inf")

    def apart(self, other: Known) -> bool:
        """Whether both intervals lie apart. Then the difference of the two is sure, however their noises are related:
        its error is at most the sum of theirs."""
        return self.count.low > other.count.high or self.count.high < other.count.low


@dataclass(frozen=True)
class Examples:
    """sure: the best known. differ and alike: two counts each, the larger first. lost: one that tells nothing."""

    sure: Known
    differ: tuple[Known, Known] | None
    alike: tuple[Known, Known] | None
    lost: Known | None


def examples(found: Sequence[Distribution]) -> Examples | None:
    """What to show of the attributes; None where nothing is known of any."""
    sorted_counts = [sorted(_known(one), key=lambda one: -one.count.value) for one in found]
    every = [one for counts in sorted_counts for one in counts]
    if not every:
        return None
    neighbours = [pair for counts in sorted_counts for pair in pairwise(counts) if pair[1].count.value > 0]
    return Examples(
        sure=min(every, key=lambda one: one.looseness),
        differ=next((pair for pair in neighbours if pair[0].apart(pair[1])), None),
        alike=next((pair for pair in neighbours if not pair[0].apart(pair[1])), None),
        lost=next((one for one in every if one.looseness > ROUGH), None),
    )


def _known(one: Distribution) -> Iterator[Known]:
    for label, count in zip(one.cut.labels, one.counts, strict=True):
        if isfinite(count.low) and isfinite(count.high):
            yield Known(one.axis.name, label, count)
