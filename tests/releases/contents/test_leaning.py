"""Cubes that lean on other periods: components add up, errors are as the formula says, months gain, jumps let go."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.answers.fit import Grouped
from sfumato.kernel.budget import Cost
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.releases.contents.cube import Cube
from sfumato.releases.contents.leaning import Components, LeaningFit
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.file.manifest import Guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SHAPE, MONTHS = (3, 10, 2), 6


def _schema() -> Schema:
    attributes = {
        "a": {"type": "category", "values": ["x", "y", "z"]},
        "b": {"type": "integer", "lower": 0, "upper": 9},
        "c": {"type": "boolean"},
    }
    unit = {"column": "person", "contributions": 1}
    stated = {"dataset": "t", "privacy_unit": unit, "budget": {"epsilon": 100}, "attributes": attributes}
    return Schema.from_dict(stated | {"series": {"period": "month", "unit": "person in a month"}})


def _counts(seed: int, *, jump: bool = False, rows: int = 600) -> list[np.ndarray]:
    stream = np.random.default_rng(seed)
    shares = stream.dirichlet(np.full(60, 0.7)).reshape(SHAPE)
    found = []
    for month in range(MONTHS):
        now = shares * np.where(np.arange(3)[:, None, None] == 1, 10.0, 1.0) if jump and month == 5 else shares
        found.append(stream.multinomial(rows, (now / now.sum()).reshape(-1)))
    return found


def _released(counts: list[np.ndarray], mechanism: str, seed: int = 0) -> list[Cube]:
    schema, rho = _schema(), Cost.stated(1, "1e-9").budget
    found = []
    for month, each in enumerate(counts):
        curator = curator_of(schema, each, rho=rho.amount, entropy=TestingEntropy(1000 * seed + month))
        content = find_mechanism(mechanism).run(curator, schema, rho, None)
        assert isinstance(content, Cube)
        found.append(content)
    return found


def _leaning(contents: list[Cube], at: int) -> Cube:
    found = contents[at].leaning([*contents[:at], *contents[at + 1 :]], at)
    assert isinstance(found, Cube)
    return found


@pytest.fixture(scope="module")
def alone() -> list[Cube]:
    return _released(_counts(1), "cells")


def test_components_are_orthogonal_and_add_up_to_the_cube():
    components = Components.over(_schema().domain)
    values = np.random.default_rng(3).normal(size=(60, 2))
    entries = components.split(values)
    assert components.joined(entries) == pytest.approx(values)
    assert (entries**2).sum(axis=0) == pytest.approx((values**2).sum(axis=0))
    assert components.share.sum() == pytest.approx(60.0)  # the traces of projections whose sum is the identity
    assert components.of_cells(np.ones(components.size)) == pytest.approx(np.ones(60))
    margin = np.repeat([1.0, -2.0, 5.0], 20)[:, None]  # of one attribute alone
    told = components.split(margin)[:, 0]
    touched = [part for part in components.parts if np.abs(told[part]).max() > 1e-9]
    assert len(touched) == 2  # the total, and the component of that attribute


def test_what_is_finer_lets_go_with_a_jump_and_a_value_with_its_whole_attribute():
    components = Components.over(_schema().domain)
    column = np.zeros((60, 1))
    column[20:40] = 1.0  # a = y
    single = next(p for p in components.parts[1:] if np.abs(components.split(column)[p]).max() > 1e-9)
    flags = np.zeros(components.size, dtype=bool)
    flags[single.start] = True
    gone = components.let_go(flags)
    assert gone[single].all() and not gone[0]
    others = np.repeat([[0.0] * 10 + [1.0] * 10], 3, axis=0).reshape(-1, 1)  # of b alone: it keeps its past
    assert not gone[np.abs(components.split(others)[:, 0]) > 1e-9].any()


def test_errors_of_groups_are_those_of_single_sums(alone):
    fit = _leaning(alone, 3).fits[0]
    assert isinstance(fit, LeaningFit)
    stream = np.random.default_rng(4)
    weights, whole = stream.normal(size=(60, 2)), stream.normal(size=(60, 2))
    group = stream.integers(-1, 4, 60)
    for common in (None, whole):
        asked = Grouped.of_cells(group, 4, weights, common)
        for each in (fit, fit.recurring):
            found = each.errors_by_group(asked)
            for number in range(4):
                columns = weights * (group == number)[:, None] + (0.0 if common is None else common)
                assert found[number].model == pytest.approx(each.errors(columns).model)
    cells = Grouped.of_cells(np.arange(60), 60, weights, None)
    for number, one in enumerate(fit.errors_by_group(cells)):
        columns = weights * (np.arange(60) == number)[:, None]
        assert one.model == pytest.approx(fit.errors(columns).model)


def test_noise_of_fitted_cells_is_known_exactly_and_the_same_by_both_ways(alone):
    """Cells by least squares on themselves: the general formula beside that of independent noise, which bounds it."""
    from sfumato.models.linear.fit import LinearFit

    measured = [each.fits[0].measurement for each in alone]
    fitted = [Cube(each.schema, (LinearFit.of_answers(one),)) for each, one in zip(alone, measured, strict=True)]
    first, second = (_leaning(some, 2).fits[0] for some in (alone, fitted))
    assert second.estimate == pytest.approx(first.estimate, abs=1e-6)
    columns = np.random.default_rng(5).normal(size=(60, 12))
    bounds, exact = (np.diag(each.errors(columns).model) for each in (first, second))
    assert (exact <= bounds * (1.0 + 1e-9)).all() and (exact >= 0.7 * bounds).all()


@pytest.mark.parametrize("mechanism", ["cells", "hierarchical", "sfumato"])
def test_months_that_hardly_change_gain_and_the_total_stays(mechanism):
    """The testing generator: the same noise every time."""
    counts = _counts(1)
    contents = _released(counts, mechanism)
    leaning = [_leaning(contents, month) for month in range(MONTHS)]
    before, after = (
        np.mean([np.mean((c.fits[0].estimate - x) ** 2) for c, x in zip(each, counts, strict=True)])
        for each in (contents, leaning)
    )
    assert after < (0.9 if mechanism == "sfumato" else 0.5) * before
    for own, other in zip(contents, leaning, strict=True):
        assert other.fits[0].estimate.sum() == pytest.approx(own.fits[0].estimate.sum(), abs=1e-6)
        assert other.spread_beside(own) < 1.0


def test_a_jump_is_let_go():
    counts = _counts(1, jump=True)
    contents = _released(counts, "cells")
    fit = _leaning(contents, MONTHS - 1).fits[0]
    value = np.zeros((60, 1))
    value[20:40] = 1.0
    kept = np.abs(fit.components.split(value)[:, 0]) > 1e-9
    assert fit.weight[kept].max() < 0.15 and fit.weight.max() > 0.5
    estimate, spread = float(value[:, 0] @ fit.estimate), float(np.sqrt(fit.errors(value).model[0, 0]))
    assert estimate == pytest.approx(counts[-1][20:40].sum(), abs=3.0 * spread)


def test_intervals_of_leaning_cells_hold():
    """25 series, 60 cells of one month: 1,500 intervals, of which some 3 share noise; 95 % +- 4.9 * 0.98 points."""
    hits = []
    for seed in range(25):
        counts = _counts(seed)
        fit = _leaning(_released(counts, "cells", seed), 4).fits[0]
        spread = np.sqrt(fit.components.of_cells((1.0 - fit.weight) ** 2 * fit.alone + fit.predicted))
        hits.append(np.abs(fit.estimate - counts[4]) <= 1.96 * spread)
    assert np.mean(hits) == pytest.approx(0.95, abs=0.048)


def _series(contents) -> Release:
    guarantee = Guarantee(Fraction(1), "a person in a month", "one person", "as stated")
    releases = [Release(each, "cells", guarantee, private=True) for each in contents]
    parts = [Part(n, f"2026-{n:02}", lambda r=r: r) for n, r in enumerate(releases, start=1)]
    return Release(SeriesContent.of(parts), "cells", guarantee, private=True)


def test_intervals_of_leaning_months_and_of_their_changes_hold_together(alone):
    series, counts = _series(alone[:4]), "SELECT period, COUNT(*) AS n FROM t WHERE a = 'x' GROUP BY period"
    for sql in (counts, f"SELECT period, n - LAG(n) OVER (ORDER BY period) AS n FROM ({counts}) AS g"):
        answers = [series.query(sql, as_of="2026-04", simultaneous=each) for each in (False, True)]
        assert any("hold together with 95 % confidence" in note for note in answers[1].notes)
        for (_, one), (_, wide) in list(zip(*(each.rows for each in answers), strict=True))[1:]:
            assert wide.high - wide.low > 1.1 * (one.high - one.low) and wide.low <= one.value <= wide.high


def test_parts_that_cannot_lean_say_so(alone):
    rho = Cost.stated(1, "1e-9").budget
    curators = [
        curator_of(_schema(), each, rho=rho.amount, entropy=TestingEntropy(n)) for n, each in enumerate(_counts(1)[:2])
    ]
    series = _series([find_mechanism("residual").run(each, _schema(), rho, None) for each in curators])
    sql = "SELECT COUNT(*) FROM t WHERE a = 'x'"
    asked = series.query(sql, as_of="2026-02")
    assert any(note.startswith("2026-01, 2026-02 cannot lean on other periods") for note in asked.notes)
    assert asked.rows == series.query(sql).rows
    assert not any("lean" in note for note in series.query(sql).notes)


def test_leaning_cubes_are_asked_as_of_a_period_and_know_what_they_share(alone):
    series = _series(alone[:4])
    counts = [f"COUNT(*) FILTER (WHERE period = '2026-{month:02}')" for month in (1, 2)]
    asked = [*counts, f"{counts[1]} - {counts[0]}", f"{counts[1]} + {counts[0]}"]
    for groups in ("a, c", "b"):
        sql = f"SELECT {groups}, {', '.join(asked)} FROM t GROUP BY {groups}"
        for *_, first, second, less, more in series.query(sql, as_of="2026-04").rows:
            one, other, change, both = (each.stderr**2 for each in (first, second, less, more))
            assert change + both == pytest.approx(2.0 * (one + other), rel=1e-6)
            assert change < one + other < both
    sql = "SELECT COUNT(*) FROM t WHERE a = 'x' AND b < 4 AND period = '2026-02'"
    told = series.query(sql, as_of="2026-04")
    assert any("; standard errors of cells are 0." in note for note in told.notes)
    wide = [series.query(sql, as_of=period, interval="guaranteed").rows[0][0] for period in (None, "2026-04")]
    assert (wide[0].low, wide[0].high) == (wide[1].low, wide[1].high)
    assert told.rows[0][0].stderr < series.query(sql).rows[0][0].stderr
