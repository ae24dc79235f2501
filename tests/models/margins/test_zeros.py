"""Structural zeros: exactly 0 where the schema says so, in tables, answers and rows, and right intervals elsewhere.

The table: ages in 12 cells, of which those below 4 cannot be married or work; a region that follows from a town.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from curators import curator_of
from ruled import RULES, SIZES, schema_of

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.models.margins.table import Narrowed, coherent, fitted_with_zeros
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release, open_release
from sfumato.schema import Schema

SCHEMA = schema_of(RULES)


def table(rows: int = 40_000, seed: int = 1) -> np.ndarray:
    """Counts of rows that agree with the rules, with attributes that depend on one another."""
    random = np.random.default_rng(seed)
    age, sex, town = (
        random.integers(0, 12, rows),
        random.integers(0, 2, rows),
        random.choice(6, rows, p=np.r_[1:7] / 21),
    )
    marital = np.where(age < 4, 0, random.binomial(2, age / 12))
    work = np.where(age < 4, 0, (random.integers(0, 3, rows) + (town > 3) + 2 * (marital == 1)) % 4)
    codes = np.stack([age, marital, work, town, (town > 3).astype(int), sex])
    codes = codes[:, SCHEMA.structure.agrees(codes)]
    return np.bincount(np.ravel_multi_index(tuple(codes), tuple(SIZES.values())), minlength=SCHEMA.domain.size)


def released(mechanism: str, seed: int = 1, epsilon: Fraction = Fraction(1), schema: Schema = SCHEMA) -> Release:
    curator = curator_of(schema, table(), entropy=TestingEntropy(seed), epsilon=epsilon)
    content = find_mechanism(mechanism).run(curator, schema, Budget.pure(epsilon), None)
    assert curator.charge.fullest == curator.charge.limit
    return Release(content, mechanism, describe_guarantee(Budget.pure(epsilon), schema), True)


@pytest.fixture(scope="module")
def margins() -> Release:
    return released("margins")


@pytest.fixture(scope="module")
def cells() -> Release:
    return released("cells")


def test_tables_are_zero_where_rows_cannot_be_and_nowhere_else(margins):
    content, structure = margins.content, SCHEMA.structure
    for order in (2, 3, 4):
        for places in combinations(range(len(SIZES)), order):
            joint, flags = content.joined(content.every(places))["count"], structure.possible(places)
            assert joint.sum() == pytest.approx(float(content.tables["count"][()].estimate), rel=2e-2), places
            assert flags is None or not joint[~flags].any()
    for places, made in content.tables["count"].items():
        flags = structure.possible(places) if len(places) > 1 else None
        assert flags is None or not (made.noise[~flags].any() or made.model[~flags].any())


def test_a_function_s_table_is_the_sum_of_the_finer_one_s(margins):
    tables, image = margins.content.tables["count"], SCHEMA.structure.functions[0].image
    town, region = tables[3,].estimate, tables[4,].estimate
    assert np.allclose(np.bincount(image, town), region, atol=0.01)
    for other in (0, 1, 2, 5):
        by_town = margins.content.joined(margins.content.every(tuple(sorted((3, other)))))["count"]
        by_region = margins.content.joined(margins.content.every(tuple(sorted((4, other)))))["count"]
        by_town, by_region = (by_town.T, by_region.T) if other < 3 else (by_town, by_region)
        summed = np.stack([by_town[image == value].sum(axis=0) for value in range(2)])
        assert np.allclose(summed, by_region, atol=2.0), other
    measured = [set(places) for places, one in margins.content.measured if one.of == "count"]
    assert not any({3, 4} <= places for places in measured)  # nothing is spent on what is known


IMPOSSIBLE = [
    "SELECT COUNT(*) FROM t WHERE age < 4 AND marital > 0",
    "SELECT COUNT(*) FROM t WHERE town = 5 AND region = 0",
    "SELECT COUNT(*) FROM t WHERE age < 3 AND work = 2 AND sex = 1",
    "SELECT COUNT(*) FROM t WHERE marital = 2 AND work = 3 AND sex = 1",
]


@pytest.mark.parametrize("kind", ["typical", "guaranteed"])
@pytest.mark.parametrize("sql", IMPOSSIBLE)
@pytest.mark.parametrize("name", ["margins", "cells"])
def test_answers_are_exactly_zero(name, sql, kind, request):
    ((found,),) = request.getfixturevalue(name).query(sql, interval=kind).rows
    assert (found.value, found.low, found.high, found.stderr) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", ["margins", "cells"])
def test_groups_by_what_follows_are_those_of_the_finer_attribute(name, request):
    release = request.getfixturevalue(name)
    both = release.query("SELECT town, region, COUNT(*) FROM t GROUP BY town, region").rows
    alone = release.query("SELECT town, COUNT(*) FROM t GROUP BY town").rows
    for town, count in alone:
        found = {region: value for place, region, value in both if place == town}
        mine, other = found[int(town > 3)], found[int(town <= 3)]
        assert (other.value, other.low, other.high) == (0, 0, 0)
        assert mine.value == pytest.approx(count.value, abs=0.01)
        assert mine.stderr == pytest.approx(count.stderr, rel=0.02)
    some = release.query("SELECT region, COUNT(*) FROM t WHERE town IN (2, 3, 4) GROUP BY region").rows
    singly = dict(alone)
    assert some[0][1].value == pytest.approx(singly[2].value + singly[3].value, abs=0.01)
    assert some[1][1].value == pytest.approx(singly[4].value, abs=0.01)
    assert some[1][1].stderr == pytest.approx(singly[4].stderr, rel=0.02)


@pytest.mark.parametrize("name", ["margins", "cells"])
def test_rows_are_never_impossible(name, request):
    rows = request.getfixturevalue(name).sample(4_000, seed=1)
    codes = np.stack([np.asarray(rows.column(attribute)) for attribute in SIZES]).astype(np.int64)
    assert SCHEMA.structure.agrees(codes).all()
    assert len(np.unique(codes, axis=1)[0]) > 100


def test_a_file_keeps_the_rules(tmp_path, margins):
    margins.save(tmp_path / "a.sfumato")
    again = open_release(tmp_path / "a.sfumato")
    assert again.schema == SCHEMA
    ((found,),) = again.query(IMPOSSIBLE[0]).rows
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_unbiased_answers_leave_out_the_noise_of_impossible_cells(margins, tmp_path):
    """Of two attributes that rules link, and of one and what follows from it; a file tells the same."""
    margins.save(tmp_path / "a.sfumato")
    for release in (margins, open_release(tmp_path / "a.sfumato")):
        for sql in IMPOSSIBLE[:1]:
            ((found,),) = release.query(sql, unbiased=True).rows
            assert (found.value, found.low, found.high) == (0, 0, 0)
        below = release.query("SELECT town, region, COUNT(*) FROM t GROUP BY town, region", unbiased=True).rows
        alone = dict(release.query("SELECT town, COUNT(*) FROM t GROUP BY town", unbiased=True).rows)
        image = SCHEMA.structure.functions[0].image
        for town, region, found in below:
            own = alone[town] if image[int(town)] == int(region) else None
            expected = (0, 0, 0) if own is None else (own.value, own.low, own.high)
            assert (found.value, found.low, found.high) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["quantiles", "fourier", "blr"])
def test_a_model_that_cannot_respect_them_says_so(name):
    with pytest.raises(MechanismError, match="cannot respect `impossible`"):
        find_mechanism(name).check(SCHEMA)
    for able in ("cells", "margins"):
        find_mechanism(able).check(SCHEMA)


QUESTIONS = [
    ("age, marital", (0, 1)),
    ("marital, work", (1, 2)),
    ("work, region", (2, 4)),
    ("town, work", (2, 3)),
    ("marital, work, sex", (1, 2, 5)),
]


@pytest.mark.parametrize("name", ["margins", "cells"])
def test_intervals_of_possible_cells_hold_and_rules_help(name):
    """95 % intervals of the possible cells of five tables, over 4 releases: 380 that depend on one another.

    If as few as 60 of them were independent, fewer than 80 % hold in one of 10^6 runs. Seeds are fixed, so that errors
    with rules and without are compared once and for all.
    """
    truth = table().reshape(tuple(SIZES.values()))
    held, off, without = [], 0.0, 0.0
    for seed in range(4):
        release, plain = released(name, seed), released(name, seed, schema=schema_of({}))
        for columns, places in QUESTIONS:
            sql = f"SELECT {columns}, COUNT(*) FROM t GROUP BY {columns}"
            true = truth.sum(axis=tuple(place for place in range(6) if place not in places))
            order = [list(SIZES)[place] for place in places]
            for answer, other in zip(release.query(sql).rows, plain.query(sql).rows, strict=True):
                named = dict(zip(columns.split(", "), answer[:-1], strict=True))
                count = true[tuple(int(named[each]) for each in order)]
                off, without = off + abs(answer[-1].value - count), without + abs(other[-1].value - count)
                if answer[-1].stderr > 0:
                    held.append(answer[-1].low <= count <= answer[-1].high)
                else:
                    assert count == 0
    assert len(held) >= 380
    assert np.mean(held) >= 0.8
    assert off < 0.95 * without


def test_margins_are_pooled_and_agree():
    structure = SCHEMA.structure
    margins = [np.full(size, 120 / size) for size in SIZES.values()]
    margins[3], margins[4] = np.array([10.0, 10, 10, 10, 40, 40]), np.array([80.0, 40])
    unsure = [np.ones(size) for size in SIZES.values()]
    made, errors = coherent(structure, 120.0, margins, unsure)
    assert np.allclose(np.bincount(structure.functions[0].image, made[3]), made[4])
    assert made[4] == pytest.approx([80 * 0.8 + 40 * 0.2, 40 * 2 / 3 + 80 / 3], rel=0.05)
    assert (errors[4] < 1.0).all() and all(each.sum() == pytest.approx(120) for each in made)


def test_fitting_keeps_zeros_and_margins():
    flags = np.array([[True, False, True], [True, True, True]])
    rows, columns = np.array([3.0, 7.0]), np.array([2.0, 5.0, 3.0])
    fitted = fitted_with_zeros(np.ones((2, 3)), rows, columns, flags)
    assert fitted[0, 1] == 0 and np.allclose(fitted.sum(axis=0), columns) and np.allclose(fitted.sum(axis=1), rows)


def test_a_narrowed_question_has_the_same_cells():
    kinds = {3: np.array([0, 0, 1, 1, 1, 2]), 4: np.array([0, 1]), 5: np.array([0, 1])}
    narrowed = Narrowed.of(SCHEMA.structure, kinds)
    assert narrowed is not None and [*narrowed.kinds] == [3, 5]
    inner = np.arange(8.0).reshape(4, 2)
    whole = narrowed.expand(inner)
    assert whole.shape == (3, 2, 2) and np.count_nonzero(whole) == 7
    assert whole[0, 0].tolist() == [0, 1] and whole[1, 0].tolist() == [2, 3] and whole[1, 1].tolist() == [4, 5]
    assert whole[2, 1].tolist() == [6, 7] and Narrowed.of(SCHEMA.structure, {0: np.arange(12)}) is None


def test_a_pair_is_not_predicted_from_one_whose_noise_it_shares():
    """Pairs of a county were pooled into those of its state: they do not predict these, but those of others do."""
    from sfumato.models.margins.shrinkage import predicted_by_others

    rng = np.random.default_rng(4)
    joint = rng.dirichlet(np.ones(4 * 2 * 3 * 3)).reshape(4, 2, 3, 3) * 1000.0
    one_way = [joint.sum(axis=tuple(other for other in range(4) if other != axis)) for axis in range(4)]
    pairs = {
        (a, b): joint.sum(axis=tuple(other for other in range(4) if other not in (a, b)))
        for a in range(4)
        for b in range(a + 1, 4)
    }
    kin = {0: frozenset({1}), 1: frozenset({0})}
    before = predicted_by_others(one_way, pairs, kin)[0]
    moved = {**pairs, (0, 2): np.outer(one_way[0], one_way[2]) / 1000.0}
    after = predicted_by_others(one_way, moved, kin)[0]
    assert np.array_equal(before[1, 2], after[1, 2]) and not np.allclose(before[0, 3], after[0, 3])
    assert not np.allclose(before[1, 2], predicted_by_others(one_way, moved, {})[0][1, 2])
