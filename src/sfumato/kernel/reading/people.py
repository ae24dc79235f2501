"""SQL of one row a person out of many, by a schema's `per_person`, as rows that the one statement reads.

    read     each row's person and the values that are asked for; rows of nobody fall out
    number   where the first or last value is asked for: a person's rows in their order, ties by the value itself
    group    by person

Privacy leans on two properties of it (docs/privacy.md, theorem on rows a person).
1. A person's row is a function of the set of that person's rows: nothing but aggregates of values that are read row by
   row, grouped by the person and numbered within the person. Ties in an order are between equal values. Sums are of
   whole steps, exact in 38 digits, because a sum of floats depends on their order, and that on everybody's rows.
2. No value can make it fail: values are read as the statement reads them, and clipped before they are made whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.binning import read_number, read_text, read_time, read_unit, read_value
from sfumato.kernel.reading.derived import Derived
from sfumato.kernel.reading.engines import Column, Engine, used_columns
from sfumato.kernel.reading.expressions import (
    SQL,
    TEXTS,
    cast,
    choose,
    clip,
    column,
    double,
    is_present,
    moment,
    named,
    over,
    select,
    type_of,
    whole,
)
from sfumato.kernel.reading.statement import clipped_sum
from sfumato.schema import Schema
from sfumato.schema.attributes import Boolean
from sfumato.schema.per_person import Aggregate, PersonRule, kinds_of

ENGINES = ("duckdb", "postgres", "spark")
TYPES = {"whole": "BIGINT", "number": "DOUBLE", "text": "TEXT"}
STEPS = 10**6  # of 1, in sums
LARGEST = 10**12  # value in a sum; larger ones count as this one


def per_person(engine: Engine, schema: Schema, rule: PersonRule, columns: Mapping[str, Column]) -> Derived:
    """Derive one row a person. columns: the engine's column for each name that the rule reads."""
    if engine.dialect not in ENGINES:
        raise TableError(
            "per_person is read from files, frames, SQLite, DuckDB, PostgreSQL and Spark; elsewhere make a table with "
            "one row a person, and leave per_person out"
        )
    kinds = kinds_of(rule, schema.attributes, schema.measures)
    source = columns[rule.person]
    person = read_text(replace(source, who=None), engine)
    wanted = [named(read_unit(source, engine), "who"), named(person, "person")]
    numbers, results, made = list[SQL](), list[SQL](), list[Column]()
    parts = {part.column: part for part in schema.attributes.values() if isinstance(part, Boolean)}
    for place, each in enumerate(each for each in rule.aggregates if each.name in kinds):
        kind, name = kinds[each.name], f"v{place}"
        if each.argument is not None:
            value = _value(each, kind, columns[each.argument], engine, parts.get(each.name))
            if each.order is not None:
                keys = _keys(columns[each.order], engine)
                value = choose([(is_present(keys[-1]), value)], exp.Null())
                wanted += [named(key, f"k{place}_{n}") for n, key in enumerate(keys)]
                numbers.append(named(_number(each, place, len(keys)), f"n{place}"))
            wanted.append(named(value, name))
        results.append(named(_result(each, kind, place), f"p{place}"))
        made.append(Column(each.name, TYPES.get(kind, kind.upper()), f"p{place}", derived=_from_view(columns)))
    rows = exp.Select(expressions=wanted).from_(engine.table(), copy=False)
    if numbers:
        rows = select([exp.Star(), *numbers], rows)
    people = select([column("who"), named(exp.Min(this=column("person")), "person"), *results], rows)
    people = people.where(is_present(column("who")), copy=False)  # for privacy: nobody is no person
    people.set("group", exp.Group(expressions=[column("who")]))
    whose = Column(rule.person, TYPES["text"], "person", derived=_from_view(columns), who="who")
    read = used_columns(engine, columns)
    reads = [one if one.reference == source.reference else replace(one, who=None) for one in read]
    return Derived(engine, people, [whose, *made], reads)


def _from_view(columns: Mapping[str, Column]) -> bool:
    return any(one.derived for one in columns.values())


def _value(each: Aggregate, kind: str, source: Column, engine: Engine, boolean: Boolean | None) -> SQL:
    """SQL of a row's value as an aggregate takes it; NULL if it has none."""
    source = replace(source, who=None)
    if each.function in ("values", "different"):
        value = read_unit(source, engine)  # as people are told apart: texts by their bytes
        found = type_of(source, engine.dialect)
        empty = engine.bytes_of(exp.Literal.string(""))
        return exp.Nullif(this=value, expression=empty) if found is None or found in TEXTS else value
    if kind == "text":
        return exp.Nullif(this=read_text(source, engine), expression=exp.Literal.string(""))
    if kind in ("date", "timestamp"):
        return engine.safe_cast(read_time(source, engine), source, kind)
    if kind == "boolean":
        truth = read_value(boolean or Boolean(type="boolean"), source, engine)
        return choose([(truth, whole(1)), (exp.Not(this=truth.copy()), whole(0))], exp.Null())
    number = read_number(source, engine)
    if each.function not in ("sum", "mean"):
        return number
    steps = exp.Floor(this=clip(number, double(-LARGEST), double(LARGEST)) * double(STEPS) + double(0.5))
    return choose([(is_present(number), cast(steps, "bigint"))], exp.Null())


def _keys(source: Column, engine: Engine) -> list[SQL]:
    """SQL of the order of a row's value: times, then numbers, then texts by their bytes where a source has no types."""
    value = read_unit(replace(source, who=None), engine)
    if source.type is not None:
        return [value]
    time, number = engine.safe_cast(read_time(source, engine), source, "timestamp"), read_number(source, engine)
    rank = choose([(is_present(time), whole(0)), (is_present(number), whole(1))], whole(2))
    earliest = moment(datetime(1, 1, 1))
    return [
        rank,
        exp.Coalesce(this=time, expressions=[earliest]),
        exp.Coalesce(this=number, expressions=[double(0)]),
        exp.Nullif(this=value, expression=engine.bytes_of(exp.Literal.string(""))),
    ]


def _number(each: Aggregate, place: int, keys: int) -> SQL:
    """SQL of the place of a row among those of its person that have a value, in their order."""
    last = each.function == "last"
    value = column(f"v{place}")
    parts = [*(column(f"k{place}_{n}") for n in range(keys)), value]
    there = choose([(is_present(value), whole(0))], whole(1))
    order = [exp.Ordered(this=there), *(exp.Ordered(this=part.copy(), desc=last) for part in parts)]
    return exp.Window(this=exp.RowNumber(), partition_by=[column("who")], order=exp.Order(expressions=order))


def _result(each: Aggregate, kind: str, place: int) -> SQL:
    """SQL of an aggregate of a person's values."""
    value: SQL = column(f"v{place}")
    if each.order is not None:
        value = choose([(exp.EQ(this=column(f"n{place}"), expression=whole(1)), value)], exp.Null())
    match each.function:
        case "rows":
            return exp.Count(this=exp.Star())
        case "values":
            return exp.Count(this=value)
        case "different":
            return exp.Count(this=exp.Distinct(expressions=[value]))
        case "sum":
            return over(cast(clipped_sum(value), "double"), double(STEPS))
        case "mean":
            rows = cast(exp.Count(this=value.copy()), "double")
            return over(cast(clipped_sum(value), "double"), exp.paren(rows * double(STEPS)))
        case "least" | "all":
            found: SQL = exp.Min(this=value)
        case _:
            found = exp.Max(this=value)
    return exp.EQ(this=found, expression=whole(1)) if kind == "boolean" else found
