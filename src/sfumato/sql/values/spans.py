"""Sets of values in the one form that sets with the same values share, as far as an axis goes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sfumato.domain import END, NO_VALUE, START, Axis, Place, ValueSet

Span = tuple[Place, Place]


def fitted(axis: Axis, values: ValueSet) -> ValueSet:
    """The same set as far as the axis goes, in the one form that sets with the same values share.

    Then age <= 20 equals age < 21, and sex IN ('F', 'M') is everything where there are no other values.
    """
    low, high = (float(axis.edges[0]), 0), (float(axis.edges[-1]), int(axis.closed))
    last = NO_VALUE if axis.missing else END
    spans = [(NO_VALUE, END)] if axis.missing and values.holds_missing else []
    for start, end in values.spans:
        a, b = (_whole(start, axis), _whole(end, axis)) if axis.discrete else (start, end)
        if a < b and a < high and low < b:
            spans.append((START if a <= low else a, last if b >= high else b))
    return together(spans)


def together(spans: Iterable[Span]) -> ValueSet:
    """The union of spans, in one sweep."""
    swept: list[Span] = []
    for start, end in sorted(spans):
        if swept and start <= swept[-1][1]:
            swept[-1] = (swept[-1][0], max(end, swept[-1][1]))
        else:
            swept.append((start, end))
    return ValueSet(tuple(swept))


def _whole(place: Place, axis: Axis) -> Place:
    """The place just before the first whole number that follows; a time of day cuts its day and stays where it is."""
    value, after = place
    if math.isinf(value) or (axis.kind == "date" and not value.is_integer()):
        return place
    return (math.floor(value) + 1.0 if after or not value.is_integer() else value), 0
