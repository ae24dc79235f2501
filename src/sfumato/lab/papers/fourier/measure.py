"""Fourier: consistent, non-negative, integer contingency tables from noisy Walsh-Hadamard coefficients.

Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar, "Privacy, accuracy, and consistency too", PODS 2007; Dwork's survey of
2008, section 4.2. Steps, proof and what was corrected: docs/fourier.md.

The linear program: minimise b subject to w >= 0 and |coefficient - (row, w)| <= b for every coefficient. The simplex
method ends in a corner, where at most as many cells as there are coefficients, and one more, are not zero: bound (5) of
theorem 4 on the error of margins rests on rounding no more than these.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil, comb, exp, log, pi, sqrt
from typing import Literal

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.lab.papers.fourier.content import (
    Coefficients,
    Listed,
    coefficients,
    downward_closure,
    queries_of,
    written_out,
)
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.models.base.mechanism import Figure, Forecast, Holds, Lab, Mechanism, Promises, sure
from sfumato.models.linear.strategies.residual_basis import Places, wanted_margins
from sfumato.queries import Workload, default_workload
from sfumato.schema import Schema


def theorem_bound(bits: int, coefficients: int, epsilon: float, delta: float) -> float:
    """The paper's L1 error bound for margins of so many bits, all together with probability 1 - delta."""
    return float(2**bits) * 2 * coefficients * log(coefficients / delta) / epsilon + coefficients


def largest_noise(coefficients: int, noise: Noise, delta: float) -> int:
    """Bound on the size of all of so many noises with probability 1 - delta; exact for discrete Laplace noise.

    >>> from fractions import Fraction
    >>> largest_noise(1, Laplace(Fraction(10)), 0.05)
    30
    """
    if isinstance(noise, Laplace):
        # P(|z| > t) = 2 q^(t + 1) / (1 + q) with q = exp(-1 / scale), for whole t
        scale = float(noise.scale)
        return max(0, ceil(scale * (log(2 * coefficients / delta) - log(1 + exp(-1 / scale))) - 1))
    # P(|z| > t) <= 2 exp(-t^2 / (2 sigma^2)): discrete Gaussian noise is subgaussian (Canonne, Kamath, Steinke 2020)
    return ceil(sqrt(2 * float(noise.sigma_squared) * log(2 * coefficients / delta)))


def margin_bound(bits: int, coefficients: int, noise: Noise, delta: float) -> float:
    """L1 error bound of a margin for the noise drawn: twice the largest noise on 2^bits coefficients, plus rounding.

    Rounding moves at most one cell more than there are coefficients, each by a half.
    """
    return float(2**bits) * 2 * largest_noise(coefficients, noise, delta) + (coefficients + 1) / 2


def raise_bound(coefficients: int, noise: Noise) -> float:
    """Expected sum of |noise| over coefficients: added to the total, it allows a table without negative cells.

    This is its expected size. The true table plus its noise, cell by cell, is nowhere below minus that sum over the
    number of cells, so that raising the total by it does.
    """
    typical = float(noise.scale) if isinstance(noise, Laplace) else sqrt(2 * float(noise.sigma_squared) / pi)
    return coefficients * typical


def bits_of(sizes: Sequence[int]) -> int:
    """Number of bits of a margin: the sum over its attributes."""
    return sum((size - 1).bit_length() for size in sizes)


def whole_table(rows: Floats, coefficients: Whole) -> Whole | None:
    """Non-negative integer table fitted to coefficients (linear programme, then rounding); None if the solver fails.

    rows: the Walsh rows over all cells, written out.
    """
    from scipy.optimize import linprog

    number, cells = rows.shape
    if not coefficients.any():
        return np.zeros(cells, dtype=np.int64)
    slack = -np.ones((number, 1))
    bounds = np.vstack([np.hstack([rows, slack]), np.hstack([-rows, slack])])
    # In units of the largest coefficient, so that the solver's tolerances mean the same for every table.
    unit = float(np.abs(coefficients).max())
    scaled = coefficients / unit
    found = linprog(
        np.append(np.zeros(cells), 1.0), A_ub=bounds, b_ub=np.concatenate([scaled, -scaled]), method="highs-ds"
    )
    if found.status != 0:
        return None
    rounded: Whole = np.maximum(np.rint(unit * found.x[:-1]), 0.0).astype(np.int64)
    return rounded


MOST_COEFFICIENTS = 2**18
MOST_SETS = 20_000  # of attributes, each of which is counted by itself
MOST_IN_PROGRAM = 2**18  # coefficients times cells: a few seconds


@dataclass(frozen=True)
class Options:
    """order: all margins of so many attributes; 2 where no workload says which are wanted. table: how it is made.

    Raising the total adds rows that nobody has, more of them than there are where margins are large, so it is only done
    where it is stated.
    """

    order: int | None = None
    table: Literal["program", "raise"] = "program"


PLAIN = Options()


def fourier(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Coefficients:
    """Publish noisy coefficients and a table behind them. budget: spent evenly over the coefficients."""
    sizes, names = schema.domain.shape, schema.domain.names
    sets = downward_closure(_wanted(schema, workload, options), sizes)
    scale = _scale(schema, budget, _coefficients(sets, sizes))
    measured = []
    for places in sets:
        seen = curator.margin([names[place] for place in places])
        measured.append(seen.measure(queries_of(places, sizes), scales=scale))
    return Coefficients(schema, sets, tuple(measured), _table(schema, sets, measured, options))


def _coefficients(sets: tuple[Places, ...], sizes: tuple[int, ...]) -> int:
    return sum(coefficients(sizes[place] for place in places) for places in sets)


def _scale(schema: Schema, budget: Budget, number: int) -> Fraction:
    """Noise parameter of each of `number` coefficients: Laplace scale, or Gaussian sigma squared."""
    contributions = schema.privacy_unit.contributions
    if budget.is_pure:
        return contributions * number / budget.amount
    return contributions**2 * number / (2 * budget.amount)


def _table(schema: Schema, sets: tuple[Places, ...], measured: list[Measurement], options: Options) -> Listed | None:
    """Table fitted by the linear programme; None if the options say "raise" or none is found."""
    if options.table == "raise":
        return None
    found = whole_table(written_out(sets, schema.domain.shape), np.concatenate([one.answers for one in measured]))
    return None if found is None else Listed(np.flatnonzero(found), found[np.flatnonzero(found)])


def _wanted(schema: Schema, workload: Workload | None, options: Options) -> list[Places]:
    if options.order is None and workload is not None and workload is not default_workload(schema.domain):
        return list(wanted_margins(schema.domain, workload))
    places = [place for place, size in enumerate(schema.domain.shape) if size > 1]
    return list(combinations(places, min(_order(options), len(places))))


def _order(options: Options) -> int:
    return 2 if options.order is None else options.order


def _refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    sizes = schema.domain.shape
    if schema.measures:
        return "it counts rows and takes no measures; leave them out of the schema, or use margins"
    if not 1 <= _order(options) <= 8:
        return f"margins of {_order(options)} attributes cannot be asked for; state an order from 1 to 8"
    if comb(len(sizes), min(_order(options), len(sizes))) > MOST_SETS:
        return f"there are more than {MOST_SETS:,} margins of {_order(options)} attributes; state a lower order"
    sets = downward_closure(_wanted(schema, workload, options), sizes)
    number = _coefficients(sets, sizes)
    if number > MOST_COEFFICIENTS or len(sets) > MOST_SETS:
        return (
            f"it would measure {number:,} coefficients of {len(sets):,} sets of attributes, and takes "
            f"{MOST_COEFFICIENTS:,} of {MOST_SETS:,}; state a lower order, or use residual or margins"
        )
    if options.table == "program" and number * schema.domain.size > MOST_IN_PROGRAM:
        return (
            f"a linear program of {number:,} coefficients and {schema.domain.size:.3g} cells is too large; use "
            "residual or margins, fewer attributes, or --with table=raise, which adds rows until no cell is negative"
        )
    return None


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    sizes = schema.domain.shape
    sets = downward_closure(_wanted(schema, workload, options), sizes)
    number, bits = _coefficients(sets, sizes), max(bits_of([sizes[place] for place in places]) for places in sets)
    noise = Laplace(_scale(schema, budget, number))
    epsilon = float(budget.amount) / schema.privacy_unit.contributions
    figures = (
        Figure("coefficients, each with noise of its own", number, "coefficients"),
        Figure("standard error of each", sqrt(noise.variance)),
        Figure(
            f"root mean squared error of a cell of the widest margin, {bits} bits, about",
            sqrt(noise.variance / 2**bits),
        ),
        Figure(
            f"all cells of it together, absolute errors added up, at most, for all margins at once, {sure(confidence)}",
            margin_bound(bits, number, noise, 1.0 - confidence),
        ),
        Figure("the same by bound (5) of the paper", theorem_bound(bits, number, epsilon, 1.0 - confidence)),
    )
    if options.table == "raise":
        return Promises(
            figures[:3], ("The total is raised until no cell is negative: by how much only a release tells.",)
        )
    return Promises(
        figures, ("`sfumato plan --mechanism residual` says what the same margins cost without whole numbers.",)
    )


EXAMPLE = small_table("audit", a=whole_up_to(2), b=whole_up_to(1))  # a number in bits of the first is no value


MECHANISM = Mechanism(
    name="fourier",
    summary="contingency tables that agree with each other, whole numbers and none negative",
    paper="Barak et al. 2007",
    run=fourier,
    gaussian=True,
    refuses=_refuses,
    answers="its workload",
    options=Options,
    holds=Holds(by_margins=True),
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE),
)
