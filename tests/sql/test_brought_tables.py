"""Public tables that whoever asks brings, joined to a release."""

from __future__ import annotations

import pyarrow as pa
import pytest
from running import sfumato
from small_release import release, write_small_table

import sfumato as sf
from sfumato.errors import QueryError

NAMES = {"code": ["F", "M", "X"], "name": ["women", "men", "others"]}
AGES = {"age": [str(n) for n in range(12)], "half": ["young" if n < 5 else "old" for n in range(12)]}
BY_NAME = "SELECT l.name, COUNT(*) AS n FROM census c JOIN l ON c.sex = l.code GROUP BY l.name"
WRITTEN_OUT = """SELECT l.name, COUNT(*) AS n FROM census c JOIN (VALUES ('F', 'women'), ('M', 'men')) AS l(code, name)
    ON c.sex = l.code GROUP BY l.name"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("brought")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger"))
        write_small_table()
        assert release().returncode == 0
        yield sf.open(folder / "r.sfumato")


def test_a_table_is_joined_as_if_its_rows_were_written_out(opened):
    """With keys that the release does not have, which match nothing."""
    found, wanted = opened.query(BY_NAME, tables={"l": NAMES}), opened.query(WRITTEN_OUT)
    assert found.rows == wanted.rows and [row[0] for row in found.rows] == ["women", "men"]
    arrow = opened.query(BY_NAME, tables={"l": pa.table(NAMES)})
    assert arrow.rows == wanted.rows


def test_columns_that_are_written_as_numbers_are_numbers(opened):
    text = "SELECT half, COUNT(*) AS n FROM census JOIN ages USING (age) WHERE ages.age > 2 GROUP BY half"
    half = "CASE WHEN age < 5 THEN 'young' ELSE 'old' END AS half"
    wanted = f"SELECT {half}, COUNT(*) AS n FROM census WHERE age > 2 GROUP BY half"
    found = opened.query(text, tables={"ages": AGES})
    assert {*found.rows} == {*opened.query(wanted).rows}


def test_intervals_and_manners_are_those_of_the_statement(opened):
    for manner in ({"interval": "guaranteed"}, {"unbiased": True}, {"possible": True}):
        found, wanted = opened.query(BY_NAME, tables={"l": NAMES}, **manner), opened.query(WRITTEN_OUT, **manner)
        assert found.rows == wanted.rows


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"census": NAMES}, "called as the release is"),
        ({"l m": NAMES}, "no name that SQL can use"),
        ({"l": {}}, "no columns"),
        ({"l": {"code": ["F"], "name": []}}, "columns of 0 and of 1 rows"),
        ({"l": {"code": ["F", "F"], "name": ["a", "b"]}}, "a key twice"),
        ({"l": {"code": [b"F"], "name": ["a"]}}, "neither text, number"),
        ({"l": 3}, "cannot be a int"),
        ({"l": "nowhere.csv"}, "cannot be read"),
        ({"l": {"code": ["F"] * 100_001, "name": ["a"] * 100_001}}, "100,001 rows are in the table l"),
    ],
)
def test_tables_that_cannot_be_joined_are_refused_in_one_line(opened, tables, said):
    with pytest.raises(QueryError, match=said) as refused:
        opened.query(BY_NAME, tables=tables)
    assert "\n" not in str(refused.value)


def test_the_command_takes_files(opened, tmp_path):
    (tmp_path / "l.csv").write_text("code,name\nF,women\nM,men\nX,others\n")
    done = sfumato("query", "r.sfumato", BY_NAME, "--with", str(tmp_path / "l.csv"), "--format", "csv")
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith("women,")
    missing = sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM census", "--with", str(tmp_path / "no.csv"))
    assert missing.returncode != 0 and "cannot be read" in missing.stderr and "Traceback" not in missing.stderr
