"""ISPE on synthetic tables: one run, its estimates as printed, and figures 7 to 15 and 24 to 27 on its parameters.

Xiao, Xiong, Yuan, TR-2011-005, section 5.2 and appendix B. The perturbed data and the queries are the same for all
estimates. The paper prints curves from one set of noise; here every point is a mean over several.

The estimates follow algorithms 3 and 4: every cell's posterior mean from itself, its region and its neighbours. A
neighbour in the same region counts as an observation of the cell itself, and all count as independent, which is why the
product estimates otherwise. Laws of summed noise are exact here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Line, Picture, Plot, Tick, digits, draw, draw_grids
from sfumato.lab.reproduce.synthetic import adult_grid, continuous_grid, curator_of, random_grid, released, schema_of
from sfumato.lab.reproduce.tr_2010_003.intervals import drawn_intervals
from sfumato.models.calibration.first_stage import Shares
from sfumato.models.calibration.fit import innermost
from sfumato.models.cells.cells import cells
from sfumato.models.partition.ispe import Settings, ispe, smooth
from sfumato.models.partition.shrinkage import ShrinkageFit

REACH = 15.0  # scales of the cells' noise on either side of a noisy cell within which its count is sought
FINENESS = 8  # steps of the grid in one scale


def neighbourhood_means(noisy: Floats, labels: Whole, totals: Floats, scales: tuple[float, float]) -> Floats:
    """Posterior mean of every cell from itself, its region and its neighbours (ISPE's MMSE estimate).

    labels: the region of each cell. totals: the noisy counts of the regions. scales: of the noise of cells and regions.
    """
    step = max(1, round(scales[0] / FINENESS))
    around = step * np.arange(-int(REACH * scales[0] / step), int(REACH * scales[0] / step) + 1)
    log_mass = np.broadcast_to(-np.abs(around) / scales[0], (*noisy.shape, len(around))).copy()
    for axis in (0, 1):
        for turn in (1, -1):
            inside = np.ones_like(labels, dtype=bool)
            np.moveaxis(inside, axis, 0)[0 if turn == 1 else -1] = False  # no neighbour beyond the edge
            same = inside & (np.roll(labels, turn, axis) == labels)
            apart = np.roll(noisy, turn, axis) - noisy
            log_mass -= same[..., None] * np.abs(apart[..., None] - around) / scales[0]
    sizes = np.bincount(labels.ravel())
    missing = np.rint(totals - np.bincount(labels.ravel(), weights=noisy.ravel())).astype(np.int64)
    by_region = np.empty((len(sizes), len(around)))
    for region, (size, lacks) in enumerate(zip(sizes.tolist(), missing.tolist(), strict=True)):
        distribution = _log_law(size - 1, *scales)
        by_region[region] = distribution[np.minimum(np.abs(lacks - around), len(distribution) - 1)]
    log_mass += by_region[labels]
    mass = np.exp(log_mass - log_mass.max(axis=-1, keepdims=True))
    return np.asarray(noisy + (mass @ around) / mass.sum(axis=-1), dtype=np.float64)


@lru_cache(maxsize=4096)
def _log_law(siblings: int, cell_scale: float, region_scale: float) -> Floats:
    """Log-probabilities of 0, 1, 2, ... for a region's noise less that of some of its cells.

    Characteristic functions multiply. Beyond what a Fourier transform can tell the distribution is taken as level.
    """
    deviation = (2 * siblings * cell_scale**2 + 2 * region_scale**2) ** 0.5
    length = 2 ** int(np.ceil(np.log2(2 * (10 * deviation + 30 * max(cell_scale, region_scale)))))
    turn = 2 * np.pi * np.arange(length // 2 + 1) / length
    phi = _characteristic(turn, cell_scale) ** siblings * _characteristic(turn, region_scale)
    return np.asarray(np.log(np.maximum(np.fft.irfft(phi, length)[: length // 2], 1e-15)), dtype=np.float64)


def _characteristic(turn: Floats, scale: float) -> Floats:
    ratio = np.exp(-1.0 / scale)
    return np.asarray((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(turn) + ratio**2), dtype=np.float64)


TABLES: dict[str, Callable[[], Whole]] = {"Adult": adult_grid, "continuous": continuous_grid, "random": random_grid}


@dataclass(frozen=True)
class Setting:
    """Parameters of ISPE that the paper varies, by default those of its Table 1."""

    alpha_1: Fraction = Fraction(3, 20)
    alpha_2: Fraction = Fraction(1, 20)
    iterations: int = 5
    xi: float = 6.0


@dataclass(frozen=True)
class Published:
    """Publication of ISPE: the region of every cell, and the estimates of the cells by either method.

    ours: what the product's ispe publishes. printed: the paper's MMSE with neighbourhood reference. consistency: least
    squares (Hay et al.). All three see the same noisy cells and regions. cells: the noisy cells alone.
    """

    counts: Whole
    labels: Whole
    ours: Floats
    printed: Floats
    consistency: Floats
    cells: Floats


def publish(counts: Whole, setting: Setting, entropy: Entropy) -> Published:
    """Run the mechanism once, and estimate every cell by every method."""
    alpha = setting.alpha_1 + setting.alpha_2
    schema = schema_of(counts.shape)
    # The paper counts neither all rows nor errors: the rest of the budget is alpha, and `ours` is of that rest alone.
    whole = alpha / Fraction(Shares.beside_cells(schema.domain, Budget.pure(1)).most.amount)
    curator = curator_of(counts, whole, entropy)
    settings = Settings(first=setting.alpha_1 / alpha, iterations=setting.iterations, xi=setting.xi)
    cube = ispe(curator, schema, Budget.pure(whole), settings=settings)
    fit = innermost(cube.fits[0])
    assert isinstance(fit, ShrinkageFit)  # noqa: S101 (what ispe publishes)
    noisy = fit.cells.answers.astype(np.float64)
    totals = fit.totals.measurement
    sizes = np.bincount(fit.labels)
    # Least squares for a region of m cells: what its total differs from the sum of its cells goes evenly to the cells,
    # less the share that the noise of the total explains.
    missing = totals.answers - np.bincount(fit.labels, weights=noisy)
    share = missing / (sizes + totals.noise.variance / fit.cells.noise.variance)
    labels, scales = fit.labels.reshape(counts.shape), (float(1 / setting.alpha_1), float(1 / setting.alpha_2))
    laid_out = noisy.reshape(counts.shape)
    return Published(
        counts,
        labels,
        ours=fit.estimate.reshape(counts.shape),
        printed=neighbourhood_means(laid_out, labels, totals.answers.astype(np.float64), scales),
        consistency=laid_out + share[labels],
        cells=laid_out,
    )


def rectangle_errors(estimate: Floats, counts: Whole, *, sides: int | None = None, queries: int = 100) -> float:
    """Mean absolute error of random rectangles, or of squares with `sides` cells to a side."""
    high, wide = counts.shape
    off = np.pad(np.cumsum(np.cumsum(estimate - counts, axis=0), axis=1), ((1, 0), (1, 0)))
    if sides is None:
        (top, bottom), (left, right) = drawn_intervals(queries, high, seed=61), drawn_intervals(queries, wide, seed=62)
    else:
        top, left = drawn_intervals(queries, high - sides + 1, 63)[0], drawn_intervals(queries, wide - sides + 1, 64)[0]
        bottom, right = top + sides, left + sides
    return float(np.abs(off[bottom, right] - off[top, right] - off[bottom, left] + off[top, left]).mean())


def cell_errors(estimate: Floats, counts: Whole) -> float:
    """The mean absolute error of single cells."""
    return float(np.abs(estimate - counts).mean())


def region_errors(estimate: Floats, published: Published) -> float:
    """Mean absolute error of the totals of the regions found."""
    off = np.bincount(published.labels.ravel(), weights=(estimate - published.counts).ravel())
    return float(np.abs(off).mean())


ITERATIONS = (0, 5, 10)


def smoothing(entropy: Entropy) -> Exhibit:
    """Exhibit: root mean squared errors of noisy and of smoothed cells."""
    rows, shown = [], []
    for table, make in TABLES.items():
        counts = make()
        noisy = released(cells, counts, Setting().alpha_1, entropy)
        smoothed = [smooth(noisy, [0, 1], iterations=times) for times in ITERATIONS]
        rows.append((table, *(digits(float(np.sqrt(((s - counts) ** 2).mean()))) for s in smoothed)))
        if table == "continuous":
            names = ("perturbed", "after 5 iterations", "after 10 iterations")
            shown = [("original", counts.astype(np.float64)), *zip(names, smoothed, strict=True)]
    return Exhibit(
        "Appendix B, figures 24 to 27",
        "Smoothing: root mean squared distance from the true cells, alpha_1 = 0.15",
        "The paper shows pictures: the shape of continuous data becomes clear. So it does here. Where neighbours have "
        "nothing to do with each other smoothing leads away from the truth; it only decides which cells are put "
        "together, and is never published.",
        ("data", "perturbed", "after 5 iterations", "after 10"),
        tuple(rows),
        pictures=(Picture("figures-24-27", draw_grids("Continuous data", shown, side=180)),),
    )


BUDGET = Fraction(1, 5)  # alpha_1 + alpha_2, as in the paper


@dataclass(frozen=True)
class Sweep:
    """Sweep of one parameter: its values, the paper's claim about its figures, and the reason for ours."""

    name: str
    figures: str
    settings: dict[float, Setting]
    claim: str
    reason: str


SWEEPS = (
    Sweep(
        "alpha_1",
        "7 to 9",
        {
            float(share * BUDGET): Setting(alpha_1=share * BUDGET, alpha_2=(1 - share) * BUDGET)
            for share in (Fraction(n, 10) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9))
        },
        "a best alpha_1 on continuous data and no clear trend on random data.",
        "Ranges add up cells, so cells deserve most of the budget, on all data.",
    ),
    Sweep(
        "iterations of smoothing",
        "10 to 12",
        {float(n): replace(Setting(), iterations=n) for n in (0, 1, 2, 3, 5, 8, 12)},
        "the error falling with more smoothing on continuous data and rising on random data.",
        "Smoothing only decides the regions, so its effect is small where they are large anyway.",
    ),
    Sweep(
        "xi",
        "13 to 15",
        {float(xi): replace(Setting(), xi=float(xi)) for xi in (1, 2, 4, 6, 8, 12, 16)},
        "the error falling with xi on continuous data, falling and then steady on Adult, no clear trend on random "
        "data.",
        "Regions of continuous data grow together along its slopes with any xi, since a cell is compared with its "
        "neighbour only. With a large xi they swallow the ridge of Adult, and neighbours mislead.",
    ),
)


@dataclass(frozen=True)
class Curve:
    """Mean absolute errors of random rectangles, one for each value of a parameter, with their standard errors."""

    table: str
    values: Sequence[float]
    means: Sequence[float]
    stderrs: Sequence[float]


def sweep_errors(sweep: Sweep, table: str, entropy: Entropy, *, runs: int, every: int = 1) -> Curve:
    """Errors of ISPE over several runs for each value of the parameter, or for every few of them."""
    counts = TABLES[table]()
    values = list(sweep.settings)[::every]
    settings = [sweep.settings[value] for value in values]
    found = [[publish(counts, one, entropy).printed for _ in range(runs)] for one in settings]
    errors = np.array([[rectangle_errors(printed, counts) for printed in row] for row in found])
    stderrs = errors.std(axis=1, ddof=1) / runs**0.5
    return Curve(table, values, errors.mean(axis=1).tolist(), stderrs.tolist())


def tuning(entropy: Entropy, tick: Tick, *, quick: bool) -> list[Exhibit]:
    """Exhibits of figures 7 to 15, three figures each."""
    exhibits = []
    for place, sweep in enumerate(SWEEPS):
        curves = []
        for nth, table in enumerate(TABLES):
            tick(f"{sweep.name} on {table} data", 0.1 + 0.2 * (place + nth / len(TABLES)))
            curves.append(sweep_errors(sweep, table, entropy, runs=2 if quick else 20, every=4 if quick else 1))
        exhibits.append(_exhibit(sweep, curves))
    return exhibits


def _exhibit(sweep: Sweep, curves: Sequence[Curve]) -> Exhibit:
    rows = tuple(
        (curve.table, *(f"{digits(m)} ± {digits(s, 2)}" for m, s in zip(curve.means, curve.stderrs, strict=True)))
        for curve in curves
    )
    lines = [Line(c.table, c.values, c.means, bars=c.stderrs) for c in curves]
    plot = Plot(f"Figures {sweep.figures}: error by {sweep.name}", sweep.name, "mean absolute error", lines)
    return Exhibit(
        f"Section 5.2, figures {sweep.figures}",
        f"ISPE's error on 100 random rectangles by {sweep.name} (alpha 0.2 in all)",
        f"The paper finds {sweep.claim} Ours, by the paper's own estimate: {'; '.join(_trend(c) for c in curves)}. "
        f"{sweep.reason}",
        ("data", *(f"{value:g}" for value in curves[0].values)),
        rows,
        pictures=(Picture(f"figures-{sweep.figures.replace(' to ', '-')}", draw(plot)),),
    )


def _trend(curve: Curve) -> str:
    """Sentence on a curve: first and last error, and where it is least, as far as standard errors tell."""
    means, least = np.array(curve.means), int(np.argmin(curve.means))
    away = (means - means[least]) / np.hypot(curve.stderrs, curve.stderrs[least])
    if away.max() < 3:
        return f"{curve.table}, no trend beyond the noise"
    close = [value for value, distance in zip(curve.values, away, strict=True) if distance < 2]
    where = f"{close[0]:g}" if len(close) == 1 else f"{close[0]:g} to {close[-1]:g}"
    return f"{curve.table}, {digits(means[0])} at first, {digits(means[-1])} at last, least at {where}"
