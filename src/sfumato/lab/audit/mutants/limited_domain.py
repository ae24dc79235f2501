"""NOT PRIVATE. The limited-domain algorithm for max queries of TR-2010-003, kept to show that it exceeds its claim.

Xiao, Xiong, Yuan, TR-2010-003, section 4.1.2 with the ranges of section 7. Theorem 4.3 claims alpha-differential
privacy, but its proof adds the differing record last. A record that comes earlier changes the masses from which all
later shifts are computed, and these can widen the difference. The exact audit must catch it; nothing shipped uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product

from sfumato.lab.audit.attacks.exact import DIGITS, Distribution, exact_loss


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
    """The largest loss over all tables of up to `rows` rows in every order, each with any one row taken away.

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
