"""44 statements that known tools send: answered as DuckDB answers them on the rows, or refused by name.

They are in tools_statements.txt, on a table of events whose release has next to no noise. Answers are compared without
error columns; `sfumato.errors` leaves these out.
"""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from pathlib import Path
from struct import unpack_from
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from exploring import desk_for, wire
from raw_wire import Raw, kinds

import sfumato as sf
from sfumato.serve.web.requests import Shelf

SCHEMA = {
    "dataset": "events",
    "privacy_unit": "row",
    "budget": {"epsilon": 1e6},
    "attributes": {
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-03-31"},
        "kind": {"type": "category", "values": ["click", "view", "buy"]},
        "region": {"type": "category", "values": ["North", "South", "East", "West"]},
        "age": {"type": "integer", "lower": 0, "upper": 99, "width": 20},
    },
    "measures": {"amount": {"lower": 0, "upper": 100}},
}
_STATEMENT = re.compile(
    r"^-- (?P<tool>[\w ]+): (?P<check>\w+).*\n(?P<text>(?:(?!--|=>|#).*\n)+)(?:=> (?P<right>.*(?:\n  .*)*))?", re.M
)


class Statement(NamedTuple):
    """What a tool sends. check: same, like, copied, refused, or a number of rows. right: the text after `=>`."""

    tool: str
    check: str
    text: str
    right: str


def statements() -> list[Statement]:
    text = Path(__file__).with_name("tools_statements.txt").read_text()
    return [
        Statement(*(" ".join((part or "").split()) for part in found.groups())) for found in _STATEMENT.finditer(text)
    ]


ALL = statements()
ANSWERED = [one for one in ALL if one.check != "refused"]


def table() -> pa.Table:
    """1,456 events, of which regions and kinds have very different numbers."""
    draw, days = np.random.default_rng(3), 91
    rows = days * 16
    return pa.table(
        {
            "day": [date(2024, 1, 1) + timedelta(days=number % days) for number in range(rows)],
            "kind": draw.choice(["click", "view", "buy"], rows, p=[0.3, 0.6, 0.1]),
            "region": draw.choice(["North", "South", "East", "West"], rows, p=[0.5, 0.3, 0.15, 0.05]),
            "age": draw.integers(0, 100, rows),
            "amount": draw.integers(0, 101, rows).astype(float),
        }
    )


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    made = sf.release(table(), sf.Schema.from_dict(SCHEMA), 1e6, mechanism="cells", ledger=folder / "ledger")
    path = made.save(folder / "events.sfumato")
    with wire(desk_for(Shelf.of([(path, sf.open(path))]), looks_up=True)) as found:
        yield found


@pytest.fixture(scope="module")
def truth():
    database = duckdb.connect()
    database.register("events", table())
    database.execute("CREATE SCHEMA public; CREATE VIEW public.events AS SELECT * FROM memory.main.events")
    return database


def ask(port: int, text: str) -> list[tuple[bytes, bytes]]:
    with Raw(port) as raw:
        raw.ask("SET client_min_messages = error; SET sfumato.errors = off")
        return raw.ask(text)


def cells(body: bytes) -> list[str | None]:
    """The values of a DataRow, as text."""
    found: list[str | None] = []
    at = 2
    for _ in range(unpack_from("!h", body)[0]):
        (size,) = unpack_from("!i", body, at)
        found.append(None if size < 0 else body[at + 4 : at + 4 + size].decode())
        at += 4 + max(size, 0)
    return found


def plain(value: object) -> object:
    """A value as a number or a text, a day without its midnight."""
    try:
        number = float(str(value))
    except ValueError:
        return str(value).removesuffix(" 00:00:00")
    return None if math.isnan(number) else number


@pytest.mark.parametrize("one", ANSWERED, ids=lambda one: f"{one.tool} {ANSWERED.index(one)}")
def test_it_is_answered(port, truth, one):
    found = ask(port, one.text)
    assert b"E" not in kinds(found), (one, [body.split(b"\0") for kind, body in found if kind == b"E"])
    rows = [[plain(cell) for cell in cells(body)] for kind, body in found if kind == b"D"]
    if one.check == "copied":
        assert kinds(found) == b"H" + b"d" * 4 + b"cCZ"
    elif one.check.isdigit():
        assert len(rows) == int(one.check), one
    else:
        own = one.right or sqlglot.transpile(one.text, read="postgres", write="duckdb")[0]
        right = [[plain(value) for value in row] for row in truth.execute(own).fetchall()]
        for mine, its in zip(sorted(rows, key=str), sorted(right, key=str), strict=True):
            assert [value for value in mine if isinstance(value, str)] == [
                value for value in its if isinstance(value, str)
            ]
            numbers, expected = ([value for value in row if not isinstance(value, str)] for row in (mine, its))
            assert numbers == pytest.approx(expected, rel=0.01, abs=0.1), one


@pytest.mark.parametrize("one", [one for one in ALL if one.check == "refused"])
def test_it_is_refused_by_name_with_what_to_do_instead(port, one):
    (body,) = [body for kind, body in ask(port, one.text) if kind == b"E"]
    assert all(part.encode() in body for part in one.right.split("; ")), one


def test_there_are_as_many_as_promised():
    assert len(ANSWERED) >= 42 and len(ALL) == 44
