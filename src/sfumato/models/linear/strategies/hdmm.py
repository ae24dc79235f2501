"""The best strategy found for a workload: several kinds are optimised, the expected error decides.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018 (HDMM): p-identity strategies per axis, optimised in turn (OPT_x), and
tables by some of the axes (OPT_M, which also serves unions of products). Single cells, trees, greedily weighed trees
and wavelets are candidates like any other. On each axis of a product the best of p-identity and trees is taken.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.expected_error import overall_error
from sfumato.least_squares.gram import Gram
from sfumato.least_squares.products import kind, products
from sfumato.models.linear.strategies.greedy import greedy_for
from sfumato.models.linear.strategies.marginal import marginal_strategy
from sfumato.models.linear.strategies.per_axis import AxisPart, axis_by_axis, combined
from sfumato.models.linear.strategies.pidentity import MOST_CELLS, best_sums, better_sums, with_sums
from sfumato.models.linear.strategies.trees import WEIGHT_BITS, tree_for, tree_strategy
from sfumato.models.linear.strategies.wavelets import wavelet_strategy
from sfumato.queries import Identity, Workload
from sfumato.queries.strategy import Strategy

MOST_CELLS_BESIDE_OTHERS = 2**10  # of an axis whose sums are optimised; several axes are optimised several times over
SWEEPS = 2  # over the axes of a product; a third gained a thousandth
MANY_AXES = 3  # from which products of sums were never better than tables
BITS = 20  # of all axes' weights together: counts times weights stay below 2^62 for 2^42 rows


def best_strategy(domain: Domain, workload: Workload, pure: bool, *, bits: int = BITS) -> Strategy:
    """The strategy of least expected error among all kinds.

    >>> import numpy as np
    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import AllRanges
    >>> domain = Domain((Axis("age", "integer", np.arange(65.0)),))
    >>> best_strategy(domain, Workload(("ranges",), (AllRanges(64),)), True).queries
    Stack(Scaled(Identity(64), 64 weights), Weighted(4 x 64))
    """
    return _best(_Case(_key(domain, workload), domain, workload), pure, bits)


@dataclass(frozen=True)
class _Case:
    """A domain and a workload, equal to others of the same sizes and families, so that none is optimised twice."""

    key: tuple[object, ...]
    domain: Domain = field(compare=False)
    workload: Workload = field(compare=False)  # kept, so that what the key tells apart by identity stays what it was


def _key(domain: Domain, workload: Workload) -> tuple[object, ...]:
    blocks = []
    for block in workload.blocks:
        parts = products(block, domain.shape)
        told = id(block) if parts is None else tuple((one.weight, *map(kind, one.factors)) for one in parts)
        blocks.append((block.rows, told))
    return (domain.shape, tuple(axis.ordered for axis in domain), tuple(blocks), workload.weights)


@lru_cache(maxsize=64)
def _best(case: _Case, pure: bool, bits: int) -> Strategy:
    found = candidates(case.domain, case.workload, pure, bits=bits)
    errors = {name: overall_error(strategy, case.workload, pure) for name, strategy in found.items()}
    return found[min(errors, key=lambda name: errors[name])]


def candidates(domain: Domain, workload: Workload, pure: bool, *, bits: int = BITS) -> dict[str, Strategy]:
    """All kinds of strategy that are tried, by name."""
    found = {
        "cells": Strategy(Identity(domain.size)),
        "trees": tree_strategy(domain, workload, pure),
        "wavelets": wavelet_strategy(domain, workload, pure),
    }
    several = sum(size > 1 for size in domain.shape)
    if several < MANY_AXES:
        found["product"] = product_strategy(domain, workload, pure, bits=bits)
    if several > 1:
        for name, trees in (("tables", False), ("tables of trees", True)):
            tables = marginal_strategy(domain, workload, pure, trees=trees)
            if tables is not None:
                found[name] = tables
    return found


def product_strategy(domain: Domain, workload: Workload, pure: bool, *, bits: int = BITS) -> Strategy:
    """On every axis the best of p-identity, tree and greedy tree, given the other axes; combined."""
    axes = max(1, sum(size > 1 for size in domain.shape))
    whole, tree_bits = min(12, bits // axes), min(12, WEIGHT_BITS // axes)
    most = MOST_CELLS if axes == 1 else MOST_CELLS_BESIDE_OTHERS
    before: dict[int, tuple[Gram, Floats]] = {}  # what was asked of each axis in the sweep before, and its sums

    def choose(axis: int, gram: Gram) -> AxisPart:
        parts = [AxisPart.cells(gram.n)]
        if gram.n > 1:
            parts += [tree_for(gram, pure, "optimised", tree_bits), greedy_for(gram, pure, min(10, tree_bits))]
        if 1 < gram.n <= most:
            asked, sums = before.get(axis) or (gram, best_sums(gram, pure, swept=axes > 1))
            sums = sums if asked == gram else better_sums(gram, sums, pure)
            before[axis] = gram, sums
            parts.append(with_sums(sums, pure, whole))
        return min(parts, key=lambda part: part.error(gram, pure))

    return combined(axis_by_axis(domain, workload, choose, SWEEPS))
