"""Tables: what is refused, what is read, and that neither tells anything about a value."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.errors import TableError
from sfumato.kernel.counts import Aggregate, MarginCounts, Rows
from sfumato.kernel.reading.table import Table, open_table
from sfumato.schema import Schema

SECRET = "K4n4rienvogel"
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "height": {"type": "number", "lower": 0, "upper": 2, "bins": 4},
            "sex": {"type": "category", "values": ["F", "M"], "other": True},
            "level": {"type": "category", "values": [1, 2]},
            "member": {"type": "boolean"},
            "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "month"},
        },
        "measures": {"charge": {"lower": -8, "upper": 8, "step": 1}},
    }
)
GOOD = {
    "who": ["p1", "p2", "p3"],
    "age": [3, 40, -5],
    "height": [0.5, 1.9, 0.0],
    "sex": ["F", "M", "X"],
    "level": [1, 2, 1],
    "member": [True, False, True],
    "day": [dt.date(2020, 1, 5), dt.date(2021, 5, 5), dt.date(2020, 2, 1)],
    "charge": [3.0, 100.0, -100.0],
}
PLACES = [(3, 1, 0, 0, 1, 0), (9, 3, 1, 1, 0, 11), (0, 0, 2, 0, 1, 1)]
CELLS = sorted(int(np.ravel_multi_index(place, SCHEMA.domain.shape)) for place in PLACES)


def write(path: Path, columns: dict, **how) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path, **how)
        return path
    lines = [",".join(columns)] + [
        ",".join("" if v is None else str(v) for v in row) for row in zip(*columns.values(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refused(call, *args) -> str:
    """The message of a refusal: one line, with nothing of the table's values in it or behind it."""
    with pytest.raises(TableError) as caught:
        call(*args)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_files_are_gathered_by_cell(tmp_path, name):
    table = open_table(write(tmp_path / name, GOOD))
    table.check(SCHEMA)
    found = table.aggregate(SCHEMA, key=1)
    assert found.cells.tolist() == CELLS
    assert found.counts.tolist() == [1, 1, 1]
    steps = dict(zip(sorted(PLACES), [-8, 3, 8], strict=True))
    assert found.sums["charge"].tolist() == [steps[place] for place in sorted(PLACES)]
    assert {found.cells.dtype, found.counts.dtype, found.sums["charge"].dtype} == {np.dtype(np.int64)}


def test_columns_show_names_and_types_only(tmp_path):
    assert open_table(write(tmp_path / "t.csv", GOOD)).columns == [(name, None) for name in GOOD]
    assert dict(open_table(write(tmp_path / "t.parquet", GOOD)).columns) == {
        **{"who": "VARCHAR", "age": "BIGINT", "height": "DOUBLE", "sex": "VARCHAR", "level": "BIGINT"},
        **{"member": "BOOLEAN", "day": "DATE", "charge": "DOUBLE"},
    }


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_an_empty_table_is_a_table(tmp_path, name):
    empty = pa.table(GOOD).slice(0, 0)
    path = write(tmp_path / name, {key: [] for key in GOOD})
    if path.suffix == ".parquet":
        pq.write_table(empty, path)
    table = open_table(path)
    table.check(SCHEMA)
    found = table.aggregate(SCHEMA, key=1)
    assert len(found.cells) == len(found.counts) == len(found.sums["charge"]) == 0


def test_nothing_of_a_table_shows_in_its_repr():
    table = open_table(pa.table({"who": [SECRET]}))
    assert SECRET not in repr(table)
    assert SECRET not in repr(table.engine)


# --- what is refused, from names and types ---------------------------------------------------------------------------


def test_a_missing_column_is_named_with_what_there_is(tmp_path):
    columns = {("aage" if name == "age" else name): values for name, values in GOOD.items()}
    for name in ("t.csv", "t.parquet"):
        message = refused(open_table(write(tmp_path / name, columns)).check, SCHEMA)
        assert message.startswith("attributes.age asks for the column 'age', which the table lacks; it has who, aage,")
        assert message.endswith("did you mean 'aage'?")
    nobody = {name: values for name, values in GOOD.items() if name != "who"}
    message = refused(open_table(pa.table(nobody | {"who\nelse": [1, 2, 3]})).check, SCHEMA)
    assert message.startswith("privacy_unit asks for the column 'who'")


def test_names_match_exactly_or_else_in_any_case(tmp_path):
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"Age": {"type": "integer", "lower": 0, "upper": 9}}}
    )

    def cells(columns: dict, name: str) -> list[int]:
        return open_table(write(tmp_path / name, columns)).aggregate(schema, key=1).cells.tolist()

    for name in ("t.csv", "t.parquet"):
        assert cells({"AGE": [4]}, name) == [4]
        assert cells({"age": [1], "Age": [2], "AGE": [3]}, name) == [2]
        two = open_table(write(tmp_path / name, {"age": [1], "AGE": [3]}))
        assert "rename all but one" in refused(two.check, schema)
    assert open_table(pa.table([[1], [2]], names=["age", "Age"])).aggregate(schema, key=1).cells.tolist() == [2]


def test_a_row_in_place_of_a_header_is_not_shown(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{SECRET},39,F\n{SECRET},40,M\n")
    assert "first line" in refused(open_table(path).check, SCHEMA)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("age", ["3", "x", SECRET], "attributes.age needs numbers, but the column 'age' holds text (VARCHAR)"),
        ("height", ["3", "x", SECRET], "attributes.height needs numbers, but the column 'height' holds text"),
        ("charge", ["3", "x", SECRET], "measures.charge needs numbers, but the column 'charge' holds text"),
        ("day", ["2020-01-01", "x", SECRET], "attributes.day needs dates or times, but the column 'day' holds text"),
        ("day", [1, 2, 3], "the column 'day' is of type BIGINT"),
        ("member", [1.0, math.nan, 0.0], "needs booleans, whole numbers or text, but the column 'member' is of type"),
        ("sex", [[SECRET], [], None], "the column 'sex' is of type VARCHAR[]"),
        ("sex", [{"a": SECRET}] * 3, "the column 'sex' is of type STRUCT"),
        ("age", [[Decimal("1.5")]] * 3, "the column 'age' is of type DECIMAL[]"),
        ("sex", [SECRET.encode()] * 3, "the column 'sex' is of type BLOB"),
        ("who", [dt.datetime(2020, 1, 1)] * 3, "privacy_unit needs text, numbers, booleans or dates"),
        ("who", [[1], [2], [3]], "privacy_unit needs"),
    ],
)
def test_columns_of_an_unfit_type_are_refused(tmp_path, column, values, said):
    table = open_table(write(tmp_path / "t.parquet", GOOD | {column: values}))
    assert said in refused(table.check, SCHEMA)
    assert "convert it" in refused(table.aggregate, SCHEMA, 1)


def test_the_values_of_an_enumeration_stay_out_of_messages(tmp_path):
    path = tmp_path / "e.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT CAST('{SECRET}' AS ENUM('{SECRET}', 'x')) AS age")
    table = open_table(f"duckdb:///{path}", name="t")
    assert table.columns == [("age", "ENUM")]
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"age": {"type": "integer", "lower": 0, "upper": 9}}}
    )
    assert "ENUM" in refused(table.check, schema)


# --- no value can stop it --------------------------------------------------------------------------------------------

NASTY_TEXT = [
    *("", " ", "NaN", "nan", "inf", "-Infinity", "1e999", "-1e999", "1e-999", "0x1F", "1_000", "1,5", "٣", "½"),
    *("99999999999999999999999999999999999999999", "-170141183460469231731687303715884105728", "-0", "+1", "1.", ".5"),
    *(
        "2020-02-30",
        "infinity",
        "-infinity",
        "9999999-01-01",
        "0000-00-00",
        "2020-01-05T10:00:00+25:00",
        "epoch",
        "now",
    ),
    *(
        "true",
        "T",
        "YES",
        "😀",
        "a\u0000b",
        "\u202e",
        "'",
        '"',
        "';--",
        "\\",
        "NULL",
        "None",
        "F",
        "M",
        "1",
        "2",
        "\ufeff",
    ),
    *("x" * 100_000, "9" * 5_000, "2020-01-05", "10000-01-01", "0.5e", "e5", "--1", "1e5e5"),
]


def typed_canaries() -> dict[str, pa.Array]:
    """Columns of every type that a numeric or date attribute accepts, with the ends of their ranges."""
    days = pa.array([2**31 - 1, -(2**31), 0, None], pa.int32())
    moments = pa.array([2**63 - 1, -(2**63) + 1, 0, None], pa.int64())
    digits = "9" * 38  # as text: Decimal arithmetic would round them
    return {
        "int64": pa.array([2**63 - 1, -(2**63), 2**53 + 1, None]),
        "uint64": pa.array([2**64 - 1, 0, 1, None], pa.uint64()),
        "int8": pa.array([127, -128, 0, None], pa.int8()),
        "float": pa.array([np.float32(3.4e38), np.float32("nan"), np.float32("-inf"), None], pa.float32()),
        "double": pa.array([1.7e308, math.nan, -math.inf, None]),
        "wide": pa.array([Decimal(digits), Decimal(f"-{digits}"), Decimal(0), None], pa.decimal128(38, 0)),
        "fine": pa.array([Decimal(f"0.{digits}"), Decimal(f"-0.{digits}"), Decimal(0), None], pa.decimal128(38, 38)),
        "boolean": pa.array([True, False, True, None]),
        "date": days.cast(pa.date32()),
        "micro": moments.cast(pa.timestamp("us")),
        "nano": moments.cast(pa.timestamp("ns")),
        "zoned": moments.cast(pa.timestamp("us", tz="America/New_York")),
        "nothing": pa.nulls(4),
    }


@pytest.mark.parametrize("column", list(GOOD))
def test_no_text_stops_the_reading_of_a_csv_column(tmp_path, column):
    lines = [",".join(GOOD)]
    for text in NASTY_TEXT:
        row = {
            "who": "p",
            "age": "1",
            "height": "1",
            "sex": "F",
            "level": "1",
            "member": "1",
            "day": "2020-01-05",
            "charge": "1",
        }
        cell = '"' + text.replace('"', '""') + '"'
        lines.append(",".join((row | {"who": f"p{len(lines)}"} | {column: cell}).values()))
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    table = open_table(path)
    table.check(SCHEMA)
    found = table.aggregate(SCHEMA, key=3)
    assert found.counts.sum() <= len(NASTY_TEXT)
    always = column in ("sex", "charge")  # an unlisted value has a cell, and a missing measure keeps its row
    assert (found.counts.sum() == len(NASTY_TEXT)) == always


@pytest.mark.parametrize("kind", typed_canaries())
@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_no_value_of_a_typed_column_stops_the_reading(tmp_path, kind, form):
    canary = typed_canaries()[kind]
    columns = {
        name: pa.array([values[0]] * 4 if name != "who" else ["a", "b", "c", "d"]) for name, values in GOOD.items()
    }
    uses = ["age", "height", "charge", "level", "sex", "who"]
    uses = ["day"] if kind in ("micro", "nano", "zoned") else ["day", "sex", "who"] if kind == "date" else uses
    uses += ["member"] if kind in ("int64", "uint64", "int8", "boolean") else []
    for used in [uses, ["charge"]] if "charge" in uses else [uses]:
        table = pa.table(columns | dict.fromkeys(used, canary))
        if form == "parquet":
            pq.write_table(table, tmp_path / "t.parquet")
            table = tmp_path / "t.parquet"
        opened = open_table(table)
        opened.check(SCHEMA)
        found = opened.aggregate(SCHEMA, key=5)
        assert found.counts.sum() == 4 if used == ["charge"] else found.counts.sum() <= 4


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [b",", b'"', b"\n", b"\r\n", b"\r", b"\xff", b"\x00", b"1", b"2020-01-05", b"true", b"\\", b"#", b"\t"]
        )
        | st.binary(max_size=4)
        | st.just(b"p1,3,0.5,F,1,true,2020-01-05,2\n"),
        max_size=80,
    ),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_no_bytes_stop_the_reading_of_a_csv_file(tmp_path, body, newline):
    path = tmp_path / "t.csv"
    path.write_bytes(",".join(GOOD).encode() + newline + b"".join(body))
    table = open_table(path)
    table.check(SCHEMA)
    table.aggregate(SCHEMA, key=7)


def test_lines_that_do_not_fit_fall_out_alone(tmp_path):
    good = "p{},3,0.5,F,1,true,2020-01-05,2"
    lines = [
        ",".join(GOOD),
        good.format(1),
        "short,1",
        good.format(2) + ",more,than,that",
        "",
        "p9,\xff",
        good.format(3),
    ]
    long = "x" * 3_000_000 + ",3,0.5,F,1,true,2020-01-05,2"
    quoted = '"p\n4",3,0.5,F,1,true,2020-01-05,2'
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join([*lines, long, quoted, good.format(5)]).encode("latin-1"))
    found = open_table(path).aggregate(SCHEMA, key=1)
    assert found.counts.tolist() == [5]  # p1, p3, the one with the long name, p4 and p5


def test_what_fails_in_the_engine_is_told_without_its_words(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, GOOD | {"sex": [SECRET] * 3}, compression="none")
    whole = path.read_bytes()
    path.write_bytes(whole[:10])
    assert "t.parquet cannot be opened" in refused(open_table, path)
    footer = 8 + int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(b"PAR1" + bytes(len(whole) - 4 - footer) + whole[-footer:])
    table = open_table(path)
    table.check(SCHEMA)
    assert "t.parquet could not be read to its end" in refused(table.aggregate, SCHEMA, 1)


def test_the_same_rows_give_the_same_cells_in_any_order_and_any_files(tmp_path):
    generator = np.random.default_rng(4)  # shapes a table; no noise is drawn
    size = 300
    columns = {
        "who": [f"p{i}" for i in generator.integers(0, 80, size)],
        "age": generator.integers(-2, 12, size).tolist(),
        "height": generator.normal(1, 1, size).tolist(),
        "sex": generator.choice(["F", "M", "X"], size).tolist(),
        "level": generator.integers(1, 4, size).tolist(),
        "member": generator.choice([True, False], size).tolist(),
        "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in generator.integers(0, 400, size)],
        "charge": generator.normal(0, 9, size).tolist(),
    }
    table = pa.table(columns)

    def aggregated(what) -> tuple:
        found = open_table(what).aggregate(SCHEMA, key=11)
        return found.cells.tolist(), found.counts.tolist(), found.sums["charge"].tolist()

    wanted = aggregated(table)
    assert sum(wanted[1]) < size * 2 / 3  # the cap and the list of levels leave rows out
    assert aggregated(table.take(generator.permutation(size))) == wanted
    assert aggregated(write(tmp_path / "whole.csv", columns)) == wanted
    for part in range(3):
        pq.write_table(table.slice(part * 100, 100), tmp_path / f"part{part}.parquet")
    assert aggregated(str(tmp_path / "part*.parquet")) == wanted


def test_open_table_needs_no_schema_and_gives_a_table(tmp_path):
    assert isinstance(open_table(write(tmp_path / "t.csv", GOOD)), Table)


# -- tables of many attributes, whose cells have no number

WIDE = [f"q{place}" for place in range(100)]
ANSWERS = ["no", "yes", "perhaps"]


def wide_schema(unit="row") -> Schema:
    """A hundred attributes of several kinds: 10^76 cells and more."""
    kinds = (
        {"type": "integer", "lower": -2, "upper": 7},
        {"type": "category", "values": ANSWERS},
        {"type": "number", "lower": 0, "upper": 1, "width": "0.125"},
        {"type": "category", "values": [3, 5, 8], "other": True},
        {"type": "integer", "lower": 0, "upper": 99, "width": 10},
    )
    attributes = {name: kinds[place % len(kinds)] for place, name in enumerate(WIDE)}
    measures = {"charge": {"lower": -8, "upper": 8, "step": 1}}
    return Schema.from_dict({"dataset": "t", "privacy_unit": unit, "attributes": attributes, "measures": measures})


def wide_columns(rows: int, people: int) -> tuple[dict[str, list], list[list[int]]]:
    """A table, and where each of its rows lies on each axis."""
    random = np.random.default_rng(8)
    columns: dict[str, list] = {"who": [f"p{who}" for who in random.integers(0, people, rows)]}
    codes = []
    for place, name in enumerate(WIDE):
        drawn = random.integers(0, (12, 3, 9, 4, 110)[place % 5], rows)
        values, own = (
            (drawn - 3, np.clip(drawn - 1, 0, 9)),
            (np.array(ANSWERS)[drawn % 3], drawn),
            (drawn / 8, np.minimum(drawn, 7)),
            (np.array([3, 5, 8, 4])[drawn % 4], drawn),
            (drawn, np.minimum(drawn, 99) // 10),
        )[place % 5]
        columns[name] = values.tolist()
        codes.append(own.tolist())
    columns["charge"] = random.integers(-12, 13, rows).tolist()
    return columns, codes


def sources(tmp_path, columns) -> dict[str, object]:
    import pandas

    polars = pytest.importorskip("polars")
    table = pa.table(columns)
    return {
        "csv": write(tmp_path / "t.csv", columns),
        "parquet": write(tmp_path / "t.parquet", columns),
        "arrow": table,
        "pandas": pandas.DataFrame(columns),
        "polars": polars.from_arrow(table),
    }


def test_a_hundred_attributes_are_read_row_by_row_from_every_source(tmp_path):
    """Against a count in plain Python, along all single attributes, some pairs and a triple."""
    schema = wide_schema()
    columns, codes = wide_columns(300, 50)
    sets = [(place,) for place in range(100)] + [(0, 99), (3, 4), (17, 60), (1, 50, 98)]
    steps = [max(-8, min(8, value)) for value in columns["charge"]]
    for name, opened in sources(tmp_path, columns).items():
        table = open_table(opened)
        table.check(schema)
        margins = MarginCounts(schema.domain, table.read(schema, key=1))
        for places in sets:
            counts, sums = Counter(), Counter()
            for row, step in zip(zip(*(codes[place] for place in places), strict=True), steps, strict=True):
                counts[row] += 1
                sums[row] += step
            domain, found = margins.along([WIDE[place] for place in places])
            cells = [tuple(map(int, np.unravel_index(cell, domain.shape))) for cell in found.cells]
            assert dict(zip(cells, found.counts.tolist(), strict=True)) == counts, name
            assert dict(zip(cells, found.sums["charge"].tolist(), strict=True)) == sums, name


@pytest.mark.full
def test_a_person_with_many_rows_is_capped_over_all_words(tmp_path):
    """Which rows of a person are kept depends on that person's rows alone, and on the key."""
    schema = wide_schema({"column": "who", "contributions": 2})
    columns, _ = wide_columns(60, 12)

    def kept(people, key=1) -> Counter:
        chosen = [row for row, who in enumerate(columns["who"]) if who in people]
        table = pa.table({name: [values[row] for row in chosen] for name, values in columns.items()})
        found = open_table(table).read(schema, key)
        codes = [found.codes(name, slice(None)).tolist() for name in WIDE]
        return Counter(zip(*codes, found.steps["charge"].tolist(), strict=True))

    rows = Counter(columns["who"])
    everybody = kept(rows)
    assert everybody.total() == sum(min(2, number) for number in rows.values())
    alone = [kept({who}) for who in rows]
    assert sum(alone, Counter()) == everybody != kept(rows, key=2)
    assert kept(set(rows) - {"p3"}) == everybody - kept({"p3"})


def test_a_large_table_comes_by_cell_unless_margins_are_counted():
    """2^26 cells: too many to lay out, few enough to number; both ways to hold the rows hold the same ones."""
    names = [f"x{place}" for place in range(26)]
    parts = {name: {"type": "integer", "lower": 0, "upper": 1} for name in names}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": parts})
    rows = np.random.default_rng(5).integers(0, 2, (40, 26))
    table = open_table(pa.table({name: rows[:, place] for place, name in enumerate(names)}))
    by_cell, by_row = table.read(schema, key=1), table.read(schema, key=1, for_margins=True)
    assert isinstance(by_cell, Aggregate) and isinstance(by_row, Rows)
    np.testing.assert_array_equal(by_cell.cells, by_row.gathered.cells)
    np.testing.assert_array_equal(by_cell.counts, by_row.gathered.counts)
