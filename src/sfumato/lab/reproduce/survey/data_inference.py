"""Survey, section 4.1, data inference (Dwork, Nissim 2004): 2-way minterms from 1-way conjunctions on subsets."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb, sqrt

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.conjunctions.content import best_subsets, direct_error, expected_error, rows_needed
from sfumato.lab.papers.conjunctions.measure import Options, conjunctions
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.survey.contingency import binary_table
from sfumato.lab.reproduce.synthetic import curator_of, schema_of

AXES = 6


def inference_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Errors of inferred minterms, measured and expected, beside those of their own tables."""
    rows = []
    for number, epsilon in ((10_000, 1), (10_000, 10)) if quick else ((10_000, 1), (100_000, 1), (100_000, 10)):
        counts = binary_table(AXES, number, 1)
        subsets = best_subsets(number, AXES, 1, float(epsilon))
        budget = Budget.pure(Fraction(epsilon))
        curator = curator_of(counts, budget.amount, entropy)
        content = conjunctions(curator, schema_of(counts.shape), budget, options=Options(subsets=subsets))
        off, held = [], []
        for pair in combinations(range(AXES), 2):
            truth = counts.sum(axis=tuple(axis for axis in range(AXES) if axis not in pair))
            for codes in np.ndindex(2, 2):
                found = content.estimate(tuple(zip(pair, codes, strict=True)))
                off.append(found.value - truth[codes])
                held.append(found.low <= truth[codes] <= found.high)
        foretold = expected_error(number, AXES, 1, subsets, float(epsilon), worst=False)
        seen = sqrt(float(np.mean(np.square(off))))
        direct = direct_error(AXES, 1, float(epsilon))
        figures = (foretold, seen, direct)
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
    """Number of rows that data inference needs."""
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
