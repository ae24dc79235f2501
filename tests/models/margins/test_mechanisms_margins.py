"""Margins: the whole budget whatever the table, errors that beat what is known, and answers where there is nothing.

What every mechanism must do stands in test_mechanism_contract.py; estimates by themselves in tests/models/margins.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from curators import curator_of
from placed_rows import rows_of

from sfumato.errors import SfumatoError
from sfumato.kernel import opening
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.linear.measure import HIERARCHICAL
from sfumato.models.margins.joining import join_counts
from sfumato.models.margins.measure import MECHANISM, Settings, margins
from sfumato.models.margins.shrinkage import MOST_CELLS
from sfumato.models.margins.table import independent, sum_out
from sfumato.schema import Schema

PURE, GAUSSIAN = Budget.pure(Fraction(1, 3)), Budget.zcdp(Fraction(1, 50))


def attribute(size: int) -> dict:
    return {"type": "integer", "lower": 0, "upper": size - 1} if size > 1 else {"type": "category", "values": ["v"]}


def schema_of(*sizes: int, unit: object = "row", measures: int = 0) -> Schema:
    return Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": unit,
            "attributes": {f"a{place}": attribute(size) for place, size in enumerate(sizes)},
            "measures": {f"m{n}": {"lower": 0, "upper": 20, "step": 1} for n in range(measures)},
        }
    )


def classes(sizes: tuple[int, ...], rows: int, kinds: int = 3, seed: int = 1) -> np.ndarray:
    """A latent-class table: rows are of a few kinds, and within a kind attributes are independent."""
    rng, table = np.random.default_rng(seed), np.zeros(sizes)
    for weight in rng.dirichlet(5 * np.ones(kinds)):
        joint = np.full([1] * len(sizes), weight)
        for axis, size in enumerate(sizes):
            joint = joint * np.moveaxis(
                rng.dirichlet(0.5 * np.ones(size)).reshape(-1, *[1] * (len(sizes) - 1)), 0, axis
            )
        table = table + joint
    return rng.multinomial(rows, table.reshape(-1)).reshape(sizes)


def released(schema: Schema, counts, budget: Budget = PURE, seed: int = 1, sums=None):
    given = {"epsilon": budget.amount} if budget.is_pure else {"rho": budget.amount}
    curator = curator_of(schema, counts, entropy=TestingEntropy(seed), sums=sums, **given)
    content = margins(curator, schema, budget)
    assert curator.charge.fullest == curator.charge.limit, "the budget is spent to the last bit, and no more"
    return content


def table_along(content, *places: int) -> np.ndarray:
    return content.joined({place: np.arange(content.domain.shape[place]) for place in places})["count"]


SCHEMAS = {
    "one attribute": schema_of(7),
    "one value": schema_of(1),
    "two attributes": schema_of(4, 3),
    "one value among three": schema_of(5, 1, 3),
    "nothing to tell apart": schema_of(1, 1),
    "contributions": schema_of(4, 3, 2, unit={"column": "person", "contributions": 3}),
    "measures": schema_of(4, 3, 2, measures=2),
    "long": schema_of(700, 2, measures=1),
    "too long for a pair": schema_of(700, 400),
}


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_it_spends_exactly_its_budget(schema, budget):
    counts = np.arange(schema.domain.size) % 17
    content = released(schema, counts, budget, sums=dict.fromkeys(schema.measures, counts))
    assert list(content.tables) == list(schema.units)
    shape = schema.domain.shape
    pairs = {(a, b) for a, b in combinations(range(len(shape)), 2) if shape[a] * shape[b] <= MOST_CELLS}
    assert {(), *((axis,) for axis in range(len(shape))), *pairs} <= set(content.tables["count"])
    for tables in content.tables.values():
        assert all(
            np.isfinite(part).all() for each in tables.values() for part in (each.estimate, each.noise, each.model)
        )


def test_the_halves_of_pairs_that_no_table_holds_are_looked_at_where_they_are_in_doubt():
    """Pure, epsilon 1: few of 91 pairs are counted. Columns that go together, and columns that do not."""
    schema, rng, budget = schema_of(*[6] * 14), np.random.default_rng(4), Budget.pure(1)
    alone = rng.integers(0, 6, (4000, 14))
    together = np.where(rng.random(alone.shape) < 0.6, alone[:, :1], alone)
    unseen = []
    for codes in (together, alone):
        curator = opening.curator_of(schema, rows_of(schema.domain, codes), budget, TestingEntropy(1))
        measured = margins(curator, schema, budget).measured
        seen = {pair for places, one in measured if one.of == "count" for pair in combinations(places, 2)}
        looked = {places for places, one in measured if one.of == "contrast" and len(places) == 2}
        unseen.append({*combinations(range(14), 2)} - seen - looked)
    assert not unseen[0] and len(unseen[1]) > 30


@pytest.mark.full
@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp(Fraction(1, 20))], ids=["pure", "gaussian"])
def test_forty_attributes_that_nobody_could_lay_out(budget):
    """6^40 cells. Every second attribute repeats the one before, which its pair shows; other pairs are independent."""
    schema = schema_of(*[6] * 40)
    codes = np.random.default_rng(4).integers(0, 6, (3000, 40))
    codes[:, 1::2] = codes[:, ::2]
    curator = opening.curator_of(schema, rows_of(schema.domain, codes), budget, TestingEntropy(1))
    content = margins(curator, schema, budget)
    assert curator.charge.fullest == curator.charge.limit and Settings().most_searched < 40
    table = table_along(content, 6, 7)
    if not budget.is_pure:  # 20 pairs of 36 cells are worth measuring; pure epsilon 1 in so many parts shows less
        assert np.trace(table) > 0.8 * table.sum()
    assert table.sum() == pytest.approx(3000, rel=0.1)
    assert np.trace(table_along(content, 6, 9)) < 0.3 * table.sum()


def test_three_way_tables_beat_independence_and_a_tree_over_all_cells():
    """Mean L1 distance of all threes of a latent-class table, as a share of its rows: six attributes, 28,800 cells.

    Two releases, from the testing generator: 0.12 each, where independence has 0.56 and the tree 0.43.
    """
    sizes, rows = (8, 6, 6, 5, 5, 4), 10_000
    schema, counts, axes = schema_of(*sizes), classes(sizes, rows), range(6)

    def mean_distance(tables) -> float:
        threes = combinations(axes, 3)
        return float(np.mean([np.abs(tables(t) - sum_out(counts, t, axes)).sum() / rows for t in threes]))

    one_way = [sum_out(counts, (axis,), axes) for axis in axes]
    apart = mean_distance(lambda t: independent([one_way[axis] for axis in t], float(rows)))
    for seed in range(2):
        content = released(schema, counts, Budget.pure(1), seed)
        mine = mean_distance(lambda t, made=content: table_along(made, *t))
        curator = curator_of(schema, counts, epsilon=1, entropy=TestingEntropy(seed))
        cells = np.asarray(HIERARCHICAL.run(curator, schema, Budget.pure(1), None).cells()).reshape(sizes)
        tree = mean_distance(lambda t, made=cells: sum_out(made, t, axes))
        assert mine < 0.35 * apart and mine < 0.5 * tree


def test_with_a_huge_budget_pairs_are_exact_and_threes_are_what_pairs_say_or_better():
    sizes = (5, 4, 3)
    counts = classes(sizes, 4000)
    content = released(schema_of(*sizes), counts, Budget.pure(10**5))
    for pair in combinations(range(3), 2):
        assert np.abs(table_along(content, *pair) - sum_out(counts, pair, range(3))).max() < 0.25
    known = {pair: sum_out(counts, pair, range(3)).astype(float) for pair in combinations(range(3), 2)}
    joined = join_counts([sum_out(counts, (axis,), range(3)).astype(float) for axis in range(3)], known)
    assert np.abs(table_along(content, 0, 1, 2) - counts).sum() <= np.abs(joined - counts).sum() + 1.0


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
@pytest.mark.parametrize("seed", range(4))
def test_an_empty_table_is_released_like_any_other(budget, seed):
    """Noise alone, whose total may well be negative: no number is undefined, and no count is negative."""
    schema = schema_of(4, 3, 5, measures=1)
    content = released(schema, np.zeros((4, 3, 5)), budget, seed)
    for tables in content.tables.values():
        for table in tables.values():
            assert np.isfinite(table.estimate).all() and (table.noise >= 0).all() and (table.model >= 0).all()
    assert (table_along(content, 0, 1, 2) >= 0).all()


def test_what_is_asked_before_anything_is_known_is_asked_of_every_table():
    """One-way margins and the misfits of all pairs, with the same noises, of no rows and of many."""
    schema = schema_of(4, 3, 5)
    first, second = (released(schema, counts, PURE, 3) for counts in (np.zeros((4, 3, 5)), classes((4, 3, 5), 10**5)))
    begun = [
        [(places, len(found.answers), found.noise) for places, found in made.measured[:4]] for made in (first, second)
    ]
    assert begun[0] == begun[1]
    assert [found.of for _, found in first.measured[:4]] == ["count"] * 3 + ["misfit"]


def test_errors_say_nothing_of_rows():
    """A budget that is spent already is refused before anything is counted, in words that hold no count."""
    schema, counts = schema_of(4, 3), np.full((4, 3), 98_765)
    curator = curator_of(schema, counts, epsilon=Fraction(1, 3))
    margins(curator, schema, PURE)
    with pytest.raises(SfumatoError) as caught:
        margins(curator, schema, PURE)
    assert "98" not in str(caught.value) and "765" not in str(caught.value)


def test_sums_of_a_measure_by_attribute():
    """Epsilon 30: noise on 40,000 rows' sums is a part in ten thousand or so."""
    schema, counts = schema_of(5, 4, measures=1), np.full((5, 4), 2000)
    steps = counts * (np.arange(5)[:, None] - np.arange(4))
    content = released(schema, counts, Budget.pure(30), sums={"m0": steps})
    assert content.tables["m0"][0,].estimate == pytest.approx(steps.sum(axis=1), abs=200)
    assert content.tables["m0"][0, 1].estimate == pytest.approx(steps, abs=400)


def test_a_release_is_counted_as_about_the_work_that_it_is():
    """A microsecond being about 64 numbers: from a tenth of a second or so for three attributes to three for 14."""
    seconds = [
        MECHANISM.forecast.work(schema_of(*sizes), None, None, 0) / 64e6 for sizes in ((4, 3, 2), (6,) * 6, (2,) * 14)
    ]
    assert 0.05 < seconds[0] < 0.5 < seconds[1] < 1.5 < seconds[2] < 6.0
    assert MECHANISM.forecast.work(schema_of(4, 3, 2, measures=2), None, None, 0) > MECHANISM.forecast.work(
        schema_of(4, 3, 2), None, None, 0
    )


def test_shares_of_the_first_looks_are_bounded():
    settings = Settings()
    for axes in (2, 14, 100):
        parts, of_pure = (settings.shares(axes, axes * (axes - 1) // 2, pure) for pure in (False, True))
        assert sum(parts) == 1 and parts[0] <= settings.most_one_way and parts[1] <= settings.most_misfits
        assert sum(of_pure) == 1 and of_pure[:2] == (parts[0], settings.laplace * parts[1])
