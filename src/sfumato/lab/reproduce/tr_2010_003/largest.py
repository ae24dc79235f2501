"""TR-2010-003, section 8.3: the largest value of a table. The paper's algorithm is NOT PRIVATE; beside it is ours.

Xiao, Xiong, Yuan 2010, section 4.1.2. The exact audit finds that one row changes the paper's output by more than it
claims (lab/audit/mutants/tr_2010_003.py, whose exact arithmetic this file repeats in floating point, for tables
of 10,000 rows). Ours is the exponential mechanism with the rank as its score, as the mechanism `quantiles` chooses the
greatest value (docs/quantiles.md), at the paper's alpha and at the loss that its algorithm really has.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp
from typing import cast

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.mutants.tr_2010_003 import limited_domain_loss
from sfumato.lab.papers.quantiles.content import Quantiles
from sfumato.lab.reproduce.exhibits import Exhibit, Picture
from sfumato.lab.reproduce.plot import Line, Plot, draw
from sfumato.lab.reproduce.synthetic import normal_numbers
from sfumato.models import find_mechanism
from sfumato.schema import Schema

VALUES, MEAN, WIDTH, ALPHA = 100, 50, 5, Fraction(1, 20)
PRINTED = {1_000: 0.1523, 10_000: 0.9116}  # the probability of [Max - width + 1, Max], by number of rows


@dataclass(frozen=True)
class Outcome:
    """Two output distributions for one table, and the probability each gives to the five values up to the largest."""

    largest: int
    paper: Floats
    ours: Floats

    def hits(self, output: Floats) -> float:
        return float(output[self.largest - WIDTH + 1 : self.largest + 1].sum())


def made_up_values(rows: int, spread: float, seed: int) -> Whole:
    """Normal values, rounded and brought into the domain 1 to 100, here numbered from 0."""
    values = np.rint(MEAN + spread * normal_numbers(rows, seed)).astype(np.int64) - 1
    return np.clip(values, 0, VALUES - 1)


def paper_output(values: Whole, alpha: Fraction, cells: int, width: int) -> Floats:
    """NOT PRIVATE: the paper's distribution over the cells, row by row."""
    factor = exp(alpha)
    mass = np.full(cells, 1.0 / cells)
    for x in values.tolist():
        gaining, losing = slice(max(0, x - width), x + width + 1), slice(0, max(0, x - width + 1))
        heavier, lighter = mass[gaining].sum(), mass[losing].sum()
        moved = min(heavier * (factor - 1.0), lighter * (1.0 - 1.0 / factor))
        if moved > 0.0:
            gain, loss = mass[gaining] * (moved / heavier), mass[losing] * (moved / lighter)
            mass[gaining] += gain
            mass[losing] -= loss
    return mass


def our_output(values: Whole, alpha: Fraction, cells: int, quantile: Fraction) -> Floats:
    """The distribution of `select` with the rank score: exp(alpha score / spread), normalised."""
    rank = Rank(quantile)
    scores = rank.scores(np.bincount(values, minlength=cells))
    weights = np.exp(float(alpha) * (scores - scores.max()) / rank.spread)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def paper_loss(values: Whole, places: range) -> float:
    """The largest |log ratio| of the paper's output with and without one of these rows, in units of alpha."""
    whole = np.log(paper_output(values, ALPHA, VALUES, WIDTH))
    without = [np.log(paper_output(np.delete(values, place), ALPHA, VALUES, WIDTH)) for place in places]
    return max(float(np.abs(whole - one).max()) for one in without) / float(ALPHA)


def outcome(
    rows: int, spread: float, seed: int, quantile: Fraction = Fraction(1), epsilon: Fraction = ALPHA
) -> Outcome:
    """Both outputs for one synthetic table. epsilon: of ours."""
    values = made_up_values(rows, spread, seed)
    ours = our_output(values, epsilon, VALUES, quantile)
    return Outcome(int(values.max()), paper_output(values, ALPHA, VALUES, WIDTH), ours)


def largest_of_paper(tables: int) -> list[float]:
    """The paper's probability on some tables of 10,000 rows."""
    found = (outcome(10_000, 20.0, seed) for seed in range(1, tables + 1))
    return [each.hits(each.paper) for each in found]


def released_hits(rows: int, epsilon: Fraction, releases: int) -> float:
    """Share of releases in which the shipped mechanism chooses one of the five values up to the largest."""
    attributes = {"value": {"type": "integer", "lower": 1, "upper": VALUES}}
    public = {"dataset": "values", "privacy_unit": "row", "budget": {"epsilon": 1}, "attributes": attributes}
    schema, budget = Schema.from_dict(public), Budget.pure(epsilon)
    mechanism = find_mechanism("quantiles").with_options({"quantiles": "1"})
    hits = 0
    for seed in range(1, releases + 1):
        values = made_up_values(rows, 20.0, seed)
        counts = np.bincount(values, minlength=VALUES)
        made = mechanism.run(over_counts(schema, counts, budget, SystemEntropy()), schema, budget)
        (line,) = cast(Quantiles, made).lines
        chosen = (int(line.cuts[0, 0]) - 1) // line.pieces
        hits += bool(int(values.max()) - WIDTH < chosen <= int(values.max()))
    return hits / releases


def largest_exhibit(*, quick: bool) -> Exhibit:
    """Section 8.3: both outputs, and the privacy loss of the paper's."""
    rows, pictures = [], []
    for size, printed in PRINTED.items():
        for spread, words in ((20.0, "standard deviation 20"), (20.0**0.5, "variance 20")):
            outcomes = [outcome(size, spread, seed) for seed in range(1, 3 if quick else 11)]
            paper, ours = ([o.hits(getattr(o, name)) for o in outcomes] for name in ("paper", "ours"))
            rows.append((f"{size:,} rows, {words}", f"{printed}", f"{np.mean(paper):.3f}", f"{np.mean(ours):.3f}"))
            if spread == 20.0:
                axis = list(range(1, VALUES + 1))
                lines = [Line(n, axis, getattr(outcomes[0], n).tolist(), marks=False) for n in ("paper", "ours")]
                title = f"Probability of each output, {size:,} rows (standard deviation 20)"
                plot = Plot(title, "value", "probability", lines)
                pictures.append(Picture(f"figure-{15 if size == 1000 else 16}", draw(plot)))
    values = made_up_values(1_000, 20.0, seed=1)
    places = range(0, 1000, 200 if quick else 25)
    for words, order in (("as drawn", values), ("falling", np.sort(values)[::-1])):
        found = f"{paper_loss(order, places):.2f} at least"
        rows.append((f"privacy loss in alphas, 1,000 rows {words}", "1 claimed", found, "1 at most"))
    exact = limited_domain_loss(1, cells=4, rows=3)
    same = ALPHA * Fraction(exact).limit_denominator(1000)
    equal = [o.hits(o.ours) for o in (outcome(10_000, 20.0, seed, epsilon=same) for seed in range(1, 4))]
    words = f"10,000 rows, standard deviation 20, at an equal loss of {exact:.2f} alpha"
    rows.append((words, f"{PRINTED[10_000]}", f"{np.mean(largest_of_paper(3)):.3f}", f"{np.mean(equal):.3f}"))
    share = released_hits(10_000, same, 10 if quick else 100)
    rows.append((f"{words}, released by `quantiles`", "", "", f"{share:.2f} of releases"))
    rows.append(("privacy loss, alpha 1, 3 rows of 4 values", "1 claimed", f"{exact:.2f} exactly", "1 at most"))
    return Exhibit(
        "Section 8.3, figures 13 to 16",
        "The largest value: probability of the five values up to it, alpha 0.05",
        "The paper says variance 20; its figures fit a standard deviation of 20 and not a variance of 20, where the "
        "second stays near a fifth. Its algorithm is not alpha-differentially private: taking one row away changes "
        "the output by more than alpha, the more so the later rows amplify it. Ours is the exponential mechanism on "
        "ranks, which is, and pays half for an extreme (docs/quantiles.md). Where no row lies near the end of the "
        "domain it cannot tell the largest value from the empty ones above it, so asking for a high quantile serves "
        "better than asking for the maximum.",
        ("", "paper, printed", "paper's algorithm", "ours"),
        tuple(rows),
        pictures=tuple(pictures),
    )
