"""TR-2010-003, sections 8.2 and 8.3: a hidden parity vector learnt from a release, and the largest value.

Xiao, Xiong, Yuan 2010. Parity: the learner of section 6.3 (after Blum, Kalai and Wasserman), elimination and a majority
over repetitions, beside the vector that the mechanism finds. Largest value: the exact audit finds that one row changes
the paper's output by more than it claims (lab/audit/mutants/choices.py, whose exact arithmetic is repeated here in
floating point); ours is the exponential mechanism on ranks, at the paper's alpha and at the loss it really has.
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
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.mutants.choices import limited_domain_loss
from sfumato.lab.papers.parity.content import ParityCube, odd
from sfumato.lab.papers.parity.measure import parity as parity_release
from sfumato.lab.papers.quantiles.content import Quantiles
from sfumato.lab.reproduce.exhibits import Exhibit, Line, Picture, Plot, draw
from sfumato.lab.reproduce.synthetic import curator_of, even_numbers, normal_numbers, schema_of
from sfumato.lab.reproduce.tr_2010_003.intervals import ALPHA, cut_at_zero
from sfumato.models import find_mechanism
from sfumato.schema import Schema

ROWS, ATTRIBUTES, HIDDEN, PARITY_ALPHA = 10**5, 8, 0b0000011, Fraction(1, 100)  # the last attribute is the parity
PRINTED_RATE = 0.0655
SAMPLES = 32
SHORT_ALPHA = Fraction(1, 800)  # at which cutting at zero and sampling cost the paper's learner its vector


@dataclass(frozen=True)
class Parity:
    """Release of the parity data, truncated at zero as in the paper, and the learner's votes.

    votes: for each of the seven bits, the share of repetitions that said 1. found: the release itself.
    """

    cells: Floats
    votes: Floats
    found: ParityCube

    @property
    def learnt(self) -> int:
        return int("".join("1" if vote > 0.5 else "0" for vote in self.votes), 2)


def parity_table() -> Whole:
    """Table of 10^5 rows: seven uniform bits, and the parity of those that the hidden vector names."""
    bits = np.floor(2 ** (ATTRIBUTES - 1) * even_numbers(ROWS, seed=8)).astype(np.int64)
    return np.bincount(2 * bits + odd(bits & HIDDEN), minlength=2**ATTRIBUTES)


def release_of(entropy: Entropy, alpha: Fraction = PARITY_ALPHA) -> ParityCube:
    """Release of `parity` on the parity data."""
    counts = parity_table().reshape((2,) * ATTRIBUTES)
    return parity_release(curator_of(counts, alpha, entropy), schema_of(counts.shape), Budget.pure(alpha))


def noise_rate(cells: Floats) -> float:
    """Share of rows that contradict the hidden vector."""
    place = np.arange(2**ATTRIBUTES)
    wrong = odd((place >> 1) & HIDDEN) != (place & 1)
    return float(cells[wrong].sum() / cells.sum())


def parity(entropy: Entropy, *, repetitions: int, seed: int = 0, alpha: Fraction = PARITY_ALPHA) -> Parity:
    """Release the table once and learn the vector from the release, in the paper's way and in ours."""
    found = release_of(entropy, alpha)
    noisy = cut_at_zero(found.cells())
    votes = [_vote(noisy, bit, repetitions, seed) for bit in range(ATTRIBUTES - 2, -1, -1)]
    return Parity(noisy, np.array(votes), found)


def noise_rates(entropy: Entropy, releases: int) -> Floats:
    """Noise rates of several releases."""
    return np.array([noise_rate(cut_at_zero(release_of(entropy).cells())) for _ in range(releases)])


def times_learnt(entropy: Entropy, releases: int, repetitions: int, alpha: Fraction) -> tuple[int, int]:
    """Numbers of releases in which the paper's learner, and a Walsh-Hadamard transform, find the hidden vector."""
    every = [parity(entropy, repetitions=repetitions, seed=seed, alpha=alpha) for seed in range(releases)]
    return sum(one.learnt == HIDDEN for one in every), sum(one.found.learnt.vector == HIDDEN for one in every)


def parity_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit of section 8.2: noise rate, and the vector learnt."""
    found = parity(entropy, repetitions=200 if quick else 1000)
    rates = noise_rates(entropy, 50 if quick else 500)
    tries = 10 if quick else 50
    theirs, ours = times_learnt(entropy, tries, 100 if quick else 1000, SHORT_ALPHA)
    bits = [Line("repetitions that say 1", list(range(1, 8)), found.votes.tolist())]
    title = "Figure 12: how often each bit was learnt as 1"
    plot = Plot(title, "bit of the hidden vector 0000011", "share of repetitions", bits)
    lines = [
        Line("released", list(range(256)), found.cells.tolist(), marks=False),
        Line("original", list(range(256)), parity_table().tolist(), marks=False, dashed=True),
    ]
    table = Plot("Figures 10 and 11: cells of the parity table", "cell", "rows", lines)
    rows = (
        ("noise rate of the release", f"{PRINTED_RATE}", f"{rates.mean():.4f}, varies by ± {rates.std(ddof=1):.4f}"),
        ("vector learnt by elimination", "0000011", f"{found.learnt:07b}"),
        ("vector that fits best, by transform", "", found.found.vector),
        ("doubt that another fits the private table better", "", f"{found.found.doubt:.0e}"),
        ("alpha 0.00125, learnt by elimination", "", f"{theirs} of {tries}"),
        ("alpha 0.00125, learnt by transform", "", f"{ours} of {tries}"),
    )
    return Exhibit(
        "Section 8.2, figures 10 to 12",
        "Parity: 10^5 rows, 8 attributes, alpha 0.01",
        "The paper's single noise rate is within what releases vary by. The vector is learnt. Combinations of "
        "several rows are right less often than single ones, which is why the shares stay away from 0 and 1. The "
        "mechanism `parity` compares all vectors at once, on cells that were not cut at zero, and says how sure it is.",
        ("", "paper", "ours"),
        rows,
        left=(0, 1, 2),
        pictures=(Picture("figures-10-11", draw(table)), Picture("figure-12", draw(plot))),
    )


def _vote(cells: Floats, bit: int, repetitions: int, seed: int) -> float:
    """Share of Gaussian eliminations of all other bits after which the remaining row has label 1 for this bit."""
    edges, target = np.cumsum(cells) / cells.sum(), 1 << (bit + 1)
    others = [1 << (b + 1) for b in range(ATTRIBUTES - 1) if b != bit]
    drawn = even_numbers(2 * repetitions * SAMPLES, seed=997 * seed + bit + 1)
    samples = np.searchsorted(edges, drawn, side="right").reshape(-1, SAMPLES)
    ones = votes = 0
    for rows in samples:
        if votes == repetitions:
            break
        left = rows
        for other in others:
            with_it = np.flatnonzero(left & other)
            if len(with_it):  # remove one row that has the bit, and clear it from all others that have it
                pivot = left[with_it[0]]
                left = np.delete(np.where(left & other, left ^ pivot, left), with_it[0])
        useful = left[(left & target) != 0]
        if len(useful):  # a repetition without such a row is drawn again, as in the paper
            ones, votes = ones + int(useful[0] & 1), votes + 1
    return ones / votes


VALUES, MEAN, WIDTH = 100, 50, 5
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
    """Output distribution of `select` with the rank score: exp(alpha score / spread), normalised."""
    rank = Rank(quantile)
    scores = rank.scores(np.bincount(values, minlength=cells))
    weights = np.exp(float(alpha) * (scores - scores.max()) / rank.spread)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def paper_loss(values: Whole, places: range) -> float:
    """Privacy loss of the paper's output: largest |log ratio| with and without a row of `places`, over alpha."""
    whole = np.log(paper_output(values, ALPHA, VALUES, WIDTH))
    without = [np.log(paper_output(np.delete(values, place), ALPHA, VALUES, WIDTH)) for place in places]
    return max(float(np.abs(whole - one).max()) for one in without) / float(ALPHA)


def outcome(
    rows: int, spread: float, seed: int, quantile: Fraction = Fraction(1), epsilon: Fraction = ALPHA
) -> Outcome:
    """Output distributions of the paper's algorithm and of ours on one synthetic table. epsilon: of ours."""
    values = made_up_values(rows, spread, seed)
    ours = our_output(values, epsilon, VALUES, quantile)
    return Outcome(int(values.max()), paper_output(values, ALPHA, VALUES, WIDTH), ours)


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
    """Exhibit of section 8.3: both output distributions, and the privacy loss of the paper's."""
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
    outcomes = [outcome(10_000, 20.0, seed, epsilon=same) for seed in range(1, 4)]
    paper, equal = [o.hits(o.paper) for o in outcomes], [o.hits(o.ours) for o in outcomes]
    words = f"10,000 rows, standard deviation 20, at an equal loss of {exact:.2f} alpha"
    rows.append((words, f"{PRINTED[10_000]}", f"{np.mean(paper):.3f}", f"{np.mean(equal):.3f}"))
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
