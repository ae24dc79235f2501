"""One run of ISPE on a synthetic table, and its estimates as printed: posterior means of cells.

Xiao, Xiong, Yuan, TR-2011-005, section 5. The paper keeps the perturbed data and the queries the same for all
estimates it compares; so does this.

The estimates follow algorithms 3 and 4: every cell's posterior mean from itself, its region and its neighbours. A
neighbour in the same region counts as an observation of the cell itself, all observations count as independent, and
ranges add up their cells. Laws of summed noise are exact here. This ignores the real distance of neighbours and the
noises that are shared, which is why the product estimates otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.synthetic import adult_grid, continuous_grid, curator_of, random_grid, schema_of
from sfumato.lab.reproduce.tr_2010_003.intervals import drawn_intervals
from sfumato.models.calibration.first_stage import Shares
from sfumato.models.calibration.fit import innermost
from sfumato.models.partition.ispe import Settings, ispe
from sfumato.models.partition.shrinkage import ShrinkageFit

REACH = 15.0  # scales of the cells' noise on either side of a noisy cell within which its count is sought
FINENESS = 8  # steps of the grid in one scale


def neighbourhood_means(noisy: Floats, labels: Whole, totals: Floats, scales: tuple[float, float]) -> Floats:
    """The posterior mean of every cell of a grid.

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
    """The logarithm of the distribution of a region's noise less that of some of its cells, for 0, 1, 2 and so on.

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
    """Parameters that the paper varies; the values that stand still elsewhere are those of its Table 1."""

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
    """Run the mechanism once and estimate every cell in every way."""
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
    return Published(
        counts,
        fit.labels.reshape(counts.shape),
        fit.estimate.reshape(counts.shape),
        neighbourhood_means(
            noisy.reshape(counts.shape),
            fit.labels.reshape(counts.shape),
            totals.answers.astype(np.float64),
            (float(1 / setting.alpha_1), float(1 / setting.alpha_2)),
        ),
        (noisy + share[fit.labels]).reshape(counts.shape),
        noisy.reshape(counts.shape),
    )


def rectangle_errors(estimate: Floats, counts: Whole, *, sides: int | None = None, queries: int = 100) -> float:
    """The mean absolute error of random rectangles, of any size or of squares with this many cells to a side."""
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
    """The mean absolute error of the regions that were found."""
    off = np.bincount(published.labels.ravel(), weights=(estimate - published.counts).ravel())
    return float(np.abs(off).mean())
