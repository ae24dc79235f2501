"""Counts of small areas by `spine`: CPU, memory, error and coverage by level, lists of areas, and shares of the levels.

    python benchmarks/areas.py [--areas 51,60,20,10] [--others 2,9,10] [--rows 5000000] [--epsilon 1] [--asked 40]
    python benchmarks/areas.py --shares
    python benchmarks/areas.py --topdown [10,8,6,5,4] [--rho 2.56]

The table is made up: areas in equal numbers below each other, with Zipf's sizes, and columns that depend on the area.
The first command releases it in a process of its own and asks for areas of every level and for lists of single areas
from different larger ones. Errors are beside those that are expected of the best linear unbiased estimate, from the
closed form. `--shares` takes trees small enough for explicit matrices: the estimate beside dense least squares, and the
shares of the levels beside those that are best in hindsight, for the mean over levels and for other measures of error.
`--topdown` puts the shape of measurements of the 2020 census, fitted by the same least squares, beside `spine`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

NAMES = ("state", "county", "tract", "block", "lot")
LIST = 25  # areas of the last level in a list


def names(level: int, number: int) -> list[str]:
    """Names of the areas of a level."""
    return [f"{NAMES[level]}{place}" for place in range(number)]


def made_up(fan: tuple[int, ...], others: tuple[int, ...], rows: int, seed: int = 7) -> pa.Table:
    """Table of rows with an area of the last level and other columns."""
    rng = np.random.default_rng(seed)
    leaves = prod(fan)
    shares = rng.permutation(1.0 / np.arange(1, leaves + 1))
    area = rng.choice(leaves, rows, p=shares / shares.sum())
    columns: dict[str, object] = {
        NAMES[len(fan) - 1]: pa.DictionaryArray.from_arrays(area, names(len(fan) - 1, leaves))
    }
    for number, size in enumerate(others):
        drawn = rng.choice(size, rows, p=rng.dirichlet(np.ones(size)))
        columns[f"c{number}"] = np.where(rng.random(rows) < 0.3, area * (number + 7) % size, drawn)
    return pa.table(columns)


def write_schema(folder: Path, fan: tuple[int, ...], others: tuple[int, ...]) -> Path:
    """Schema whose areas and their levels are columns of a CSV file beside it."""
    widths, leaves = np.cumprod(fan).tolist(), prod(fan)
    columns = {NAMES[n]: np.repeat(names(n, width), leaves // width) for n, width in enumerate(widths)}
    csv.write_csv(pa.table(columns), folder / "areas.csv", csv.WriteOptions(quoting_style="none"))
    last, *above = list(columns)[::-1]
    few = [f"  c{n}: {{type: integer, lower: 0, upper: {size - 1}}}" for n, size in enumerate(others)]
    values = f"{{file: areas.csv, column: {last}, groups: [{', '.join(above)}]}}"
    head = ["dataset: t", "privacy_unit: row", "budget: {epsilon: 100}", "attributes:"]
    path = folder / "t.yaml"
    path.write_text("\n".join([*head, f"  {last}: {{type: category, values: {values}}}", *few, ""]))
    return path


def peak() -> float:
    """Peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def release(folder: Path, fan: tuple[int, ...], others: tuple[int, ...], epsilon: str, mechanism: str) -> None:
    """Release the table into a folder; print CPU and memory."""
    import sfumato as sf

    begun = time.process_time()
    public = sf.Schema.load(write_schema(folder, fan, others))
    read = time.process_time()
    made = sf.release(
        str(folder / "t.parquet"),
        public,
        epsilon=epsilon,
        mechanism=mechanism,
        ledger=folder / "l.db",
        even_if_useless=True,
    )
    released = time.process_time()
    made.save(folder / "t.sfumato")
    saved, size = time.process_time(), (folder / "t.sfumato").stat().st_size / 1e6
    print(
        f"release: schema {read - begun:.1f} s, measured and fitted {released - read:.1f} s, saved "
        f"{saved - released:.1f} s of CPU; {peak():.0f} MB of memory; a file of {size:.0f} MB",
        flush=True,
    )


def ask(folder: Path, fan: tuple[int, ...], others: tuple[int, ...], asked: int) -> None:
    """Ask for areas of every level and for lists; print errors, coverage and CPU."""
    import sfumato as sf
    from sfumato.models.linear.spine import Spine

    begun = time.process_time()
    opened = sf.open(folder / "t.sfumato")
    print(f"opened: {time.process_time() - begun:.1f} s of CPU", flush=True)
    last = NAMES[len(fan) - 1]
    column = pq.read_table(folder / "t.parquet", columns=[last])[last].combine_chunks()
    area = np.asarray(column.indices)
    truth = np.bincount(area, minlength=prod(fan))
    fit = opened.content.fits[0]
    estimate = fit.sums(opened.domain, [0])
    spine = Spine.of(opened.domain.axes[0])
    variances = expected(fit, spine)
    print("| level | areas | error | best linear unbiased | ratio | 95 % intervals hold | CPU of a query |")
    print("|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(5)
    for level, (cuts, variance) in enumerate(zip(spine.levels[1:], variances[1:], strict=True)):
        errors = np.add.reduceat(estimate - truth, cuts[:-1])
        rms, best = np.sqrt(np.mean(errors**2)), np.sqrt(variance.mean())
        held, cpu = 0, time.process_time()
        chosen = rng.choice(len(cuts) - 1, min(asked, len(cuts) - 1), replace=False).tolist()
        for place in chosen:
            ((count,),) = opened.query(f"SELECT COUNT(*) FROM t WHERE {NAMES[level]} = '{NAMES[level]}{place}'").rows
            held += count.low <= truth[cuts[place] : cuts[place + 1]].sum() <= count.high
        cpu = (time.process_time() - cpu) / len(chosen)
        print(
            f"| {NAMES[level]} | {len(cuts) - 1:,} | {rms:.2f} | {best:.2f} | {rms / best:.3f} | "
            f"{held} of {len(chosen)} | {cpu:.2f} s |",
            flush=True,
        )
    held, cpu, ratios = 0, time.process_time(), []
    for _ in range(asked):
        chosen = rng.choice(prod(fan), LIST, replace=False)
        listed = ", ".join(f"'{last}{place}'" for place in chosen.tolist())
        ((count,),) = opened.query(f"SELECT COUNT(*) FROM t WHERE {last} IN ({listed})").rows
        held += count.low <= truth[chosen].sum() <= count.high
        ratios.append((count.value - truth[chosen].sum()) / count.stderr)
    cpu = (time.process_time() - cpu) / asked
    print(
        f"lists of {LIST} areas: error over standard error {np.sqrt(np.mean(np.square(ratios))):.3f}, intervals hold "
        f"{held} of {asked}, {cpu:.2f} s of CPU a query"
    )
    cpu = time.process_time()
    rows = opened.query(f"SELECT {NAMES[0]}, COUNT(*) FROM t GROUP BY {NAMES[0]}").rows
    print(f"GROUP BY {NAMES[0]}: {len(rows)} rows, {time.process_time() - cpu:.1f} s of CPU; {peak():.0f} MB of memory")


def expected(fit: object, spine: object) -> list[np.ndarray]:
    """Variances by level of the best linear unbiased estimate of the marginal of areas, from queries and noise."""
    factor = 1.0
    for axis in fit.axes[1:]:
        factor *= float(np.ones(axis.queries.columns) @ axis.inverse.solve(np.ones((axis.queries.columns, 1)))[0][:, 0])
    levels = by_level(fit.axes[0].queries, fit.axes[0].precisions, spine)
    return [factor * level for level in spine.nodes.variances(levels)]


def by_level(tree: object, precisions: np.ndarray, spine: object) -> list[np.ndarray]:
    """Precisions of a tree's rows by level and area; 0 for an area that is not asked."""
    found, end = [], 0
    nodes = {len(cuts) - 1: mask for cuts, mask in zip(tree.levels, tree.asked, strict=True)}
    for cuts in spine.levels:
        own = np.zeros(len(cuts) - 1)
        if (mask := nodes.get(len(cuts) - 1)) is not None:
            own[mask] = precisions[end : end + int(mask.sum())]
            end += int(mask.sum())
        found.append(own)
    return found


def shares() -> None:
    """Print the closed form beside dense least squares, and weights of levels beside the best, for uneven trees."""
    from sfumato.domain import Axis
    from sfumato.models.linear.spine import Spine

    rng = np.random.default_rng(3)
    print("| areas | noise | variances beside dense ones | mean of levels | geometric mean | largest | all areas |")
    print("|---|---|---|---|---|---|---|")
    for leaves, inner in ((60, (6,)), (300, (10, 60)), (600, (5, 40, 200))):
        cuts: list[tuple[int, ...]] = []
        own = np.arange(1, leaves)
        for width in reversed(inner):
            own = np.sort(rng.choice(own, width - 1, replace=False))
            cuts.insert(0, tuple(own.tolist()))
        spine = Spine.of(Axis("area", "category", np.arange(leaves + 1.0), splits=tuple(cuts)))
        many = np.array([len(level) - 1 for level in spine.levels])
        for pure in (True, False):
            weights = spine.best_weights(np.ones(len(many)), pure)
            rows = spine.nodes.row_weights(weights.tolist(), pure)
            A = np.concatenate([w[:, None] * q.dense() for w, q in zip(rows, spine.queries(), strict=True)])
            inverse = np.linalg.inv(A.T @ A)
            dense = [np.einsum("ij,jk,ik->i", q.dense(), inverse, q.dense()) for q in spine.queries()]
            closed = spine.nodes.variances([w**2 for w in rows])
            off = max(np.abs(a / b - 1).max() for a, b in zip(closed, dense, strict=True))
            ratios = [_beside_the_best(spine, weights, pure, measure) for measure in MEASURES]
            noise, told = "Laplace" if pure else "Gaussian", " | ".join(f"{ratio:.3f}" for ratio in ratios)
            print(f"| {', '.join(map(str, many))} | {noise} | {off:.0e} | {told} |", flush=True)


def _all_areas(variances: np.ndarray, many: np.ndarray) -> float:
    return float(variances @ many / many.sum())


MEASURES = (
    lambda variances, many: np.mean(variances),
    lambda variances, many: np.exp(np.log(variances).mean()),
    lambda variances, many: np.max(variances),
    _all_areas,
)


def _beside_the_best(spine: object, weights: np.ndarray, pure: bool, measure: object) -> float:
    """Root error of the weights over that of the weights that are best for a measure of the levels' variances."""
    from scipy.optimize import minimize

    many = np.array([len(level) - 1 for level in spine.levels])

    def error(logs: np.ndarray) -> float:
        return float(np.sqrt(measure(spine.errors(np.exp(logs - logs.max()).tolist(), pure), many)))

    rng = np.random.default_rng(8)
    starts = [np.log(weights), *rng.normal(size=(3, len(many)))]
    return error(np.log(weights)) / min(minimize(error, start, method="Nelder-Mead").fun for start in starts)


# Shares of rho in the 2020 redistricting data about persons (Abowd et al. 2022; the production settings): by level from
# the country to blocks, and at each level by table, in 4,097ths or so. `hhinst`, three classes of hhgq, is left out
# here, and its share is given to hhgq.
LEVELS = {"country": 104, "state": 1440, "county": 447, "tract": 687, "group": 1256, "block": 165}
SIZES = {"hhgq": 8, "voting": 2, "hispanic": 2, "race": 63}
TABLES = {
    (): (0, 3773, 3126, 1567, 1705, 5),
    ("race",): (52, 6, 10, 8, 3, 9),
    ("hispanic",): (26, 6, 10, 5, 3, 5),
    ("voting",): (26, 6, 10, 5, 3, 5),
    ("hhgq",): (52, 12, 20, 10, 6, 10),
    ("hispanic", "race"): (130, 12, 28, 1933, 1055, 21),
    ("voting", "race"): (130, 12, 28, 20, 9, 21),
    ("voting", "hispanic"): (26, 6, 10, 5, 3, 5),
    ("voting", "hispanic", "race"): (442, 34, 101, 67, 24, 71),
    tuple(SIZES): (3213, 230, 754, 482, 1288, 3945),
}
SHOWN = ((), ("race",), ("voting", "hispanic", "race"), tuple(SIZES))


def topdown(rho: float, fan: tuple[int, ...]) -> None:
    """Print errors of least squares on TopDown's shape of measurements beside those of `spine`, at the same rho.

    A table by some attributes tells of each effect of these (each product of differences along them) alike, so least
    squares is one tree of areas for each effect. Theirs is not run: it makes counts whole, not below zero, and equal to
    what was published exactly, which ours does not.
    """
    from sfumato.domain import Axis, Domain
    from sfumato.models.linear.spine import Spine, areas_workload, levels_strategy

    leaves = prod(fan)
    cuts = [tuple(range(each, leaves, each)) for each in (leaves // np.cumprod(fan[:-1])).tolist()]
    axis = Axis("block", "category", np.arange(leaves + 1.0), splits=tuple(cuts))
    spine, levels = Spine.of(axis), range(len(LEVELS))
    effects = [chosen for size in range(len(SIZES) + 1) for chosen in combinations(SIZES, size)]
    many = {tuple(chosen): prod(SIZES[name] for name in SIZES if name not in chosen) for chosen in effects}
    shares = np.array(list(LEVELS.values())) / sum(LEVELS.values())
    within = {table: np.array(each) for table, each in TABLES.items()}
    whole = sum(within.values())
    variances = {}
    for effect in effects:
        told = [table for table in TABLES if {*effect} <= {*table}]
        precisions = sum(2 * rho * shares * within[table] / whole * many[table] for table in told)
        rows = [np.full(len(spine.levels[n]) - 1, precisions[n]) for n in levels]
        variances[effect] = [float(level.mean()) for level in spine.nodes.variances(rows)]

    def error(table: tuple[str, ...], level: int) -> float:
        inside = [effect for effect in effects if {*effect} <= {*table}]
        sums = sum(prod(SIZES[name] - 1 for name in e) * variances[e][level] for e in inside)
        return float(np.sqrt(sums * many[table] / prod(SIZES[name] for name in table)))

    domain = Domain((axis, *(Axis(name, "category", np.arange(size + 1.0)) for name, size in SIZES.items())))
    strategy = levels_strategy(domain, areas_workload(domain), False)
    parts = [
        np.array(one.weights, dtype=float)[np.zeros(one.queries.rows, dtype=int) if one.which is None else one.which]
        for one in strategy.axes
    ]
    load = strategy.load(2) / (2 * rho)
    tree = strategy.axes[0].queries
    areas = spine.nodes.variances(by_level(tree, parts[0] ** 2, spine)) if hasattr(tree, "levels") else None
    ours: dict[tuple[str, ...], float] = {}
    for table in SHOWN:
        ours[table] = load
        for one, weights, name in zip(strategy.axes[1:], parts[1:], SIZES, strict=True):
            A = weights[:, None] * one.queries.dense()
            inverse = np.linalg.inv(A.T @ A)
            ours[table] *= float(np.trace(inverse) / SIZES[name] if name in table else inverse.sum())
    print("| level | areas | " + " | ".join(f"{' x '.join(table) or 'all'}" for table in SHOWN) + " |")
    print("|---" * (2 + len(SHOWN)) + "|")
    for n, name in enumerate(LEVELS):
        told = (f"{error(t, n):,.1f} / {np.sqrt(ours[t] * areas[n].mean()):,.1f}" for t in SHOWN)
        print(f"| {name} | {len(spine.levels[n]) - 1:,} | {' | '.join(told)} |")


def main() -> None:
    """Read the command line and run each half in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", default="51,60,20,10")
    parser.add_argument("--others", default="2,9,10")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--asked", type=int, default=40)
    parser.add_argument("--mechanism", default="spine")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--topdown", metavar="AREAS", nargs="?", const="10,8,6,5,4")
    parser.add_argument("--rho", type=float, default=2.56)
    parser.add_argument("--step", choices=["release", "ask"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    stated = parser.parse_args()
    fan, others = (tuple(map(int, text.split(","))) for text in (stated.areas, stated.others))
    if stated.shares:
        shares()
    elif stated.topdown:
        topdown(stated.rho, tuple(map(int, stated.topdown.split(","))))
    elif stated.step == "release":
        release(stated.folder, fan, others, stated.epsilon, stated.mechanism)
    elif stated.step == "ask":
        ask(stated.folder, fan, others, stated.asked)
    else:
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(made_up(fan, others, stated.rows), Path(folder) / "t.parquet")
            for step in ("release", "ask"):
                subprocess.run([sys.executable, *sys.argv, "--step", step, "--folder", folder], check=True)


if __name__ == "__main__":
    main()
