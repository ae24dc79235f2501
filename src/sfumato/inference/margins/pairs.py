"""All pairs of attributes, in two passes: each by itself, then each with what the first pass says of all others.

What others say of a pair: if a goes with c and c with b, a goes with b. With B the matrix of all standardised pairs,
the part of block ab that all other attributes explain, linearly, is B_ab - [(Q_SS)^-1]_ab, with Q the inverse of B and
S the values of a and b; block ab itself cancels from it. How far that is believed, the pair's own likelihood says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.margins.shrinking import Directions, shrink
from sfumato.inference.margins.table import Noisy, Places, Table, independent

RIDGES = (0.1, 0.3, 1.0)  # how far pairs are trusted as mediators; chosen pair by pair, by likelihood
ROUNDS = 10  # of fitting a pair to its margins
LEAST = 1e-9  # of the rows, in a cell of a pair

Pairs = Mapping[Places, Floats]


def all_pairs(one_way: Sequence[Floats], seen: Mapping[Places, Noisy], ordered: Sequence[bool]) -> dict[Places, Table]:
    """The tables of all pairs of axes. one_way: their margins, with one sum. seen: the noisy pairs."""
    total, axes = float(one_way[0].sum()), len(one_way)
    every: list[Places] = [(a, b) for a in range(axes) for b in range(a + 1, axes)]
    product: dict[Places, Floats] = {(a, b): independent([one_way[a], one_way[b]], total) for a, b in every}
    shares = [margin / max(total, LEAST) for margin in one_way]
    first = [Directions.of(share, order) for share, order in zip(shares, ordered, strict=True)]
    alone = dict(product)
    for (a, b), (noisy, variance) in seen.items():
        found = shrink(noisy, variance, product[a, b], [], (first[a], first[b]))
        alone[a, b] = fit_margins(found.estimate, one_way[a], one_way[b])
    said = [mediated(one_way, alone, ridge) for ridge in RIDGES]
    varying = _variation(one_way, alone, product, seen)
    tables: dict[Places, Table] = {}
    for places in every:
        a, b = places
        if places not in seen:
            estimate = said[-1][places]
            tables[places] = Table(places, estimate, np.zeros(estimate.shape), estimate)
            continue
        noisy, variance = seen[places]
        along = (
            Directions.of(shares[a], ordered[a], varying[a, places]),
            Directions.of(shares[b], ordered[b], varying[b, places]),
        )
        found = shrink(noisy, variance, product[places], [each[places] for each in said], along)
        estimate = fit_margins(found.estimate, one_way[a], one_way[b])
        # Errors of single cells have longer tails than their variances say, and longest where there are rows.
        usual = float((found.noise + found.model).mean()) / max(float(estimate.mean()), LEAST)
        tables[places] = Table(places, estimate, found.noise, found.model + usual * estimate)
    return tables


def fit_margins(table: Floats, rows: Floats, columns: Floats, rounds: int = ROUNDS) -> Floats:
    """A two-way table brought to its margins by proportions; there is nothing where a margin has nothing."""
    held = (rows > 0)[:, None] & (columns > 0)
    fitted: Floats = np.maximum(table, LEAST * rows.sum() / table.size) * held
    for _ in range(rounds):
        fitted *= (rows / np.maximum(fitted.sum(axis=1), 1e-12))[:, None]
        fitted *= columns / np.maximum(fitted.sum(axis=0), 1e-12)
    return fitted


def mediated(one_way: Sequence[Floats], pairs: Pairs, ridge: float) -> dict[Places, Floats]:
    """Every pair as all other pairs would have it."""
    total = float(one_way[0].sum())
    starts = np.cumsum([0, *(len(margin) for margin in one_way)])
    here = [slice(starts[axis], starts[axis + 1]) for axis in range(len(one_way))]
    roots = [np.sqrt(np.maximum(margin / max(total, LEAST), 1e-12)) for margin in one_way]
    every: Floats = np.zeros((int(starts[-1]), int(starts[-1])))
    for axis, root in enumerate(roots):
        every[here[axis], here[axis]] = (1.0 + ridge) * np.eye(len(root)) - np.outer(root, root)
    for (a, b), table in pairs.items():
        expected = np.outer(roots[a], roots[b])
        every[here[a], here[b]] = table / max(total, LEAST) / expected - expected
        every[here[b], here[a]] = every[here[a], here[b]].T
    sizes, vectors = np.linalg.eigh(every)
    sizes = np.maximum(sizes, ridge / 2.0)  # noise can make it indefinite
    every, inverse = (vectors * sizes) @ vectors.T, (vectors / sizes) @ vectors.T
    found: dict[Places, Floats] = {}
    for a, b in pairs:
        both = np.r_[here[a], here[b]]
        own = np.linalg.inv(inverse[np.ix_(both, both)])[: len(roots[a]), len(roots[a]) :]
        expected = np.outer(roots[a], roots[b])
        explained = (every[here[a], here[b]] - own + expected) * expected * total
        found[a, b] = fit_margins(explained, one_way[a], one_way[b], ROUNDS // 2)
    return found


def _variation(
    one_way: Sequence[Floats], pairs: Pairs, product: Pairs, seen: Mapping[Places, Noisy]
) -> dict[tuple[int, Places], Floats]:
    """For each attribute of each pair, how its values vary together in all its other pairs."""
    least = LEAST * float(one_way[0].sum())
    whole = [np.zeros((len(margin), len(margin))) for margin in one_way]
    own: dict[tuple[int, Places], Floats] = {}
    for places in seen:
        a, b = places
        off = pairs[places] - product[places]
        own[a, places] = (off / np.maximum(one_way[b], least)) @ off.T
        own[b, places] = (off.T / np.maximum(one_way[a], least)) @ off
        whole[a] += own[a, places]
        whole[b] += own[b, places]
    return {(axis, places): whole[axis] - part for (axis, places), part in own.items()}
