"""The statement against NumPy on the same axes, and the properties that the privacy proof leans on."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sfumato.domain import EPOCH
from sfumato.errors import SchemaError
from sfumato.kernel.reading import binning as lists
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.duckdb import DuckDB
from sfumato.kernel.reading.expressions import column, first_of_each
from sfumato.kernel.reading.formats.origin import mounted_columns
from sfumato.kernel.reading.statement import LARGEST_SUM, aggregate_statement
from sfumato.schema import Schema
from sfumato.schema.attributes import Integer, Number

CONNECTION = duckdb.connect()
ENGINE = DuckDB(origin=None, columns=())  # type: ignore[arg-type]  # only speaks the dialect; the tests run it
KEY = 20240229


def schema_of(attributes, *, unit="row", measures=None) -> Schema:
    return Schema.from_dict(
        {"dataset": "t", "privacy_unit": unit, "attributes": attributes, "measures": measures or {}}
    )


def gathered(schema: Schema, table: pa.Table, key: int = KEY) -> dict[int, tuple[int, ...]]:
    """What the statement gives for a table: cell -> (rows, sums...)."""
    CONNECTION.register("source", table)
    columns = {column.name: column for column in mounted_columns(CONNECTION)}
    text = aggregate_statement(schema, ENGINE, columns, key).sql(dialect="duckdb", identify=True)
    rows = [tuple(row.values()) for row in CONNECTION.sql(text).to_arrow_table().to_pylist()]
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    return {cell: tuple(rest) for cell, *rest in rows}


def codes(attribute: dict, values: pa.Array) -> list[int | None]:
    """The cell of each value along an attribute's axis, None where its row falls out."""
    last = len(values) - 1
    schema = schema_of({"x": attribute, "row": {"type": "integer", "lower": 0, "upper": max(last, 1)}})
    cells = gathered(schema, pa.table({"x": values, "row": pa.array(range(len(values)))}))
    found: list[int | None] = [None] * len(values)
    for cell, (count,) in cells.items():
        assert count == 1
        code, row = divmod(cell, max(last, 1) + 1)
        found[row] = code
    return found


def expected(edges: np.ndarray, value: float | None) -> int | None:
    if value is None or math.isnan(value):
        return None
    clipped = min(max(value, edges[0]), edges[-1])
    return min(int(np.searchsorted(edges, clipped, side="right")) - 1, len(edges) - 2)


def nasty(edges: np.ndarray) -> list[float | None]:
    """Values that lie on edges, next to them and far away from them."""
    near = edges if len(edges) <= 60 else edges[np.linspace(0, len(edges) - 1, 60).astype(int)]
    middles = near[:-1] / 2 + near[1:] / 2
    spread = [*near, *np.nextafter(near, -np.inf), *np.nextafter(near, np.inf), *middles]
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
    return [*map(float, spread), *odd, 0.1, 0.2, 0.3, 1 / 3, 2.0**53, 2.0**53 + 2, None]


decimals = st.builds(
    lambda digits, power: Fraction(digits) * Fraction(10) ** power,
    st.integers(-(10**17), 10**17) | st.integers(-1000, 1000),
    st.integers(-20, 20) | st.integers(-3, 0),
)


@st.composite
def numbers(draw) -> dict:
    lower, upper = sorted(draw(st.lists(decimals, min_size=2, max_size=2, unique=True)))
    rule = draw(st.sampled_from(["bins", "width", "cuts"]))
    if rule == "cuts":
        inner = draw(st.lists(st.fractions(0, 1, max_denominator=1000), max_size=6))
        cuts = sorted({lower + (upper - lower) * part for part in inner if 0 < part < 1})
        return {"type": "number", "lower": lower, "upper": upper, **({"cuts": cuts} if cuts else {"bins": 1})}
    bins = draw(st.integers(1, 300))
    if rule == "bins":
        return {"type": "number", "lower": lower, "upper": upper, "bins": bins}
    part = draw(st.sampled_from([Fraction(1), Fraction(9, 10), Fraction(2, 3)]))
    return {"type": "number", "lower": lower, "upper": upper, "width": (upper - lower) / bins * part}


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(numbers(), st.lists(st.floats(width=64), max_size=20))
@example({"type": "number", "lower": 0, "upper": 1, "width": "0.1"}, [0.1 + 0.2, 0.7, 0.30000000000000004])
@example({"type": "number", "lower": "0.1", "upper": "0.7", "bins": 3}, [])
@example({"type": "number", "lower": "-1e300", "upper": "1e300", "bins": 7}, [])
@example({"type": "number", "lower": 2**50 - 300, "upper": 2**50, "bins": 299}, [])
def test_numbers_fall_into_the_cells_of_the_axis(attribute, more):
    try:
        schema_of({"x": attribute})
        edges = Number(**{k: v for k, v in attribute.items() if k != "type"}).axis("x").edges
    except SchemaError:
        return  # edges that doubles cannot tell apart are refused by the schema
    values = [*nasty(edges), *more]
    assert codes(attribute, pa.array(values, pa.float64())) == [expected(edges, value) for value in values]


@st.composite
def integers(draw) -> dict:
    lower = draw(st.integers(-(2**52), 2**52) | st.integers(-100, 100))
    values = draw(st.integers(2, 400) | st.integers(2, 2**50))
    upper = min(lower + values - 1, 2**53 - 2)
    rule = draw(
        st.sampled_from(["each", "bins", "width", "cuts"] if upper - lower < 1000 else ["bins", "width", "cuts"])
    )
    attribute = {"type": "integer", "lower": lower, "upper": upper}
    if rule == "bins":
        attribute["bins"] = draw(st.integers(1, min(upper - lower + 1, 500)))
    elif rule == "width":
        least = -(-(upper - lower + 1) // 500)
        attribute["width"] = draw(st.integers(least, upper - lower + 1))
    elif rule == "cuts":
        attribute["cuts"] = sorted(draw(st.sets(st.integers(lower + 1, upper), min_size=1, max_size=6)))
    return attribute


@settings(max_examples=60, deadline=None)
@given(integers(), st.lists(st.floats(width=64), max_size=20))
def test_integers_fall_into_the_cells_of_the_axis(attribute, more):
    edges = Integer(**{k: v for k, v in attribute.items() if k != "type"}).axis("x").edges
    values = [*nasty(edges), *more]

    def whole(value):
        return value if value is None or not math.isfinite(value) else float(math.floor(value))

    top = np.append(edges[:-1], edges[-1] - 1)  # the greatest value is upper, not the edge above it
    wanted = [None if v is None or math.isnan(v) else expected(edges, min(whole(v), top[-1])) for v in values]
    assert codes(attribute, pa.array(values, pa.float64())) == wanted


@settings(max_examples=40, deadline=None)
@given(integers(), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_whole_numbers_need_no_doubles(attribute, more):
    """Columns of whole numbers are read as such, and every value falls where it would by way of doubles."""
    lower, upper = attribute["lower"], attribute["upper"]
    near = [end + step for end in (lower, upper) for step in (-1, 0, 1)]
    values = [None, *near, *attribute.get("cuts", ()), -(2**63), 2**63 - 1, 2**53, 2**53 + 1, *more]
    wanted = codes(attribute, pa.array([None if value is None else float(value) for value in values]))
    assert codes(attribute, pa.array(values, pa.int64())) == wanted
    small = [value if value is None or abs(value) < 2**31 else None for value in values]
    wanted = codes(attribute, pa.array([None if value is None else float(value) for value in small], pa.float64()))
    assert codes(attribute, pa.array(small, pa.int32())) == wanted


@settings(max_examples=30, deadline=None)
@given(
    st.dates(max_value=dt.date(9900, 1, 1)),
    st.integers(1, 30_000),
    st.sampled_from(["day", "month", "year"]),
    st.lists(st.dates(), max_size=20),
)
def test_dates_fall_into_the_cells_of_the_axis(lower, days, by, more):
    upper = lower + dt.timedelta(days=days)
    attribute = {"type": "date", "lower": lower, "upper": upper, "by": by}
    edges = schema_of({"x": attribute}).domain["x"].edges
    starts = [EPOCH + dt.timedelta(days=int(edge)) for edge in edges[:-1][:: max(1, len(edges) // 40)]]
    values = [lower, upper, dt.date.min, dt.date.max, None, *starts, *more]

    def code(value):
        days = min(max((value - EPOCH).days, (lower - EPOCH).days), (upper - EPOCH).days)
        return int(np.searchsorted(edges, days, side="right")) - 1

    wanted = [None if value is None else code(value) for value in values]
    assert codes(attribute, pa.array(values, pa.date32())) == wanted
    noons = [None if v is None else dt.datetime.combine(v, dt.time(23, 59, 59)) for v in values]
    assert codes(attribute, pa.array(noons, pa.timestamp("us"))) == wanted
    texts = [None if v is None else v.isoformat() for v in noons]
    assert codes(attribute, pa.array(texts, pa.string())) == wanted


def test_booleans_and_categories():
    assert codes({"type": "boolean"}, pa.array([True, False, None])) == [1, 0, None]
    assert codes({"type": "boolean"}, pa.array(["true", "F", "yes", "maybe", ""])) == [1, 0, 1, None, None]
    text = pa.array(["F", "M", "f", "", None, "M ", "😀'"])
    listed = {"type": "category", "values": ["F", "M", "😀'"]}
    assert codes(listed, text) == [0, 1, None, None, None, None, 2]
    assert codes(listed | {"other": True}, text) == [0, 1, 3, 3, 3, 3, 2]


def test_listed_values_are_taken_literally():
    values = [
        "\\",
        "a\nb",
        "'",
        "\\n",
        "\t",
        "%",
        "$1",
        "\u2028",
        "--",
        "/*",
        "\\'",
        "é",
        "e\u0301",
        "a\0b",
        " x",
        "NULL",
    ]
    assert codes({"type": "category", "values": values}, pa.array([*values, "x"])) == [*range(len(values)), None]
    with pytest.raises(SchemaError, match="holds half a character"):
        codes({"type": "category", "values": ["\ud800"]}, pa.array(["x"]))


@pytest.mark.parametrize("other", [False, True])
def test_long_lists_are_looked_up_as_short_ones_are_compared(other, monkeypatch):
    texts = [None, "", "a", "A", "b ", "é", "e\u0301", "c", "3", "3.0", "v7", "v39"]
    for values in ([f"v{place}" for place in range(40)], ["a", "é", "3", "v39"], [3, 0.5]):
        attribute = {"type": "category", "values": values, "other": other}
        found = []
        for short in (0, 10**6):
            monkeypatch.setattr(lists, "SHORT_LIST", short)
            found.append((codes(attribute, pa.array(texts)), codes(attribute, pa.array([3.0, 0.5, math.nan, None]))))
        assert found[0] == found[1]


def test_few_lists_are_looked_up_however_many_there_are():
    """An engine takes minutes to plan dozens of subqueries."""
    values = [f"v{place}" for place in range(40)]
    schema = schema_of({f"c{place}": {"type": "category", "values": values} for place in range(30)})
    columns = {f"c{place}": Column(f"c{place}", None, f"c{place}") for place in range(30)}
    statement = aggregate_statement(schema, ENGINE, columns, KEY)
    assert len(list(statement.find_all(exp.Values))) == lists.MOST_LOOKED_UP


def test_categories_of_numbers_compare_as_numbers():
    listed = {"type": "category", "values": [1, 2.5, 0, 1e20]}
    assert codes(listed, pa.array(["1", "01.0", "2.50", "1e0", "-0", "x", "NaN", None])) == [
        0,
        0,
        1,
        0,
        2,
        None,
        None,
        None,
    ]
    assert codes(listed, pa.array([1.0, 2.5, -0.0, math.nan, 1e20, math.inf])) == [0, 1, 2, None, 3, None]
    assert codes(listed | {"other": True}, pa.array([7, 1])) == [4, 0]
    mixed = {"type": "category", "values": [1, "x"]}  # as text, because not all are numbers
    assert codes(mixed, pa.array(["1", "1.0", "x"])) == [0, None, 1]


def test_a_list_whose_numbers_collide_is_refused():
    """Else a row would match twice, and count twice."""
    schema = schema_of({"x": {"type": "category", "values": [2**53 + 1, 2**53]}})
    with pytest.raises(SchemaError, match="do not tell apart"):
        gathered(schema, pa.table({"x": [1]}))


def test_uneven_cells_in_excess_are_refused():
    bins = {"type": "number", "lower": 0, "upper": Fraction(10**30 + 1, 10**30), "bins": 20_000}
    with pytest.raises(SchemaError, match=r"attributes\.x .* fewer"):
        gathered(schema_of({"x": bins}), pa.table({"x": [1.0]}))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(decimals, decimals).filter(lambda pair: pair[0] != pair[1]),
    st.sampled_from([None, Fraction(1, 2), Fraction(1, 3), Fraction(1, 1000)]),
    st.lists(st.floats(width=64) | st.none(), max_size=30),
)
@example((Fraction(10**17), Fraction(10**17 + 10)), Fraction(1, 2), [])  # doubles of this size are 16 apart
def test_measures_become_steps_within_their_bounds(pair, share, more):
    lower, upper = sorted(pair)
    step = {} if share is None else {"step": (upper - lower) * share}
    schema = schema_of(
        {"row": {"type": "integer", "lower": 0, "upper": 99}}, measures={"m": {"lower": lower, "upper": upper, **step}}
    )
    measure = schema.measures["m"]
    values = [math.nan, None, math.inf, -math.inf, float(lower), float(upper), float(measure.centre), 1e308, *more]
    cells = gathered(schema, pa.table({"row": range(len(values)), "m": pa.array(values, pa.float64())}))
    for row, value in enumerate(values):
        count, steps, missing = cells[row]
        assert count == 1 and missing == (value is None or math.isnan(value))
        assert abs(steps) <= measure.half_units
        if value is None or math.isnan(value):
            assert steps == 0
        elif float(lower) < float(upper):  # one step of rounding, and what doubles of this size cannot hold
            clipped = min(max(Fraction(min(max(value, -1e300), 1e300)), lower), upper)
            slack = Fraction(max(abs(float(lower)), abs(float(upper)))) / 2**50 / measure.step
            assert abs(steps - (clipped - measure.centre) / measure.step) <= Fraction(51, 100) + slack


def test_sums_beyond_64_bits_are_clipped_and_do_not_fail():
    bounds = {"lower": 0, "upper": 2**40, "step": 2, "missing": "drop"}
    schema = schema_of({"x": {"type": "boolean"}}, measures={"m": bounds})
    half = schema.measures["m"].half_units
    CONNECTION.register("few", pa.table({"x": [True, False]}))
    rows = LARGEST_SUM // half + 1000
    # The sum itself cannot be reached by rows in a test: replace what a row adds by what a billion rows would.
    text = aggregate_statement(
        schema, ENGINE, {"x": Column("x", "BOOLEAN", "x"), "m": Column("m", "DOUBLE", "m")}, KEY
    ).sql(dialect="duckdb", identify=True)
    factor = f'CAST({rows} AS DECIMAL(38, 0)) * CAST("m0" AS DECIMAL(38, 0))'
    swollen = text.replace('CAST("m0" AS DECIMAL(38, 0))', factor)
    assert swollen != text
    CONNECTION.register("source", pa.table({"x": [True, False], "m": [2.0**41, -1.0]}))
    assert CONNECTION.sql(swollen).fetchall() == [(0, 1, -LARGEST_SUM), (1, 1, LARGEST_SUM)]


# --- the cap ---------------------------------------------------------------------------------------------------------

CAPPED = {"x": {"type": "integer", "lower": 0, "upper": 3}, "c": {"type": "category", "values": ["a", "b"]}}
rows_of_people = st.lists(
    st.tuples(
        st.sampled_from(["p", "q", "r", None]),
        st.sampled_from([0.0, 1.0, 2.0, 9.0, None]),
        st.sampled_from(["a", "b", "z", None]),
        st.sampled_from([-1.0, 0.0, 1.0, None]),
    ),
    max_size=25,
)


def table_of(rows) -> pa.Table:
    who, x, c, m = zip(*rows, strict=True) if rows else ((), (), (), ())
    types = {"who": pa.string(), "x": pa.float64(), "c": pa.string(), "m": pa.float64()}
    return pa.table({n: pa.array(v, t) for (n, t), v in zip(types.items(), (who, x, c, m), strict=True)})


def capped_schema(contributions: int) -> Schema:
    return schema_of(
        CAPPED,
        unit={"column": "who", "contributions": contributions},
        measures={"m": {"lower": -1, "upper": 1, "step": 1}},
    )


def added(parts) -> dict[int, tuple[int, ...]]:
    total: dict[int, tuple[int, ...]] = {}
    for part in parts:
        for cell, values in part.items():
            total[cell] = tuple(a + b for a, b in zip(total.get(cell, (0, 0, 0)), values, strict=True))
    return total


@settings(max_examples=20, deadline=None)
@given(rows_of_people, st.integers(1, 3), st.integers(0, 2**56 - 1), st.randoms(use_true_random=False))
def test_what_is_kept_of_a_person_depends_on_that_person_alone(rows, contributions, key, random):
    schema = capped_schema(contributions)
    whole = gathered(schema, table_of(rows), key)
    alone = {who: gathered(schema, table_of([r for r in rows if r[0] == who]), key) for who in ("p", "q", "r")}
    assert whole == added(alone.values())  # so a neighbour differs by one person's part and by nothing else
    for who, part in alone.items():
        usable = [r for r in rows if r[0] == who and r[1] is not None and r[2] in ("a", "b")]
        assert sum(count for count, *_ in part.values()) == min(contributions, len(usable))
        # Of each row that is kept a measure is missing or adds steps, never both.
        assert all(abs(steps) + missing <= count for count, steps, missing in part.values())
        kept = Counter((min(int(x), 3) * 2 + "ab".index(c)) for _, x, c, _ in usable)
        assert all(count <= kept[cell] for cell, (count, *_) in part.items())
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert gathered(schema, table_of(shuffled), key) == whole


def test_every_row_of_a_person_is_as_likely_to_be_kept():
    """40,000 persons of 4 rows, 1 kept: 10,000 per cell, standard deviation 87; 5.3 of them are a 1e-6 false alarm
    over the four cells, if the hash is as good as random. The key is fixed, so the test cannot flicker."""
    people = 40_000
    who = np.repeat(np.arange(people), 4)
    table = pa.table({"who": who, "x": np.tile(np.arange(4.0), people), "c": ["a"] * len(who), "m": np.zeros(len(who))})
    found = gathered(capped_schema(1), table)
    assert sum(count for count, *_ in found.values()) == people
    assert all(abs(count - people / 4) < 5.3 * math.sqrt(people * 3 / 16) for count, *_ in found.values())
    assert gathered(capped_schema(1), table, KEY + 1) != found


# --- other engines ---------------------------------------------------------------------------------------------------

EVERYTHING = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": 'who "is" it', "contributions": 3},
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99, "bins": 7},
            "year": {"type": "integer", "lower": 1900, "upper": 2000, "cuts": [1950]},
            "income": {"type": "number", "lower": 0, "upper": 1, "width": "0.1"},
            "weight": {"type": "number", "lower": 0, "upper": 100, "cuts": [2, 30]},
            "sex": {"type": "category", "values": ["F", "M'); DROP TABLE source; --"], "other": True},
            "kind": {"type": "category", "values": [1, 2, 3]},
            "member": {"type": "boolean"},
            "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-03-01"},
            "month": {"type": "date", "lower": "2020-01-01", "upper": "2020-03-01", "by": "month"},
        },
        "measures": {"charge": {"lower": 0, "upper": 50000}, "tip": {"lower": -1, "upper": 1}},
    }
)
COMMON = {
    *("CAST", "TRY_CAST", "NULLIF", "COALESCE", "LEAST", "GREATEST", "FLOOR", "EXTRACT"),
    *("COUNT", "SUM", "DECIMAL", "ROW_NUMBER", "OVER", "DATEDIFF", "SCRAMBLE", "BYTES", "VALUES", "FROM", "AND", "AS"),
    *("MIN", "CASE", "WHEN", "WHERE", "SELECT", "THEN", "NOT"),
}


class Elsewhere(DuckDB):
    """An engine whose own hash goes by another name."""

    def bytes_of(self, text):
        return exp.Anonymous(this="BYTES", expressions=[text])

    def scramble(self, parts):
        return exp.Anonymous(this="SCRAMBLE", expressions=list(parts))


def everything(engine: DuckDB) -> sqlglot.Expression:
    names = [part.column for part in (*EVERYTHING.attributes.values(), *EVERYTHING.measures.values())]
    columns = {name: Column(name, None, name) for name in [*names, str(EVERYTHING.privacy_unit.column)]}
    return aggregate_statement(EVERYTHING, engine, columns, KEY)


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_the_statement_is_plain_sql_in_other_engines(dialect):
    engine = Elsewhere(origin=None, columns=(), dialect=dialect)  # type: ignore[arg-type]
    text = everything(engine).sql(dialect=dialect, identify=True)
    again = sqlglot.parse_one(text, read=dialect)
    assert [call.name for call in again.find_all(exp.Anonymous)] == [
        "SCRAMBLE",
        *["BYTES"] * 5,
    ]  # a column, twice as text may have an apostrophe before it, its two values, a unit
    calls = set(re.findall(r"\b([A-Za-z_]+) ?\(", re.sub(r"'(''|[^'])*'|\"[^\"]*\"|`[^`]*`", "0", text)))
    assert calls - COMMON == set()
    assert len(list(again.find_all(exp.Select))) == len(list(everything(engine).find_all(exp.Select)))


def test_the_same_statement_runs_in_duckdb():
    columns = [part.column for part in (*EVERYTHING.attributes.values(), *EVERYTHING.measures.values())]
    table = pa.table({name: pa.array(["1", None], pa.string()) for name in [*columns, EVERYTHING.privacy_unit.column]})
    CONNECTION.register("source", table)
    assert CONNECTION.sql(everything(ENGINE).sql(dialect="duckdb", identify=True)).fetchall() == []


few = st.integers(0, 3)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(few, few, few), max_size=40), most=st.integers(1, 4), ordered=st.booleans())
def test_counting_before_numbering_keeps_the_same_rows(rows, most, ordered):
    """Groups are pairs of two columns, so that some are larger than `most`, some as large, and some of one row."""
    CONNECTION.register(
        "source",
        pa.table(
            [pa.array(part, pa.int64()) for part in zip(*rows, strict=True)] or [pa.array([], pa.int64())] * 3,
            names=["g", "h", "x"],
        ),
    )
    order = [exp.Anonymous(this="hash", expressions=[column("x"), column("g")]), column("x")] if ordered else []
    found = []
    for count_first in (False, True):
        source = exp.Select(expressions=[column(name) for name in "ghx"]).from_("source")
        inner = first_of_each(source, ["g", "x"], ["g", "h"], most, order, count_first=count_first)
        outer = first_of_each(inner, ["x"], ["g"], most, count_first=count_first)  # one inside of the other
        found.append([CONNECTION.sql(sql.sql(dialect="duckdb")).fetchall() for sql in (inner.copy(), outer)])
    assert [list(map(Counter, one)) for one in found[:1]] == [list(map(Counter, one)) for one in found[1:]]
    sizes = Counter((g, h) for g, h, _ in rows)
    kept = sum(min(n, most) if ordered else n * (n <= most) for n in sizes.values())
    assert len(found[0][0]) == kept


def test_doubles_keep_their_bits():
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0**53 + 2, 1e22, 123456789.123456789]
    from sfumato.kernel.reading.expressions import double

    for value in values:
        ((found, kind),) = CONNECTION.sql(
            f"SELECT v, typeof(v) FROM (SELECT {double(value).sql(dialect='duckdb')} AS v)"
        ).fetchall()
        assert (found, math.copysign(1, found), kind) == (value, math.copysign(1, value), "DOUBLE")


def test_a_list_of_thousands_of_values_is_one_text_and_finds_the_same_cells():
    values = [f"v{n}" if n % 3 else f"it's {n}" for n in range(lists.LONG_LIST + 500)]
    asked = [*values[::7], "v", "V1", "", "it's", "v1\x1fv2", "v00001"]
    wanted = [*range(0, len(values), 7), *[None] * 6]
    assert codes({"type": "category", "values": values}, pa.array(asked)) == wanted
    parted = [*values, "a\x1fb"]  # no text can hold all, if one of them has what parts them
    assert codes({"type": "category", "values": parted}, pa.array([*asked, "a\x1fb"])) == [*wanted, len(values)]
