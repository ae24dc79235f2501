"""P-identity strategies (HDMM's OPT_0) along one axis: all cells and p weighted sums, optimised by projected L-BFGS.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 5: A = [diag(d); Theta], Theta (p, n), all columns of equal
norm. With X = A^T A and V the workload's Gram matrix, the error trace(V X^-1) has the gradient -2 A X^-1 V X^-1, and
X^-1 is diag(d)^-2 less a matrix of rank p (Woodbury). The paper starts at random; here the rows of Theta start as
overlapping triangular bumps, which ends lower and sooner, and the columns are integers of exactly equal size.

Optimiser (`least`): L-BFGS (Nocedal 1980) with bounds by projection (Bertsekas 1982). SciPy's L-BFGS-B does the same,
but takes longer to load than most strategies take to find.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats
from sfumato.least_squares.gram import Gram
from sfumato.models.linear.strategies.per_axis import AxisPart
from sfumato.queries import Identity, Scaled, Stack, Weighted

REMEMBERED = 10  # steps from which the curvature is known
DECREASE = 1e-4  # of what the slope promises, at least, for a step to be taken
SHORTEST = 2.0**-20  # of the first step tried

ValueAndSlope = Callable[[Floats], tuple[float, Floats]]
Step = tuple[Floats, Floats, float]


def least(
    function: ValueAndSlope, start: Floats, low: float, high: float, *, looks: int, close: float
) -> tuple[float, Floats]:
    """Minimise a smooth function between bounds by projected L-BFGS; return the least value and its argument.

    function: value and gradient. start: (n,). looks: evaluations at most. close: relative decrease over REMEMBERED
    steps at which the search ends.

    >>> value, where = least(lambda x: (float(((x - 3.0) ** 2).sum()), 2 * (x - 3.0)), np.zeros(2), 0.0, 2.0,
    ...                      looks=20, close=1e-9)
    >>> value, where.tolist()
    (2.0, [2.0, 2.0])
    """
    at = np.clip(start, low, high)
    value, slope = function(at)
    looks -= 1
    steps: deque[Step] = deque(maxlen=REMEMBERED)
    values = [value]
    while looks > 0:
        free = ((at > low) | (slope < 0.0)) & ((at < high) | (slope > 0.0))
        if not (slope * free).any():
            break
        direction = -_curved(slope * free, steps) * free
        if not float(slope @ direction) < 0.0:
            steps.clear()
            direction = -slope * free
        length = 1.0 if steps else min(1.0, 1.0 / float(np.abs(direction).max()))
        while looks > 0:
            candidate = np.clip(at + length * direction, low, high)
            new_value, new_slope = function(candidate)
            looks -= 1
            if new_value <= value + DECREASE * float(slope @ (candidate - at)) or length < SHORTEST:
                break
            length /= 2.0
        if not new_value < value:
            break
        step, change = candidate - at, new_slope - slope
        if (product := float(step @ change)) > 1e-12 * float(change @ change):
            steps.append((step, change, product))
        at, value, slope = candidate, new_value, new_slope
        values.append(value)
        if len(values) > REMEMBERED and values[-1 - REMEMBERED] - value <= close * abs(value):
            break
    return value, at


def _curved(slope: Floats, steps: deque[Step]) -> Floats:
    """Gradient times the approximate inverse Hessian (two-loop recursion)."""
    way, shares = slope.copy(), []
    for moved, bent, product in reversed(steps):
        shares.append(float(moved @ way) / product)
        way -= shares[-1] * bent
    if steps:
        moved, bent, product = steps[-1]
        way *= product / float(bent @ bent)
    for (moved, bent, product), share in zip(steps, reversed(shares), strict=True):
        way += (share - float(bent @ way) / product) * moved
    return way


FEW_CELLS = 256  # up to which several numbers of sums are tried
MOST_CELLS = 4096  # beyond, trees are as good as it gets here
LARGEST = 8.0  # weight of a cell in a sum, relative to its own: keeps cells from vanishing when they are rounded
FIRST_LOOKS = 30  # of the optimiser at the error, from which the best of several starts is known
LOOKS = {256: 500, 1024: 32, 4096: 30}  # in all from that one, for up to so many cells
A_SWEEP = 16  # of more than FEW_CELLS in each sweep, where there are several axes
FEW_WRITTEN = 128  # cells up to which what is asked of them is sooner multiplied when it is written out
CLOSE = 1e-6  # relative gain over ten steps that ends it sooner


def with_sums(theta: Floats, pure: bool, bits: int) -> AxisPart:
    """Integer p-identity strategy of given sums theta, (p, n); columns sum to 2^bits, their squares to about 4^bits
    (zCDP).

    >>> from sfumato.queries import AllRanges
    >>> from sfumato.least_squares.gram import gram_of
    >>> part = with_sums(best_sums(gram_of(AllRanges(64)), True), True, 12)
    >>> part.queries, part.queries.constant_column_sum
    (Stack(Scaled(Identity(64), 64 weights), Weighted(4 x 64)), 4096)
    """
    n, matrix = theta.shape[1], _whole(theta, pure, bits)
    queries = Identity(n) if matrix is None else Stack(Scaled(Identity(n), matrix[0]), Weighted(matrix[1]))
    return AxisPart(queries, np.ones(queries.rows))


def better_sums(gram: Gram, before: Floats, pure: bool) -> Floats:
    """Re-optimise sums (p, n) for a Gram matrix close to the one they were optimal for."""
    return _optimised(gram, before, pure, _looks(gram.n, swept=True))[1]


@lru_cache(maxsize=256)
def best_sums(gram: Gram, pure: bool, *, swept: bool = False) -> Floats:
    """Optimal Theta (p, n) before columns are normalised; swept: fewer steps, since another sweep follows."""
    starts = _starts(gram.n)
    if len(starts) > 1:
        results = [_optimised(gram, start, pure, FIRST_LOOKS) for start in starts]
        starts = [min(results, key=lambda one: one[0])[1]]
    return _optimised(gram, starts[0], pure, _looks(gram.n, swept))[1]


def _looks(n: int, swept: bool) -> int:
    """Limit on function evaluations by size of the axis."""
    if swept and n > FEW_CELLS:
        return A_SWEEP
    return next(looks for cells, looks in LOOKS.items() if n <= cells)


def _starts(n: int) -> list[Floats]:
    """Starting matrices Theta (p, n) of the optimisation."""
    if n > FEW_CELLS:
        return [np.vstack([_bumps(n, n // 256), _bumps(n, n // 16)])]
    return [_bumps(n, p) for p in (1, 2, 3, 4, 6, 8, 10, 12, 13) if p == 1 or n // 32 <= p <= n // 6]


def _bumps(n: int, p: int) -> Floats:
    """Triangular bumps of p equal widths, (p, n)."""
    middles = (np.arange(p) + 0.5) * n / p
    return np.maximum(0.0, 1.0 - np.abs(np.arange(n) + 0.5 - middles[:, None]) * p / n)


def _optimised(gram: Gram, start: Floats, pure: bool, looks: int) -> tuple[float, Floats]:
    """Squared error and Theta (p, n) after optimisation from a start."""
    scale = 1.0 / error_and_gradient(start, gram, pure)[0]

    def scaled(flat: Floats) -> tuple[float, Floats]:
        error, gradient = error_and_gradient(flat.reshape(start.shape), gram, pure)
        return error * scale, gradient.reshape(-1) * scale

    error, optimum = least(scaled, start.reshape(-1), 0.0, LARGEST, looks=looks, close=CLOSE)
    return error / scale, optimum.reshape(start.shape)


def error_and_gradient(theta: Floats, gram: Gram, pure: bool) -> tuple[float, Floats]:
    """trace(V X^-1) for [I; theta] with normalised columns, and its gradient by theta, (p, n)."""
    size = 1.0 + theta.sum(axis=0) if pure else np.sqrt(1.0 + (theta**2).sum(axis=0))
    d, apart = 1.0 / size, size**2  # apart: diag(d)^-2
    sums = theta * d
    C = sums * apart
    core = np.linalg.inv(np.eye(len(theta)) + C @ sums.T)
    CV = C @ gram.dense if gram.n <= FEW_WRITTEN else gram.times(C)
    both = CV @ C.T
    error = float((gram.diagonal * apart).sum() - (core * both).sum())

    BV = core @ CV  # with B = sums X^-1
    BV *= apart
    outer = (core @ both @ core.T) @ C
    by_sums = outer - BV
    outer -= 2.0 * BV
    outer *= C
    by_d = -2.0 * d * (gram.diagonal * apart**2 + outer.sum(axis=0))
    through_d = 2.0 * np.einsum("ij,ij->j", by_sums, theta) + by_d
    by_sums *= 2.0 * d
    by_sums -= through_d * (d**2 if pure else d**3 * theta)
    return error, by_sums


def _whole(theta: Floats, pure: bool, bits: int) -> tuple[Floats, Floats] | None:
    """Round Theta to integers and fill up the cells to equal columns: (n,) and (p, n); None where no sums are left."""
    size = 1.0 + theta.sum(axis=0) if pure else np.sqrt(1.0 + (theta**2).sum(axis=0))
    sums = np.rint(theta / size * 2**bits).astype(np.int64)
    sums = sums[sums.any(axis=1)]
    if not len(sums):
        return None
    if pure:
        cells = np.maximum(1, 2**bits - sums.sum(axis=0))
    else:
        cells = np.maximum(1, np.floor(np.sqrt(np.maximum(1.0, 4.0**bits - (sums**2).sum(axis=0)))).astype(np.int64))
    return cells, sums
