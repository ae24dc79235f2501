"""Ends of intervals that any table can have: no count is negative, and no sum of amounts that never are.

The value is left as it is. A count of -3 says that noise took more than there was; as 0 it would be off to one side,
and sums and averages of many such values would be off by as much as all of them together.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from sfumato.answers.estimate import Estimate
from sfumato.schema import Schema
from sfumato.sql import Amount, Column


def possible(column: Column, found: list[Estimate], schema: Schema) -> list[Estimate]:
    """Estimates of a column with ends within what is possible."""
    least, most = _bounds(column, schema)
    return [replace(one, low=_within(one.low, least, most), high=_within(one.high, least, most)) for one in found]


def _within(end: float, least: float, most: float) -> float:
    return min(max(end, least), most)


def _bounds(column: Column, schema: Schema) -> tuple[float, float]:
    """What a column cannot leave, whatever the table holds."""
    if column.rule is not None:
        return -inf, inf
    if column.denominator is not None:
        least, most = column.bounds or (-inf, inf)
        ends = sorted((least * column.scale, most * column.scale))
        return ends[0], ends[1]
    signs = {_sign(amount, schema) * (1 if column.scale >= 0.0 else -1) for amount in column.numerator}
    return (0.0 if signs <= {1} else -inf), (0.0 if signs <= {-1} else inf)


def _sign(amount: Amount, schema: Schema) -> int:
    """1 where it is never negative, -1 where it is never positive, 0 where it can be either."""
    if amount.of is None:
        least, most = 1.0, 1.0
    elif amount.of in schema.measures:
        least, most = float(schema.measures[amount.of].lower), float(schema.measures[amount.of].upper)
    else:
        below, _, above = schema.domain[amount.of].amounts
        least, most = float(below.min()), float(above.max())
    ends = sorted((least * amount.factor, most * amount.factor))
    return 1 if ends[0] >= 0.0 else -1 if ends[1] <= 0.0 else 0
