"""Two releases of rho, fused by `sfumato combine`, beside one of twice the rho: errors of the same questions.

    python benchmarks/combine.py [RELEASES]

By the formula of the errors that files state, and as they fell out: root mean square of answer minus truth over pairs
of releases with real noise (RELEASES of each kind, 20 unless stated). The table is made here, and no private one.
Cells are released by `matrix` for a workload of single cells, trees by `hierarchical`, margins by `residual`.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf
from sfumato.kernel.ledger.ledger import Ledger

SCHEMA = {
    "dataset": "visits",
    "privacy_unit": "row",
    "budget": {"rho": 100000},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 63},
        "sex": {"type": "category", "values": ["F", "M"]},
        "ward": {"type": "category", "values": [*"ABCDEF"]},
    },
}
QUESTIONS = [
    "SELECT sex, ward, COUNT(*) AS n FROM visits GROUP BY sex, ward",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE age BETWEEN 13 AND 40 GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits",
]
KINDS = {"cells": "matrix", "trees": "hierarchical", "margins": "residual"}
RHO = 0.02


def answers(release: sf.Release) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard errors of all questions."""
    found = [row[-1] for text in QUESTIONS for row in release.query(text).rows]
    return np.array([one.value for one in found]), np.array([one.stderr for one in found])


def truth(rows: pd.DataFrame) -> np.ndarray:
    """The same from the table; the benchmark may see it."""
    first = rows.groupby(["sex", "ward"]).size().to_numpy()
    second = rows[rows.age.between(13, 40)].groupby("ward").size().to_numpy()
    return np.concatenate([first, second, [len(rows)]])


def main() -> None:
    warnings.simplefilter("ignore")
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    draw = np.random.default_rng(32)
    rows = pd.DataFrame(
        {
            "age": np.minimum(63, draw.gamma(3, 9, 20_000).astype(int)),
            "sex": draw.choice([*"FM"], 20_000),
            "ward": draw.choice([*"ABCDEF"], 20_000, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03]),
        }
    )
    exact, schema = truth(rows), sf.Schema.from_dict(SCHEMA)
    print(f"rho {RHO} twice, fused, beside rho {2 * RHO} once; {number} releases of each")
    print(f"{'kind':8} {'one of rho':>10} {'fused':>8} {'one of 2 rho':>12} {'fused / one':>11}   as it fell out")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cells = "SELECT age, sex, ward, COUNT(*) FROM visits GROUP BY age, sex, ward"
        for kind, mechanism in KINDS.items():
            stated = {"fused": [], "whole": [], "one": []}
            off = {"fused": [], "whole": [], "one": []}
            more = {"workload": cells, "workload_only": True} if kind == "cells" else {}
            for _ in range(number):
                for name, rho in (("a", RHO), ("b", RHO), ("whole", 2 * RHO)):
                    found = sf.release(
                        rows,
                        schema,
                        rho=str(rho),
                        delta="1e-9",
                        mechanism=mechanism,
                        ledger=Ledger(place / "l"),
                        again=True,
                        **more,
                    )
                    found.save(place / f"{name}.sfumato")
                fused = sf.combine(place / "a.sfumato", place / "b.sfumato")
                for name, release in (
                    ("fused", fused),
                    ("whole", sf.open(place / "whole.sfumato")),
                    ("one", sf.open(place / "a.sfumato")),
                ):
                    values, errors = answers(release)
                    stated[name].append(np.sqrt((errors**2).mean()))
                    off[name].append(((values - exact) ** 2).mean())
            mean = {name: float(np.mean(each)) for name, each in stated.items()}
            fell = float(np.sqrt(np.mean(off["fused"]) / np.mean(off["whole"])))
            ratio = mean["fused"] / mean["whole"]
            figures = f"{mean['one']:10.2f} {mean['fused']:8.2f} {mean['whole']:12.2f} {ratio:11.4f}"
            print(f"{kind:8} {figures}   {fell:.3f}", flush=True)


if __name__ == "__main__":
    main()
