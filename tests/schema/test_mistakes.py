"""Every mistake in a schema file, where it stands."""

from __future__ import annotations

import pytest

from sfumato.cli.schema import mistakes_in
from sfumato.errors import SchemaError

BAD = """\
dataset: my data
privacy_unit: row
budget:
attributes:
  age: {type: integer, lower: 0, uper: 99}
  sex:
    type: category
    values:
  pay: {type: nummer, lower: 0}
  zone: {type: category, values: 0..41}
measures:
  charge: {lower: 5, upper: 1}
file: {delimiter: ";;"}
"""


def places(tmp_path, text: str) -> list[tuple[int, int, str]]:
    """Line, column and the beginning of each message."""
    (tmp_path / "s.yaml").write_text(text)
    found = mistakes_in(tmp_path / "s.yaml")
    return [(one.line, one.column, " ".join(one.message.split()[:2])) for one in found]


def test_all_of_them_at_once(tmp_path):
    assert places(tmp_path, BAD) == [
        (1, 10, "dataset is"),
        (3, 1, "budget is"),
        (5, 3, "attributes.age.upper is"),
        (5, 34, "attributes.age has"),
        (8, 5, "attributes.sex.values is"),
        (9, 15, "attributes.pay.type is"),
        (12, 3, "measures.charge has"),
        (13, 19, "file.delimiter is"),
    ]


GOOD = "dataset: t\nprivacy_unit: row\nattributes:\n  town: {type: category, values: [a, b]}\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (GOOD, []),
        (GOOD + "attributes: {}\n", [(5, 1, "the key")]),
        (GOOD + "x: [1, 2\n", [(6, 1, "this is")]),
        (GOOD + "expected_rows: 017\n", [(5, 16, "YAML would")]),
        (GOOD + "  no: {type: boolean}\n", [(3, 1, "attributes has")]),
        (GOOD.replace("[a, b]", "none.txt"), [(4, 34, "attributes.town.values names")]),
        (GOOD.replace("[a, b]", "9..1"), [(4, 34, "attributes.town.values runs")]),
        (GOOD + "file: {missing: [a]}\n", [(4, 3, "attributes.town lists")]),
        ("- a\n- b\n", [(1, 1, "a schema")]),
        (GOOD.replace("dataset: t\n", ""), [(1, 1, "dataset is")]),
        ("budget:\n" + GOOD + "file: {missing: [a]}\n", [(1, 1, "budget is"), (5, 3, "attributes.town lists")]),
    ],
)
def test_each_kind_where_it_stands(tmp_path, text, found):
    assert places(tmp_path, text) == found


def test_a_file_that_is_not_there_is_refused_as_ever(tmp_path):
    with pytest.raises(SchemaError, match="there is no such file"):
        mistakes_in(tmp_path / "s.yaml")
