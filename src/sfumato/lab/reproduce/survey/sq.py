"""The survey's section 5.1: how many rows statistical queries need, and learners that ask nothing else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.papers.sq.statistical_queries import exact_rows, paper_rows, rows_needed
from sfumato.lab.reproduce.exhibits import Exhibit
from sfumato.lab.reproduce.released import curator_of, schema_of
from sfumato.lab.reproduce.synthetic import even_numbers
from sfumato.measurement import Laplace
from sfumato.models import find_mechanism

TOLERANCE, DELTA = 0.01, 0.05
LEARNERS = ("naive-bayes", "id3", "perceptron")
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))


def oracle_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Rows that the survey asks for, those that are needed, and how often its answers then miss."""
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
    """How often any of k answers is off by more than the tolerance, with so many rows, whose number is known."""
    noise = draw(Laplace(Fraction(questions) / epsilon), runs * questions, entropy).reshape(runs, questions)
    return float((np.abs(noise).max(axis=1) > TOLERANCE * rows).mean())


def learners_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Three learners on a made-up halfspace with a tenth of its labels turned around."""
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
    """x + y > 9 on a grid of ten by ten by ten, the third coordinate being of no use; one label in ten is turned."""
    x = np.indices((10, 10, 10))
    one = np.where(x[0] + x[1] > 9, 0.9, 0.1)
    exact = rows / 1000 * np.stack([1 - one, one], axis=-1)
    return np.floor(exact + even_numbers(exact.size, seed=5).reshape(exact.shape)).astype(np.int64)


def right(learner: str, counts: Whole, epsilon: Fraction, entropy: Entropy) -> float:
    """The share of rows that a classifier learnt from them labels rightly."""
    mechanism = find_mechanism("sq").with_options({"learner": learner})
    budget, schema = Budget.pure(epsilon), schema_of(counts.shape)
    learnt = mechanism.run(curator_of(counts, epsilon, entropy), schema, budget, None)
    codes = [each.reshape(-1) for each in np.indices(counts.shape)]
    said = learnt.model.labels[learnt.model.strata(codes[:-1])]  # type: ignore[attr-defined]
    return float((counts.reshape(-1) * (said == codes[-1])).sum() / counts.sum())
