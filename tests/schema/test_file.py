"""YAML read by libyaml is what the parser in Python reads, and mistakes are reported in the words of the latter."""

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import file
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
    """Ten times as fast: the parser in Python is not asked."""
    monkeypatch.delattr(file, "_Loader")
    path = tmp_path / "schema.yaml"
    values = [f"code {place:05d}" for place in range(20_000)]
    path.write_text(yaml.dump({"values": values}, Dumper=yaml.CSafeDumper))
    began = time.process_time()
    assert read_yaml(path) == {"values": values}
    assert time.process_time() - began < 3
