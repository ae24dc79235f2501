"""How far answers of a release are typically off, told by the release itself: it is asked a few questions of each kind.

Counts that a reader meets most: the number of all rows, and the rows with given values of one and of two attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from sfumato.answers.estimate import Estimate
from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate
from sfumato.frozen import dataclass
from sfumato.queries.workload import places_among, some_sets
from sfumato.releases.contents.content import Content
from sfumato.sql import Amount, Column, Select

KINDS = ("all rows", "one value of one attribute", "a pair of values of two attributes")
ASKED = 3  # sets of attributes of each kind that stand for all, and as many values of each
MANY_CELLS = 2**14  # laid out: each question runs over all of them, so that one value of a set is asked for
VERY_MANY_CELLS = 2**20  # and of one set


@dataclass(frozen=True)
class TypicalError:
    """Of counts of one kind. half_width: of the middle one of their intervals; None where nothing is known."""

    counts_of: str
    half_width: float | None


def typical_errors(content: Content, confidence: float) -> tuple[TypicalError, ...]:
    """The half-width of a typical interval, for the total and for counts of one and of two attributes."""
    laid_out = content.domain.size if content.answers_linear else 0
    sets = 1 if laid_out > VERY_MANY_CELLS else ASKED
    values = 1 if laid_out > MANY_CELLS else ASKED
    found = []
    for kind, words in enumerate(KINDS[: len(content.domain.axes) + 1]):
        asked = [ask_for_counts(content, axes, values, confidence) for axes in some_sets(content.domain, kind, sets)]
        middle = median((count.high - count.low) / 2 for counts in asked for count in counts)
        found.append(TypicalError(words, middle if middle < float("inf") else None))
    return tuple(found)


def ask_for_counts(content: Content, axes: Sequence[Axis], few: int, confidence: float = 0.95) -> list[Estimate]:
    """The counts of a few combinations of values of some attributes; one count where there are no attributes."""
    few = few if axes else 1
    columns = tuple(Column(f"count {place}", (Amount(_where(axes, place), None),)) for place in range(few))
    result = content.select(Select(columns, (), Predicate.everything()), confidence)
    return [number for row in result.rows for number in row if isinstance(number, Estimate)]


def _where(axes: Sequence[Axis], place: int) -> Predicate:
    found = Predicate.everything()
    for number, axis in enumerate(axes):
        code = int(places_among(axis.places, place + number + 1)[-1])
        found &= Predicate.where(axis.name, axis.values_in(code))
    return found
