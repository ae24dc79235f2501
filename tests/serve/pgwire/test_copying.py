"""COPY (SELECT ...) TO STDOUT: the three formats, as drivers and the standard library read them."""

from __future__ import annotations

import csv
import io

import psycopg
import pytest
from exploring import HOSTILE
from raw_wire import EXECUTE, SYNC, Raw, bind, code, kinds, parse

from sfumato.serve.pgwire.commands import Copy, copied_rows, read_copy
from sfumato.serve.pgwire.protocol import BOOL, DATE, FLOAT8, INT8, TEXT, Failure

PLACES = 'SELECT "<b>place</b>" AS place, COUNT(*) AS n FROM harm GROUP BY "<b>place</b>"'
AWKWARD = ['a"b', "a,b", "a\tb", "a\nb", "\\.", "\\N", "", "a\\b", "\r", None, "é'", *HOSTILE]
COLUMNS = [("text", TEXT), ("n", INT8)]


@pytest.fixture
def connection(pg_port):
    with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", dbname="db", autocommit=True) as found:
        yield found


def bodies(copy: Copy, columns, rows) -> list[bytes]:
    found, data = [], copied_rows(copy, columns, rows)
    while data:
        length = int.from_bytes(data[1:5], "big")
        assert data[:1] == b"d"
        found.append(data[5 : length + 1])
        data = data[length + 1 :]
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *((text, Copy()) for text in ("", "WITH (FORMAT text)", "(FORMAT 'text', ENCODING 'UTF8')", "with (header 0)")),
        *((text, Copy("binary")) for text in ("WITH BINARY", "BINARY", "(FORMAT binary)", "WITH (format BINARY)")),
        *((text, Copy("csv", ",", "")) for text in ("CSV", "WITH CSV", "(FORMAT csv)", "(FORMAT csv, HEADER false)")),
        *((text, Copy("csv", ",", "", True)) for text in ("CSV HEADER", "WITH (FORMAT CSV, HEADER on)")),
        ("WITH CSV DELIMITER AS ';' NULL AS 'none' QUOTE '''' ESCAPE '\\'", Copy("csv", ";", "none", False, "'", "\\")),
        ("(DELIMITER '|', NULL '')", Copy("text", "|", "")),
    ],
)  # fmt: skip
def test_options_in_both_spellings(options, expected):
    assert read_copy(f"COPY (SELECT ')' FROM t) TO STDOUT {options}") == ("SELECT ')' FROM t", expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"COPY survey {rest}", "0A000") for rest in ("TO STDOUT", "(age) TO STDOUT", "TO '/tmp/x'")),
        *((f"COPY (SELECT 1) TO {rest}", "0A000") for rest in ("'/tmp/x'", "PROGRAM 'sh'", "STDIN")),
        *((f"COPY survey FROM {rest}", "25006") for rest in ("STDIN", "'/etc/passwd'", "PROGRAM 'sh'")),
        *((f"COPY (SELECT 1) TO STDOUT ({rest})", "22023") for rest in ("FORMAT xml", "DELIMITER ''", "HEADER maybe")),
        *((f"COPY (SELECT 1) TO STDOUT ({rest})", "22023") for rest in ("FORMAT binary, HEADER", "DELIMITER 'a'")),
        *((f"COPY (SELECT 1) TO STDOUT ({rest})", "22023") for rest in ("NULL 'a\tb'", "ENCODING 'LATIN1'")),
        ("COPY (SELECT 1) TO STDOUT (FREEZE)", "42601"),
    ],
)
def test_what_is_no_copy_of_an_answer_is_refused(text, expected):
    with pytest.raises(Failure) as refused:
        read_copy(text)
    assert refused.value.code == expected and refused.value.hint


@pytest.mark.parametrize(
    "form", [Copy("csv", ",", ""), Copy("csv", ";", "none"), Copy("csv", "\t", "\\N", True, "'", "'")]
)
def test_csv_is_read_back_by_the_standard_library(form):
    """But for NULL, which it does not tell from an empty text; that is told apart by quotes."""
    found = bodies(form, COLUMNS, [(text, 1) for text in AWKWARD])
    read = list(
        csv.reader(io.StringIO(b"".join(found).decode(), newline=""), delimiter=form.delimiter, quotechar=form.quote)
    )
    named = [["text", "n"]] if form.header else []
    assert read == [*named, *([form.null if text is None else text, "1"] for text in AWKWARD)]
    of_null, of_empty = found[len(named) + AWKWARD.index(None)], found[len(named) + AWKWARD.index("")]
    assert of_null == f"{form.null}{form.delimiter}1\n".encode()
    assert of_empty == f"{form.quote * 2}{form.delimiter}1\n".encode()


def test_text_and_binary_are_read_back_by_a_driver(connection):
    given = [text for text in AWKWARD if text is not None]
    listed = ", ".join(f"('{text.replace(chr(39), chr(39) * 2)}', {number})" for number, text in enumerate(given))
    for options in ("", "(DELIMITER ',', NULL 'b')", "WITH BINARY"):
        with connection.cursor().copy(f"COPY (VALUES {listed}, (NULL, NULL)) TO STDOUT {options}") as copy:
            copy.set_types(["text", "int8"])
            if options.startswith("("):
                found = b"".join(copy).decode()
                assert found.endswith("\nb,b\n") and "a\\,b,1\n" in found and "\\\\N,5\n" in found
                continue
            assert list(copy.rows()) == [*((text, number) for number, text in enumerate(given)), (None, None)]


def test_a_binary_copy_has_a_head_and_an_end():
    found = bodies(Copy("binary"), COLUMNS, [("a", 1)])
    assert found[0].startswith(b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\2") and found[1:] == [b"\xff\xff"]
    assert bodies(Copy("binary"), COLUMNS, [])[0][19:] == b"\xff\xff"


def test_a_copy_has_the_rows_of_its_select(connection):
    for text in (PLACES, "SELECT member, age, AVG(hours) AS h FROM survey GROUP BY member, age", "VALUES (1), (2)"):
        cursor = connection.execute(text)
        plain, types = cursor.fetchall(), [column.type_code for column in cursor.description]
        for options in ("", "WITH (FORMAT binary)"):
            with connection.cursor().copy(f"COPY ({text}) TO STDOUT {options}") as copy:
                copy.set_types(types)
                assert list(copy.rows()) == plain
        with connection.cursor().copy(f"COPY ({text}) TO STDOUT CSV HEADER") as copy:
            lines = list(csv.reader(io.StringIO(b"".join(copy).decode(), newline="")))
        assert lines[0] == [column.name for column in cursor.description] and len(lines) == len(plain) + 1


def test_messages_of_a_copy_in_both_protocols(pg_port):
    with Raw(pg_port) as raw:
        raw.ask("SET client_min_messages = error")
        text = "COPY (SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex) TO STDOUT WITH (FORMAT csv)"
        found = raw.ask(text)
        assert kinds(found) == b"HddcCZ" and found[-2] == (b"C", b"COPY 2\0")
        assert found[0][1] == b"\0\0\5" + bytes(10)
        raw.send(parse(text), (b"D", b"S\0"), bind(), (b"D", b"P\0"), EXECUTE, SYNC)
        assert kinds(raw.until(b"Z")) == b"1tn2nHddcCZ"
        assert kinds(raw.ask("COPY (SELECT 1) TO STDOUT BINARY; SELECT 1")) == b"HddcCTDCZ"
        for wrong, expected in (
            ("COPY (SELECT nothing FROM survey) TO STDOUT", "42703"),
            ("COPY (DELETE FROM survey) TO STDOUT", "25006"),
            ("COPY (SET a = 1) TO STDOUT", "42601"),
            ("COPY (COPY (SELECT 1) TO STDOUT) TO STDOUT", "42601"),
            ("COPY (" + " " * 60_000, "0A000"),
        ):
            assert code(raw.ask(wrong)) == expected
            raw.send(parse(wrong), bind(), EXECUTE, SYNC)
            assert code(raw.until(b"Z")) == expected


def test_types_are_those_of_answers():
    columns = [("b", BOOL), ("d", DATE), ("f", FLOAT8)]
    assert bodies(Copy(), columns, [(True, "2024-06-01", 2.0), (None, None, None)]) == [
        b"t\t2024-06-01\t2\n",
        b"\\N\t\\N\t\\N\n",
    ]
