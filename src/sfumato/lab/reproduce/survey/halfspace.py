"""Survey, section 4.3, halfspaces: the conditions of the theorem, and the error of a net of directions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.halfspace.content import Halfspaces, changed_by, dimensions_needed
from sfumato.lab.papers.halfspace.net import directions_at_random, grid_points
from sfumato.lab.reproduce.exhibits import Exhibit
from sfumato.lab.reproduce.synthetic import curator_of, even_numbers, schema_of
from sfumato.models import find_mechanism

SIZE, WIDTH, ROWS = 12, 3, 50_000
ASKED = 60


def theorem_exhibit() -> Exhibit:
    """The dimensions that theorem 5 needs, by gamma."""
    rows = []
    for gamma in (0.9, 0.5, 0.1):
        needed = dimensions_needed(gamma, 0.1)
        net = f"10^{(needed - 1) * -np.log10(gamma):,.0f}"
        chances = [f"{changed_by(dimensions, gamma):.2f}" for dimensions in (10, 1000)]
        rows.append((f"{gamma:g}", f"{needed:,}", net, *chances))
    return Exhibit(
        "Theorems 5 and 6, learning halfspaces",
        "Dimensions to project to, for a share of 0.1, and the halfspaces of a net there",
        "The theorems hold and say nothing of any table there is: to project to fewer dimensions there must be more "
        "attributes than this, and the net has more halfspaces than can be counted. For 10 and for 1,000 dimensions "
        "the bound on the chance that a point's angle changes by gamma / 4 is about 1.",
        ("gamma", "dimensions", "net, about", "chance, 10", "chance, 1,000"),
        tuple(rows),
        left=(),
    )


def halfspace_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Errors of the method as it is in the survey, and as it is here, on a made-up table of three attributes."""
    counts, epsilon, runs = clustered(), Fraction(1), 1 if quick else 5
    cells = grid_points(schema_of(counts.shape).domain.axes, np.arange(counts.size))
    ways: tuple[tuple[str, dict[str, int]], ...] = (
        ("5 projections to 2 dimensions", {"dimensions": 2, "projections": 5, "directions": 16}),
        ("no projection, 48 directions", {}),
    )
    rows = []
    for name, options in ways:
        off, held, paid = [], [], 0.0
        for _ in range(runs):
            made = released(counts, epsilon, options, entropy)
            paid = float(made.measured[0].noise.scale) * (made.net.offsets - 1)  # type: ignore[union-attr]
            for direction, place in zip(
                directions_at_random(9, "asked", ASKED, WIDTH), even_numbers(ASKED, seed=6), strict=True
            ):
                offset = float(cells[int(place * counts.size)] @ direction) - 1e-9
                true = float(counts.reshape(-1)[cells @ direction > offset].sum())
                value, noise, unsure = made.value(direction, offset)
                off.append(abs(value - true))
                held.append(abs(value - true) <= 1.96 * np.hypot(noise, made.off * unsure) * 1.1)
        rows.append((name, f"{np.mean(off):,.0f}", f"{100 * np.mean(held):.0f} %", f"{paid:,.0f}"))
    return Exhibit(
        "4.3, answers by the median over projections",
        f"Mean error of {ASKED} halfspaces at random over {ROWS:,} rows in clusters, epsilon 1",
        "Projecting loses much of what a table of three attributes says. Without it the net alone is off, and the "
        "release measures by how much. The last column is the scale of noise if every canonical halfspace were paid "
        "for by itself, as in the survey; along one direction they are paid for together here.",
        ("", "mean error, rows", "95 % intervals held", "noise paid singly"),
        tuple(rows),
    )


def clustered() -> Whole:
    """Rows around three points of a cube."""
    numbers = even_numbers(ROWS * (2 * WIDTH + 1), seed=4).reshape(2 * WIDTH + 1, ROWS)
    centres = np.array([[0.2, 0.3, 0.7], [0.7, 0.8, 0.4], [0.5, 0.2, 0.2]])[(3 * numbers[0]).astype(np.int64)]
    spread = 0.12 * (numbers[1 : WIDTH + 1] + numbers[WIDTH + 1 :] - 1.0).T * 2.0
    codes = np.clip((centres + spread) * SIZE, 0, SIZE - 1).astype(np.int64)
    cells = np.ravel_multi_index(tuple(codes.T), (SIZE,) * WIDTH)
    return np.bincount(cells, minlength=SIZE**WIDTH).reshape((SIZE,) * WIDTH)


def released(counts: Whole, epsilon: Fraction, options: dict[str, int], entropy: Entropy) -> Halfspaces:
    """A release of a made-up table."""
    mechanism = find_mechanism("halfspace").with_options(options)
    curator, budget = curator_of(counts, epsilon, entropy), Budget.pure(epsilon)
    made = mechanism.run(curator, schema_of(counts.shape), budget, None)
    if not isinstance(made, Halfspaces):
        raise TypeError("the mechanism publishes halfspaces")
    return made
