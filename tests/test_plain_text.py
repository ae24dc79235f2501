"""Text of strangers: what has no shape is spelled out, what a spreadsheet would run is quoted, the rest is kept."""

from __future__ import annotations

import json
import sys
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import QueryError, SfumatoError
from sfumato.plain_text import aligned, escaped_json, printable, spreadsheet_safe, width

LEFT_ALONE = [
    "north-east",
    "Zürich, São Paulo",
    "Łódź (woj. łódzkie)",
    "東京都 / 大阪府",
    "Москва",
    "القاهرة",
    "תל אביב",
    "กรุงเทพมหานคร",
    "می\u200cخواهم",  # Persian: "I want", with a joiner between letters
    "क्\u200dष",  # Hindi, with a joiner between a mark and a letter
    "a\u00a0b",  # a blank that does not break
    "back\\slash [bold] 'quote' <b>",
    "5 €, ½, ±, ❤",
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_ordinary_text_of_any_script_is_left_alone(text):
    assert printable(text) == text
    assert escaped_json(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb\nc\td", "a\\x0db\\x0ac\\x09d"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x9b31m\x85\x90", "\\x9b31m\\x85\\x90"),
        ("\u202eevil\u202c\u2066\u2069", "\\u202eevil\\u202c\\u2066\\u2069"),
        ("a\u200bb\u200db\ufeff\u00ad", "a\\u200bb\\u200db\\ufeff\\xad"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ue000\ud800", "\\ue000\\ud800"),
        ("\U000e0041\U0010ffff", "\\U000e0041\\U0010ffff"),
        ("\u3164", "\\u3164"),
        ("\u0627\u200c", "\u0627\\u200c"),  # a joiner that joins nothing
    ],
)
def test_what_has_no_shape_is_spelled_out(text, shown):
    assert printable(text) == shown
    assert json.loads(escaped_json(json.dumps([text], ensure_ascii=False))) == [text]


@pytest.mark.full
def test_every_character_there_is_comes_out_printable_or_as_a_blank():
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        shown = printable(letter)
        assert all(one.isprintable() or category(one) == "Zs" for one in shown), hex(code)
        assert shown == letter or shown[0] == "\\"


@given(st.text(st.characters(codec=None)))
def test_it_is_done_once_and_for_all(text):
    assert printable(printable(text)) == printable(text)
    assert json.loads(escaped_json(json.dumps(text, ensure_ascii=False))) == text
    assert spreadsheet_safe(printable(text)).replace("'", "") == printable(text).replace("'", "")


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|'/c calc'!A1", "@SUM(1)", "+1+1", "-1-1", "-", "=", "  =1", "\u00a0=1", "\t1", "\r1", "\n=1", "\ufeff=1",
        "＝1+1", "＋1", "－1", "＠x", "﹦1", "-5 to -1", "-1e", "+1,5", "-0x1", "-inf", "+１",
    ],
)  # fmt: skip
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text):
    assert spreadsheet_safe(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["-1", "-5", "+1.5e3", "-.5", "5.", "-1E-9", "", "a=b", "18-25", "a@b.c", "1+1", "[-5, 0)", "'=1", "x;y;-3"]
)
def test_other_text_and_numbers_stay(text):
    assert spreadsheet_safe(text) == text


def test_a_semicolon_starts_a_cell_in_half_of_the_world():
    assert spreadsheet_safe("a;=1+1;b; @x") == "a;'=1+1;b;' @x"
    assert spreadsheet_safe("=a;=b") == "'=a;'=b"


def test_columns_line_up_for_what_is_shown():
    lines = aligned([["label", "n"], ["東京", "1"], ["a\x1bb", "22"], ["e\u0301", "3"]], left=[0])
    assert lines == ["label    n", "東京     1", "a\\x1bb  22", "e\u0301        3"]
    assert {width(line) for line in lines} == {10}


def test_a_message_is_printable_whoever_shows_it():
    error = QueryError("no value 'x\x1b[2J'\nhere \u202e")
    assert str(error) == "no value 'x\\x1b[2J'\\x0ahere \\u202e" and isinstance(error, SfumatoError)
    assert repr(error).isprintable()
