"""Random families of queries, small enough to be written out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from sfumato.queries import (
    AllRanges,
    Cells,
    Haar,
    Identity,
    Kron,
    Marginals,
    NominalHaar,
    Predicates,
    Prefix,
    Queries,
    Ranges,
    Scaled,
    Stack,
    Total,
    Tree,
    Weighted,
)

WHOLE_WEIGHTS = st.one_of(st.integers(-9, 9), st.sampled_from([2.0, Fraction(6, 3), np.int32(4)]))
ANY_WEIGHTS = st.one_of(WHOLE_WEIGHTS, st.sampled_from([0.5, Fraction(1, 3), -1.25, np.float32(0.1)]))


@st.composite
def ranges(draw: st.DrawFn, n: int) -> Ranges:
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).map(sorted)
    chosen = draw(st.lists(ends, min_size=1, max_size=7))
    return Ranges(n, [low for low, _ in chosen], [high for _, high in chosen])


@st.composite
def trees(draw: st.DrawFn, n: int) -> Tree:
    if draw(st.booleans()):
        return Tree(n, draw(st.integers(2, 5)))
    cuts, levels = list(range(n + 1)), [list(range(n + 1))]
    while len(cuts) > 2 and draw(st.booleans()):
        inner = draw(st.lists(st.sampled_from(cuts[1:-1]), max_size=len(cuts) - 3, unique=True))
        cuts = [0, *sorted(inner), n]
        levels.insert(0, cuts)
    return Tree.of_levels(levels)


def simple(n: int, weights: st.SearchStrategy[object]) -> st.SearchStrategy[Queries]:
    """The families that are not made of others, over n columns."""
    cells = st.lists(st.integers(0, n - 1), min_size=1, max_size=6)
    mask = st.lists(st.booleans(), min_size=n, max_size=n)
    row = st.lists(weights, min_size=n, max_size=n)
    return st.one_of(
        st.sampled_from([Identity(n), Total(n), Prefix(n), AllRanges(n), Haar(n), NominalHaar(n)]),
        ranges(n),
        trees(n),
        cells.map(lambda chosen: Cells(n, chosen)),
        st.lists(st.one_of(mask, cells.map(set), st.just(set())), min_size=1, max_size=5).map(
            lambda masks: Predicates(n, masks)
        ),
        st.lists(row, min_size=1, max_size=4).map(Weighted),
    )


def _selection(queries: Queries) -> st.SearchStrategy[Queries]:
    rows = st.integers(-queries.rows, queries.rows - 1)
    return st.one_of(st.lists(rows, min_size=1, max_size=8), rows).map(lambda index: queries[index])


@st.composite
def _scaled(draw: st.DrawFn, n: int, depth: int, weights: st.SearchStrategy[object]) -> Scaled:
    queries = draw(composed(n, depth, weights))
    rows = queries.rows
    return Scaled(queries, draw(st.one_of(weights, st.lists(weights, min_size=rows, max_size=rows))))


@st.composite
def composed(draw: st.DrawFn, n: int, depth: int, weights: st.SearchStrategy[object]) -> Queries:
    """Families over n columns, composed at most so many levels deep."""
    kinds = ["simple"] if depth == 0 else ["kron", "marginals", "scaled", "selected", "simple", "stack"]
    kind = draw(st.sampled_from(kinds))
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    if kind == "kron":
        first = draw(st.sampled_from(divisors))
        parts = [draw(composed(size, depth - 1, weights)) for size in (first, n // first)]
        if parts[0].rows * parts[1].rows <= 300:
            return Kron(*parts)
        return Kron(parts[0][:6], parts[1][::-3])
    if kind == "marginals":
        first = draw(st.sampled_from(divisors))
        sets = st.lists(st.sets(st.integers(0, 1)), min_size=1, max_size=3)
        return Marginals((first, n // first), draw(sets))
    if kind == "scaled":
        return draw(_scaled(n, depth - 1, weights))
    if kind == "selected":
        return draw(_selection(draw(composed(n, depth - 1, weights))))
    if kind == "stack":
        return Stack(*(draw(composed(n, depth - 1, weights)) for _ in range(draw(st.integers(1, 3)))))
    return draw(simple(n, weights))


SIZES = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
whole_queries = SIZES.flatmap(lambda n: composed(n, 3, WHOLE_WEIGHTS))
any_queries = SIZES.flatmap(lambda n: composed(n, 2, ANY_WEIGHTS))
