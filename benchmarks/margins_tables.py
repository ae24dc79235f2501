"""Tables of codes for margins.py: those of a folder, their schemas, how far estimates of their margins are off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np

FEW = 10_000  # cells of the margins that are given a column of their own
ORDERED = {"adult": ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]}

Places = Sequence[int]
Estimate = Callable[[Places], np.ndarray]  # of the margin along some attributes


@dataclass(frozen=True)
class Table:
    """A CSV file of codes. sizes: of its attributes. ordered: those whose codes have an order."""

    path: Path
    sizes: dict[str, int]
    ordered: frozenset[str]

    @cached_property
    def codes(self) -> np.ndarray:
        return np.loadtxt(self.path, delimiter=",", skiprows=1, dtype=np.int64)

    def margin(self, places: Places, codes: np.ndarray | None = None) -> np.ndarray:
        """The true one, or that of other rows of the same attributes."""
        rows, shape = self.codes if codes is None else codes, self.shape(places)
        cells = np.ravel_multi_index([rows[:, place] for place in places], shape)
        return np.bincount(cells, minlength=prod(shape)).reshape(shape)

    def shape(self, places: Places) -> tuple[int, ...]:
        sizes = list(self.sizes.values())
        return tuple(sizes[place] for place in places)

    def sets(self, order: int) -> Iterator[Places]:
        return combinations(range(len(self.sizes)), order)

    def distances(self, estimate: Estimate) -> tuple[float, float]:
        """Mean L1 distance of all 3-way margins, as a share of the rows: of those of few cells, and of all."""
        off = {p: float(np.abs(estimate(p) - self.margin(p)).sum()) / len(self.codes) for p in self.sets(3)}
        few = [each for places, each in off.items() if prod(self.shape(places)) <= FEW]
        return float(np.mean(few)) if few else float("nan"), float(np.mean(list(off.values())))

    def errors(self, estimate: Estimate) -> list[float]:
        """Root mean square error over the cells of all 1-, 2- and 3-way margins."""
        by_order = [[(estimate(p) - self.margin(p)).reshape(-1) for p in self.sets(order)] for order in (1, 2, 3)]
        return [float(np.sqrt(np.mean(np.concatenate(each) ** 2))) for each in by_order]

    def schema(self) -> dict:
        """The budget is large, so that it serves all runs."""
        attributes = {
            name: {"type": "integer", "lower": 0, "upper": size - 1}
            if name in self.ordered
            else {"type": "category", "values": [str(code) for code in range(size)]}
            for name, size in self.sizes.items()
        }
        return {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 10_000}, "attributes": attributes}


def tables_in(folder: Path, wanted: Sequence[str]) -> dict[str, Table]:
    """Those of a folder: NAME.csv, NAME-domain.json and, where some codes have an order, NAME-ordered.json."""
    found = {}
    for path in sorted(folder.glob("*-domain.json")):
        name = path.name.removesuffix("-domain.json")
        listed = folder / f"{name}-ordered.json"
        ordered = json.loads(listed.read_text()) if listed.exists() else ORDERED.get(name, [])
        if not wanted or name in wanted:
            found[name] = Table(folder / f"{name}.csv", json.loads(path.read_text()), frozenset(ordered))
    return found


def six_of_adult(adult: Table, folder: Path) -> Table:
    """Age in fives, sex, race, education, marital status, income: 38,080 cells."""
    of = dict(zip(adult.sizes, adult.codes.T, strict=True))
    columns = {"age": of["age"] // 5, **{n: of[n] for n in ("sex", "race", "education-num", "marital-status")}}
    return _write(folder / "six.csv", {**columns, "income": of["income>50K"]}, [17, 2, 5, 16, 7, 2])


def five_of_adult(adult: Table, folder: Path) -> Table:
    """Sex, race, education, income, and whether the commonest country is the native one: 640 cells."""
    of = dict(zip(adult.sizes, adult.codes.T, strict=True))
    columns = {n: of[n] for n in ("sex", "race", "education-num")}
    common = np.bincount(of["native-country"]).argmax()
    native = (of["native-country"] == common).astype(np.int64)
    return _write(folder / "five.csv", {**columns, "income": of["income>50K"], "native": native}, [2, 5, 16, 2, 2])


def _write(path: Path, columns: dict[str, np.ndarray], sizes: Sequence[int]) -> Table:
    rows = np.stack(list(columns.values()), axis=1)
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=",".join(columns), comments="")
    return Table(path, dict(zip(columns, sizes, strict=True)), frozenset({"age", "education-num"} & set(columns)))
