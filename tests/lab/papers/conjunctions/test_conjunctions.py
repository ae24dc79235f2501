"""Counts of many conditions from counts of few: what is asked, how often intervals hold, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from curators import curator_of
from running import as_process, sfumato

from sfumato.errors import MechanismError, QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.papers.conjunctions.content import Conjunctions
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.artifact import write_artifact
from sfumato.releases.release import Release, contents_of
from sfumato.schema import Schema


def schema_of(axes: int, **further) -> Schema:
    attributes = {f"v{place}": {"type": "integer", "lower": 0, "upper": 1} for place in range(axes)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes, **further})


def released(counts, *, epsilon=1, seed=1, **options) -> Conjunctions:
    schema = schema_of(counts.ndim)
    curator = curator_of(schema, counts, epsilon=epsilon, entropy=TestingEntropy(seed))
    mechanism = find_mechanism("conjunctions").with_options(options)
    mechanism.check(schema)
    content = mechanism.run(curator, schema, Budget.pure(epsilon), None)
    assert curator.charge.fullest == curator.charge.limit
    assert isinstance(content, Conjunctions)
    return content


def as_release(content: Conjunctions) -> Release:
    return Release(content, "conjunctions", describe_guarantee(Budget.pure(1), content.schema), False)


def counts_of(axes: int, rows: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.multinomial(rows, random.dirichlet(np.full(2**axes, 0.5))).reshape([2] * axes)


def test_one_noise_on_all_tables_of_all_subsets():
    content = released(counts_of(4, 100), subsets=8, literals=2)
    assert content.answers.shape == (9, 6, 4) and content.noise.scale == Fraction(9 * 6)


def test_intervals_hold_as_often_as_they_say():
    """25 releases of 19 counts, whose errors go together in threes and fours: outside with less than 1e-6."""
    hits: dict[int, list[bool]] = {0: [], 1: [], 2: []}
    for seed in range(25):
        counts = counts_of(3, 4000, seed)
        content = released(counts, epsilon=20, seed=seed + 1, subsets=24)
        for number, held in hits.items():
            for places in combinations(range(3), number):
                for codes in product((0, 1), repeat=number):
                    where = dict(zip(places, codes, strict=True))
                    truth = counts[tuple(where.get(axis, slice(None)) for axis in range(3))].sum()
                    found = content.estimate(tuple(where.items()))
                    held.append(found.low <= truth <= found.high)
    assert 0.85 <= np.mean([*hits[0], *hits[1]]) <= 1.0
    assert 0.85 <= np.mean(hits[2]) <= 0.995


def test_many_rows_and_much_budget_bring_the_truth_near():
    counts = counts_of(4, 200_000)
    content = released(counts, epsilon=1000, subsets=250)
    found = content.estimate(((0, 1), (2, 0)))
    assert abs(found.value - counts[1, :, 0].sum()) < 5.5 * found.stderr < 0.2 * 200_000


def test_answers_counts_of_conditions_and_refuses_everything_else_by_name():
    release = as_release(released(counts_of(4, 5000), epsilon=10))
    both = release.query("SELECT v0, COUNT(*) AS n FROM t WHERE v3 = 1 GROUP BY v0 ORDER BY n DESC")
    assert len(both) == 2 and both.rows[0][1].value >= both.rows[1][1].value
    one = release.query("SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE v1 = 0 AND v2 = 1) AS m FROM t").rows[0]
    assert abs(one[0].value - 5000) < 200 and one[1].low <= one[1].value <= one[1].high
    for sql, words in [
        ("SELECT COUNT(*) FROM t WHERE v0 = 1 AND v1 = 1 AND v2 = 1", "conditions on 3 attributes"),
        ("SELECT COUNT(*) FROM t WHERE v0 = 1 OR v1 = 1", "OR and unequal conditions"),
        ("SELECT AVG(v0) FROM t", "another aggregate"),
        ("SELECT COUNT(*) FILTER (WHERE v0 = 1) / COUNT(*) FROM t", "another aggregate"),
    ]:
        with pytest.raises(QueryError, match=words):
            release.query(sql)
    assert "the same budget on the tables of 2 attributes" in repr(release.describe())


def test_the_rows_expected_choose_the_number_of_subsets():
    mechanism = find_mechanism("conjunctions")
    many = schema_of(4, expected_rows=10**7)
    content = mechanism.run(curator_of(many, counts_of(4, 50)), many, Budget.pure(1), None)
    assert content.subsets > 50


@pytest.mark.parametrize(
    "axes, options, words",
    [
        (4, {"literals": 3}, "need 6 attributes"),
        (4, {"subsets": 1}, "state from 4"),
        (4, {"seed": -1}, "state a seed"),
        (20, {"literals": 6, "subsets": 100}, "fewer subsets or literals"),
    ],
)
def test_refuses_options_that_do_not_fit(axes, options, words):
    with pytest.raises(MechanismError, match=words):
        find_mechanism("conjunctions").with_options(options).check(schema_of(axes))


def test_files_that_were_made_up_are_refused(tmp_path):
    contents = contents_of(as_release(released(counts_of(4, 100), subsets=4)))
    details = contents.manifest.details
    for change in ({"literals": 3}, {"subsets": 5}, {"literals": 0}, {"more": 1}):
        with pytest.raises(ReleaseFileError):
            manifest = replace(contents.manifest, details={**details, **change})
            write_artifact(tmp_path / "r.sfumato", manifest, contents.members)
            Release.load(tmp_path / "r.sfumato")


def test_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.db"))
    lines = ["smokes,ill,sex", *(f"{n % 2 == 0},{n % 3 == 0},{'FM'[n % 5 < 2]}" for n in range(3000))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    head = "dataset: study\nprivacy_unit: row\nbudget: {epsilon: 100}\nattributes:\n  smokes: {type: boolean}\n"
    (tmp_path / "s.yaml").write_text(head + "  ill: {type: boolean}\n  sex: {type: category, values: [F, M]}\n")
    (tmp_path / "wide.yaml").write_text(head + "  sex: {type: category, values: [F, M, X]}\n")
    made = ["release", "t.csv", "--epsilon", "50", "--mechanism", "conjunctions", "-o", "r.sfumato", "--schema"]
    wrong = sfumato(*made, "wide.yaml")
    assert wrong.returncode == 1 and "sex has 3" in wrong.stderr and len(wrong.stderr.splitlines()) == 1
    run = sfumato(*made, "s.yaml", "--with", "subsets=64")
    assert run.returncode == 0, run.stderr
    asked = as_process("query", "r.sfumato", "SELECT COUNT(*) AS n FROM study WHERE ill AND smokes", "--format", "json")
    (found,) = json.loads(asked.stdout)
    assert found["n_low"] <= 500 + 500 and found["n_low"] <= found["n"] <= found["n_high"]
    refused = sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM study WHERE ill OR smokes")
    assert refused.returncode == 1 and "joined by AND" in refused.stderr
    assert "the same budget" in sfumato("info", "r.sfumato").stdout
