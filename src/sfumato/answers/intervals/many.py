"""One of many intervals that hold together: how sure it must be, and by which laws its noise reaches so far.

Chances of missing add up to no more than was asked (Bonferroni), or multiply to it where every number has noise of its
own (Sidak). Many intervals together are about tails: the largest of 5,000 Laplace noises is 7 standard errors off, that
of 5,000 normal ones 4. Where contents take sums of noise as normal, the law of the noise that was drawn stands here in
its place, and what was assumed has the long tail of errors whose size is known on average alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import expm1, log1p
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.gathered import Gathered
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.noise_terms import terms_in_tails
from sfumato.answers.intervals.rows_inside import Sign
from sfumato.answers.view import NoiseSource, Sum, Terms, View
from sfumato.frozen import dataclass
from sfumato.measurement import Noise

if TYPE_CHECKING:
    from sfumato.answers.alike import Kinds
    from sfumato.releases.contents.content import ContentOfCells


def of_each(confidence: float, numbers: int, *, apart: bool = False) -> float:
    """What each of so many intervals promises. apart: each number has noise of its own.

    >>> round(of_each(0.95, 10), 4), round(of_each(0.95, 10, apart=True), 4)
    (0.995, 0.9949)
    """
    numbers = max(1, numbers)
    if apart:
        return 1.0 + expm1(log1p(confidence - 1.0) / numbers)
    return 1.0 - (1.0 - confidence) / numbers


def view_in_tails(content: ContentOfCells, kinds: Kinds, confidence: float) -> View:
    """A content's cells with errors whose laws hold at a confidence that one of many intervals needs."""
    view = content.view(kinds)
    return replace(view, noises=NoiseInTails(view.noises, content.drawn(confidence)))


@dataclass(frozen=True, eq=False)
class NoiseInTails:
    """Errors by the laws that they have far out. drawn: the noise, and how many, of sums that are taken as normal."""

    near: NoiseSource
    drawn: tuple[Noise, int] | None
    _known: dict[int, tuple[Terms, Terms]] = field(default_factory=dict)

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        return [self._far(terms) for terms in self.near.terms(sides, cells, groups)]

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        return self.near.signs_of_rows(within, cells)

    def largest_model_part(self, asked: Sum, groups: Groups) -> tuple[str, ...] | None:
        return self.near.largest_model_part(asked, groups)

    def _far(self, terms: Terms) -> Terms:
        """Groups with the same noises have them as the same value, here too."""
        if id(terms) not in self._known:
            self._known[id(terms)] = terms, None if terms is None else terms_in_tails(terms, self.drawn)
        return self._known[id(terms)][1]
