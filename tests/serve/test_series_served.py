"""A series is served like a release: by the JSON API, in charts, and over PostgreSQL's protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from exploring import client_for, desk_for, wire
from months import MONTHS, months_of
from raw_wire import Raw

from sfumato.releases.file.series import append_part
from sfumato.releases.release import open_release
from sfumato.serve.web.requests import Shelf

ASKED = "SELECT period, COUNT(*) AS n FROM visits GROUP BY period"
MISSED = "2026-03 has no part and is in no number"


@pytest.fixture
def months(tmp_path):
    for month, one in zip(MONTHS, months_of("cells"), strict=True):
        append_part(tmp_path / "visits.sfumato", replace(one, published=None).save(tmp_path / month), month)
    return Shelf.of([("visits.sfumato", open_release(tmp_path / "visits.sfumato", allow_not_private=True))])


def test_a_query_by_period(months):
    client = client_for(months)
    (listed,) = client.get("/api/releases").json()["releases"]
    columns = client.get(listed["href"]).json()["columns"]
    assert columns[0]["column"] == "period" and columns[0]["ordered"] and "2026-02" in columns[0]["labels"]
    told = client.post("/api/releases/visits/query", json={"sql": ASKED}).json()
    assert told["rows"] == months.find("visits").release.query(ASKED).records() and told["notes"] == [MISSED]
    assert [row["period"] for row in told["rows"]] == list(MONTHS)
    early = ASKED.replace("FROM visits", "FROM visits AS OF '2026-02'")
    told = client.post("/api/releases/visits/query", json={"sql": early}).json()
    assert [row["period"] for row in told["rows"]] == list(MONTHS[:2])


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ({"by": ["period"]}, [[month] for month in MONTHS]),
        ({"by": ["period"], "amount": "average", "of": "cost"}, [[month] for month in MONTHS]),
        (
            {"by": ["period"], "where": [{"attribute": "period", "first": "2026-01", "last": "2026-02"}]},
            [["2026-01"], ["2026-02"]],
        ),
        (
            {"by": ["ward"], "where": [{"attribute": "period", "labels": ["2026-02"]}]},
            [["surgery"], ["children"], ["heart"]],
        ),
    ],
)
def test_a_chart_over_periods(months, asked, keys):
    told = client_for(months).post("/api/releases/visits/chart", json=asked).json()
    rows = months.find("visits").release.query(told["sql"]).rows
    assert told["keys"] == keys and told["values"] == pytest.approx([row[-1].value for row in rows])
    assert all(low <= value <= high for low, value, high in zip(told["low"], told["values"], told["high"], strict=True))


def test_over_the_wire(months):
    with wire(desk_for(months, looks_up=True)) as port, Raw(port) as raw:
        told = raw.ask(ASKED)
        columns = raw.ask("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'visits'")
        recent = raw.ask("SELECT COUNT(*) AS n FROM visits WHERE period >= '2026-02'")
        as_of = raw.ask("SELECT COUNT(*) AS n FROM visits AS OF '2026-02'")
        renamed = raw.ask("SELECT COUNT(*) AS n FROM public.visits AS OF '2026-02' AS v")  # the text is written anew
    expected = months.find("visits").release.query(ASKED).rows
    first = sum(count.value for _, count in expected[:2])
    assert [float(_texts(body)[0]) for kind, body in (*as_of, *renamed) if kind == b"D"] == pytest.approx(
        [first, first], rel=1e-12
    )
    rows = [_texts(body)[:2] for kind, body in told if kind == b"D"]
    assert rows == [[month, f"{count.value:.0f}"] for month, count in expected]
    assert any(kind == b"N" and MISSED.encode() in body for kind, body in told)
    assert ["period", "date"] in [_texts(body) for kind, body in columns if kind == b"D"]
    (counted,) = [_texts(body)[0] for kind, body in recent if kind == b"D"]
    assert float(counted) == sum(count.value for _, count in expected[1:])


def _texts(body):
    """The values of a row, none of which is missing."""
    found, at = [], 2
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        found.append(body[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found
