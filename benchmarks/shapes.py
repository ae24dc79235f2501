"""Tables of many shapes, made by the project itself, on several domains: what mechanisms are compared on.

Some are the public shapes that a plan tries mechanisms on; the others are what those leave out, unkind ones among them.
None is anybody's data and none was chosen for its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from boxes import Boxes
from sfumato.planner.simulate import prior_tables
from sfumato.schema import Schema

ROWS_PER_CELL = 10  # in shapes that have a scale to choose
DOMAINS = {
    "1024": (1024,),
    "4096": (4096,),
    "64x64": (64, 64),
    "128x128": (128, 128),
    "30x4x5": (30, 4, 5),  # the last two are categories
}
QUERIES = 2000
SEED = 5


@dataclass(frozen=True, eq=False)
class Case:
    """A table, and the boxes of cells that are asked of it."""

    name: str
    schema: Schema
    counts: np.ndarray
    boxes: Boxes


def schema_of(sizes: tuple[int, ...]) -> Schema:
    """Whole numbers along the first two attributes if there are no more, and else along the first alone."""
    ordered = len(sizes) if len(sizes) < 3 else 1
    attributes = {
        f"x{place}": {"type": "integer", "lower": 0, "upper": size - 1}
        if place < ordered
        else {"type": "category", "values": [f"v{value}" for value in range(size)]}
        for place, size in enumerate(sizes)
    }
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def own_cases() -> list[Case]:
    """Every shape on every domain."""
    cases = []
    for domain, sizes in DOMAINS.items():
        schema = schema_of(sizes)
        boxes = Boxes.drawn(schema, QUERIES, SEED)
        cases += [Case(f"{domain} {shape}", schema, counts, boxes) for shape, counts in tables(sizes).items()]
    return cases


def tables(sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Counts of each shape.

    clusters, smooth: of a plan's public shapes, as is rough, here called dense as it has hundreds of rows a cell.
    heavy: one cell in 50 holds rows, and how many has no mean (Pareto, index 1). spike: a million in one cell.
    alternating: every other cell is empty. steps: plateaus with the very same count. lines: rows on the diagonal, or
    heaped on round numbers where there is but one attribute. power: counts fall with the place by a power law.
    """
    stream, cells = np.random.default_rng(SEED), prod(sizes)
    codes = np.indices(sizes)
    priors = prior_tables(sizes, ROWS_PER_CELL * cells)
    weights = 1.0 / (1.0 - stream.random(sizes))  # Pareto of index 1
    spike = np.zeros(sizes)
    spike[tuple(size // 3 for size in sizes)] = 10**6
    found = {
        "heavy": np.where(stream.random(sizes) < 0.02, np.minimum(10 * weights, 10**6), 0),
        "clusters": priors["sparse"],
        "dense": prior_tables(sizes, 300 * cells)["rough"],
        "smooth": priors["smooth"],
        "even": priors["even"],
        "spike": spike,
        "alternating": np.where(codes.sum(axis=0) % 2 == 0, 2 * ROWS_PER_CELL, 0),
        "zeros": np.zeros(sizes),
        "steps": _steps(codes, sizes, stream),
        "lines": np.where(_on_lines(codes, sizes), stream.poisson(np.minimum(5 * weights, 10**5)), 0),
        "power": stream.poisson(10**4 / np.prod(codes + 1.0, axis=0)),
    }
    return {name: counts.reshape(sizes).astype(np.int64) for name, counts in found.items()}


def _steps(codes: np.ndarray, sizes: tuple[int, ...], stream: np.random.Generator) -> np.ndarray:
    """Plateaus between a few cuts at any place; a third of them empty, the others of 1 to 1,000 rows a cell."""
    blocks = np.zeros(sizes, dtype=np.int64)
    for along, size in zip(codes, sizes, strict=True):
        cuts = np.sort(stream.integers(0, size, min(size // 2, round(12 ** (1 / len(sizes))))))
        blocks = blocks * (len(cuts) + 1) + np.searchsorted(cuts, along, side="right")
    levels = np.rint(10 ** stream.uniform(0, 3, blocks.max() + 1)) * (stream.random(blocks.max() + 1) > 1 / 3)
    return levels[blocks]


def _on_lines(codes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    if len(sizes) == 1:
        return codes[0] % 10 == 0
    places = [(along + 0.5) / size for along, size in zip(codes, sizes, strict=True)]
    widest = max(1 / size for size in sizes[1:])
    return np.all([np.abs(place - places[0]) < widest / 2 for place in places[1:]], axis=0)
