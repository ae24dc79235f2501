"""Intervals about the population that rows were drawn from."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.releases.release import Release
from sfumato.schema import Schema

ATTRIBUTES = {
    "smoker": {"type": "boolean"},
    "region": {"type": "category", "values": ["north", "south", "west", "east"]},
    "age": {"type": "integer", "lower": 0, "upper": 7},
}
SHAPE = (2, 4, 8)
ASKED = (
    "SELECT COUNT(*) FILTER (WHERE region = 'south'), COUNT(*) FILTER (WHERE region = 'east'), AVG(smoker), AVG(age), "
    "AVG(age) FILTER (WHERE region = 'west'), COUNT(*) FILTER (WHERE region = 'east') / COUNT(*), MEDIAN(age), "
    "STDDEV(age), AVG(age) FILTER (WHERE smoker) - AVG(age) FILTER (WHERE NOT smoker) FROM people"
)


def drawn(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    region = rng.choice(4, rows, p=[0.5, 0.3, 0.195, 0.005])
    smoker = rng.random(rows) < 0.2 + 0.1 * (region == 1)
    return smoker.astype(int), region, np.clip(rng.poisson(2 + smoker + 0.3 * region), 0, 7)


def released(table: tuple[np.ndarray, ...], epsilon: int, seed: int, size: int | None, mechanism: str) -> Release:
    schema = Schema(dataset="people", privacy_unit="row", population=size, attributes=ATTRIBUTES)
    counts = np.bincount(np.ravel_multi_index(table, SHAPE), minlength=64).reshape(SHAPE)
    return release_of(mechanism, (counts, None), Fraction(epsilon), TestingEntropy(seed), schema)


def truths(table: tuple[np.ndarray, ...], rows: int) -> list[float]:
    smoker, region, age = table
    part = rows / len(age)
    return [
        *(part * float((region == each).sum()) for each in (1, 3)),
        *(float(one.mean()) for one in (smoker, age, age[region == 2], region == 3)),
        float(np.median(age)),
        float(age.std(ddof=1)),
        float(age[smoker == 1].mean() - age[smoker == 0].mean()),
    ]


@pytest.mark.full
@pytest.mark.parametrize(("mechanism", "size"), [("cells", None), ("cells", 2_000), ("margins", None)])
def test_intervals_hold_over_redrawn_samples(mechanism, size):
    """100 samples at 95 %: 81 or fewer hits have a chance under 1e-6 (binomial); about the table they hold far less."""
    rng, rows = np.random.default_rng(3), 1_000
    whole = drawn(size or 2_000_000, rng)
    held = np.zeros((2, 9))
    for seed in range(100):
        chosen = rng.permutation(size or 0)[:rows]
        sample = drawn(rows, rng) if size is None else tuple(one[chosen] for one in whole)
        release = released(sample, 5, seed + 1, size, mechanism)
        for which, population in enumerate((True, False)):
            answer = release.query(ASKED, population=population).rows[0]
            held[which] += [
                one.low <= right <= one.high for one, right in zip(answer, truths(whole, rows), strict=True)
            ]
    assert held[0].min() > 81
    assert held[1, [0, 2, 3]].max() < 81  # a count, a share and an average about the table alone


def test_sampling_adds_to_noise_and_a_stated_size_takes_some_off():
    sample = drawn(1_000, np.random.default_rng(4))
    asked = "SELECT AVG(smoker) AS share FROM people"
    release, stated = (released(sample, 20, 1, size, "cells") for size in (None, 1_250))
    table, population, finite = (
        one.rows[0][0].stderr
        for one in (release.query(asked), release.query(asked, population=True), stated.query(asked, population=True))
    )
    share = sample[0].mean()
    assert population**2 - table**2 == pytest.approx(share * (1 - share) / 1_000, rel=0.05)
    assert finite**2 - table**2 == pytest.approx(0.2 * share * (1 - share) / 1_000, rel=0.06)
    answer = stated.query(asked, population=True)
    assert any("population of 1,250" in note for note in answer.notes)
    assert any("beside the noise" in note for note in release.query(asked, population=True).notes)


def test_odds_ratios_and_slopes_are_wider_about_a_population():
    release = released(drawn(1_000, np.random.default_rng(5)), 20, 1, None, "cells")
    for one in (False, True):
        found = release.odds_ratio("smoker", "region = 'south'", population=one)
        assert (found.stderr > 0.2) is one
    slopes = [release.regress("smoker ~ age", population=one).estimates["age"].stderr for one in (False, True)]
    assert slopes[1] > 1.5 * slopes[0]


@pytest.mark.parametrize(
    ("sql", "settings", "said"),
    [
        ("COUNT(*)", {"interval": "guaranteed"}, "typical"),
        ("COUNT(*)", {"interval": "both"}, "typical"),
        ("COUNT(DISTINCT region)", {}, "say little about"),
        ("MAX(age)", {}, "say little about"),
        ("CRAMERS_V(smoker, region)", {}, "say little about"),
    ],
)
def test_what_sampling_does_not_tell_is_refused(sql, settings, said):
    release = released(drawn(200, np.random.default_rng(6)), 20, 1, None, "cells")
    with pytest.raises(QueryError, match=said):
        release.query(f"SELECT {sql} FROM people", population=True, **settings)


def test_a_measure_has_no_sampling_error():
    schema = Schema(
        dataset="people",
        privacy_unit="row",
        attributes={"smoker": {"type": "boolean"}},
        measures={"pay": {"lower": 0, "upper": 10}},
    )
    release = release_of("cells", (np.array([50, 50]), np.array([9, 9])), Fraction(5), TestingEntropy(1), schema)
    with pytest.raises(QueryError, match="declare the measure as an attribute"):
        release.query("SELECT AVG(pay) FROM people", population=True)
    assert release.query("SELECT AVG(smoker) FROM people", population=True).rows[0][0].stderr > 0.04
