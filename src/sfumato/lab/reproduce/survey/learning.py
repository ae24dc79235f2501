"""Survey, section 5, learning: statistical queries, a rule by the exponential mechanism, and a synthetic table (BLR).

5.1: the number of rows that statistical queries need, and learners that ask nothing else.
5.2: a rule from a finite class by the exponential mechanism (Kasiviswanathan et al. 2008).
5.3: a synthetic table from all small ones by the exponential mechanism (Blum, Ligett, Roth).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, log, log10

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats, Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.papers.blr.measure import blr, most_rows, small_tables
from sfumato.lab.papers.pac.content import Rules
from sfumato.lab.papers.pac.measure import SETTINGS, Options, class_of, label_of, learning_rows, looked_at, pac
from sfumato.lab.papers.sq.statistical_queries import exact_rows, paper_rows, rows_needed
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.synthetic import curator_of, even_numbers, released, rows_of, schema_of
from sfumato.measurement import Laplace
from sfumato.models import find_mechanism
from sfumato.models.cells.cells import cells
from sfumato.queries import AllRanges, default_workload

TOLERANCE, DELTA = 0.01, 0.05
LEARNERS = ("naive-bayes", "id3", "perceptron")
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))


def oracle_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: rows that the survey asks for, rows that suffice, and how often answers then miss their tolerance."""
    rows = []
    for questions, epsilon in ((10, Fraction(1)), (100, Fraction(1)), (100, Fraction(1, 10))):
        asked = paper_rows(questions, epsilon, TOLERANCE, DELTA)
        rows.append(
            (
                f"{questions}",
                f"{float(epsilon):g}",
                f"{asked:,}",
                f"{exact_rows(questions, epsilon, TOLERANCE, DELTA):,}",
                f"{missed(questions, epsilon, asked, 400 if quick else 4000, entropy):.3f}",
                f"{rows_needed(questions, epsilon, TOLERANCE, DELTA):,}",
                f"{rows_needed(1, epsilon, TOLERANCE, DELTA, at_once=questions):,}",
            )
        )
    return Exhibit(
        "5.1, emulating statistical queries",
        f"Rows for k answers within {TOLERANCE} of the truth, with probability {1 - DELTA:g}",
        "The survey's formula is close to what the noise needs, if n were known. It is private: measured as one more "
        "question, it takes about twice the rows. Where the k predicates exclude each other, as the values of an "
        "attribute do, they are one question (the last column).",
        ("k", "epsilon", "survey", "exact", "missed at the survey's", "n private", "k values of one attribute"),
        tuple(rows),
        left=(),
    )


def missed(questions: int, epsilon: Fraction, rows: int, runs: int, entropy: Entropy) -> float:
    """Share of runs in which any of k answers is off by more than the tolerance, the number of rows being known."""
    noise = draw(Laplace(Fraction(questions) / epsilon), runs * questions, entropy).reshape(runs, questions)
    return float((np.abs(noise).max(axis=1) > TOLERANCE * rows).mean())


def learners_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: three learners on a made-up halfspace with a tenth of its labels flipped."""
    counts, runs = halfspace_table(), 1 if quick else 5
    rows = []
    for learner in LEARNERS:
        shares = [np.mean([right(learner, counts, epsilon, entropy) for _ in range(runs)]) for epsilon in EPSILONS]
        rows.append((learner, *(f"{share:.3f}" for share in shares)))
    return Exhibit(
        "5.1, any statistical-query learner is private",
        f"Share of {counts.sum():,} rows that are labelled rightly; the best rule is right for 0.900",
        "The survey's introduction names perceptrons and ID3 and has no figures. All three learn from noisy counts "
        "alone; a tree of depth 3 cannot follow a slanted line.",
        ("learner", *(f"epsilon {float(epsilon):g}" for epsilon in EPSILONS)),
        tuple(rows),
    )


def halfspace_table(rows: int = 30_000) -> Whole:
    """Made-up table: label x + y > 9 on a 10 x 10 x 10 grid, with one label in ten flipped."""
    x = np.indices((10, 10, 10))
    one = np.where(x[0] + x[1] > 9, 0.9, 0.1)
    exact = rows / 1000 * np.stack([1 - one, one], axis=-1)
    return np.floor(exact + even_numbers(exact.size, seed=5).reshape(exact.shape)).astype(np.int64)


def right(learner: str, counts: Whole, epsilon: Fraction, entropy: Entropy) -> float:
    """Accuracy of a learnt classifier on its own table."""
    mechanism = find_mechanism("sq").with_options({"learner": learner})
    budget, schema = Budget.pure(epsilon), schema_of(counts.shape)
    learnt = mechanism.run(curator_of(counts, epsilon, entropy), schema, budget, None)
    codes = [each.reshape(-1) for each in np.indices(counts.shape)]
    said = learnt.model.labels[learnt.model.strata(codes[:-1])]  # type: ignore[attr-defined]
    return float((counts.reshape(-1) * (said == codes[-1])).sum() / counts.sum())


ALPHA, BETA, EPSILON = 0.05, 0.05, Fraction(1, 10)
CLASSES = (Options(rules="thresholds", of="axis_0"), Options(rules="stumps"), Options(rules="conjunctions"))


def survey_rows(rules: int, epsilon: float, alpha: float = ALPHA, beta: float = BETA) -> float:
    """Sample size of theorem 7 with constant 1: (ln |H| + ln 1 / beta) max(1 / (epsilon alpha), 1 / alpha^2).

    >>> round(survey_rows(200, 1.0))
    3318
    """
    return (log(rules) + log(1.0 / beta)) * max(1.0 / (epsilon * alpha), 1.0 / alpha**2)


def pac_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: rows required by the theorem, and excess errors of the chosen rule."""
    counts, runs = halfspace_table(3_000), 20 if quick else 200
    rows = []
    for options in CLASSES:
        found, wrong = wrong_rows(counts, options)
        expected = [beyond_best(wrong, float(EPSILON) * factor) for factor in (0.5, 1.0, -0.5)]
        choice = float(EPSILON) * SETTINGS.shares[0] / sum(SETTINGS.shares)
        rows.append(
            (
                options.rules,
                f"{len(found.texts):,}",
                digits(survey_rows(len(found.texts), float(EPSILON))),
                digits(learning_rows(ALPHA, len(found.texts), choice, BETA)),
                *map(digits, expected),
                digits(float(np.mean([one_release(counts, options, found, wrong, entropy) for _ in range(runs)]))),
            )
        )
    return Exhibit(
        "5.2, theorem 7, and the exponential mechanism of section 3",
        f"One rule of a class, {counts.sum():,} rows, epsilon {float(EPSILON):g}: rows for an error {ALPHA:g} beyond "
        "the best rule's; rows wrong beyond it",
        "The theorem has no constants; with 1 for each it asks for less than can be promised (ours spends a quarter on "
        "counting how often the rule is right). Its rate, epsilon / 2, is for scores that move both ways: with a "
        "person who is there or not rows can only be added, and the whole epsilon is as private. Section 3 prints the "
        "mechanism with a minus sign, exp(-epsilon u / 2), which prefers the worst rules.",
        ("class", "rules", "survey", "rows promised", "rate epsilon / 2", "epsilon", "as section 3 prints it", "`pac`"),
        tuple(rows),
    )


def wrong_rows(counts: Whole, options: Options) -> tuple[Rules, Whole]:
    """Hypothesis class, and number of errors of each rule, (rules,)."""
    schema = schema_of(counts.shape)
    names, label = looked_at(schema, options), label_of(schema, options)
    domain = schema.domain.along([*names, label])
    others = tuple(place for place, name in enumerate(schema.domain.names) if name not in domain.names)
    held = counts.sum(axis=others).reshape(-1)
    found = class_of(schema, domain, names, label, options)
    has = domain.codes_along(label, np.arange(domain.size)) == 1
    return found, np.asarray((found.holds != has) @ held, dtype=np.int64)


def beyond_best(wrong: Whole, rate: float) -> float:
    """Expected excess errors over the best rule when the exponential mechanism chooses at this rate, exactly."""
    weights: Floats = np.exp(-rate * (wrong - (wrong.min() if rate > 0 else wrong.max())))
    return float(weights @ (wrong - wrong.min()) / weights.sum())


def one_release(counts: Whole, options: Options, found: Rules, wrong: Whole, entropy: Entropy) -> int:
    """Excess errors over the best rule in one release of the mechanism."""
    made = pac(curator_of(counts, EPSILON, entropy), schema_of(counts.shape), Budget.pure(EPSILON), options=options)
    return int(wrong[found.texts.index(made.text)] - wrong.min())


GAMMA, HALF, DIMENSION = 0.1, Fraction(1, 2), 2  # the VC dimension of ranges
ROWS = (200, 2_000, 20_000)


def tables_exhibit() -> Exhibit:
    """Exhibit: number of small tables that BLR's exponential mechanism chooses from, by size of the domain."""
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
    """Exhibit: largest error over all ranges, as a share of the rows."""
    runs, size, found = 3 if quick else 20, 8, []
    for total in ROWS:
        counts = rows_of(even_numbers(size, seed=11) ** 3, total)
        shares = [
            np.mean([worst(released(run, counts, HALF, entropy) - counts) / total for _ in range(runs)])
            for run in (blr, cells)
        ]
        found.append((f"{total:,}", f"{best_possible(counts):.3f}", *(digits(float(share)) for share in shares)))
    found.append(("the score moves by", "1 at most", f"{score_moves():.2f}", ""))
    return Exhibit(
        "5.3, theorem 8, usefulness",
        f"Largest error over all ranges of 8 cells, as a share of the rows, epsilon {float(HALF):g}",
        "With few rows the choice is off, with many it is what small tables can say at all (second column). Noise on "
        "every cell, of which the survey says nothing here, is better by far over domains where this can be run. The "
        "score scales by n / m with the private n: it still moves by 1 at most when a row is added (last line, all "
        "tables of 0 to 4 rows on 3 cells), but a table of m rows answers no count before it is scaled, by a number of "
        "rows that must be measured: `blr` does that first, and scores with it.",
        ("rows", "best small table", "`blr`", "`cells`"),
        tuple(found),
    )


def worst(off: Floats) -> float:
    """Largest absolute error over all ranges; off: error of each cell."""
    return float(np.abs(AllRanges(off.size) @ off.reshape(-1)).max())


def best_possible(counts: Whole) -> float:
    """Largest error over all ranges, as a share, of the best small table."""
    size = counts.size
    asked = AllRanges(size)
    room = most_rows(size, default_workload(schema_of((size,)).domain).queries)
    tables: NDArray[np.float64] = small_tables(size, room) / room
    truth = asked @ (counts / counts.sum())
    return float(np.abs((asked @ tables.T).T - truth).max(axis=1).min())


def score_moves(size: int = 3, most: int = 4, small: int = 2) -> float:
    """Sensitivity of the survey's own score: its largest change, over small tables, when a row is added."""
    asked = AllRanges(size)
    answers = (asked @ small_tables(size, small).T.astype(np.float64)).T

    def scores(counts: Whole) -> Floats:
        return np.asarray(-np.abs(asked @ counts - counts.sum() / small * answers).max(axis=1))

    tables = [np.array(each) for each in product(range(most + 1), repeat=size) if sum(each) <= most]
    more = np.eye(size, dtype=np.int64)
    return max(float(np.abs(scores(one + row) - scores(one)).max()) for one in tables for row in more)
