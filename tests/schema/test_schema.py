"""Reading, refusing and writing the public schema."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sfumato.errors import SchemaError
from sfumato.schema import Measure, PrivacyUnit, Schema
from sfumato.schema.attributes import Boolean, Date, Integer
from sfumato.schema.parts import MOST_UNITS

PATIENT = settings(deadline=None)  # a busy machine is no reason to fail

CENSUS = """
dataset: census
privacy_unit: {column: person_id, contributions: 2}
budget: {epsilon: 3.1}
attributes:
  age:     {type: integer, lower: 0, upper: 99}
  income:  {type: number, lower: 0, upper: 200000, bins: 100}
  sex:     {type: category, values: [F, M], other: true}
  arrival: {type: date, lower: 2020-01-15, upper: 2020-12-31, by: month}
  married: {type: boolean, column: "marital status"}
measures:
  income:  {lower: 0, upper: 1e6}
  charge:  {lower: -10.5, upper: 50000, step: 0.01, column: total}
expected_rows: 1000000
"""

AGE = {"type": "integer", "lower": 0, "upper": 99}


def described(**changes):
    """A small schema as a mapping, with some keys changed, or left out where the change is Ellipsis."""
    keys = {"dataset": "census", "privacy_unit": "row", "attributes": {"age": AGE}} | changes
    return {key: value for key, value in keys.items() if value is not ...}


def refusal(**changes):
    """The one line that a changed schema is refused with."""
    with pytest.raises(SchemaError) as refused:
        Schema.from_dict(described(**changes))
    message = str(refused.value)
    assert "\n" not in message
    for jargon in ("pydantic", "http", "Input should", "validation", "Value error", "[type=", "NoneType", "None"):
        assert jargon not in message
    return message


def refusal_of(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SchemaError) as refused:
        Schema.load(path)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")
    return str(refused.value).removeprefix(f"{path}: ")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "census.yaml"


def test_a_file_is_read(file):
    file.write_text(CENSUS)
    schema = Schema.load(file)
    assert schema.dataset == "census"
    assert schema.privacy_unit == PrivacyUnit(column="person_id", contributions=2)
    assert schema.epsilon == Fraction(31, 10)
    assert list(schema.attributes) == ["age", "income", "sex", "arrival", "married"]
    assert schema.domain.shape == (100, 100, 3, 12, 2)
    assert schema.domain is schema.domain
    assert schema.attributes["married"].column == "marital status"
    assert schema.attributes["age"].column == "age"
    assert (schema.measures["income"].column, schema.measures["charge"].column) == ("income", "total")
    assert schema.measures["income"].upper == 10**6  # YAML reads 1e6, without a point, as text
    assert schema.expected_rows == 1_000_000


def test_a_path_is_taken_where_a_schema_is(file):
    file.write_text(CENSUS)
    schema = Schema.load(file)
    assert Schema.of(schema) is schema and Schema.of(file) == Schema.of(str(file)) == schema


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(file):
    file.write_bytes(b"\xef\xbb\xbf" + CENSUS.replace("\n", "\r\n").encode())
    assert Schema.load(str(file)).dataset == "census"


def test_python_and_yaml_give_the_same_schema(file):
    file.write_text("{dataset: census, privacy_unit: row, attributes: {age: {type: integer, lower: 0, upper: 99}}}")
    by_keyword = Schema(dataset="census", privacy_unit="row", attributes={"age": AGE})
    by_parts = Schema(
        dataset="census",
        privacy_unit=PrivacyUnit(column=None, contributions=1),
        attributes={"age": Integer(lower=0, upper=99)},
        budget=None,
        measures=None,
        expected_rows=None,
    )
    assert Schema.load(file) == by_keyword == by_parts == Schema.from_dict(described())
    assert by_keyword.privacy_unit == PrivacyUnit(column=None, contributions=1)
    assert by_keyword.epsilon is None


def test_a_schema_is_frozen():
    schema = Schema.from_dict(described())
    with pytest.raises(ValidationError, match="frozen"):
        schema.dataset = "other"


def test_keyword_construction_raises_the_same_errors():
    with pytest.raises(SchemaError, match="privacy_unit is missing"):
        Schema(dataset="census", attributes={"age": AGE})
    with pytest.raises(SchemaError, match="privacy_unit is blank"):
        Schema(dataset="census", privacy_unit=None, attributes={"age": AGE})
    with pytest.raises(SchemaError, match=r"attributes\.age\.lower is blank"):
        Schema(dataset="census", privacy_unit="row", attributes={"age": AGE | {"lower": None}})


# What is refused, and how


def test_blanks_of_a_draft_say_what_to_fill_in():
    message = refusal(attributes={"age": {"type": "integer", "lower": None, "upper": None}})
    assert message == (
        "attributes.age.lower is blank: fill in the smallest age the public already knows; "
        "it is not read from the data, because that would leak it (and 1 more problem in this schema)"
    )
    assert "fill in the largest age" in refusal(attributes={"age": AGE | {"upper": None}})
    assert "attributes.sex.values is blank: list the values" in refusal(
        attributes={"sex": {"type": "category", "values": None}}
    )
    assert "attributes.x.type is blank: choose one of integer" in refusal(attributes={"x": {"type": None}})
    assert "attributes.x is blank: give it a type" in refusal(attributes={"x": None})
    assert "attributes.x.bins is blank: fill in how many" in refusal(attributes={"x": AGE | {"bins": None}})
    assert "measures.m.lower is blank: fill in the smallest m" in refusal(measures={"m": {"lower": None, "upper": 1}})


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("dataset", "name the table"),
        ("privacy_unit", "write `privacy_unit: row` if"),
        ("attributes", "declare the columns"),
        ("budget", "write {epsilon: 3.0}"),
        ("measures", "list the columns to sum"),
        ("expected_rows", "fill in a guess"),
    ],
)
def test_a_blank_key_is_refused_with_its_remedy(key, remedy):
    assert refusal(**{key: None}).startswith(f"{key} is blank: {remedy}")


def test_a_missing_privacy_unit_explains_both_forms():
    for message in (refusal(privacy_unit=...), refusal(privacy_unit="person"), refusal(privacy_unit=["person_id"])):
        assert "`privacy_unit: row`" in message
        assert "`privacy_unit: {column: person_id, contributions: 1}`" in message


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"column": "p"}, "privacy_unit.contributions is missing: add contributions: 1 (rows kept per person)"),
        ({"contributions": 1}, "privacy_unit.column is missing: name the column that says whose row it is"),
        ({"column": "p", "contributions": 0}, "privacy_unit.contributions is 0; it must be 1 or more"),
        ({"column": "p", "contributions": 1.5}, "privacy_unit.contributions is 1.5; it must be a whole number"),
        ({"column": "p", "contributions": True}, "privacy_unit.contributions is true, which is not a number"),
        ({"column": "", "contributions": 1}, "privacy_unit.column is ''; a name must not be empty"),
        ({"column": 7, "contributions": 1}, "privacy_unit.column is 7; it must be the name of a column"),
        ({"column": None, "contributions": 1}, "privacy_unit.column is blank: name the column"),
        (
            {"column": "p", "contributions": 1, "cap": 2},
            "privacy_unit has no key 'cap'; it takes contributions, column",
        ),
    ],
)
def test_privacy_units_that_are_refused(unit, message):
    assert refusal(privacy_unit=unit).startswith(message)


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (0, "is 0; it must be more than 0"),
        (-1.5, "is -1.5; it must be more than 0"),
        (math.nan, "is nan; it must be a finite number"),
        (math.inf, "is inf; it must be a finite number"),
        ("much", "is 'much', which is not a number; write it in digits"),
        (True, "is true, which is not a number"),
        ([1], "is a list, which is not a number"),
    ],
)
def test_budgets_that_are_refused(epsilon, message):
    assert refusal(budget={"epsilon": epsilon}).startswith(f"budget.epsilon {message}")


def test_a_budget_is_exact():
    assert Schema.from_dict(described(budget={"epsilon": 0.1})).epsilon == Fraction(1, 10)
    assert Schema.from_dict(described(budget={"epsilon": "1/3"})).epsilon == Fraction(1, 3)
    assert "budget needs keys under it: write {epsilon: 3.0}" in refusal(budget=3.0)


@pytest.mark.parametrize("name", ["census 2024", "2024", "", "cen-sus", "naïve", 7, ["census"], "a;b", "a\nb"])
def test_a_dataset_is_a_word_that_sql_can_use(name):
    assert "dataset is " in refusal(dataset=name)
    assert "letters, digits and underscores" in refusal(dataset=name)


@pytest.mark.parametrize("name", ["census", "_x", "Census_2024", "release"])
def test_datasets_that_are_accepted(name):
    assert Schema.from_dict(described(dataset=name)).dataset == name


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, ".type is missing: choose one of integer, number, category, boolean, date"),
        (
            {"type": "float"},
            ".type is 'float'; choose one of integer, number, category, boolean, date (did you mean 'n",
        ),
        ({"type": "Bool"}, ".type is 'Bool'; choose one of integer, number, category, boolean, date (did you mean 'b"),
        ({"type": ["integer"]}, """.type is "['integer']"; choose one of integer"""),
        ("boolean", " needs keys under it: give it a type (integer, number, category, boolean, date)"),
        ([], " needs keys under it: give it a type"),
        (
            AGE | {"lowr": 0},
            " has no key 'lowr' (did you mean 'lower'?); it takes type, lower, upper, bins, width, cuts",
        ),
        ({"type": "integer", "min": 0, "upper": 9}, " has no key 'min' (did you mean 'lower'?); it takes"),
        (
            {"type": "number", "lower": 0, "upper": 9, "bins": 3, "strip": ["EUR"]},
            " has no key 'strip': it is about the",
        ),
        ({"type": "boolean", "lower": 0}, " has no key 'lower'; it takes type, map, fold, missing, column"),
        ({"type": "integer", "lower": 0}, ".upper is missing: fill in the largest x the public already knows"),
        ({"type": "integer", "lower": 9, "upper": 9}, " has lower 9 and upper 9; lower must be less than upper"),
        ({"type": "integer", "lower": "a", "upper": 9}, ".lower is 'a', which is not a number; write it in digits"),
        ({"type": "integer", "lower": 0.5, "upper": 9}, ".lower is 0.5; it must be a whole number"),
        ({"type": "integer", "lower": False, "upper": 9}, ".lower is false, which is not a number"),
        ({"type": "integer", "lower": 0, "upper": 1e99}, ".upper is too large; whole numbers must stay below 2 to the"),
        (
            {"type": "integer", "lower": 0, "upper": 10**8},
            " has more than 10,000,000 cells; gather values in fewer, wid",
        ),
        (AGE | {"bins": 101}, " has 101 bins for 100 whole numbers; use at most 100 bins"),
        (AGE | {"bins": 0}, ".bins is 0; it must be 1 or more"),
        (AGE | {"bins": 5, "width": 20}, " has bins and width; keep one of them"),
        (AGE | {"width": 101}, " has a width of 101, more than all values span; make it smaller"),
        (AGE | {"width": 2.5}, ".width is 2.5; it must be a whole number"),
        (AGE | {"cuts": []}, ".cuts must be a list with something in it, such as [18, 65]"),
        (AGE | {"cuts": 18}, ".cuts must be a list with something in it"),
        (AGE | {"cuts": [18, None]}, ".cuts holds an entry that is blank, which is not a number"),
        (
            AGE | {"cuts": [0, 18]},
            " has cuts out of order; list them from small to large, each once, between lower and u",
        ),
        (AGE | {"cuts": [18, 100]}, " has cuts out of order"),
        (AGE | {"cuts": [18, 18]}, " has cuts out of order"),
        (
            AGE | {"column": "a\nb"},
            ".column is 'a\\nb'; a name must not be empty or hold line breaks; rename the column",
        ),
        (
            {"type": "number", "lower": 0, "upper": 1},
            " is a number without cells; add bins (how many), width (how wide)",
        ),
        ({"type": "number", "lower": 0, "upper": math.inf, "bins": 2}, ".upper is inf; it must be a finite number"),
        ({"type": "number", "lower": math.nan, "upper": 1, "bins": 2}, ".lower is nan; it must be a finite number"),
        ({"type": "number", "lower": "1,000", "upper": 1, "bins": 2}, ".lower is '1,000', which is not a number"),
        ({"type": "number", "lower": 1, "upper": 0.5, "bins": 2}, " has lower 1 and upper 0.5; lower must be less"),
        ({"type": "number", "lower": 0, "upper": 1, "width": 0}, ".width is 0; it must be more than 0"),
        ({"type": "number", "lower": 0, "upper": 1, "cuts": [1]}, " has cuts out of order"),
        ({"type": "number", "lower": 1e17, "upper": 1e17 + 64, "bins": 64}, " has cells so narrow that floating-point"),
        (
            {"type": "category"},
            ".values is missing: list the values the public already knows, such as [F, M]; they are",
        ),
        ({"type": "category", "values": []}, ".values must be a list with something in it, such as [F, M]"),
        ({"type": "category", "values": "FM"}, ".values must be a list with something in it"),
        ({"type": "category", "values": ["a", "b", "a"]}, " lists the value 'a' twice; keep one"),
        ({"type": "category", "values": [1, "1"]}, " lists the value '1' twice; keep one"),
        (
            {"type": "category", "values": ["SE", False]},
            ".values holds an entry that is false, which is how YAML reads",
        ),
        ({"type": "category", "values": ["a", None]}, ".values holds an entry that is blank; delete it, or quote it"),
        ({"type": "category", "values": [["a"]]}, ".values holds an entry that is a list, neither text nor a number"),
        ({"type": "category", "values": [math.inf]}, ".values holds an entry that is inf; it must be a finite number"),
        ({"type": "category", "values": ["other"], "other": True}, " lists a value 'other' and has other: true, which"),
        ({"type": "category", "values": ["a"], "other": 1}, ".other is 1; it must be true or false"),
        (
            {"type": "date", "lower": "2020-01-01", "upper": "2020-01-01"},
            " has lower 2020-01-01 and upper 2020-01-01; ",
        ),
        (
            {"type": "date", "lower": "2021-02-29", "upper": "2022-01-01"},
            ".lower is '2021-02-29', a day that is not in",
        ),
        ({"type": "date", "lower": 2020, "upper": "2022-01-01"}, ".lower is 2020; write the day like 2024-12-31"),
        (
            {"type": "date", "lower": "2020-01-01", "upper": "2022-01-01", "by": "decade"},
            ".by is 'decade'; choose hour, day, w",
        ),
    ],
)
def test_attributes_that_are_refused(keys, message):
    assert refusal(attributes={"x": keys}).startswith(f"attributes.x{message}")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "attributes is empty: declare the columns to publish"),
        ([], "attributes needs keys under it: declare the columns to publish"),
        ({"": AGE}, "attributes holds a name that is ''; a name must not be empty"),
        ({"a\nb": AGE}, "attributes holds a name that is 'a\\nb'; a name must not be empty or hold line breaks"),
        ({"Age": AGE, "age": AGE}, "attributes has 'Age' and 'age', which SQL does not tell apart; rename one"),
        ({True: AGE}, "attributes has the key true, which YAML does not read as text; put the name in quotes"),
        ({1990: AGE}, "attributes has the key 1990, which YAML does not read as text"),
        ({f"a{i}": {"type": "boolean"} for i in range(1100)}, "the attributes span about 10^331 cells"),
        ({"a": {"type": "blob"}, "b": {}, "c": {"type": "x"}}, "attributes.a.type is 'blob'; choose one of"),
    ],
)
def test_lists_of_attributes_that_are_refused(attributes, message):
    assert refusal(attributes=attributes).startswith(message)


def test_further_errors_are_counted():
    message = refusal(attributes={"a": {"type": "blob"}, "b": {}, "c": {"type": "x"}})
    assert message.endswith("(and 2 more problems in this schema)")


def test_choices_are_shown_whole_and_further_problems_are_not_taken_for_choices():
    """Two attributes with the same mistake: the number counts problems, not choices that are left out."""
    wrong, one = (
        {"type": "boolean", "missing": "cell"},
        "attributes.a.missing is 'cell'; choose keep, or delete the line",
    )
    assert refusal(attributes={"a": wrong}) == one
    assert refusal(attributes={"a": wrong, "b": wrong}) == f"{one} (and 1 more problem in this schema)"
    measures = {"m": {"lower": 0, "upper": 1, "missing": "cell"}}
    assert refusal(measures=measures) == "measures.m.missing is 'cell'; choose keep, drop or middle"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, ".lower is missing: fill in the smallest m the public already knows"),
        ({"lower": 1, "upper": 1}, " has lower 1 and upper 1; lower must be less than upper"),
        ({"lower": 0, "upper": 1, "step": 0}, ".step is 0; it must be more than 0"),
        ({"lower": 0, "upper": 1, "step": 2}, " has a step larger than upper - lower; make it smaller or leave it out"),
        ({"lower": 0, "upper": 1, "step": 1e-15}, " has a step too small for its bounds; use 2e-12 or more"),
        (
            {"lower": 0, "upper": 1, "type": "number"},
            " has no key 'type'; it takes lower, upper, step, budget_share, missing, column",
        ),
        ({"lower": 0, "upper": math.inf}, ".upper is inf; it must be a finite number"),
        (50000, " needs keys under it: give it bounds, such as {lower: 0, upper: 50000}"),
    ],
)
def test_measures_that_are_refused(keys, message):
    assert refusal(measures={"m": keys}).startswith(f"measures.m{message}")


def test_other_keys_that_are_refused():
    assert refusal(expected_rows=0).startswith("expected_rows is 0; it must be 1 or more")
    assert refusal(expected_rows="many").startswith("expected_rows is 'many', which is not a number")
    assert refusal(mesures={}).startswith(
        "the schema has no key 'mesures' (did you mean 'measures'?); it takes dataset"
    )
    assert refusal(epsilon=1).startswith("the schema has no key 'epsilon' (did you mean 'budget'?)")
    for nothing in (None, [], "census", 7):
        with pytest.raises(SchemaError, match="a schema is made of keys: dataset, privacy_unit and attributes"):
            Schema.from_dict(nothing)


def test_a_ledger_is_named_by_its_identity(file):
    identity = "0123456789abcdef" * 2
    schema = Schema.from_dict(described(ledger=identity))
    assert schema.ledger == identity and schema.to_dict()["ledger"] == identity
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema.from_dict(described()).ledger is None and "ledger" not in Schema.from_dict(described()).to_dict()
    file.write_text(CENSUS + f'ledger: "{identity}"\n')
    assert Schema.load(file).ledger == identity


@pytest.mark.parametrize(
    "identity", ["", "f" * 31, "f" * 33, "F" * 32, "g" * 32, "f" * 32 + "\n", "/home/me/ledger.sqlite", 10**31, True]
)
def test_a_ledger_of_any_other_form_is_refused(identity):
    message = refusal(ledger=identity)
    assert message.startswith("ledger is ") and "32 hexadecimal digits in quotes; `sfumato ledger show`" in message


def test_a_ledger_left_blank_says_where_its_identity_is_found(file):
    assert "ledger is blank: fill in the identity that `sfumato ledger show` prints" in refusal_of(
        file, CENSUS + "ledger:\n"
    )


def test_a_message_stays_short_whatever_was_written():
    for changes in ({"dataset": "a b" * 999}, {"x" * 999: 1}, {"attributes": {"x": {"type": "y" * 999}}}):
        assert len(refusal(**changes)) < 220


def test_numbers_that_would_stall_the_reader_are_refused():
    for text in ("1e999999999", "1" * 5000, "1/" + "3" * 1400):
        assert refusal(budget={"epsilon": text}).startswith("budget.epsilon ")


# The file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; `sfumato init TABLE` drafts a schema"),
        ("# only a comment\n", "the file is empty"),
        ("- census\n", "a schema is made of keys"),
        ("dataset: a: b\n", "line 1: this is not valid YAML (mapping values are not allowed here)"),
        ("dataset: census\nattributes: {age\n", "line 3: this is not valid YAML"),
        ("dataset: a\x00b", "the file is not valid YAML"),
        (b"dataset: \xff\xfe", "the file is not UTF-8 text; check the path, or save it as UTF-8"),
        (
            "attributes:\n  age: {}\n  sex: {}\n  age: {}\n",
            "line 4: the key 'age' was already given on line 2; keep one",
        ),
        ("dataset: a\ndataset: b\n", "line 2: the key 'dataset' was already given on line 1"),
        ("a: &list [1]\nb: *list\n", "line 2: aliases (*name) are not read; write the value out"),
        ("a:\n  <<: {b: 1}\n", "line 2: a key must be a plain word"),
        ("? [a, b]\n: 1\n", "line 1: a key must be a plain word"),
        ("a: !!python/name:os.system\n", "line 1: this value has a meaning of its own in YAML; put it in quotes"),
        ("values: [=]\n", "line 1: this value has a meaning of its own in YAML; put it in quotes"),
        ("values: [01, 02]\n", "line 1: YAML would read 01 as another number; put it in quotes if it is a code"),
        ("values: [1, 12:30]\n", "line 1: YAML would read 12:30 as another number"),
        ("a: 1\nlower: 2021-02-29\n", "line 2: 2021-02-29 is a day that is not in the calendar"),
        ("yes: 1\n", "the schema has the key true, which YAML does not read as text; put the name in quotes"),
        ("a: 1\n--- \nb: 2\n", "line 2: this is not valid YAML"),
        ("[" * 20_000, "the file is not valid YAML"),
        ("a: " + "1" * 5000, "the file is not valid YAML"),
        ("#" * 1_000_001, "the file is larger than 1 MB, which no schema is; check the path"),
        (CENSUS.replace("lower: 0, upper: 99", "lower: , upper: 99"), "attributes.age.lower is blank: fill in"),
        (CENSUS.replace("[F, M]", "[NO, SE]"), "attributes.sex.values holds an entry that is false, which is how YAML"),
        (
            CENSUS.replace("2020-01-15", "2020-01-15 12:00:00"),
            "attributes.arrival.lower is 2020-01-15 12:00:00; write ",
        ),
    ],
)
def test_files_that_are_refused(file, text, message):
    assert refusal_of(file, text).startswith(message)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(
        SchemaError, match=r"nowhere\.yaml: there is no such file; `sfumato init TABLE` drafts a schema"
    ):
        Schema.load(tmp_path / "nowhere.yaml")
    with pytest.raises(SchemaError, match="the file cannot be read"):
        Schema.load(tmp_path)


def test_quoted_names_and_codes_are_read_as_text(file):
    file.write_text(
        "{dataset: t, privacy_unit: row, attributes: {'no': {type: category, values: ['01', 'yes', 08, 'null', '=']}}}"
    )
    assert Schema.load(file).domain["no"].labels() == ["01", "yes", "08", "null", "="]


# Writing


def test_a_schema_survives_json(file):
    file.write_text(CENSUS)
    schema = Schema.load(file)
    written = schema.to_dict()
    assert Schema.from_dict(json.loads(json.dumps(written, allow_nan=False))) == schema
    assert written["budget"] == {"epsilon": "3.1"}
    assert written["attributes"]["age"] == {"type": "integer", "lower": 0, "upper": 99}
    assert written["attributes"]["arrival"]["lower"] == "2020-01-15"
    assert written["attributes"]["married"] == {"type": "boolean", "column": "marital status"}
    assert written["measures"]["charge"] == {
        "lower": "-10.5",
        "upper": 50000,
        "step": "0.01",
        "missing": "keep",
        "column": "total",
    }
    assert Schema.from_dict(described()).to_dict()["privacy_unit"] == "row"


numbers = st.fractions(-(10**6), 10**6, max_denominator=10**4)
bounds = st.tuples(numbers, numbers).filter(lambda two: two[0] != two[1]).map(sorted)
wholes = st.tuples(st.integers(-999, 999), st.integers(-999, 999)).filter(lambda two: two[0] != two[1]).map(sorted)
listed = st.lists(st.text(max_size=5) | st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32))


def bounded(pairs, kind, **keys):
    return st.tuples(pairs, st.fixed_dictionaries(keys)).map(
        lambda drawn: {"lower": drawn[0][0], "upper": drawn[0][1], **kind, **drawn[1]}
    )


attributes = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "boolean", "missing": "keep"}),
    bounded(wholes, {"type": "integer"}),
    bounded(wholes, {"type": "integer"}, bins=st.just(1)),
    bounded(bounds, {"type": "number"}, bins=st.integers(1, 20)),
    bounded(bounds, {"type": "number"}).map(lambda keys: keys | {"cuts": [(keys["lower"] + keys["upper"]) / 2]}),
    bounded(bounds, {"type": "number"}).map(lambda keys: keys | {"width": (keys["upper"] - keys["lower"]) / 3}),
    st.tuples(st.dates(), st.dates(), st.sampled_from(["month", "year"]))
    .filter(lambda drawn: drawn[0] != drawn[1])
    .map(lambda drawn: {"type": "date", "lower": min(drawn[:2]), "upper": max(drawn[:2]), "by": drawn[2]}),
    listed.map(
        lambda values: {"type": "category", "values": list({str(value): value for value in values}.values())}
    ).filter(lambda keys: keys["values"]),
)
names = st.from_regex(r"[a-z]{1,8}( [a-zé]{1,3})?", fullmatch=True)


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(names, attributes, min_size=1, max_size=3), st.dictionaries(names, bounded(bounds, {})), st.data()
)
def test_any_schema_survives_json(attributes, measures, data):
    keys = described(attributes=attributes, measures=measures)
    keys["budget"] = {"epsilon": data.draw(st.fractions(Fraction(1, 10**6), 10**6))}
    keys["privacy_unit"] = data.draw(st.sampled_from(["row", {"column": "p", "contributions": 3}]))
    try:
        schema = Schema.from_dict(keys)
    except SchemaError as refused:  # 1 and 1.0 and "1" are the same label; three long axes can be too many cells
        assert any(reason in str(refused) for reason in ("twice", "span about", "so narrow"))
        return
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False))) == schema


# Measures


@PATIENT
@given(bounds, st.none() | st.integers(1, 10**5), st.data())
def test_a_row_of_a_measure_stays_within_its_units(ends, parts, data):
    lower, upper = ends
    keys = {} if parts is None else {"step": (upper - lower) / parts}
    measure = Measure(lower=lower, upper=upper, **keys)
    assert (measure.centre / measure.step).denominator == 1
    assert abs(measure.centre - (lower + upper) / 2) <= measure.step / 2
    for value in (lower, upper, data.draw(st.fractions(lower, upper))):
        units = round((value - measure.centre) / measure.step)
        assert abs(units) <= measure.half_units
        assert abs(units * measure.step + measure.centre - value) <= measure.step / 2
    assert (measure.half_units - 1) * measure.step < max(upper - measure.centre, measure.centre - lower)


@PATIENT
@given(bounds)
def test_the_default_step_is_a_power_of_two_about_a_billionth_of_the_half_width(ends):
    measure = Measure(lower=ends[0], upper=ends[1])
    half_width, top = (ends[1] - ends[0]) / 2, measure.step * 2**30
    assert top / 2 < half_width <= top
    assert {measure.step.numerator.bit_count(), measure.step.denominator.bit_count()} == {1}
    assert measure.half_units <= 2**30 + 1


def test_steps_of_known_measures():
    assert Measure(lower=0, upper=2).step == Fraction(1, 2**30)
    assert Measure(lower=0, upper="2.0001").step == Fraction(1, 2**29)
    assert Measure(lower=-(2**31), upper=2**31).step == 2
    pence = Measure(lower=0, upper="10.01", step="0.01")
    assert (pence.centre, pence.half_units) == (Fraction(5), 501)  # 500.5 steps round to the even 500
    assert Measure(lower=0, upper=2 * MOST_UNITS, step=1).half_units == MOST_UNITS


def test_an_attribute_and_a_measure_may_share_a_column():
    schema = Schema.from_dict(described(measures={"age": {"lower": 0, "upper": 120}}))
    assert schema.measures["age"].upper == 120
    assert isinstance(schema.attributes["age"], Integer)


def test_kinds_are_told_apart_by_their_type():
    schema = Schema.from_dict(
        described(attributes={"d": {"type": "date", "lower": "2020-01-01", "upper": "2020-01-02"}, "b": Boolean()})
    )
    assert [type(attribute) for attribute in schema.attributes.values()] == [Date, Boolean]
    assert [attribute.column for attribute in schema.attributes.values()] == ["d", "b"]


def test_the_share_of_a_measure_under_its_old_name():
    """Files of earlier versions say weight; what is written now says budget_share."""
    old = described(measures={"pay": {"lower": 0, "upper": 9, "weight": "3"}})
    new = described(measures={"pay": {"lower": 0, "upper": 9, "budget_share": 3}})
    assert Schema.from_dict(old) == Schema.from_dict(new) and Schema.from_dict(old).weights["pay"] == 3
    assert Schema.from_dict(old).to_dict()["measures"]["pay"]["budget_share"] == 3
