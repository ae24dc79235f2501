"""Apache Spark, 3.5 or later: in this process, on a cluster, or behind Spark Connect."""

from __future__ import annotations


def is_spark(table: object) -> bool:
    """Whether Spark reads a table: an address, a session or a DataFrame; nothing is imported to find out.

    >>> is_spark("spark://local"), is_spark("sc://example.org:15002"), is_spark("people.csv")
    (True, True, False)
    """
    if isinstance(table, str):
        return table.startswith(("spark://", "sc://"))
    return kind_of(table) is not None


def kind_of(table: object) -> str | None:
    """SparkSession or DataFrame, if it is one of them, behind Spark Connect or not."""
    names = {part.__name__ for part in type(table).__mro__ if part.__module__.startswith("pyspark.sql")}
    return next((name for name in ("SparkSession", "DataFrame") if name in names), None)


def is_connect(session: object) -> bool:
    """Whether a session speaks Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")
