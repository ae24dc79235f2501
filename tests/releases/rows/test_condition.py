"""Rows under a condition follow the conditional distribution; groups have exactly the release's counts.

Releases have so large an epsilon that noise is below a row. Chi-square and Kolmogorov tests state their numbers of rows
and reject with probability 1e-6.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of
from scipy.stats import chi2, kstest

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.releases.rows import condition
from sfumato.releases.rows.coding import codes_in
from sfumato.releases.rows.condition import Chosen, rows_under
from sfumato.releases.rows.model import Grouping, RandomNumbers
from sfumato.schema import Schema
from sfumato.sql import compile_where

FALSE_ALARM = 1e-6
SCHEMA = Schema.from_dict(
    {
        "dataset": "people",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 59, "width": 10},
            "sex": {"type": "category", "values": ["F", "M"], "other": False},
            "income": {"type": "number", "lower": 0, "upper": 400, "bins": 4},
            "region": {"type": "category", "values": ["n", "s", "w"], "other": False, "missing": "keep"},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-03-31", "by": "month"},
        },
        "measures": {"cost": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)
CONDITIONS = [
    "age < 23 AND sex = 'F'",
    "age < 23 OR sex = 'F'",
    "NOT (income BETWEEN 50 AND 250.5)",
    "age IN (3, 17, 18, 44) AND region <> 'n'",
    "region IS NULL OR (sex = 'M' AND day >= '2024-02-10' AND income > 333)",
    "(age < 20 AND sex = 'F') OR (region = 's' AND income > 150.5) OR day < '2024-01-05'",
]
KINDS = ["cells", "sparse-cells", "margins"]


def counts() -> np.ndarray:
    """All attributes depend on two hidden kinds of rows; 60,000 of them, some cells empty."""
    rng, shape = np.random.default_rng(5), SCHEMA.domain.shape
    joint = np.zeros(shape)
    for share in (0.7, 0.3):
        table = np.array(share)
        for size in shape:
            table = np.multiply.outer(table, rng.dirichlet(np.ones(size)))
        joint += table
    return np.floor(60_000 * joint).astype(np.int64)


@pytest.fixture(scope="module", params=[*KINDS[:2], pytest.param("margins", marks=pytest.mark.full)])
def release(request) -> Release:
    return released(request.param)


@cache
def released(mechanism: str) -> Release:
    budget, held = Budget.pure(10**4), counts()
    curator = curator_of(SCHEMA, held, sums={"cost": held * 20}, epsilon=10**4)
    content = MECHANISMS[mechanism].run(curator, SCHEMA, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, SCHEMA), True)


def fulfilling(rows: pa.Table, where: str) -> int:
    connection = duckdb.connect()
    connection.register("people", rows)
    ((number,),) = connection.execute(f"SELECT COUNT(*) FROM people WHERE {where}").fetchall()
    return number


def p_value(held: np.ndarray, expected: np.ndarray) -> float:
    """Of Pearson's test, with expected counts scaled to those held; cells that expect less than 5 rows are one."""
    expected = np.maximum(expected, 0.0) * held.sum() / np.maximum(expected, 0.0).sum()
    few = expected < 5
    held, expected = (np.append(each[~few], each[few].sum()) for each in (held.astype(float), expected))
    keep = expected > 0.5
    assert held[~keep].sum() <= 5
    return float(chi2.sf(((held - expected)[keep] ** 2 / expected[keep]).sum(), max(int(keep.sum()) - 1, 1)))


@pytest.mark.parametrize("where", CONDITIONS)
def test_rows_fulfil_the_condition_and_follow_the_release(release, where):
    """As many rows as the release counts, each inside, and all counts by one and two attributes are the answers'."""
    rows = release.sample(where=where, seed=3)
    wanted = release.query(f"SELECT COUNT(*) FROM people WHERE {where}").rows[0][0].value
    assert rows.num_rows == round(wanted) == fulfilling(rows, where)
    model = rows_under(release.content.row_model, compile_where(where, SCHEMA), SCHEMA)
    codes = codes_in(rows, SCHEMA, SCHEMA.domain.names)
    names = SCHEMA.domain.names
    for pair in [(name,) for name in names] + list(combinations(names, 2)):
        shape = [SCHEMA.domain[name].size for name in pair]
        held = np.bincount(np.ravel_multi_index([codes[name] for name in pair], shape), minlength=int(np.prod(shape)))
        expected = model.margin([Grouping.of(SCHEMA.domain[name], 100) for name in pair])
        assert p_value(held, expected.reshape(-1)) > FALSE_ALARM / 100
        if pair in [("age",), ("region",), ("sex", "day"), ("age", "income")]:
            # Tables of margins are joined by classes, and the answers by single values.
            assert np.abs(answers(release, pair, where) - expected).sum() <= 0.02 * wanted + 5


def answers(release: Release, names: tuple[str, ...], where: str) -> np.ndarray:
    """The release's counts of groups under a condition."""
    keys, labels = ", ".join(names), [SCHEMA.domain[name].labels() for name in names]
    table = np.zeros([len(each) for each in labels])
    for row in release.query(f"SELECT {keys}, COUNT(*) FROM people WHERE {where} GROUP BY {keys}").rows:
        table[tuple(each.index(key) for each, key in zip(labels, row, strict=False))] = row[-1].value
    return table


def test_rows_of_margins_fulfil_a_condition_and_follow_the_release():
    """One condition at the usual pace; all of them are tried in the full layer."""
    test_rows_fulfil_the_condition_and_follow_the_release(released("margins"), CONDITIONS[0])


def test_many_rows_are_the_conditional_distribution_of_single_cells():
    """50,000 rows of a cube, by all cells at once."""
    where = CONDITIONS[1]
    rows = codes_in(released("cells").sample(50_000, where=where, seed=4), SCHEMA, SCHEMA.domain.names)
    shape = SCHEMA.domain.shape
    held = np.bincount(np.ravel_multi_index(list(rows.values()), shape), minlength=int(np.prod(shape)))
    grid = dict(zip(SCHEMA.domain.names, np.unravel_index(np.arange(len(held)), shape), strict=True))
    share = compile_where(where, SCHEMA).weights(SCHEMA.domain, grid)[0]
    assert p_value(held, counts().reshape(-1) * share) > FALSE_ALARM


@pytest.mark.parametrize("kind", [*KINDS[:2], pytest.param("margins", marks=pytest.mark.full)])
def test_values_are_even_inside_the_part_of_a_cell_that_is_left(kind):
    """2,000 rows: incomes in two spans of one bin, ages and days in parts of theirs; measures keep to their bounds."""
    rows = released(kind).sample(2000, where="income BETWEEN 20 AND 30 OR income BETWEEN 90 AND 95", seed=5).to_pandas()
    below = rows.income[rows.income < 50]
    assert kstest((below - 20) / 10, "uniform").pvalue > FALSE_ALARM
    assert abs(len(below) - 2000 * 10 / 15) < 4.9 * np.sqrt(2000 * 2 / 9)
    rows = released(kind).sample(2000, where="age BETWEEN 13 AND 16 AND day > '2024-02-20'", seed=5).to_pandas()
    february = rows.day[rows.day.astype(str) < "2024-03"]
    assert set(rows.age) == {13, 14, 15, 16} and min(map(str, rows.day)) == "2024-02-21"
    assert p_value(np.bincount(rows.age - 13), np.ones(4)) > FALSE_ALARM
    held = np.bincount([day.day - 21 for day in february], minlength=9)
    assert p_value(held, np.ones(9)) > FALSE_ALARM and rows.cost.between(0, 100).all()
    assert abs(rows.cost.mean() - 70) < 5  # centred on 50, 20 more each


@pytest.mark.parametrize("where", ["TRUE", "income < 150 AND age < 35"])
@pytest.mark.parametrize("names", [("region",), ("sex", "age"), ("day", "region", "sex")])
def test_groups_have_exactly_the_counts_of_the_release(release, names, where):
    codes = codes_in(release.sample(where=where, by=[name.upper() for name in names], seed=6), SCHEMA, names)
    shape = [SCHEMA.domain[name].size for name in names]
    held = np.bincount(np.ravel_multi_index([codes[name] for name in names], shape), minlength=int(np.prod(shape)))
    model = rows_under(release.content.row_model, compile_where(where, SCHEMA), SCHEMA)
    expected = model.margin([Grouping.of(SCHEMA.domain[name], 100) for name in names])
    assert np.array_equal(held, np.rint(np.maximum(expected.reshape(-1), 0.0)))
    off = np.abs(answers(release, names, where) - expected)
    assert off.sum() <= (0.02 * expected.sum() + 5 if where != "TRUE" or len(names) > 2 else 0.1)


def test_a_number_of_rows_is_divided_among_groups_by_the_largest_remainders(release):
    rows = release.sample(1000, by="sex", seed=1).to_pandas()
    women, men = (row[1].value for row in release.query("SELECT sex, COUNT(*) FROM people GROUP BY sex").rows)
    assert len(rows) == 1000 and abs((rows.sex == "F").sum() - 1000 * women / (women + men)) <= 0.5 + 1e-9
    assert len(release.sample(7, by=["age", "region"], seed=1)) == 7


def test_rows_of_groups_follow_the_release_in_all_else(release):
    """20,000 rows with numbers by two attributes: the pairs of all others are still the release's."""
    rows = codes_in(release.sample(20_000, by=["age", "sex"], seed=2), SCHEMA, SCHEMA.domain.names)
    for pair in combinations(SCHEMA.domain.names, 2):
        shape = [SCHEMA.domain[name].size for name in pair]
        held = np.bincount(np.ravel_multi_index([rows[name] for name in pair], shape), minlength=int(np.prod(shape)))
        margin = release.content.row_model.margin([Grouping.of(SCHEMA.domain[name], 100) for name in pair])
        assert p_value(held, margin.reshape(-1)) > FALSE_ALARM / 10


def test_few_rows_have_the_one_way_counts_of_the_release(release):
    """500 rows drawn one by one would be off by 10; these by three at most in the worst of 20 values."""
    for where in (None, "sex = 'F' OR age > 44"):
        codes = codes_in(release.sample(500, where=where, seed=8), SCHEMA, SCHEMA.domain.names)
        model = rows_under(release.content.row_model, compile_where(where or "TRUE", SCHEMA), SCHEMA)
        for axis in SCHEMA.domain:
            expected = np.maximum(model.margin([Grouping.of(axis, axis.size)]), 0.0)
            held = np.bincount(codes[axis.name], minlength=axis.size)
            assert np.abs(held - 500 * expected / expected.sum()).max() <= 3.0


def test_tables_of_one_seed_are_reproducible_and_independent(release):
    first, again, second = (release.sample(3000, seed=7, table=number) for number in (1, 1, 2))
    assert first.equals(again) and first.equals(release.sample(3000, seed=7)) and not first.equals(second)
    matches = np.mean(np.array(first["age"]) == np.array(second["age"]))
    shares = np.bincount(np.array(first["age"]), minlength=60) / 3000
    expected = float((shares**2).sum())
    assert abs(matches - expected) < 4.9 * np.sqrt(expected / 3000)
    assert not release.sample(50).equals(release.sample(50))


@pytest.mark.parametrize("kind", ["cells", pytest.param("margins", marks=pytest.mark.full)])
def test_choosing_among_drawn_rows_gives_the_same_distribution(kind, monkeypatch):
    """20,000 rows by rejection, which is left where a model cannot be restricted; by every pair of attributes."""
    release, where = released(kind), compile_where(CONDITIONS[5], SCHEMA)
    model = release.content.row_model
    chosen, direct = Chosen(model, where, SCHEMA), model.given(where)
    assert abs(chosen.total / direct.total - 1) < 0.02
    block = chosen.draw(np.linspace(0, 0.999, 20_000), RandomNumbers(1))
    for pair in combinations(SCHEMA.domain.names, 2):
        groupings = [Grouping.of(SCHEMA.domain[name], 100) for name in pair]
        shape = [grouping.size for grouping in groupings]
        held = np.bincount(np.ravel_multi_index([block.codes[n] for n in pair], shape), minlength=int(np.prod(shape)))
        off = 0.5 * np.abs(held / held.sum() - (direct.margin(groupings) / direct.total).reshape(-1)).sum()
        assert off < 0.02 + 0.5 * np.sqrt(len(held) / 20_000)
    monkeypatch.setattr(condition, "MOST_BLOCKS", 1)
    with pytest.raises(QueryError, match=r"of 65,536 rows drawn .* fulfil the condition, and 65,536 are asked for"):
        chosen.draw(np.linspace(0, 0.999, 65_536), RandomNumbers(1))


def test_rows_of_unbiased_tables_are_chosen():
    """Such tables do not tell how three attributes go together: their rows do, and are chosen among."""
    release, where = released("residual"), "age < 23 AND sex = 'F'"
    rows = release.sample(where=where, seed=3)
    wanted = release.query(f"SELECT COUNT(*) FROM people WHERE {where}").rows[0][0].value
    assert rows.num_rows == round(wanted) == fulfilling(rows, where)
    with pytest.raises(QueryError, match="cannot be drawn by group"):
        release.sample(where=where, by="sex")
    assert release.sample(100, where="age < 41 AND income > 10 AND day > '2024-01-20'").num_rows == 100
    by_sex = release.sample(by="sex", seed=1).to_pandas().sex.value_counts()
    assert all(
        by_sex[row[0]] == round(row[1].value)
        for row in release.query("SELECT sex, COUNT(*) FROM people GROUP BY sex").rows
    )


@pytest.mark.full
def test_margins_fall_back_to_choosing_where_tables_cannot_be_joined(monkeypatch):
    from sfumato.models.margins import content

    release = released("margins")
    monkeypatch.setattr(content, "MOST_JOINED", 10)
    where = "age < 31 AND sex = 'F' AND income > 120"
    rows = release.sample(300, where=where, seed=1)
    assert rows.num_rows == 300 == fulfilling(rows, where)
    with pytest.raises(QueryError, match="cannot be drawn by group; leave --by"):
        release.sample(300, where=where, by="sex")


@pytest.mark.parametrize(
    ("where", "by", "reason"),
    [
        ("income = 77", (), "the release counts 0 rows that fulfil the condition, which is too few to draw from"),
        ("age < 0", (), "no row can fulfil the condition; age lies from 0 to 59"),
        ("sex = 'F' AND sex = 'M'", (), "no row can fulfil the condition"),
        ("", (), "the condition is empty"),
        ("age <", (), "cannot be read"),
        ("age < 3 LIMIT 5", (), "LIMIT behind a condition"),
        ("age < 3 GROUP BY sex", (), "GROUP BY behind a condition"),
        ("age < 3 UNION ALL SELECT * FROM release", (), "more than a condition"),
        ("age < 3; DROP TABLE people", (), "2 statements"),
        ("age < 3 --", ("nothing",), "nothing is no attribute of the release; rows are drawn by some of: age, sex"),
        ("age < 30", ("sex", "SEX"), "SEX is named twice"),
        ("cost > 3", (), "cost"),
        ("name = 'x'", (), "name"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(where, by, reason):
    with pytest.raises(QueryError, match=r"^[^\n]*$") as refused:
        released("cells").sample(10, where=where, by=by)
    assert reason in str(refused.value)


def test_sql_draws_the_same_rows(release):
    rare = "age = 3 AND sex = 'F' AND income BETWEEN 20 AND 60"
    answer = release.query(f"SELECT age, income FROM people WHERE {rare} LIMIT 50")
    assert len(answer) == 50 and all(row[0] == 3 and 20 <= row[1] <= 60 for row in answer.rows)
    nobody = release.query("SELECT age FROM people WHERE income = 77 LIMIT 3")
    assert len(nobody) == 0 and "no more met the condition" in nobody.notes[0]


WORDS = [
    *("age", "sex", "income", "region", "day", "cost", "<", ">", "=", "<>", "<=", "AND", "OR", "NOT", "(", ")", "IN"),
    *("BETWEEN", "IS", "NULL", "3", "17.5", "-1", "44", "'F'", "'M'", "'n'", "'2024-02-10'", ",", "+", "*", "/", "%"),
    *("LIKE", "CASE", "WHEN", "THEN", "END", "ABS(", "COALESCE(", "--", "/*", "*/", ";", "'", '"', "[", "LIMIT"),
    *("GROUP", "BY", "SELECT", "FROM", "release", "WHERE", "EXISTS", "TRUE", "1e400"),
]


def random_condition(rng: np.random.Generator, depth: int = 0) -> str:
    """A condition of comparisons; at times one that no SQL would take."""
    if rng.random() < 0.04:
        return " ".join(rng.choice(WORDS, rng.integers(1, 9)))
    if depth < 3 and rng.random() < 0.55:
        sides = [random_condition(rng, depth + 1) for _ in range(2)]
        word = rng.choice(["AND", "OR"])
        return f"{'NOT ' if rng.random() < 0.2 else ''}({sides[0]} {word} {sides[1]})"
    a, b = sorted(rng.integers(-5, 70, 2).tolist())
    return str(
        rng.choice(
            [
                f"age < {a}",
                f"age BETWEEN {a} AND {b}",
                f"age IN ({a}, {b}, 7)",
                f"age % 7 = {a % 7}",
                f"income >= {a * 7.5}",
                f"sex = '{'FM'[a % 2]}'",
                f"region <> '{'nsw'[a % 3]}'",
                "region IS NULL",
                f"day > '2024-02-{1 + b % 28:02d}'",
                f"CASE WHEN age > {a} THEN sex = 'F' ELSE income < {b} END",
            ]
        )
    )


@pytest.mark.parametrize(
    ("kind", "many"),
    [("cells", 15), *(pytest.param(kind, 200, marks=pytest.mark.full) for kind in ("cells", "sparse-cells"))],
)
def test_random_conditions_are_drawn_as_they_say_or_refused_in_words(kind, many):
    """So many conditions: what is drawn fulfils them in DuckDB too, what is not is refused by one line."""
    rng, release, drawn = np.random.default_rng(11), released(kind), 0
    for _ in range(many):
        where = random_condition(rng)
        try:
            rows = release.sample(20, where=where, seed=1)
        except QueryError as refused:
            assert str(refused) and "\n" not in str(refused)
            continue
        drawn += 1
        assert fulfilling(rows, where) == 20, where
    assert drawn > many / 2
