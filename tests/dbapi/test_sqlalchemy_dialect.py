"""SQLAlchemy on a release, as business intelligence tools use it."""

from __future__ import annotations

import importlib
import tomllib
from datetime import date, datetime
from pathlib import Path

import pytest
from exact_release import save_exact_release, save_visits

sqlalchemy = pytest.importorskip("sqlalchemy")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_exact_release(tmp_path_factory.mktemp("released"))


@pytest.fixture
def engine(path):
    """As installed: the name leads where the project's entry point says."""
    points = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["sqlalchemy.dialects"]
    module, _, name = points["sfumato"].partition(":")
    assert hasattr(importlib.import_module(module), name)
    sqlalchemy.dialects.registry.register("sfumato", module, name)
    opened = sqlalchemy.create_engine(f"sfumato:///{path}")
    yield opened
    opened.dispose()


def test_text_with_parameters(engine):
    asked = sqlalchemy.text("SELECT sex, COUNT(*) AS n FROM census WHERE age < :age AND sex = :sex GROUP BY sex")
    with engine.connect() as connection:
        (row,) = connection.execute(asked, {"age": 5, "sex": "F"}).all()
    assert row.sex == "F" and round(row.n) == 60 and row.n_low <= row.n <= row.n_high and row.n_stderr >= 0


def test_expressions_over_a_reflected_table(engine):
    table = sqlalchemy.Table("census", sqlalchemy.MetaData(), autoload_with=engine)
    assert [column.name for column in table.columns] == ["age", "sex", "income", "ill", "charge"]
    counted = sqlalchemy.func.count().label("n")
    asked = sqlalchemy.select(table.c.ill, counted, sqlalchemy.func.avg(table.c.charge).label("charge"))
    asked = asked.where(table.c.age.between(2, 5)).group_by(table.c.ill).order_by(counted.desc()).limit(1)
    with engine.connect() as connection:
        (row,) = connection.execute(asked).all()
        assert connection.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(table)).scalar() == 240
    assert row.ill is True and round(row.n) == 64 and round(row.charge) == 50 and row.charge_low <= row.charge_high


def test_what_tools_look_up(engine):
    looked = sqlalchemy.inspect(engine)
    assert looked.get_table_names() == ["census"] and looked.has_table("census") and not looked.has_table("other")
    kinds = {column["name"]: type(column["type"]).__name__ for column in looked.get_columns("census")}
    assert kinds == {"age": "Integer", "sex": "String", "income": "String", "ill": "Boolean", "charge": "Float"}
    assert "Counted: no row whose" in looked.get_table_comment("census")["text"]
    assert looked.get_pk_constraint("census")["constrained_columns"] == [] and looked.get_indexes("census") == []
    with pytest.raises(sqlalchemy.exc.NoSuchTableError):
        looked.get_columns("other")


def test_pandas_reads_it(engine):
    import pandas as pd

    frame = pd.read_sql("SELECT sex, COUNT(*) AS n FROM census GROUP BY sex", engine)
    assert list(frame.columns) == ["sex", "n", "n_stderr", "n_low", "n_high"] and frame["n"].tolist() == [120, 120, 0]


def test_it_is_only_read_and_says_so(engine):
    with engine.connect() as connection, pytest.raises(sqlalchemy.exc.NotSupportedError, match="DELETE"):
        connection.execute(sqlalchemy.text("DELETE FROM census"))


def test_options_of_the_address(engine, path):
    narrow, wide = (sqlalchemy.create_engine(f"sfumato:///{path}?confidence={level}") for level in ("0.5", "0.999999"))
    widths = []
    for one in (narrow, wide):
        with one.connect() as connection:
            row = connection.execute(sqlalchemy.text("SELECT AVG(charge) AS c FROM census")).one()
            widths.append(row.c_high - row.c_low)
        one.dispose()
    assert widths[0] < widths[1]
    for address in ("sfumato://", f"sfumato:///{path}?colour=red", f"sfumato:///{path}?errors=some"):
        with pytest.raises(sqlalchemy.exc.ArgumentError):
            sqlalchemy.create_engine(address).connect()


def test_error_columns_are_left_out_for_tools_that_count_columns(engine, path):
    opened = sqlalchemy.create_engine(f"sfumato:///{path}?errors=none")
    for text, names in (("SELECT sex, COUNT(*) AS n", ["sex", "n"]), ("SELECT sex, AVG(charge) AS c", ["sex", "c"])):
        for end in ("", " LIMIT 0"):
            with opened.connect() as connection:
                found = connection.execute(sqlalchemy.text(f"{text} FROM census GROUP BY sex{end}"))
                assert list(found.keys()) == names and all(len(row) == 2 for row in found)
    opened.dispose()


def test_dates_are_dates(engine, tmp_path):
    """Reflected, selected and compared; bins of several days have names."""
    opened = sqlalchemy.create_engine(f"sfumato:///{save_visits(tmp_path)}")
    table = sqlalchemy.Table("visits", sqlalchemy.MetaData(), autoload_with=opened)
    kinds = {column.name: type(column.type).__name__ for column in table.columns}
    assert kinds == {"day": "Date", "at": "DateTime", "month": "String", "code": "String"}
    asked = sqlalchemy.select(table.c.day, sqlalchemy.func.count().label("n"))
    with opened.connect() as connection:
        (row,) = connection.execute(asked.where(table.c.day == date(2024, 2, 28)).group_by(table.c.day)).all()
        last = connection.execute(sqlalchemy.select(sqlalchemy.func.max(table.c.at))).scalar()
    assert row.day == date(2024, 2, 28) and type(last) is datetime and last.date() == date(2024, 2, 27)
    opened.dispose()
