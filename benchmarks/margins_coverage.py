"""How often the 95 % intervals of `margins` hold, by kind of question: totals, cells of one to four attributes,
filters, shares and averages. Run: python benchmarks/margins_coverage.py [FOLDER] [--runs N] [--pure]

FOLDER has tables of codes, NAME.csv with NAME-domain.json ({attribute: number of values}); without it, synthetic tables
are used alone: a survey of 15 questions, a sparse table, and one whose attributes have nothing to do with each other.
Cells are drawn among those that hold rows, at random; ranges and sets of values at random. Error bars were never fitted
to these tables; what was chosen by trial is on docs/constants.md.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from sfumato.kernel.budget import Cost
from sfumato.kernel.counts import Rows, short, words_of
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

MECHANISM = "margins"
QUESTIONS = 30  # of each kind, asked of each release


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("folder", nargs="?", type=Path)
    asked.add_argument("--runs", type=int, default=2)
    asked.add_argument("--pure", action="store_true")
    asked.add_argument("--epsilon", default="1")
    given = asked.parse_args()
    rng = np.random.default_rng(20_261)
    held: dict[tuple[str, str], list[float]] = defaultdict(list)
    tables = synthetic(np.random.default_rng(7)) | (read(given.folder) if given.folder else {})
    for name, (codes, sizes) in tables.items():
        for _ in range(given.runs):
            released = release(codes, sizes, Cost.stated(given.epsilon, None if given.pure else "1e-9"))
            for kind, sql, truth in questions(codes, sizes, rng):
                ((found,),) = released.query(sql).rows
                held[name, kind].append(found.low - 1e-9 <= truth <= found.high + 1e-9)
    kinds = list(dict.fromkeys(kind for _, kind in held))
    print(f"{'table':12}" + "".join(f"{kind:>9}" for kind in kinds) + f"{'pooled':>9}")
    for name in [*tables, "pooled"]:
        rows = {
            kind: [hit for (n, k), each in held.items() if k == kind and name in (n, "pooled") for hit in each]
            for kind in kinds
        }
        cells = "".join(f"{np.mean(each):9.3f}" for each in rows.values())
        print(f"{name:12}{cells}{np.mean([hit for each in rows.values() for hit in each]):9.3f}")


def release(codes: np.ndarray, sizes: list[int], cost: Cost) -> Release:
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {f"a{i}": {"type": "integer", "lower": 0, "upper": size - 1} for i, size in enumerate(sizes)},
            "measures": {"m": {"lower": 0, "upper": 100, "step": "1/100", "missing": "drop"}},
        }
    )
    words = []
    for run in words_of(schema.domain):
        word, below = np.zeros(len(codes), dtype=np.int64), 1
        for place in run:
            word, below = word * sizes[place] + codes[:, place], below * sizes[place]
        words.append(short(word, below))
    steps = np.rint((measure(codes, sizes) - 50) * 100).astype(np.int64)
    curator = curator_of(schema, Rows(schema.domain, tuple(words), {"m": steps}), cost.budget, SystemEntropy())
    content = find_mechanism(MECHANISM).run(curator, schema, cost.budget, None)
    return Release(content, MECHANISM, describe_guarantee(cost.budget, schema, cost), True)


def measure(codes: np.ndarray, sizes: list[int]) -> np.ndarray:
    """A value that the first two attributes, their product and chance decide."""
    first, second = codes[:, 0] / max(sizes[0] - 1, 1), codes[:, 1] / max(sizes[1] - 1, 1)
    noise = np.random.default_rng(5).uniform(-20, 20, len(codes))
    return np.round(np.clip(30 + 30 * first - 15 * second + 20 * first * second + noise, 0, 100), 2)


def questions(codes: np.ndarray, sizes: list[int], rng: np.random.Generator):
    axes, values = codes.shape[1], measure(codes, sizes)
    yield "total", "SELECT COUNT(*) FROM t", len(codes)
    for order in (1, 2, 3, 4):
        for _ in range(QUESTIONS):
            places = rng.choice(axes, order, replace=False)
            table = np.unique(codes[:, places], axis=0)
            cell = table[rng.integers(len(table))]
            where = " AND ".join(f"a{place} = {value}" for place, value in zip(places, cell, strict=True))
            yield (
                f"{order}-way",
                f"SELECT COUNT(*) FROM t WHERE {where}",
                int((codes[:, places] == cell).all(axis=1).sum()),
            )
    for kind in ("filter", "share", "average"):
        for _ in range(QUESTIONS):
            where, inside = some_filter(codes, sizes, rng, int(rng.integers(1, 4)))
            if kind == "filter":
                yield kind, f"SELECT COUNT(*) FROM t WHERE {where}", int(inside.sum())
                continue
            if inside.sum() < 100:
                continue
            if kind == "average":
                yield kind, f"SELECT AVG(m) FROM t WHERE {where}", float(values[inside].mean())
                continue
            part, within = some_filter(codes, sizes, rng, 1)
            share = float((within & inside).sum() / inside.sum())
            yield kind, f"SELECT COUNT(*) FILTER (WHERE {part}) / COUNT(*) FROM t WHERE {where}", share


def some_filter(codes: np.ndarray, sizes: list[int], rng: np.random.Generator, order: int) -> tuple[str, np.ndarray]:
    """Ranges of values of some attributes that leave a part of the rows."""
    while True:
        places = rng.choice(codes.shape[1], order, replace=False)
        inside, words = np.ones(len(codes), dtype=bool), []
        for place in places:
            low, high = sorted(rng.integers(0, sizes[place], 2))
            words.append(f"a{place} BETWEEN {low} AND {high}")
            inside &= (codes[:, place] >= low) & (codes[:, place] <= high)
        if inside.any():
            return " AND ".join(words), inside


def synthetic(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, list[int]]]:
    sizes = [2, 3, 4, 5, 2, 3, 5, 4, 2, 3, 5, 2, 4, 5, 3]
    kind = rng.integers(0, 4, 8_000)
    survey = np.stack([_by_kind(rng, kind, size, 0.6) for size in sizes], axis=1)
    many = [40, 60, 12, 25, 8, 50, 5, 3, 30, 10]
    clusters = rng.integers(0, 30, 20_000)
    sparse = np.stack([_by_kind(rng, clusters, size, 0.05) for size in many], axis=1)
    alone = [10, 8, 6, 5, 4, 3, 2, 12, 7, 9, 20, 15]
    apart = np.stack([rng.choice(size, 30_000, p=rng.dirichlet(np.ones(size))) for size in alone], axis=1)
    return {"survey": (survey, sizes), "sparse": (sparse, many), "independent": (apart, alone)}


def _by_kind(rng: np.random.Generator, kinds: np.ndarray, size: int, evenness: float) -> np.ndarray:
    shares = rng.dirichlet(np.full(size, evenness), int(kinds.max()) + 1).cumsum(axis=1)
    return np.minimum((rng.random(len(kinds))[:, None] > shares[kinds]).sum(axis=1), size - 1)


def read(folder: Path) -> dict[str, tuple[np.ndarray, list[int]]]:
    found = {}
    for path in sorted(folder.glob("*-domain.json")):
        name = path.name.removesuffix("-domain.json")
        codes = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1, dtype=np.int64)
        found[name] = (codes, list(json.loads(path.read_text()).values()))
    return found


if __name__ == "__main__":
    main()
