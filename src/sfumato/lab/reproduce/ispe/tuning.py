"""ISPE, section 5.2, figures 7 to 15, and appendix B, figures 24 to 27: budget split, smoothing and threshold.

Xiao, Xiong, Yuan, TR-2011-005. The parameters are the split of the budget, the smoothing and the threshold of region
growing; appendix B shows the effect of the Gaussian filter on noisy cells. The paper prints curves without numbers,
from one set of noise; here every point is a mean over several, with its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Picture, Tick, digits
from sfumato.lab.reproduce.ispe.release import TABLES, Setting, publish, rectangle_errors
from sfumato.lab.reproduce.plot import Line, Plot, draw, draw_grids
from sfumato.lab.reproduce.synthetic import released
from sfumato.models.cells.cells import cells
from sfumato.models.partition.ispe import smooth

ITERATIONS = (0, 5, 10)


def smoothing(entropy: Entropy) -> Exhibit:
    """The distance of noisy and of smoothed cells from the true ones."""
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
    """One parameter, the values it takes, what the paper says about its figures, and what is behind ours."""

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
    """Run ISPE several times for each value of the parameter, or for every few of them."""
    counts = TABLES[table]()
    values = list(sweep.settings)[::every]
    errors = np.array(
        [
            [rectangle_errors(publish(counts, sweep.settings[v], entropy).printed, counts) for _ in range(runs)]
            for v in values
        ]
    )
    stderrs = errors.std(axis=1, ddof=1) / runs**0.5
    return Curve(table, values, errors.mean(axis=1).tolist(), stderrs.tolist())


def tuning(entropy: Entropy, tick: Tick, *, quick: bool) -> list[Exhibit]:
    """Figures 7 to 15, three to an exhibit."""
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
    """From the first to the last value, and where the error is least, as far as standard errors can tell."""
    means, least = np.array(curve.means), int(np.argmin(curve.means))
    away = (means - means[least]) / np.hypot(curve.stderrs, curve.stderrs[least])
    if away.max() < 3:
        return f"{curve.table}, no trend beyond the noise"
    close = [value for value, distance in zip(curve.values, away, strict=True) if distance < 2]
    where = f"{close[0]:g}" if len(close) == 1 else f"{close[0]:g} to {close[-1]:g}"
    return f"{curve.table}, {digits(means[0])} at first, {digits(means[-1])} at last, least at {where}"
