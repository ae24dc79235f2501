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
from sfumato.schema.attributes import Category
from sfumato.schema.parts import missing_of

if TYPE_CHECKING:
    import pyarrow as pa


def column_types(schema: Schema) -> pa.Schema:
    """The columns of synthetic rows: all attributes, then all measures."""
    import pyarrow as pa

    plain = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}
    fields = []
    for name, attribute in schema.attributes.items():
        kind = _listed(attribute).type if isinstance(attribute, Category) else plain[attribute.type]
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
        if isinstance(attribute, Category):
            columns.append(_listed(attribute).take(pa.array(codes)))
        elif axis.kind == "boolean":
            columns.append(pa.array(codes == 1))
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

    low, high = axis.edges[:-1][codes], axis.edges[1:][codes]
    inside = low + random.uniform(len(codes)) * (high - low)
    if axis.kind == "number":
        return pa.array(np.where(inside < high, inside, low))  # rounding may reach the edge, which is the next cell's
    whole = np.floor(inside).astype(np.int64)
    return pa.array(whole.astype(np.int32)).cast(pa.date32()) if axis.kind == "date" else pa.array(whole)


def _listed(attribute: Category) -> Any:
    """The values of a category: numbers where all are, text where one is not, or where there is a cell for others."""
    import pyarrow as pa

    if not attribute.numeric or attribute.other:
        return pa.array(attribute.axis("").values, pa.string())
    numbers = [float(label) for label in attribute.listed]
    whole = all(number.is_integer() and abs(number) < 2**53 for number in numbers)
    return pa.array([int(number) for number in numbers], pa.int64()) if whole else pa.array(numbers, pa.float64())
