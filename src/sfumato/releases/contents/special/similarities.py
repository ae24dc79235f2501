"""How alike two values of an attribute are, such as two users by their ratings: the cosine of their counts.

The counts are those that a learned model gives by blocks of the other attributes. Their noise lengthens both vectors,
which is taken off; the interval follows from the errors of the counts to first order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from sfumato.arrays import Floats
from sfumato.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.releases.contents.special.learned import Learned

OTHER = "other"
UNIT = "similarities of {}: one row is protected, which hides single rows and not who is in the table"


def with_similarities(content: Learned, between: str, rows: pa.Table, confidence: float) -> pa.Table:
    """The rows with further columns: similarity, and the ends of its interval; null for values that are not listed."""
    import pyarrow as pa

    from sfumato.releases.rows.encode import NOWHERE, codes_in

    if OTHER not in rows.column_names:
        raise QueryError(f"similarity is asked for pairs: rows with the columns {between!r} and {OTHER!r}")
    one = codes_in(rows, content.schema, [between])[between]
    second = rows.select([OTHER]).rename_columns([between])
    two = codes_in(second, content.schema, [between])[between]
    profiles = profiles_of(content, between)
    # A block is a training query of its own, and the model no better than its noise; the error bars are of long boxes.
    one_block = content.error_bars.errors(np.array([[0.0, 1.0, 1.0]]))[0]
    error = max(float(one_block), float(np.sqrt(content.trained.noise.variance)))
    reach = float(ndtri(0.5 + confidence / 2))
    known = (one != NOWHERE) & (two != NOWHERE)
    found = [
        similarity(profiles[a], profiles[b], error, reach) if there else (None, None, None)
        for a, b, there in zip(one, two, known, strict=True)
    ]
    for place, name in enumerate(("similarity", "similarity_low", "similarity_high")):
        rows = rows.append_column(name, pa.array([each[place] for each in found], pa.float64()))
    return rows


def profiles_of(content: Learned, between: str) -> Floats:
    """For each value of the attribute, the model's count of every block of the others."""
    blocks = content.blocks
    counts = content.running.predict(blocks.of_sets(np.eye(blocks.size))).reshape(blocks.shape)
    place = content.domain.place(between)
    return np.asarray(np.moveaxis(counts, place, 0).reshape(blocks.shape[place], -1))


def similarity(a: Floats, b: Floats, error: float, reach: float) -> tuple[float, float, float]:
    """The cosine of two vectors of counts, each off by about `error`, and an interval of so many standard errors."""
    lengths = [max(float(x @ x) - len(x) * error**2, error**2, 1e-9) for x in (a, b)]
    scale = float(np.sqrt(lengths[0] * lengths[1]))
    value = float(a @ b) / scale
    slopes = (b / scale - value * a / lengths[0], a / scale - value * b / lengths[1])
    spread = error * float(np.sqrt(sum(float(slope @ slope) for slope in slopes)))
    low, high = value - reach * spread, value + reach * spread
    return min(max(value, 0.0), 1.0), min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
