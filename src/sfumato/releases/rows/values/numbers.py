"""Columns of numbers: spread evenly in the row's cells, or around the mean of the measure that is read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.releases.rows.measures import of_present, spread_values
from sfumato.releases.rows.model import Block
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.releases.rows.values.spans import Spans, common_spans, widest
from sfumato.schema.parts import Measure, missing_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Numbers:
    """A column that attributes of numbers, measures or both are read from. measure: the one of the widest bounds."""

    axes: tuple[Axis, ...]
    measure: tuple[str, Measure] | None
    whole: bool

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64() if self.whole else pa.float64()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """A number for every row."""
        import pyarrow as pa

        if self.measure is None:
            spans = common_spans(self.axes, block.codes, widest(self.axes))
            return self._column(self._inside(spans, random), spans.missing)
        name, measure = self.measure
        means, missing = block.means[name], block.means.get(missing_of(name))
        if missing is not None:
            means = of_present(measure, means, missing)
        if not self.axes:
            values = spread_values(measure, means, random)
            gone = None if missing is None else random.uniform(len(means)) < missing
            return pa.array(values.astype(np.int64) if self.whole else values, mask=gone)
        # Beyond its bounds a measure counts as its bound, so what lies there says no more than the bound does.
        least, most = float(measure.lower), float(measure.upper)
        spans = common_spans(self.axes, block.codes, widest(self.axes, [(least, np.nextafter(most, np.inf))]))
        within = Spans(np.maximum(spans.low, least), np.minimum(spans.high, most), spans.missing)
        values = spread_values(measure, means, random, (within.low, within.high))
        fits = (spans.low <= values) & (values < spans.high)
        return self._column(np.where(fits, values, self._inside(spans, random)), spans.missing)

    def _inside(self, spans: Spans, random: RandomNumbers) -> Floats:
        inside = spans.low + random.uniform(len(spans.low)) * (spans.high - spans.low)
        inside = np.where(inside < spans.high, inside, spans.low)  # rounding may reach the edge, the next cell's
        return np.floor(inside) if self.whole else inside

    def _column(self, values: Floats, missing: Any) -> Any:
        import pyarrow as pa

        return pa.array(values.astype(np.int64) if self.whole else values, mask=missing)
