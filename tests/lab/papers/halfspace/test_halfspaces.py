"""Published halfspaces: answers and intervals, the same after opening, and files that nobody vouched for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.papers.halfspace.content import Halfspaces
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.artifact import read_artifact
from sfumato.releases.release import Release, contents_of
from sfumato.schema import Schema

SIZE = 30
SCHEMA = Schema.from_dict(
    {
        "dataset": "people",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": SIZE - 1},
            "pay": {"type": "number", "lower": 0, "upper": 3000, "bins": SIZE, "missing": "keep"},
        },
    }
)
RNG = np.random.default_rng(11)


def table(shape: str, rows: int = 20_000) -> np.ndarray:
    """Rows by age and pay, some without pay: correlated, or in two clusters."""
    first = RNG.normal(0, 1, rows)
    second = 0.7 * first + 0.7 * RNG.normal(0, 1, rows)
    if shape == "clusters":
        kind = RNG.random(rows) < 0.4
        first, second = (
            np.where(kind, 1.5, -1.0) + 0.3 * first,
            np.where(kind, -1.0, 1.0) + 0.3 * RNG.normal(0, 1, rows),
        )
    codes = [np.clip(SIZE / 2 + each * SIZE / 7, 0, SIZE - 1).astype(int) for each in (first, second)]
    codes[1][RNG.random(rows) < 0.02] = SIZE
    return np.bincount(codes[0] * (SIZE + 1) + codes[1], minlength=SIZE * (SIZE + 1)).reshape(SIZE, SIZE + 1)


def released(counts: np.ndarray, seed: int = 1, **options: object) -> Release:
    curator = curator_of(SCHEMA, counts, entropy=TestingEntropy(seed))
    mechanism = find_mechanism("halfspace").with_options(options)
    content = mechanism.run(curator, SCHEMA, Budget.pure(1))
    assert curator.charge.fullest == curator.charge.limit
    return Release(content, "halfspace", describe_guarantee(Budget.pure(1), SCHEMA), False)


def true_count(counts: np.ndarray, age: float, pay: float, threshold: float) -> int:
    ages, pays = np.arange(SIZE)[:, None], 50.0 + 100.0 * np.arange(SIZE)[None, :]
    return int(counts[:, :SIZE][age * ages + pay * pays > threshold].sum())


def test_intervals_hold():
    """24 releases of two tables, 20 halfspaces each through points at random: 95 % of 480, less 5 deviations, 90 %.

    Halfspaces of a release share the errors of its net, so that 2 % more are allowed for.
    """
    held, errors = [], []
    for shape in ("correlated", "clusters"):
        counts = table(shape)
        for seed in range(12):
            made = released(counts, seed)
            for asked in range(20):
                age, pay = RNG.normal(0, 1), RNG.normal(0, 0.01)
                age, pay = (age, 0.0) if asked % 4 == 0 else (age, pay)
                threshold = age * RNG.integers(0, SIZE) + pay * (50 + 100 * RNG.integers(0, SIZE)) + 1e-7
                found = made.halfspace({"age": age, "pay": pay}, threshold)
                true = true_count(counts, age, pay, threshold)
                held.append(found.low <= true <= found.high)
                errors.append(abs(found.value - true))
    assert np.mean(held) > 0.88 and np.mean(errors) < 250  # of 20,000 rows


def test_projections_answer_by_their_median_and_say_that_nothing_is_promised():
    made = released(table("correlated"), dimensions=1, projections=7)
    content = made.content
    assert len(content.measured) == 7 and not content.net.plain
    assert "promises nothing" in made.describe().findings[1]
    assert content.halfspace({"age": 1}, 15, 0.95).model > 0


def test_a_misfit_below_its_noise_is_said_to_be_less_than_can_be_seen():
    content = released(table("correlated")).content
    nothing = replace(content, misfits=tuple(replace(one, answers=np.array([-7])) for one in content.misfits))
    bound = 1.959964 * nothing.misfit[1] / nothing.tests
    said = nothing.about.findings[-1]
    rows = f"{bound:,.{0 if bound >= 10 else 1}f}"
    assert said.endswith(f"off by less than the measurement can see ({rows} rows)")
    assert "off by" in content.about.findings[-1] and "off by 0 rows" not in said


def test_sql_python_and_the_opened_file_agree(tmp_path):
    counts = table("correlated")
    made = released(counts)
    made.save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    text = "SELECT COUNT(*) AS n FROM people WHERE 100 * age - pay > 10"
    (found,) = opened.query(text).column("n")
    assert found == made.query(text).column("n")[0]
    assert abs(found.value - true_count(counts, 100, -1, 10)) < 500
    assert abs(opened.halfspace({"age": 100, "pay": -1}, 10).value - found.value) < 1e-6
    assert any("middle of their bins of pay" in note for note in opened.query(text).notes)
    (every,) = opened.query("SELECT COUNT(*) AS n FROM people").column("n")
    assert every.low - 100 < counts[:, :SIZE].sum() < every.high + 100
    assert repr(opened.describe()) == repr(made.describe())


def test_on_many_cells_it_is_tried_in_parts(monkeypatch, tmp_path):
    monkeypatch.setattr("sfumato.lab.papers.halfspace.measure.MOST_TESTED", 20 * SIZE * (SIZE + 1))
    made = released(table("correlated"))
    assert [len(each.answers) for each in made.content.misfits] == [1, 1, 1] and made.content.tests == 48
    made.save(tmp_path / "r.sfumato")
    assert Release.load(tmp_path / "r.sfumato").content.misfit == made.content.misfit


@pytest.mark.parametrize(
    ("weights", "why"),
    [({}, "no direction of these weights"), ({"height": 1}, "along height"), ({"age": float("nan")}, "finite weights")],
)
def test_what_has_no_direction_is_refused(weights, why):
    with pytest.raises(QueryError, match=why):
        released(table("correlated")).halfspace(weights, 1)


def test_other_releases_say_that_they_do_not_count_along_lines():
    curator = curator_of(SCHEMA, table("correlated"))
    content = find_mechanism("cells").run(curator, SCHEMA, Budget.pure(1))
    with pytest.raises(QueryError, match="does not count rows along lines"):
        content.halfspace({"age": 1}, 1, 0.95)
    assert content.answer_text("SELECT COUNT(*) FROM people", 0.95) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"over": ["age", "age"]}, "not numbers of its schema"),
        ({"over": ["height"]}, "not numbers of its schema"),
        ({"offsets": 64}, "a count for each bin"),
        ({"offsets": 10**9}, "do not go with its kind"),
        ({"directions": 0}, "do not go with its kind"),
        ({"tests": 0}, "its test does not go"),
        ({"noises_of_misfits": []}, "its test does not go"),
        ({"more": 1}, "do not go with its kind"),
    ],
)
def test_details_that_do_not_go_together_are_refused(change, why, tmp_path):
    made = released(table("correlated"))
    made.save(tmp_path / "r.sfumato")
    manifest = read_artifact(tmp_path / "r.sfumato", None).manifest
    Halfspaces.check(manifest, SCHEMA)
    with pytest.raises(ReleaseFileError, match=why):
        Halfspaces.check(replace(manifest, details={**manifest.details, **change}), SCHEMA)


def test_counts_that_no_table_has_are_refused():
    written = contents_of(released(table("correlated")))
    huge = {"counts": {"count": written.members["counts"]["count"] + 2**60}, "tested": written.members["tested"]}
    with pytest.raises(ReleaseFileError, match="no table has"):
        Halfspaces.read(written.manifest, SCHEMA, huge.__getitem__)
