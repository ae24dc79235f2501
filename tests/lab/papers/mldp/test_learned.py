"""A learned model as a content: what SQL it answers, its file, and files that were tampered with."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
from curators import curator_of

from sfumato.errors import QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.lab.papers.mldp.content import Learned
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.version import install_command

CENSUS = {
    "dataset": "census",
    "privacy_unit": "row",
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 39},
        "income": {"type": "number", "lower": 0, "upper": 4000, "bins": 4},
        "sex": {"type": "category", "values": ["F", "M"]},
    },
}
SCHEMA = Schema.from_dict(CENSUS)
COUNTS = np.arange(40)[:, None, None] * np.array([4, 3, 2, 1])[:, None] * np.array([1, 3]) // 2


def made(model: str = "ridge", epsilon: int = 50) -> Release:
    mechanism = find_mechanism("mldp").with_options({"model": model})
    content = mechanism.run(curator_of(SCHEMA, COUNTS, epsilon=epsilon), SCHEMA, Budget.pure(epsilon), None)
    return Release(content, "mldp", describe_guarantee(Budget.pure(epsilon), SCHEMA), False, options=mechanism.chosen)


RELEASE = made()


def numbers(sql: str) -> list[object]:
    return [each.value for row in RELEASE.query(sql).rows for each in row[-1:]]


def test_counts_with_any_where_are_answered():
    """At epsilon 50 the noise is a row or two; ridge regression on all cells is then nearly exact."""
    total, women = COUNTS.sum(), COUNTS[:, :, 0].sum()
    assert numbers("SELECT COUNT(*) FROM census")[0] == pytest.approx(total, rel=0.01)
    assert numbers("SELECT COUNT(*) FROM census WHERE sex = 'F'")[0] == pytest.approx(women, rel=0.02)
    either = COUNTS[20:, :, 0].sum() + COUNTS[:, :, 1].sum()
    asked = "SELECT COUNT(*) FROM census WHERE sex = 'M' OR age >= 20"
    assert numbers(asked)[0] == pytest.approx(either, rel=0.02)
    assert numbers("SELECT COUNT(*) FROM census WHERE age = 7 AND age = 8") == [pytest.approx(0.0, abs=8)]
    grouped = "SELECT sex, COUNT(*) AS n FROM census WHERE age < 30 GROUP BY sex ORDER BY n DESC LIMIT 1"
    ((key, count),) = RELEASE.query(grouped).rows
    assert key == "M" and count.value == pytest.approx(COUNTS[:30, :, 1].sum(), rel=0.02)
    assert len(RELEASE.query("SELECT sex, COUNT(*) AS n FROM census GROUP BY sex HAVING COUNT(*) > 1000").rows) == 2


def test_a_condition_inside_a_cell_has_an_interval_from_all_of_it_to_none():
    """Rows with an income below 500 are between none and all of those below 1000."""
    (row,) = RELEASE.query("SELECT COUNT(*) AS n FROM census WHERE income < 500").rows
    bin_count = COUNTS[:, 0, :].sum()
    assert row[0].low <= 0.02 * bin_count and row[0].high >= 0.98 * bin_count


@pytest.mark.parametrize("asked", ["AVG(age)", "SUM(income)", "COUNT(*) / 2", "MEDIAN(age)", "COUNT(*) * 1.0 / 3"])
def test_what_is_no_count_is_refused_with_what_to_do(asked):
    with pytest.raises(QueryError, match="a learned model answers COUNT"):
        RELEASE.query(f"SELECT {asked} AS n FROM census")


def test_it_says_what_it_learnt_from_and_how_good_it_is():
    about = RELEASE.content.about
    learnt = re.match(
        r"a ridge model learnt from (\d+) noisy answers \(ranges; one row is in 5 of them", about.findings[0]
    )
    assert learnt is not None and 200 <= int(learnt[1]) <= 400  # how many blocks each axis has depends on noisy looks
    assert "off by about" in about.findings[1] and "ONNX" not in about.errors
    assert all(RELEASE.query(example).rows for example in about.examples) and len(about.examples) == 3


@pytest.mark.parametrize("model", ["ridge", "gaussian", "svm", "network", "bagging", "boosting"])
def test_every_model_survives_being_saved(model, tmp_path):
    release = made(model, 1)
    release.save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    sql = "SELECT COUNT(*) AS n FROM census WHERE age BETWEEN 5 AND 20"
    assert opened.query(sql).records() == release.query(sql).records()
    assert isinstance(opened.content, Learned) and opened.content.model == model
    onnx.checker.check_model(onnx.load_from_string(opened.content.onnx))


def saved_with(tmp_path, **changes: object) -> str:
    content = replace(RELEASE.content, **changes)
    replace(RELEASE, content=content).save(tmp_path / "bad.sfumato")
    return str(tmp_path / "bad.sfumato")


def odd(change) -> bytes:
    loaded = onnx.load_from_string(RELEASE.content.onnx)
    change(loaded)
    return loaded.SerializeToString()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda loaded: setattr(loaded.graph.node[0], "op_type", "Loop"), "operator that Sfumato does not know"),
        (
            lambda loaded: loaded.graph.initializer[0].external_data.add(key="location", value="/etc/passwd"),
            "outside files",
        ),
        (lambda loaded: setattr(loaded.graph.node[0], "domain", "ai.other"), "other operators"),
    ],
    ids=["operator", "outside file", "domain"],
)
def test_a_model_with_odd_parts_is_refused_when_it_is_opened(tmp_path, change, words):
    """A file made whole by a liar: digests are right, and the model is not one of ours."""
    with pytest.raises(ReleaseFileError, match=words):
        Release.load(saved_with(tmp_path, onnx=odd(change)))


def test_parts_that_do_not_go_together_are_refused(tmp_path):
    other = made().content
    with pytest.raises(ReleaseFileError, match="not an ONNX file"):
        Release.load(saved_with(tmp_path, onnx=b"\x80\x04K\x01."))  # a pickle
    with pytest.raises(ReleaseFileError, match="sizes of a learned model"):
        saved_with(tmp_path, aside=replace(other.aside, answers=other.aside.answers[:-1]))
    with pytest.raises(ReleaseFileError, match="blocks do not go with its schema"):
        saved_with(tmp_path, blocks=replace(other.blocks, starts=other.blocks.starts[:2]))
    with pytest.raises(ReleaseFileError, match="details that do not go with its kind"):
        saved_with(tmp_path, model="pickle")
    fewer = find_mechanism("mldp").with_options({"features": 8})
    small = fewer.run(curator_of(SCHEMA, COUNTS), SCHEMA, Budget.pure(1), None)
    with pytest.raises(ReleaseFileError, match="does not take the features"):
        Release.load(saved_with(tmp_path, onnx=small.onnx))


def test_similarities_are_asked_for_pairs_and_survive_a_file(tmp_path):
    rows = [{"age": 3, "other": 4}, {"age": 3, "other": None}]
    with pytest.raises(QueryError, match="holds no model to predict with"):
        RELEASE.predict(rows)
    mechanism = find_mechanism("mldp").with_options({"queries": "similarity", "between": "age"})
    content = mechanism.run(curator_of(SCHEMA, COUNTS, epsilon=50), SCHEMA, Budget.pure(50), None)
    release = replace(RELEASE, content=content)
    release.save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    near, unknown = opened.predict(rows).to_pylist()
    assert near["similarity_low"] <= near["similarity"] <= near["similarity_high"] and near["similarity"] > 0.8
    assert unknown["similarity"] is None
    with pytest.raises(QueryError, match="rows with the columns 'age' and 'other'"):
        opened.predict([{"age": 3}])
    with pytest.raises(ReleaseFileError, match="not between values of one of its attributes"):
        saved_with(tmp_path, between="age")


def test_a_file_changed_after_publication_is_refused(tmp_path):
    path = tmp_path / "r.sfumato"
    RELEASE.save(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"model.parquet") + 4000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ReleaseFileError, match=r"damaged|changed after publication|laid out"):
        Release.load(path)


def in_process_without(blocked: str, path: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys, importlib.util as util\n"
        "real = util.find_spec\n"
        f"util.find_spec = lambda name, *rest: None if name.split('.')[0] == {blocked!r} else real(name, *rest)\n"
        f"sys.modules[{blocked!r}] = None\n"
        "import sfumato as sf\n"
        f"opened = sf.open({path!r}, allow_not_private=True)\n"
        "try:\n"
        "    print(opened.query('SELECT COUNT(*) AS n FROM census WHERE age < 20').records()[0]['n'] > 0)\n"
        "except sf.SfumatoError as error:\n"
        "    print(error)\n"
        f"assert sys.modules[{blocked!r}] is None and 'pickle' not in dir(sf)\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_it_answers_where_there_is_no_scikit_learn_and_says_what_is_missing_without_onnxruntime(tmp_path):
    made("boosting", 5).save(tmp_path / "r.sfumato")
    without = in_process_without("sklearn", str(tmp_path / "r.sfumato"))
    assert without.stdout == "True\n", without.stderr
    neither = in_process_without("onnxruntime", str(tmp_path / "r.sfumato"))
    assert f"opened with onnxruntime, which is not installed: {install_command('models')}" in neither.stdout
    assert neither.stdout.count("\n") == 1, neither.stderr
