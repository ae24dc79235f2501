"""Cells whose noisy count reaches a threshold, in time that does not follow the size of the domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw, sparse_hits
from sfumato.measurement import Laplace, Noise


def sift(
    aggregate: Aggregate, size: int, above: int, noise: Noise, entropy: Entropy
) -> tuple[Codes, NDArray[np.int64]]:
    """Cells whose noisy count reaches a threshold, as if every cell of the domain had drawn its noise.

    Empty cells draw theirs through the gaps between hits. A hit on a cell that holds rows is thrown away, for such a
    cell draws its own noise; hits on different cells are independent, so this changes no other cell.
    """
    if not isinstance(noise, Laplace):
        raise QueryError("publishing above a threshold is for pure epsilon")
    hits, values = sparse_hits(size, above, noise, entropy)
    held = aggregate.cells
    noisy = aggregate.counts + draw(noise, len(held), entropy)
    kept = noisy >= above
    empty = ~np.isin(hits, held, assume_unique=True)
    cells = np.concatenate([held[kept], hits[empty]])
    order = np.argsort(cells)
    cells, answers = cells[order], np.concatenate([noisy[kept], values[empty]])[order]
    cells.setflags(write=False)
    answers.setflags(write=False)
    return cells, answers
