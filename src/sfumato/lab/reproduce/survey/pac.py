"""The survey's section 5.2: a rule from a finite class by the exponential mechanism (Kasiviswanathan et al. 2008)."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.papers.pac.learning_size import learning_rows
from sfumato.lab.papers.pac.measure import SETTINGS, Options, class_of, label_of, looked_at, pac
from sfumato.lab.papers.pac.rules import Rules
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.lab.reproduce.released import curator_of, schema_of
from sfumato.lab.reproduce.survey.sq import halfspace_table

ALPHA, BETA, EPSILON = 0.05, 0.05, Fraction(1, 10)
CLASSES = (Options(rules="thresholds", of="axis_0"), Options(rules="stumps"), Options(rules="conjunctions"))


def survey_rows(rules: int, epsilon: float, alpha: float = ALPHA, beta: float = BETA) -> float:
    """Theorem 7 with a constant of 1: (ln |H| + ln 1 / beta) max(1 / (epsilon alpha), 1 / alpha^2).

    >>> round(survey_rows(200, 1.0))
    3318
    """
    return (log(rules) + log(1.0 / beta)) * max(1.0 / (epsilon * alpha), 1.0 / alpha**2)


def pac_exhibit(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Rows that are needed, and by how many rows the rule that is chosen falls behind the best one."""
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
                digits(float(np.mean([released(counts, options, found, wrong, entropy) for _ in range(runs)]))),
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
    """The rules of a class, and the rows that each gets wrong."""
    schema = schema_of(counts.shape)
    names, label = looked_at(schema, options), label_of(schema, options)
    domain = schema.domain.along([*names, label])
    others = tuple(place for place, name in enumerate(schema.domain.names) if name not in domain.names)
    held = counts.sum(axis=others).reshape(-1)
    found = class_of(schema, domain, names, label, options)
    has = domain.codes_along(label, np.arange(domain.size)) == 1
    return found, np.asarray((found.holds != has) @ held, dtype=np.int64)


def beyond_best(wrong: Whole, rate: float) -> float:
    """The rows wrong beyond those of the best rule, on average, if rules are chosen at this rate: exactly."""
    weights: Floats = np.exp(-rate * (wrong - (wrong.min() if rate > 0 else wrong.max())))
    return float(weights @ (wrong - wrong.min()) / weights.sum())


def released(counts: Whole, options: Options, found: Rules, wrong: Whole, entropy: Entropy) -> int:
    """The same of one release of the mechanism."""
    made = pac(curator_of(counts, EPSILON, entropy), schema_of(counts.shape), Budget.pure(EPSILON), options=options)
    return int(wrong[found.texts.index(made.text)] - wrong.min())
