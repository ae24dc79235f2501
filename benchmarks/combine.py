"""Two releases of rho, fused by `sfumato combine`, beside one of twice the rho: errors of the same questions.

    python benchmarks/combine.py [RELEASES [KIND ...]]

Stated: root mean square of the standard errors that files state. As it fell out: mean of |answer - truth| over pairs of
releases with real noise (RELEASES of each kind, 12 unless stated), and the share of cells inside 95 % intervals. The
tables are made here, and no private ones. Cells are released by `matrix` for a workload of single cells, trees by
`hierarchical` and by `sfumato`, margins by `residual` and by `margins`, the last over a table of nine columns whose
dependences come from hidden classes and from one interaction of three.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf
from sfumato.kernel.ledger.ledger import Ledger

RHO = 0.02
KINDS = {"cells": "matrix", "trees": "hierarchical", "residual": "residual", "sfumato": "sfumato", "margins": "margins"}
Question = tuple[tuple[str, ...], tuple[int, int] | None]  # grouped by, and a range of the first column
SIZES = {"a": 2, "b": 5, "c": 8, "d": 3, "e": 24, "f": 6, "g": 4, "h": 12, "i": 2}


def visits() -> tuple[pd.DataFrame, dict[str, object], dict[str, list[Question]]]:
    """Three columns, and questions of all rows, of one and two columns, and of ranges."""
    draw = np.random.default_rng(32)
    rows = pd.DataFrame(
        {
            "age": np.minimum(63, draw.gamma(3, 9, 20_000).astype(int)),
            "sex": draw.choice([*"FM"], 20_000),
            "ward": draw.choice([*"ABCDEF"], 20_000, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03]),
        }
    )
    attributes = {
        "age": {"type": "integer", "lower": 0, "upper": 63},
        "sex": {"type": "category", "values": ["F", "M"]},
        "ward": {"type": "category", "values": [*"ABCDEF"]},
    }
    ranges = [(low, high) for low in range(0, 60, 7) for high in range(low + 3, 64, 11)]
    counts: list[Question] = [(("sex", "ward"), None), ((), None), *((("ward",), each) for each in ranges[::3])]
    return rows, attributes, {"counts": counts, "ranges": [((), each) for each in ranges]}


def classes() -> tuple[pd.DataFrame, dict[str, object], dict[str, list[Question]]]:
    """Nine columns that depend on hidden classes, one of them on two others at once; two-way and three-way tables."""
    draw, rows = np.random.default_rng(33), 20_000
    hidden = draw.integers(0, 4, rows)
    columns = {}
    for name, size in SIZES.items():
        shares = draw.dirichlet(np.full(size, 1.2), size=4).cumsum(axis=1)
        columns[name] = np.minimum((draw.random(rows)[:, None] > shares[hidden]).sum(axis=1), size - 1)
    columns["d"] = np.where(draw.random(rows) < 0.5, (columns["a"] + columns["g"]) % 3, columns["d"])
    attributes = {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in SIZES.items()}
    pairs: list[Question] = [(each, None) for each in combinations(SIZES, 2)]
    threes: list[Question] = [(each, None) for each in [*combinations(SIZES, 3)][::6]] + [(("a", "d", "g"), None)]
    return pd.DataFrame(columns), attributes, {"two-way": pairs, "three-way": threes}


def text_of(question: Question) -> str:
    """The question in SQL."""
    columns, within = question
    where = "" if within is None else f" WHERE age BETWEEN {within[0]} AND {within[1]}"
    listed = ", ".join(columns)
    shown, grouped = (f"{listed}, ", f" GROUP BY {listed}") if columns else ("", "")
    return f"SELECT {shown}COUNT(*) AS n FROM t{where}{grouped}"


def truth_of(rows: pd.DataFrame, question: Question) -> dict[tuple[object, ...], int]:
    """Its answers from the table, by group; the benchmark may see it."""
    columns, within = question
    some = rows if within is None else rows[rows.age.between(*within)]
    if not columns:
        return {(): len(some)}
    counted = some.groupby(list(columns)).size()
    return {each if isinstance(each, tuple) else (each,): int(number) for each, number in counted.items()}


def off(release: sf.Release, rows: pd.DataFrame, questions: list[Question]) -> Iterator[tuple[float, float, bool]]:
    """For each number: |answer - truth|, its standard error, and whether its interval holds."""
    for question in questions:
        known = truth_of(rows, question)
        for *group, found in release.query(text_of(question)).rows:
            exact = known.get(tuple(group), 0)
            yield abs(found.value - exact), found.stderr, found.low <= exact <= found.high


def main() -> None:
    warnings.simplefilter("ignore")
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    print(f"rho {RHO} twice, fused, beside rho {2 * RHO} once; {number} releases of each")
    print(f"{'':19} {'stated error':>28}   {'mean |error|, as it fell out':>36}   inside 95 %")
    three = f"{'one':>8} {'fused':>8} {'2 rho':>8}"
    print(f"{'kind':9} {'questions':9} {three}    {three} {'fused / 2 rho':>13}   fused 2 rho")
    for kind in sys.argv[2:] or KINDS:
        rows, attributes, asked = classes() if kind == "margins" else visits()
        schema = {"dataset": "t", "privacy_unit": "row", "budget": {"rho": 100000}, "attributes": attributes}
        more = {}
        if kind == "cells":
            listed = ", ".join(attributes)
            more = {"workload": f"SELECT {listed}, COUNT(*) FROM t GROUP BY {listed}", "workload_only": True}
        found: dict[tuple[str, str], list[np.ndarray]] = {}
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for _ in range(number):
                for name, rho in (("one", RHO), ("other", RHO), ("whole", 2 * RHO)):
                    sf.release(
                        rows,
                        sf.Schema.from_dict(schema),
                        rho=str(rho),
                        delta="1e-9",
                        mechanism=KINDS[kind],
                        ledger=Ledger(place / "l"),
                        again=True,
                        **more,
                    ).save(place / f"{name}.sfumato")
                sf.combine(place / "one.sfumato", place / "other.sfumato").save(place / "fused.sfumato")
                for name in ("one", "fused", "whole"):
                    release = sf.open(place / f"{name}.sfumato")
                    for group, questions in asked.items():
                        found.setdefault((group, name), []).append(np.array([*off(release, rows, questions)]))
        for group in asked:
            every = {name: np.concatenate(found[group, name]) for name in ("one", "fused", "whole")}
            stated = [np.sqrt(np.square(each[:, 1]).mean()) for each in every.values()]
            errors = [each[:, 0].mean() for each in every.values()]
            figures = " ".join(f"{each:8.2f}" for each in stated) + "    " + " ".join(f"{each:8.2f}" for each in errors)
            held = " ".join(f"{100 * every[name][:, 2].mean():5.1f}" for name in ("fused", "whole"))
            print(f"{kind:9} {group:9} {figures} {errors[1] / errors[2]:13.3f}   {held}", flush=True)


if __name__ == "__main__":
    main()
