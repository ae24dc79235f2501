"""TR-2010-003, sections 8.1.1 to 8.1.3: interval queries on cell-wise releases, in one and two dimensions.

Xiao, Xiong, Yuan 2010. The paper's Table 2 is reported in both readings of "average error", because the printed column
is ten times too small for the mean absolute error of an answer.
"""

from __future__ import annotations

from fractions import Fraction
from time import perf_counter

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.released import released
from sfumato.lab.reproduce.synthetic import even_numbers
from sfumato.lab.reproduce.tr_2010_003.noise_sums import mean_absolute_sum
from sfumato.models.cells.cells import cells


@dataclass(frozen=True)
class Printed:
    """A row of the paper's Table 2, in millionths of the table."""

    alpha: Fraction
    average: float
    largest: float


TABLE_2 = tuple(
    Printed(Fraction(alpha), average, largest)
    for alpha, average, largest in (
        ("1", 0.69, 34.92),
        ("0.5", 1.3, 88.7),
        ("0.1", 5.8, 453.7),
        ("0.05", 12.0, 623.9),
        ("0.02", 31.0, 1724.0),
        ("0.01", 63.5, 4284.0),
        ("0.005", 120.0, 9107.0),
    )
)


@dataclass(frozen=True)
class IntervalErrors:
    """Errors of interval queries over several releases of one table, as shares of its rows.

    absolute: the mean over releases and queries of |error|, and its standard error. averaged_first: the mean over
    queries of |mean over releases of the signed error|. expected: what `absolute` is for noise that is not cut at zero.
    """

    alpha: Fraction
    absolute: float
    absolute_stderr: float
    averaged_first: float
    largest: float
    expected: float
    errors: Floats


def drawn_intervals(count: int, cells: int, seed: int) -> tuple[Whole, Whole]:
    """First cells and ends (one past the last) of intervals whose two end cells are drawn evenly."""
    ends = np.sort(np.floor(cells * even_numbers(2 * count, seed)).astype(np.int64).reshape(2, count), axis=0)
    return ends[0], ends[1] + 1


def cut_at_zero(cells: Floats) -> Floats:
    """The paper's step 3: a cell is published if its noisy count is positive."""
    return np.asarray(np.maximum(cells, 0.0))


def interval_errors(
    counts: Whole, alpha: Fraction, entropy: Entropy, *, releases: int, queries: int, seed: int = 1
) -> IntervalErrors:
    """Release a table several times and ask all releases the same random intervals."""
    start, stop = drawn_intervals(queries, len(counts), seed)
    noisy = np.array([cut_at_zero(released(cells, counts, alpha, entropy)) for _ in range(releases)])
    off = np.pad(np.cumsum(noisy - counts, axis=1), ((0, 0), (1, 0)))
    errors = (off[:, stop] - off[:, start]) / counts.sum()
    of_each = np.abs(errors).mean(axis=1)
    lengths, times = np.unique(stop - start, return_counts=True)
    expected = np.average(mean_absolute_sum(lengths, 1.0 / float(alpha)), weights=times) / counts.sum()
    return IntervalErrors(
        alpha,
        absolute=float(of_each.mean()),
        absolute_stderr=float(of_each.std(ddof=1) / releases**0.5),
        averaged_first=float(np.abs(errors.mean(axis=0)).mean()),
        largest=float(np.abs(errors).max()),
        expected=float(expected),
        errors=errors,
    )


@dataclass(frozen=True)
class RectangleErrors:
    """Mean absolute errors of rectangle queries on one release, as shares of the rows: cut at zero, and unbiased."""

    cut: float
    unbiased: float
    largest_cut: float
    seconds: float
    released: Floats


def rectangle_errors(
    counts: Whole, alpha: Fraction, entropy: Entropy, *, queries: int, seed: int = 1
) -> RectangleErrors:
    """Release a table of two attributes once and ask random rectangles."""
    began = perf_counter()
    noisy = released(cells, counts, alpha, entropy)
    seconds = perf_counter() - began
    (top, bottom), (left, right) = (
        drawn_intervals(queries, size, seed + place) for place, size in enumerate(counts.shape)
    )

    def errors(published: Floats) -> Floats:
        off = np.pad(np.cumsum(np.cumsum(published - counts, axis=0), axis=1), ((1, 0), (1, 0)))
        found = off[bottom, right] - off[top, right] - off[bottom, left] + off[top, left]
        return np.asarray(np.abs(found) / counts.sum())

    cut = errors(cut_at_zero(noisy))
    return RectangleErrors(float(cut.mean()), float(errors(noisy).mean()), float(cut.max()), seconds, noisy)
