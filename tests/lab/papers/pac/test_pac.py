"""The mechanism pac: a rule is chosen and its error told, from the command line as from Python."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from running import as_process, sfumato

import sfumato as sf
from sfumato.errors import MechanismError, QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.papers.pac.content import Rule
from sfumato.lab.papers.pac.measure import Options, pac
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import contents_of
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "people",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 29},
            "sex": {"type": "category", "values": ["F", "M"]},
            "job": {"type": "category", "values": ["a", "b", "c", "d"], "missing": "keep"},
            "ill": {"type": "boolean"},
        },
    }
)


def people(rows: int = 4000, seed: int = 1) -> np.ndarray:
    """Ill are men from 17 on; a tenth of the labels is wrong."""
    rng = np.random.default_rng(seed)
    age, sex, job = (rng.integers(0, size, rows) for size in (30, 2, 5))
    ill = ((age >= 17) & (sex == 1)) ^ (rng.random(rows) < 0.1)
    counts = np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    np.add.at(counts, (age, sex, job, ill.astype(int)), 1)
    return counts


def released(options: Options, epsilon: Fraction | int = 1, seed: int = 3, counts: np.ndarray | None = None) -> Rule:
    held = people() if counts is None else counts
    curator = curator_of(SCHEMA, held, epsilon=epsilon, entropy=TestingEntropy(seed))
    made = pac(curator, SCHEMA, Budget.pure(epsilon), options=options)
    assert curator.charge.fullest == curator.charge.limit
    return made


@pytest.mark.parametrize(
    ("options", "text", "considered"),
    [
        (Options(rules="conjunctions"), "age >= 17 AND sex = 'M'", 2 + 58 + 2 + 8 + 58 * 2 + 58 * 8 + 2 * 8),
        (Options(given="job = 'a'; age >= 17 AND sex = 'M'"), "age >= 17 AND sex = 'M'", 2),
        (Options(target="sex", positive="f", rules="thresholds", of="age"), None, 60),
        (Options(target="job", positive="b", attributes=("sex", "ill")), None, 6),
    ],
)
def test_the_best_rule_of_each_class_is_found(options, text, considered):
    found = released(options, epsilon=4)
    assert found.considered == considered and (text is None or found.text == text)


def test_rules_that_say_the_same_of_all_rows_are_put_into_words():
    for text, word in (("1 = 0", "never"), ("1 = 1", "always")):
        found = released(Options(given=text))
        assert found.about.findings[0] == f"ill is True {word}: chosen from 1 rule."


def test_the_error_is_covered_and_the_promise_is_kept():
    """120 releases: 95 % should cover, and fewer than 99 cover with a chance under 1e-6; the promise likewise."""
    counts = people(2000)
    ill, well = counts[..., 1].astype(float), counts[..., 0].astype(float)
    covered = kept = 0
    for seed in range(120):
        found = released(Options(rules="stumps"), Fraction(1, 5), seed, counts)
        holds = _cells(found)
        wrong = float(np.where(holds, well, ill).sum())
        interval = found.wrong()
        covered += interval.low <= wrong / counts.sum() <= interval.high
        kept += wrong <= ill.sum() + found.behind()  # no stump is better than saying that nobody is ill
    assert covered >= 99 and kept >= 99


def _cells(rule: Rule) -> np.ndarray:
    from sfumato.lab.papers.pac.content import holds_in_cells

    return holds_in_cells(rule.condition, SCHEMA.domain).reshape(SCHEMA.domain.shape)[..., 0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"rules": "conjunctions", "literals": 3, "given": None, "attributes": "age,sex,nobody"},
            "no attribute 'nobody'",
        ),
        ({"target": "job"}, "5 values; say which"),
        ({"target": "job", "positive": "z"}, "no value 'z'"),
        ({"rules": "thresholds", "of": "sex"}, "sex has no order"),
        ({"rules": "thresholds", "target": "age", "positive": "3"}, "besides the label"),
        ({"given": "age >= 3; ill = true"}, "which is the label"),
        ({"given": "-- nothing"}, "no rule is given"),
        ({"given": "nobody = 1"}, "no column 'nobody'"),
        ({"literals": 0}, "at least one literal"),
        ({"rules": "trees"}, "one of thresholds, stumps, conjunctions"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(options, reason):
    with pytest.raises(MechanismError, match=reason) as refused:
        find_mechanism("pac").with_options(options).check(SCHEMA)
    assert "\n" not in str(refused.value)


def test_too_many_rules_are_refused_with_the_number_that_would_do():
    wide = {f"x{place}": {"type": "integer", "lower": 0, "upper": 99} for place in range(3)} | {
        "y": {"type": "boolean"}
    }
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": wide})
    mechanism = find_mechanism("pac").with_options({"rules": "conjunctions", "literals": 3})
    assert mechanism.why_not(schema) == (
        "7,880,600 rules over 2,000,000 cells are too many, 67 would do; "
        "name fewer attributes (--with attributes=...), or wider bins in the schema"
    )
    assert "literals=1 has 398" in (
        mechanism.with_options({"rules": "conjunctions", "literals": 2, "attributes": "x0,x1"}).why_not(schema) or ""
    )


def test_rows_are_judged():
    found = sf.Release(released(Options(rules="conjunctions"), epsilon=4), "pac", None, False)
    rows = [{"age": 20, "sex": "M"}, {"age": 20, "sex": "F"}, {"age": None, "sex": "M"}]
    told = found.predict(rows)
    assert told.column("predicted").to_pylist() == [True, False, None]
    sure, *_, unknown = (told.column("probability")[place].as_py() for place in range(3))
    assert sure == pytest.approx(found.content.counted.answers[0] / found.content.counted.answers[:2].sum())
    assert (
        unknown is None
        and told.column("probability_low")[0].as_py() < sure < told.column("probability_high")[0].as_py()
    )
    with pytest.raises(QueryError, match="no counts"):
        found.query("SELECT COUNT(*) FROM people")


def test_a_file_that_was_tampered_with_is_refused():
    made = released(Options())
    guarantee = describe_guarantee(Budget.pure(1), SCHEMA)
    manifest = contents_of(sf.Release(made, "pac", guarantee, False)).manifest
    good = manifest.details
    for wrong in (
        {"rule": "age >= 3) OR (nobody = 1"},
        {"rule": ""},
        {"label": "nobody"},
        {"place": 2},
        {"place": -1},
        {"considered": 0},
        {"choice": "0"},
        {"more": 1},
    ):
        with pytest.raises(ReleaseFileError):
            Rule.check(replace(manifest, details={**good, **wrong}), SCHEMA)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    age = rng.integers(0, 30, 2000)
    lines = [f"{a},{'yes' if a >= 12 else 'no'}" for a in age]
    (tmp_path / "people.csv").write_text("age,ill\n" + "\n".join(lines) + "\n")
    (tmp_path / "people.yaml").write_text(
        "dataset: people\nprivacy_unit: row\nbudget: {epsilon: 3}\nattributes:\n"
        "  age: {type: integer, lower: 0, upper: 29}\n  ill: {type: category, values: ['no', 'yes']}\n"
    )
    (tmp_path / "rules.sql").write_text("-- two to choose from\nage >= 12\nage >= 25\n")
    return tmp_path


def test_from_the_command_line(folder):
    asked = ("people.csv", "--schema", "people.yaml", "--epsilon", "1", "--mechanism", "pac")
    refused = sfumato("release", *asked, "--with", "given=@nowhere.sql", "-o", "r.sfumato")
    assert refused.returncode != 0 and "cannot read the file 'nowhere.sql'" in refused.stderr
    made = sfumato("release", *asked, "--with", "given=@rules.sql", "-o", "r.sfumato")
    assert made.returncode == 0, made.stderr
    told = as_process("info", "r.sfumato")
    assert "ill is yes where age >= 12: chosen from 2 rules." in told.stdout, told.stdout + told.stderr
    assert "saying the same of all rows" in told.stdout
    (folder / "rows.csv").write_text("age\n11\n12\n")
    judged = as_process("predict", "r.sfumato", "rows.csv")
    assert [row["predicted"] for row in csv.DictReader(judged.stdout.splitlines())] == ["no", "yes"]
    assert "no counts" in sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM people").stderr
