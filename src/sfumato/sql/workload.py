"""The workload behind a list of SELECTs: the counts that they rest on, for choosing a strategy and pricing a plan.

Every aggregate is made of counts of rows in predicates: a SUM or AVG of the rows it adds up, a ratio of the rows in its
numerator and denominator. So a statement becomes a block of queries with entries 0 and 1, a row for each of its
predicates in each of its groups; a quantile or a variance rests on the counts of every value of its attribute. A bin
that a condition cuts belongs to the predicate if at least half of it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sfumato.arrays import MOST_LAID_OUT, Codes
from sfumato.domain import Axis, Domain, ValueSet
from sfumato.domain.predicates import Box, Predicate, cover
from sfumato.errors import QueryError
from sfumato.queries import Cells, Identity, Kron, Predicates, Queries, Ranges, Stack, Total, Workload
from sfumato.schema import Schema
from sfumato.sql.plan import Select

MOST_ROWS = 2**22


def workload_of(selects: Sequence[tuple[str, Select]], schema: Schema) -> Workload:
    """One block per statement, named by its text; statements and predicates that touch no cell are left out.

    >>> from sfumato.schema import Schema
    >>> from sfumato.sql import compile_select
    >>> schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {
    ...     "age": {"type": "integer", "lower": 0, "upper": 99}, "smoker": {"type": "boolean"}}})
    >>> text = "SELECT smoker, COUNT(*) FROM t WHERE age < 18 GROUP BY smoker"
    >>> workload_of([(text, compile_select(text, schema))], schema).queries
    Kron(Ranges(100, 1 ranges), Identity(2))
    """
    found = [(text, _block(select, schema.domain)) for text, select in selects]
    kept = [(text, block) for text, block in found if block is not None]
    if not kept:
        raise QueryError(
            "the workload is empty: none of its statements counts any cell of the schema; "
            "give at least one SELECT whose conditions lie within the attributes' bounds"
        )
    rows = sum(block.rows for _, block in kept)
    if rows > MOST_ROWS:
        raise QueryError(
            f"the workload has {rows:,} counts and {MOST_ROWS:,} is the most; give fewer statements, "
            "or group by fewer attributes"
        )
    return Workload(tuple(text for text, _ in kept), tuple(block for _, block in kept))


def _block(select: Select, domain: Domain) -> Queries | None:
    """The counts of one statement: each predicate it names, by group."""
    wanted = dict.fromkeys(
        (amount.predicate, tuple(dict.fromkeys((*(select.group_by if amount.grouped else ()), *values))))
        for column in select.aggregates
        for amount, values in column.counted_by
    )
    parts = [part for predicate, names in wanted if (part := _by_group(predicate, names, domain)) is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return Stack(*parts)


def _by_group(predicate: Predicate, names: tuple[str, ...], domain: Domain) -> Queries | None:
    """The rows of a predicate counted by some attributes, or None if it touches no cell."""
    if not predicate:
        return None
    if len(predicate.boxes) == 1:
        return _box(predicate.boxes[0], names, domain)
    return _boxes(predicate, names, domain)


def _box(box: Box, names: tuple[str, ...], domain: Domain) -> Queries | None:
    """Queries of one box: Kronecker product of a set per axis; None if an axis has no bin of which half lies inside."""
    factors = []
    for axis in domain:
        inside = _inside(axis, box[axis.name])
        if not len(inside):
            return None
        factors.append(_each(axis.size, inside) if axis.name in names else _together(axis.size, inside))
    return Kron(*factors) if len(factors) > 1 else factors[0]


def _boxes(predicate: Predicate, names: tuple[str, ...], domain: Domain) -> Queries | None:
    """Queries of a union of boxes, cell by cell over the axes from the first to the last that the condition names."""
    places = sorted(domain.place(name) for name in {*predicate.names, *names})
    first, last = places[0], places[-1] + 1
    middle = Domain(domain.axes[first:last])
    if middle.size > MOST_LAID_OUT:
        raise QueryError(
            f"a condition with OR or NOT spans {middle.size:.3g} cells and {MOST_LAID_OUT:,} is the most here; "
            "write one statement for each alternative"
        )
    cells = np.arange(middle.size, dtype=np.int64)
    share, _, _ = predicate.weights(middle, {name: middle.codes_along(name, cells) for name in predicate.names})
    inside = np.flatnonzero(share >= 0.5)
    if not len(inside):
        return None
    group = np.zeros(len(inside), dtype=np.int64)
    for name in names:
        group = group * middle[name].size + middle.codes_along(name, inside)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    rows = inside[order]
    # Where every group is one cell there is a shorter way to say so than a set for each.
    factor = (
        Cells(middle.size, rows) if len(starts) == len(rows) else Predicates(middle.size, np.split(rows, starts[1:]))
    )
    sizes = domain.shape
    outside = (Total(prod(sizes[:first])) if first else None, Total(prod(sizes[last:])) if last < len(sizes) else None)
    factors = [part for part in (outside[0], factor, outside[1]) if part is not None]
    return Kron(*factors) if len(factors) > 1 else factors[0]


def _inside(axis: Axis, values: ValueSet) -> Codes:
    """The cells of an axis that belong to a set of values."""
    return np.flatnonzero(cover(axis, values).share >= 0.5).astype(np.int64)


def _each(size: int, inside: Codes) -> Queries:
    return Identity(size) if len(inside) == size else Cells(size, inside)


def _together(size: int, inside: Codes) -> Queries:
    if len(inside) == size:
        return Total(size)
    if inside[-1] - inside[0] + 1 == len(inside):
        return Ranges(size, inside[:1], inside[-1:])
    return Predicates(size, [inside])
