"""The JSON API: answers are those of the release, refusals are typed, and nothing but its own files is served."""

from __future__ import annotations

import csv
import io

import pytest
from exploring import HOSTILE, InProcess

import sfumato as sf
from sfumato.serve.web.answering import Desk
from sfumato.serve.web.requests import POLICY
from sfumato.serve.web.serving import explorer


def ask(client, kind, release="survey", **question):
    return client.post(f"/api/releases/{release}/{kind}", json=question)


def test_releases_are_listed_and_described(client, releases):
    listed = client.get("/api/releases").json()["releases"]
    assert [one["name"] for one in listed] == ["survey", "harm", "wide"] and listed[0]["epsilon"] == 5
    about = client.get(listed[0]["href"]).json()
    assert about["guarantee"]["epsilon"] == "5" and "148 times" in about["guarantee"]["statement"]
    assert [column["column"] for column in about["columns"]][:2] == ["age", "sex"]
    assert about["columns"][1]["labels"] == ["F", "M"] and about["summable"]["sum"] == ["hours", "age", "paid"]
    assert any("one particular person" in sentence for sentence in about["cannot"])
    assert str(releases[0].parent) not in client.get(listed[0]["href"]).text  # folders are nobody's business


@pytest.mark.parametrize("interval", ["typical", "guaranteed", "both"])
def test_a_query_gives_what_the_release_gives(client, releases, interval):
    sql = "SELECT sex, COUNT(*) AS n, AVG(hours) AS h FROM survey WHERE age >= 20 GROUP BY sex"
    answer = ask(client, "query", sql=sql, confidence=0.9, interval=interval).json()
    expected = sf.open(releases[0]).query(sql, confidence=0.9, interval=interval)
    assert answer["rows"] == expected.records() and answer["columns"] == list(expected.headers)
    assert answer["notes"] == list(expected.notes) and answer["counted"] == expected.counted


def test_a_chart_is_the_answer_to_its_own_sql(client, releases):
    where = [{"attribute": "age", "first": "20 to 29", "last": 59}, {"attribute": "sex", "labels": ["F"]}]
    chart = ask(client, "chart", by=["age", "region"], where=where).json()
    rows = sf.open(releases[0]).query(chart["sql"]).rows
    assert chart["keys"] == [[row[0], row[1]] for row in rows] and len(rows) == 16
    assert chart["values"] == pytest.approx([row[2].value for row in rows])
    assert chart["low"] == pytest.approx([row[2].low for row in rows])
    both = ask(client, "chart", by=["sex"], amount="average", of="hours", interval="both").json()
    ends = (
        "guaranteed_low",
        "low",
        "values",
        "high",
        "guaranteed_high",
    )  # whether they hold the truth is no test of this
    assert all(list(row) == sorted(row) for row in zip(*(both[end] for end in ends), strict=True))
    shares = ask(client, "chart", by=["member"], amount="share").json()
    assert sum(shares["values"]) == pytest.approx(1)
    median = ask(client, "chart", amount="median", of="age").json()
    assert median["keys"] == [[]] and 40 < median["values"][0] < 60


def test_two_groups_are_told_apart_only_where_noise_cannot_explain_it(client):
    """Epsilon 5 on 3,000 rows: 35 against 40 hours is beyond any noise; a group beside itself is not."""
    women, men = ([{"attribute": "sex", "labels": [one]}] for one in "FM")
    apart = ask(client, "compare", first=women, second=men, amount="average", of="hours").json()
    assert apart["real"] is True and "average hours of the first group is lower" in apart["statement"]
    assert "95 % sure" in apart["statement"] and apart["rows"][0]["difference_real"] is True
    share = ask(client, "compare", first=women, second=men, amount="share", having=[{"attribute": "age", "first": 50}])
    assert share.status_code == 200 and "points" in share.json()["statement"]
    tiny = ask(
        client,
        "compare",
        "wide",
        first=[{"attribute": "x", "labels": [77]}],
        second=[{"attribute": "x", "labels": [78]}],
    )
    assert tiny.json()["real"] is False and "could be chance" in tiny.json()["statement"]
    same = ask(client, "compare", first=women, second=women)
    assert same.status_code == 422 and "same" in same.json()["error"]


def test_csv_is_a_file_whose_labels_no_spreadsheet_runs(client):
    response = ask(client, "csv", "harm", sql='SELECT "<b>place</b>", COUNT(*) AS n FROM harm GROUP BY "<b>place</b>"')
    assert response.headers["content-type"].startswith("text/csv")
    assert response.headers["content-disposition"] == 'attachment; filename="harm.csv"'
    labels = [row[0] for row in csv.reader(io.StringIO(response.text))][1:8]
    assert '\'=HYPERLINK("x")' in labels and "\\u202eevil\\u202c" in labels


def test_labels_that_are_out_to_do_harm_are_data(client):
    chart = ask(client, "chart", "harm", by=["<b>place</b>"]).json()
    assert [key for (key,) in chart["keys"]] == HOSTILE
    for label in HOSTILE:
        one = ask(client, "chart", "harm", where=[{"attribute": "<b>place</b>", "labels": [label]}])
        assert one.status_code == 200 and one.headers["content-type"] == "application/json", label
    assert "\u202e" not in client.get("/api/releases/harm").text  # as an escape only


REFUSED = {
    "no release": ("/api/releases/nothing/query", {"sql": "SELECT 1"}, 404, "not_found"),
    "no such question": ("/api/releases/survey/drop", {}, 404, "not_found"),
    "traversal": ("/api/releases/..%2f..%2fetc%2fpasswd/query", {"sql": "x"}, 404, "not_found"),
    "no field": ("/api/releases/survey/query", {}, 422, "invalid"),
    "unknown field": ("/api/releases/survey/query", {"sql": "SELECT 1", "file": "/etc/passwd"}, 422, "invalid"),
    "number for text": ("/api/releases/survey/query", {"sql": 1}, 422, "invalid"),
    "no confidence": ("/api/releases/survey/query", {"sql": "SELECT 1", "confidence": 2}, 422, "invalid"),
    "not SQL": ("/api/releases/survey/query", {"sql": "SELEC ("}, 422, "unanswerable"),
    "writing": ("/api/releases/survey/query", {"sql": "DELETE FROM survey"}, 422, "unanswerable"),
    "reading files": ("/api/releases/survey/query", {"sql": "SELECT * FROM '/etc/passwd'"}, 422, "unanswerable"),
    "two statements": ("/api/releases/survey/query", {"sql": "SELECT 1; SELECT 2"}, 422, "unanswerable"),
    "other dataset": ("/api/releases/survey/query", {"sql": "SELECT COUNT(*) FROM harm"}, 422, "unanswerable"),
    "no attribute": ("/api/releases/survey/chart", {"by": ["nothing"]}, 422, "invalid"),
    "no label": ("/api/releases/survey/chart", {"where": [{"attribute": "sex", "labels": ["X"]}]}, 422, "unanswerable"),
    "beyond": ("/api/releases/survey/chart", {"where": [{"attribute": "age", "first": 500}]}, 422, "invalid"),
    "backwards": (
        "/api/releases/survey/chart",
        {"where": [{"attribute": "age", "first": 50, "last": 2}]},
        422,
        "invalid",
    ),
    "both forms": (
        "/api/releases/survey/chart",
        {"where": [{"attribute": "age", "first": 5, "labels": [3]}]},
        422,
        "invalid",
    ),
    "sum of nothing": ("/api/releases/survey/chart", {"amount": "sum"}, 422, "invalid"),
    "sum of text": ("/api/releases/survey/chart", {"amount": "sum", "of": "sex"}, 422, "invalid"),
    "no guarantee there": ("/api/releases/survey/chart", {"interval": "certain"}, 422, "invalid"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_typed_and_say_what_to_do(client, case):
    path, question, status, kind = REFUSED[case]
    response = client.post(path, json=question)
    said = response.json()
    assert (response.status_code, said["kind"]) == (status, kind) and said["error"] and said["what_to_do"]
    assert "Traceback" not in response.text and "sfumato/" not in response.text


def test_bodies_that_are_no_questions_are_refused(client):
    path = "/api/releases/survey/query"
    json = {"content-type": "application/json"}
    for body in (b"", b"{", b"\xff\xfe", b'"text"', b"[" * 5000, b'{"sql": "\\ud800"}', b"nul"):
        response = client.post(path, content=body, headers=json)
        assert response.status_code in (400, 422) and response.json()["what_to_do"], body
    assert client.post(path, content=b"sql=x").status_code == 415
    assert client.post(path, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post(path, content=b" " * 65_537, headers=json).status_code == 413

    def in_pieces():
        yield from (b" " * 10_000 for _ in range(8))

    assert client.post(path, content=in_pieces(), headers=json).json()["kind"] == "too_long"


def test_wrong_methods_and_addresses(client):
    for method, path in (
        ("GET", "/api/releases/survey/query"),
        ("DELETE", "/api/releases"),
        ("PUT", "/"),
        ("POST", "/"),
    ):
        response = client.request(method, path)
        assert response.status_code == 405 and response.json()["kind"] == "method" and response.headers["allow"]
    for path in ("/static/../app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/etc/passwd", "/static/", "/.git"):
        response = client.get(path)
        assert response.status_code == 404 and response.json()["kind"] == "not_found", path


def test_an_error_of_ours_is_json_and_says_nothing_of_what_was_asked(client, shelf, capsys):
    class Broken(InProcess):
        async def work(self, question):
            raise RuntimeError("a secret")

    client = type(client)(explorer(shelf, Desk(Broken(shelf))), raise_server_exceptions=False)
    for _ in range(2):
        found = ask(client, "query", sql="SELECT COUNT(*) AS n FROM survey")
        assert found.status_code == 500 and found.headers["content-type"] == "application/json"
        assert found.json()["kind"] == "internal" and found.json()["what_to_do"] and "secret" not in found.text
        assert found.headers["content-security-policy"] == POLICY
    said = capsys.readouterr().err
    assert said.count("internal error: RuntimeError") == 2 and "secret" not in said


def test_every_answer_has_the_headers_that_keep_a_page_to_itself(client):
    for response in (client.get("/"), client.get("/api/releases"), client.get("/nothing"), client.put("/")):
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in response.headers and "server" not in response.headers
    assert "unsafe" not in POLICY and "http" not in POLICY


def test_a_page_elsewhere_cannot_call_the_server_by_another_name(client):
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8484", ""):
        refused = client.get("/api/releases", headers={"host": host})
        assert refused.status_code == 421 and refused.json()["kind"] == "wrong_host", host
    for host in ("localhost:1", "127.0.0.1:8484", "[::1]:8484", "LOCALHOST"):
        assert client.get("/api/releases", headers={"host": host}).status_code == 200, host


def test_the_page_loads_nothing_from_elsewhere(client):
    page = client.get("/").text
    assert "://" not in page and "<script>" not in page and " style=" not in page and " on" + "click" not in page
    for path in (
        "/static/base.css",
        "/static/js/main.js",
        "/static/vendor/plot.umd.min.js",
        "/static/vendor/licences.txt",
    ):
        response = client.get(path)
        assert response.status_code == 200 and len(response.content) > 400, path
    again = client.get("/static/base.css", headers={"if-none-match": client.get("/static/base.css").headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_a_chart_has_a_highest_group_only_if_all_intervals_together_say_so(client, releases):
    release = sf.open(releases[0])
    for by in ("sex", "age", "region"):
        chart = ask(client, "chart", by=[by]).json()
        together = [row[1] for row in release.query(chart["sql"], simultaneous=True).rows]
        top = max(together, key=lambda one: one.value)
        assert chart["highest"] == all(one.high < top.low for one in together if one is not top), by
