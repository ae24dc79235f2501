"""Simple questions: answers, refusals with their codes, transactions, settings."""

from __future__ import annotations

import json
import urllib.request

import psycopg
import pytest
from exploring import HOSTILE
from raw_wire import Raw, code, kinds

BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(hours) AS h FROM survey GROUP BY sex"


@pytest.fixture
def connection(pg_port):
    with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", dbname="db", autocommit=True) as found:
        yield found


def test_answers_are_those_of_the_json_api_with_their_error_columns(connection, address):
    body = json.dumps({"sql": BY_SEX}).encode()
    asked = urllib.request.Request(
        f"{address}api/releases/survey/query", body, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(asked) as answer:
        told = json.load(answer)
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        rows = cursor.execute(BY_SEX).fetchall()
        assert [column.name for column in cursor.description] == told["columns"]
        assert rows == [tuple(row.values()) for row in told["rows"]]
        assert [column.type_code for column in cursor.description] == [25] + [701] * 8


def test_notes_come_along_unless_they_are_not_wanted(connection):
    heard = []
    connection.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    connection.execute("SELECT COUNT(*) AS n FROM survey WHERE age < 25")
    assert any("cuts" in line for line in heard) and any(line.startswith("counted: ") for line in heard)
    connection.execute("SET client_min_messages = warning")
    heard.clear()
    connection.execute("SELECT COUNT(*) AS n FROM survey WHERE age < 26")
    assert heard == []


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        *(
            (text, "25006")
            for text in ("INSERT INTO survey VALUES (1)", "/* x */ drop table survey", "BEGIN READ WRITE")
        ),
        *(
            (text, "25006")
            for text in (
                "WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x",
                "SET transaction_read_only = off",
            )
        ),
        *((text, "25006") for text in ("SELECT relname INTO other FROM pg_class", "SELECT * FROM pg_class FOR UPDATE")),
        ("COPY survey TO STDOUT", "0A000"),
        ("COPY (SELECT COUNT(*) FROM survey) TO PROGRAM 'sh'", "0A000"),
        ("EXPLAIN SELECT 1", "0A000"),
        ("SELECT nothing FROM survey", "42703"),
        ("SELECT COUNT(* FROM survey", "42601"),
        ("SELECT 'open", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT COUNT(*) FROM survey JOIN harm ON true", "0A000"),
        ("SELECT COUNT(*) FROM survey, pg_class", "0A000"),
        ("SELECT x, y, COUNT(*) FROM wide GROUP BY x, y", "54000"),
        ("SELECT " + "(" * 2000 + "1" + ")" * 2000, "42000"),
        ("SELECT " + "NOT " * 4000 + "true", "42000"),
        ("SELECT COUNT(*) FROM survey WHERE age < " + "1" * 70_000, "54000"),
        (";".join(["SELECT 1"] * 101), "54000"),
        ("SET sfumato.confidence = 2", "22023"),
        ("SET sfumato.nonsense = 2", "22023"),
        ("SET sfumato.errors = sometimes", "22023"),
        ("SET sfumato.strict = perhaps", "22023"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SHOW nothing", "42704"),
        ("DEALLOCATE nothing", "26000"),
    ],
)
def test_refusals_have_their_code_one_line_and_no_more(pg_port, statement, expected):
    with Raw(pg_port) as raw:
        found = raw.ask(statement)
        assert code(found) == expected and kinds(found)[-2:] == b"EZ" and found[-1] == (b"Z", b"I")
        assert kinds(raw.ask("SELECT 1")) == b"TDCZ"  # and the connection is as good as before


def test_several_statements_are_answered_up_to_the_first_that_fails(pg_port):
    with Raw(pg_port) as raw:
        found = raw.ask("SELECT 1; SET sfumato.strict = on; ; SELECT nothing FROM survey; SELECT 2")
        assert kinds(found) == b"TDCCEZ"
        assert kinds(raw.ask(" -- nothing\n ;")) == b"IZ"


def test_a_transaction_that_failed_wants_a_rollback(pg_port):
    with Raw(pg_port) as raw:
        assert raw.ask("BEGIN")[-1] == (b"Z", b"T")
        assert raw.ask("SAVEPOINT here; SELECT nothing FROM survey")[-1] == (b"Z", b"E")
        assert code(raw.ask("SELECT 1")) == "25P02"
        assert raw.ask("ROLLBACK TO here")[-1] == (b"Z", b"T")
        assert kinds(raw.ask("SELECT 1")) == b"TDCZ"
        assert raw.ask("ROLLBACK")[-1] == (b"Z", b"I")


def test_how_sure_answers_are_is_a_setting(pg_port):
    count = "SELECT COUNT(*) AS n FROM survey WHERE sex = 'F'"
    with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", options="-c sfumato.confidence=0.5") as connection:
        narrow = connection.execute(count).fetchone()
        connection.execute("SET sfumato.confidence TO 0.99")
        assert connection.execute("SHOW sfumato.confidence").fetchone() == ("0.99",)
        wide = connection.execute(count).fetchone()
        assert wide[0] == narrow[0] and wide[2] < narrow[2] <= narrow[3] < wide[3]
        connection.execute("SET sfumato.interval = 'both'")
        assert len(connection.execute(count).fetchone()) == 6
        connection.execute("RESET ALL")
        assert connection.execute("SHOW sfumato.interval").fetchone() == ("typical",)


def test_error_columns_are_left_out_for_tools_that_count_columns(pg_port, address):
    for text, names in ((BY_SEX, ["sex", "n", "h"]), (BY_SEX + " LIMIT 0", ["sex", "n", "h"])):
        for options in ("-c sfumato.errors=off", "-c sfumato.errors=none"):
            with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", options=options) as connection:
                assert [column.name for column in connection.execute(text).description] == names
                connection.execute("SET sfumato.errors = on")
                assert len(connection.execute(text).description) == 9
    body = json.dumps({"sql": BY_SEX, "errors": False}).encode()
    asked = urllib.request.Request(f"{address}api/releases/survey/query", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        assert json.load(answer)["columns"] == ["sex", "n", "h"]


def test_labels_are_data_whatever_is_in_them(connection):
    rows = connection.execute('SELECT "<b>place</b>", COUNT(*) AS n FROM harm GROUP BY "<b>place</b>"').fetchall()
    assert sorted(row[0] for row in rows) == sorted(HOSTILE)
    for label in HOSTILE:
        found = connection.execute('SELECT COUNT(*) AS n FROM harm WHERE "<b>place</b>" = %s', [label]).fetchone()
        assert found[0] == next(row[1] for row in rows if row[0] == label)


def test_tables_are_called_as_tools_call_them(connection):
    expected = connection.execute("SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex").fetchall()
    for table, column in (
        ("public.survey", "sex"),
        ('"public"."survey"', '"public"."survey"."sex"'),
        ('db.public."survey"', "survey.sex"),
        ("SURVEY AS s", "s.sex"),
    ):
        found = connection.execute(f"SELECT {column}, COUNT(*) AS n FROM {table} GROUP BY {column}").fetchall()
        assert found == expected
    assert connection.execute("DESCRIBE survey").fetchone()[0] == "age"
