"""TR-2010-003: cell-wise release for distributive queries (Xiao, Xiong, Yuan 2010), its section 8 again."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Study, Tick
from sfumato.lab.reproduce.tr_2010_003.blr import ALPHA, DELTA, ERROR, table_1
from sfumato.lab.reproduce.tr_2010_003.interval_exhibits import one_dimension, table_2, two_dimensions
from sfumato.lab.reproduce.tr_2010_003.largest import largest_exhibit
from sfumato.lab.reproduce.tr_2010_003.parity import parity_exhibit
from sfumato.planner.usefulness import every_query_error, paper_rows


def study(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """Every table and figure of section 8, and Table 1."""
    parts: tuple[tuple[str, Callable[[], Exhibit]], ...] = (
        ("intervals", lambda: one_dimension(entropy)),
        ("Table 2", lambda: table_2(entropy)),
        ("rectangles", lambda: two_dimensions(entropy, quick=quick)),
        ("bounds", usefulness),
        ("Blum, Ligett and Roth", lambda: table_1(entropy, quick=quick)),
        ("parity", lambda: parity_exhibit(entropy, quick=quick)),
        ("the largest value", lambda: largest_exhibit(quick=quick)),
    )
    exhibits = []
    for place, (name, part) in enumerate(parts):
        tick(name, place / len(parts))
        exhibits.append(part())
    return Study("tr-2010-003", "TR-2010-003: non-interactive release for distributive queries", tuple(exhibits))


def usefulness() -> Exhibit:
    """The rows that theorem 5.2 asks for, and those that are needed."""
    rows = []
    for cells, alpha, error, printed in ((100, ALPHA, ERROR, "7.6e+05"), (8000, ALPHA, Fraction(1, 100), "1.92e+08")):
        promised = paper_rows(cells, alpha, float(error), 1 - DELTA)
        needed = every_query_error(cells, alpha, 1 - DELTA) / float(error)
        rows.append((f"{cells:,}", f"{float(error):g}", printed, f"{promised:.3g}", f"{needed:.3g}"))
    return Exhibit(
        "Theorem 5.2 as used in 8.1.1 and 8.1.2",
        "Rows needed for every query to be within the error, with probability 0.95",
        "The paper's bound reproduces. The last column is exact: the noise is known, so the worst union of cells "
        "can be worked out instead of adding up a bound for every cell. (Section 8.1.2 counts 80 ages where its "
        "data has 79.)",
        ("cells", "error", "paper", "its formula, again", "exact"),
        tuple(rows),
        left=(),
    )
