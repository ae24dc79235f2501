"""From cells to values: every column with the type that the schema gives it, in the schema's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Axis
from sfumato.releases.rows.measures import draw_values, of_present
from sfumato.releases.rows.model import Block
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.schema import Schema
from sfumato.schema.attributes import Attribute, Category
from sfumato.schema.parts import missing_of

if TYPE_CHECKING:
    import pyarrow as pa


def column_types(schema: Schema) -> pa.Schema:
    """The columns of synthetic rows: all attributes, then all measures."""
    import pyarrow as pa

    plain = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}
    fields = []
    for name, attribute in schema.attributes.items():
        axis = schema.domain[name]
        kind = _listed(attribute, axis).type if axis.kind == "category" else plain[axis.kind]
        kind = pa.timestamp("s") if axis.timed else kind
        fields.append((name, kind))
    for name, measure in schema.measures.items():
        free, taken = name, {*(field for field, _ in fields), *schema.measures} - ({name} - set(schema.attributes))
        while free in taken:  # SQL tells an attribute and a measure of one name apart, a file of rows does not
            free += "_value"
        fields.append((free, pa.int64() if measure.step.denominator == 1 else pa.float64()))
    return pa.schema(fields)


def decode(schema: Schema, types: pa.Schema, block: Block, random: RandomNumbers) -> pa.RecordBatch:
    """A value for every row and column: spread evenly in the row's cell, measures around the mean expected of it."""
    import pyarrow as pa

    columns = []
    for axis, attribute in zip(schema.domain, schema.attributes.values(), strict=True):
        codes = block.codes[axis.name]
        if axis.kind == "category":
            columns.append(_listed(attribute, axis).take(pa.array(codes)))
        elif axis.kind == "boolean":
            columns.append(pa.array(codes == 1, mask=codes == axis.places))
        else:
            columns.append(_in_cells(axis, codes, random))
    for name, measure in schema.measures.items():
        means, missing = block.means[name], block.means.get(missing_of(name))
        if missing is None:
            columns.append(pa.array(draw_values(measure, means, random)))
        else:
            values = draw_values(measure, of_present(measure, means, missing), random)
            columns.append(pa.array(values, mask=random.uniform(len(means)) < missing))
    return pa.record_batch(columns, schema=types)


def _in_cells(axis: Axis, codes: Codes, random: RandomNumbers) -> Any:
    """A number or date inside each cell; where a cell holds one whole number only, that one."""
    import pyarrow as pa

    missing = codes == axis.places
    codes = np.minimum(codes, axis.places - 1)
    low, high = axis.edges[:-1][codes], axis.edges[1:][codes]
    inside = low + random.uniform(len(codes)) * (high - low)
    if axis.kind == "number":
        # Rounding may reach the edge, which is the next cell's.
        return pa.array(np.where(inside < high, inside, low), mask=missing)
    if axis.timed:
        seconds = np.floor(np.where(inside < high, inside, low) * 86_400 + 1e-4).astype(np.int64)  # an edge is one
        return pa.array(seconds, mask=missing).cast(pa.timestamp("s"))
    whole = np.floor(inside).astype(np.int64)
    if axis.kind == "date":
        return pa.array(whole.astype(np.int32), mask=missing).cast(pa.date32())
    return pa.array(whole, mask=missing)


def _listed(attribute: Attribute, axis: Axis) -> Any:
    """The values of a category: numbers where all are, text where one is not, or where there is a cell for others.

    Then a null, where missing values are kept.
    """
    import pyarrow as pa

    missing = [None] * attribute.keeps_missing
    if not isinstance(attribute, Category) or not attribute.numeric or attribute.other:
        shown = (*axis.codes, *axis.values[len(axis.codes) :])  # as the table has it, not by labels
        return pa.array([*shown, *missing], pa.string())
    numbers = [float(label) for label in attribute.listed]
    whole = all(number.is_integer() and abs(number) < 2**53 for number in numbers)
    if whole:
        return pa.array([*map(int, numbers), *missing], pa.int64())
    return pa.array([*numbers, *missing], pa.float64())
