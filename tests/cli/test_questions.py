"""What init asks: answers become a schema, an empty one a blank, and nonsense is asked again."""

import yaml

from sfumato.cli.init import asked
from sfumato.schema import Schema
from sfumato.schema.draft import draft

COLUMNS = [
    ("person_id", None),
    ("age", None),
    ("sex", None),
    ("day", None),
    ("pay", None),
    ("notes", None),
    ("ok", None),
]
SAID = {
    "age:": "",  # Enter: integer, from its name
    "sex:": "category",
    "day:": "date",
    "pay:": "number",
    "notes:": "skip",
    "ok:": "boolean",
    "  smallest": "0",
    "  largest": "120",
    "  values": "F, M, n/a: none, 3",
    "  first day": "2024-01-01",
    "  last day": "2024-12-31",
    "  day, month": "month",
    "Columns to SUM": "pay",
    "Whose": "person_id",
    "  how many rows": "2",
    "Epsilon": "2.5",
}


def answering(said, heard):
    def ask(question: str, default: str) -> str:
        heard.append(question)
        answers = next((answer for start, answer in said.items() if question.startswith(start)), "")
        if isinstance(answers, list):
            return answers.pop(0)
        return answers or default

    return ask


def test_answers_become_a_schema():
    text = draft("t", COLUMNS, asked(COLUMNS, answering(SAID, [])))
    schema = Schema.from_dict(yaml.safe_load(text))
    assert schema.domain.names == ("age", "sex", "day", "pay", "ok")
    assert schema.domain.shape == (121, 4, 12, 20, 2)
    assert schema.attributes["sex"].values == ("F", "M", "n/a: none", 3)
    assert (schema.privacy_unit.column, schema.privacy_unit.contributions) == ("person_id", 2)
    assert schema.epsilon == 2.5
    assert {name: (one.lower, one.upper) for name, one in schema.measures.items()} == {"pay": (0, 120)}
    again = asked(COLUMNS, answering({**SAID, "Epsilon": ["much", "-1", "1/3"]}, []))
    assert again.budget == "1/3" and Schema.from_dict(yaml.safe_load(draft("t", COLUMNS, again))).epsilon * 3 == 1


def test_enter_leaves_blanks_and_takes_what_names_suggest():
    text = draft("t", COLUMNS, asked(COLUMNS, answering({}, heard := [])))
    attributes = yaml.safe_load(text)["attributes"]
    assert yaml.safe_load(text)["budget"] is None
    assert attributes["age"] == {"type": "integer", "lower": None, "upper": None}
    assert "notes" not in attributes and "person_id" not in attributes
    assert yaml.safe_load(text)["privacy_unit"] == {"column": "person_id", "contributions": 1}
    assert not any(question.startswith("person_id:") for question in heard)


def test_nonsense_is_asked_again():
    said = {"age:": ["many", "integer"], "Whose": ["nobody", "row"]}
    answers = asked([("age", None)], answering(said, heard := []))
    assert answers.unit == "row" and answers.measures == [] and answers.columns["age"]["type"] == "integer"
    assert sum(question.startswith("age:") for question in heard) == 2


def test_what_a_codebook_or_an_option_says_is_not_asked():
    known = {"age": {"type": "integer", "lower": "0", "upper": "99"}, "pay": {"type": "number", "lower": "0"}}
    said = {"  largest of pay": "500", "Columns": ["rent", "age"]}
    answers = asked([("age", None), ("pay", None)], answering(said, heard := []), known, {"unit": "row", "budget": "1"})
    assert answers.columns == {"age": known["age"], "pay": {**known["pay"], "upper": "500", "bins": "20"}}
    assert answers.measures == ["age"]
    assert [question.split(" (")[0] for question in heard] == [
        "  largest of pay",
        "  how many cells of pay",
        *["Columns to SUM and AVG, of age, pay, with commas between"] * 2,
    ]
