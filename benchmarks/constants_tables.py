"""Tables, releases and questions of constants_trials.py, made by formulas and seeds that no benchmark or test has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.kernel.budget import Cost
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Predicates
from sfumato.releases.release import Release
from sfumato.schema import Schema

Answer = tuple[float, float, float, float]  # value, truth, low, high
Answers = dict[str, dict[str, Answer]]  # by kind and by question
NONE = math.nan  # in the place of an interval
SALT = 77_041
EPSILONS = (Fraction(1), Fraction(1, 3))


# -- tables


def schema_of(sizes: tuple[int, ...], measure: bool = False, rows: int | None = None, **facts: Any) -> Schema:
    attributes = {f"v{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    made: dict[str, Any] = {"dataset": "t", "privacy_unit": "row", "attributes": attributes, **facts}
    made |= {"measures": {"m": {"lower": 0, "upper": 100, "step": 1}}} if measure else {}
    return Schema.from_dict(made | ({} if rows is None else {"expected_rows": rows}))


def line(size: int, rows: int, seed: int) -> np.ndarray:
    """Four shapes in turn: a comb of narrow bursts, a tide, a staircase with an empty part, geometric in no order."""
    rng, x = np.random.default_rng([SALT, size, seed]), np.arange(size) / size
    shape = seed % 4
    if shape == 0:
        density = sum(rng.exponential() * np.exp(-(((x - at) / 0.004) ** 2)) for at in rng.random(12)) + 1e-4
    elif shape == 1:
        density = 1.1 + np.sin(2 * math.pi * (x * rng.uniform(1, 3) + rng.random())) + 0.2 * x
    elif shape == 2:
        density = np.repeat(rng.gamma(0.7, size=16), -(-size // 16))[:size] * (x > 0.3) + 1e-9
    else:
        density = rng.permutation(0.97 ** np.arange(size)) + 1e-6
    return np.asarray(rng.multinomial(rows, density / density.sum()))


def plane(sizes: tuple[int, int], rows: int, seed: int) -> np.ndarray:
    """Rows around a bent ridge, and some anywhere; every other one has two dense rectangles besides."""
    rng = np.random.default_rng([SALT, *sizes, seed])
    x, y = np.meshgrid(*(np.arange(size) / size for size in sizes), indexing="ij")
    density = np.exp(-(((y - 0.5 - 0.3 * np.sin(4 * x + seed)) / 0.08) ** 2)) + 0.01
    if seed % 2:
        for a, b in rng.random((2, 2)) * 0.7:
            density = density + 4.0 * ((abs(x - a - 0.1) < 0.1) & (abs(y - b - 0.1) < 0.08))
    return np.asarray(rng.multinomial(rows, (density / density.sum()).reshape(-1))).reshape(sizes)


def kinds_of_rows(sizes: tuple[int, ...], rows: int, seed: int, kinds: int = 5) -> np.ndarray:
    """Hidden kinds of rows, each with a peak along every attribute."""
    rng = np.random.default_rng([SALT, *sizes, seed])
    counts, of = np.zeros(sizes, dtype=np.int64), rng.choice(kinds, rows, p=rng.dirichlet(np.full(kinds, 2.0)))
    codes = []
    for size in sizes:
        centre, width = rng.random(kinds) * size, 0.4 + rng.random(kinds) * size / 3
        codes.append(np.clip(np.floor(rng.normal(centre[of], width[of])), 0, size - 1).astype(np.int64))
    np.add.at(counts, tuple(codes), 1)
    return counts


def measured_sums(counts: np.ndarray, seed: int) -> np.ndarray:
    """Sums of a measure from 0 to 100 in steps from its centre: its mean follows the first two attributes."""
    rng, places = np.random.default_rng([SALT, 5, seed]), np.indices(counts.shape)
    mean = 20.0 * np.cos(3.0 * places[0] / counts.shape[0]) + 15.0 * places[1] / counts.shape[1] - 5.0
    spread = np.rint(rng.normal(0.0, 9.0 * np.sqrt(counts)))
    return np.asarray(np.clip(np.rint(mean * counts) + spread, -50 * counts, 50 * counts), dtype=np.int64)


# -- releases and questions


def released(name: str, schema: Schema, counts: np.ndarray, seed: int, cost: Cost, sums: Any = None, **options: Any):
    curator = over_counts(schema, counts, cost.budget, TestingEntropy(SALT + seed), sums or {})
    content = find_mechanism(name).with_options(options).run(curator, schema, cost.budget, None)
    return Release(content, name, describe_guarantee(cost.budget, schema), False)


def masks(counts: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Cells with rows and cells anywhere, boxes, values of single attributes, and all rows."""
    rng, shape = np.random.default_rng([SALT, 3, seed]), counts.shape
    held, places = np.flatnonzero(counts), np.indices(counts.shape)
    for cell in (*rng.choice(held, min(12, len(held)), replace=False), *rng.choice(counts.size, 8, replace=False)):
        yield "cells", np.arange(counts.size) == cell
    for number in range(20):
        inside = np.ones(shape, dtype=bool)
        for axis, size in enumerate(shape):
            a, b = sorted(rng.integers(0, size, 2).tolist())
            if number % 2 or axis == number // 2 % len(shape):  # along all attributes, or one of them
                inside &= (places[axis] >= a) & (places[axis] <= b)
        yield "ranges", inside.reshape(-1)
    for axis, size in enumerate(shape if len(shape) > 1 else ()):
        for value in rng.choice(size, min(4, size), replace=False):
            yield "values", (places[axis] == value).reshape(-1)
    yield "ranges", np.ones(counts.size, dtype=bool)


def asked(release: Release, counts: np.ndarray, seed: int) -> Answers:
    """Linear queries of a release that has every cell."""
    kinds, listed = zip(*masks(counts, seed), strict=True)
    queries, found = Predicates(counts.size, listed), Answers()
    truths = np.asarray(queries @ counts.reshape(-1)).tolist()
    for number, (kind, one, truth) in enumerate(zip(kinds, release.answer(queries), truths, strict=True)):
        found.setdefault(kind, {})[str(number)] = (one.value, truth, one.low, one.high)
    return found


def of_cells(name: str, make: Callable[[int], np.ndarray], **options: Any) -> Callable[[int], Answers]:
    """A trial of a mechanism that answers linear queries."""

    def trial(seed: int) -> Answers:
        counts = make(seed)
        release = released(name, schema_of(counts.shape), counts, seed, Cost(EPSILONS[seed // 4 % 2]), **options)
        return asked(release, counts, seed)

    return trial


def by_sql(release: Release, counts: np.ndarray, seed: int, sums: np.ndarray | None = None) -> Answers:
    """Margins of one to three attributes, boxes, and averages, by SQL."""
    rng, names, found = np.random.default_rng([SALT, 4, seed]), [f"v{n}" for n in range(counts.ndim)], Answers()
    places, most = np.indices(counts.shape), 100
    for order in range(1, min(3, counts.ndim) + 1):
        every = combinations(range(counts.ndim), order)
        sets = [axes for axes in every if math.prod(counts.shape[axis] for axis in axes) <= most]
        for axes in (sets[each] for each in rng.choice(len(sets), min(3 - order // 2, len(sets)), replace=False)):
            truth = counts.sum(axis=tuple({*range(counts.ndim)} - {*axes})).reshape(-1).tolist()
            column = release.marginal(*(names[axis] for axis in axes)).column("count")
            for number, (one, count) in enumerate(zip(column, truth, strict=True)):
                found.setdefault(f"by {order}", {})[f"{axes} {number}"] = (one.value, count, one.low, one.high)
    for number in range(6):
        where, inside = [], np.ones(counts.shape, dtype=bool)
        for axis in sorted(rng.choice(counts.ndim, min(counts.ndim, 1 + number % 3), replace=False)):
            a, b = sorted(rng.integers(0, counts.shape[axis], 2).tolist())
            where.append(f"v{axis} BETWEEN {a} AND {b}")
            inside &= (places[axis] >= a) & (places[axis] <= b)
        condition, count = " AND ".join(where), int(counts[inside].sum())
        ((one,),) = release.query(f"SELECT COUNT(*) FROM t WHERE {condition}").rows
        found.setdefault("boxes", {})[condition] = (one.value, count, one.low, one.high)
        if sums is not None and count > 50:
            ((one,),) = release.query(f"SELECT AVG(m) FROM t WHERE {condition}").rows
            mean = 50.0 + float(sums[inside].sum()) / count
            found.setdefault("averages", {})[condition] = (one.value, mean, one.low, one.high)
    return found


def of_margins(
    name: str, sizes: tuple[int, ...], rows: int, *, measure: bool = False, delta: str | None = None
) -> Callable[[int], Answers]:
    """A trial of a mechanism that answers SQL about margins."""

    def trial(seed: int) -> Answers:
        counts = spiked(kinds_of_rows(sizes, rows, seed), seed)
        sums = measured_sums(counts, seed) if measure else None
        cost = Cost.stated(EPSILONS[seed % 2] * 2, delta)
        schema = schema_of(sizes, measure)
        release = released(name, schema, counts, seed, cost, {} if sums is None else {"m": sums})
        return by_sql(release, counts, seed, sums)

    return trial


def broad(seed: int) -> Answers:
    """Attributes of so many values that pairs of them are at the limits of what is looked at."""
    sizes, rows, rng = (300, 300, 150, 16), 6_000, np.random.default_rng([SALT, 9, seed])
    of, codes = rng.integers(0, 6, rows), []
    for size in sizes:
        centre = rng.random(6) * size
        codes.append(np.clip(np.floor(rng.normal(centre[of], size / 12)), 0, size - 1).astype(np.int64))
    schema, cost = schema_of(sizes), Cost.stated(2, "1e-9")
    cells, counts = np.unique(np.ravel_multi_index(codes, sizes), return_counts=True)
    curator = curator_of(schema, Aggregate(cells, counts, {}), cost.budget, TestingEntropy(SALT + seed))
    content = find_mechanism("margins").run(curator, schema, cost.budget, None)
    release, found = Release(content, "margins", describe_guarantee(cost.budget, schema), False), Answers()
    for number in range(12):
        where, inside = [], np.ones(rows, dtype=bool)
        for axis in sorted(rng.choice(4, 1 + number % 3, replace=False)):
            a, b = sorted(rng.integers(0, sizes[axis], 2).tolist())
            where.append(f"v{axis} BETWEEN {a} AND {b}")
            inside &= (codes[axis] >= a) & (codes[axis] <= b)
        ((one,),) = release.query(f"SELECT COUNT(*) FROM t WHERE {' AND '.join(where)}").rows
        found.setdefault("boxes", {})[" AND ".join(where)] = (one.value, int(inside.sum()), one.low, one.high)
    return found


def spiked(counts: np.ndarray, seed: int) -> np.ndarray:
    """Every sixth value of long attributes is rounded to by a third of its neighbours' rows."""
    counts = counts.copy()
    for axis, size in enumerate(counts.shape):
        for value in range(6, size if size > 20 else 0, 6):
            for beside in (value - 1, value + 1):
                here = [slice(None)] * counts.ndim
                here[axis] = min(beside, size - 1)
                moved = counts[tuple(here)] // 3
                counts[tuple(here)] -= moved
                here[axis] = value
                counts[tuple(here)] += moved
    return counts


def synthetic_rows(seed: int) -> Answers:
    """Margins of rows that are drawn from a release, beside those of the table, scaled to its rows."""
    sizes, rows = (6, 4, 5, 3), 4_000
    counts = kinds_of_rows(sizes, rows, seed)
    release = released("margins", schema_of(sizes), counts, seed, Cost.stated(2, "1e-9"))
    drawn = np.stack([release.sample(rows, seed=seed).column(f"v{place}").to_numpy() for place in range(len(sizes))])
    found: Answers = {}
    for order in (1, 2, 3):
        for places in combinations(range(len(sizes)), order):
            truth = counts.sum(axis=tuple({*range(len(sizes))} - {*places}))
            made = np.zeros_like(truth)
            np.add.at(made, tuple(drawn[place].astype(np.int64) for place in places), 1)
            for cell in np.ndindex(truth.shape):
                pair = (float(made[cell]), float(truth[cell]), NONE, NONE)
                found.setdefault(f"rows by {order}", {})[f"{places} {cell}"] = pair
    return found
