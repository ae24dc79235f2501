"""What is said to Spark: no cast that can fail, and its own word where it has one."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.spark.engine import Found, Spark, in_sparks_words
from sfumato.kernel.reading.expressions import cast, column, try_cast
from sfumato.kernel.reading.statement import aggregate_statement
from sfumato.schema import Schema

COLUMNS = tuple(
    Column(name, kind, f"c{place}")
    for place, (name, kind) in enumerate(
        [
            ("text", "STRING"),
            ("n", "BIGINT"),
            ("x", "DOUBLE"),
            ("t", "TIMESTAMP"),
            ("f", "FLOAT"),
            ("p", "DECIMAL(9,2)"),
        ]
    )
)


class Nothing:
    """A session that speaks to nobody, as of Spark Connect."""


Nothing.__module__ = "pyspark.sql.connect.session"


def said(expression: exp.Expression) -> str:
    return in_sparks_words(exp.select(expression).from_("t"), COLUMNS).sql(dialect="spark", identify=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (cast(column("c1"), "int"), "TRY_CAST(`c1` AS INT)"),
        (try_cast(column("c2"), "bigint"), "TRY_CAST(`c2` AS BIGINT)"),
        (cast(cast(column("c2"), "bigint"), "int"), "TRY_CAST(TRY_CAST(`c2` AS BIGINT) AS INT)"),
        (cast(exp.Literal.string("1.5"), "double"), "CAST('1.5' AS DOUBLE)"),
        (try_cast(column("c5"), "text"), "CAST(`c5` AS STRING)"),  # in plain digits in ANSI mode alone
        (exp.Extract(this=exp.var("ISODOW"), expression=column("c3")), "EXTRACT(DAYOFWEEK_ISO FROM `c3`)"),
    ],
)
def test_casts_never_fail(given, words):
    assert said(given) == f"SELECT {words} FROM `t`"


def test_texts_that_are_numbers_to_java_alone_are_none():
    assert "RLIKE" in said(try_cast(column("c0"), "double")) and "RLIKE" in said(try_cast(column("c0"), "boolean"))
    assert "RLIKE" not in said(try_cast(column("c1"), "double"))


def test_what_was_given_is_left_as_it_is():
    given = exp.select(cast(column("c1"), "int")).from_("t")
    before = given.sql()
    in_sparks_words(given, COLUMNS)
    assert given.sql() == before


def test_no_cast_of_a_whole_statement_can_fail():
    """Of what is read: what is written into the statement is public and was cast before."""
    engine = Spark(Nothing(), Found(None, "t", False), COLUMNS)
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": {"column": "text", "contributions": 2},
            "attributes": {
                "text": {"type": "category", "values": ["a", "b'\\"], "fold": ["case", "spaces"], "other": True},
                "n": {"type": "integer", "lower": 0, "upper": 9, "width": 2},
                "x": {"type": "number", "lower": 0, "upper": 1, "bins": 7},
                "t": {"type": "date", "by": "weekday"},
                "f": {"type": "category", "values": ["1.5", "2"]},
            },
            "measures": {"p": {"lower": 0, "upper": 9}},
        }
    )
    statement = aggregate_statement(schema, engine, {one.name: one for one in COLUMNS}, key=1)
    text = in_sparks_words(statement, COLUMNS).sql(dialect="spark", identify=True)
    harmless = {exp.DataType.Type.TEXT, exp.DataType.Type.BINARY}
    for one in parse_one(text, dialect="spark").find_all(exp.Cast):
        of_float = isinstance(one.this, exp.Column) and one.this.name == "c4"  # a float as a double
        assert isinstance(one, exp.TryCast) or not one.find(exp.Column) or one.to.this in harmless or of_float, (
            one.sql()
        )
