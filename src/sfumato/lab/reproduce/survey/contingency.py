"""Survey, section 4.2, contingency tables (Barak et al. 2007): bound (5), and the program against a raised total."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.fourier.content import Coefficients
from sfumato.lab.papers.fourier.measure import Options, fourier, raise_bound, theorem_bound
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.synthetic import curator_of, even_numbers, schema_of
from sfumato.models.linear.residual import residual
from sfumato.models.margins.content import Margins
from sfumato.models.margins.measure import margins

Whole = NDArray[np.int64]

ORDER, DELTA, ROWS, ONE = 3, 0.05, 10_000, Fraction(1)


def binary_table(axes: int, rows: int, seed: int) -> Whole:
    """Rows of three hidden classes, in each of which binary attributes are independent."""
    chances = np.sin(np.pi / 2 * even_numbers(3 * axes, 3 * seed)).reshape(3, axes) ** 2
    hidden = np.searchsorted([0.5, 0.8], even_numbers(rows, 3 * seed + 1), side="right")
    bits = (even_numbers(rows * axes, 3 * seed + 2).reshape(rows, axes) < chances[hidden]).astype(np.int64)
    counts = np.bincount(bits @ (1 << np.arange(axes)[::-1]), minlength=2**axes)
    return np.asarray(counts, dtype=np.int64).reshape([2] * axes)


def coefficients_of(counts: Whole, entropy: Entropy, options: Options) -> Coefficients:
    """Publication of the mechanism on a table, at epsilon 1."""
    return fourier(curator_of(counts, ONE, entropy), schema_of(counts.shape), Budget.pure(ONE), options=options)


def errors(found: Callable[[tuple[int, ...]], Floats], counts: Whole) -> tuple[float, float]:
    """Errors of all 3-way margins: the root mean squared error of a cell, and the largest L1 error."""
    off = []
    for places in combinations(range(counts.ndim), ORDER):
        truth = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in places))
        off.append(found(places) - truth)
    return sqrt(float(np.mean(np.square(off)))), max(float(np.abs(each).sum()) for each in off)


def joined(content: Margins) -> Callable[[tuple[int, ...]], Floats]:
    """Margins as a release of margins has them."""
    return lambda places: content.joined({place: np.arange(2) for place in places})["count"]


def of_cells(cells: Floats, axes: int) -> Callable[[tuple[int, ...]], Floats]:
    """Margins of a table that is laid out."""
    table = cells.reshape([2] * axes)
    return lambda places: table.sum(axis=tuple(axis for axis in range(axes) if axis not in places))


def bound_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Theorem 4, and what others make of the same margins and budget."""
    rows = []
    for axes, runs in ((5, 2),) if quick else ((6, 20), (8, 20), (10, 5)):
        number = sum(comb(axes, order) for order in range(ORDER + 1))
        found = []
        for run in range(runs):
            counts = binary_table(axes, ROWS, run)
            content = coefficients_of(counts, entropy, Options(order=ORDER))
            ours = errors(of_cells(content.cells(), axes), counts)
            schema, budget = schema_of(counts.shape), Budget.pure(ONE)
            others = [
                errors(joined(recipe(curator_of(counts, ONE, entropy), schema, budget)), counts)[0]
                for recipe in (residual, margins)
            ]
            found.append((ours[1], ours[0], *others))
        worst = max(each[0] for each in found)
        means: list[float] = np.mean(np.array(found)[:, 1:], axis=0).tolist()
        bound = theorem_bound(ORDER, number, 1.0, DELTA)
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
    """The linear program beside the variant for large k, with what the paper adds and with the least that will do."""
    rows = []
    for axes in (5, 6) if quick else (6, 8, 10):
        counts = binary_table(axes, ROWS, axes)
        program = coefficients_of(counts, entropy, Options(order=ORDER, table="program"))
        lifted = coefficients_of(counts, entropy, Options(order=ORDER, table="raise"))
        number = sum(len(one.answers) for one in lifted.measured)
        added = raise_bound(number, lifted.noise)
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
