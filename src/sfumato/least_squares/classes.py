"""Which cells along an axis a question and a strategy do not tell apart, and which rows.

Cells are of one class if the question weighs them alike and if every class of measured rows asks the same of them; rows
are of one class if they carry the same noise and ask the same of every class of cells. Classes are refined until
nothing changes, as the nodes of a graph are coloured (Weisfeiler, Leman 1968).

Which rows along an axis carry the same noises, whatever the rows along the other axes: mostly those of one level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.queries import Queries, Weighted

MOST_CLASSES = 2**7  # along one axis; with more, little would be gained
FEW = 2**12  # words that are kept

Words = NDArray[np.uint64]
_NOTHING = np.zeros((0, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Along:
    """One axis: an example of each class of cells, how many there are, and for every block of queries its rows.

    rows, many: an example of each class of rows, and how many. noises: which noises it carries, by number. asked:
    what it asks of each class of cells. whole: where every cell is a class of its own, of which axis; -1: it is not so.
    """

    first: Codes
    cells: Codes
    rows: tuple[Codes, ...]
    many: tuple[Codes, ...]
    noises: tuple[Codes, ...]
    asked: tuple[Queries, ...]
    whole: int = -1

    @cached_property
    def key(self) -> bytes:
        """What tells it from others, whichever cells it is about."""
        if self.whole >= 0:
            return b"all of %d" % self.whole
        parts = [self.cells, *self.many, *self.noises, *(one.dense() for one in self.asked)]
        return b"|".join(repr(part.shape).encode() + part.tobytes() for part in parts)


@dataclass(frozen=True, eq=False)
class Way:
    """What some blocks ask along one axis. noises: of each row, by number."""

    factor: Queries
    noises: Codes
    blocks: set[int]


def refined(ways: list[Way], told: Codes) -> Along | None:
    """The classes along an axis. told: by which number a question tells each cell from others; None: too many."""
    rows, asked = [way.noises for way in ways], [_NOTHING for _ in ways]
    after = ranked(told.astype(np.uint64))
    cells = np.zeros_like(after)
    while (classes := int(after.max()) + 1) > int(cells.max()) + 1 or asked[0] is _NOTHING:
        if classes > MOST_CLASSES:
            return None
        cells, mixed = after, after.astype(np.uint64) * words(1)[0]
        for number, way in enumerate(ways):
            asked[number] = np.asarray(way.factor @ _indicators(cells))
            rows[number] = ranked(_mixed(rows[number], asked[number]))
            if rows[number].max() >= MOST_CLASSES:
                return None
            mixed = _mixed(mixed, np.asarray(way.factor.T @ _indicators(rows[number])))
        after = ranked(mixed)
    first = np.unique(cells, return_index=True)[1]
    examples = [np.unique(row, return_index=True)[1] for row in rows]
    each = [
        (e, np.bincount(row), way.noises[e], Weighted(matrix[e]))
        for e, row, way, matrix in zip(examples, rows, ways, asked, strict=True)
    ]
    return _by_block(first, np.bincount(cells), ways, each, -1)


def unmerged(ways: list[Way], place: int) -> Along:
    """An axis of which all cells are told apart."""
    every = np.arange(ways[0].factor.columns)
    each = [
        (np.arange(way.factor.rows), np.ones(way.factor.rows, dtype=np.int64), way.noises, way.factor) for way in ways
    ]
    return _by_block(every, np.ones_like(every), ways, each, place)


def _by_block(
    first: Codes, cells: Codes, ways: list[Way], each: Sequence[tuple[Codes, Codes, Codes, Queries]], whole: int
) -> Along:
    blocks = range(sum(len(way.blocks) for way in ways))
    by_block = [each[next(n for n, way in enumerate(ways) if block in way.blocks)] for block in blocks]
    rows, many, noises, asked = zip(*by_block, strict=True)
    return Along(first, cells, rows, many, noises, asked, whole)


def told_apart(weights: Floats) -> Codes:
    """Which slices of an array along its first axis are the same: numbers for each, in an order that values decide."""
    flat = np.ascontiguousarray(weights + 0.0).reshape(len(weights), -1)
    return ranked(np.asarray(_scrambled(flat.view(np.uint64)) @ words(flat.shape[1])))


def digest(values: NDArray[Any]) -> bytes:
    """What tells an array from others, in a few bytes."""
    return blake2b(np.ascontiguousarray(values).data, digest_size=16).digest()


def _indicators(classes: Codes) -> Codes:
    return np.asarray(classes[:, None] == np.arange(int(classes.max()) + 1), dtype=np.int64)


def _mixed(before: Codes | Words, asked: Codes) -> Words:
    """Words that are the same where a class and all that is asked are, and otherwise not but by a chance of 2^-64."""
    each = words(asked.shape[1] + 2)
    return np.asarray(before.astype(np.uint64) * each[-1] + asked.astype(np.uint64) @ each[:-2] + each[-2])


def ranked(found: Words) -> Codes:
    """Equal words get equal numbers, the least word 0."""
    return np.asarray(np.unique(found, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def words(count: int) -> Words:
    """So many words without a pattern, the same ones always (Steele, Lea, Flood 2014: SplitMix)."""
    return _few()[:count] if count <= FEW else _made(count)


@cache
def _few() -> Words:
    return _made(FEW)


def _made(count: int) -> Words:
    return _scrambled(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _scrambled(z: Words) -> Words:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


FEW_CLASSES = 2**6  # that are told apart by comparing; strategies have a few levels


def noises_along(which: Codes | None, rows: Sequence[int]) -> tuple[list[Codes], Codes] | None:
    """Classes of the rows along each axis, and the noise of each combination of classes; None where there are many.

    which: the noise of every combination of rows, by number; None where all carry the first.
    """
    if which is None:
        return [np.zeros(count, dtype=np.int64) for count in rows], np.zeros([1] * len(rows), dtype=np.int64)
    grid = narrow(which).reshape(rows)
    classes = [_compared(_in_front(grid, place)) for place in range(len(rows))]
    found = [each for each in classes if each is not None]
    if len(found) < len(rows):
        return None
    examples = [np.array([np.argmax(each == number) for number in range(each.max() + 1)]) for each in found]
    return found, grid[np.ix_(*examples)].astype(np.int64)


def noise_classes(grid: NDArray[np.integer], place: int) -> Codes:
    """Classes of the rows along one axis."""
    front = _in_front(grid, place)
    found = _compared(front)
    return ranked(np.asarray(front.astype(np.uint64) @ words(front.shape[1]))) if found is None else found


def narrow(which: Codes) -> NDArray[np.integer]:
    """The same numbers in as few bytes as they take."""
    return which.astype(np.uint8 if len(which) and which.max() < 2**8 else np.int64, copy=False)


def _in_front(grid: NDArray[np.integer], place: int) -> NDArray[np.integer]:
    return np.moveaxis(grid, place, 0).reshape(grid.shape[place], prod(grid.shape) // grid.shape[place])


def _compared(front: NDArray[np.integer]) -> Codes | None:
    """Classes of equal rows; the last row is compared first, for it is mostly a cell, and of these there are most."""
    found, left = np.zeros(len(front), dtype=np.int64), np.arange(len(front))
    for number in range(FEW_CLASSES):
        same = (front[left] == front[left[-1]]).all(axis=1) if number else (front == front[-1]).all(axis=1)
        found[left[same]] = number
        left = left[~same]
        if not len(left):
            return found
    return None
