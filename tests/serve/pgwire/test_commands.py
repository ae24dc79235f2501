"""Commands on a session: which statements are one, and that none takes long to be read as one."""

from __future__ import annotations

import time

import pytest

from sfumato.serve.pgwire.commands import read_command
from sfumato.serve.pgwire.protocol import Failure

LONG = 60_000
SLOW = [
    *(
        "copy (" + part * (LONG // len(part))
        for part in (")", ") ", ") to ", ") to stdout (", "(", "'", '"', " ", "from ")
    ),
    *("copy (select 1) to stdout (" + part * (LONG // len(part)) for part in ("'", "e''", "format ", "(", ",", " ")),
    *("declare c " + part * (LONG // len(part)) for part in ("cursor ", '"', "for ", " ", "scroll")),
    *("fetch " + part * (LONG // len(part)) for part in ("1", "forward ", '"', " ", "from ")),
    *("create temp view " + part * (LONG // len(part)) for part in ("v", " ", '"', "as ", "v as ")),
    *("drop view " + part * (LONG // len(part)) for part in ("if exists ", " ", "v", '"', "cascade ")),
    *("set " + part * (LONG // len(part)) for part in ("local ", " ", "a", "a = ", "to ")),
    *("close " + part * (LONG // len(part)) for part in ("all ", " ", '"')),
]


@pytest.mark.parametrize("text", SLOW, ids=range(len(SLOW)))
def test_a_long_text_is_read_at_once(text):
    """Most take a millisecond; a pattern that goes back over its blanks would take minutes."""
    began = time.process_time()
    try:
        read_command(text + "!")
    except Failure as refused:
        assert refused.hint
    assert time.process_time() - began < 20


def test_questions_are_none():
    for text in ("SELECT 1", "with x as (select 1) select * from x", "VALUES (1)", "DESCRIBE survey", "(SELECT 1)"):
        assert read_command(text) is None


def test_what_is_inside_and_what_it_is_called():
    declared = read_command('DECLARE "My cursor" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 1 -- for x')
    assert (declared.name, declared.query, declared.held) == ("My cursor", "SELECT 1 -- for x", False)
    assert read_command("declare C insensitive cursor with hold for select 'for'").held
    copied = read_command("copy (select ')' as a) to stdout (format csv)")
    assert copied.query == "select ')' as a" and copied.copy.form == "csv"
    view = read_command("create or replace temporary view V as select 1")
    assert (view.name, view.query, view.lax) == ("v", "select 1", True)
    assert read_command("close all").name == "" and read_command('CLOSE "A"').name == "A"
