"""What mechanisms with a purpose of their own promise in a plan, and whether releases keep it."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from curators import curator_of
from scipy.stats import binom

from sfumato.errors import MechanismError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import SPECIAL, find_mechanism
from sfumato.planner.plan import make_plan
from sfumato.schema import Schema

PEOPLE = Schema.from_dict(
    {
        "dataset": "people",
        "privacy_unit": "row",
        "expected_rows": 2000,
        "attributes": {"age": {"type": "integer", "lower": 0, "upper": 19}, "ill": {"type": "boolean"}},
    }
)
BIT = {"type": "boolean"}
BITS = Schema.from_dict({"dataset": "bits", "privacy_unit": "row", "attributes": dict.fromkeys("abcd", BIT)})
RUNS, FALSE_ALARM = 120, 1e-6


def promised(name, schema, words, epsilon=1, options=None, **more):
    """The value of the figure that begins with these words."""
    plan = make_plan(schema, epsilon=epsilon, mechanism=name, options=options, **more)
    return next(one.value for one in plan.outlooks[0].promises if one.what.startswith(words))


def released(name, schema, counts, seed=0, epsilon=1, options=None):
    mechanism = find_mechanism(name).with_options(options or {})
    curator = curator_of(schema, counts, epsilon=epsilon, entropy=TestingEntropy(seed))
    return mechanism.run(curator, schema, Budget.pure(epsilon), None)


def most_failures(chance):
    """So many of RUNS fail with a probability of FALSE_ALARM or less, where each does with this chance."""
    return int(binom.isf(FALSE_ALARM, RUNS, chance))


@pytest.mark.parametrize("name", SPECIAL)
def test_each_says_something_of_its_example_and_twice_the_rows_of_a_person_cost_no_less(name):
    mechanism = find_mechanism(name)
    for contributions in (1, 2):
        plan = make_plan(
            mechanism.lab.example(contributions), epsilon=1, mechanism=name, options=mechanism.lab.tried_with
        )
        (outlook,) = plan.outlooks
        assert outlook.how == "promised" and outlook.promises and not plan.lines
        assert "nothing was spent" in repr(plan) and all(one.what in repr(plan) for one in outlook.promises)
    one, two = (
        make_plan(mechanism.lab.example(k), epsilon=1, mechanism=name, options=mechanism.lab.tried_with)
        .outlooks[0]
        .promises
        for k in (1, 2)
    )
    in_rows = [(a.value, b.value) for a, b in zip(one, two, strict=True) if a.unit == "rows"]
    assert in_rows and all(b >= a for a, b in in_rows)


@pytest.mark.parametrize(
    ("name", "schema", "words", "measured"),
    [
        ("parity", BITS, "standard error of one cell", lambda made: made.fits[0].measurements[0]),
        ("fourier", BITS, "standard error of each", lambda made: made.measured[0]),
        ("halfspace", PEOPLE, "standard error of a bin", lambda made: made.measured[0]),
        ("mldp", PEOPLE, "standard error of a training answer", lambda made: made.trained),
        ("mldp", PEOPLE, "standard error of each of these", lambda made: made.aside),
        ("bayes", PEOPLE, "standard error of a cell of these", lambda made: made.measured[0][1]),
    ],
)
def test_noise_is_what_a_release_draws(name, schema, words, measured):
    made = released(name, schema, np.full(schema.domain.shape, 50))
    noise = measured(made).noise
    assert promised(name, schema, words) == pytest.approx(sqrt(noise.variance), rel=0.05)


def test_pac_falls_behind_the_best_rule_as_seldom_as_it_says():
    """120 releases, 60 % sure: at most 40 % fall further behind, but for a false alarm of 1e-6."""
    counts = np.stack([np.arange(60, 40, -1), np.arange(40, 60)], axis=1)  # rules near the best one are tempting
    options = {"rules": "thresholds"}
    limit = promised("pac", PEOPLE, "more rows wrong", "1/4", options, confidence=0.6)
    wrong = [counts[:cut, 1].sum() + counts[cut:, 0].sum() for cut in range(21)]
    failures = 0
    for seed in range(RUNS):
        text = released("pac", PEOPLE, counts, seed, "1/4", options).text
        holds = np.array([eval(text.replace(" = ", " == "), {}, {"age": age}) for age in range(20)])
        failures += counts[holds, 0].sum() + counts[~holds, 1].sum() - min(wrong) > limit
    assert failures <= most_failures(0.4)


def test_no_count_of_sq_is_off_by_more_as_seldom_as_it_says_and_not_much_more_seldom():
    """120 releases, half sure: exact, so that between the quantiles at 1e-6 of them fail."""
    limit = promised("sq", PEOPLE, "no count is off", options={"target": "ill"}, confidence=0.5)
    counts, failures = np.full((20, 2), 50), 0
    for seed in range(RUNS):
        made = released("sq", PEOPLE, counts, seed, options={"target": "ill"})
        failures += max(np.abs(table.answers - 50).max() for table in made.tables) > limit
    assert most_failures(0.5) >= failures >= binom.ppf(FALSE_ALARM, RUNS, 0.35)


def test_the_worst_error_of_blr_is_within_what_it_says():
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "expected_rows": 600,
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": 3}},
        }
    )
    counts = np.array([400, 0, 150, 50])
    limit = promised("blr", schema, "worst error in all", options={"rows": 8}, confidence=0.5)
    failures = 0
    for seed in range(RUNS):
        off = released("blr", schema, counts, seed, options={"rows": 8}).cells() - counts
        failures += max(abs(off[a:b].sum()) for a in range(4) for b in range(a + 1, 5)) > limit
    assert failures <= most_failures(0.5)


def test_ranks_of_quantiles_are_within_what_it_says():
    """120 releases, 80 % sure, rows spread evenly: the rank of the median, and rows above the greatest value."""
    line = {"x": {"type": "integer", "lower": 0, "upper": 999}}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": line})
    counts, options = np.full(1000, 2), {"quantiles": "0.5,1", "pieces": "2"}
    median, above = (
        promised("quantiles", schema, words, "1/4", options, confidence=0.8) for words in ("quantile 0.5", "greatest")
    )
    failures = np.zeros(2, dtype=int)
    for seed in range(RUNS):
        cuts = released("quantiles", schema, counts, seed, "1/4", options).lines[0].cuts[0]
        # a piece holds one row, so that the rank of a cut is the number of pieces before it
        failures += [abs(int(cuts[0]) - 1000) > median + 1, 2000 - int(cuts[1]) > above + 1]
    assert (failures <= most_failures(0.2)).all() and failures[0] > 0


def test_a_plan_of_one_purpose_takes_an_epsilon_and_options_belong_to_one_mechanism():
    with pytest.raises(QueryError, match="--epsilon"):
        make_plan(PEOPLE, error=10, mechanism="pac")
    with pytest.raises(MechanismError, match="name it with --mechanism"):
        make_plan(PEOPLE, epsilon=1, options={"target": "ill"})
    with pytest.raises(MechanismError, match="no attribute 'sick'"):
        make_plan(PEOPLE, epsilon=1, mechanism="pac", options={"target": "sick"})


def test_a_workload_says_which_margins_fourier_measures():
    asked = "SELECT a, b, COUNT(*) FROM bits GROUP BY a, b"
    assert promised("fourier", BITS, "coefficients", workload=asked) == 4
    assert promised("fourier", BITS, "coefficients") == 1 + 4 + 6


def test_half_the_epsilon_takes_twice_the_rows_where_noise_is_all_that_counts():
    rows = [promised("sq", PEOPLE, "rows for a tolerance", epsilon) for epsilon in (Fraction(1, 100), Fraction(1, 50))]
    assert rows[0] == pytest.approx(2 * rows[1], rel=0.02)
