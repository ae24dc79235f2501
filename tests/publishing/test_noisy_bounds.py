"""Bounds and caps from noisy counts: what they are on known tables, and whether their intervals hold."""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.opening import curator_of
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.publishing.noisy_bounds import Settings, best_cap, bounds_of_dates, bounds_of_numbers, rows_of_people
from sfumato.schema import Schema

MUCH = Fraction(20)  # so much that noise hardly matters
MOST = int(binom.isf(1e-6, 300, 0.05))  # misses of 300 intervals of 95 %, but for once in a million times


def look_at(values, entropy):
    """Looks at given values, in place of a table."""

    def look(attribute, epsilon):
        schema = Schema(dataset="t", privacy_unit="row", attributes={"value": attribute})
        axis = schema.domain.axes[0]
        ends = axis.edges[0], axis.edges[-1]
        cells = np.clip(np.searchsorted(axis.edges, np.clip(values, *ends), side="right") - 1, 0, axis.size - 1)
        places, counts = np.unique(cells, return_counts=True)
        held = Aggregate(places.astype(np.int64), counts.astype(np.int64), {})
        return curator_of(schema, held, Budget.pure(epsilon), entropy)

    return look


def numbers(kind, values, epsilon=MUCH, seed=1):
    look = look_at(np.asarray(values, dtype=float), TestingEntropy(seed))
    return bounds_of_numbers(kind, look, Fraction(epsilon), Settings())


RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("kind", "values", "lower", "upper"),
    [
        ("integer", RNG.integers(0, 100, 9000), 0, 100),
        ("integer", np.repeat([0, 30, 100], 3000), 0, 100),  # rows at the very upper end
        ("integer", np.repeat([20, 30, 60], 3000), 20, 60),  # and at the very lower one
        ("integer", np.full(900, 7), 7, 8),
        ("integer", np.zeros(900), 0, 1),
        ("integer", RNG.integers(1950, 2021, 9000), 1950, 2025),
        ("integer", -RNG.integers(0, 50, 9000), -50, 0),
        ("number", RNG.uniform(-3, 3, 9000), -3, 3),
        ("number", RNG.uniform(0, 1, 9000), 0, 1),
        ("number", np.full(900, 0.5), 0.499, 0.501),
    ],
)
def test_bounds_are_round_figures_around_the_values(kind, values, lower, upper):
    found = numbers(kind, values)
    assert found.lower <= lower + 0.01 * abs(lower) and found.upper >= upper - 0.02 * abs(upper)
    wide = upper - lower
    assert found.upper - found.lower <= 1.1 * wide + (0.02 if kind == "number" else 1)
    inside = np.mean((values >= found.lower) & (values <= found.upper))
    assert inside >= 0.985 and found.inside.low <= inside <= found.inside.high


def test_a_heavy_tail_is_cut_where_few_rows_are_left():
    values = RNG.pareto(0.8, 100_000)
    found = numbers("number", values)
    assert 0.98 < np.mean(values <= found.upper) < 0.999 and found.lower == 0


@pytest.mark.parametrize("values", [[], [5.0], [1.0, 2.0, 3.0]])
def test_where_there_are_hardly_any_rows_nothing_is_said(values):
    assert [numbers("integer", values, epsilon="0.1", seed=seed) for seed in range(20)] == [None] * 20


def test_dates_are_whole_months_or_years():
    first = date(2019, 3, 4)
    days = [(first + timedelta(days=int(day)) - date(1970, 1, 1)).days for day in RNG.integers(0, 700, 20_000)]
    look = look_at(np.asarray(days, dtype=float), TestingEntropy(2))
    found = bounds_of_dates(look, MUCH, Settings())
    assert (found.lower, found.upper) == (date(2019, 3, 1), date(2021, 1, 31))
    look = look_at(np.asarray(days * 10, dtype=float) - 20_000, TestingEntropy(2))
    assert bounds_of_dates(look, MUCH, Settings()).lower.day == 1


def test_the_interval_of_the_share_inside_holds():
    """300 looks with an interval of 95 %: more misses than allowed happen once in a million times by chance."""
    held, values = 0, RNG.gamma(2, 20, 3000)
    for seed in range(300):
        found = numbers("number", values, epsilon="0.3", seed=seed)
        inside = np.mean((values >= found.lower) & (values <= found.upper))
        held += found.inside.low <= inside <= found.inside.high
    assert 300 - held <= MOST


def people(rows, epsilon, spent, seed=1):
    look = look_at(np.asarray(rows, dtype=float), TestingEntropy(seed))
    return best_cap(look(rows_of_people(), Fraction(epsilon)), Fraction(epsilon), Fraction(spent), Settings())


def test_the_cap_weighs_rows_that_are_dropped_against_noise():
    rows = np.repeat([1, 2, 3, 50], [5000, 3000, 1000, 40])
    cap = people(rows, MUCH, 1)
    assert cap.rows in (3, 4, 48, 64)
    assert people(rows, MUCH, "0.01").rows < people(rows, MUCH, 100).rows  # more noise for each row: fewer rows
    assert people(np.ones(4000), "0.5", 1).rows == 1
    assert people(np.ones(3), "0.1", 1) is None


def test_the_intervals_of_a_cap_hold():
    """300 looks, two intervals of 95 %: the share of people above the cap, and of rows that are dropped."""
    rows = RNG.geometric(0.3, 4000)
    held = np.zeros(2)
    for seed in range(300):
        cap = people(rows, "0.5", "0.2", seed)
        above, dropped = np.mean(rows > cap.rows), np.maximum(rows - cap.rows, 0).sum() / rows.sum()
        held += [cap.above.low <= above <= cap.above.high, cap.dropped.low <= dropped <= cap.dropped.high]
    assert all(300 - count <= MOST for count in held)


def test_what_a_cap_leaves_out_is_told_for_a_most_of_rows_that_one_person_may_exceed():
    """No look may see one person with a third of all rows, so the interval must say what it leaves open."""
    rows = np.append(np.repeat([1, 2, 3], [2000, 1000, 500]), 3000)
    cap = people(rows, "0.5", 1)
    assert cap.most < 3000
    within = rows[rows <= cap.most]
    share = np.maximum(within - cap.rows, 0).sum() / within.sum()
    assert cap.dropped.low <= share <= cap.dropped.high < np.maximum(rows - cap.rows, 0).sum() / rows.sum()


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("power", [14, 14.5, 15, 15.5, 18])
def test_bounds_of_very_large_numbers_of_both_signs_are_some_that_a_schema_takes(kind, power):
    values = np.repeat([-(10**power), 10**power], 3000)
    table, counted = pa.table({"value": pa.array([], pa.float64())}), look_at(values, TestingEntropy(1))

    def look(attribute, epsilon):  # refuses what no statement could be written for
        open_table(table).check(Schema(dataset="t", privacy_unit="row", attributes={"value": attribute}))
        return counted(attribute, epsilon)

    found = bounds_of_numbers(kind, look, MUCH, Settings())
    if power > 16:  # clipped, or left blank
        assert found is None or found.upper == 8 * 10**15
    else:
        assert found.upper == -found.lower and 10**power <= found.upper <= 1.6 * 10**power
