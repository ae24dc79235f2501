"""Contingency tables from coefficients: what is measured, what is promised, and what a user sees."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from curators import curator_of
from running import as_process, sfumato

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.papers.fourier.content import Coefficients
from sfumato.lab.papers.fourier.measure import margin_bound, theorem_bound
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.sql import compile_select
from sfumato.sql.workload import workload_of


def schema_of(sizes) -> Schema:
    attributes = {f"v{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def released(counts, *, seed=1, epsilon=1, rho=None, workload=None, **options) -> Coefficients:
    schema = schema_of(counts.shape)
    curator = curator_of(schema, counts, epsilon=epsilon, rho=rho, entropy=TestingEntropy(seed))
    mechanism = find_mechanism("fourier").with_options(options)
    mechanism.check(schema, workload)
    content = mechanism.run(curator, schema, curator.charge.budget, workload)
    assert curator.charge.fullest == curator.charge.limit
    assert isinstance(content, Coefficients)
    return content


def as_release(content: Coefficients) -> Release:
    return Release(content, "fourier", describe_guarantee(Budget.pure(1), content.schema), False)


def counts_of(sizes, seed=0, rows=2000) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.multinomial(rows, random.dirichlet(np.full(int(np.prod(sizes)), 0.3))).reshape(sizes)


def margin(counts, places) -> np.ndarray:
    return counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in places))


def test_asks_for_the_closure_with_one_noise_of_scale_b_over_epsilon():
    content = released(counts_of((2,) * 5), order=3)
    assert sum(len(one.answers) for one in content.measured) == 1 + 5 + 10 + 10
    assert {one.noise.scale for one in content.measured} == {Fraction(26)}
    padded = released(counts_of((3, 2)))
    assert [len(one.answers) for one in padded.measured] == [1, 3, 1, 3]
    gaussian = released(counts_of((2,) * 5), rho=Fraction(1, 2), order=3)
    assert {one.noise.sigma_squared for one in gaussian.measured} == {Fraction(26)}


def test_a_workload_says_which_margins_are_wanted():
    schema = schema_of((2, 2, 2))
    text = "SELECT v0, v2, COUNT(*) FROM t GROUP BY v0, v2"
    asked = workload_of([(text, compile_select(text, schema))], schema)
    assert released(counts_of((2, 2, 2)), workload=asked).sets == ((), (0,), (2,), (0, 2))


def test_margins_agree_are_whole_and_never_negative():
    release = as_release(released(counts_of((2, 3, 2), rows=40), epsilon=Fraction(1, 2)))
    fine = {row[:2]: row[2].value for row in release.marginal("v0", "v1")}
    coarse = {row[0]: row[1].value for row in release.marginal("v1")}
    assert all(value >= 0 and value == int(value) for value in (*fine.values(), *coarse.values()))
    for key, value in coarse.items():
        assert sum(each for (_, other), each in fine.items() if other == key) == value
    beyond = release.query("SELECT v0, v1, v2, COUNT(*) AS n FROM t GROUP BY v0, v1, v2")
    assert all(record["n"] is None for record in beyond.records())  # no coefficient tells
    assert release.sample(30, seed=1).num_rows == 30


def test_orders_and_limits_follow_the_numbers_shown():
    release = as_release(released(counts_of((3, 2, 2))))
    every = [row["n"] for row in release.query("SELECT v0, v1, COUNT(*) AS n FROM t GROUP BY v0, v1").records()]
    top = release.query("SELECT COUNT(*) AS n FROM t GROUP BY v0, v1 ORDER BY n DESC LIMIT 2")
    assert [row["n"] for row in top.records()] == sorted(every, reverse=True)[:2] and top.columns == ("n",)


def test_the_bound_of_theorem_4_holds_in_every_run():
    """40 runs at delta 0.05: a run outside is expected in fewer than 1e-40 of them, as the bound is loose."""
    noise = released(counts_of((2,) * 6), order=3).noise
    for seed in range(40):
        counts = counts_of((2,) * 6, seed, 300)
        content = released(counts, seed=seed + 1, order=3)
        laid_out = content.cells().reshape(counts.shape)
        for places in combinations(range(6), 3):
            off = np.abs(margin(laid_out, places) - margin(counts, places)).sum()
            assert off <= min(theorem_bound(3, 42, 1.0, 0.05), margin_bound(3, 42, noise, 0.05))


@pytest.mark.parametrize("sizes, epsilon", [((2, 2, 2, 2), 1), ((3, 2, 5), Fraction(1, 4))])
def test_intervals_hold_as_often_as_they_say(sizes, epsilon):
    """30 releases of 11 or 22 counts each, whose errors go together: outside with a chance of less than 1e-6."""
    hits: list[bool] = []
    for seed in range(30):
        counts = counts_of(sizes, seed, 500)
        release = as_release(released(counts, seed=seed + 1, epsilon=epsilon))
        for places in [(), (0,), (1, 2), (0, 2)]:
            found = release.marginal(*(f"v{place}" for place in places)).column("count")
            truth = np.asarray(margin(counts, places)).reshape(-1)
            hits += [cell.low <= each <= cell.high for cell, each in zip(found, truth, strict=True)]
    assert 0.85 <= np.mean(hits) <= 0.995


def test_raised_margins_are_nowhere_negative_and_agree():
    counts = counts_of((2,) * 5, rows=200)
    content = released(counts, table="raise", order=2, epsilon=Fraction(1, 8))
    assert content.table is None and content.raised_by > 0
    release = as_release(content)
    for places in combinations(range(5), 2):
        cells = release.marginal(*(f"v{place}" for place in places)).column("count")
        assert min(cell.value for cell in cells) > -0.05  # tables are kept in 1024ths
        total = release.marginal().column("count")[0]
        assert sum(cell.value for cell in cells) == pytest.approx(total.value, abs=0.1)
        assert all(cell.low <= cell.value <= cell.high for cell in cells)
    assert "added to the total" in content.about.errors


def test_many_attributes_go_without_a_program():
    content = released(counts_of((2,) * 14, rows=500), table="raise")
    assert content.table is None and len(content.sets) == 1 + 14 + 91


@pytest.mark.parametrize(
    "sizes, options, words",
    [
        ((2, 2), {"order": 9}, "state an order from 1 to 8"),
        ((1000, 1000), {}, "use residual or margins"),
        ((2,) * 14, {}, "table=raise"),
        ((2,) * 40, {"order": 6}, "state a lower order"),
    ],
)
def test_refuses_what_it_cannot_do(sizes, options, words):
    with pytest.raises(MechanismError, match=words):
        find_mechanism("fourier").with_options(options).check(schema_of(sizes))


def test_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.db"))
    lines = ["smokes,ill,sex", *(f"{n % 2 == 0},{n % 3 == 0},{'FM'[n % 5 < 2]}" for n in range(600))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "s.yaml").write_text(
        "dataset: study\nprivacy_unit: row\nbudget: {epsilon: 10}\nattributes:\n  smokes: {type: boolean}\n"
        "  ill: {type: boolean}\n  sex: {type: category, values: [F, M]}\n"
    )
    made = ["release", "t.csv", "--schema", "s.yaml", "--epsilon", "5", "--mechanism", "fourier", "-o", "r.sfumato"]
    wrong = sfumato(*made, "--with", "order=many")
    assert wrong.returncode == 1 and "whole number" in wrong.stderr and not (tmp_path / "r.sfumato").exists()
    run = sfumato(*made, "--with", "order=2")
    assert run.returncode == 0, run.stderr
    asked = as_process(
        "query", "r.sfumato", "SELECT sex, COUNT(*) AS n FROM study WHERE ill GROUP BY sex", "--format", "json"
    )
    found = json.loads(asked.stdout)
    assert [row["sex"] for row in found] == ["F", "M"]
    assert all(row["n"] == int(row["n"]) and row["n_low"] <= row["n"] <= row["n_high"] for row in found)
    assert abs(found[0]["n"] - 120) < 40
    assert "7 coefficients" in sfumato("info", "r.sfumato").stdout
