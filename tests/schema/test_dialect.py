"""How a file is written, as a schema states it and as options override it."""

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.dialect import ENCODINGS, Dialect, overridden

BASE = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "boolean"}}}


def test_what_is_stated_is_read_back():
    file = {"delimiter": ";", "quote": "'", "encoding": "Windows-1252", "thousands": "space", "decimal": ","}
    file |= {"dates": {"a": "%d.%m.%Y"}, "columns": ["a", "b"], "format": "csv"}
    schema = Schema.from_dict({**BASE, "file": file})
    assert schema.file.encoding == "cp1252" and schema.file.thousands == " "
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.file.date_format("a") == "%d.%m.%Y" and schema.file.date_format("b") is None


def test_a_release_carries_how_rows_are_written_and_no_name_that_is_not_used():
    file = {"delimiter": ";", "format": "csv", "columns": ["A", "illness", "column 2"], "dates": {"born": "%d.%m.%Y"}}
    published = Schema.from_dict({**BASE, "file": file}).published()
    assert published.to_dict()["file"] == {"delimiter": ";", "columns": ["A", "column 2", "column 3"]}
    assert Schema.from_dict({**BASE, "file": {"sheet": "2024"}}).published() == Schema.from_dict(BASE)
    words = Schema.from_dict({**BASE, "file": {"missing": {"a": ["NA", -9]}, "strip": ["EUR"]}})
    assert Schema.from_dict(words.to_dict()) == words == words.published()  # the table is read by what is published


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ({"delimitr": ";"}, "file has no key 'delimitr' .did you mean 'delimiter'"),
        ({"delimiter": "ab"}, "file.delimiter is 'ab'; write the one character"),
        ({"quote": "ab"}, "file.quote is 'ab'"),
        ({"encoding": "shift-jis"}, "file.encoding is 'shift-jis'; choose one of utf-8"),
        ({"decimal": ";"}, "file.decimal is ';'; it must be"),
        ({"decimal": ",", "thousands": ","}, "one character for decimals and thousands"),
        ({"thousands": "."}, "one character for decimals and thousands"),
        ({"dates": "%d"}, "file.dates is '%d'; write year, month and day"),
        ({"dates": "%d.%m.%Y %q"}, "file.dates holds %q"),
        ({"dates": "%d.%m.%Y %"}, "ends in the middle"),
        ({"columns": ["a", "a"]}, "file.columns lists 'a' twice"),
        ({"columns": ["a"], "encoding": "utf-16"}, "write encoding: utf-16-le"),
        ({"delimiter": "'", "quote": "'"}, "between fields and around them"),
        ({"format": "xls"}, "file.format is 'xls'; choose csv"),
        ({"missing": []}, "file.missing must be a list with something in it"),
        ({"missing": [False]}, "file.missing holds an entry that is false, which is how YAML reads an unquoted no"),
        ({"missing": [" "]}, "file.missing holds an entry that is empty"),
        ({"missing": {"a": []}}, "file.missing must be a list with something in it"),
        ({"strip": ["-"]}, "file.strip holds an entry that is '-'; write a currency or unit without digits"),
        ({"strip": [5]}, "file.strip holds an entry that is 5"),
        ("x", "file needs keys under it"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_key(file, said):
    with pytest.raises(SchemaError, match=said):
        Schema.from_dict({**BASE, "file": file})


def test_options_come_before_the_schema():
    both = overridden(Dialect(delimiter=";", decimal=","), {"delimiter": "tab", "columns": "a, b", "quote": None})
    assert (both.delimiter, both.decimal, both.columns) == ("\t", ",", ("a", "b"))
    assert overridden(None, {"quote": None}) is None
    with pytest.raises(SchemaError, match=r"^--delimiter is 'xy'"):
        overridden(None, {"delimiter": "xy"})
    with pytest.raises(SchemaError, match=r"^--file-format must be one of csv"):
        overridden(None, {"format": "xls"})


def test_every_encoding_is_one_that_python_knows():
    for name in ENCODINGS:
        assert "a;b\n".encode(name)
