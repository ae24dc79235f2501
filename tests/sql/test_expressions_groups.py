"""Columns of groups, and expressions of attributes that keep missing values or are known by hours, against DuckDB."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import product

import duckdb
import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql import compile_select

REGION = {"Aa": "North", "Bergen": "North", "Calw": "South", "Dorn": "East"}
COUNTRY = {"North": "Land", "South": "Land", "East": "Reich"}
HOURS = [datetime(2024, 5, 31, 22, 30) + timedelta(hours=step) for step in range(4)]
ROWS = list(product([*REGION, None], [1, 2, None], HOURS))
SCHEMA = Schema.from_dict(
    {
        "dataset": "people",
        "privacy_unit": "row",
        "attributes": {
            "town": {
                "type": "category",
                "values": list(REGION),
                "missing": "keep",
                "groups": {
                    "region": {"North": ["Aa", "Bergen"], "South": ["Calw"], "East": ["Dorn"]},
                    "country": {"Land": ["North", "South"], "Reich": ["East"]},
                },
            },
            "size": {"type": "integer", "lower": 1, "upper": 2, "missing": "keep"},
            "pickup": {"type": "date", "lower": "2024-05-31", "upper": "2024-06-01", "by": "hour"},
        },
    }
)


@cache
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people (id INT, town VARCHAR, region VARCHAR, country VARCHAR, size INT, pickup TIMESTAMP)"
    )
    for number, (town, size, pickup) in enumerate(ROWS):
        region = REGION.get(town)
        row = [number, town, region, COUNTRY.get(region), size, pickup]
        connection.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", row)
    return connection


def rows_in(where: str) -> list[int]:
    towns, first = SCHEMA.attributes["town"].values, datetime(2024, 5, 31)
    codes = {
        "town": np.array([len(towns) if town is None else towns.index(town) for town, _, _ in ROWS]),
        "size": np.array([2 if size is None else size - 1 for _, size, _ in ROWS]),
        "pickup": np.array([(pickup - first) // timedelta(hours=1) for _, _, pickup in ROWS]),
    }
    predicate = compile_select(f"SELECT COUNT(*) FROM people WHERE {where}", SCHEMA).where
    share, sure, possible = predicate.weights(SCHEMA.domain, codes)
    assert (share == sure).all() and (share == possible).all(), where
    return np.flatnonzero(np.broadcast_to(share, len(ROWS))).tolist()


@pytest.mark.parametrize(
    "where",
    [
        *("region = 'North'", "region <> 'North'", "NOT region = 'North'", "REGION IN ('North', 'East')"),
        *(
            "people.region NOT IN ('South')",
            "country = 'Land' AND town <> 'Aa'",
            "region IS NULL",
            "country IS NOT NULL",
        ),
        *("LOWER(region) = 'north'", "region LIKE '%st'", "NOT region LIKE '%st'", "region || country = 'NorthLand'"),
        *("region = 'North' OR size = 1", "NOT (region = 'North' OR size = 1)", "COALESCE(region, 'none') = 'none'"),
        *("size + 1 > 2", "NOT size + 1 > 2", "COALESCE(size, 0) = 0", "NOT COALESCE(size, 0) = 0", "size * 2 IS NULL"),
        *("CASE WHEN size = 1 THEN 'a' ELSE 'b' END = 'b'", "(size + 1 > 2) IS NOT TRUE", "size + 1 IS NOT NULL"),
        *("NOT (CASE WHEN size = 1 THEN true END)", "'North' = region", "region = 'North' AND region = 'South'"),
        *("pickup >= '2024-06-01'", "pickup < '2024-05-31 23:00'", "EXTRACT(HOUR FROM pickup) = 23"),
        *("HOUR(pickup) + 1 > 23", "DATE_TRUNC('day', pickup) = '2024-06-01'", "CAST(pickup AS DATE) < '2024-06-01'"),
        *("COALESCE(pickup, '2024-06-01') <= '2024-05-31 23:00'", "DAYOFWEEK(pickup) = 6"),
    ],
)
def test_conditions_mean_what_they_mean_in_duckdb(where):
    wanted = [row[0] for row in engine().execute(f"SELECT id FROM people WHERE {where} ORDER BY id").fetchall()]
    assert rows_in(where) == wanted


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("region = 'Nort'", "region has no value 'Nort'; it has 'North', 'South', 'East'"),
        ("region > 'North'", "region is of type category, whose values have no order"),
        ("COALESCE(pickup, '2024-06-01') < '2024-06-01 12:30'", "lies within an hour"),
        ("regio = 'North'", r"no column 'regio' \(did you mean region\?\)"),
    ],
)
def test_what_is_wrong_is_named(where, message):
    with pytest.raises(QueryError, match=message):
        rows_in(where)
