"""From a text to the bytes of an answer: columns and types, and that no file is opened on the way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from exact_release import save_visits

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.serve.pgwire.asking import Answer, Asked, answer
from sfumato.serve.pgwire.catalogue.tables import Catalogue, Who
from sfumato.serve.pgwire.protocol import BOOL, DATE, FLOAT8, INT8, TEXT, TIMESTAMP, Failure, Given
from sfumato.serve.web.questions import Query
from sfumato.serve.web.requests import Refusal, Shelf

ME = Who("me", "db")
HOW = Query(sql="-")
LABELS = "SELECT age, member, COUNT(*) AS n, AVG(hours) - 30 AS d FROM survey WHERE age >= $1 GROUP BY age, member"
opened: list[str] = []
watching = False


def watch(event: str, given: tuple[object, ...]) -> None:
    if watching and event in ("open", "subprocess.Popen", "socket.connect", "os.listdir"):
        opened.append(f"{event} {given[0]}")


def ask(shelf, catalogue, text, **more):
    return Answer.unpacked(answer(shelf, catalogue, Asked(text, ME, HOW, **more)))


def test_columns_are_known_before_values_are(shelf, catalogue):
    """Their types do not depend on the values, nor on which numbers happen to be whole."""
    before = ask(shelf, catalogue, LABELS, values=None)
    after = ask(shelf, catalogue, LABELS, values=(Given(b"90", False),), announced=before.columns)
    assert before.parameters == after.parameters == (INT8,) and before.count == 20 and after.count == 2
    types = dict(after.columns)
    assert types["age"] == TEXT and types["member"] == BOOL  # bins are texts
    assert {oid for name, oid in after.columns if name.startswith(("n", "d_low"))} == {FLOAT8}
    empty = ask(shelf, catalogue, "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex LIMIT 0")
    assert empty.columns[:2] == (("sex", TEXT), ("n", FLOAT8)) and empty.rows == b""


def test_an_answer_that_is_not_as_announced_is_refused(shelf, catalogue):
    told = (("sex", INT8), *((name, FLOAT8) for name in ("n", "n_stderr", "n_low", "n_high")))
    with pytest.raises(Failure, match="cached plan must not change result type"):
        ask(shelf, catalogue, "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex", announced=told)


def test_no_file_is_opened_for_an_answer(shelf, catalogue):
    """Seen by an audit hook, which Python's own modules go by too when they are first needed: these alone may."""
    global watching  # noqa: PLW0603 (a hook cannot be taken off again, only switched off)
    sys.addaudithook(watch)
    texts = [
        "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex",
        "SELECT * FROM '/etc/passwd'",
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "SELECT COUNT(*) FROM survey WHERE sex IN (SELECT column0 FROM '/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd')",
        'SELECT "x" FROM "/etc/passwd"',
        "SELECT relname FROM pg_catalog.pg_class",
    ]
    watching, refused = True, 0
    try:
        for text in texts:
            try:
                ask(shelf, catalogue, text)
            except (Failure, Refusal, SfumatoError):
                refused += 1
    finally:
        watching = False
    assert refused == 5
    others = [one for one in opened if not one.endswith((".py", ".pyc")) and not Path(one.partition(" ")[2]).is_dir()]
    assert others == [] and not any("etc" in one.partition(" ")[2].split("/") for one in opened)


def test_days_are_dates_and_what_looks_like_one_is_text(tmp_path):
    path = save_visits(tmp_path)
    shelf = Shelf.of([(path, sf.open(path))])
    catalogue = Catalogue(shelf)

    def types(columns: str, more: str = "") -> dict[str, int]:
        found = ask(shelf, catalogue, f"SELECT {columns}, COUNT(*) AS n FROM visits GROUP BY {columns} {more}").columns
        return {name: oid for name, oid in found if not name.startswith("n")}

    for more in ("", "LIMIT 0", "HAVING COUNT(*) > -1"):
        assert types("day, code", more) == {"day": DATE, "code": TEXT}
        assert types("month, at", more) == {"month": TEXT, "at": TIMESTAMP}
    columns = ask(shelf, catalogue, "SELECT MAX(day) AS last, MEDIAN(at) AS middle FROM visits LIMIT 0").columns
    assert dict(columns)["last_low"] == DATE and dict(columns)["middle"] == TIMESTAMP
    assert dict(columns)["last_stderr"] == FLOAT8
