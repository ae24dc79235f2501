"""Gram matrix V = W^T W of a workload along one axis in short form, and workloads as sums of Kronecker products.

The squared error of a strategy A on a workload W is trace(W (A^T A)^-1 W^T) = trace(V (A^T A)^-1), so a strategy is
chosen by V alone. For all ranges V[i, j] = (i + 1) (n - j) with i <= j, for prefixes n - j, for the total 1: V is
semiseparable, a sum of products of a function of the earlier cell and one of the later, and V times a vector takes two
cumulative sums. Over several axes a workload is a sum of Kronecker products where it has that form (`products`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from hashlib import sha256

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.queries import AllRanges, Cells, Identity, Kron, Prefix, Queries, Scaled, Stack, Total

MOST_WRITTEN = 4096  # cells up to which a Gram matrix that has no short form is written out
SOME = 2**5  # nodes of a level, and cells of each, that stand for all where a tree is chosen


@dataclass(frozen=True, eq=False)
class Gram:
    """Semiseparable matrix V[i, j] = sum_t earlier[t, min(i, j)] later[t, max(i, j)] + diag(single) + full.

    earlier, later: (terms, n).
    single: (n,).
    full: (n, n) or None.

    >>> gram_of(AllRanges(3)).dense.tolist()
    [[3.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 3.0]]
    """

    earlier: Floats
    later: Floats
    single: Floats
    full: Floats | None = None

    @property
    def n(self) -> int:
        """Number of cells."""
        return len(self.single)

    @cached_property
    def _digest(self) -> bytes:
        """Hash of the matrix, for comparison."""
        parts = [self.earlier, self.later, self.single] + ([] if self.full is None else [self.full])
        return sha256(b"".join(repr(part.shape).encode() + part.tobytes() for part in parts)).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        """Equality of all numbers, so that no strategy is optimised twice."""
        return isinstance(other, Gram) and self._digest == other._digest

    @cached_property
    def diagonal(self) -> Floats:
        """Diagonal of V, (n,)."""
        own = (self.earlier * self.later).sum(axis=0) + self.single
        return np.asarray(own if self.full is None else own + np.diag(self.full))

    @cached_property
    def dense(self) -> Floats:
        """V as a dense matrix, (n, n)."""
        short = Gram(self.earlier, self.later, self.single).times(np.eye(self.n))
        return short if self.full is None else short + self.full

    def among(self, cells: Codes) -> Floats:
        """V between some cells, which may be listed several times, (some, some)."""
        low, high = np.minimum.outer(cells, cells), np.maximum.outer(cells, cells)
        result = np.where(low == high, self.single[cells], 0.0)
        for earlier, later in zip(self.earlier, self.later, strict=True):
            result += earlier[low] * later[high]
        return result if self.full is None else result + self.full[np.ix_(cells, cells)]

    @cached_property
    def grand(self) -> float:
        """Sum of all entries, 1^T V 1."""
        return float(self.times(np.ones((1, self.n))).sum())

    @cached_property
    def _terms(self) -> tuple[list[tuple[Floats, Floats]], float]:
        """Rank-one terms (earlier, later) of V that vary over cells, and the sum of the constant ones."""
        pairs = [*zip(self.earlier, self.later, strict=True)]
        flat = [bool((one == one[0]).all() and (other == other[0]).all()) for one, other in pairs]
        even = sum(float(one[0] * other[0]) for (one, other), same in zip(pairs, flat, strict=True) if same)
        return [pair for pair, same in zip(pairs, flat, strict=True) if not same], even

    def times(self, rows: Floats) -> Floats:
        """rows V, for rows (k, n)."""
        result = rows * self.single
        terms, even = self._terms
        if even:
            result += even * rows.sum(axis=1, keepdims=True)
        running = np.empty_like(result)  # used again and again: making room takes longer than what is put there
        for earlier, later in terms:
            np.multiply(rows, earlier, out=running)
            np.cumsum(running, axis=1, out=running)
            running *= later
            result += running
            np.multiply(rows, later, out=running)
            np.cumsum(running, axis=1, out=running)
            np.subtract(running[:, -1:].copy(), running, out=running)  # what comes after each cell
            running *= earlier
            result += running
        return result if self.full is None else result + rows @ self.full

    def squares(self, vector: Floats, cuts: Codes) -> Floats:
        """v^T V v for the restriction of a vector (n,) to each interval between two cuts, (intervals,)."""
        start, width = cuts[:-1], np.diff(cuts)
        own = vector**2 * self.single
        for earlier, later in zip(self.earlier, self.later, strict=True):
            weighed = vector * earlier
            own += vector * later * (2.0 * _ahead(weighed, start, width) + weighed)
        result = np.add.reduceat(own, start)
        if self.full is not None:
            both = np.add.reduceat(self.full * vector[:, None], start, axis=0)  # one row per stretch
            result += np.add.reduceat(both[np.repeat(np.arange(len(start)), width), np.arange(self.n)] * vector, start)
        return np.asarray(result)

    @cached_property
    def _corners(self) -> Floats:
        """Two-dimensional cumulative sums of the full part, (n + 1, n + 1)."""
        assert self.full is not None  # noqa: S101 (asked for only then)
        corners = np.zeros((self.n + 1, self.n + 1))
        corners[1:, 1:] = np.cumsum(np.cumsum(self.full, axis=0), axis=1)
        return corners

    def roughness(self, width: int) -> float:
        """Trace of V on the vectors that sum to zero within each of `width` even nodes.

        That is the sum over nodes of trace(V_node) - 1^T V_node 1 / size: what node totals leave unanswered. Exact for
        the diagonal and full parts. For the semiseparable part it is half the sum over a node's pairs of cells of V[i,
        i] + V[j, j] - 2 V[i, j], over the size, which is taken as proportional to the distance of the pair with a slope
        estimated from a sample of pairs. (The difference itself would be lost to rounding.)
        """
        left = (1.0 - width / self.n) * float(self.single.sum())
        if len(self.earlier) and width < self.n:
            small, larger = divmod(self.n, width)  # the size of most nodes, and how many have a cell more
            left += (width * (small**2 - 1) + larger * (2 * small + 1)) / 6.0 * self._kink(width)
        if self.full is not None:
            cuts = even_cuts(self.n, width)
            low, high, corner = cuts[:-1], cuts[1:], self._corners
            whole = corner[high, high] - corner[low, high] - corner[high, low] + corner[low, low]
            left += float(np.trace(self.full) - (whole / (high - low)).sum())
        return max(left, 0.0)

    def _kink(self, width: int) -> float:
        """Mean of V[i, i] + V[j, j] - 2 V[i, j] per unit of distance, over a sample of pairs within nodes."""
        low, cell, distances = _some_pairs(self.n, width)
        index, kinks = np.arange(cell.shape[1]), 0.0
        for earlier, later in zip(self.earlier, self.later, strict=True):
            here, there = earlier[cell], later[cell]
            rise, fall = here - earlier[low], there - later[low]
            risen = np.add.accumulate(rise, axis=1) - rise
            falling = np.add.accumulate(fall[:, ::-1], axis=1)[:, ::-1] - fall
            kinks += float((here * (index[::-1] * fall - falling) + there * (index * rise - risen)).sum())
        return kinks / distances

    def __mul__(self, weight: float) -> Gram:
        """V times a number."""
        full = None if self.full is None else self.full * weight
        return Gram(self.earlier * weight, self.later, self.single * weight, full)


@lru_cache(maxsize=1024)
def _some_pairs(n: int, width: int) -> tuple[Codes, Codes, float]:
    """Sample of even nodes: first cells (nodes, 1), sampled cells (nodes, points), sum of all pairwise distances."""
    nodes = (np.arange(min(width, SOME)) * width + width // 2) // min(width, SOME)
    low, size = nodes[:, None] * n // width, max(2, n // width)
    points = min(SOME, size)
    cell = np.minimum(low + (np.arange(points) * size + size // 2) // points, n - 1)
    return low, cell, float((cell * (2 * np.arange(points) - points + 1)).sum())


def even_cuts(n: int, width: int) -> Codes:
    """Boundaries of `width` nodes of nearly equal size, (width + 1,)."""
    return np.arange(width + 1, dtype=np.int64) * n // width


def _ahead(values: Floats, first: Codes, size: Codes) -> Floats:
    """Cumulative sum of earlier values within each interval, (n,)."""
    before = np.cumsum(values) - values
    return np.asarray(before - np.repeat(before[first], size))


def gram_of(queries: Queries) -> Gram:
    """Gram matrix of a family of queries over one axis, in the shortest form known."""
    n = queries.columns
    one, none, cell = np.ones((1, n)), np.zeros((0, n)), np.arange(n, dtype=np.float64)[None]
    if type(queries) is AllRanges:
        return Gram(cell + 1, n - cell, np.zeros(n))
    if type(queries) is Prefix:
        return Gram(one, n - cell, np.zeros(n))
    if type(queries) is Total:
        return Gram(one, one, np.zeros(n))
    if type(queries) in (Identity, Cells):
        return Gram(none, none, queries.column_squares().astype(np.float64))
    return Gram(none, none, np.zeros(n), queries.gram().astype(np.float64))


def gram_among(queries: Queries, cells: Codes) -> Floats | None:
    """Gram matrix of queries between some cells, (some, some); None where it has no short form and there are many.

    >>> gram_among(Kron(Total(2), AllRanges(3)), np.array([0, 4])).tolist()
    [[3.0, 2.0], [2.0, 4.0]]
    """
    if isinstance(queries, Stack):
        parts = [gram_among(block, cells) for block in queries.blocks]
        known = [part for part in parts if part is not None]
        return np.asarray(sum(known)) if len(known) == len(parts) else None
    if type(queries) is Kron:
        result = np.ones((len(cells), len(cells)))
        along = np.unravel_index(cells, [factor.columns for factor in queries.factors])
        for factor, codes in zip(queries.factors, along, strict=True):
            part = gram_among(factor, codes)
            if part is None:
                return None
            result *= part
        return result
    if not has_short_gram(queries) and queries.columns > MOST_WRITTEN:
        return None
    return gram_of(queries).among(cells)


def has_short_gram(queries: Queries) -> bool:
    """Whether the Gram matrix of a family has a form that is linear in the cells."""
    return type(queries) in (AllRanges, Prefix, Total, Identity, Cells)


def added(grams: list[Gram]) -> Gram:
    """Sum of Gram matrices, with terms of the same `later` factor merged."""
    earlier: dict[bytes, Floats] = {}
    later: dict[bytes, Floats] = {}
    for early, late in (term for gram in grams for term in zip(gram.earlier, gram.later, strict=True)):
        form = late.tobytes()
        earlier[form], later[form] = earlier.get(form, 0.0) + early, late
    full = [gram.full for gram in grams if gram.full is not None]
    n = grams[0].n
    return Gram(
        np.reshape(list(earlier.values()), (-1, n)),
        np.reshape(list(later.values()), (-1, n)),
        sum((gram.single for gram in grams[1:]), grams[0].single),
        sum(full[1:], full[0]) if full else None,
    )


@dataclass(frozen=True, eq=False)
class Product:
    """Kronecker product of one family of queries per axis; `weight` multiplies its squared error."""

    weight: float
    factors: tuple[Queries, ...]


def products(queries: Queries, sizes: tuple[int, ...]) -> list[Product] | None:
    """Queries as a list of Kronecker products over the axes with the same Gram matrix in sum; None if there is none.

    >>> [product.factors for product in products(Identity(6), (2, 3))]
    [(Identity(2), Identity(3))]
    """
    if type(queries) is Identity or type(queries) is Total:
        return [Product(1.0, tuple(type(queries)(size) for size in sizes))]
    if type(queries) is Kron and tuple(factor.columns for factor in queries.factors) == sizes:
        return [Product(1.0, queries.factors)]
    if isinstance(queries, Stack):
        parts = [products(block, sizes) for block in queries.blocks]
        return None if any(part is None for part in parts) else [term for part in parts for term in part or []]
    if type(queries) is Scaled and queries.weights.ndim == 0:
        inner = products(queries.queries, sizes)
        square = float(queries.weights) ** 2
        return None if inner is None else [Product(square * term.weight, term.factors) for term in inner]
    return [Product(1.0, (queries,))] if len(sizes) == 1 else None


def along_axes(blocks: Sequence[Queries]) -> list[tuple[Queries, ...]] | None:
    """Factors of each block along common axes; None where some block is no single Kronecker product over them.

    >>> along_axes([Total(6), Kron(Identity(2), Total(3))])
    [(Total(2), Total(3)), (Identity(2), Total(3))]
    """
    shapes = {tuple(factor.columns for factor in block.factors) for block in blocks if type(block) is Kron}
    (sizes, *more) = shapes or {(blocks[0].columns,)}
    by_block = [None if more else products(block, sizes) for block in blocks]
    single = [
        terms[0].factors for terms in by_block if terms is not None and len(terms) == 1 and terms[0].weight == 1.0
    ]
    return single if len(single) == len(blocks) else None


def grams_of(wanted: list[Product], axis: int, shared: dict[object, Gram] | None = None) -> list[Gram]:
    """Gram matrix of every product along one axis; equal families share one, also between calls (`shared`)."""
    usual, own = {} if shared is None else shared, dict[object, Gram]()
    for factor in (product.factors[axis] for product in wanted):
        cached = usual if isinstance(kind(factor), type) else own
        if kind(factor) not in cached:
            cached[kind(factor)] = gram_of(factor)
    cached = usual | own
    return [cached[kind(product.factors[axis])] for product in wanted]


def kind(factor: Queries) -> object:
    """Cache key of the queries along one axis: equal keys mean equal queries."""
    return type(factor) if type(factor) in (AllRanges, Identity, Prefix, Total) else id(factor)
