"""Questions are refused by their size before anything is laid out for them."""

from __future__ import annotations

import tracemalloc

import pytest

from sfumato.serve.web.answers import size_of
from sfumato.serve.web.requests import Refusal


def test_a_question_over_a_milliard_cells_is_refused_before_it_allocates(client, shelf):
    """10^12 groups. A number for each would take 8 TB, one bit each 125 GB; the refusal takes less than 64 MB."""
    tracemalloc.start()
    answer = client.post("/api/releases/wide/query", json={"sql": "SELECT x, y, COUNT(*) FROM wide GROUP BY x, y"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 422 and answer.json()["kind"] == "too_large" and "10^9" in answer.json()["error"]
    assert peak < 64 * 2**20


def test_sizes_are_those_of_the_plan(shelf):
    survey, _, wide = (book.release for book in shelf)
    assert size_of("SELECT sex, COUNT(*), AVG(hours) FROM survey GROUP BY sex", survey).numbers == 4
    assert size_of("SELECT sex, COUNT(*) FROM survey WHERE sex = 'F' GROUP BY sex", survey).numbers == 1
    assert size_of("SELECT sex, COUNT(*) FROM survey GROUP BY sex", survey).cells == survey.domain.size
    assert size_of("SELECT COUNT(*) FROM wide WHERE x < 5 AND y > 7", wide).cells <= 9
    assert size_of("no statement", survey).cells == 0


def test_answers_with_too_many_numbers_are_refused(shelf, client):
    *_, wide = shelf
    with pytest.raises(Refusal, match="numbers"):
        size_of("SELECT x, COUNT(*) FROM wide GROUP BY x", wide.release).refuse_if_too_large(slow=False)
    chart = client.post("/api/releases/wide/chart", json={"by": ["x"]}).json()
    assert chart["kind"] == "too_large" and "filter" in chart["what_to_do"]
    few = client.post("/api/releases/wide/chart", json={"by": ["x"], "where": [{"attribute": "x", "last": 9}]}).json()
    assert [key for (key,) in few["keys"]] == list(range(10))
