"""Random families of queries, small enough to be written out: a generator for every one that the kernel believes."""

from __future__ import annotations

from collections.abc import Callable
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
    Selected,
    Stack,
    Total,
    Tree,
    Weighted,
)

Weights = st.SearchStrategy[object]
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


def _cells(n: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, n - 1), min_size=1, max_size=6)


def _predicates(n: int) -> st.SearchStrategy[Predicates]:
    mask = st.lists(st.booleans(), min_size=n, max_size=n)
    masks = st.lists(st.one_of(mask, _cells(n).map(set), st.just(set())), min_size=1, max_size=5)
    return masks.map(lambda chosen: Predicates(n, chosen))


def _matrices(n: int, weights: Weights) -> st.SearchStrategy[Weighted]:
    return st.lists(st.lists(weights, min_size=n, max_size=n), min_size=1, max_size=4).map(Weighted)


@st.composite
def _krons(draw: st.DrawFn, n: int, depth: int, weights: Weights) -> Kron:
    first = draw(_divisors(n))
    parts = [draw(composed(size, depth, weights)) for size in (first, n // first)]
    if parts[0].rows * parts[1].rows <= 300:
        return Kron(*parts)
    return Kron(parts[0][:6], parts[1][::-3])


@st.composite
def _marginals(draw: st.DrawFn, n: int, depth: int, weights: Weights) -> Marginals:
    first = draw(_divisors(n))
    return Marginals((first, n // first), draw(st.lists(st.sets(st.integers(0, 1)), min_size=1, max_size=3)))


@st.composite
def _scaled(draw: st.DrawFn, n: int, depth: int, weights: Weights) -> Scaled:
    queries = draw(composed(n, depth, weights))
    rows = queries.rows
    return Scaled(queries, draw(st.one_of(weights, st.lists(weights, min_size=rows, max_size=rows))))


@st.composite
def _selections(draw: st.DrawFn, n: int, depth: int, weights: Weights) -> Queries:
    """By indexing, which is a `Selected` where no family says it shorter, or as one in any case."""
    queries = draw(composed(n, depth, weights))
    rows = st.integers(0, queries.rows - 1)
    if draw(st.booleans()):
        return Selected(queries, draw(st.lists(rows, min_size=1, max_size=8)))
    places = st.integers(-queries.rows, queries.rows - 1)
    return queries[draw(st.one_of(st.lists(places, min_size=1, max_size=8), places))]


def _stacks(n: int, depth: int, weights: Weights) -> st.SearchStrategy[Stack]:
    return st.lists(composed(n, depth, weights), min_size=1, max_size=3).map(lambda blocks: Stack(*blocks))


def _divisors(n: int) -> st.SearchStrategy[int]:
    return st.sampled_from([d for d in range(1, n + 1) if n % d == 0])


SIMPLE: dict[type[Queries], Callable[[int, Weights], st.SearchStrategy[Queries]]] = {
    AllRanges: lambda n, weights: st.just(AllRanges(n)),
    Cells: lambda n, weights: _cells(n).map(lambda chosen: Cells(n, chosen)),
    Haar: lambda n, weights: st.just(Haar(n)),
    Identity: lambda n, weights: st.just(Identity(n)),
    NominalHaar: lambda n, weights: st.just(NominalHaar(n)),
    Predicates: lambda n, weights: _predicates(n),
    Prefix: lambda n, weights: st.just(Prefix(n)),
    Ranges: lambda n, weights: ranges(n),
    Total: lambda n, weights: st.just(Total(n)),
    Tree: lambda n, weights: trees(n),
    Weighted: _matrices,
}
COMPOSED: dict[type[Queries], Callable[[int, int, Weights], st.SearchStrategy[Queries]]] = {
    Kron: _krons,
    Marginals: _marginals,
    Scaled: _scaled,
    Selected: _selections,
    Stack: _stacks,
}


@st.composite
def composed(draw: st.DrawFn, n: int, depth: int, weights: Weights) -> Queries:
    """Families over n columns, composed at most so many levels deep."""
    make = draw(st.sampled_from([None, *COMPOSED.values()])) if depth else None
    if make is not None:
        return draw(make(n, depth - 1, weights))
    return draw(draw(st.sampled_from(list(SIMPLE.values())))(n, weights))


def of_family(family: type[Queries], weights: Weights) -> st.SearchStrategy[Queries]:
    """Queries of one family, made of others at most one level deep."""
    if family in SIMPLE:
        return SIZES.flatmap(lambda n: SIMPLE[family](n, weights))
    return SIZES.flatmap(lambda n: COMPOSED[family](n, 1, weights))


SIZES = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
whole_queries = SIZES.flatmap(lambda n: composed(n, 3, WHOLE_WEIGHTS))
any_queries = SIZES.flatmap(lambda n: composed(n, 2, ANY_WEIGHTS))
