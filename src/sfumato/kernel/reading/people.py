"""SQL of one row a person out of many, by a schema's `per_person`, as rows that the one statement reads.

    read     each row's person and the values that are asked for; rows of nobody fall out
    group    by person; the first or last value in an order is the least or greatest pair of order and value

Privacy leans on two properties of it (docs/privacy.md, theorem on rows a person).
1. A person's row is a function of the set of that person's rows: nothing but aggregates of values that are read row by
   row, grouped by the person. Ties in an order are broken by the value, so what is left of them are equal values. Sums
   are of whole steps, exact in 38 digits, because a sum of floats depends on their order, and that on everybody's rows.
2. No value can make it fail: values are read as the statement reads them, and clipped before they are made whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.binning import read_number, read_time, read_unit, read_value
from sfumato.kernel.reading.engines import Column, Derived, Engine, used_columns
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
from sfumato.kernel.reading.recoding import expression_sql, guarded, reading
from sfumato.kernel.reading.statement import clipped_sum
from sfumato.schema import Schema
from sfumato.schema.attributes import Boolean
from sfumato.schema.per_person import COUNTS, Aggregate, PersonRule
from sfumato.schema.recode import Expression

ENGINES = ("duckdb", "postgres", "spark")
TYPES = {"number": "DOUBLE", "text": "TEXT", "boolean": "BOOLEAN", "date": "DATE", "time": "TIMESTAMP"}
STEPS = 10**6  # of 1, in sums
LARGEST = 10**12  # value in a sum; larger ones count as this one


def per_person(engine: Engine, rule: PersonRule, columns: Mapping[str, Column], schema: Schema) -> Derived:
    """Derive one row a person. columns: the engine's column for each name that the rule reads."""
    if engine.dialect not in ENGINES:
        raise TableError(
            "per_person is read from files, frames, SQLite, DuckDB, PostgreSQL and Spark; elsewhere make a table with "
            "one row a person, and leave per_person out"
        )
    source, view = columns[rule.person], any(one.derived for one in columns.values())
    text = named(reading("text", replace(source, who=None), engine), "person")
    people, made = grouped(engine, rule, columns, schema, read_unit(source, engine), [text])
    people, found = with_expressions(people, ["who", "person"], rule, made, engine)
    whose = Column(rule.person, TYPES["text"], "person", derived=view, who="who")
    read = used_columns(engine, columns)
    reads = [one if one.reference == source.reference else replace(one, who=None) for one in read]
    return Derived(engine, people, [whose, *found], reads)


def grouped(
    engine: Engine,
    rule: PersonRule,
    columns: Mapping[str, Column],
    schema: Schema,
    who: SQL,
    beside: Sequence[SQL] = (),
) -> tuple[exp.Select, dict[str, Column]]:
    """SQL of a rule's aggregates by person, and their columns by the rule's numbers.

    who: SQL of a row's person. beside: values that are the same in all rows of a person.
    """
    booleans = {part.column: part for part in schema.attributes.values() if isinstance(part, Boolean)}
    spelled = {value.value: booleans.get(name) for name, value in rule.columns.items() if value.op == "column"}
    view = any(one.derived for one in columns.values())
    plain = {name: replace(one, who=None) for name, one in columns.items()}
    wanted = [named(who, "who"), *beside]
    numbers, results, made = list[SQL](), list[SQL](), dict[str, Column]()
    for number, each in rule.aggregates.items():
        keys = [] if each.order is None else _keys(each.order, plain, engine)
        value = _value(each, plain, engine, spelled.get(number))
        if keys:  # rows without an order are passed over
            value = choose([(is_present(keys[-1]), value)], exp.Null())
            wanted += [named(key, f"k{number}_{place}") for place, key in enumerate(keys)]
            in_order = [*(column(f"k{number}_{place}") for place in range(len(keys))), column(f"v{number}")]
            if engine.dialect == "postgres":  # which has no least or greatest row
                numbers.append(named(_number(in_order, last=each.function == "last"), f"n{number}"))
        wanted.append(named(value, f"v{number}"))
        results.append(named(_result(each, number, len(keys), engine), f"of_person{number}"))
        word = "BIGINT" if each.function in COUNTS else TYPES[_kind(each)]
        made[number] = Column(number, word, f"of_person{number}", derived=view)
    rows = exp.Select(expressions=wanted).from_(engine.table(), copy=False)
    if rule.where is not None:
        rows = rows.where(expression_sql(rule.where, plain, engine), copy=False)
    if numbers:
        rows = select([exp.Star(), *numbers], rows)
    common = [named(exp.Min(this=column(one.alias)), one.alias) for one in beside]
    people = select([column("who"), *common, *results], rows)
    people = people.where(is_present(column("who")), copy=False)  # for privacy: nobody is no person
    people.set("group", exp.Group(expressions=[column("who")]))
    return people, made


def with_expressions(
    people: exp.Select, beside: Sequence[str], rule: PersonRule, made: Mapping[str, Column], engine: Engine
) -> tuple[exp.Select, list[Column]]:
    """SQL of rows with a rule's columns; return it and the columns. made: aggregates. beside: names to carry along."""
    if all(value.op == "column" for value in rule.columns.values()):
        return people, [replace(made[value.value], name=name) for name, value in rule.columns.items()]
    wanted, found = [*map(column, beside)], list[Column]()
    for place, (name, value) in enumerate(rule.columns.items()):
        bare = value.op == "column"
        sql = column(made[value.value].reference) if bare else expression_sql(value, made, engine)
        kind = made[value.value].type if bare else TYPES[value.kind or "text"]
        wanted.append(named(sql, f"by_person{place}"))
        found.append(Column(name, kind, f"by_person{place}", derived=any(one.derived for one in made.values())))
    return select(wanted, people), found


def _kind(each: Aggregate) -> str:
    """Kind of the values of an aggregate, which is that of its argument."""
    return (each.argument and each.argument.kind) or "number"


def _value(each: Aggregate, columns: Mapping[str, Column], engine: Engine, spelled: Boolean | None) -> SQL:
    """SQL of a row's value as an aggregate takes it; NULL if it has none.

    spelled: how the schema writes true and false, of the attribute that the aggregate is for.
    """
    value = _of_row(each, columns, engine, spelled)
    if _kind(each) == "boolean" and each.function not in COUNTS:
        value = choose([(value, whole(1)), (exp.Not(this=exp.paren(value.copy())), whole(0))], exp.Null())
    if _by_bytes(each, engine):
        value = engine.bytes_of(value)
    if each.function in ("sum", "mean"):
        steps = exp.Floor(this=clip(value, double(-LARGEST), double(LARGEST)) * double(STEPS) + double(0.5))
        value = choose([(is_present(value), cast(steps, "bigint"))], exp.Null())
    if each.condition is not None:
        value = choose([(expression_sql(each.condition, columns, engine), value)], exp.Null())
    return value


def _by_bytes(each: Aggregate, engine: Engine) -> bool:
    """Whether texts are ranked as bytes, whatever their collation; PostgreSQL has no least or greatest of these.

    There a text was read under the collation "C", which ranks bytes.
    """
    return _kind(each) == "text" and each.function not in COUNTS and engine.dialect != "postgres"


def _of_row(each: Aggregate, columns: Mapping[str, Column], engine: Engine, spelled: Boolean | None) -> SQL:
    argument = each.argument
    if argument is None:
        return whole(1)
    if argument.op != "column":
        found = expression_sql(argument, columns, engine)
        return engine.bytes_of(found) if each.function == "different" and argument.kind == "text" else found
    source = columns[argument.value]
    if each.function in ("values", "different"):
        return _compared(source, engine)
    if argument.kind == "boolean" and spelled is not None:
        return read_value(spelled, source, engine)
    value = reading(argument.kind or "text", source, engine)
    return exp.Nullif(this=value, expression=exp.Literal.string("")) if argument.kind == "text" else value


def _compared(source: Column, engine: Engine) -> SQL:
    """SQL of a value as persons' identifiers are compared: texts by their bytes; an empty one is missing."""
    value, found = read_unit(source, engine), type_of(source, engine.dialect)
    if found is not None and found not in TEXTS:
        return value
    return exp.Nullif(this=value, expression=engine.bytes_of(exp.Literal.string("")))


def _keys(order: Expression, columns: Mapping[str, Column], engine: Engine) -> list[SQL]:
    """SQL of a row's sort keys by an order; the last key is NULL where the row's order value is missing.

    A column without types has times first, then numbers, then texts by their bytes.
    """
    if order.op != "column":
        found = expression_sql(order, columns, engine)
        return [engine.bytes_of(found) if order.kind == "text" else found]
    source = columns[order.value]
    if source.type is not None:
        return [_compared(source, engine)]
    time = guarded("time", engine.safe_cast(read_time(source, engine), source, "timestamp"))  # inf is a number
    number = read_number(source, engine)
    rank = choose([(is_present(time), whole(0)), (is_present(number), whole(1))], whole(2))
    earliest, zero = moment(datetime(1, 1, 1)), double(0)
    times, numbers = exp.Coalesce(this=time, expressions=[earliest]), exp.Coalesce(this=number, expressions=[zero])
    return [rank, times, numbers, _compared(source, engine)]


def _number(in_order: Sequence[SQL], *, last: bool) -> SQL:
    """SQL of a row's rank among its person's rows that have a value; the last sort key is that value."""
    there = choose([(is_present(in_order[-1]), whole(0))], whole(1))
    order = [exp.Ordered(this=there), *(exp.Ordered(this=part.copy(), desc=last) for part in in_order)]
    # For privacy it is numbered within the person, whose rows alone decide.
    return exp.Window(this=exp.RowNumber(), partition_by=[column("who")], order=exp.Order(expressions=order))


def _at_an_end(number: str, keys: int, engine: Engine, *, last: bool) -> SQL:
    """SQL of FIRST or LAST: the value of a person's first or last row in the aggregate's order of `keys` columns."""
    value = column(f"v{number}")
    if engine.dialect == "postgres":
        first = exp.EQ(this=column(f"n{number}"), expression=whole(1))
        return exp.Max(this=choose([(first, value)], exp.Null()))
    names = [*(f"k{number}_{place}" for place in range(keys)), f"v{number}"]
    pairs = [exp.PropertyEQ(this=exp.to_identifier(name), expression=column(name)) for name in names]
    row = choose([(is_present(value), exp.Struct(expressions=pairs))], exp.Null())
    end = exp.Max(this=row) if last else exp.Min(this=row)
    return exp.Dot(this=exp.paren(end), expression=exp.to_identifier(names[-1], quoted=True))


def _result(each: Aggregate, number: str, keys: int, engine: Engine) -> SQL:
    """SQL of an aggregate of a person's values. number: in the names of its columns. keys: of its order, how many."""
    value: SQL = column(f"v{number}")
    match each.function:
        case "rows" | "values":
            every = each.function == "rows" and each.condition is None
            return exp.Count(this=exp.Star() if every else value)
        case "different":
            return exp.Count(this=exp.Distinct(expressions=[value]))
        case "sum" | "mean":
            rows: SQL = exp.Count(this=value)
            by = double(STEPS) if each.function == "sum" else exp.paren(cast(rows.copy(), "double") * double(STEPS))
            total = clipped_sum(value.copy(), *(["int128"] if engine.dialect == "duckdb" else []))
            # Without a value there is no sum; the clipped one would be the least of all.
            return choose([(rows > whole(0), over(cast(total, "double"), by))], exp.Null())
        case "least" | "all":
            found: SQL = exp.Min(this=value)
        case "greatest" | "any":
            found = exp.Max(this=value)
        case _:
            found = _at_an_end(number, keys, engine, last=each.function == "last")
    if _by_bytes(each, engine):
        encoding = [exp.Literal.string("UTF-8")] if engine.dialect == "spark" else []
        return exp.Anonymous(this="decode", expressions=[found, *encoding])
    return exp.EQ(this=found, expression=whole(1)) if _kind(each) == "boolean" else found
