"""Made-up boundaries: rectangles, triangles and wobbly borders, as GeoJSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Corner = tuple[float, float]


def rectangle(west: float, south: float, east: float, north: float) -> list[Corner]:
    return [(west, south), (east, south), (east, north), (west, north), (west, south)]


def polygon(*rings: Sequence[Corner]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": rings}


def several(*polygons: Sequence[Sequence[Corner]]) -> dict[str, Any]:
    return {"type": "MultiPolygon", "coordinates": polygons}


def feature(shape: Mapping[str, Any] | None, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": shape}


def write(path: Path, features: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)}))
    return path


def quarters(path: Path, names: Sequence[str] = ("North", "South", "East", "West")) -> Path:
    """Four rectangles side by side, named by the property `name`."""
    return write(path, [feature(polygon(rectangle(3 * n, 0, 3 * n + 3, 4)), name=one) for n, one in enumerate(names)])


def wobbly(rows: int, columns: int, corners: int = 60) -> list[dict[str, Any]]:
    """A grid of areas whose common borders wander, each with so many corners; each area has a number as its `id`."""
    some = np.random.default_rng(4)
    borders: dict[tuple[Corner, Corner], list[Corner]] = {}

    def border(one: Corner, other: Corner) -> list[Corner]:
        ends = min(one, other), max(one, other)
        if ends not in borders:
            share = np.linspace(0, 1, corners)[:, None]
            aside = np.sin(np.pi * share) * some.uniform(-0.008, 0.008, (corners, 2))  # none where borders meet
            line = np.array(ends[0]) * (1 - share) + np.array(ends[1]) * share + aside
            borders[ends] = [ends[0], *map(tuple, line[1:-1].tolist()), ends[1]]
        return borders[ends] if one < other else borders[ends][::-1]

    found = []
    for x in range(columns):
        for y in range(rows):
            around = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)]
            ring = [corner for one, other in pairwise(around) for corner in border(one, other)[:-1]]
            found.append(feature(polygon([*ring, ring[0]])) | {"id": y * columns + x})
    return found
