"""Attributes of many listed values below public groups (`groups` of the schema), and estimates of their values.

A long attribute enters tables of two and more attributes by its groups. Its single values v of group g(v) are counted
once, along the attribute alone, and hang below the groups:

    n(v, rest) = n(g(v), rest) * p(v),   p(v) = n(v) / n(g(v)),

which is what maximum entropy makes of tables by group and of counts by value. Counts by value are brought to their
group's count by least squares: all that hold rows move alike, and none is negative (joining.by_halves).

How far values of one group differ in other attributes is measured (`unevenness`): in a value of m rows the share q of
another attribute's value varies around that of the group with variance c^2 q (1 - q), as in a Dirichlet-multinomial
model, so a count has variance (m + c^2 m^2) q (1 - q).
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.joining import MOST_SMOOTHED, SPIKE_OF_MANY, by_halves
from sfumato.schema import Schema
from sfumato.schema.attributes.lists import OTHER, Category

HALVINGS = 24
LEAST_UNEVEN = 1e-9  # c^2, below which it is none


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Groups of a long attribute. column: of the schema's groups. axis: of the groups. groups: (values,), of each."""

    column: str
    axis: Axis
    groups: Codes


def hierarchies(schema: Schema) -> dict[int, Hierarchy]:
    """Attributes that enter tables by groups, by place: of more values than are smoothed, in not as many groups.

    Of several columns of groups, the one with the most groups that are few enough. Sums of measures are not told by
    value below groups, so a schema with measures has none.
    """
    return {place: found[1] for place, found in _found(schema).items()}


def coarse(schema: Schema) -> Schema:
    """Schema in which attributes that enter tables by groups are these groups."""
    names, attributes = list(schema.attributes), dict(schema.attributes)
    for place, (attribute, _) in _found(schema).items():
        attributes[names[place]] = attribute
    return Schema(
        dataset=schema.dataset,
        privacy_unit=schema.privacy_unit,
        attributes=attributes,
        expected_rows=schema.expected_rows,
    )


def _found(schema: Schema) -> dict[int, tuple[Category, Hierarchy]]:
    result: dict[int, tuple[Category, Hierarchy]] = {}
    if schema.measures:
        return result
    for place, (name, attribute) in enumerate(schema.attributes.items()):
        if not isinstance(attribute, Category) or attribute.size <= MOST_SMOOTHED or not attribute.groups:
            continue
        columns = {column: [*dict.fromkeys(each)] for column, each in attribute.group_columns.items()}
        few = [column for column, groups in columns.items() if 1 < len(groups) <= MOST_SMOOTHED]
        if not few:
            continue
        column = max(few, key=lambda each: len(columns[each]))
        listed = [group for group in columns[column] if group is not None]
        values = tuple(str(group) for group in (listed[:-1] if attribute.other else listed))
        try:
            made = Category(values=values, other=attribute.other, missing=attribute.missing, column=attribute.column)
        except (ValueError, SchemaError):  # a group is called as what the schema adds
            continue
        code = {group: index for index, group in enumerate((*values, *[OTHER] * attribute.other))}
        cells = attribute.group_columns[column]
        groups = np.array([len(code) if group is None else code[group] for group in cells], dtype=np.int64)
        result[place] = made, Hierarchy(column, made.axis(name), groups)
    return result


def values_below(noisy: Floats, variance: float, groups: Codes, totals: Floats) -> Floats:
    """Counts by value, non-negative, that add up to their group's count, (values,). totals: (groups,)."""
    estimate: Floats = np.zeros(len(noisy))
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(totals) + 1))
    spike = SPIKE_OF_MANY * float(np.sqrt(variance))
    for group, total in enumerate(totals.tolist()):
        inside = order[starts[group] : starts[group + 1]]
        if len(inside):
            estimate[inside] = by_halves(noisy[inside], total, spike)
    return estimate


def shares_within(estimate: Floats, groups: Codes, number: int) -> Floats:
    """Share of each value in its group, (values,); even in a group without rows."""
    totals, sizes = np.bincount(groups, estimate, number), np.bincount(groups, minlength=number)
    held = totals[groups] > 0
    return np.where(held, estimate / np.where(held, totals[groups], 1.0), 1.0 / np.maximum(sizes[groups], 1))


def unevenness(
    rows: Floats, shares: Floats, sure: Floats | float, guess: Floats, measured: float, error: float
) -> float:
    """Variance c^2 of shares between values of a group, from the noisy misfit of values by another attribute.

    rows: (values, 1), of each value. shares: (values, others), of its group. sure: variances that are known besides.
    guess: (values, others). measured: the misfit, sum of |count - guess|; error: standard deviation of its noise, half
    of which is added.
    """
    spread = shares * (1.0 - shares)

    def expected(uneven: float) -> float:
        size = OF_NORMAL * np.sqrt(sure + (rows + uneven * rows**2) * spread)
        return float(np.minimum(size, 2.0 * guess + np.sqrt(sure)).sum())

    low, high = LEAST_UNEVEN, 1.0
    if expected(low) >= measured + error / 2.0:
        return 0.0
    if expected(high) <= measured:
        return 1.0
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if expected(middle) < measured + error / 2.0 else (low, middle)
    return high


def mean_by(values: Floats, of: Codes, weights: Floats, axis: int, number: int) -> Floats:
    """Weighted sums of an array by class along one axis. of: (n,), class of each entry, rising; weights: (n,)."""
    shape = [1] * values.ndim
    shape[axis] = len(weights)
    starts = np.searchsorted(of, np.arange(number))
    return np.asarray(np.add.reduceat(values * weights.reshape(shape), starts, axis=axis), dtype=np.float64)
