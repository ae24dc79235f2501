"""What a content is asked for ends that hold whatever its table is like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np

from sfumato.answers.alike import Kinds
from sfumato.answers.gathered import Gathered
from sfumato.answers.guaranteed.ends import Ends, Find
from sfumato.answers.intervals.noise_terms import spread_over
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.sql import Amount


@dataclass(frozen=True, eq=False)
class Asked:
    """One sum for one group: weights on the cells that a view shows, by statistic; and on what it does not show.

    low, high: what each cell weighs at least and at most. unseen: how many cells that are not shown may belong to it.
    """

    low: Mapping[str, Floats]
    high: Mapping[str, Floats]
    unseen: float = 0.0

    @property
    def statistics(self) -> tuple[str, ...]:
        """Those that weigh anything."""
        return tuple(of for of in self.low if self.low[of].any() or self.high[of].any())

    def less(self, other: Asked, factor: float = 1.0) -> Asked:
        """This sum less a factor times another of which no cell is cut."""
        of_any = dict.fromkeys((*self.low, *other.low))

        def apart(mine: Mapping[str, Floats], theirs: Mapping[str, Floats]) -> dict[str, Floats]:
            return {of: np.asarray(mine.get(of, 0.0) - factor * theirs.get(of, 0.0)) for of in of_any}

        return Asked(apart(self.low, other.low), apart(self.high, other.high), self.unseen - factor * other.unseen)


class Source(Protocol):
    """Finds the ends of sums. signed: also of those in which some cells weigh less than nothing."""

    signed: ClassVar[bool]

    @property
    def work(self) -> int:
        """How many numbers are looked at for the ends of one sum, besides the cells of a view."""

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """A QueryError where sums of such amounts have no ends."""

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        """Between which the truth lies; `tail` is the probability that it lies beyond, for each end."""


@dataclass(frozen=True, eq=False)
class FromFits:
    """Ends from fits of all statistics, over the cells of a domain; kinds: of values that a question tells apart."""

    signed: ClassVar[bool] = True

    domain: Domain
    finders: Mapping[str, Find]
    kinds: Kinds

    @property
    def work(self) -> int:
        return self.domain.size

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """Every sum has ends."""

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        names, parts = tuple(cells.codes), asked.statistics
        found = Ends(0.0, 0.0)
        for of in parts:
            both = np.stack([asked.low[of], asked.high[of]], axis=1)
            both = spread_over(self.domain, names, both if cells.many is None else self._single(both, names))
            found += self.finders[of](both[:, 0], both[:, 1], tail / len(parts))
        return found

    def _single(self, weights: Floats, names: Sequence[str]) -> Floats:
        """Weights of cells that were taken together, as those of single cells."""
        kinds = [np.asarray(self.kinds[name]) for name in names]
        few = weights.reshape([int(kind.max(initial=0)) + 1 for kind in kinds] + [weights.shape[1]])
        return np.asarray(few[np.ix_(*kinds)]).reshape(-1, weights.shape[1])
