"""`impossible` and `follows`: their forms, what they mean for cells, and each mistake where it stands."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.cli.schema import mistakes_in
from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.rules import cells_of
from sfumato.schema.schema import counted_in_short, what_is_counted

HEAD = """\
dataset: t
privacy_unit: row
attributes:
  age: {type: integer, lower: 0, upper: 99}
  band: {type: integer, lower: 0, upper: 99, width: 10}
  marital: {type: category, values: [1, 2, 3], labels: {1: single, 2: married, 3: widowed}, missing: keep}
  county: {type: category, values: [Kent, Fife, Devon], groups: {realm: {E: [Kent, Devon], S: [Fife]}}}
  state: {type: category, values: [E, S]}
  day: {type: date, lower: 2024-01-01, upper: 2024-12-31}
  weekday: {type: date, by: weekday, column: day}
  month: {type: date, lower: 2024-01-01, upper: 2024-12-31, by: month, column: day}
  pay: {type: number, lower: 0, upper: 100, width: 10}
"""


def loaded(tmp_path, text: str) -> Schema:
    (tmp_path / "s.yaml").write_text(HEAD + text)
    return Schema.load(tmp_path / "s.yaml")


GOOD = """\
impossible:
  - {age: 0..14, marital: [married, widowed]}
  - {age: [0, 3..4], pay: 50..100}
  - {realm: E, marital: null}
  - {day: 2024-02-01..2024-02-29, pay: {not: 0..10}}
follows:
  state: {from: county, groups: realm}
  band: age
  weekday: day
  month: day
"""


def test_every_form_is_read_and_kept(tmp_path):
    schema = loaded(tmp_path, GOOD)
    assert Schema.from_dict(schema.to_dict()) == schema
    structure, place = schema.structure, schema.domain.place
    flags = structure.possible((place("age"), place("marital")))
    assert not flags[:15, 1:3].any() and flags[15:].all() and flags[:, 0].all() and flags[:, 3].all()
    kent = int(schema.domain.axes[place("county")].read("Kent"))
    assert not structure.possible((place("marital"), place("county")))[3, kent]
    assert not structure.possible((place("marital"), place("state")))[3, 0]  # follows from the rule of realms
    by_band = structure.possible((place("band"), place("marital")))
    assert by_band[0].tolist() == [True, False, False, True] and by_band[1].all()
    weekday, month = structure.functions[2].image, structure.functions[3].image
    assert weekday[:3].tolist() == [0, 1, 2]  # 1 January 2024 was a Monday
    assert month[[0, 30, 31, 365]].tolist() == [0, 0, 1, 11]


def test_what_is_counted_says_so(tmp_path):
    schema = loaded(tmp_path, "impossible: [{age: 0..14, marital: {not: [1, null]}}]\nfollows: {band: age}\n")
    words = (
        "rows that cannot be are left out: age 0..14 with marital not 1 or missing or band other than that of its age"
    )
    assert words in what_is_counted(schema)
    assert "no row that contradicts what the schema calls impossible" in counted_in_short(schema)
    assert not loaded(tmp_path, "").structure


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("impossible: [{age: 3}]", 13, 14, "impossible.1 is about one attribute"),
        ("impossible: {age: 3}", 13, 13, "impossible must list"),
        (
            "impossible:\n  - {age: 3, maritl: 2}",
            14,
            14,
            "impossible.1.maritl has no attribute behind it (did you mean",
        ),
        ("impossible:\n  - {age: 3, marital: marred}", 14, 23, "impossible.1.marital names 'marred', which is not"),
        ("impossible: [{age: 3, pay: 5..20}]", 13, 28, "impossible.1.pay is '5..20', which parts the cell [0, 10)"),
        ("impossible: [{age: 90..120, pay: 0..10}]", 13, 20, "impossible.1.age is '90..120', beyond the bounds"),
        ("impossible: [{age: 9..2, pay: 0..10}]", 13, 20, "impossible.1.age runs from 9 down to 2"),
        ("impossible: [{age: old, pay: 0..10}]", 13, 20, "impossible.1.age is 'old'; write a value"),
        ("impossible: [{age: null, pay: 0..10}]", 13, 20, "impossible.1.age is null"),
        ("impossible: [{age: {nott: 3}, pay: 0..10}]", 13, 20, "impossible.1.age must be a value"),
        ("impossible: [{realm: W, age: 3}]", 13, 22, "impossible.1.realm names 'W', which is no group"),
        ("impossible: [{state: E, age: 0..99}]", 13, 1, "impossible leaves no row for state 'E'"),
        ("follows: {state: {from: conty, groups: realm}}", 13, 25, "follows.state.from names 'conty', which is no"),
        ("follows: {stat: county}", 13, 17, "follows.stat names 'stat', which is no attribute"),
        ("follows: {band: age, age: band}", 13, 11, "follows.band follows from itself"),
        ("follows: {state: age}", 13, 11, "follows.state does not say which values belong together"),
        ("follows: {state: {from: county, groups: land}}", 13, 41, "follows.state.groups is 'land', which is no"),
        ("follows: {state: {from: county, groups: {E: [Kent], S: Fife}}}", 13, 11, "follows.state leaves out 'Devon'"),
        (
            "follows: {state: {from: county, groups: {E: [Kent, Devon], S: [Fife, Kent]}}}",
            *(13, 33),
            "follows.state.groups has 'Kent' in two groups",
        ),
        ("follows: {state: {from: marital, groups: {E: 1, S: 2..3}}}", 13, 34, "follows.state.groups lets marital be"),
    ],
)
def test_mistakes_are_named_where_they_stand(tmp_path, text, line, column, said):
    (tmp_path / "s.yaml").write_text(HEAD + text + "\n")
    first = mistakes_in(tmp_path / "s.yaml")[0]
    assert (first.line, first.column) == (line, column), first
    assert first.message.startswith(said)
    with pytest.raises(SchemaError):
        Schema.load(tmp_path / "s.yaml")


def test_cells_of_times_and_numbers(tmp_path):
    schema = loaded(tmp_path, "")
    pay, day = (schema.domain.axes[schema.domain.place(name)] for name in ("pay", "day"))
    assert np.flatnonzero(cells_of(pay, "20..40")).tolist() == [2, 3]
    assert np.flatnonzero(cells_of(pay, "90..100")).tolist() == [9]
    assert np.flatnonzero(cells_of(day, ["2024-01-02", "2024-12-30..2024-12-31"])).tolist() == [1, 364, 365]


def test_too_many_rules_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="more than 500 rules"):
        Schema.from_dict({**loaded(tmp_path, "").to_dict(), "impossible": [{"age": 3, "state": "E"}] * 501})
