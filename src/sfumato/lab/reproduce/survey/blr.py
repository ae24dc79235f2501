"""The survey's section 5.3: a synthetic table from all small ones by the exponential mechanism (Blum, Ligett, Roth)."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, log10

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats, Whole
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.blr.measure import blr, most_rows, small_tables
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.released import released, schema_of
from sfumato.lab.reproduce.synthetic import even_numbers, rows_of
from sfumato.models.cells.cells import cells
from sfumato.queries import AllRanges, default_workload

GAMMA, EPSILON, DIMENSION = 0.1, Fraction(1, 2), 2  # the VC dimension of ranges
ROWS = (200, 2_000, 20_000)


def tables_exhibit() -> Exhibit:
    """How many tables there are to choose from."""
    rows = []
    for size in (4, 8, 12, 16, 256):
        wanted = int(np.ceil(DIMENSION / GAMMA**2))
        room = most_rows(size, default_workload(schema_of((size,)).domain).queries)
        tables = log10(comb(wanted + size - 1, wanted))
        possible = f"{room} rows: {comb(room + size - 1, room):,}" if room >= 4 else "refused"
        rows.append((f"{size:,}", f"{wanted:,}", f"1e{tables:.0f}", possible))
    return Exhibit(
        "5.3, theorem 8, the learner",
        f"Ranges over so many cells, within {GAMMA:g} of all rows: tables of m = VC / gamma^2 rows to choose from",
        "The survey says that the algorithm is not necessarily efficient. For the errors that it is about it cannot be "
        "run at all: `blr` looks at 65,536 tables at most, and refuses what has more than a handful of cells, naming "
        "mechanisms that are efficient.",
        ("cells", "m", "tables of m rows", "`blr`"),
        tuple(rows),
        left=(3,),
    )


def error_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """The largest error over all ranges, as a share of the rows."""
    runs, size, found = 3 if quick else 20, 8, []
    for total in ROWS:
        counts = rows_of(even_numbers(size, seed=11) ** 3, total)
        shares = [
            np.mean([worst(released(run, counts, EPSILON, entropy) - counts) / total for _ in range(runs)])
            for run in (blr, cells)
        ]
        found.append((f"{total:,}", f"{best_possible(counts):.3f}", *(digits(float(share)) for share in shares)))
    found.append(("the score moves by", "1 at most", f"{score_moves():.2f}", ""))
    return Exhibit(
        "5.3, theorem 8, usefulness",
        f"Largest error over all ranges of 8 cells, as a share of the rows, epsilon {float(EPSILON):g}",
        "With few rows the choice is off, with many it is what small tables can say at all (second column). Noise on "
        "every cell, of which the survey says nothing here, is better by far over domains where this can be run. The "
        "score scales by n / m with the private n: it still moves by 1 at most when a row is added (last line, all "
        "tables of 0 to 4 rows on 3 cells), but a table of m rows answers no count before it is scaled, by a number of "
        "rows that must be measured: `blr` does that first, and scores with it.",
        ("rows", "best small table", "`blr`", "`cells`"),
        tuple(found),
    )


def worst(off: Floats) -> float:
    """The largest error over all ranges."""
    return float(np.abs(AllRanges(off.size) @ off.reshape(-1)).max())


def best_possible(counts: Whole) -> float:
    """The largest error, as a share, of the small table that is best of all."""
    size = counts.size
    asked = AllRanges(size)
    room = most_rows(size, default_workload(schema_of((size,)).domain).queries)
    tables: NDArray[np.float64] = small_tables(size, room) / room
    truth = asked @ (counts / counts.sum())
    return float(np.abs((asked @ tables.T).T - truth).max(axis=1).min())


def score_moves(size: int = 3, most: int = 4, small: int = 2) -> float:
    """The most by which the survey's own score of any small table changes when a row is added."""
    asked = AllRanges(size)
    answers = (asked @ small_tables(size, small).T.astype(np.float64)).T

    def scores(counts: Whole) -> Floats:
        return np.asarray(-np.abs(asked @ counts - counts.sum() / small * answers).max(axis=1))

    tables = [np.array(each) for each in product(range(most + 1), repeat=size) if sum(each) <= most]
    more = np.eye(size, dtype=np.int64)
    return max(float(np.abs(scores(one + row) - scores(one)).max()) for one in tables for row in more)
