"""ISPE, appendix B, figures 24 to 27: what the Gaussian filter makes of noisy cells."""

from __future__ import annotations

import numpy as np

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Picture, digits
from sfumato.lab.reproduce.ispe.release import TABLES, Setting
from sfumato.lab.reproduce.plot import draw_grids
from sfumato.lab.reproduce.released import released
from sfumato.models.cells.cells import cells
from sfumato.models.partition.smoothing import smooth

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
