"""The mechanism parity: the vector is learnt from what was released, from the command line as from Python."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from curators import curator_of
from running import as_process, sfumato

import sfumato as sf
from sfumato.errors import MechanismError, QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.papers.parity.content import ParityCube, odd
from sfumato.lab.papers.parity.measure import Options, parity
from sfumato.models import find_mechanism
from sfumato.releases.release import contents_of
from sfumato.schema import Schema


def schema_of(bits: int, **further: object) -> Schema:
    attributes = {f"x{place}": {"type": "boolean"} for place in range(bits)} | further
    return Schema.from_dict({"dataset": "bits", "privacy_unit": "row", "attributes": attributes})


def released(schema: Schema, counts: np.ndarray, epsilon: str, seed: int, options: Options | None = None) -> ParityCube:
    curator = curator_of(schema, counts.reshape(schema.domain.shape), epsilon=epsilon, entropy=TestingEntropy(seed))
    return parity(curator, schema, Budget.pure(epsilon), options=options or Options())


def table(bits: int, hidden: int, rows: int, wrong: float = 0.0, seed: int = 1) -> np.ndarray:
    """Rows of even bits whose last one is the parity of those that `hidden` names, but for a share of wrong ones."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2 ** (bits - 1), rows)
    return np.bincount(2 * x + (odd(x & hidden) ^ (rng.random(rows) < wrong)), minlength=2**bits)


def test_the_papers_example_is_learnt_every_time():
    """Section 8.2, 60 releases; each fails with a chance under 1e-6, by its own bound."""
    schema, counts = schema_of(8), table(8, 0b0000011, 10**5)
    found = [released(schema, counts, "0.01", seed) for seed in range(60)]
    assert {one.vector for one in found} == {"0000011"} and max(one.doubt for one in found) < 1e-6


def test_the_share_that_fits_is_covered():
    """Of 120 releases 95 % should cover; fewer than 99 cover with a chance under 1e-6."""
    schema, counts = schema_of(5), table(5, 0b1010, 4000, wrong=0.1)
    x, y = np.arange(32) >> 1, np.arange(32) & 1
    truth = counts[odd(x & 0b1010) == y].sum() / counts.sum()
    found = [released(schema, counts, "0.2", seed).agreement() for seed in range(120)]
    assert sum(one.low <= truth <= one.high for one in found) >= 99


def test_twenty_attributes_and_a_label_in_the_middle():
    schema = schema_of(20)
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2**20, 300_000)
    rows = (rows & ~(1 << 15)) | (odd(rows & 0b11) << 15)  # x4 is the parity of x18 and x19
    found = released(schema, np.bincount(rows, minlength=2**20), "1", 3, Options("x4"))
    assert found.vector == "0" * 17 + "11" and found.doubt < 1e-6


def test_no_vector_is_claimed_where_there_is_none():
    schema = schema_of(6)
    found = released(schema, np.full(64, 20), "1", 4)
    assert found.doubt == 1.0
    (guess,) = found.about.findings
    assert guess.startswith("No vector stands out of the noise; the best guess, with confidence 0 %")


def test_what_is_no_bit_is_refused_before_anything_is_spent():
    mechanism = find_mechanism("parity")
    for schema, options, reason in (
        (schema_of(3, age={"type": "integer", "lower": 0, "upper": 99}), {}, "age has 100 cells"),
        (schema_of(2, x={"type": "boolean", "missing": "keep"}), {}, "3 cells, one of them for missing values"),
        (schema_of(3), {"target": "y"}, "no attribute 'y' to be the label"),
        (schema_of(21), {}, "among 2 to 20 attributes"),
        (schema_of(1), {}, "among 2 to 20 attributes"),
    ):
        with pytest.raises(MechanismError, match=re.escape(reason)):
            mechanism.with_options(options).check(schema)


def test_rows_are_judged_and_unknown_values_are_left_open():
    schema = schema_of(4)
    found = released(schema, table(4, 0b101, 5000), "1", 5)
    rows = [
        {"x0": True, "x1": False, "x2": False},
        {"x0": True, "x1": True, "x2": True},
        {"x0": None, "x1": True, "x2": True},
    ]
    release = sf.Release(found, "parity", None, False)
    assert release.predict(rows).column("predicted").to_pylist() == [True, False, None]
    with pytest.raises(QueryError, match="no column 'x0'"):
        release.predict([{"x1": True}])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    bits = rng.integers(0, 2, (3000, 4))
    label = (bits[:, 1] + bits[:, 3]) % 2
    lines = [f"{'ny'[a]},{'ny'[b]},{'ny'[c]},{'ny'[d]},{'ny'[e]}" for (a, b, c, d), e in zip(bits, label, strict=True)]
    (tmp_path / "answers.csv").write_text("a,b,c,d,same\n" + "\n".join(lines) + "\n")
    attributes = "".join(f"  {name}: {{type: category, values: [n, y]}}\n" for name in ("a", "b", "c", "d", "same"))
    (tmp_path / "answers.yaml").write_text(
        f"dataset: answers\nprivacy_unit: row\nbudget: {{epsilon: 2}}\nattributes:\n{attributes}"
    )
    return tmp_path


@pytest.mark.full
def test_from_the_command_line(folder):
    asked = ("answers.csv", "--schema", "answers.yaml", "--epsilon", "1", "--mechanism", "parity")
    refused = sfumato("release", *asked, "--with", "target=none", "-o", "r.sfumato")
    assert refused.returncode != 0 and "no attribute 'none' to be the label" in refused.stderr
    assert not (folder / "r.sfumato").exists()
    made = sfumato("release", *asked, "-o", "r.sfumato")
    assert made.returncode == 0, made.stderr
    assert "same is y where b + d is odd: vector 0101" in made.stdout + made.stderr
    told = as_process("info", "r.sfumato")
    assert (
        "same is y where b + d is odd: vector 0101" in told.stdout
        and "with confidence more than 99.9999 %" in told.stdout
    )
    (folder / "rows.csv").write_text("a,b,c,d\nn,y,n,n\nn,y,n,y\n")
    judged = as_process("predict", "r.sfumato", "rows.csv")
    assert [row["predicted"] for row in csv.DictReader(judged.stdout.splitlines())] == ["y", "n"]
    answer = sfumato("query", "r.sfumato", "SELECT COUNT(*) AS n FROM answers WHERE same = 'y'", "--format", "json")
    assert abs(json.loads(answer.stdout)[0]["n"] - 1500) < 200


def test_a_file_that_was_tampered_with_is_refused():
    schema = schema_of(3)
    found = released(schema, np.arange(8), "1", 7)
    guarantee = {"epsilon": 1, "unit": "row", "neighbours": "x", "statement": "x"}
    from dataclasses import replace

    from sfumato.releases.file.manifest import Guarantee

    manifest = contents_of(sf.Release(found, "parity", Guarantee(**guarantee), False)).manifest
    for details in ({"label": "nobody"}, {"label": "x1", "more": 1}, {}):
        with pytest.raises(ReleaseFileError):
            ParityCube.check(replace(manifest, details=details), schema)
