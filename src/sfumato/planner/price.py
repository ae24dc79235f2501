"""Error of one question under a known noise distribution: exact, before any data is read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.results import Estimate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Queries
from sfumato.queries.workload import places_among
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube

if TYPE_CHECKING:  # questions are statements, and a choice that is tried out needs no SQL
    from sfumato.planner.questions import Item

MOST_SAMPLED = 32  # queries of a block that stand for all of them where they are many
AT_ONCE = 2**22  # numbers laid out at a time


@dataclass(frozen=True)
class Line:
    """Error of one question of a plan under one mechanism.

    stderr: the error to expect, root mean square over the question's groups or ranges. within: how far off the worst of
    them is at most, with the plan's confidence; nan where nobody asked. Both in `unit`s. best, worst: stderr on the
    kindest and the unkindest of the public shapes, where the error depends on the data. guess: whether it does.
    """

    query: str
    stderr: float
    within: float
    unit: str
    guess: bool
    epsilon: Fraction | None = None
    best: float | None = None
    worst: float | None = None

    def times(self, factor: float) -> Line:
        """Multiply all errors by a factor."""
        best, worst = (None if end is None else factor * end for end in (self.best, self.worst))
        return replace(self, stderr=factor * self.stderr, within=factor * self.within, best=best, worst=worst)


def price(item: Item, content: Content, confidence: float, known: float | None = None, bounds: bool = True) -> Line:
    """Error of a question in a content without private data (a stand-in).

    known: its root mean square error, if computed already. bounds: whether the bound of the worst answer is needed.
    """
    if item.block is None or not isinstance(content, Cube):
        return _price_select(item, content, confidence)
    if known is not None and not bounds:
        return Line(item.query, known, nan, item.unit, item.guess)
    stderr, worst = _block_errors(item.block, content)
    if not isfinite(stderr):
        return Line(item.query, inf, inf, item.unit, item.guess)
    (found,) = content.linear(item.block[[worst]], confidence)
    within = float(found.high - found.value)
    return Line(item.query, stderr if known is None else known, within, item.unit, item.guess)


def worst_of(item: Item, content: Content) -> Item:
    """Restrict a question's block to its query of largest error; other questions are returned unchanged."""
    if item.block is None or not isinstance(content, Cube):
        return item
    return replace(item, block=item.block[[_block_errors(item.block, content)[1]]])


def sampled(block: Queries, most: int = MOST_SAMPLED) -> NDArray[np.int64]:
    """Sample of a block's rows: all, or evenly spaced ones with the first and the last included.

    >>> from sfumato.queries import Prefix
    >>> sampled(Prefix(3)).tolist(), len(sampled(Prefix(10**5)))
    ([0, 1, 2], 32)
    """
    most = max(2, min(most, AT_ONCE // block.columns))
    if block.rows <= most:
        return np.arange(block.rows, dtype=np.int64)
    return np.concatenate([[0], places_among(block.rows, most - 2), [block.rows - 1]])


def _block_errors(block: Queries, cube: Cube) -> tuple[float, int]:
    """Root mean square error of a block, and the row of largest variance in the sample."""
    chosen = sampled(block)
    rows = np.asarray(block[chosen].dense(), dtype=np.float64)
    if cube.plain:  # noise of one size on every cell: squares of all entries are added up without listing rows
        variance = cube.noises["count"].variance
        mean = float(np.sum(block.column_squares(), dtype=np.float64)) / block.rows
        return sqrt(variance * mean), int(chosen[np.argmax((rows**2).sum(axis=1))])
    errors = cube.fits[0].errors(rows.T)
    if errors.unknown.any():
        return inf, 0
    variances = (errors.weights**2 * errors.design.variances[:, None]).sum(axis=0) + np.diag(errors.model)
    return sqrt(float(variances.mean())), int(chosen[np.argmax(variances)])


def _price_select(item: Item, content: Content, confidence: float) -> Line:
    """Error of a SELECT: root mean square of its numbers' standard errors, and the widest interval."""
    if item.select is None:
        raise QueryError(f"a sparse release cannot be planned for this question, which is no SQL: {item.query}")
    result = content.select(item.select, confidence)
    numbers = [cell for row in result.rows for cell in row if isinstance(cell, Estimate)]
    if not numbers:
        raise QueryError(f"this query has no number in it, so there is no error to plan: {item.query}")
    within = max(max(number.high - number.value, number.value - number.low) for number in numbers)
    squares = [number.stderr**2 for number in numbers]
    stderr = sqrt(sum(squares) / len(squares))
    finite = all(isfinite(square) for square in squares)
    guess = item.guess or not content.answers_linear
    return Line(item.query, stderr if finite else inf, within if finite else inf, item.unit, guess)
