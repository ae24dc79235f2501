"""Linked tables are served as tables side by side, which statements may join."""

from __future__ import annotations

import json

import pytest
from exploring import client_for, desk_for, wire
from hospital import linked_file
from raw_wire import Raw

from sfumato.releases.release import open_release
from sfumato.serve.web.answers import size_of
from sfumato.serve.web.requests import Limits, Shelf
from sfumato.serve.web.working import LENGTH, what_to_open

EACH = "COUNT(*) / COUNT(DISTINCT person_id) AS n"
JOINED = f"SELECT region, {EACH} FROM visits JOIN persons USING (person_id) GROUP BY region"


@pytest.fixture
def shelf(tmp_path):
    return Shelf.of([("linked.sfumato", open_release(linked_file(tmp_path), allow_not_private=True))])


def test_each_table_is_a_release_that_knows_the_others(shelf):
    assert [book.name for book in shelf] == ["persons", "visits"]
    client, whole = client_for(shelf), shelf.books[0].release.whole
    listed = client.get("/api/releases").json()["releases"]
    assert [(one["name"], one["epsilon"]) for one in listed] == [("persons", 16), ("visits", 16)]
    for name in ("persons", "visits"):
        about = client.get(f"/api/releases/{name}").json()
        assert [one["column"] for one in about["columns"]][:2] == ["age", "region"]
        told = client.post(f"/api/releases/{name}/query", json={"sql": JOINED}).json()
        assert told["rows"] == whole.query(JOINED).records()
        own = client.post(f"/api/releases/{name}/query", json={"sql": "SELECT COUNT(*) AS n FROM release"}).json()
        assert own["rows"] == whole.query(f"SELECT COUNT(*) AS n FROM {name}").records()
    chart = client.post("/api/releases/visits/chart", json={"by": ["ill"]}).json()
    assert chart["keys"] == [["cough"], ["fever"], ["fall"]]
    wrong = client.post("/api/releases/visits/query", json={"sql": "SELECT COUNT(*) FROM stays"})
    assert wrong.status_code == 422 and "persons, visits" in wrong.text


def test_the_size_of_a_question_is_that_of_the_tables_it_is_about(shelf):
    visits = shelf.find("visits").release
    assert size_of(JOINED, visits).numbers == 3
    crossed = "SELECT age, region, COUNT(*) / (SELECT COUNT(*) FROM persons) AS n FROM visits GROUP BY age, region"
    assert size_of(crossed, visits).numbers >= 15


def test_over_the_wire(shelf):
    with wire(desk_for(shelf, looks_up=True)) as port, Raw(port) as raw:
        tables = raw.ask("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        joined = raw.ask(
            "SELECT COUNT(*) AS n FROM public.visits v JOIN public.persons p USING (person_id) WHERE p.age < 40"
        )
        shown = raw.ask("SHOW TABLES")
        plain = raw.ask("SELECT COUNT(*) AS n FROM visits WHERE age < 40")
        both = raw.ask("SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM persons) AS n")
    for told in (tables, shown):
        found = b" ".join(body for kind, body in told if kind == b"D")
        assert b"persons" in found and b"visits" in found

    def rows(told):
        return [body for kind, body in told if kind == b"D"]

    assert rows(joined) == rows(plain) and len(rows(both)) == 1


def test_a_worker_that_is_started_afresh_opens_the_tables(tmp_path):
    path = linked_file(tmp_path)
    shelf = Shelf.of([(path, open_release(path, allow_not_private=True))])
    first = what_to_open(shelf, [path, path], "answers", Limits())
    names = [one[:2] for one in json.loads(first[LENGTH.size :])["files"]]
    assert names == [["persons", "persons"], ["visits", "visits"]]
