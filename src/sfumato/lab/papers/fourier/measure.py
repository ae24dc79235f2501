"""Fourier: contingency tables that agree with each other, whole and never negative, from Walsh-Hadamard coefficients.

Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar, "Privacy, accuracy, and consistency too", PODS 2007; Dwork's survey of
2008, section 4.2.

    1  B, the coefficients that the wanted margins and all margins within them are made of
    2  each of them with noise of scale |B| / epsilon: a row of the table moves every coefficient by 1
    3  a linear program finds a table without negative cells that nearly has them; it is rounded to whole numbers
    4  margins of that table are published; with too many cells for a program, the total is raised instead

The paper's coefficients are divided by 2^(k/2); here they are whole, and so is their noise. Attributes of more than two
values are taken in bits, as the paper says; cells that no value has are left out of the program, and help the others.
Large cubes are raised by the least that leaves no margin negative: what the paper adds would drown them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb, sqrt
from typing import Literal

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.examples import small_table, whole_up_to
from sfumato.lab.papers.fourier.content import Coefficients, queries_of
from sfumato.lab.papers.fourier.program import bits_of, margin_bound, theorem_bound, whole_table
from sfumato.lab.papers.fourier.walsh import coefficients, downward_closure, written_out
from sfumato.measurement import Laplace, Measurement
from sfumato.models.base.mechanism import Forecast, Holds, Lab, Mechanism
from sfumato.models.base.promises import Figure, Promises, sure
from sfumato.models.linear.strategies.wanted_margins import Places, wanted_margins
from sfumato.queries import Workload, default_workload
from sfumato.schema import Schema

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
    return Coefficients(schema, sets, tuple(measured), *_table(schema, sets, measured, options))


def _coefficients(sets: tuple[Places, ...], sizes: tuple[int, ...]) -> int:
    return sum(coefficients(sizes[place] for place in places) for places in sets)


def _scale(schema: Schema, budget: Budget, number: int) -> Fraction:
    """Of the noise of each of so many coefficients: its scale, or its variance where it is Gaussian."""
    contributions = schema.privacy_unit.contributions
    if budget.is_pure:
        return contributions * number / budget.amount
    return contributions**2 * number / (2 * budget.amount)


def _table(
    schema: Schema, sets: tuple[Places, ...], measured: list[Measurement], options: Options
) -> tuple[Codes | None, Whole | None]:
    """The cells and rows of a table, by the linear program; none where the user says so or no table is found."""
    if options.table == "raise":
        return None, None
    found = whole_table(written_out(sets, schema.domain.shape), np.concatenate([one.answers for one in measured]))
    if found is None:
        return None, None
    cells = np.flatnonzero(found)
    return cells, found[cells]


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


def example(contributions: int) -> Schema:
    """Three values and two: a cell of the first attribute's bits has no value."""
    return small_table("audit", contributions, a=whole_up_to(2), b=whole_up_to(1))


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
    lab=Lab(example=example),
)
