"""NOT PRIVATE: count the values that a schema would leave out, clip or fail to read, for the curator's eyes alone.

Nothing of this may be published: it counts rows exactly and quotes values. It is outside the guarantee, as
docs/privacy.md says, spends nothing, and nothing that releases a table uses it. The curator holds the table anyway.
Rows are read and placed by the release's own statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

import numpy as np
from sqlglot import exp

from sfumato.domain import Domain
from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Rows
from sfumato.kernel.reading.binning import unless_missing
from sfumato.kernel.reading.engines import Column, Engine, used_columns
from sfumato.kernel.reading.expressions import SQL, choose, column, double, is_present, named, select, whole
from sfumato.kernel.reading.statement import (
    aggregate_statement,
    checked,
    contradicting,
    every_row,
    listed,
    placed_units,
)
from sfumato.schema import Schema
from sfumato.schema.attributes import Category, Integer
from sfumato.schema.rules import rules_in_words

SPELLINGS = 5  # of values that are not listed or cannot be read; the most frequent are shown


@dataclass(frozen=True, repr=False)  # no repr: it quotes private values
class Part:
    """Exact numbers of unusual rows in the column of one attribute or measure.

    odd: the most frequent spellings of what is not listed or cannot be read, and how many rows have each.
    """

    name: str
    kind: str
    missing: int
    unreadable: int
    outside: int
    unlisted: int
    odd: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, repr=False)
class Checked:
    """Exact numbers of rows in a table.

    rows: those of the table. unfit: records of the file that are no rows of it. nobody: rows without a unit.
    elsewhere: rows of the table that are not of the period, which are none of the others.

    placed: rows that reach a cell. units, over: privacy units of these, and units with more rows than are used.
    counted: rows that a release would count. impossible: each rule of the schema, in words, and the number of rows
    that contradict it. against_facts: for each public table from which the counted rows differ: its name, the number
    of its cells that do, and of the cell that differs most the label, the stated and the counted number.
    """

    rows: int
    unfit: int
    nobody: int
    parts: tuple[Part, ...]
    placed: int
    units: int
    over: int
    counted: int
    impossible: tuple[tuple[str, int], ...] = ()
    elsewhere: int = 0
    against_facts: tuple[tuple[str, int, str, int, int], ...] = ()


def looked_at(engine: Engine, columns: Mapping[str, Column], schema: Schema, period: str | None = None) -> Checked:
    """Count what a schema leaves out, clips or cannot read, in several passes over the table.

    period: of a series whose table has a column for it: rows of others are counted, and not looked at.
    """
    if getattr(getattr(engine, "origin", None), "only_once", False):
        raise TableError("a check reads the table more than once, which the standard input does not allow; use a file")
    used = used_columns(engine, columns)
    parts_read = [*schema.attributes.values(), *schema.measures.values(), *filter(None, [schema.weight])]
    sources = [columns[part.column] for part in parts_read]
    texts = [engine.safe_cast(column(one.reference), one, "text") for one in sources]
    raw = {f"r{n}": unless_missing(texts[n], one, engine) for n, one in enumerate(sources)}
    tests = [*_tests(schema)]
    counts = [named(exp.Count(this=exp.Star()), "rows")]
    counts += [named(_counted(test), f"n{place}") for place, (_, _, test, _) in enumerate(tests)]
    unit = schema.privacy_unit.column
    counts.append(named(whole(0) if unit is None else _counted(_is_missing("unit")), "nobody"))
    present: SQL = exp.EQ(this=column("present"), expression=whole(1))
    reaching = reduce(_both, listed(schema), present)
    counts.append(named(_counted(reaching), "placed"))
    found = engine.run(select(counts, every_row(schema, engine, columns, raw, period)), used).to_pylist()[0]
    elsewhere = 0
    if period is not None and schema.series is not None and schema.series.column is not None:
        whole_table = select([named(exp.Count(this=exp.Star()), "rows")], every_row(schema, engine, columns, {}))
        elsewhere = engine.run(whole_table, used).to_pylist()[0]["rows"] - found["rows"]
    tally = getattr(getattr(engine, "origin", None), "tally", None)
    unfit = 0 if tally is None else tally.records - tally.fitting
    met = {(name, what): found[f"n{place}"] or 0 for place, (name, what, _, _) in enumerate(tests)}
    parts = []
    for name, kind in _parts(schema):
        odd: list[tuple[str, int]] = []
        for at, what, test, text in tests:
            if at == name and what in ("unreadable", "unlisted") and met[name, what]:
                rows = every_row(schema, engine, columns, raw, period)
                answer = engine.run(_frequent(rows, text, test), used).to_pylist()
                odd += [(str(row["spelling"]), row["n"]) for row in answer]
        counted = {what: met.get((name, what), 0) for what in ("missing", "unreadable", "outside", "unlisted")}
        parts.append(Part(name, kind, odd=tuple(odd[:SPELLINGS]), **counted))
    if unit is None and schema.structure is not None:  # rows against a rule are not known so far
        rows = select([named(exp.Count(this=exp.Star()), "placed")], placed_units(schema, engine, columns, period))
        found |= engine.run(rows, used).to_pylist()[0]
    alone = (found["placed"], found["placed"], 0, found["placed"])  # every row is a unit of its own
    placed, units, over, kept = alone if unit is None else _kept(engine, columns, schema, used, period)
    odd_rows, nobody = _impossible(engine, columns, schema, used, period), found["nobody"] or 0
    facts = _against_facts(engine, columns, schema, used, period)
    return Checked(found["rows"], unfit, nobody, tuple(parts), placed, units, over, kept, odd_rows, elsewhere, facts)


def _against_facts(
    engine: Engine, columns: Mapping[str, Column], schema: Schema, used: list[Column], period: str | None
) -> tuple[tuple[str, int, str, int, int], ...]:
    """The tables of the schema's facts from which the rows that a release would count differ."""
    tables = [(fact, Domain(tuple(schema.domain.axes[p] for p in fact.places))) for fact in schema.known if fact.places]
    statement = aggregate_statement(schema, engine, columns, 0, row_by_row=True, period=period)
    rows = checked(engine.run(statement, used), schema, row_by_row=True) if tables else None
    found: list[tuple[str, int, str, int, int]] = []
    if not isinstance(rows, Rows):
        return ()
    for fact, along in tables:
        codes = [rows.codes(axis.name, slice(None)).astype(np.int64) for axis in along]
        counts = np.bincount(np.ravel_multi_index(codes, along.shape), minlength=along.size)
        gaps = np.abs(counts - fact.counts)
        if gaps.any():
            worst = int(gaps.argmax())
            cells = zip(along, np.unravel_index(worst, along.shape), strict=True)
            label = ", ".join("NULL" if cell >= axis.places else str(axis.label(int(cell))) for axis, cell in cells)
            numbers = int(fact.counts[worst]), int(counts[worst])
            found.append((fact.words(schema.domain), int((gaps > 0).sum()), label, *numbers))
    return tuple(found)


def _impossible(
    engine: Engine, columns: Mapping[str, Column], schema: Schema, used: list[Column], period: str | None
) -> tuple[tuple[str, int], ...]:
    """Each rule of the schema in words, and the rows that contradict it."""
    if schema.structure is None:
        return ()
    words = rules_in_words(schema)
    sums = [named(exp.Sum(this=column(f"x{place}")), f"n{place}") for place in range(len(words))]
    rows = contradicting(schema, schema.structure, engine, columns, period)
    found = engine.run(select(sums, rows), used).to_pylist()[0]
    return tuple((rule, int(found[f"n{place}"] or 0)) for place, rule in enumerate(words))


def _parts(schema: Schema) -> list[tuple[str, str]]:
    return [
        *((f"attributes.{name}", part.type) for name, part in schema.attributes.items()),
        *((f"measures.{name}", "measure") for name in schema.measures),
        *([] if schema.weight is None else [("weight", "measure")]),
    ]


def _tests(schema: Schema) -> Iterator[tuple[str, str, SQL, str]]:
    """Counts to make: (attribute or measure, name of the count, condition on rows, column of its text)."""
    for place, (name, part) in enumerate(schema.attributes.items()):
        path, text, cell, value = f"attributes.{name}", f"r{place}", column(f"a{place}"), column(f"v{place}")
        yield path, "missing", _is_missing(text), text
        if isinstance(part, Category):
            apart = exp.Is(this=cell, expression=exp.Null())
            other = exp.EQ(this=cell.copy(), expression=whole(len(part.values)))
            listed_not = _either(apart, other) if part.other else apart
            yield path, "unlisted", _both(_is_there(text), listed_not), text
            continue
        yield path, "unreadable", _both(_is_there(text), _is_missing(f"v{place}", text=False)), text
        was = exp.Floor(this=value) if isinstance(part, Integer) else value
        yield path, "outside", _both(is_present(value.copy()), exp.NEQ(this=cell, expression=was)), text
    for place, name in enumerate(schema.measures):
        path, text, value = f"measures.{name}", f"r{place + len(schema.attributes)}", column(f"w{place}")
        yield path, "missing", _is_missing(text), text
        yield path, "unreadable", _both(_is_there(text), _is_missing(f"w{place}", text=False)), text
        moved = exp.NEQ(this=column(f"m{place}"), expression=value)
        yield path, "outside", _both(is_present(value.copy()), moved), text
    if schema.weight is not None:
        text, value = f"r{len(schema.attributes) + len(schema.measures)}", column("weighed")
        yield "weight", "missing", _is_missing(text), text
        yield "weight", "unreadable", _both(_is_there(text), _is_missing("weighed", text=False)), text
        beyond = _either(value < double(schema.weight.lower), value > double(schema.weight.upper))
        yield "weight", "outside", _both(is_present(value), beyond), text


def _is_missing(name: str, *, text: bool = True) -> SQL:
    absent = exp.Is(this=column(name), expression=exp.Null())
    if name == "unit" or not text:
        return absent
    return _either(absent, exp.EQ(this=column(name), expression=exp.Literal.string("")))


def _both(one: SQL, other: SQL) -> SQL:
    return exp.And(this=exp.paren(one), expression=exp.paren(other))


def _either(one: SQL, other: SQL) -> SQL:
    return exp.Or(this=exp.paren(one), expression=exp.paren(other))


def _is_there(text: str) -> SQL:
    return exp.Not(this=exp.paren(_is_missing(text)))


def _counted(test: SQL) -> SQL:
    return exp.Count(this=choose([(test, whole(1))], exp.Null()))


def _frequent(rows: exp.Select, text: str, test: SQL) -> SQL:
    spelled = select([named(column(text), "spelling"), named(exp.Count(this=exp.Star()), "n")], rows).where(test)
    spelled.set("group", exp.Group(expressions=[column(text)]))
    most, first = exp.Ordered(this=column("n"), desc=True), exp.Ordered(this=column("spelling"))
    spelled.set("order", exp.Order(expressions=[most, first]))
    return spelled.limit(SPELLINGS)


def _kept(
    engine: Engine, columns: Mapping[str, Column], schema: Schema, used: list[Column], period: str | None
) -> tuple[int, int, int, int]:
    """Numbers of rows that reach a cell, of their units, of units over the cap, and of rows kept."""
    rows, most = placed_units(schema, engine, columns, period), schema.privacy_unit.contributions
    each = select([column("unit"), named(exp.Count(this=exp.Star()), "n")], rows)
    each.set("group", exp.Group(expressions=[column("unit")]))
    kept = exp.Least(this=column("n"), expressions=[whole(most)], ignore_nulls=True)
    wanted = [named(exp.Sum(this=column("n")), "placed"), named(exp.Count(this=exp.Star()), "units")]
    wanted += [named(_counted(column("n") > whole(most)), "over"), named(exp.Sum(this=kept), "kept")]
    found = engine.run(select(wanted, each), used).to_pylist()[0]
    return tuple(int(found[name] or 0) for name in ("placed", "units", "over", "kept"))  # type: ignore[return-value]
