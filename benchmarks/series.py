"""A series of monthly releases: error alone, leaning on earlier months, and with all of a year's budget.

    python benchmarks/series.py [--mechanism margins] [--columns 8] [--rows 4000] [--seed 21] [--drift 0 2 10 30 jump]
        [--nist FOLDER] [--over-time] [--running]

Tables are drawn from a Bayesian network whose conditional shares walk by so many percent a month; "jump": by 2 %, and
in the ninth month one category jumps tenfold for good. Errors are root mean squares over the cells of all pairs (of a
mechanism that holds a cube: of three columns, and of all of its cells too), in the second half of the year, beside
those of each month alone. Coverage is of 95 % intervals: of cells of pairs by month, by
the filter and by the smoother, of the category that jumps, and with --over-time of differences between successive
months, of running totals and of the mean of three months, asked by SQL. --nist: the ten columns of nist.py of NIST's
excerpt in FOLDER, its rows in the order of a stable column (PUMA) and dealt out to twelve months one by one ("dealt"),
or in twelve runs ("places", where every month is another part of the country). --running prints the standard errors of
running totals by the square root of the prefix matrix, beside the explicit matrix and beside those of series that were
measured, then of the sums of all ranges of periods by the square root and by trees of blocks, and nothing else.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
from scipy.optimize import minimize

from sfumato.errors import NewLedgerWarning
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.past_noise import Carried, PastNoise
from sfumato.kernel.opening import Terms, curator_of
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.models import find_mechanism
from sfumato.models.margins.content import Margins
from sfumato.queries.ranges import GRID, Running, coefficients
from sfumato.releases.contents.cube import Cube
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.file.manifest import Guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SIZES = {3: [5, 14, 6], 8: [3, 14, 5, 2, 8, 20, 6, 4], 11: [4, 2, 10, 7, 3, 24, 5, 2, 16, 6, 30]}
MONTHS, JUMPS = 12, 8
MOST_ORDERED = 9  # values up to which an attribute is a category
MOST_ASKED = 200  # cells of a pair that is asked over time


def jumping(sizes: Sequence[int]) -> tuple[int, int]:
    """Attribute and value that jump."""
    return (4, 1) if len(sizes) > 4 else (0, 1)


def schema_of(sizes: Sequence[int]) -> Schema:
    attributes = {
        f"a{place}": {"type": "integer", "lower": 0, "upper": size - 1}
        if size > MOST_ORDERED
        else {"type": "category", "values": [str(code) for code in range(size)]}
        for place, size in enumerate(sizes)
    }
    series = {"period": "month", "unit": "person in a month"}
    unit = {"column": "person", "contributions": 1}
    stated = {"dataset": "t", "privacy_unit": unit, "budget": {"epsilon": 1000}, "attributes": attributes}
    return Schema.from_dict(stated | {"series": series})


def drawn(sizes: Sequence[int], drift: float, seed: int, rows: int, *, jump: bool) -> list[np.ndarray]:
    """Codes of every month, (rows, columns) each."""
    stream = np.random.default_rng(seed)
    parents, shares = [[]], [stream.dirichlet(np.full(sizes[0], 2.0))[None]]
    for place, size in enumerate(sizes[1:], start=1):
        given = stream.choice(place, min(place, 1 + int(stream.random() < 0.4)), replace=False).tolist()
        combined = int(np.prod([sizes[each] for each in given]))
        base = stream.dirichlet(np.full(size, 0.8)) + 0.3 / size
        if size > MOST_ORDERED:
            centre, width = stream.uniform(0, size, (combined, 1)), stream.uniform(0.06, 0.25, (combined, 1)) * size
            table = np.exp(-0.5 * ((np.arange(size) - centre) / width) ** 2) * base + 0.01 / size
        else:
            table = stream.dirichlet(np.maximum(2.5 * base, 0.05), combined) + 0.002
        parents.append(given)
        shares.append(table / table.sum(axis=1, keepdims=True))
    months = []
    for month in range(MONTHS):
        if month:
            shares = [each * np.exp(drift * stream.normal(size=each.shape)) for each in shares]
            shares = [each / each.sum(axis=1, keepdims=True) for each in shares]
        number = int(rows * np.exp(drift / 2.0 * stream.normal()))
        codes = np.zeros((number, len(sizes)), dtype=np.int64)
        for place, (given, walked) in enumerate(zip(parents, shares, strict=True)):
            times = 10.0 if jump and month >= JUMPS and place == jumping(sizes)[0] else 1.0
            table = walked * np.where(np.arange(sizes[place]) == jumping(sizes)[1], times, 1.0)
            table = table / table.sum(axis=1, keepdims=True)
            at = np.zeros(number, dtype=np.int64)
            if given:
                at = np.ravel_multi_index([codes[:, each] for each in given], [sizes[each] for each in given])
            ends = np.cumsum(table, axis=1)
            codes[:, place] = np.minimum((stream.random((number, 1)) > ends[at]).sum(axis=1), sizes[place] - 1)
        months.append(codes)
    return months


def released(schema: Schema, codes: np.ndarray, budget: Budget, seed: int, mechanism: str) -> Margins | Cube:
    cells, counts = np.unique(np.ravel_multi_index(codes.T, schema.domain.shape), return_counts=True)
    curator = curator_of(schema, Aggregate(cells, counts, {}), budget, TestingEntropy(seed))
    content = find_mechanism(mechanism).run(curator, schema, budget, None)
    assert isinstance(content, Margins | Cube)
    return content


def leaning(contents: Sequence[Margins | Cube], at: int) -> Margins | Cube:
    return contents[at].leaning([*contents[:at], *contents[at + 1 :]], at)


def counted(codes: np.ndarray, sizes: Sequence[int], places: Sequence[int]) -> np.ndarray:
    shape = [sizes[place] for place in places]
    flat = np.ravel_multi_index([codes[:, place] for place in places], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


class Errors:
    """Errors and hits of 95 % intervals of the cells of all pairs, or of a cube's cells."""

    def __init__(self, sizes: Sequence[int], *, pairs: bool) -> None:
        every = tuple(range(len(sizes)))
        self.sizes, self.sets = sizes, list(combinations(every, 2)) if pairs else [every]

    def of(self, content: Margins | Cube, codes: np.ndarray) -> float:
        off = [self._estimated(content, p)[0] - counted(codes, self.sizes, p).reshape(-1) for p in self.sets]
        return float(np.sqrt(np.mean(np.concatenate(off) ** 2)))

    def _estimated(self, content: Margins | Cube, places: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Estimates and half widths of the cells of some attributes."""
        if isinstance(content, Margins):
            every = content.every(places)
            joined = content.joined(every)
            errors = content.errors("count", every, joined)
            variance = errors.noise.of_cells() + errors.model.of_cells()
            return joined["count"].reshape(-1), 1.96 * np.sqrt(np.maximum(variance, 0.0)).reshape(-1)
        of_cells = np.ravel_multi_index(
            [np.indices(self.sizes)[place].reshape(-1) for place in places], [self.sizes[place] for place in places]
        )
        columns = (of_cells[:, None] == np.arange(of_cells.max() + 1)).astype(np.float64)
        errors = content.fits[0].errors(columns)
        many = 1 if errors.counts is None else errors.counts
        variance = (errors.design.variances * many) @ errors.weights**2 + np.diag(errors.model)
        return columns.T @ content.fits[0].estimate, 1.96 * np.sqrt(variance)

    def hits(self, content: Margins | Cube, codes: np.ndarray, value: tuple[int, int] | None = None) -> float:
        """Share of cells inside their intervals; value: of one attribute's value alone."""
        found = []
        for places in self.sets:
            if value is not None and value[0] not in places:
                continue
            estimate, half = self._estimated(content, places)
            truth = counted(codes, self.sizes, places)
            ends = estimate - half, estimate + half
            if isinstance(content, Margins):  # of counts by a model, as SQL answers them
                ends = np.floor(ends[0]), np.ceil(ends[1])
            inside = ((ends[0] <= truth.reshape(-1)) & (truth.reshape(-1) <= ends[1])).reshape(truth.shape)
            found.append((inside if value is None else np.take(inside, value[1], places.index(value[0]))).reshape(-1))
        return float(np.concatenate(found).mean())


def as_series(contents: Sequence[Margins | Cube]) -> SeriesContent:
    guarantee = Guarantee(Cost.stated(1).epsilon, "a person in a month", "one row", "none")
    parts = []
    for number, content in enumerate(contents, start=1):
        release = Release(content, "margins", guarantee, private=False)
        parts.append(Part(number, f"2026-{number:02}", lambda release=release: release))
    return SeriesContent.of(parts)


FORMS = {
    "differences": "n - LAG(n) OVER ({})",
    "running totals": "SUM(n) OVER ({})",
    "means of three": "AVG(n) OVER ({} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
}


def hits_over_time(content: SeriesContent, months: Sequence[np.ndarray], sizes: Sequence[int]) -> dict[str, float]:
    """Coverage of what is asked along time, of the cells of some pairs."""
    release = Release(content, "margins", Guarantee(Cost.stated(1).epsilon, "p", "n", "s"), private=False)
    hits: dict[str, list[bool]] = {name: [] for name in FORMS}
    for first, second in ((0, 3), (2, 6), (4, 7)) if len(sizes) > 4 else ((0, 1), (0, 2), (1, 2)):
        if sizes[first] * sizes[second] > MOST_ASKED:
            continue
        grouped = f"SELECT period, a{first}, a{second}, COUNT(*) AS n FROM t GROUP BY period, a{first}, a{second}"
        apart = f"PARTITION BY a{first}, a{second} ORDER BY period"
        counts = np.array([counted(codes, sizes, (first, second)) for codes in months]).astype(np.float64)
        sums = np.cumsum(counts, axis=0)
        truths = {
            "differences": np.diff(counts, axis=0, prepend=0),
            "running totals": sums,
            "means of three": np.concatenate([sums[:3] * 0, sums[3:] - sums[:-3]]) / 3.0,
        }
        for name, form in FORMS.items():
            sql = f"SELECT period, a{first}, a{second}, {form.format(apart)} AS v FROM ({grouped}) AS g"
            for period, one, other, found in release.query(sql).rows:
                month, start = int(str(period)[5:7]) - 1, {"differences": 1, "running totals": 0}.get(name, 3)
                if month >= start and getattr(found, "low", None) is not None:
                    value = truths[name][month, int(one), int(other)]
                    hits[name].append(bool(found.low <= value <= found.high))
    return {name: float(np.mean(each)) for name, each in hits.items()}


def year(
    name: str, sizes: Sequence[int], months: Sequence[np.ndarray], seed: int, mechanism: str, *, over_time: bool
) -> None:
    schema, start = schema_of(sizes), process_time()
    budget = Cost.stated(1, "1e-9").budget
    alone = [released(schema, codes, budget, seed * 100 + month, mechanism) for month, codes in enumerate(months)]
    later = range(MONTHS // 2, MONTHS)
    filtered = {month: leaning(alone[: month + 1], month) for month in range(1, MONTHS)}
    smoothed = {month: leaning(alone, month) for month in range(MONTHS)}
    more = Budget.zcdp(MONTHS * budget.amount)
    rich = {m: released(schema, months[m], more, seed * 100 + 50 + m, mechanism) for m in later}
    for pairs in (True,) if mechanism == "margins" else (False, True):
        errors = Errors(sizes, pairs=pairs)
        base = np.mean([errors.of(alone[month], months[month]) for month in later])
        ratios = [np.mean([errors.of(each[m], months[m]) for m in later]) / base for each in (filtered, smoothed, rich)]
        line = f"{mechanism} {len(sizes):>3} {name:>6} {'pairs' if pairs else 'cells'} {base:>8.1f} "
        line += " ".join(f"{each:>8.3f}" for each in ratios) + "   held"
        for words, contents in (("alone", dict(enumerate(alone))), ("filter", filtered), ("smoother", smoothed)):
            by_month = [errors.hits(content, months[month]) for month, content in contents.items()]
            line += f" {words} {np.mean(by_month):.3f} ({min(by_month):.3f} to {max(by_month):.3f})"
        if name == "jump":
            for words, some in (("broke", [JUMPS]), ("since", range(JUMPS + 1, MONTHS))):
                value = jumping(sizes)
                every = [[errors.hits(of[m], months[m], value) for m in some] for of in (alone, filtered, smoothed)]
                line += f"; {words}: " + " ".join(f"{np.mean(each):.3f}" for each in every)
        if over_time and pairs:
            for words, content in (("alone", as_series(alone)), ("as of the last", as_series(alone).as_of("2026-12"))):
                found = hits_over_time(content, months, sizes)
                line += f"; {words}: " + ", ".join(f"{each} {share:.3f}" for each, share in found.items())
        print(f"{line}   ({process_time() - start:.0f} s of CPU)", flush=True)


def dealt(folder: Path, seed: int) -> tuple[list[int], dict[str, list[np.ndarray]]]:
    """Sizes of the columns of NIST's excerpt, and its rows in twelve months: one by one, and in runs of places."""
    from nist import COLUMNS, Excerpt

    excerpt = Excerpt(folder, [*COLUMNS, "PUMA"])
    codes = np.stack([excerpt.rows[name] for name in COLUMNS], axis=1)
    order = np.lexsort((np.random.default_rng(seed).random(len(codes)), excerpt.rows["PUMA"]))
    sizes = [len(excerpt.values[name]) for name in COLUMNS]
    one_by_one = [codes[order[month::MONTHS]] for month in range(MONTHS)]
    return sizes, {"dealt": one_by_one, "places": np.array_split(codes[order], MONTHS)}


def measured(periods: int, cells: int = 4096) -> float:
    """Root mean square error of the running totals of releases with running: true, per unit noise of one release.

    Each part is measured by the kernel, with noise from the operating system and past noise in a file.
    """
    series = {"period": "name", "unit": "person in a period", "periods": periods, "running": True}
    attributes = {"cell": {"type": "integer", "lower": 0, "upper": cells - 1}}
    stated = {"dataset": "t", "privacy_unit": "row", "budget": {"rho": 10**6}, "attributes": attributes}
    schema = Schema.from_dict(stated | {"series": series})
    cost, total, squares = Cost.stated(None, None, Fraction(1, 50)), np.zeros(cells), []
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", NewLedgerWarning)
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        for period in range(periods):
            terms = Terms(schema, cost, "cells", period=str(period))
            receipt = ledger.reserve(terms.wanted, token_hex(16))
            curator = over_counts(schema, np.zeros(cells, dtype=np.int64), cost.budget, SystemEntropy())
            past = PastNoise(ledger, "t", terms.wanted.unit)
            curator._carried = Carried(past, receipt, str(period), periods, "t")
            (found,), _ = curator.measure_running(cost.budget, [1])
            total += found.answers / GRID
            squares.append(float((total**2).mean()))
    return float(np.sqrt(np.mean(squares) * 2.0 * float(cost.budget.amount)))


@dataclass(frozen=True)
class RunningErrors:
    """Root mean square error of running totals per unit noise of one release, by periods.

    last_anew: of the last one if every period is released by itself; grid: by the square root, as it is measured;
    explicit: by the explicit matrix; bound: no factorization is below it; measured: of releases; single: of one period.
    """

    last_anew: float
    grid: float
    explicit: float
    bound: float
    measured: float
    single: float


def running_errors(periods: int) -> RunningErrors:
    """Errors of running totals over so many periods."""
    row = [float(each) for each in coefficients(periods)]
    root = np.array([[row[i - j] if i >= j else 0.0 for j in range(periods)] for i in range(periods)])
    explicit = np.sqrt((root**2).sum(axis=0).max()) * np.sqrt((root**2).sum(axis=1))
    bound = np.linalg.svd(np.tril(np.ones((periods, periods))), compute_uv=False).sum() / periods
    found = Running(periods)
    mean = [float(np.sqrt(np.mean(each**2))) for each in (found.totals(), explicit)]
    single = float(np.sqrt(np.mean(found.single() ** 2)))
    return RunningErrors(float(found.anew()[-1]), *mean, float(bound), measured(periods), single)


def running() -> None:
    print("running totals, root mean square per unit noise: last anew, on the grid, by matrix, bound; measured; single")
    for periods in (12, 60, 120, 365):
        anew, *figures = astuple(running_errors(periods))
        print(f"{periods:>4} {anew:>7.2f}", *(f"{each:>7.3f}" for each in figures), flush=True)
    print(
        "sums of all ranges of periods: anew, square root, months in quarters in years, blocks of 2, 4, 8, ..., bound"
    )
    for periods in (12, 60, 120):
        print(f"{periods:>4}", *(f"{each:>7.3f}" for each in of_ranges(periods)), flush=True)


def of_ranges(periods: int) -> list[float]:
    """Root mean square error of the sums of all ranges of periods, per unit noise of one period.

    Each anew, by the square root, by months in quarters in years, by blocks of 2, 4, 8, ..., and the bound (nuclear
    norm) below which no method is. Trees by least squares, with the best weights of their levels for column norm 1.
    """
    place, eye = np.arange(periods), np.eye(periods)
    asked = (np.minimum.outer(place, place) + 1.0) * (periods - np.maximum.outer(place, place))  # sum of w w^T
    many = periods * (periods + 1) / 2
    inverse = np.array([[Running(periods).inverse[i - j] if i >= j else 0.0 for j in place] for i in place])
    values = np.linalg.eigvalsh(asked)
    bound = np.sqrt(values).sum() / np.sqrt(periods * many)

    def error(covariance: np.ndarray) -> float:
        return float(np.sqrt(np.sum(asked * covariance) / many))

    def by_tree(sizes: Sequence[int]) -> float:
        grams = [np.equal.outer(place // size, place // size).astype(float) for size in sizes]

        def of(weights: np.ndarray) -> float:
            shares = np.exp(weights - weights.max())
            return error(np.linalg.inv(sum(w * gram for w, gram in zip(shares / shares.sum(), grams, strict=True))))

        return float(minimize(of, np.zeros(len(sizes)), method="Nelder-Mead").fun)

    calendar = [size for size in (1, 3, 12, 60) if size < periods]
    doubled = [2**level for level in range(20) if 2**level < periods]
    return [
        error(eye),
        error(Running(periods).sensitivity ** 2 * inverse @ inverse.T),
        *(by_tree([*sizes, periods]) for sizes in (calendar, doubled)),
        float(bound),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="*", help="3, 8 or 11; of a cube 3, else 8 and 11")
    parser.add_argument("--mechanism", default="margins", help="margins, cells, hierarchical, sfumato, ...")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--drift", nargs="*", default=["0", "2", "10", "30", "jump"])
    parser.add_argument(
        "--over-time", action="store_true", help="also differences and running totals, which takes longer"
    )
    parser.add_argument("--nist", type=Path, help="folder of NIST's excerpt")
    parser.add_argument("--running", action="store_true")
    stated = parser.parse_args()
    if stated.running:
        running()
        return
    print("mechanism columns drift, error alone; of it: leaning on earlier months, on all, with the year's budget;")
    print("held by month, mean (least to most), of what jumped then and since (alone, filter, smoother), over time")
    columns_asked = stated.columns or ([8, 11] if stated.mechanism == "margins" else [3])
    for columns, drift in product(columns_asked, stated.drift):
        walk, sizes = 0.02 if drift == "jump" else float(drift) / 100.0, SIZES[columns]
        months = drawn(sizes, walk, stated.seed, stated.rows, jump=drift == "jump")
        year(drift, sizes, months, stated.seed, stated.mechanism, over_time=stated.over_time)
    if stated.nist is not None:
        sizes, named = dealt(stated.nist, stated.seed)
        for name, months in named.items():
            year(name, sizes, months, stated.seed, stated.mechanism, over_time=stated.over_time)


if __name__ == "__main__":
    main()
