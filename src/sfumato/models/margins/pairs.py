"""All pairs of attributes, in two passes: each by itself, then each with what the first pass says of all others.

What others say of a pair: if a goes with c and c with b, a goes with b. With B the matrix of all standardised pairs,
the part of block ab that all other attributes explain, linearly, is B_ab - [(Q_SS)^-1]_ab, with Q the inverse of B and
S the values of a and b; block ab itself cancels from it. How far that is believed, the pair's own likelihood says.

Tables of three attributes and more that views tell: drawn towards what smaller tables say, and made to agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from sfumato.arrays import Floats
from sfumato.models.margins.joining import join_counts
from sfumato.models.margins.shrinking import Directions, Shrunk, shrink_cells, shrink_pairs
from sfumato.models.margins.table import Noisy, Places, Table, independent, pooled, spread_out, subsets, sum_out

RIDGES = (0.1, 0.3, 1.0)  # how far pairs are trusted as mediators; chosen pair by pair, by likelihood
ROUNDS = 10  # of fitting a pair to its margins
LEAST = 1e-9  # of the rows, in a cell of a pair
MOST_VALUES = 600  # of an attribute whose directions are looked for; the time that it takes grows with their cube
MOST_TOGETHER = 2400  # values of all attributes that mediate, likewise

Pairs = Mapping[Places, Floats]
Along = dict[Places, tuple[Directions, Directions]]
Variation = Mapping[tuple[int, Places], Floats]  # by attribute and pair


def all_pairs(one_way: Sequence[Floats], seen: Mapping[Places, Noisy], ordered: Sequence[bool]) -> dict[Places, Table]:
    """The tables of all pairs of axes. one_way: their margins, with one sum. seen: the noisy pairs."""
    total, axes = float(one_way[0].sum()), len(one_way)
    product = {(a, b): independent([one_way[a], one_way[b]], total) for a in range(axes) for b in range(a + 1, axes)}
    small = _small([len(margin) for margin in one_way])
    among: dict[Places, Floats] = {(a, b): each for (a, b), each in product.items() if small[a] and small[b]}
    near = {places: noisy for places, noisy in seen.items() if places in among}
    shares = [margin / max(total, LEAST) for margin in one_way]

    def fitted(places: Places, table: Floats) -> Floats:
        return fit_margins(table, one_way[places[0]], one_way[places[1]])

    first = {axis: Directions.of(shares[axis], ordered[axis]) for axis in range(axes) if small[axis]}
    by_order: Along = {(a, b): (first[a], first[b]) for a, b in near}
    alone = shrink_pairs(near, among, {p: [] for p in near}, by_order)
    known = among | {places: fitted(places, each.estimate) for places, each in alone.items()}
    said = [mediated(one_way, known, ridge) for ridge in RIDGES]
    by_others = _along(shares, ordered, _variation(one_way, known, among, list(near)), list(near))
    shrunk = shrink_pairs(near, among, {p: [each[p] for each in said] for p in near}, by_others)
    tables: dict[Places, Table] = {}
    for places, apart in product.items():
        if places not in seen:
            estimate = said[-1].get(places, apart)
            tables[places] = Table(places, estimate, np.zeros(estimate.shape), estimate)
            continue
        found = shrunk[places] if places in shrunk else shrink_cells(*seen[places], apart)
        tables[places] = with_tails(places, fitted(places, found.estimate), found)
    return tables


def _along(shares: Sequence[Floats], ordered: Sequence[bool], varying: Variation, pairs: Sequence[Places]) -> Along:
    """The directions of both attributes of each pair, with what was seen of them in all other pairs."""

    def of(axis: int, places: Places) -> Directions:
        return Directions.of(shares[axis], ordered[axis], varying[axis, places])

    return {places: (of(places[0], places), of(places[1], places)) for places in pairs}


def with_tails(places: Places, estimate: Floats, found: Shrunk) -> Table:
    """A table whose errors have longer tails than their variances say, longest where there are rows."""
    usual = float((found.noise + found.model).mean()) / max(float(estimate.mean()), LEAST)
    return Table(places, estimate, found.noise, found.model + usual * estimate)


def _small(sizes: Sequence[int]) -> list[bool]:
    """Which attributes have few enough values to be compared with all others at once; the smallest come first."""
    found, values = [False] * len(sizes), 0
    for axis in np.argsort(sizes, kind="stable").tolist():
        values += sizes[axis]
        found[axis] = sizes[axis] <= MOST_VALUES and values <= MOST_TOGETHER
    return found


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
    axes = sorted({axis for places in pairs for axis in places})
    ends = np.cumsum([len(one_way[axis]) for axis in axes]).tolist()
    here = {axis: slice(end - len(one_way[axis]), end) for axis, end in zip(axes, ends, strict=True)}
    roots = {axis: np.sqrt(np.maximum(one_way[axis] / max(total, LEAST), 1e-12)) for axis in axes}
    if not axes:
        return {}
    every: Floats = np.zeros((ends[-1], ends[-1]))
    for axis, root in roots.items():
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
    one_way: Sequence[Floats], pairs: Pairs, product: Pairs, seen: Sequence[Places]
) -> dict[tuple[int, Places], Floats]:
    """For each attribute of each pair, how its values vary together in all its other pairs."""
    least = LEAST * max(float(one_way[0].sum()), 1.0)
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


ROUNDS_OF_LARGER = 12  # of making a table agree with smaller ones


def larger_tables(noisy: Sequence[tuple[Places, Noisy]], known: Mapping[Places, Table]) -> dict[Places, Table]:
    """All tables of three axes and more inside what was measured. known: tables of one axis and of two."""
    views = {places for places, _ in noisy if len(places) > 2}
    wanted = sorted(
        {part for view in views for part in subsets(view) if len(part) > 2}, key=lambda part: (len(part), part)
    )
    tables = dict(known)
    for places in wanted:
        axes = range(len(places))
        parts: dict[Places, Floats] = {
            tuple(places.index(place) for place in smaller): tables[smaller].estimate
            for smaller in combinations(places, len(places) - 1)
        }
        guess = join_counts([tables[place,].estimate for place in places], parts)
        found = shrink_cells(*pooled(noisy, places), guess)
        agreed = _agreeing(found.estimate, found.noise + found.model, parts, axes)
        tables[places] = with_tails(places, agreed, found)
    return {places: tables[places] for places in wanted}


def _agreeing(table: Floats, unsure: Floats, parts: Mapping[Places, Floats], axes: range) -> Floats:
    """A table changed to have these margins, most where least is known of it, and then, for the rest, in proportion."""
    for _ in range(ROUNDS_OF_LARGER):
        for places, margin in parts.items():
            lacking = (margin - sum_out(table, places, axes)) / np.maximum(sum_out(unsure, places, axes), LEAST)
            table = np.maximum(table + unsure * spread_out(lacking, places, axes), 0.0)
    table = np.maximum(table, LEAST)
    for _ in range(ROUNDS_OF_LARGER):
        for places, margin in parts.items():
            now = np.maximum(sum_out(table, places, axes), LEAST)
            table = table * spread_out(margin / now, places, axes)
    return table
