"""How often 95 % intervals of the mechanisms of one purpose hold the truth, kind of question by kind of question.

    python benchmarks/special_coverage.py [--runs 30] [--mechanisms fourier pac ...]

Each on three synthetic tables made for this page alone, with fresh noise, through the whole mechanism. What a release
gets wrong its intervals share, so the uncertainty (one standard error) is that of a mean over releases. It sees the
truth and is never imported.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from sfumato.domain import ValueSet
from sfumato.domain.predicates import Predicate
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.papers.pac.content import holds_in_cells
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import AllRanges, Identity
from sfumato.releases.release import Release
from sfumato.schema import Schema

Held = Iterator[tuple[str, bool]]
SHAPES = ("classes", "chain", "uneven")


def schema_of(sizes: tuple[int, ...]) -> Schema:
    attributes = {f"v{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def table(shape: str, sizes: tuple[int, ...], rows: int, seed: int) -> np.ndarray:
    """classes: a few hidden kinds of rows. chain: each attribute near the one before it. uneven: cells of a power."""
    rng = np.random.default_rng([29, seed])
    counts = np.zeros(sizes, dtype=np.int64)
    if shape == "uneven":
        chances = rng.permutation(np.arange(1.0, counts.size + 1) ** -1.1)
        return rng.multinomial(rows, chances / chances.sum()).reshape(sizes)
    codes = []
    kind = rng.integers(0, 4, rows)
    for place, size in enumerate(sizes):
        own = rng.choice(size, rows) if place == 0 else codes[-1] * size // sizes[place - 1]
        if shape == "classes":
            chances = rng.dirichlet(np.full(size, 0.9), 4)
            own = np.array([rng.choice(size, rows, p=each) for each in chances])[kind, np.arange(rows)]
        codes.append(np.where(rng.random(rows) < 0.3, rng.integers(0, size, rows), own))
    np.add.at(counts, tuple(codes), 1)
    return counts


def made(name: str, counts: np.ndarray, epsilon: Fraction | int, **options: object):
    schema, budget = schema_of(counts.shape), Budget.pure(Fraction(epsilon))
    curator = over_counts(schema, counts, budget, SystemEntropy(), {})
    return find_mechanism(name).with_options(options).run(curator, schema, budget, None)


def inside(found, truth: float) -> bool:
    return bool(found.low <= truth <= found.high)


def margins_of(content, counts: np.ndarray, most: int) -> Held:
    """The counts of all cells of all margins of up to `most` attributes, by SQL."""
    release = Release(content, "t", describe_guarantee(Budget.pure(1), content.schema), False)
    for number in range(most + 1):
        for places in combinations(range(counts.ndim), number):
            truth = counts.sum(axis=tuple(set(range(counts.ndim)) - set(places))).reshape(-1)
            column = release.marginal(*(f"v{place}" for place in places)).column("count")
            yield from ((f"counts by {number}", inside(*pair)) for pair in zip(column, truth, strict=True))


def quantiles(shape: str, seed: int) -> Held:
    values, rows = 5_000, (2_000, 20_000, 200_000)[seed % 3]
    x = np.arange(values) / values
    density = {
        "classes": np.exp(-(((x - 0.2) / 0.06) ** 2)) + 0.4 * np.exp(-(((x - 0.6) / 0.15) ** 2)),
        "chain": 1.0 / (0.02 + x) * (x < 0.9),
        "uneven": np.where(np.arange(values) % 100 == 0, 60.0, 1.0) * np.exp(-2 * x),
    }[shape]
    rng = np.random.default_rng([31, seed])
    counts = rng.multinomial(rows, density / density.sum())
    wanted = [Fraction(k, 8) for k in range(9)]
    content = made("quantiles", counts, Fraction(1, 2), quantiles=",".join(str(float(q)) for q in wanted))
    up_to, there = counts.cumsum(), np.flatnonzero(counts)
    for q in wanted:
        truth = there[0] if q == 0 else there[-1] if q == 1 else np.searchsorted(up_to, float(q) * rows)
        kind = "inner, heaps" if shape == "uneven" else "inner"
        kind = "least, greatest" if q in (0, 1) else f"{kind}, {rows / values:g} rows a value"
        yield kind, inside(content.value_of("v0", 0, q), truth)


def parity(shape: str, seed: int) -> Held:
    counts = table(shape, (2,) * 6, 3_000, seed)
    content = made("parity", counts, Fraction(1, 2))
    bits = np.indices(counts.shape).reshape(6, -1)
    on = [place for place, bit in enumerate(content.vector) if bit == "1"]
    says = (bits[on].sum(axis=0) % 2 == 1) != content.learnt.opposite
    yield (
        "share that fits",
        inside(content.agreement(), counts.reshape(-1)[says == (bits[5] == 1)].sum() / counts.sum()),
    )
    yield from margins_of(content, counts, 2)


def pac(shape: str, seed: int) -> Held:
    counts = table(shape, (12, 3, 2), 1_500, seed)
    content = made("pac", counts, Fraction(1, 4), rules="stumps")
    says = holds_in_cells(content.condition, content.schema.domain).reshape(counts.shape)[..., 0]
    wrong = np.where(says, counts[..., 0], counts[..., 1]).sum() / counts.sum()
    yield "share that is wrong", inside(content.wrong(), wrong)


def blr(shape: str, seed: int) -> Held:
    counts = table(shape, (7,), 800, seed)
    content = made("blr", counts, Fraction(1, 2))
    for kind, queries in (("cells", Identity(7)), ("ranges", AllRanges(7))):
        pairs = zip(content.linear(queries, 0.95), queries @ counts, strict=True)
        yield from ((kind, inside(*pair)) for pair in pairs)


def fourier(shape: str, seed: int) -> Held:
    counts = table(shape, (2, 2, 2, 2, 2), 2_000, seed)
    yield from margins_of(made("fourier", counts, Fraction(1, 2), order=2), counts, 2)


def conjunctions(shape: str, seed: int) -> Held:
    counts = table(shape, (2, 2, 2, 2), 20_000, seed)
    content = made("conjunctions", counts, 4, subsets=24)
    for number in range(3):
        for places in combinations(range(4), number):
            for codes in np.ndindex(*(2,) * number):
                where = dict(zip(places, codes, strict=True))
                truth = counts[tuple(where.get(axis, slice(None)) for axis in range(4))].sum()
                yield f"counts by {number}", inside(content.estimate(tuple(where.items())), truth)


def bayes(shape: str, seed: int) -> Held:
    counts = table(shape, (3, 4, 2, 3, 2), 5_000, seed)
    yield from margins_of(made("bayes", counts, 1), counts, 3)


def sq(shape: str, seed: int) -> Held:
    counts = table(shape, (6, 3, 2), 2_500, seed)
    learner = ("naive-bayes", "id3", "perceptron")[seed % 3]
    content = made("sq", counts, 1, learner=learner)
    codes, rows = np.indices(counts.shape).reshape(3, -1), counts.reshape(-1)
    strata, labels = content.model.strata(list(codes[:2])), content.model.labels
    yield (
        "share that is right",
        inside(content.right_in(range(len(labels)), 0.95), (rows * (labels[strata] == codes[2])).sum() / rows.sum()),
    )
    for stratum in range(len(labels)):
        held = (strata == stratum) * rows
        if held.sum() >= 50:
            share = (held * (codes[2] == labels[stratum])).sum() / held.sum()
            yield "share of a stratum", inside(content.right_in([stratum], 0.95), share)
    if content.tables:
        release = Release(content, "sq", describe_guarantee(Budget.pure(1), content.schema), False)
        column = release.marginal("v0", "v2").column("count")
        yield from (("counts", inside(*pair)) for pair in zip(column, counts.sum(axis=1).reshape(-1), strict=True))


def halfspace(shape: str, seed: int) -> Held:
    counts = table(shape, (40, 40), 10_000, seed)
    content, rng = made("halfspace", counts, 1), np.random.default_rng([37, seed])
    x, y = np.indices(counts.shape)
    for asked in range(20):
        a, b = rng.normal(0, 1, 2)
        a, b = (a, 0.0) if asked % 4 == 0 else (a, b)
        threshold = a * rng.integers(0, 40) + b * rng.integers(0, 40) + 1e-7
        truth = counts[a * x + b * y > threshold].sum()
        kind = "along an axis" if asked % 4 == 0 else "any line"
        yield kind, inside(content.halfspace({"v0": a, "v1": b}, threshold, 0.95), truth)


def mldp(shape: str, seed: int) -> Held:
    counts = table(shape, (48,), 4_000, seed)
    content, rng = made("mldp", counts, 1, model="ridge"), np.random.default_rng([41, seed])
    ends = np.sort(rng.integers(0, 48, (40, 2)), axis=1).tolist()
    sets = [ValueSet.above(a, inclusive=True) & ValueSet.below(b, inclusive=True) for a, b in ends]
    found = content.counts([(Predicate.where("v0", one), {}) for one in sets], 0.95)
    for (a, b), each in zip(ends, found, strict=True):
        yield "ranges", inside(each, counts[a : b + 1].sum())


ALL: dict[str, Callable[[str, int], Held]] = {
    each.__name__: each for each in (quantiles, parity, pac, blr, fourier, conjunctions, bayes, sq, halfspace, mldp)
}


def line(words: str, releases: list[list[bool]]) -> str:
    """The share held, and the standard error of it with releases as clusters."""
    held, asked = np.array([sum(each) for each in releases]), np.array([len(each) for each in releases])
    share = held.sum() / asked.sum()
    error = np.sqrt(((held - share * asked) ** 2).sum()) / asked.sum()
    return f"{words:38} {asked.sum():7,} {100 * share:6.1f} % +- {100 * error:.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--mechanisms", nargs="*", default=[*ALL])
    told = parser.parse_args()
    for name in told.mechanisms:
        by_kind: dict[str, list[list[bool]]] = defaultdict(list)
        for shape in SHAPES:
            for run in range(told.runs):
                of_release: dict[str, list[bool]] = defaultdict(list)
                for kind, held in ALL[name](shape, run):
                    for key in ("all", f"  {shape}", f"  {kind}"):
                        of_release[key].append(held)
                for key, each in of_release.items():
                    by_kind[key].append(each)
        for key in sorted(by_kind, key=lambda key: key != "all"):
            print(line(name if key == "all" else key, by_kind[key]), flush=True)
