"""A line, a small grid and tables on it, for the mechanisms that look for regions."""

from __future__ import annotations

import numpy as np

from sfumato.schema import Schema


def line(cells: int, **more: object) -> Schema:
    x = {"type": "integer", "lower": 0, "upper": cells - 1}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": x}, **more})


GRID = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "id", "contributions": 2},
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 23},
            "y": {"type": "integer", "lower": 0, "upper": 15},
        },
    }
)
X, Y = np.meshgrid(np.arange(24), np.arange(16), indexing="ij")
SHAPES = {
    "boxes": np.where((X < 12) & (Y < 8), 200, 5),
    "slope": 10 * X + 5 * Y,
    "sparse": np.where((X * 5 + Y * 3) % 23 == 0, 80, 0),
    "nothing": np.zeros_like(X),
}
