"""What can go wrong with a server, said in one line without its text, a value or a password; and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from postgres import own_schema
from running import sfumato
from waiting import PATIENCE, wait_until

from sfumato.errors import TableError
from sfumato.kernel.reading.engines.postgres.session import SETTINGS, Address, Session
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema
from sfumato.version import install_command

YAML = """
dataset: t
privacy_unit: row
budget: {epsilon: 3}
attributes:
  x: {type: integer, lower: 0, upper: 9}
"""
SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
)
SLOW = (
    "CREATE TABLE t AS SELECT 1 AS x; "
    "CREATE VIEW slow AS SELECT x + CASE WHEN pg_sleep(600) IS NULL THEN 0 ELSE 1 END x FROM t"
)


@pytest.fixture(scope="module")
def server():
    with own_schema() as (connection, url, name):
        connection.execute(f"{SLOW}; INSERT INTO t VALUES (3)")
        yield SimpleNamespace(run=connection.execute, url=url, name=name)


def failing(url: str, name: str | None, **how: bool) -> str:
    with pytest.raises(TableError) as raised, open_table(url, name=name, **how) as table:
        table.check(SCHEMA)
        table.aggregate(SCHEMA, 1)
    error = raised.value
    assert error.__cause__ is None and error.__context__ is None
    return str(error)


def test_a_transaction_can_write_nothing_and_depends_on_no_setting(server):
    session = Session(Address(server.url + "&options=-c%20TimeZone%3DAsia/Tokyo", "a server", ""))
    with session.reading():
        session.settle()
        for name, value in SETTINGS.items():
            assert session.rows(f"SELECT current_setting('{name}')") == [(value,)]
        assert session.rows("SHOW transaction_read_only") == [("on",)]
    with pytest.raises(TableError), session.reading():
        session.rows(f"INSERT INTO {server.name}.t VALUES (1) RETURNING 1")
    session.close()


def test_what_a_server_lacks(server):
    url, name = server.url, server.name
    assert "there is no table 'none' in postgresql:///postgres; it has" in failing(url, "none")
    assert f"{name}.t" in failing(url, f"{name}.none")
    assert "no table was named (--table)" in failing(url, None)
    said = failing(url.replace("/postgres?", "/none?"), "t")
    assert said == "postgresql:///none has no such database; check its name"
    assert "knows no such user" in failing(url.replace("postgres@", "nobody@"), "t")
    assert "no server answers at postgresql://127.0.0.1:9/d" in failing("postgresql://u:hunter2@127.0.0.1:9/d", "t")


def test_a_table_on_the_search_path_needs_no_schema(server):
    url = f"{server.url}&options=-c%20search_path%3D{server.name}"
    with open_table(url, name="t") as table:
        assert table.aggregate(SCHEMA, 1).cells.tolist() == [1, 3]


@pytest.mark.parametrize("part", ["u:hun/ter2@h", "u:hun@ter2@h", "u:hunter2@h:5432:x/d/e", "u:hunter2@h\n"])
def test_a_url_that_is_not_understood_is_not_quoted(part):
    said = failing(f"postgresql://{part}/d", "t")
    assert "hun" not in said and "ter2" not in said


def test_a_timeout_and_a_lost_connection(server):
    slow = f"{server.name}.slow"
    timed = f"{server.url}&options=-c%20statement_timeout%3D300"
    assert "by its statement_timeout" in failing(timed, slow, allow_views=True)

    def end() -> None:
        sleeping = f"WHERE wait_event = 'PgSleep' AND application_name = '{server.name}'"
        stop = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity {sleeping}"
        wait_until(lambda: server.run(stop).fetchall())

    ending = threading.Thread(target=end)
    ending.start()
    said = failing(server.url, slow, allow_views=True)
    ending.join()
    assert said == "the connection to postgresql:///postgres was lost; check the server and the network"


def test_an_error_of_the_server_is_not_passed_on(server):
    server.run("CREATE OR REPLACE VIEW failing AS SELECT CAST('secret' || x AS integer) AS x FROM t")
    said = failing(server.url, f"{server.name}.failing", allow_views=True)
    assert "secret" not in said and "could not be read to its end" in said


def test_no_password_is_shown_or_kept(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text(YAML)
    url = server.url.replace("postgres@", "postgres:hunter2@") + "&password=hunter3"
    common = ["--table", f"{server.name}.t", "--schema", "t.yaml", "--epsilon", "1", "-o", "t.sfumato"]
    runs = [sfumato("release", url, *common, *more) for more in (["--dry-run"], [], [], ["--again"])]
    runs += [sfumato("init", url, "--table", f"{server.name}.t"), sfumato("release", url, *common[2:])]
    runs.append(sfumato("ledger", "show"))
    assert [run.returncode for run in runs[:2]] == [0, 0], runs[0].stderr + runs[1].stderr
    said = "".join(run.stdout + run.stderr for run in runs).encode()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter" not in said + kept


def test_a_keyring_is_asked_where_a_password_is_needed(monkeypatch):
    asked, given = [], []

    def connect(conninfo: str, password: str | None = None, **how: object) -> None:
        given.append(password)
        state = SimpleNamespace(needs_password=password is None, used_password=True)
        raise type("Refused", (psycopg.OperationalError,), {"pgconn": state})("fe_sendauth: no password supplied")

    monkeypatch.setattr(psycopg, "connect", connect)
    ring = SimpleNamespace(get_password=lambda service, place: asked.append((service, place)) or "hunter2")
    monkeypatch.setitem(sys.modules, "keyring", ring)
    said = failing("postgresql://ada@example.org/census", "t")
    assert asked == [("sfumato", "postgresql://ada@example.org/census")] and given == [None, "hunter2"]
    assert "hunter2" not in said
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "asks for a password" in failing("postgresql://ada@example.org/census", "t")


def test_a_missing_driver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert failing("postgresql://h/d", "t") == f"PostgreSQL needs psycopg; {install_command('postgres')}"


def test_an_interrupt_cancels_the_query_on_the_server(server, tmp_path, ctrl_c):
    (tmp_path / "t.yaml").write_text(YAML)
    command = [sys.executable, "-m", "sfumato", "release", server.url, "--table", f"{server.name}.slow"]
    command += ["--allow-views", "--schema", "t.yaml", "--epsilon", "1", "-o", "t.sfumato"]
    run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ)
    running = (
        f"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = '{server.name}'"
    )
    wait_until(lambda: server.run(running).fetchone() == (1,))
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130 and "interrupted" in said and "reserved" in said
    assert server.run(running).fetchone() == (0,)
    assert server.run("SELECT count(*) FROM pg_class WHERE relpersistence = 't'").fetchone() == (0,)
    open_still = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{server.name}'"
    wait_until(lambda: server.run(open_still).fetchone() == (0,))  # the server notices that the connection is gone


def lets_in(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.Error:
        return False
    return True


def test_passwords_come_from_where_libpq_finds_them(server, tmp_path, monkeypatch):
    """A server that really asks: its own list of who may come in gets a line for one user."""
    ((folder,),) = server.run("SHOW data_directory").fetchall()
    user, list_of_users = f"asked_{server.name}", Path(folder, "pg_hba.conf")
    server.run(f"CREATE ROLE {user} LOGIN PASSWORD 'hunter2'; GRANT USAGE ON SCHEMA {server.name} TO {user}")
    server.run(f"GRANT SELECT ON {server.name}.t TO {user}")
    before = list_of_users.read_text()
    list_of_users.write_text(f"local all {user} scram-sha-256\n{before}")
    server.run("SELECT pg_reload_conf()")
    url, name = server.url.replace("postgres@", f"{user}@"), f"{server.name}.t"
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    try:
        wait_until(lambda: not lets_in(url))  # until the server has read it
        assert "asks for a password; put it into ~/.pgpass" in failing(url, name)
        monkeypatch.setenv("PGPASSWORD", "hunter1")
        said = failing(url, name)
        assert "refuses this user or password" in said and "hunter1" not in said
        monkeypatch.delenv("PGPASSWORD")
        passwords = tmp_path / "pgpass"
        passwords.write_text(f"*:*:*:{user}:hunter2\n")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
        with open_table(url, name=name) as table:
            assert table.aggregate(SCHEMA, 1).cells.tolist() == [1, 3]
    finally:
        list_of_users.write_text(before)
        server.run(f"SELECT pg_reload_conf(); DROP OWNED BY {user}; DROP ROLE {user}")


def test_a_database_in_another_encoding_is_refused(server):
    name = f"latin_{server.name}"
    server.run(f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    try:
        assert "holds text as LATIN1; only databases in UTF8" in failing(
            server.url.replace("/postgres?", f"/{name}?"), "t"
        )
    finally:
        server.run(f"DROP DATABASE {name} WITH (FORCE)")
