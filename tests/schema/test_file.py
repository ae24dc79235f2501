"""YAML read by libyaml is what the parser in Python reads, and mistakes are reported in the words of the latter."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import Schema, file
from sfumato.schema.file import read_yaml

pytestmark = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")

PIECES = [
    *"ab1 \n:-,[]{}'\"#.~/=&%@|>\\<_+()é\u00a0",
    "\n- ",
    "\n  - ",
    ": ",
    "a: ",
    "b:\n  ",
    "values: ",
    "- ",
    ", ",
    "---\n",
    "...",
    "*a",
    "&a ",
]


def read(text, folder, *, fast=True):
    """What a text holds, or the message and place of its refusal."""
    path = folder / "schema.yaml"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        if not fast:
            patch.setattr(yaml, "__with_libyaml__", False)
        try:
            return repr(read_yaml(path))
        except SchemaError as problem:
            return str(problem), problem.mark


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@settings(max_examples=150, deadline=None)
def test_both_parsers_read_the_same(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp()
    assert read(text, folder) == read(text, folder, fast=False)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: 2\na: 3\n",  # a key twice
        "a: 012\n",
        "a: [1, 12:30]\n",
        "a: 2021-02-30\n",
        "a: &x [1]\nb: *x\n",
        "a: &x [*x]\n",
        "a: [1, 2\nb: 3\n",
        "a: !!python/name:os.system x\n",
        "a: ! ''\n",
        "a:\tb\n",
        "{b?\n\n}",
        "? a\n: b\n",
        "- \n\ufeff",
        "<<: {a: 1}\n",
        "|#",
        "a: >-2#b\n",
        "[" * 3000,
        "- " * 100_000,
        "{a: " * 100_000,
        "",
        "a: \x07\n",
    ],
)
def test_mistakes_and_traps_are_reported_alike(tmp_path, text):
    assert read(text, tmp_path) == read(text, tmp_path, fast=False)


def test_a_long_list_goes_through_libyaml(tmp_path, monkeypatch):
    """Ten times as fast: the parser in Python is not asked, and is not there."""
    monkeypatch.delattr(file, "_Loader")
    path = tmp_path / "schema.yaml"
    values = [f"code {place:05d}" for place in range(20_000)]
    path.write_text(yaml.dump({"values": values}, Dumper=yaml.CSafeDumper))
    assert read_yaml(path) == {"values": values}


HALF = {
    "values": 'attributes: {a: {type: category, values: [b, "x\\ud800"]}}',
    "name": 'attributes: {"a\\ud800": {type: boolean}}',
    "label": 'attributes: {a: {type: category, values: [b, c], labels: {b: "\\udfff"}}}',
}


@pytest.mark.parametrize("where", HALF)
def test_half_a_character_is_refused_before_a_file_fails_to_hold_it(tmp_path, where):
    text = f"dataset: t\nprivacy_unit: row\n{HALF[where]}\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SchemaError, match="half a character"):
        Schema.load(tmp_path / "s.yaml")
    whole = yaml.load(text.replace("\\ud800", "\\u2603").replace("\\udfff", "\\U0001F600"), yaml.SafeLoader)
    assert Schema.from_dict(whole).dataset == "t"  # any whole character will do


def test_half_a_character_is_refused_from_python_too():
    attributes = {"a": {"type": "category", "values": ["b", "\udcff"]}}
    with pytest.raises(SchemaError, match=r"half a character.*write the character out"):
        Schema(dataset="t", privacy_unit="row", attributes=attributes)
