"""Answers against brute force: values from laid-out cells, intervals from laid-out weights."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.answers.noise_sum import half_width, stderr
from sfumato.answers.results import Estimate, Result
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import AllRanges, Identity, Prefix, Stack, Total, Weighted
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "sex": {"type": "category", "values": ["F", "M"]},
            "income": {"type": "number", "lower": 0, "upper": 1000, "cuts": [100, 250, 600]},
            "urgent": {"type": "boolean"},
            "day": {"type": "date", "lower": "2024-01-15", "upper": "2024-03-20", "by": "month"},
        },
        "measures": {"cost": {"lower": -10, "upper": 30, "step": 1, "missing": "drop"}},
    }
)
SHAPE = SCHEMA.domain.shape
COUNTS = (np.arange(np.prod(SHAPE)) * 37 % 23).reshape(SHAPE)
SUMS = COUNTS * (np.arange(np.prod(SHAPE)).reshape(SHAPE) % 5 - 2)


@pytest.fixture(scope="module")
def release() -> Release:
    curator = curator_of(SCHEMA, COUNTS, sums={"cost": SUMS}, epsilon=1, entropy=TestingEntropy(4))
    cube = MECHANISMS["cells"].run(curator, SCHEMA, Budget.pure(1))
    return Release(cube, "cells", describe_guarantee(Budget.pure(1), SCHEMA), False)


@pytest.fixture
def x(release) -> np.ndarray:
    return release.content.values["count"].reshape(SHAPE)


@pytest.fixture
def noise(release):
    return release.content.noises["count"]


def only(release: Release, sql: str):
    ((found,),) = release.query(sql).rows
    return found


def test_a_count_is_a_sum_of_cells_with_their_exact_interval(release, x, noise):
    found = only(release, "SELECT COUNT(*) FROM t WHERE age BETWEEN 2 AND 4 AND sex = 'F' AND NOT urgent")
    part = x[2:5, 0, :, 0, :]
    assert found.value == part.sum()
    terms = [(1.0, noise, part.size)]
    assert found.stderr == pytest.approx(stderr(terms))
    assert found.high - found.value == found.value - found.low == half_width(terms, 0.95)
    assert found.source == "privacy noise"


def test_or_counts_nothing_twice(release, x):
    found = only(release, "SELECT COUNT(*) FROM t WHERE age < 3 OR sex = 'M' OR urgent")
    mask = np.zeros(SHAPE, dtype=bool)
    mask[:3] = mask[:, 1] = True
    mask[:, :, :, 1] = True
    assert found.value == x[mask].sum()


def test_group_by_lists_every_group_in_order_and_agrees_with_single_questions(release, x):
    result = release.query("SELECT sex, age, COUNT(*) AS n FROM t WHERE age >= 7 GROUP BY sex, age")
    assert [row[:2] for row in result] == [(sex, age) for sex in "FM" for age in (7, 8, 9)]
    for sex, age, n in result:
        assert n.value == x[age, "FM".index(sex)].sum()
        alone = only(release, f"SELECT COUNT(*) FROM t WHERE sex = '{sex}' AND age = {age}")
        assert (n.value, n.low, n.high) == (alone.value, alone.low, alone.high)


def test_binned_boolean_and_date_groups_have_readable_keys(release, x):
    assert release.query("SELECT income, COUNT(*) FROM t GROUP BY income").column("income") == [
        "[0, 100)",
        "[100, 250)",
        "[250, 600)",
        "[600, 1000]",
    ]
    assert release.query("SELECT urgent, COUNT(*) FROM t GROUP BY urgent").column("urgent") == [False, True]
    months = release.query("SELECT day, COUNT(*) AS n FROM t GROUP BY day")
    assert months.column("day") == ["2024-01", "2024-02", "2024-03"]
    assert months.rows[1][1].value == x[..., 1].sum()


def test_sums_of_a_measure_put_the_centre_back(release):
    found = only(release, "SELECT SUM(cost) FROM t WHERE sex = 'M'")
    cube = release.content
    centred, counts = (cube.values[of].reshape(SHAPE)[:, 1].sum() for of in ("cost", "count"))
    assert found.value == centred + 10 * counts
    cells = COUNTS[:, 1].size
    terms = [(1.0, cube.noises["cost"], cells), (10.0, cube.noises["count"], cells)]
    assert found.stderr == pytest.approx(stderr(terms))
    assert found.high - found.value == pytest.approx(half_width(terms, 0.95), rel=1e-3)


def test_a_sum_of_whole_numbers_is_exact_and_one_of_bins_has_ends(release, x):
    ages = only(release, "SELECT SUM(age) FROM t")
    assert ages.value == (x.sum(axis=(1, 2, 3, 4)) * np.arange(10)).sum()
    assert ages.model == 0
    incomes = only(release, "SELECT SUM(income) FROM t")
    per_bin = x.sum(axis=(0, 1, 3, 4))
    assert incomes.value == per_bin @ [50, 175, 425, 800]
    assert incomes.low < per_bin @ [0, 100, 250, 600] and incomes.high > per_bin @ [100, 250, 600, 1000]
    assert incomes.model > 0 and "spread" in incomes.source


def test_a_cut_bin_takes_its_share_and_allows_for_any_spread(release, x):
    per_bin = x.sum(axis=(0, 1, 3, 4))
    found = only(release, "SELECT COUNT(*) FROM t WHERE income < 400")
    assert found.value == pytest.approx(per_bin[0] + per_bin[1] + per_bin[2] * 150 / 350)
    assert found.low < per_bin[0] + per_bin[1] and found.high > per_bin[:3].sum()
    part = only(release, "SELECT SUM(income) FROM t WHERE income >= 250 AND income < 400")
    assert part.value == pytest.approx(per_bin[2] * 150 / 350 * 325)  # the middle of what is left of the bin
    days = only(release, "SELECT COUNT(*) FROM t WHERE day < '2024-02-11'")
    per_month = x.sum(axis=(0, 1, 2, 3))
    assert days.value == pytest.approx(per_month[0] + per_month[1] * 10 / 29)


def test_averages_and_shares_are_ratios_of_what_they_say(release, x):
    mean = only(release, "SELECT AVG(cost) FROM t WHERE age < 5")
    total, rows = (only(release, f"SELECT {a} FROM t WHERE age < 5").value for a in ("SUM(cost)", "COUNT(*)"))
    assert mean.value == pytest.approx(total / rows)
    assert -10 <= mean.low < mean.value < mean.high <= 30
    share = only(release, "SELECT 100 * COUNT(*) / (SELECT COUNT(*) FROM t) FROM t WHERE sex = 'F'")
    assert share.value == pytest.approx(100 * x[:, 0].sum() / x.sum())
    over = release.query("SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY sex")
    assert sum(s.value for _, s in over) == pytest.approx(1)
    assert over.rows[0][1].value == pytest.approx(share.value / 100)
    assert over.rows[0][1].low == pytest.approx(share.low / 100, rel=1e-3)


def test_a_share_shares_its_noise_with_the_total(release):
    """All of a total is a share of exactly 1: the noise cancels."""
    whole = only(release, "SELECT COUNT(*) FILTER (WHERE age >= 0) / COUNT(*) FROM t")
    assert whole.value == whole.low == whole.high == 1 and whole.stderr == 0


def test_order_limit_and_offset(release):
    rows = release.query("SELECT age, COUNT(*) AS n FROM t GROUP BY age ORDER BY n DESC").rows
    assert [n.value for _, n in rows] == sorted((n.value for _, n in rows), reverse=True)
    page = release.query("SELECT age, COUNT(*) AS n FROM t GROUP BY age ORDER BY n DESC LIMIT 3 OFFSET 2").rows
    assert [age for age, _ in page] == [age for age, _ in rows[2:5]]
    assert len(release.query("SELECT age, COUNT(*) FROM t GROUP BY age LIMIT 0")) == 0


def test_an_empty_region_is_zero_for_sure(release):
    found = only(release, "SELECT COUNT(*) FROM t WHERE age > 5 AND age < 3")
    assert (found.value, found.stderr, found.low, found.high) == (0, 0, 0, 0)
    mean = only(release, "SELECT AVG(cost) FROM t WHERE age > 5 AND age < 3")
    assert np.isnan(mean.value) and (mean.low, mean.high) == (-10, 30)


def columns_of_html(page: str) -> list[str]:
    """How the columns of the first table are aligned, which must be the same in all of its rows."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    (kinds,) = {tuple(re.findall(r'<t[hd] class="([^"]*)"', row)) for row in rows}
    return list(kinds)


def test_a_notebook_shows_numbers_under_each_other(release):
    """Texts left, numbers right, standard errors paler; keys that are numbers are numbers, too."""
    result = release.query("SELECT sex, age, COUNT(*) AS n FROM t WHERE age < 3 GROUP BY sex, age")
    page = result._repr_html_()
    assert columns_of_html(page) == ["l s", "r", "r", "r a", "r"]
    both = release.query("SELECT COUNT(*) AS n, sex FROM t GROUP BY sex", interval="both")
    assert columns_of_html(both._repr_html_()) == ["r", "r a", "r", "r", "l s"]
    style = page.partition("<style>")[2].partition("</style>")[0]
    rules = [rule for rule in style.split("}") if rule]
    assert rules and all(part.startswith("div.sfumato") for rule in rules for part in rule.partition("{")[0].split(","))
    assert "url(" not in style and "@" not in style and "<script" not in page
    colours = re.findall(r"(?:color|background):([^;}]*)", style)
    assert {*colours} <= {"inherit", "none"}  # the page's own, light or dark


def test_a_notebook_shows_so_many_rows(release):
    result = release.query("SELECT sex, age, COUNT(*) AS n FROM t GROUP BY sex, age")
    many = replace(result, rows=result.rows * 50)
    assert len(many) > 300 and many._repr_html_().count("<tr>") == 201
    assert f"and {len(many) - 200:,} more rows" in many._repr_html_()


def test_records_and_forms(release):
    result = release.query("SELECT sex, COUNT(*) AS n FROM t WHERE income < 400 GROUP BY sex")
    record = result.records()[0]
    assert list(record) == ["sex", "n", "n_stderr", "n_low", "n_high"]
    assert result.to_pandas().shape == (2, 5) and result.to_arrow().column_names == list(record)
    text = repr(result)
    assert "95 % interval" in text and "note:" in text and len({len(line) for line in text.splitlines()[:4]}) == 1
    assert "<table>" in result._repr_html_()
    unknown = release.query("SELECT AVG(cost) AS a FROM t WHERE age > 5 AND age < 3")
    assert unknown.records() == [{"a": None, "a_stderr": None, "a_low": -10, "a_high": 30}]
    assert "unknown" in repr(unknown)


def test_linear_queries_have_the_interval_of_their_row(release, x, noise):
    size = SCHEMA.domain.size
    queries = Stack(Total(size), Identity(size)[:3], Weighted(np.arange(size)[None, :] % 7 - 3))
    found = release.answer(queries)
    dense = queries.dense()
    assert [e.value for e in found] == pytest.approx((dense @ x.reshape(-1)).tolist())
    for estimate, row in zip(found, dense, strict=True):
        terms = [(float(w), noise, 1) for w in row if w]
        assert estimate.stderr == pytest.approx(stderr(terms))
        assert estimate.high - estimate.value == pytest.approx(half_width(terms, 0.95))
    with pytest.raises(QueryError, match="span"):
        release.answer(Prefix(3))


def test_all_ranges_can_be_answered_on_one_axis():
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 15}}}
    )
    cube = MECHANISMS["cells"].run(curator_of(schema, np.arange(16)), schema, Budget.pure(1))
    found = Release(cube, "cells", describe_guarantee(Budget.pure(1), schema), False).answer(AllRanges(16))
    assert len(found) == 136


def test_too_many_groups_are_refused():
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {name: {"type": "integer", "lower": 0, "upper": 10**6} for name in ("x", "y")},
        }
    )
    curator = curator_of_sparse(schema)
    cube = MECHANISMS["cells"].run(curator, schema, Budget.pure(1))
    release = Release(cube, "cells", describe_guarantee(Budget.pure(1), schema), True)
    with pytest.raises(QueryError, match="groups"):
        release.query("SELECT x, y, COUNT(*) FROM t GROUP BY x, y")
    with pytest.raises(QueryError, match="SQL"):
        release.answer(Total(schema.domain.size))
    cell = only(release, "SELECT COUNT(*) FROM t WHERE x = 7 AND y = 8")
    assert cell.low <= 0 <= cell.high < 60  # an unpublished cell holds hardly more rows than the threshold
    published = only(release, "SELECT COUNT(*) FROM t WHERE x = 5 AND y = 5")
    assert abs(published.value - 1000) < 20 and published.high - published.low < 20
    everything = only(release, "SELECT COUNT(*) FROM t")
    assert everything.model == 0 and abs(everything.value - 1000) < 200


def curator_of_sparse(schema: Schema):
    from sfumato.kernel.charge import Charge
    from sfumato.kernel.counts import Aggregate
    from sfumato.kernel.curator import Curator

    cell = 5 * schema.domain["y"].size + 5
    aggregate = Aggregate(np.array([cell]), np.array([1000]))
    charge = Charge(Budget.pure(Fraction(1)), 1, schema.domain.size)
    return Curator(schema.domain, aggregate, {"count": 1}, charge, TestingEntropy(2))


def test_whole_numbers_whose_error_cannot_be_seen_are_printed_without_decimals():
    whole, quarter = Estimate(2.0, 1e-22, 2.0, 2.0, 0.95, 1e-22), Estimate(0.25, 1e-9, 0.25, 0.25, 0.95, 1e-9)
    _, ((*count, share, _, _),) = Result(("n", "s"), ((whole, quarter),), 0.95).texts()
    assert count == ["2", "0", "2 to 2"] and share.startswith("0.25")
