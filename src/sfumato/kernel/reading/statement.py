"""The SQL statement that turns private rows into counts by cell: the only code that touches rows, for every engine.

    read     each row's values, as numbers, dates or text; what cannot be read is missing; of a series, rows of other
             periods fall out
    bound    clip to the bounds, look up in the lists; rows without a value or a unit fall out, but a measure may be
             missing; so do rows that the schema calls impossible
    place    the row's cell number and its measures in whole steps; the number comes in short words where rows are
             wanted one by one (`sfumato.kernel.counts`); where rows are weighed, its weight in whole steps, by which
             all is multiplied
    cap      at most `contributions` rows per unit
    gather   rows and sums of steps by cell; rows that come in words are left as they are

Privacy leans on four properties of it, which docs/privacy.md uses and the tests check.
1. Read, bound and place look at one row at a time: a person's rows become the same placed rows whoever else is there.
2. Cap looks at one person's placed rows and the key only: the order is by hash, then by all that is kept, so rows that
   tie are equal. Hence adding or removing a person changes what is gathered by at most `contributions` rows, each in
   one cell and, for each measure, of at most `half_units` steps or one missing value, never both.
3. Every row becomes one placed row at most, because a cell is worked out by scalar expressions and nothing is joined:
   where several listed values match, whatever the column's collation, one of them is taken; texts are compared by
   their bytes.
4. No value of a row can make it fail: casts yield NULL, numbers are clipped before they are made whole, and sums are
   taken in 38 digits and then clipped to 64 bits, which never widens the distance between two sums.

Whether rows are gathered depends on the schema and the mechanism alone. Where they are not, each comes as one row of
the answer, in no order that means anything, and adding them up is the kernel's work.

An engine's answer is checked before anything else is done with it (`checked`): noise is calibrated to such an answer.

Where a person is counted in some periods of a series only, rows come one by one with their person's name. Those of
people who are not admitted fall out next (`admitted`), all rows of a person or none, which is why that may follow the
cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.arrays import MOST_DENSE
from sfumato.domain import LARGEST_NUMBER
from sfumato.domain.structural import Structure
from sfumato.errors import LedgerError, PrivacyError, SchemaError
from sfumato.kernel.counts import Aggregate, Rows, short, words_of
from sfumato.kernel.reading.binning import (
    cell_along,
    cell_in_list,
    in_period,
    in_steps_of_cells,
    long_lists,
    read_number,
    read_unit,
    read_value,
    reads_whole,
    within_bounds,
)
from sfumato.kernel.reading.engines import Admit, Column, Engine
from sfumato.kernel.reading.expressions import (
    SQL,
    cast,
    choose,
    clip,
    column,
    double,
    first_of_each,
    is_present,
    named,
    over,
    select,
    whole,
)
from sfumato.schema import Measure, Schema
from sfumato.schema.attributes import Category
from sfumato.schema.parts import ROWS, Weight
from sfumato.schema.schema import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_SUM = 2**62
EXACT = 2**53  # whole numbers below are doubles
T = TypeVar("T")


def aggregate_statement(
    schema: Schema,
    engine: Engine,
    columns: Mapping[str, Column],
    key: int,
    *,
    row_by_row: bool = False,
    period: str | None = None,
    with_people: bool = False,
) -> SQL:
    """SQL statement for rows and sums by cell (columns cell, n, s0, s1, ..., cells rising), or for placed rows.

    Row by row the columns are word0, word1, ..., m0, missing0, m1, ..., where rows are weighed with `weight` first of
    them; n is then the sum of weights. A measure has two sums, of its steps and of rows
    in which it is missing; one where such rows fall out.
    columns: the engine's column for each name that the schema uses.
    key: which of a unit's rows survive the cap depends on it, and on that unit's rows.
    row_by_row: as `comes_by_rows` says. with_people: row by row with a last column, unit: whose row it is, as text.
    period: the one that is read, where the table has a column for it.
    """
    row_by_row = row_by_row or with_people
    steps = _names_of_sums(schema)
    weights = [] if schema.weight is None else ["weight"]
    in_whole = _in_whole(schema, engine, columns)
    cells = _cells(schema, in_whole, split=row_by_row)
    values = _read(schema, engine, columns, unit_as_text=with_people, period=period)
    rows = _placed(schema, in_whole, cells, _bounded(schema, engine, in_whole, values))
    if schema.privacy_unit.column is not None:
        carried = ["unit"] if with_people else []
        rows = _capped(rows, [*cells, *weights, *steps], schema.privacy_unit.contributions, engine, key, carried)
    if row_by_row:
        return rows
    sums = [named(clipped_sum(column(step)), f"s{place}") for place, step in enumerate(steps)]
    count = clipped_sum(column("weight")) if weights else exp.Count(this=exp.Star())
    gathered = select([column("cell"), named(count, "n"), *sums], rows)
    gathered.set("group", exp.Group(expressions=[column("cell")]))
    gathered.set("order", exp.Order(expressions=[exp.Ordered(this=column("cell"))]))
    return gathered


def placed_units(
    schema: Schema, engine: Engine, columns: Mapping[str, Column], period: str | None = None
) -> exp.Select:
    """SQL of the units of rows that reach a cell, before the cap: for the curator's own check."""
    in_whole = _in_whole(schema, engine, columns)
    values = _bounded(schema, engine, in_whole, _read(schema, engine, columns, period=period))
    return _placed(schema, in_whole, {"cell": whole(0)}, values)


def contradicting(
    schema: Schema, structure: Structure, engine: Engine, columns: Mapping[str, Column], period: str | None = None
) -> exp.Select:
    """SQL of all rows, with a flag for each rule of the schema that they contradict (x0, ...), for the curator."""
    in_whole = _in_whole(schema, engine, columns)
    values = _bounded(schema, engine, in_whole, _read(schema, engine, columns, period=period), beside=[])
    flags = [choose([(test, whole(1))], whole(0)) for test in _contradictions(structure)]
    rows = _with_cells(schema, structure, in_whole, values)
    return select([named(flag, f"x{n}") for n, flag in enumerate(flags)], rows)


def every_row(
    schema: Schema, engine: Engine, columns: Mapping[str, Column], raw: Mapping[str, SQL], period: str | None = None
) -> exp.Select:
    """SQL of all rows, none left out: values as read (v0, ...; measures w0, ...) and as placed (a0, ...; m0, ...).

    Where all that a row needs is there, `present` is 1; it reaches a cell if it is `listed` as well.
    raw: further columns to carry along, by name. period: whose rows alone are meant, where the table has a column for
    it. For the curator's own check, with the release's own reading.
    """
    values = _read(schema, engine, columns, raw, period=period)
    return _bounded(schema, engine, _in_whole(schema, engine, columns), values, beside=list(raw))


def values_statement(
    schema: Schema, engine: Engine, columns: Mapping[str, Column], key: int, most: int, *, with_people: bool = False
) -> exp.Select:
    """SQL of the different values (a0) of a schema's one attribute, with the number of people, or rows, that have each.

    Of one person each value counts once, and at most `most` values, chosen as the cap of a release chooses rows: by a
    hash of that person's own values. Rows without a value, with an empty text or without a unit fall out; of
    columns whose values have types of their own, so do numbers that floats do not tell apart.
    with_people: the values themselves, each with the number of its person (p), which is not the person's name.
    """
    source = columns[next(iter(schema.attributes.values())).column]
    beside: dict[str, SQL] = {}
    value, empty = column("a0"), engine.bytes_of(exp.Literal.string(""))
    tests = [is_present(value), exp.NEQ(this=value, expression=empty)]
    if source.who is not None:
        # For privacy: a frame holds a column as floats as soon as one row has a fraction, and then large numbers of
        # everybody are other texts. So numbers that floats do not tell apart are no values, however they are held.
        beside["number"] = engine.safe_cast(column(source.reference), source, "double")
        size = exp.Coalesce(this=exp.Abs(this=column("number")), expressions=[double(0)])
        tests.append(exp.LT(this=size, expression=double(EXACT)))
    rows = _read(schema, engine, columns, beside)
    wanted = [column("a0")]
    if schema.privacy_unit.column is not None:
        wanted.append(column("unit"))
        tests.append(is_present(column("unit")))  # for privacy, as above
    rows = select(wanted, rows).where(*tests, copy=False)
    if schema.privacy_unit.column is not None:
        carried = ["unit"] if with_people else []
        rows = _capped(rows.distinct(copy=False), ["a0"], most, engine, key, carried)
    if with_people:
        order = exp.Order(expressions=[exp.Ordered(this=column("unit"))])
        number = exp.Window(this=exp.DenseRank(), order=order)
        return select([column("a0"), named(cast(number, "bigint"), "p")], rows)
    counted = select([column("a0"), named(exp.Count(this=exp.Star()), "n")], rows)
    counted.set("group", exp.Group(expressions=[column("a0")]))
    return counted


def _in_whole(schema: Schema, engine: Engine, columns: Mapping[str, Column]) -> set[str]:
    return {name for name, part in schema.attributes.items() if reads_whole(part, columns[part.column], engine)}


def comes_by_rows(schema: Schema, *, for_margins: bool) -> bool:
    """Whether rows are read one by one: cells too many to lay out (for margins), or to number (otherwise)."""
    return schema.domain.size > (MOST_DENSE if for_margins else LARGEST_NUMBER)


def _read(
    schema: Schema,
    engine: Engine,
    columns: Mapping[str, Column],
    beside: Mapping[str, SQL] | None = None,
    *,
    unit_as_text: bool = False,
    period: str | None = None,
) -> exp.Select:
    attributes = _numbered(schema.attributes)
    wanted = [named(read_value(part, columns[part.column], engine), f"a{place}") for place, part in attributes]
    wanted += [named(read_number(columns[part.column], engine), f"m{i}") for i, part in _numbered(schema.measures)]
    if schema.weight is not None:
        wanted.append(named(read_number(columns[schema.weight.column], engine), "weight"))
    if schema.privacy_unit.column is not None:
        unit = read_unit(columns[schema.privacy_unit.column], engine, as_text=unit_as_text)
        wanted.append(named(unit, "unit"))
    wanted += [named(value, name) for name, value in (beside or {}).items()]
    rows = exp.Select(expressions=wanted).from_(engine.table(), copy=False)
    if period is None or schema.series is None or schema.series.column is None:
        return rows
    return rows.where(in_period(schema.series, period, columns[schema.series.column], engine), copy=False)


def _bounded(
    schema: Schema, engine: Engine, in_whole: Set[str], values: exp.Select, beside: Sequence[str] | None = None
) -> exp.Select:
    """SQL of rows with every value clipped to its bounds, and categories as cells.

    in_whole: the attributes that are read as whole numbers and not as doubles.
    beside: if given, no row falls out, and what was read and these columns are carried along.
    """
    wanted: list[SQL] = []
    present: list[SQL] = []
    looked_up = long_lists(schema.attributes)
    for place, (own_name, attribute) in enumerate(schema.attributes.items()):
        name, value = f"a{place}", column(f"a{place}", "rows")
        if isinstance(attribute, Category):
            cell = cell_in_list(attribute, value, f"list{place}", engine, looked_up=own_name in looked_up)
            wanted.append(named(cell, name))
        else:
            if not attribute.keeps_missing:
                present.append(is_present(value))
            wanted.append(named(within_bounds(attribute, value.copy(), in_whole=own_name in in_whole), name))
    for place, measure in _numbered(schema.measures):
        value = column(f"m{place}", "rows")
        if measure.missing == "drop":
            present.append(is_present(value))
        clipped = clip(value.copy(), double(measure.lower), double(measure.upper))
        # Not clipped alone: to the least and greatest of several values NULL is nothing.
        wanted.append(named(exp.Case(ifs=[exp.If(this=is_present(value.copy()), true=clipped)]), f"m{place}"))
    if schema.weight is not None:
        steps = _weight_in_steps(schema.weight, column("weight", "rows"))
        wanted.append(named(steps, "weight"))
        # For privacy: a row that weighs nothing is in no statistic, not even in that of rows as they are.
        present += [is_present(column("weight", "rows")), steps.copy() >= whole(1)]
    if schema.privacy_unit.column is not None:
        wanted.append(column("unit", "rows"))
        present.append(is_present(column("unit", "rows")))  # for privacy: a row of nobody could not be capped
    if beside is not None:
        read = [(f"a{place}", f"v{place}") for place in range(len(schema.attributes))]
        read += [(f"m{place}", f"w{place}") for place in range(len(schema.measures))]
        read += [] if schema.weight is None else [("weight", "weighed")]
        wanted += [named(column(name, "rows"), was) for name, was in read]
        full: SQL = whole(1)
        if present:
            test = reduce(lambda left, right: exp.And(this=left, expression=right), present)
            full = choose([(test, whole(1))], whole(0))
        wanted.append(named(full, "present"))
        return select([*wanted, *(column(name, "rows") for name in beside)], values)
    rows = select(wanted, values)
    return rows.where(*present, copy=False) if present else rows


def _cells(schema: Schema, in_whole: Set[str], *, split: bool) -> dict[str, SQL]:
    """SQL of a row's cell number, or of its words, by column name."""
    domain = schema.domain
    runs = {f"word{n}": run for n, run in enumerate(words_of(domain))} if split else {"cell": range(len(domain.axes))}
    found: dict[str, SQL] = {}
    for name, run in runs.items():
        parts: list[SQL] = []
        for place in run:
            axis = domain.axes[place]
            along = cell_along(schema.attributes[axis.name], axis, f"a{place}", in_whole=axis.name in in_whole)
            cell = cast(along, "int" if split else "bigint")
            parts.append(exp.Mul(this=cell, expression=whole(math.prod(domain.shape[place + 1 : run.stop]))))
        found[name] = reduce(lambda left, right: exp.Add(this=left, expression=right), parts)
    return found


def _with_cells(schema: Schema, structure: Structure, in_whole: Set[str], values: exp.Select) -> exp.Select:
    """SQL of rows with the cells along attributes that rules mention beside their values (c0, ...)."""
    axes = [(place, schema.domain.axes[place]) for place in sorted(structure.axes)]
    along = [
        (cell_along(schema.attributes[axis.name], axis, f"a{place}", in_whole=axis.name in in_whole), f"c{place}")
        for place, axis in axes
    ]
    kept = [f"a{place}" for place in range(len(schema.attributes))] + [f"m{n}" for n in range(len(schema.measures))]
    kept += [] if schema.weight is None else ["weight"]
    kept += [] if schema.privacy_unit.column is None else ["unit"]
    return select([*map(column, kept), *(named(cast(cell, "bigint"), name) for cell, name in along)], values)


def _contradictions(structure: Structure) -> list[SQL]:
    """SQL of a test for each rule whether a row contradicts it, by that row's cells alone; rules as they are listed."""
    tests = list[SQL]()
    for rule in structure.excluded:
        sides = (in_steps_of_cells(f"c{place}", flags.astype(np.int64)) for place, flags in rule.sides.items())
        conditions: list[SQL] = [exp.EQ(this=side, expression=whole(1)) for side in sides]
        tests.append(reduce(_both, conditions))
    for each in structure.functions:
        image = in_steps_of_cells(f"c{each.fine}", each.image)
        tests.append(exp.NEQ(this=column(f"c{each.coarse}"), expression=image))
    return tests


def _both(one: SQL, other: SQL) -> SQL:
    return exp.And(this=one, expression=other)


def _placed(schema: Schema, in_whole: Set[str], cells: Mapping[str, SQL], values: exp.Select) -> exp.Select:
    """SQL of rows as cell numbers, steps and unit alone, so that the cap sorts little.

    Rows whose value is not listed, and that have no cell for such values, fall out here; so do rows that contradict a
    rule of the schema.
    """
    wanted = [named(cell, name) for name, cell in cells.items()]
    if schema.weight is not None:
        wanted.append(column("weight"))
    for place, measure in _numbered(schema.measures):
        wanted.append(named(_weighed(_steps(measure, f"m{place}"), schema), f"m{place}"))
        if measure.missing == "keep":
            wanted.append(named(_weighed(_is_missing(column(f"m{place}")), schema), f"missing{place}"))
    if schema.weight is not None and ROWS in schema.summed:
        wanted.append(named(cast(whole(schema.weight.most), "bigint"), f"m{len(schema.measures)}"))
    if schema.privacy_unit.column is not None:
        wanted.append(column("unit"))
    tests = listed(schema)
    if schema.structure is not None:
        values = _with_cells(schema, schema.structure, in_whole, values)
        tests += [exp.Not(this=exp.paren(test)) for test in _contradictions(schema.structure)]
    rows = select(wanted, values)
    return rows.where(*tests, copy=False) if tests else rows


def listed(schema: Schema) -> list[SQL]:
    """SQL tests of rows that none of the placed categories leaves out."""
    closed = [at for at, one in _numbered(schema.attributes) if isinstance(one, Category) and not one.other]
    return [is_present(column(f"a{place}")) for place in closed]


def _steps(measure: Measure, name: str) -> SQL:
    """SQL of a measure in whole steps from its centre; 0 where it is missing, which is counted apart."""
    if float(measure.step) == 0.0:
        raise SchemaError(f"the measure of {measure.column} has bounds too small for floating-point numbers; scale it")
    value = exp.Coalesce(this=column(name), expressions=[double(measure.centre)])
    steps = exp.Floor(this=over(value - double(measure.centre), double(measure.step)) + double(0.5))
    # For privacy: whatever rounding did, a row adds no more than the noise is made for.
    return cast(clip(steps, double(-measure.half_units), double(measure.half_units)), "bigint")


def _weight_in_steps(weight: Weight, value: SQL) -> SQL:
    """SQL of a weight in whole steps: clipped to its bounds, shrunk toward the mean, rounded; NULL where missing."""
    moved = clip(value.copy(), double(weight.lower), double(weight.upper))
    if weight.mean is not None:
        moved = exp.paren(moved * double(1 - weight.shrink)) + double(weight.shrink * weight.mean)
    steps = exp.Floor(this=over(exp.paren(moved), double(weight.step)) + double(0.5))
    # For privacy: whatever rounding did, a row counts for no more steps than the noise is made for.
    bounded = cast(clip(steps, double(0), double(weight.most)), "bigint")
    return exp.Case(ifs=[exp.If(this=is_present(value), true=bounded)])


def _weighed(steps: SQL, schema: Schema) -> SQL:
    """SQL of a row's steps times its weight in steps; the steps alone where rows are not weighed."""
    if schema.weight is None:
        return steps
    return cast(exp.Mul(this=steps, expression=column("weight")), "bigint")


def _is_missing(value: SQL) -> SQL:
    """SQL of 1 for a row in which a measure is missing, else 0."""
    test = exp.Case(ifs=[exp.If(this=is_present(value), true=whole(0))], default=whole(1))
    return cast(test, "bigint")


def _names_of_sums(schema: Schema) -> list[str]:
    """Names of the summed columns, in the order of the schema's statistics: steps, and rows without a value."""
    found = []
    for place, measure in _numbered(schema.summed):
        found.append(f"m{place}")
        if measure.missing == "keep":
            found.append(f"missing{place}")
    return found


def _capped(
    rows: exp.Select, kept: list[str], most: int, engine: Engine, key: int, carried: Sequence[str] = ()
) -> exp.Select:
    """SQL of at most `most` rows per unit, chosen by a hash of the row itself. carried: further columns to return."""
    drawn = engine.scramble([column("unit"), *map(column, kept), whole(key % 2**63)])
    # Where one row of each is kept, most have one, and counting them takes as long as sorting.
    counting = engine.dialect == "duckdb" and most > 1
    return first_of_each(rows, [*kept, *carried], ["unit"], most, by=[drawn, *map(column, kept)], count_first=counting)


def clipped_sum(steps: SQL, wide: str = "decimal(38, 0)") -> SQL:
    """SQL of a sum of whole numbers in 38 digits, clipped to 64 bits. wide: int128 where an engine adds in that."""
    added = cast(steps, wide) if wide != "int128" else steps
    ends = cast(whole(-LARGEST_SUM), wide), cast(whole(LARGEST_SUM), wide)
    return cast(clip(exp.Sum(this=added), *ends), "bigint")


def _numbered(parts: Mapping[str, T]) -> list[tuple[int, T]]:
    return list(enumerate(parts.values()))


LARGEST_COUNT = 2**62
_NO_AGGREGATE = "the engine did not return whole numbers for each cell or row as it was asked to; nothing is published"


def checked(answer: pa.Table, schema: Schema, *, row_by_row: bool) -> Aggregate | Rows:
    """Validate an engine's answer and convert it; a PrivacyError if it is not what the statement must give."""
    found: Aggregate | Rows | None = None
    with suppress(Exception):  # for privacy: its text could quote a count
        found = as_rows(answer, schema) if row_by_row else as_aggregate(answer, schema)
    del answer  # for privacy: a traceback keeps what this frame holds
    if found is None:
        raise PrivacyError(_NO_AGGREGATE)
    return found


def as_values(answer: pa.Table) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct values of an answer, sorted by bytes, and for each of its rows the value's index and the row's number.

    A PrivacyError if it is not what `values_statement` must give: a value and a number (of people, or of a person).
    """
    found: tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]] | None = None
    with suppress(Exception):  # for privacy: its text could quote a value
        coded = answer.column(0).combine_chunks().dictionary_encode()
        values = [one.encode() if isinstance(one, str) else bytes(one) for one in coded.dictionary.to_pylist()]
        codes, numbers = np.asarray(coded.indices, dtype=np.int64), _whole_numbers(answer.column(1), "int64")
        if not coded.null_count and len(set(values)) == len(values) and _within(numbers, 1, LARGEST_COUNT):
            order = sorted(range(len(values)), key=values.__getitem__)
            places = np.empty(len(values), dtype=np.int64)
            places[order] = np.arange(len(values))
            found = [values[place] for place in order], places[codes], numbers
    if found is None:
        answer = coded = values = codes = numbers = None  # type: ignore[assignment]  # for privacy, as above
        raise PrivacyError(_NO_AGGREGATE)
    return found


def admitted(answer: pa.Table, admit: Admit) -> pa.Table:
    """Keep the rows of admitted persons, without their names; `admit` sees all persons before any row is used."""
    from pyarrow import array

    found: pa.Table | None = None
    said = _NO_AGGREGATE
    try:
        whose = answer.column("unit").combine_chunks().dictionary_encode()
        if not whose.null_count:
            names = whose.dictionary.to_pylist()
            flags = admit([name.encode() if isinstance(name, str) else name for name in names])
            kept = np.asarray(flags, dtype=bool)[whose.indices.to_numpy(zero_copy_only=False)]
            found = answer.drop_columns(["unit"]).filter(array(kept))
    except LedgerError as refused:
        said = str(refused)
    except Exception:  # noqa: S110 (for privacy: its text could quote a name)
        pass
    if found is None:
        answer = whose = names = flags = kept = None  # type: ignore[assignment]  # for privacy, as above
        raise LedgerError(said) if said != _NO_AGGREGATE else PrivacyError(said)
    return found


def as_aggregate(answer: pa.Table, schema: Schema) -> Aggregate | None:
    """Aggregate of an answer by cell, cells rising; None if it is malformed."""
    cells, counts, *found = (_whole_numbers(column, "int64") for column in answer.columns)
    sums = dict(zip(_sums(schema), found, strict=True))
    right = bool((np.diff(cells) > 0).all() and (counts > 0).all())
    right &= not len(cells) or bool(cells[0] >= 0 and cells[-1] < schema.domain.size)
    if schema.weight is not None and ROWS in sums:
        # For privacy: each row weighs from 1 step to the most, and adds the most here.
        right &= bool((sums[ROWS] % schema.weight.most == 0).all() and (counts <= sums[ROWS]).all())
        right &= bool((sums[ROWS] // schema.weight.most <= counts).all())
    for name, measure in schema.measures.items():
        missing = sums.get(missing_of(name), np.zeros_like(counts))
        # For privacy: each row of a cell adds steps or is missing, never both.
        right &= _within(missing, 0, LARGEST_COUNT)
        right &= bool((-(-np.abs(sums[name]) // measure.half_units) <= counts - missing).all())
    return Aggregate(cells, counts, sums) if right else None


def as_rows(answer: pa.Table, schema: Schema) -> Rows | None:
    """Placed rows of an answer row by row; None if it is malformed."""
    runs, words = words_of(schema.domain), list[NDArray[Any]]()
    names = _sums(schema)
    weighed = schema.weight is not None
    if answer.num_columns != len(runs) + weighed + len(names):
        return None
    for run, values in zip(runs, answer.columns, strict=False):
        cells = prod(schema.domain.shape[run.start : run.stop])
        word = _whole_numbers(values, "int32")
        if not _within(word, 0, cells - 1):
            return None
        words.append(short(word, cells))
    columns = answer.columns[len(runs) :]
    weights = _whole_numbers(columns.pop(0), "int64") if weighed else None
    steps = {name: _whole_numbers(values, "int64") for name, values in zip(names, columns, strict=True)}
    if schema.weight is not None and weights is not None:
        if not _within(weights, 1, schema.weight.most):
            return None
        if ROWS in steps and not _within(steps[ROWS], schema.weight.most, schema.weight.most):
            return None
    each = np.int64(1) if weights is None else weights
    for name, measure in schema.measures.items():
        missing = steps.get(missing_of(name), np.zeros(1, dtype=np.int64))
        most = measure.half_units * each  # both ends by comparison, as -2^63 has no absolute value
        within = bool(((-most <= steps[name]) & (steps[name] <= most)).all())
        if not within or not ((missing == 0) | ((missing == each) & (steps[name] == 0))).all():
            return None
    return Rows(schema.domain, tuple(words), steps, weights)


def _sums(schema: Schema) -> list[str]:
    """Statistics that are summed, in the order of the statement's columns."""
    return list(schema.units)[1:]


def _within(values: NDArray[Any], low: int, high: int) -> bool:
    return not len(values) or bool(values.min() >= low and values.max() <= high)


def _whole_numbers(column: pa.ChunkedArray, kind: str) -> NDArray[Any]:
    if str(column.type) != kind or column.null_count:
        raise TypeError
    # Not by to_numpy, which imports pandas wherever that is installed.
    return np.asarray(np.from_dlpack(column.combine_chunks()), dtype=kind)
