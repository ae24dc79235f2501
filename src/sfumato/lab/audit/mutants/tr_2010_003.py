"""NOT PRIVATE: the max query of TR-2010-003, and broken parities and quantiles; the audit must catch each.

Xiao, Xiong, Yuan, TR-2010-003, section 4.1.2 with the ranges of section 7: the limited-domain algorithm for max
queries, kept to show that it exceeds its claim. Theorem 4.3 claims alpha-differential privacy, but its proof adds the
differing record last. A record that comes earlier changes the masses from which all later shifts are computed, and
these can widen the difference. The exact audit must catch it; nothing shipped uses it.

Parities: the proof says noise on every cell, and a vector that is read off the noisy cells; each mutant forgets one
half. Quantiles: lines with a step of their proof left out, for the replay audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np

from sfumato.answers.fit import NoisyCells
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.lab.audit.attacks.exact import DIGITS, Distribution, exact_loss
from sfumato.lab.audit.mutants.curators import fresh
from sfumato.lab.papers.parity.content import ParityCube, as_cells, odd, transformed
from sfumato.lab.papers.parity.measure import parity
from sfumato.queries import Workload
from sfumato.schema import Schema


def limited_domain_max(
    rows: Sequence[int], alpha: Fraction, cells: int, *, width: int = 1, overlap: bool = True
) -> Distribution:
    """NOT PRIVATE: what the paper would publish as the largest value, as a distribution over the cells.

    All cells start alike. Each row x, in the order of the table, draws mass into the cells from x - width to x + width,
    out of the cells up to x - width: as much as makes the first e^alpha times as heavy or the second e^alpha times
    lighter, whichever is less, spread in proportion to what each cell holds.
    overlap: whether the cell x - width belongs to both ranges, as it does in the paper's closed intervals.
    """
    with localcontext(prec=DIGITS):
        factor = (Decimal(alpha.numerator) / Decimal(alpha.denominator)).exp()
        mass = [Decimal(1) / cells] * cells
        for x in rows:
            gaining = range(max(0, x - width), min(cells, x + width + 1))
            losing = range(max(0, x - width + overlap))
            heavier, lighter = sum(mass[r] for r in gaining), sum(mass[r] for r in losing)
            moved = min(heavier * (factor - 1), lighter * (1 - 1 / factor))
            if moved:
                gain = {r: moved * mass[r] / heavier for r in gaining}
                loss = {r: moved * mass[r] / lighter for r in losing}
                mass = [mass[r] + gain.get(r, 0) - loss.get(r, 0) for r in range(cells)]
        return dict(enumerate(mass))


def limited_domain_loss(alpha: Fraction | int, cells: int, rows: int, *, width: int = 1, overlap: bool = True) -> float:
    """Largest privacy loss over all tables of up to `rows` rows in every order, with and without any one row.

    >>> round(limited_domain_loss(1, cells=4, rows=3), 2)
    1.77
    """

    @cache
    def published(table: tuple[int, ...]) -> Distribution:
        return limited_domain_max(table, Fraction(alpha), cells, width=width, overlap=overlap)

    tables = (table for size in range(1, rows + 1) for table in product(range(cells), repeat=size))
    return max(
        exact_loss([published(table)], [published(table[:place] + table[place + 1 :])])
        for table in tables
        for place in range(len(table))
    )


EVEN = (0, 0, 0, 0, 1, 0)  # rows of a table in which one more decides which attribute fits best
CLEAR = (0, 40, 40, 0, 40, 0)  # and of one that leaves no doubt which cells contradict the vector


def label_from_the_table(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> ParityCube:
    """NOT PRIVATE: the attribute that is published as the label is the one that fits best in the private table."""
    made = parity(curator, schema, budget)
    names, best = schema.domain.names, []
    for place in range(len(names)):
        zeros, ones = as_cells(curator._dense("count"), place, 3)
        best.append(int(np.abs(transformed(zeros - ones))[1:].max()))
    return replace(made, label=names[int(np.argmax(best))])


def contradictions_left_empty(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> ParityCube:
    """NOT PRIVATE: cells that contradict the vector and hold no row are published as 0, as if that told nothing."""
    made = parity(curator, schema, budget)
    counted, counts = made.fits[0].measurements[0], curator._dense("count")
    place = np.arange(len(counts))
    wrong = (odd((place >> 1) & made.learnt.vector) ^ made.learnt.opposite) != (place & 1)
    answers = np.where(wrong & (counts == 0), 0, counted.answers)
    return replace(made, fits=(NoisyCells(replace(counted, answers=answers)),))


MEDIAN, QUARTILE = Fraction(1, 2), Fraction(1, 4)


def below_the_median(curator: Curator, schema: Schema, budget: Budget) -> list[int]:
    """Choose the median with half of the budget, then a quartile of the pieces up to it with the other half."""
    lines = curator.lines(schema.domain.names[:1], budget, pieces=2)
    half, rest = budget.evenly(2)
    first = lines.cut(0, MEDIAN, half, first=0, end=lines.length)
    return [first, lines.cut(0, QUARTILE, rest, first=0, end=first + 1)]


def lines_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[int]:
    """Choose the median of the same line with the whole budget again and again, three times at most."""
    found: list[int] = []
    with suppress(PrivacyError):
        for _ in range(3):
            lines = curator.lines(schema.domain.names[:1], budget)
            found.append(lines.cut(0, MEDIAN, budget, first=0, end=lines.length))
    return found


class FreeLinesCurator(Curator):
    """NOT PRIVATE: lines have a charge of their own, and nothing is charged for them where they come from."""

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        held, self.charge = self.charge, fresh(self.charge)
        made = super().lines(names, budget, pieces=pieces)
        self.charge = held
        return made


class ReshuffledCurator(Curator):
    """NOT PRIVATE: rows are dealt out in shares of a cell's pieces, so that one more row moves many of them."""

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        made = super().lines(names, budget, pieces=pieces)
        made._counts = made._counts * made._counts.sum()
        return made
