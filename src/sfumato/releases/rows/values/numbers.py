"""Columns of numbers: spread evenly in the row's cells, or around the mean of the measure that is read from them."""

from __future__ import annotations

from fractions import Fraction
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
    """A column that attributes of numbers, measures or both are read from.

    axes: those of whole numbers first. measure: the one of the widest bounds. whole: the column has whole numbers.
    """

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
            return self._column(self._inside(spans, block, random), spans.missing)
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
        step = Fraction(1) if self.whole else measure.step
        values = spread_values(measure, means, random, (within.low, within.high), step)
        fits = (spans.low <= values) & (values < spans.high)
        return self._column(np.where(fits, values, self._inside(spans, block, random)), spans.missing)

    def _inside(self, spans: Spans, block: Block, random: RandomNumbers) -> Floats:
        """Any number of each span; a whole one of the first attribute's cell where a span has none."""
        low, high = spans.low, spans.high
        if self.whole:
            low, high = np.ceil(low), np.ceil(high)
            first = common_spans(self.axes[:1], block.codes, widest(self.axes[:1]))
            low, high = (np.where(low < high, *ends) for ends in ((low, first.low), (high, first.high)))
        inside = low + random.uniform(len(low)) * (high - low)
        inside = np.where(inside < high, inside, low)  # rounding may reach the edge, the next cell's
        return np.floor(inside) if self.whole else inside

    def _column(self, values: Floats, missing: Any) -> Any:
        import pyarrow as pa

        return pa.array(values.astype(np.int64) if self.whole else values, mask=missing)
