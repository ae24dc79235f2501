"""Rows, batch by batch: memory does not grow with how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.releases.rows.decode import Decoder
from sfumato.releases.rows.model import Block, RowModel
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 10**9
BATCH = 2**16


def check_number(rows: int) -> None:
    """Refuse a senseless number of rows, before anything is prepared for them."""
    if not 0 < rows <= MOST_ROWS:
        raise QueryError(f"the number of rows must be a whole number from 1 to {MOST_ROWS:,}")


def draw_blocks(model: RowModel, rows: int, random: RandomNumbers) -> Iterator[Block]:
    """Blocks of rows in random order.

    The span from 0 to 1 is cut into as many equal parts as there are rows, and each row has its place in one of them
    (stratified sampling): no share of the rows is further off than if each were drawn by itself, most are much nearer.
    A block takes every so-many-th part, so that it is a small sample of its own.
    """
    check_number(rows)
    if not model.total > 0:
        raise QueryError("the release counts no rows in all, as that of an empty table does; there is nothing to draw")
    blocks = -(-rows // BATCH)
    for block in random.order(blocks):
        parts = np.arange(int(block), rows, blocks)
        places: Floats = np.minimum((parts + random.uniform(len(parts))) / rows, np.nextafter(1.0, 0.0))
        yield model.draw(places, random)[random.order(len(parts))]


def draw_batches(model: RowModel, schema: Schema, rows: int, seed: int | None = None) -> Iterator[pa.RecordBatch]:
    """Synthetic rows with their values."""
    check_number(rows)
    random = RandomNumbers(seed)
    return Decoder.of(schema).rows(draw_blocks(model, rows, random), random)
