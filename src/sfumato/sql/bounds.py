"""What a ratio cannot leave, whatever the table holds: public bounds for averages and shares."""

from __future__ import annotations

from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.plan import Amount

Bounds = tuple[float, float]


def ratio_bounds(top: tuple[Amount, ...], bottom: tuple[Amount, ...], schema: Schema) -> Bounds | None:
    """Bounds of top / bottom where bottom counts rows that every amount of the top is taken from; else None.

    Such a ratio is an average over the counted rows: each row adds its amount, or 0 where it is not in the amount's
    predicate. Bounds of the amounts therefore add up to bounds of the ratio.
    """
    if len(bottom) != 1 or bottom[0].of is not None or bottom[0].factor != 1.0:
        return None
    parts = [_part(amount, bottom[0], schema) for amount in top]
    known = [part for part in parts if part is not None]
    return (sum(low for low, _ in known), sum(high for _, high in known)) if len(known) == len(parts) else None


def _part(amount: Amount, rows: Amount, schema: Schema) -> Bounds | None:
    if rows.grouped and not amount.grouped:
        return None  # a total over all groups beside the rows of one
    try:
        if not amount.predicate.inside(rows.predicate):
            return None
        all_rows = amount.grouped == rows.grouped and rows.predicate.inside(amount.predicate)
    except QueryError:  # too complicated to tell
        return None
    needed = amount.present
    if amount.of in schema.measures and schema.measures[amount.of].missing == "keep":
        needed = amount.of
    if rows.present not in (None, needed):
        return None  # rows may be added up that are not counted
    low, high = row_bounds(amount.of, schema)
    if not all_rows or needed != rows.present:
        low, high = min(low, 0.0), max(high, 0.0)
    ends = sorted((amount.factor * low, amount.factor * high))
    return ends[0], ends[1]


def row_bounds(of: str | None, schema: Schema) -> Bounds:
    """The least and greatest amount that one row can add."""
    if of is None:
        return 1.0, 1.0
    if of in schema.measures:
        measure = schema.measures[of]
        return float(measure.lower), float(measure.upper)
    low, _, high = schema.domain[of].amounts
    return float(low.min()), float(high.max())
