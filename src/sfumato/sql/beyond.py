"""Conditions on values beyond the bounds: rows there count at the bound, so that they are not found where they were."""

from __future__ import annotations

from sfumato.domain import Axis, ValueSet
from sfumato.schema import Schema
from sfumato.schema.bounds import bounds_of


def lies_beyond(axis: Axis, values: ValueSet) -> bool:
    """Whether a span of values lies wholly where no row is counted, so that it finds none whatever the table holds.

    >>> import numpy as np
    >>> age = Axis("age", "integer", np.arange(101.0))
    >>> [lies_beyond(age, ValueSet.above(value, inclusive=False)) for value in (98, 99)]
    [False, True]
    """
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    last = high - 1.0 if axis.discrete else high
    return axis.ordered and any(start > (last, 0) or end < (low, 1) for start, end in values.spans)


def beyond_notes(names: list[str], schema: Schema) -> list[str]:
    """A sentence for each attribute that was compared with values beyond its bounds."""
    found = {name: bounds_of(schema.attributes[name]) for name in dict.fromkeys(names)}
    return [
        f"{name} lies from {bounds[0]} to {bounds[1]}: rows beyond count at the bound and are not found there"
        for name, bounds in found.items()
        if bounds is not None
    ]
