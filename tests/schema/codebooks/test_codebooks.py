"""Codebooks of every kind, which say the same of the same table; and those that are wrong or meant to harm."""

from __future__ import annotations

import json

import pandas as pd
import pyreadstat
import pytest
import yaml

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.codebooks import MOST_BYTES, keys_of_columns, missing_words, read_codebook
from sfumato.schema.draft import Answers, draft

COLUMNS = ["Sex", "region", "age", "score"]
BOOKS = {
    "long.csv": "variable,value,label,type,min,max,missing\nSEX,1,female,,,,\n,2,male,,,,\n,9,refused,,,,yes\n"
    "region,N,North,,,,\nregion,S,South,,,,\nage,,,integer,0,120,\nscore,,,number,0,1.5,\n",
    "wide.csv": 'Column name;Data type;Values;Minimum;Maximum;Missing codes\nsex;;"1=female; 2=male; 9=refused";;;9\n'
    'region;;"N=North | S=South";;;\nage;integer;;0;120;\nscore;number;;0;1.5;\n',
    "redcap.csv": '"Variable / Field Name","Field Type","Choices, Calculations, OR Slider Labels",'
    '"Text Validation Min","Text Validation Max","Missing"\nsex,radio,"1, female | 2, male | 9, refused",,,9\n'
    'region,radio,"N, North | S, South",,,\nage,text,,0,120,\nscore,number,,0,1.5,\n',
    "datapackage.json": json.dumps(
        {
            "resources": [
                {"name": "other", "schema": {"fields": [{"name": "x"}]}},
                {
                    "name": "people",
                    "schema": {
                        "fields": [
                            {
                                "name": "sex",
                                "type": "integer",
                                "categories": [{"value": 1, "label": "female"}, {"value": 2, "label": "male"}],
                                "missingValues": ["", "9"],
                            },
                            {
                                "name": "region",
                                "type": "string",
                                "categories": [{"value": "N", "label": "North"}, {"value": "S", "label": "South"}],
                                "constraints": {"enum": ["N", "S"]},
                            },
                            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
                            {"name": "score", "type": "number", "constraints": {"minimum": 0, "maximum": 1.5}},
                        ]
                    },
                },
            ]
        }
    ),
    "ddi.xml": """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="SEX" intrvl="discrete"><labl>Sex</labl>
 <sumStat type="min">1</sumStat><sumStat type="max">777</sumStat>
 <catgry><catValu>1</catValu><labl>female</labl><catStat type="freq">4242</catStat></catgry>
 <catgry><catValu>2</catValu><labl>male</labl></catgry>
 <catgry missing="Y"><catValu>9</catValu><labl>refused</labl></catgry></var>
<var name="region"><catgry><catValu>N</catValu><labl>North</labl></catgry>
 <catgry><catValu>S</catValu><labl>South</labl></catgry><varFormat type="character"/></var>
<var name="age"><valrng><range min="0" max="120"/></valrng><sumStat type="max">777</sumStat></var>
<var name="score" intrvl="contin"><valrng><range min="0" max="1.5"/></valrng></var>
</dataDscr></codeBook>""",
}


def drafted(path, columns=COLUMNS):
    """The schema that is drafted for these columns, and its text."""
    variables = read_codebook(path, "people")
    known = keys_of_columns(variables, columns)
    known["score"] |= {"bins": "3"}
    file = {"missing": words} if (words := missing_words(variables, columns)) else None
    text = draft("people", [(name, None) for name in columns], Answers("row", known, "1"), file)
    return Schema.from_dict(yaml.safe_load(text)), text


@pytest.mark.parametrize("name", BOOKS)
def test_every_kind_says_the_same(tmp_path, name):
    (tmp_path / name).write_text(BOOKS[name])
    schema, text = drafted(tmp_path / name)
    sex, region, age, score = schema.attributes.values()
    assert (sex.values, sex.labels, sex.missing) == ((1, 2), {"1": "female", "2": "male"}, "keep")
    assert schema.file.missing == {"Sex": ("9",)}
    assert (region.values, region.labels, region.missing) == (("N", "S"), {"N": "North", "S": "South"}, None)
    assert (age.type, age.lower, age.upper) == ("integer", 0, 120)
    assert (score.type, float(score.upper)) == ("number", 1.5)
    assert "4242" not in text and "777" not in text  # what a codebook tells of rows


DDL = """
SET search_path = public;
CREATE TYPE public.mood AS ENUM ('sad', 'so so', 'it''s fine');
CREATE TABLE public.other (x integer);
CREATE TABLE public.people (
  id bigint NOT NULL, mood public.mood, sex character varying(1) CHECK (sex IN ('F', 'M')),
  age integer, level text, pay numeric(10,2), born date CHECK (born BETWEEN '1900-01-01' AND '2030-12-31'),
  odd integer CHECK (odd > 3 OR odd < 1), inline ENUM('a', 'b'),
  CONSTRAINT a CHECK (((age >= 0) AND (age <= 120))),
  CONSTRAINT l CHECK (((level)::text = ANY ((ARRAY['lo'::character varying, 'hi'::character varying])::text[])))
);
ALTER TABLE ONLY public.people ADD CONSTRAINT p CHECK ((pay >= -5) AND (pay <= 1000.5));
"""


def test_sql_tables_give_their_enums_and_checks(tmp_path, capfd):
    (tmp_path / "schema.sql").write_text(DDL)
    names = ["id", "mood", "sex", "age", "level", "pay", "born", "odd", "inline"]
    found = keys_of_columns(read_codebook(tmp_path / "schema.sql", "people"), names)
    assert found["mood"] == {"type": "category", "values": "[sad, so so, it's fine]"}
    assert found["sex"]["values"] == "[F, M]" and found["level"]["values"] == "[lo, hi]"
    assert found["age"] == {"type": "integer", "lower": "0", "upper": "120"}
    assert found["pay"] == {"type": "number", "lower": "-5", "upper": "1000.5"}
    assert found["born"] == {"type": "date", "lower": "1900-01-01", "upper": "2030-12-31"}
    assert found["odd"] == {"type": "integer"} and found["inline"]["values"] == "[a, b]"
    assert capfd.readouterr() == ("", "")
    with pytest.raises(SchemaError, match=r"it describes 2 tables \(other, people\), and none is called 'x'"):
        read_codebook(tmp_path / "schema.sql", "x")


@pytest.fixture
def survey(tmp_path):
    """A survey as SPSS and Stata keep it, with rows that must not be read."""
    frame = pd.DataFrame({"sex": [1.0, 2.0, 9.0], "region": ["N", "S", "N"], "age": [31.0, 41.0, 424242.0]})
    labels = {"sex": {1: "female", 2: "male", 9: "refused"}, "age": {99: "not told"}}
    ranges, measures = {"sex": [9], "age": [{"lo": 90, "hi": 99}]}, {"sex": "nominal", "age": "scale"}
    pyreadstat.write_sav(
        frame, str(tmp_path / "s.sav"), variable_value_labels=labels, missing_ranges=ranges, variable_measure=measures
    )
    pyreadstat.write_dta(frame, str(tmp_path / "s.dta"), variable_value_labels={"sex": labels["sex"]})
    return tmp_path


def test_labels_of_spss_and_stata_come_without_any_row(survey, monkeypatch):
    found = keys_of_columns(read_codebook(survey / "s.sav", "t"), ["sex", "region", "age"])
    female = "{1: female, 2: male}"
    assert found["sex"] == {"type": "category", "values": "[1, 2]", "labels": female, "missing": "keep"}
    assert found["age"] == {"type": "number", "missing": "keep"} and found["region"] == {"type": "category"}
    assert missing_words(read_codebook(survey / "s.sav", "t"), ["sex", "age"]) == {"sex": ["9"], "age": ["99"]}
    stata = keys_of_columns(read_codebook(survey / "s.dta", "t"), ["sex"])["sex"]
    assert stata["labels"] == "{1: female, 2: male, 9: refused}"
    asked = []
    for name in ("read_sav", "read_dta"):
        whole = getattr(pyreadstat, name)

        def heads_only(path, whole=whole, **how):
            asked.append(how)
            frame, head = whole(path, **how)
            assert len(frame) == 0
            return frame, head

        monkeypatch.setattr(pyreadstat, name, heads_only)
    read_codebook(survey / "s.sav", "t")
    read_codebook(survey / "s.dta", "t")
    assert len(asked) == 2 and all(how["metadataonly"] is True for how in asked)


def test_a_file_whose_rows_are_gone_says_the_same(survey):
    """The rows stand at the end of an SPSS file: cut away, nothing of the codebook changes."""
    before = read_codebook(survey / "s.sav", "t")
    whole = (survey / "s.sav").read_bytes()
    end = whole.index(b"\xe7\x03\x00\x00\x00\x00\x00\x00") + 8  # record 999, after which rows begin
    assert end < len(whole)
    (survey / "s.sav").write_bytes(whole[:end])
    assert read_codebook(survey / "s.sav", "t") == before


BAD = {
    "x.pdf": ("", "a codebook must end in .csv"),
    "none.csv": (None, "the codebook cannot be read"),
    "none.sav": (None, "there is no such file"),
    "x.csv": ("a,b\n1,2\n", "the first line must name the columns: variable, value and label"),
    "empty.csv": ("variable,value\n", "describes no column"),
    "x.json": ("{", "is not JSON"),
    "deep.json": ("[" * 100_000, "is not JSON"),
    "list.json": ("[]", "is no data package"),
    "elsewhere.json": ('{"resources": [{"name": "people", "schema": "s.json"}]}', "in another file"),
    "bare.json": ('{"resources": [{"name": "people"}]}', "has no table schema"),
    "fields.json": ('{"fields": 3}', "has no list of fields"),
    "x.xml": ("<a><b></a>", "line 1: the codebook is not well-formed XML"),
    "entities.xml": (
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><codeBook>&b;</codeBook>',
        "declares a document type",
    ),
    "outside.xml": ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><codeBook/>', "declares a document type"),
    "other.xml": ("<html/>", "describes no column"),
    "x.sql": ("SELECT 1;", "has no CREATE TABLE"),
    "broken.sql": ("CREATE TABLE t (a 'x", "is not SQL that can be read"),
    "x.sav": ("not one", "is no SPSS or Stata file"),
    "x.dta": ("", "is no SPSS or Stata file"),
    "x.por": ("", "cannot be read without its rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_codebook_is_refused_in_a_line(tmp_path, name):
    content, said = BAD[name]
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SchemaError, match=said) as refused:
        read_codebook(tmp_path / name, "people")
    assert "\n" not in str(refused.value) and name in str(refused.value)


def test_one_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"variable,value\n" + b"a,1\n" * (MOST_BYTES // 4))
    with pytest.raises(SchemaError, match="larger than 16 MB"):
        read_codebook(tmp_path / "x.csv", "t")


def test_labels_that_two_values_share_are_told_apart(tmp_path):
    (tmp_path / "b.csv").write_text("variable,value,label\nq,1,yes\nq,2,yes\nq,3,1\nq,04,four\n")
    (keys,) = keys_of_columns(read_codebook(tmp_path / "b.csv", "t"), ["q"]).values()
    part = {key: yaml.safe_load(text) for key, text in keys.items()}
    schema = Schema(dataset="t", privacy_unit="row", attributes={"q": part})
    assert schema.domain["q"].labels() == ["yes (1)", "yes (2)", "1 (3)", "four"]


def test_truths_and_types_of_frictionless_fields(tmp_path):
    fields = [
        {"name": "a", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
        {"name": "b", "type": "year", "constraints": {"minimum": 1900, "maximum": 2030}},
        {"name": "c", "type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"}},
        {"name": "d", "type": "any"},
        {"name": "e", "type": "integer", "constraints": {"enum": list(range(42))}},
    ]
    (tmp_path / "s.json").write_text(json.dumps({"fields": fields, "missingValues": ["", "-"]}))
    variables = read_codebook(tmp_path / "s.json", "t")
    found = keys_of_columns(variables, list("abcde"))
    assert found["a"] == {"type": "boolean", "map": "{ja: true, nein: false}", "missing": "keep"}
    assert found["b"]["type"] == "integer" and found["c"]["lower"] == "2020-01-01" and "d" not in found
    assert found["e"]["values"] == "0..41" and missing_words(variables, list("abcde")) == ["-"]
