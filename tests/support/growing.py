"""Statements that grow: each construct of docs/sql.md repeated, widened and nested n times.

A construct is a name and a function from n to the text of a statement about SCHEMA. `nested` puts one expression into
another, so that pairs of constructs can be nested in turn.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

SCHEMA = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 1000},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 19},
        "sex": {"type": "category", "values": ["F", "M"]},
        "pay": {"type": "number", "lower": 0, "upper": 1000, "bins": 10},
        "ill": {"type": "boolean"},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-31"},
    },
    "measures": {"charge": {"lower": 0, "upper": 100}},
}

Statement = Callable[[int], str]


def _list(one: Callable[[int], str], n: int, between: str = ", ") -> str:
    return between.join(map(one, range(n)))


def _select(items: str, rest: str = "") -> str:
    return f"SELECT {items} FROM t {rest}".strip()


def _where(one: Callable[[int], str], between: str) -> Statement:
    return lambda n: _select("COUNT(*)", "WHERE " + _list(one, n, between))


def _inside(open_: str, middle: str, close: str, around: str = "SELECT COUNT(*) FROM t WHERE {} = 1") -> Statement:
    return lambda n: around.format(open_ * n + middle + close * n)


def _levels(first: str, level: str, last: str) -> Statement:
    """WITH c0 AS (first), c1 AS (level over c0), ... last over the highest."""

    def text(n: int) -> str:
        parts = [f"c0 AS ({first})", *(f"c{k} AS ({level.format(f'c{k - 1}')})" for k in range(1, n + 1))]
        return f"WITH {', '.join(parts)} {last.format(f'c{n}')}"

    return text


def _subqueries(level: str, first: str, last: str = "{}") -> Statement:
    def text(n: int) -> str:
        found = first
        for _ in range(n):
            found = level.format(found)
        return last.format(found)

    return text


_N = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"

# Longer, not deeper.
REPEATED: dict[str, Statement] = {
    "select list: COUNT(*)": lambda n: _select(_list(lambda k: "COUNT(*)", n)),
    "select list: aliases": lambda n: _select(_list(lambda k: f"COUNT(*) AS a{k}", n)),
    "select list: one alias": lambda n: _select(_list(lambda k: "COUNT(*) AS a", n)),
    "select list: FILTER": lambda n: _select(_list(lambda k: f"COUNT(*) FILTER (WHERE age = {k % 20})", n)),
    "select list: sums of CASE": lambda n: _select(_list(lambda k: f"SUM(CASE WHEN age > {k % 19} THEN 1 END)", n)),
    "select list: MEDIAN": lambda n: _select(_list(lambda k: "MEDIAN(age)", n)),
    "select list: QUANTILE": lambda n: _select(_list(lambda k: f"QUANTILE(age, 0.{k + 1})", n)),
    "select list: shares": lambda n: _select(
        "sex, " + _list(lambda k: "COUNT(*) / SUM(COUNT(*)) OVER ()", n), "GROUP BY sex"
    ),
    "select list: ranks": lambda n: _select(
        "sex, " + _list(lambda k: "RANK() OVER (ORDER BY COUNT(*))", n), "GROUP BY sex"
    ),
    "select list: different ranks": lambda n: _select(
        "sex, " + _list(lambda k: f"RANK() OVER (ORDER BY ROUND(COUNT(*) + {k}))", n), "GROUP BY sex"
    ),
    "select list: rounded": lambda n: _select(_list(lambda k: f"ROUND(COUNT(*) * {k + 1})", n)),
    "select list: scalar subqueries": lambda n: _select(
        "COUNT(*), " + _list(lambda k: f"(SELECT COUNT(*) FROM t WHERE age = {k % 20})", n)
    ),
    "select list: keys": lambda n: _select(_list(lambda k: f"age AS k{k}", n) + ", COUNT(*)", "GROUP BY age"),
    "select list: constants": lambda n: _select("COUNT(*), " + _list(lambda k: f"{k}", n)),
    "select list: stars": lambda n: _select(_list(lambda k: "*", n)),
    "select list: expressions of keys": lambda n: _select(
        "sex, COUNT(*), " + _list(lambda k: f"UPPER(sex || '{k}')", n), "GROUP BY sex"
    ),
    "sum of aggregates": lambda n: _select(_list(lambda k: f"COUNT(*) FILTER (WHERE age = {k % 20})", n, " + ")),
    "sum of averages": lambda n: _select(_list(lambda k: f"AVG(charge) FILTER (WHERE age = {k % 20})", n, " + ")),
    "quotient of aggregates": lambda n: _select(
        _list(lambda k: f"COUNT(*) FILTER (WHERE age < {k % 19 + 1})", n, " / ")
    ),
    "sum of terms in SUM": lambda n: _select(f"SUM({_list(lambda k: 'age', n, ' + ')})"),
    "sum of conditions in SUM": lambda n: _select(f"SUM({_list(lambda k: f'(age > {k % 19})', n, ' + ')})"),
    "product in SUM": lambda n: _select(f"SUM({_list(lambda k: 'age', n, ' * ')})"),
    "CASE in SUM": lambda n: _select(
        f"SUM(CASE {_list(lambda k: f'WHEN age = {k % 20} THEN {k}', n, ' ')} ELSE 0 END)"
    ),
    "CASE of aggregates": lambda n: _select(f"CASE {_list(lambda k: f'WHEN COUNT(*) > {k} THEN {k}', n, ' ')} END"),
    "CASE of the same aggregate": lambda n: _select(
        f"CASE COUNT(*) {_list(lambda k: f'WHEN {k} THEN {k}', n, ' ')} END", "GROUP BY sex"
    ),
    "COALESCE": lambda n: _select("COUNT(*)", f"WHERE COALESCE({_list(lambda k: 'age', n)}) = 1"),
    "GREATEST": lambda n: _select("COUNT(*)", f"WHERE GREATEST({_list(lambda k: f'{k}', n)}, age) = 1"),
    "CONCAT": lambda n: _select("COUNT(*)", f"WHERE CONCAT({_list(lambda k: 'sex', n)}) = 'F'"),
    "AND": _where(lambda k: f"age <> {k % 20}", " AND "),
    "AND of several attributes": _where(lambda k: f"(age <> {k % 20} OR sex = 'F')", " AND "),
    "OR": _where(lambda k: f"age = {k % 20}", " OR "),
    "OR of several attributes": _where(lambda k: f"(age = {k % 20} AND sex = 'F')", " OR "),
    "OR of NOT": _where(lambda k: f"NOT (age = {k % 20} AND sex = 'F' AND ill)", " OR "),
    "OR of cut bins": _where(lambda k: f"pay > {k}.5", " OR "),
    "AND of cut bins": _where(lambda k: f"pay <> {k}.5", " AND "),
    "OR of cut bins and others": _where(lambda k: f"(pay < {k}.5 AND age = {k % 20})", " OR "),
    "XOR by <>": _where(lambda k: f"(age = {k % 20})", " <> "),
    "IN": lambda n: _select("COUNT(*)", f"WHERE age IN ({_list(lambda k: f'{k % 20}', n)})"),
    "IN of an expression": lambda n: _select("COUNT(*)", f"WHERE age + 1 IN ({_list(lambda k: f'{k}', n)})"),
    "IN of expressions": lambda n: _select("COUNT(*)", f"WHERE age IN ({_list(lambda k: f'age + {k}', n)})"),
    "IN of a real": lambda n: _select("COUNT(*)", f"WHERE pay * 2 IN ({_list(lambda k: f'{k}.5', n)})"),
    "LIKE of constants": lambda n: _select("COUNT(*)", f"WHERE '{'a' * n}' LIKE '{'%a' * n}%b'"),
    "LIKE of an attribute": lambda n: _select("COUNT(*)", f"WHERE sex LIKE '{'%_' * n}%'"),
    "LIKE of a long text": lambda n: _select("COUNT(*)", f"WHERE sex || '{'a' * n}' LIKE '%{'_' * n}b%'"),
    "ILIKE": lambda n: _select("COUNT(*)", f"WHERE '{'a' * n}' ILIKE '{'%A_' * (n // 2)}%b'"),
    "ORs of LIKE": _where(lambda k: f"sex LIKE '%{k}%'", " OR "),
    "||": lambda n: _select("COUNT(*)", f"WHERE {_list(lambda k: 'sex', n, ' || ')} = 'F'"),
    "arithmetic of an attribute": lambda n: _select("COUNT(*)", f"WHERE {_list(lambda k: 'age', n, ' + ')} > 1"),
    "arithmetic of two attributes": lambda n: _select(
        "COUNT(*)", f"WHERE {_list(lambda k: ('age', 'sex')[k % 2] + ' = 1', n, ' OR ')}"
    ),
    "powers": lambda n: _select("COUNT(*)", f"WHERE POWER(10, {_list(lambda k: '10', n, ' * ')}) > age"),
    "products of constants": lambda n: _select("COUNT(*)", f"WHERE age > {_list(lambda k: '9', n, ' * ')}"),
    "products of whole numbers": lambda n: _select(
        "COUNT(*)", f"WHERE FLOOR({_list(lambda k: 'FLOOR(age)', n, ' * ')}) > 1"
    ),
    "GROUP BY the same key": lambda n: _select("COUNT(*)", f"GROUP BY {_list(lambda k: 'age', n)}"),
    "GROUP BY expressions": lambda n: _select("COUNT(*)", f"GROUP BY {_list(lambda k: f'age + {k}', n)}"),
    "GROUP BY places": lambda n: _select("sex, COUNT(*)", f"GROUP BY {_list(lambda k: '1', n)}"),
    "GROUP BY aliases": lambda n: _select(
        f"{_list(lambda k: f'age % {k + 2} AS a{k}', n)}, COUNT(*)", f"GROUP BY {_list(lambda k: f'a{k}', n)}"
    ),
    "GROUP BY ALL": lambda n: _select(f"{_list(lambda k: f'age AS a{k}', n)}, COUNT(*)", "GROUP BY ALL"),
    "ROLLUP": lambda n: _select("COUNT(*)", f"GROUP BY ROLLUP({_list(lambda k: 'age', n)})"),
    "CUBE": lambda n: _select("COUNT(*)", f"GROUP BY CUBE({_list(lambda k: 'age', n)})"),
    "products of ROLLUP": lambda n: _select("COUNT(*)", f"GROUP BY {_list(lambda k: 'ROLLUP(age)', n)}"),
    "products of CUBE": lambda n: _select("COUNT(*)", f"GROUP BY {_list(lambda k: 'CUBE(age, sex)', n)}"),
    "GROUPING SETS": lambda n: _select("COUNT(*)", f"GROUP BY GROUPING SETS ({_list(lambda k: '(age)', n)})"),
    "GROUPING SETS of CUBE": lambda n: _select(
        "COUNT(*)", f"GROUP BY GROUPING SETS ({_list(lambda k: 'CUBE(age, sex)', n)})"
    ),
    "GROUPING": lambda n: _select("sex, " + _list(lambda k: "GROUPING(sex)", n) + ", COUNT(*)", "GROUP BY ROLLUP(sex)"),
    "ORDER BY places": lambda n: _select("sex, COUNT(*)", f"GROUP BY sex ORDER BY {_list(lambda k: '2', n)}"),
    "ORDER BY places of a table": lambda n: _select(
        "sex, ROUND(COUNT(*))", f"GROUP BY sex ORDER BY {_list(lambda k: '2', n)}"
    ),
    "ORDER BY aggregates": lambda n: _select(
        "sex, COUNT(*)", f"GROUP BY sex ORDER BY {_list(lambda k: f'COUNT(*) FILTER (WHERE age = {k % 20})', n)}"
    ),
    "ORDER BY expressions": lambda n: _select(
        "sex, COUNT(*)", f"GROUP BY sex ORDER BY {_list(lambda k: f'ROUND(COUNT(*) + {k})', n)}"
    ),
    "ORDER BY aliases": lambda n: _select(
        f"sex, {_list(lambda k: f'COUNT(*) AS a{k}', n)}", f"GROUP BY sex ORDER BY {_list(lambda k: f'a{k}', n)}"
    ),
    "GROUP BY a long place": lambda n: _select("sex, ROUND(COUNT(*))", f"GROUP BY {'1' * n}"),
    "ORDER BY a long place": lambda n: _select("sex, ROUND(COUNT(*))", f"GROUP BY sex ORDER BY {'1' * n}"),
    "LIMIT a long number": lambda n: _select("sex, ROUND(COUNT(*))", f"GROUP BY sex LIMIT {'1' * n}"),
    "digits of a type": lambda n: _select("COUNT(*)", f"WHERE CAST(age AS DECIMAL(9, {'1' * n})) = 1"),
    "DESCRIBE and blanks": lambda n: "DESCRIBE" + " " * n + "t t",
    "HAVING IN": lambda n: _select("sex, COUNT(*)", f"GROUP BY sex HAVING COUNT(*) IN ({_list(str, n)})"),
    "HAVING AND": lambda n: _select(
        "sex, COUNT(*)", f"GROUP BY sex HAVING {_list(lambda k: f'COUNT(*) > {k}', n, ' AND ')}"
    ),
    "HAVING OR of aggregates": lambda n: _select(
        "sex, COUNT(*)",
        f"GROUP BY sex HAVING {_list(lambda k: f'COUNT(*) FILTER (WHERE age = {k % 20}) > {k}', n, ' OR ')}",
    ),
    "QUALIFY": lambda n: _select(
        "sex, COUNT(*)", f"GROUP BY sex QUALIFY {_list(lambda k: f'RANK() OVER (ORDER BY COUNT(*)) > {k}', n, ' AND ')}"
    ),
    "windows": lambda n: _select(
        "age, " + _list(lambda k: f"SUM(COUNT(*)) OVER (ORDER BY age ROWS {k % 9} PRECEDING)", n), "GROUP BY age"
    ),
    "LAGs": lambda n: f"SELECT {_list(lambda k: f'LAG(n, {k}) OVER (ORDER BY sex)', n, ' + ')} FROM ({_N})",
    "MAX of groups": lambda n: f"SELECT {_list(lambda k: f'MAX(n + {k} * n)', n)} FROM ({_N})",
    "JOIN of counts": lambda n: (
        f"WITH c AS ({_N}) SELECT c.n FROM c {_list(lambda k: f'JOIN c AS c{k} USING (sex)', n, ' ')}"
    ),
    "CROSS JOIN": lambda n: f"WITH c AS ({_N}) SELECT c.n FROM c" + "".join(f", c AS c{k}" for k in range(n)),
    "VALUES beside counts": lambda n: f"SELECT COUNT(*) FROM (VALUES {_list(lambda k: f'({k})', n)}) AS v(k), ({_N})",
    "look-up": lambda n: (
        f"WITH l(age, b) AS (VALUES {_list(lambda k: f'({k}, {k % 3})', n)}) "
        "SELECT b, COUNT(*) FROM t JOIN l USING (age) GROUP BY b"
    ),
    "UNION": lambda n: _list(lambda k: f"SELECT {k}, COUNT(*) FROM t", n, " UNION "),
    "PIVOT": lambda n: f"SELECT * FROM t PIVOT (COUNT(*) FOR age IN ({_list(str, n)}) GROUP BY sex)",
    "PARTITION BY": lambda n: _select(
        "sex, SUM(COUNT(*)) OVER (PARTITION BY " + _list(lambda k: "sex", n) + ")", "GROUP BY sex"
    ),
    "DISTINCT": lambda n: "SELECT DISTINCT " + _list(lambda k: f"sex AS s{k}", n) + " FROM t",
    "WITH, unused": lambda n: (
        "WITH " + _list(lambda k: f"c{k} AS (SELECT COUNT(*) FROM t)", n) + " SELECT COUNT(*) FROM t"
    ),
    "UNION ALL": lambda n: _list(lambda k: "SELECT COUNT(*) FROM t", n, " UNION ALL "),
    "UNION ALL and ORDER BY": lambda n: (
        _list(lambda k: "SELECT COUNT(*) AS n FROM t", n, " UNION ALL ") + " ORDER BY n"
    ),
    "long text": lambda n: _select("COUNT(*)", f"WHERE sex = '{'x' * n}'"),
    "long number": lambda n: _select("COUNT(*)", f"WHERE age < 1{'0' * n}"),
    "long fraction": lambda n: _select("COUNT(*)", f"WHERE age < 0.{'3' * n}"),
    "long name": lambda n: _select("COUNT(*)", f"WHERE {'x' * n} = 1"),
    "long alias": lambda n: _select(f"COUNT(*) AS {'x' * n}"),
    "long table": lambda n: f"SELECT COUNT(*) FROM {'x' * n}",
    "unknown names": _where(lambda k: f"agf{k} = 1", " AND "),
    "unknown functions": _where(lambda k: f"agf{k}(age) = 1", " AND "),
    "dots": lambda n: _select("COUNT(*)", f"WHERE {_list(lambda k: 'a', n, '.')} = 1"),
    "casts": lambda n: _select("COUNT(*)", f"WHERE age{'::INT' * n} = 1"),
    "casts of an aggregate": lambda n: _select(f"COUNT(*){'::DOUBLE' * n}"),
    "brackets after": lambda n: _select("COUNT(*)", f"WHERE age{'[1]' * n} = 1"),
    "NOT": lambda n: _select("COUNT(*)", f"WHERE {'NOT ' * n} ill"),
    "minus": lambda n: _select("COUNT(*)", f"WHERE {'- ' * n} age = 1"),
    "minus a number": lambda n: _select("COUNT(*)", f"WHERE age = {'- ' * n} 1"),
    "IS TRUE": lambda n: _select("COUNT(*)", f"WHERE ill {'IS TRUE ' * n}"),
    "BETWEEN": _where(lambda k: f"age BETWEEN {k % 9} AND 12", " AND "),
    "COLLATE": lambda n: _select("COUNT(*)", f"WHERE sex {'COLLATE x ' * n} = 'F'"),
    "AT TIME ZONE": lambda n: _select("COUNT(*)", f"WHERE day {AT_ZONE * n} = 'F'"),
    "intervals": lambda n: _select("COUNT(*)", f"WHERE day < DATE '2024-01-01' {'+ INTERVAL 1 DAY ' * n}"),
    "a long interval": lambda n: _select("COUNT(*)", f"WHERE day < DATE '2024-01-01' + INTERVAL {'9' * n} DAY"),
    "JOIN": lambda n: f"SELECT COUNT(*) FROM t {'JOIN t USING (age) ' * n}",
    "tables": lambda n: f"SELECT COUNT(*) FROM {_list(lambda k: 't', n)}",
    "VALUES": lambda n: f"SELECT COUNT(*) FROM (VALUES {_list(lambda k: f'({k})', n)})",
    "statements": lambda n: "SELECT COUNT(*) FROM t; " * n,
    "semicolons": lambda n: "SELECT COUNT(*) FROM t" + ";" * n,
    "comments": lambda n: "SELECT COUNT(*) FROM t " + "/* x */ " * n,
    "a long comment": lambda n: "SELECT COUNT(*) FROM t -- " + "x" * n,
    "quotation marks": lambda n: "SELECT COUNT(*) FROM t WHERE sex = " + "''" * n,
    "an open quotation": lambda n: "SELECT COUNT(*) FROM t WHERE sex = '" + "x''" * n,
    "dollar quotes": lambda n: "SELECT COUNT(*) FROM t WHERE sex = $$" + "$" * n,
    "dollar tags": lambda n: "SELECT COUNT(*) FROM t WHERE sex = " + "$a$ $b$ " * n,
    "blanks": lambda n: "SELECT COUNT(*) FROM t" + " \n" * n,
    "Unicode": lambda n: _select("COUNT(*)", f"WHERE sex = '{WIDE * n}'"),
    "other signs": lambda n: "@#~^\\" * n,
    "commas": lambda n: "SELECT " + "," * n,
    "stars": lambda n: "SELECT " + "* " * n + "FROM t",
    "words": lambda n: "SELECT " * n,
    "hints": lambda n: "SELECT " + "/*+ x */ " * n + "COUNT(*) FROM t",
    "WITHIN GROUP": lambda n: _select(_list(lambda k: "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)", n)),
    "windows by name": lambda n: _select("COUNT(*)", "WINDOW " + _list(lambda k: f"w{k} AS (ORDER BY age)", n)),
    "FILTER of ANDs": lambda n: _select(f"COUNT(*) FILTER (WHERE {_list(lambda k: f'age <> {k % 20}', n, ' AND ')})"),
    "AVG of CASE": lambda n: _select(f"AVG(CASE {_list(lambda k: f'WHEN age = {k % 20} THEN charge', n, ' ')} END)"),
    "MAX of CASE": lambda n: _select(f"MAX(CASE {_list(lambda k: f'WHEN age = {k % 20} THEN age', n, ' ')} END)"),
    "CASE of two attributes": lambda n: _select(
        f"SUM(CASE {_list(lambda k: f'WHEN age = {k % 20} AND pay < {k * 7 % 1000} THEN 1', n, ' ')} END)"
    ),
    "columns with their table": _where(lambda k: f"t.age <> {k % 20}", " AND "),
    "DESCRIBE": lambda n: "DESCRIBE " + "t " * n,
}
AT_ZONE, WIDE = "AT TIME ZONE 'UTC' ", "\ufdfa\U0001f600"

# What costs the product of two lengths, or of length and depth, within the steps that there are, and how often here.
PRODUCTS = {"IN of a real": 1500, "scalar subqueries over subqueries": 45}

# Deeper by each step.
_SQUARED = "SELECT sex, n * n AS n, LAG(n) OVER (ORDER BY sex) AS m FROM {0}"

NESTED: dict[str, Statement] = {
    "WITH, squares of sums over groups": _levels(_N, _SQUARED, "SELECT n, m FROM {0}"),
    "WITH, JOIN with itself": _levels(
        _N, "SELECT a.sex, a.n + b.n AS n FROM {0} AS a JOIN {0} AS b USING (sex)", "SELECT SUM(n) FROM {0}"
    ),
    "WITH, CROSS JOIN with itself": _levels(_N, "SELECT a.n FROM {0} AS a, {0} AS b", "SELECT SUM(n) FROM {0}"),
    "WITH, greatest so far": _levels(
        "SELECT age, COUNT(*) AS n FROM t GROUP BY age",
        "SELECT age, MAX(n) OVER (ORDER BY age) AS n FROM {0}",
        "SELECT SUM(n) FROM {0}",
    ),
    "WITH, running sums": _levels(
        "SELECT age, COUNT(*) AS n FROM t GROUP BY age",
        "SELECT age, SUM(n) OVER (ORDER BY age) AS n FROM {0}",
        "SELECT age, n FROM {0}",
    ),
    "parentheses": _inside("(", "age", ")"),
    "parentheses around a query": lambda n: "(" * n + "SELECT COUNT(*) FROM t" + ")" * n,
    "parentheses of an aggregate": lambda n: _select("(" * n + "COUNT(*)" + ")" * n),
    "brackets": _inside("[", "age", "]"),
    "braces": _inside("{'a': ", "age", "}"),
    "FLOOR": _inside("FLOOR(", "age", ")"),
    "ROUND of an aggregate": lambda n: _select("ROUND(" * n + "COUNT(*)" + ")" * n),
    "ABS and FLOOR in SUM": lambda n: _select("SUM(" + "ABS(FLOOR(" * (n // 2) + "age" + "))" * (n // 2) + ")"),
    "unknown function": _inside("foo(", "age", ")"),
    "lambda": _inside("foo(x -> ", "x", ")"),
    "arrow": _inside("(x) -> (", "x", ")"),
    "CASE": _inside("CASE WHEN ill THEN ", "1", " ELSE 0 END"),
    "CASE in a condition": _inside("CASE WHEN ", "ill", " THEN ill ELSE ill END", "SELECT COUNT(*) FROM t WHERE {}"),
    "CASE of an aggregate": lambda n: _select("CASE WHEN COUNT(*) > 1 THEN " * n + "1" + " ELSE 0 END" * n),
    "CASE in SUM, nested": lambda n: _select("SUM(" + "CASE WHEN age > 3 THEN " * n + "1" + " ELSE 0 END" * n + ")"),
    "CASE operand": _inside("CASE ", "age", " WHEN 1 THEN 2 END"),
    "IF": _inside("IF(ill, ", "1", ", 0)"),
    "IF in both": _subqueries("IF(ill, {0}, {0})", "1", "SELECT COUNT(*) FROM t WHERE {} = 1"),
    "COALESCE, nested": _inside("COALESCE(age, ", "age", ")"),
    "CAST": _inside("CAST(", "age", " AS INT)"),
    "TRY_CAST": _inside("TRY_CAST(", "age", " AS INT)"),
    "EXTRACT": _inside("EXTRACT(YEAR FROM ", "day", ")"),
    "SUBSTRING": _inside("SUBSTRING(", "sex", ", 1, 1)"),
    "SUBSTRING FROM": _inside("SUBSTRING(", "sex", " FROM 1 FOR 1)"),
    "TRIM": _inside("TRIM(", "sex", ")"),
    "TRIM BOTH": _inside("TRIM(BOTH 'x' FROM ", "sex", ")"),
    "POSITION": _inside("POSITION('x' IN ", "sex", ")"),
    "CONCAT, nested": _inside("CONCAT(sex, ", "sex", ")"),
    "CONCAT, doubling": _subqueries("CONCAT({0}, {0})", "sex", "SELECT COUNT(*) FROM t WHERE {} = 'F'"),
    "NOT of parentheses": _inside("NOT (", "ill", ")", "SELECT COUNT(*) FROM t WHERE {}"),
    "NOT of AND": _inside("NOT (ill AND ", "ill", ")", "SELECT COUNT(*) FROM t WHERE {}"),
    "AND and OR": _inside("(age > 3 OR sex = 'F' AND ", "ill", ")", "SELECT COUNT(*) FROM t WHERE {}"),
    "BETWEEN, nested": _inside("age BETWEEN 1 AND (", "1", ")", "SELECT COUNT(*) FROM t WHERE {}"),
    "IN, nested": _inside("age IN (", "1", ")", "SELECT COUNT(*) FROM t WHERE {}"),
    "IS, nested": _inside("(", "ill", " IS TRUE)", "SELECT COUNT(*) FROM t WHERE {}"),
    "EXISTS": _inside("EXISTS (SELECT 1 FROM t WHERE ", "ill", ")", "SELECT COUNT(*) FROM t WHERE {}"),
    "scalar subqueries, nested": _subqueries(
        "(SELECT COUNT(*) FROM t WHERE age > {})", "1", "SELECT COUNT(*), {} FROM t"
    ),
    "scalar subqueries of WITH": _subqueries(
        "(SELECT SUM(n) + {} FROM c)", "1", "WITH c AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) SELECT {} FROM t"
    ),
    "scalar subqueries over subqueries": _subqueries(
        "(SELECT COUNT(*) + {} FROM (SELECT * FROM t))", "1", "SELECT COUNT(*), {} FROM t"
    ),
    "subqueries in FROM": _subqueries("SELECT * FROM ({}) AS s", _N),
    "subqueries with *": _subqueries("SELECT *, n AS m FROM ({}) AS s", _N),
    "subqueries of stars": _subqueries("SELECT *, * FROM ({}) AS s", _N),
    "subqueries with WHERE": _subqueries("SELECT sex, n FROM ({}) AS s WHERE n > 1", _N),
    "subqueries with ORDER BY": _subqueries("SELECT sex, n FROM ({}) AS s ORDER BY n", _N),
    "subqueries with a rank": _subqueries("SELECT sex, n, RANK() OVER (ORDER BY n) AS r FROM ({}) AS s", _N),
    "doubling expressions": _subqueries("SELECT sex, n + n AS n FROM ({}) AS s", _N),
    "doubling keys": _subqueries(
        "SELECT a + a AS a FROM ({}) AS s", "SELECT age AS a FROM t", "SELECT a, COUNT(*) FROM ({}) AS s GROUP BY a"
    ),
    "doubling conditions": _subqueries(
        "SELECT b AND b AS b FROM ({}) AS s", "SELECT ill AS b FROM t", "SELECT COUNT(*) FROM ({}) AS s WHERE b"
    ),
    "doubling texts": _subqueries(
        "SELECT a || a AS a FROM ({}) AS s", "SELECT sex AS a FROM t", "SELECT a, COUNT(*) FROM ({}) AS s GROUP BY a"
    ),
    "doubling in ORDER BY": _subqueries("SELECT sex, n FROM ({}) AS s ORDER BY n + n", _N),
    "doubling aliases": lambda n: _select(
        "sex, COUNT(*) AS a0, " + _list(lambda k: f"a{k} + a{k} AS a{k + 1}", n), f"GROUP BY sex ORDER BY a{n}"
    ),
    "doubling SUM": _subqueries("SELECT SUM(n) + SUM(n) AS n FROM ({}) AS s", _N),
    "WITH, doubling UNION ALL": _levels(
        "SELECT sex FROM t", "SELECT * FROM {0} UNION ALL SELECT * FROM {0}", "SELECT * FROM {}"
    ),
    "WITH, doubling expressions": _levels(_N, "SELECT sex, n + n AS n FROM {0}", "SELECT * FROM {}"),
    "WITH, one after the other": _levels(_N, "SELECT * FROM {0}", "SELECT * FROM {}"),
    "WITH in WITH": _subqueries("WITH c AS ({}) SELECT * FROM c", _N),
    "UNION ALL in parentheses": _subqueries("({0}) UNION ALL ({0})", "SELECT COUNT(*) FROM t"),
    "UNION ALL to the right": _subqueries("SELECT COUNT(*) FROM t UNION ALL ({0})", "SELECT COUNT(*) FROM t"),
    "UNION ALL over UNION ALL": _subqueries("SELECT * FROM ({0} UNION ALL {0}) AS s", "SELECT COUNT(*) FROM t"),
    "GROUPING SETS, nested": _subqueries("GROUPING SETS ({0}, {0})", "(age)", "SELECT COUNT(*) FROM t GROUP BY {}"),
    "GROUPING SETS, nested once": _subqueries("GROUPING SETS ({0})", "(age)", "SELECT COUNT(*) FROM t GROUP BY {}"),
    "ROLLUP, nested": _subqueries("ROLLUP ({0}, age)", "age", "SELECT COUNT(*) FROM t GROUP BY {}"),
    "tuples": _subqueries("({0}, {0})", "age", "SELECT COUNT(*) FROM t GROUP BY {}"),
    "types": lambda n: _select("COUNT(*)", f"WHERE age::{'ARRAY<' * n}INT{'>' * n} = 1"),
    "structs": lambda n: _select("COUNT(*)", f"WHERE age::{'STRUCT(a ' * n}INT{')' * n} = 1"),
    "arrays of types": lambda n: _select("COUNT(*)", f"WHERE age::INT{'[]' * n} = 1"),
    "windows, nested": lambda n: _select("SUM(" * n + "COUNT(*)" + ") OVER ()" * n),
    "FILTER, nested": _subqueries("COUNT(*) FILTER (WHERE age > {0})", "1", "SELECT {} FROM t"),
    "intervals, nested": lambda n: _select("COUNT(*)", "WHERE day > " + "INTERVAL (" * n + "1" + ") DAY" * n),
    "comments, nested": lambda n: "SELECT COUNT(*) FROM t " + "/* " * n + "*/ " * n,
    "JOINs in parentheses": lambda n: "SELECT COUNT(*) FROM " + "(" * n + "t" + " JOIN t ON ill)" * n,
    "LATERAL": _subqueries("SELECT * FROM t, LATERAL ({0}) AS s", "SELECT COUNT(*) FROM t"),
    "powers, nested": _inside("POWER(2, ", "age", ")"),
    "** and ^": _inside("2 ** (", "age", ")"),
    "LEFT and RIGHT": _inside("LEFT(RIGHT(", "sex", ", 1), 1)"),
}

# Expressions that hold another one, with {} where it stands: two of them are nested in turn.
HOLDERS: dict[str, str] = {
    "parentheses": "({})",
    "a function": "FLOOR({})",
    "another function": "COALESCE({}, 1)",
    "an unknown function": "foo({})",
    "CASE": "CASE WHEN {} > 1 THEN 1 ELSE 0 END",
    "IF": "IF(ill, {}, 0)",
    "CAST": "CAST({} AS INT)",
    "NOT": "NOT {}",
    "minus": "- {}",
    "a sum": "{} + 1",
    "||": "{} || 'x'",
    "BETWEEN": "{} BETWEEN 1 AND 2",
    "IN": "{} IN (1, 2)",
    "LIKE": "{} LIKE '%a%'",
    "AND": "{} AND ill",
    "a subquery": "(SELECT COUNT(*) FROM t WHERE {} > 1)",
    "an array": "[{}]",
    "a lambda": "foo(x -> {})",
    "EXTRACT": "EXTRACT(YEAR FROM {})",
    "::": "{}::INT",
}


def nested_in_turn(first: str, second: str) -> Statement:
    """Two holders nested n times in turn, around an attribute."""

    def text(n: int) -> str:
        found = "age"
        for step in range(n):
            found = HOLDERS[(first, second)[step % 2]].format(found)
        return f"SELECT COUNT(*) FROM t WHERE {found} = 1"

    return text


# What an attack found: each of these took for ever, or seconds and hundreds of megabytes.
ATTACKS: dict[str, str] = {
    "LIKE": f"SELECT COUNT(*) FROM t WHERE '{'a' * 60}' LIKE '{'%a' * 14}%b'",
    "ILIKE with _": f"SELECT COUNT(*) FROM t WHERE '{'a' * 60}' ILIKE '{'%_a' * 14}%b'",
    "CUBE": REPEATED["CUBE"](28),
    "ROLLUP": REPEATED["ROLLUP"](500),
    "UNION ALL": NESTED["WITH, doubling UNION ALL"](24),
    "an expression": NESTED["doubling expressions"](20),
    "ORDER BY": REPEATED["ORDER BY places of a table"](2500),
    "HAVING": REPEATED["HAVING IN"](3000),
}
MEGABYTE = 2**20
ALLOWED_SECONDS = 2  # of CPU, on a machine that does `fixed_work` in FIXED_SECONDS; more on one that is slower
FIXED_SECONDS = 0.15
ALLOWED_MEGABYTES = 200


def save_release(folder: Path) -> Path:
    """A release of SCHEMA, by the plainest mechanism."""
    import sfumato as sf

    rows = (
        f"{n % 20},{'FM'[n % 2]},{n % 1000},{'true' if n % 3 else 'false'},2024-01-{n % 31 + 1:02d},{n % 100}"
        for n in range(500)
    )
    (folder / "t.csv").write_text("age,sex,pay,ill,day,charge\n" + "\n".join(rows) + "\n")
    schema = sf.Schema.from_dict(SCHEMA)
    made = sf.release(folder / "t.csv", schema, 500, mechanism="cells", ledger=folder / "ledger.sqlite")
    return made.save(folder / "t.sfumato")


def asked_apart(file: Path, statements: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What becomes of statements, each in a process of its own that is ended when it takes too long."""
    asked = json.dumps({"file": str(file), "statements": statements})
    run = subprocess.run([sys.executable, __file__], input=asked, capture_output=True, text=True, check=True)
    return {line["name"]: line for line in map(json.loads, run.stdout.splitlines())}


def fixed_work() -> float:
    """CPU seconds of a piece of work that is always the same, by which one machine is slower than another."""
    before, counts = process_time(), dict[int, int]()
    for number in range(400_000):
        counts[number & 1023] = counts.get(number & 1023, 0) + len(str(number))
    return process_time() - before


def _ask_all() -> None:
    """Read what to ask from stdin; print a line for each statement."""
    import resource

    import sfumato as sf
    from sfumato.serve.web.answers import size_of

    asked = json.load(sys.stdin)
    release = sf.open(asked["file"])
    release.query("SELECT sex, ROUND(COUNT(*)) FROM t GROUP BY sex")  # what is loaded once
    for name, statement in asked["statements"].items():
        sys.stdout.flush()
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (8 * ALLOWED_SECONDS, 8 * ALLOWED_SECONDS))
            fixed = fixed_work()
            before = resource.getrusage(resource.RUSAGE_SELF)
            try:
                size_of(statement, release)
                release.query(statement)
                end = "answered"
            except sf.SfumatoError as error:
                end = f"refused: {error}"
            after = resource.getrusage(resource.RUSAGE_SELF)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            slower = max(FIXED_SECONDS, fixed, fixed_work()) / FIXED_SECONDS
            more = (after.ru_maxrss - before.ru_maxrss) * 1024 / MEGABYTE
            print(json.dumps({"name": name, "end": end, "seconds": seconds / slower, "megabytes": more}), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps({"name": name, "end": "killed", "seconds": math.inf, "megabytes": math.inf}))


if __name__ == "__main__":
    _ask_all()
