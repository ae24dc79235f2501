"""Survey, section 4: contingency tables (4.2), data inference (4.1) and halfspaces (4.3).

4.1: 2-way minterms from 1-way conjunctions on subsets (Dwork, Nissim 2004).
4.2: bound (5), and the program against a raised total (Barak et al. 2007).
4.3: the conditions of the theorem, and the error of a net of directions (Blum, Ligett, Roth).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt
from typing import Any, cast

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.conjunctions import measure as conjunctions
from sfumato.lab.papers.conjunctions.content import best_subsets, direct_error, expected_error, rows_needed
from sfumato.lab.papers.fourier import measure as fourier
from sfumato.lab.papers.fourier.content import Coefficients
from sfumato.lab.papers.halfspace.content import Halfspaces, changed_by, dimensions_needed
from sfumato.lab.papers.halfspace.net import directions_at_random, grid_points
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.synthetic import curator_of, even_numbers, schema_of
from sfumato.models import find_mechanism
from sfumato.models.linear.residual import residual
from sfumato.models.margins.content import Margins
from sfumato.models.margins.measure import margins
from sfumato.models.margins.nested import NestedMargins

ORDER, DELTA, ROWS, ONE = 3, 0.05, 10_000, Fraction(1)


def binary_table(axes: int, rows: int, seed: int) -> Whole:
    """Made-up binary table: a mixture of three classes with independent attributes."""
    chances = np.sin(np.pi / 2 * even_numbers(3 * axes, 3 * seed)).reshape(3, axes) ** 2
    hidden = np.searchsorted([0.5, 0.8], even_numbers(rows, 3 * seed + 1), side="right")
    bits = (even_numbers(rows * axes, 3 * seed + 2).reshape(rows, axes) < chances[hidden]).astype(np.int64)
    counts = np.bincount(bits @ (1 << np.arange(axes)[::-1]), minlength=2**axes)
    return np.asarray(counts, dtype=np.int64).reshape([2] * axes)


def coefficients_of(counts: Whole, entropy: Entropy, **options: Any) -> Coefficients:
    """Release of `fourier` on a table, at epsilon 1, for 3-way margins."""
    stated = fourier.Options(order=ORDER, **options)
    return fourier.fourier(curator_of(counts, ONE, entropy), schema_of(counts.shape), Budget.pure(ONE), options=stated)


def errors(found: Callable[[tuple[int, ...]], Floats], counts: Whole) -> tuple[float, float]:
    """Errors of all 3-way margins: the root mean squared error of a cell, and the largest L1 error."""
    off = []
    for places in combinations(range(counts.ndim), ORDER):
        truth = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in places))
        off.append(found(places) - truth)
    return sqrt(float(np.mean(np.square(off)))), max(float(np.abs(each).sum()) for each in off)


def joined(content: Margins | NestedMargins) -> Callable[[tuple[int, ...]], Floats]:
    """Function from attributes to the marginal table of a release of margins."""
    assert isinstance(content, Margins)  # noqa: S101 (binary attributes have no groups)
    return lambda places: content.joined({place: np.arange(2) for place in places})["count"]


def of_cells(cells: Floats, axes: int) -> Callable[[tuple[int, ...]], Floats]:
    """Function from attributes to the marginal table of a dense table of cells."""
    table = cells.reshape([2] * axes)
    return lambda places: table.sum(axis=tuple(axis for axis in range(axes) if axis not in places))


def bound_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: theorem 4's error bound beside other mechanisms with the same margins and budget."""
    rows = []
    for axes, runs in ((5, 2),) if quick else ((6, 20), (8, 20), (10, 5)):
        number = sum(comb(axes, order) for order in range(ORDER + 1))
        found = []
        for run in range(runs):
            counts = binary_table(axes, ROWS, run)
            content = coefficients_of(counts, entropy)
            ours = errors(of_cells(content.cells(), axes), counts)
            schema, budget = schema_of(counts.shape), Budget.pure(ONE)
            others = [
                errors(joined(recipe(curator_of(counts, ONE, entropy), schema, budget)), counts)[0]
                for recipe in (residual, margins)
            ]
            found.append((ours[1], ours[0], *others))
        worst = max(each[0] for each in found)
        means: list[float] = np.mean(np.array(found)[:, 1:], axis=0).tolist()
        bound = fourier.theorem_bound(ORDER, number, 1.0, DELTA)
        rows.append((str(axes), str(number), digits(bound), digits(worst), *map(digits, means)))
    return Exhibit(
        "Section 4.2, theorem 4 and bound (5)",
        "All 3-way margins of binary attributes, 10,000 rows, epsilon 1, delta 0.05",
        "The bound holds by far: it is made for the worst noise on every coefficient at once. The last three "
        "columns are root mean squared errors of a cell. Unbiased margins with the noise placed where it costs "
        "least, and margins that are drawn towards smaller ones, have less error for the same budget.",
        ("attributes", "|B|", "bound (5)", "largest error seen", "program", "unbiased", "drawn together"),
        tuple(rows),
        left=(),
    )


def raise_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: the linear programme beside raising the total, by the paper's amount and by the least possible."""
    rows = []
    for axes in (5, 6) if quick else (6, 8, 10):
        counts = binary_table(axes, ROWS, axes)
        program = coefficients_of(counts, entropy, table="program")
        lifted = coefficients_of(counts, entropy, table="raise")
        number = sum(len(one.answers) for one in lifted.measured)
        added = fourier.raise_bound(number, lifted.noise)
        # The raise goes evenly over the cells of every margin, whatever the noise does.
        figures = [
            errors(of_cells(program.cells(), axes), counts)[0],
            errors(joined(program.unbiased), counts)[0],
            errors(joined(lifted.raised), counts)[0],
            added / 2**ORDER,
        ]
        rows.append((str(axes), digits(lifted.raised_by), digits(added), *map(digits, figures)))
    return Exhibit(
        'Section 4.2, "When k is Large"',
        "The linear program against raising the first coefficient, 3-way margins, 10,000 rows, epsilon 1",
        "The amount is not pleasantly small: what makes sure that a table without negative cells is behind the margins "
        "is the sum of all noises, |B|^2 / epsilon, and it goes into every margin. The least that leaves no published "
        "margin negative is far less, and its error still above that of the coefficients, which the program has too.",
        ("attributes", "least raise", "paper's", "program", "coefficients", "least raise, error", "paper's, error"),
        tuple(rows),
        left=(),
    )


AXES = 6


def inference_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: errors of inferred minterms, measured and expected, beside those of tables measured directly."""
    rows = []
    for number, epsilon in ((10_000, 1), (10_000, 10)) if quick else ((10_000, 1), (100_000, 1), (100_000, 10)):
        counts = binary_table(AXES, number, 1)
        subsets = best_subsets(number, AXES, 1, float(epsilon))
        budget = Budget.pure(Fraction(epsilon))
        curator = curator_of(counts, budget.amount, entropy)
        options = conjunctions.Options(subsets=subsets)
        content = conjunctions.conjunctions(curator, schema_of(counts.shape), budget, options=options)
        off, held = [], []
        for pair in combinations(range(AXES), 2):
            truth = counts.sum(axis=tuple(axis for axis in range(AXES) if axis not in pair))
            for codes in np.ndindex(2, 2):
                found = content.estimate(tuple(zip(pair, codes, strict=True)))
                off.append(found.value - truth[codes])
                held.append(found.low <= truth[codes] <= found.high)
        foretold = expected_error(number, AXES, 1, subsets, float(epsilon), worst=False)
        figures = (foretold, sqrt(float(np.mean(np.square(off)))), direct_error(AXES, 1, float(epsilon)))
        rows.append((f"{number:,}", str(epsilon), str(subsets), *map(digits, figures), f"{np.mean(held):.2f}"))
    return Exhibit(
        "Section 4.1",
        "Pairs of six binary attributes inferred from single ones on random subsets, beside pairs that are measured",
        "Inference works as described and asks fewer questions. Each is asked on t subsets, though, with noise in"
        " proportion to t, and which rows a subset holds is chance: as a share of the rows, the error falls with "
        "their fourth root, where that of pairs measured directly falls with the rows themselves. The error seen "
        "is less than foretold where answers are held between what two counts must share and may share.",
        ("rows", "epsilon", "subsets", "foretold", "seen", "measured directly", "95 % intervals held"),
        tuple(rows),
        left=(),
    )


def sample_exhibit() -> Exhibit:
    """Exhibit: number of rows that data inference needs."""
    rows = []
    for axes, literals in ((10, 1), (20, 1), (10, 2)):
        number = comb(axes, literals) * 2**literals
        asked = f"{axes}", f"{literals}", f"{number}"
        needed = [rows_needed(axes, literals, 1.0, within, 0.05) for within in (0.1, 0.05, 0.1 / number**2)]
        direct = 5.0 * direct_error(axes, literals, 1.0) / 0.05
        rows.append((*asked, *(_rows(each) for each in needed), f"{direct:,.0f}"))
    return Exhibit(
        "Section 4.1, sample size",
        "Rows from which all conjunctions of 2 l literals are within a share of the rows, epsilon 1, probability 0.95",
        '"When the database is sufficiently large this tradeoff can be accomplished": for a tenth of the rows it '
        "takes tens of billions, sixteen times as many for half of that, and for the survey's eta / m^2 more than"
        " 10^18. The last column is what tables of 2 l attributes need for 0.05, measured directly (five standard"
        " errors).",
        ("attributes", "l", "m", "within 0.1", "within 0.05", "within 0.1 / m^2", "directly, 0.05"),
        tuple(rows),
        left=(),
    )


def _rows(needed: float) -> str:
    return "more than 1e18" if needed == float("inf") else f"{needed:.1e}"


SIZE, WIDTH, CLUSTERED_ROWS = 12, 3, 50_000
ASKED = 60


def theorem_exhibit() -> Exhibit:
    """Exhibit: dimensions that theorem 5 requires, by gamma."""
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
    """Exhibit: errors of the survey's method and of ours, on a made-up table of three attributes."""
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
            questions = directions_at_random(9, "asked", ASKED, WIDTH), even_numbers(ASKED, seed=6)
            for direction, place in zip(*questions, strict=True):
                offset = float(cells[int(place * counts.size)] @ direction) - 1e-9
                true = float(counts.reshape(-1)[cells @ direction > offset].sum())
                value, noise, unsure = made.value(direction, offset)
                off.append(abs(value - true))
                held.append(abs(value - true) <= 1.96 * np.hypot(noise, made.off * unsure) * 1.1)
        rows.append((name, f"{np.mean(off):,.0f}", f"{100 * np.mean(held):.0f} %", f"{paid:,.0f}"))
    return Exhibit(
        "4.3, answers by the median over projections",
        f"Mean error of {ASKED} halfspaces at random over {CLUSTERED_ROWS:,} rows in clusters, epsilon 1",
        "Projecting loses much of what a table of three attributes says. Without it the net alone is off, and the "
        "release measures by how much. The last column is the scale of noise if every canonical halfspace were paid "
        "for by itself, as in the survey; along one direction they are paid for together here.",
        ("", "mean error, rows", "95 % intervals held", "noise paid singly"),
        tuple(rows),
    )


def clustered() -> Whole:
    """Made-up table of rows around three points of a cube."""
    numbers = even_numbers(CLUSTERED_ROWS * (2 * WIDTH + 1), seed=4).reshape(2 * WIDTH + 1, CLUSTERED_ROWS)
    centres = np.array([[0.2, 0.3, 0.7], [0.7, 0.8, 0.4], [0.5, 0.2, 0.2]])[(3 * numbers[0]).astype(np.int64)]
    spread = 0.12 * (numbers[1 : WIDTH + 1] + numbers[WIDTH + 1 :] - 1.0).T * 2.0
    codes = np.clip((centres + spread) * SIZE, 0, SIZE - 1).astype(np.int64)
    cells = np.ravel_multi_index(tuple(codes.T), (SIZE,) * WIDTH)
    return np.bincount(cells, minlength=SIZE**WIDTH).reshape((SIZE,) * WIDTH)


def released(counts: Whole, epsilon: Fraction, options: dict[str, int], entropy: Entropy) -> Halfspaces:
    """Release of `halfspace` on a made-up table."""
    mechanism = find_mechanism("halfspace").with_options(options)
    made = mechanism.run(curator_of(counts, epsilon, entropy), schema_of(counts.shape), Budget.pure(epsilon), None)
    return cast(Halfspaces, made)
