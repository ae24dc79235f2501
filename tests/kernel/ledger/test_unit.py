"""The privacy unit: in words, and written so that no two units look alike."""

import json

import pytest

from sfumato.kernel.ledger.book import ROW, Unit


def test_words_name_the_unit_and_every_cap_on_its_rows():
    assert ROW.in_words(1) == "any one row"
    assert Unit("person_id").in_words(1) == "the rows of any one person_id (at most 1 row each)"
    assert Unit("person_id").in_words(3) == "the rows of any one person_id (at most 3 rows each)"
    assert Unit("person_id").in_words(10, 2, 10) == "the rows of any one person_id (at most 2 or 10 rows each)"
    assert Unit("person_id").in_words(1, as_one=True) == "the rows of any one person_id (all of them, as one row)"


@pytest.mark.parametrize(
    "column", [None, "row", 'column "row"', "null", "", "a b", 'with "quotes"', "Straße", "\ud800"]
)
def test_what_is_written_is_read_back(column):
    written = Unit(column).written()
    assert Unit.read(written) == Unit(column) and written.isascii()


def test_no_two_units_are_written_alike():
    columns = [None, "row", "column", 'column "row"', '"row"', "ROW", "null"]
    assert len({Unit(column).written() for column in columns}) == len(columns)


@pytest.mark.parametrize(
    "text", ["", "rows", "column", "column x", "column 3", 'column  "x"', 'column "x" ', b"row", 1]
)
def test_anything_else_is_no_unit(text):
    with pytest.raises((ValueError, json.JSONDecodeError)):
        Unit.read(text)
