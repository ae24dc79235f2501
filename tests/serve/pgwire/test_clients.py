"""Clients of PostgreSQL that are not only drivers: connectorx, polars, ADBC and ibis, as their users call them."""

from __future__ import annotations

import pytest

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(hours) AS h FROM survey GROUP BY sex"
NAMES = ["sex", *(name + end for name in "nh" for end in ("", "_stderr", "_low", "_high"))]


@pytest.fixture
def url(pg_port):
    return f"postgresql://me@127.0.0.1:{pg_port}/db"


@pytest.fixture
def plain(url):
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute(BY_SEX).fetchall()


@pytest.mark.parametrize("engine", ["connectorx", "adbc"])
def test_polars(url, plain, engine):
    pytest.importorskip("connectorx")
    polars = pytest.importorskip("polars")
    frame = polars.read_database_uri(BY_SEX, url, engine=engine)
    assert frame.columns == NAMES and frame.rows() == plain
    assert frame.dtypes == [polars.String] + [polars.Float64] * 8


@pytest.mark.parametrize("protocol", ["binary", "csv", "cursor"])
def test_connectorx(url, plain, protocol):
    """It copies in binary or CSV, or takes rows in parts; `simple` asks without types, and reads only what it knows."""
    connectorx = pytest.importorskip("connectorx")
    table = connectorx.read_sql(url, BY_SEX, return_type="arrow", protocol=protocol)
    assert table.column_names == NAMES and [tuple(row.values()) for row in table.to_pylist()] == plain
    frame = connectorx.read_sql(url, BY_SEX, protocol=protocol)  # for which it counts the rows first
    assert list(frame.itertuples(index=False, name=None)) == plain


def test_adbc(url, plain):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(BY_SEX)
        table = cursor.fetch_arrow_table()
        assert table.column_names == NAMES and [tuple(row.values()) for row in table.to_pylist()] == plain
        cursor.execute("SELECT COUNT(*) AS n FROM survey WHERE age >= $1 AND sex = $2", (20, "F"))
        (found,) = cursor.fetchall()
        cursor.execute("SELECT COUNT(*) AS n FROM survey WHERE age >= 20 AND sex = 'F'")
        assert cursor.fetchall() == [found]
        types = {field.name: str(field.type) for field in connection.adbc_get_table_schema("survey")}
        assert types == {
            **{"age": "int64", "sex": "string", "region": "string"},
            **{"paid": "double", "member": "bool", "hours": "double"},
        }
        (database,) = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        (schema,) = [one for one in database["catalog_db_schemas"] if one["db_schema_name"] == "public"]
        assert {table["table_name"] for table in schema["db_schema_tables"]} == {"survey", "harm", "wide"}
        assert connection.adbc_get_info()["vendor_name"] == "PostgreSQL"


def test_ibis(pg_port, plain):
    """It counts columns, so that error columns are left out for it."""
    ibis = pytest.importorskip("ibis")
    connection = ibis.postgres.connect(
        host="127.0.0.1", port=pg_port, user="me", database="db", options="-c sfumato.errors=off"
    )
    assert connection.list_tables() == ["harm", "survey", "wide"]
    table = connection.table("survey")
    assert list(table.schema().names) == ["age", "sex", "region", "paid", "member", "hours"]
    assert table.count().execute() == sum(row[1] for row in plain)
    grouped = table.group_by("sex").aggregate(n=table.count(), h=table.hours.mean()).order_by("sex")
    assert grouped.execute().to_numpy().tolist() == [[row[0], row[1], row[5]] for row in plain]
    assert grouped.to_pyarrow().column_names == ["sex", "n", "h"]
    old = table.filter(table.age >= 50, table.region.isin(["North", "South"])).count().execute()
    assert 0 < old < table.count().execute()
    assert table.head(3).execute().shape == (3, 6)  # synthetic rows
    assert table.region.topk(2).execute()["region"].tolist() == ["North", "South"]
    text = connection.sql("SELECT region, COUNT(*) AS n FROM survey GROUP BY region")
    assert text.filter(text.n > 500).order_by(ibis.desc("n")).execute()["region"].tolist() == ["North", "South"]
    connection.disconnect()
