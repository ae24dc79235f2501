"""Statements about linked tables are answered as a database answers them, with the errors of their tables."""

from __future__ import annotations

from dataclasses import replace
from math import hypot, isclose

import duckdb
import pytest
from hospital import ILLS, linked_once, rows

from sfumato.answers.results import Estimate
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.linked import LinkedTable, route

WARD = {"type": "category", "values": ["a", "b"]}
VISITS_EACH = "SELECT {} COUNT(*) / COUNT(DISTINCT person_id) AS n FROM visits {}"


@pytest.fixture
def exact():
    """Tables with hardly any noise: at epsilon 400 a count is off by one about once in 10^7 cells of persons."""
    return linked_once("cells", 400)


@pytest.fixture
def noisy():
    return linked_once()


def values(result):
    return [tuple(cell.value if isinstance(cell, Estimate) else cell for cell in row) for row in result.rows]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM persons",
        "SELECT COUNT(*) AS n FROM main.visits AS v WHERE v.ill = 'cough'",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY region",
        "SELECT p.region, COUNT(*) AS n FROM visits v JOIN persons p USING (person_id) WHERE p.age >= 60 "
        "GROUP BY p.region ORDER BY p.region",
        "SELECT COUNT(*) AS n FROM persons p JOIN visits v ON v.person_id = p.person_id AND v.ill = 'fall'",
        "SELECT COUNT(*) AS n FROM persons p, visits v WHERE p.person_id = v.person_id AND p.region = 'west'",
        "SELECT COUNT(*) AS n FROM visits v LEFT JOIN persons p ON p.person_id = v.person_id",
        "SELECT COUNT(*) AS n FROM persons RIGHT JOIN visits USING (person_id)",
        "SELECT COUNT(DISTINCT person_id) AS n FROM visits",
        "SELECT COUNT(DISTINCT p.person_id) AS n FROM visits v JOIN persons p USING (person_id) WHERE p.age < 40",
        "SELECT COUNT(DISTINCT person_id) AS n FROM persons WHERE sex = 'f'",
        "SELECT region, COUNT(DISTINCT person_id) AS n FROM visits GROUP BY region ORDER BY region",
        VISITS_EACH.format("", "WHERE age >= 60"),
        VISITS_EACH.format("region,", "GROUP BY region ORDER BY region"),
        "SELECT region, SUM(cost) / COUNT(DISTINCT person_id) AS n FROM visits GROUP BY region ORDER BY region",
        "SELECT COUNT(*) FILTER (WHERE ill = 'cough') / COUNT(DISTINCT person_id) AS n FROM visits",
        "SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM persons) AS n",
        "SELECT ill, COUNT(*) / (SELECT COUNT(*) FROM persons WHERE sex = 'f') AS n FROM visits GROUP BY ill "
        "ORDER BY ill",
        "WITH v AS (SELECT region, COUNT(*) AS n FROM visits WHERE ill = 'cough' GROUP BY region), p AS (SELECT "
        "region, COUNT(*) AS n FROM persons WHERE sex = 'f' GROUP BY region) SELECT region, v.n / p.n AS n FROM v "
        "JOIN p USING (region) ORDER BY region",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM persons",
        "SELECT v.region, COUNT(*) AS n FROM visits v JOIN (VALUES ('west', 1)) AS c(region, k) USING (region) "
        "GROUP BY v.region",
    ],
)
def test_answers_are_those_of_a_database(exact, sql):
    with duckdb.connect() as database:
        for name, table in rows().items():
            database.register(name, table)
        truth = database.execute(sql).fetchall()
    found = values(exact.query(sql))
    if truth[0][0] in ILLS:  # categories stand in the order of the schema
        truth.sort(key=lambda row: ILLS.index(row[0]))
    assert len(found) == len(truth)
    for row, true in zip(found, truth, strict=True):
        assert all(
            a == b if isinstance(b, str) else isclose(a, b, rel_tol=2e-3) for a, b in zip(row, true, strict=True)
        )


def test_a_statement_about_one_table_is_answered_by_its_release(noisy):
    for text in ("SELECT COUNT(*) AS n FROM visits WHERE age < 40", "SELECT AVG(cost) AS n FROM visits"):
        assert noisy.query(text).rows == noisy.tables["visits"].query(text).rows
    joined = "SELECT COUNT(*) AS n FROM visits JOIN persons USING (person_id) WHERE persons.age < 40"
    assert noisy.query(joined).rows == noisy.query("SELECT COUNT(*) AS n FROM visits WHERE age < 40").rows
    counted = noisy.query("SELECT COUNT(DISTINCT person_id) AS n FROM visits WHERE age < 40").rows
    assert counted == noisy.query("SELECT COUNT(*) AS n FROM persons WHERE age < 40 AND visits > 0").rows


def test_noise_of_two_tables_is_independent(noisy):
    """The variance of a difference is the sum of the variances, and a ratio has the error of the delta method."""
    ((visits,),) = noisy.query("SELECT COUNT(*) AS n FROM visits").rows
    ((persons,),) = noisy.query("SELECT COUNT(*) AS n FROM persons").rows
    ((apart,),) = noisy.query("SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM persons) AS n").rows
    assert apart.value == visits.value - persons.value
    assert isclose(apart.stderr, hypot(visits.stderr, persons.stderr), rel_tol=1e-9)
    ((each,),) = noisy.query("SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM persons) AS n").rows
    relative = hypot(visits.stderr / visits.value, persons.stderr / persons.value)
    assert isclose(each.stderr, each.value * relative, rel_tol=1e-2)
    assert each.low < each.value < each.high


def test_a_number_and_itself_share_their_noise(noisy):
    ((nothing,),) = noisy.query(
        "SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits) + 0 * (SELECT COUNT(*) FROM persons) AS n"
    ).rows
    assert nothing.value == nothing.stderr == 0


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT COUNT(*) FROM patients", "write FROM one of persons, visits"),
        ("SELECT COUNT(*) FROM release", "write FROM one of persons, visits"),
        ("SELECT COUNT(*) FROM visits JOIN persons USING (household_id)", r"visits JOIN persons USING \(person_id\)"),
        ("SELECT COUNT(*) FROM visits, persons", "by anything but the key"),
        ("SELECT COUNT(*) FROM visits v JOIN persons p ON v.age = p.age", "by anything but the key"),
        ("SELECT COUNT(*) FROM persons LEFT JOIN visits USING (person_id)", "LEFT JOIN of visits and persons"),
        ("SELECT COUNT(*) FROM persons NATURAL JOIN visits", "NATURAL JOIN"),
        ("SELECT COUNT(*) FROM visits a JOIN visits b USING (person_id)", "a join with visits"),
        ("SELECT COUNT(*) FROM visits JOIN persons USING (person_id) WHERE sex = 'f'", "carries age, region"),
        ("SELECT COUNT(*) FROM visits v JOIN persons p USING (person_id) WHERE p.sex = 'f'", "carries age, region"),
        (
            "SELECT COUNT(*) FROM visits v JOIN persons p USING (person_id) WHERE p.ill = 'x'",
            "no column 'ill' in persons",
        ),
        ("SELECT COUNT(DISTINCT person_id) FROM visits WHERE ill = 'cough'", "by ill, which persons does not have"),
        ("SELECT ill, COUNT(DISTINCT person_id) FROM visits GROUP BY ill", "by ill, which persons does not have"),
        ("SELECT COUNT(DISTINCT person_id) FILTER (WHERE ill = 'cough') FROM visits", "which persons does not have"),
        ("SELECT COUNT(DISTINCT household_id) FROM visits", "household_id"),
        (
            "SELECT (SELECT COUNT(*) FROM visits WHERE sex = 'f') / (SELECT COUNT(*) FROM persons)",
            "no column of visits",
        ),
        ("SELECT * FROM visits UNION ALL SELECT * FROM persons", "name the columns"),
        ("SELECT COUNT(*) FROM visits AS OF '2026-01'", "no series"),
        (
            "SELECT (SELECT COUNT(*) FROM persons) AS p, * FROM (PIVOT visits ON ill USING COUNT(*))",
            "PIVOT in a statement",
        ),
        ("DESCRIBE patients", "there are persons, visits"),
    ],
)
def test_what_is_not_known_is_refused_by_name(noisy, sql, says):
    with pytest.raises(QueryError, match=says):
        noisy.query(sql)


def test_a_pivot_is_of_the_table_that_it_names(noisy):
    wide = noisy.query("PIVOT visits ON ill USING COUNT(*) GROUP BY region")
    assert wide.rows == noisy.tables["visits"].query("PIVOT visits ON ill USING COUNT(*) GROUP BY region").rows


def test_public_tables_may_be_brought(noisy):
    chapters = {"ill": list(ILLS), "chapter": ["lungs", "all", "bones"]}
    asked = (
        "SELECT chapter, COUNT(*) AS n FROM visits JOIN chapters USING (ill) WHERE chapter = 'bones' GROUP BY chapter"
    )
    ((_, counted),) = noisy.query(asked, tables={"chapters": chapters}).rows
    assert counted == noisy.query("SELECT COUNT(*) AS n FROM visits WHERE ill = 'fall'").rows[0][0]
    with pytest.raises(QueryError, match="one table"):
        noisy.regress("cost ~ age")


def test_tables_are_listed(noisy):
    assert [row[:3] for row in noisy.query("SHOW TABLES").rows] == [
        ("persons", "", ""),
        ("visits", "persons", "person_id"),
    ]
    assert noisy.query("DESCRIBE visits").column("column") == ["age", "region", "ill", "cost"]


@pytest.fixture(scope="module")
def shop():
    """Customers, orders, and line items that carry a column of customers by way of orders."""

    def schema(name, *columns):
        unit = {"column": "customer", "contributions": 9}
        return Schema(dataset=name, privacy_unit=unit, attributes=dict.fromkeys(columns, WARD))

    tables = [
        LinkedTable(schema("customers", "country"), key="customer_id", counts={"orders": "country"}),
        LinkedTable(
            schema("orders", "country", "state"), "customers", "customer_id", "order_id", frozenset({"country"})
        ),
        LinkedTable(schema("items", "country", "kind"), "orders", "order_id", None, frozenset({"country"})),
        LinkedTable(schema("letters", "kind"), "customers", "customer_id"),
    ]
    return {table.name: table for table in tables}


@pytest.mark.parametrize(
    ("sql", "routed"),
    [
        (
            "SELECT COUNT(*) FROM items i JOIN orders o USING (order_id) JOIN customers c ON c.customer_id = "
            "o.customer_id WHERE c.country = 'a'",
            "SELECT COUNT(*) FROM items AS i WHERE \"i\".country = 'a'",
        ),
        (
            "SELECT COUNT(*) FROM customers JOIN orders USING (customer_id) JOIN items USING (order_id)",
            "SELECT COUNT(*) FROM items",
        ),
        ("SELECT COUNT(DISTINCT order_id) FROM orders", "SELECT COUNT(*) FROM orders"),
    ],
)
def test_joins_of_three_tables(shop, sql, routed):
    found = route(sql, shop)
    assert found.sql == routed and len(found.tables) == 1


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT COUNT(*) FROM items JOIN customers USING (customer_id)", "a join with customers"),
        (
            "SELECT COUNT(*) FROM orders JOIN customers USING (customer_id) JOIN letters USING (customer_id)",
            "of which no row belongs to a row of the other",
        ),
        ("SELECT COUNT(*) FROM items JOIN orders USING (order_id) WHERE state = 'a'", "state of orders is not known"),
        ("SELECT COUNT(DISTINCT order_id) FROM items", "orders does not say which of its rows have items"),
        ("SELECT COUNT(DISTINCT customer_id) FROM items", "order_id are counted"),
    ],
)
def test_joins_of_three_tables_that_are_refused(shop, sql, says):
    with pytest.raises(QueryError, match=says):
        route(sql, shop)


def test_a_column_of_two_meanings_is_asked_table_by_table(shop):
    wide = {"type": "category", "values": ["a", "b", "c"]}
    unit = {"column": "customer", "contributions": 9}
    odd = Schema(dataset="letters", privacy_unit=unit, attributes={"kind": wide})
    tables = {**shop, "letters": replace(shop["letters"], schema=odd)}
    assert route("SELECT COUNT(*) FROM letters WHERE kind = 'c'", tables).tables == ("letters",)
    with pytest.raises(QueryError, match="ask each table in a statement of its own"):
        route("SELECT (SELECT COUNT(*) FROM letters WHERE kind = 'c') / (SELECT COUNT(*) FROM items)", tables)
