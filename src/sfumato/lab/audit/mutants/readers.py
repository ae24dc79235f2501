"""NOT PRIVATE: broken readers of rows, with the checks that catch them.

Reading happens before any noise is drawn, so it cannot be sampled. A check runs the broken reader, or the real one, on
inputs that bring a fault to light, and complains in words. Others are sources, engines and scores with one fix taken
out, given to the same reading audit as the real ones, which must catch each.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.kernel.reading.engines import Column, Derived, Engine
from sfumato.kernel.reading.engines.duckdb import DuckDB
from sfumato.kernel.reading.expressions import cast, named
from sfumato.kernel.reading.formats.columnar import Frame, ParquetFiles
from sfumato.kernel.reading.formats.databases import Sqlite
from sfumato.kernel.reading.formats.excel_files import ExcelFiles
from sfumato.kernel.reading.formats.origin import SOURCE
from sfumato.kernel.reading.formats.text_files import CsvFiles, JsonLines
from sfumato.kernel.reading.joining import LinkedTable
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.verbs.scores import Rank
from sfumato.schema import Schema

Steps = Callable[[list[float]], int]  # the values of a measure -> their sum in steps

SCHEMA = Schema.from_dict(
    {
        "dataset": "mutants",
        "privacy_unit": "row",
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 1}},
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)


def sum_moves(steps_of: Steps) -> str | None:
    """Complaint if one row moves a sum by more steps than the schema's bounds allow; else None."""
    most = SCHEMA.measures["m"].half_units
    before = steps_of([10.0, 90.0])
    for value in (50.0, -1e9, 1e15, float("inf"), float("nan")):
        moved = abs(steps_of([10.0, 90.0, value]) - before)
        if moved > most:
            return f"a row of value {value} moves the sum by {moved} steps, {most} is the most"
    return None


def real_steps(values: list[float]) -> int:
    """The sum of a column in steps, as the product reads it from a table."""
    import pyarrow as pa

    table = pa.table({"x": pa.array([0] * len(values)), "m": pa.array(values, type=pa.float64())})
    return int(open_table(table).aggregate(SCHEMA, key=1).sums["m"].sum())


def unclipped_steps(values: list[float]) -> int:
    """NOT PRIVATE: values are summed as they are, with noise for the schema's bounds."""
    return sum(round(min(value, 1e300)) - 50 for value in values if value == value)  # noqa: PLR0124 (missing ones)


def nan_through_clip(values: list[float]) -> int:
    """NOT PRIVATE: clipping leaves NaN as it is, and a cast makes a huge number of it."""
    steps = np.clip(np.array(values), 0, 100) - 50
    # The cast of an Intel processor, written out: on ARM a cast makes 0 of NaN, which happens to do no harm.
    huge = np.iinfo(np.int64).min
    return int(np.where(np.isnan(steps), huge, np.nan_to_num(steps).astype(np.int64)).sum())


class EngineReadsCsv(CsvFiles):
    """NOT PRIVATE: the engine's own reader of CSV, which ends records at bare carriage returns."""

    parallel = "false"

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(self.header)))
        options = (
            f"auto_detect = false, header = true, delim = '{self.grammar.separator}', quote = '\"', escape = '\"', "
            f"ignore_errors = true, strict_mode = false, parallel = {self.parallel}, columns = {{{columns}}}"
        )
        paths = ", ".join(f"'{path}'" for path in self.paths)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM read_csv([{paths}], {options})")


class GuessedLineStarts(EngineReadsCsv):
    """NOT PRIVATE: a CSV file is cut every 8 MB and lines are guessed to start there, inside quotes too."""

    parallel = "true"


class MarkOfTheFirst(CsvFiles):
    """NOT PRIVATE: in a file without a header, the row that comes first loses a byte order mark, as a header would."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        copy = self.paths[0].with_suffix(".named")
        names = self.grammar.separator.join(map(str, range(len(self.header))))
        copy.write_bytes(f"{names}\n".encode() + self.paths[0].read_bytes().removeprefix(b"\xef\xbb\xbf"))
        CsvFiles((copy,), self.header, grammar=self.grammar, block=self.block).mount(connection, used, name)


class OneLineStopsAll(JsonLines):
    """NOT PRIVATE: a line that is no JSON is an error, as it is to most readers."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        for line in self.paths[0].read_bytes().split(b"\n"):
            json.loads(line or b"{}")
        super().mount(connection, used, name)


class OneCellStopsAll(ExcelFiles):
    """NOT PRIVATE: a cell that cannot be read is an error, as it is to openpyxl."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        import openpyxl

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path in self.paths:
                book = openpyxl.load_workbook(path, read_only=True)
                for _ in book.active.iter_rows(min_row=2, values_only=True):
                    pass
                book.close()
        super().mount(connection, used, name)


class CollatedDuckDB(DuckDB):
    """NOT PRIVATE: texts are compared as their column's collation has it, so that two people can be one."""

    def bytes_of(self, text: Any) -> Any:
        return text


class BrokenPeople(Table):
    """NOT PRIVATE: rows are aggregated to one per person by a SELECT with one change."""

    def _reading(self, schema: Schema) -> tuple[Any, dict[str, Column]]:
        engine, columns = super()._reading(schema)
        self.change(engine.select)  # type: ignore[attr-defined]
        return engine, columns

    def change(self, people: Any) -> None:
        """Change the SELECT."""
        raise NotImplementedError


class AmongEverybody(BrokenPeople):
    """NOT PRIVATE: a person's aggregate is the greatest of all persons', by a window over all rows."""

    def change(self, people: Any) -> None:
        from sqlglot import exp

        for alias in people.expressions:
            if alias.alias.startswith("of_person"):
                alias.set("this", exp.Window(this=exp.Max(this=alias.this)))


class PeopleFolded(BrokenPeople):
    """NOT PRIVATE: people whose names differ in capitals alone have one row."""

    def change(self, people: Any) -> None:
        from sqlglot import exp

        folded = exp.Lower(this=exp.column("person", quoted=True))
        people.expressions[0].replace(exp.alias_(folded, "who", quoted=True))
        people.set("group", exp.Group(expressions=[folded.copy()]))


class OneOfManyRows(BrokenPeople):
    """NOT PRIVATE: rows are grouped by a value as well as by person, so that a person has several."""

    def change(self, people: Any) -> None:
        from sqlglot import exp

        inner = people.args["from_"].this.this
        values = [one.alias for one in inner.expressions if one.alias.startswith("v")]
        people.args["group"].append("expressions", exp.column(values[0], quoted=True))


class BareCasts(DuckDB):
    """NOT PRIVATE: values are cast as they are, so that one that is no number stops the reading."""

    def safe_cast(self, value: Any, source: Column, to: str) -> Any:
        return cast(value, to)


class CentredTable(Table):
    """NOT PRIVATE: a rule that looks at other rows, as AVG(n) OVER () would: each number less the table's mean."""

    def _reading(self, schema: Schema) -> tuple[Engine, dict[str, Column]]:
        engine, columns = super()._reading(schema)
        if not isinstance(engine, Derived):
            return engine, columns
        others = [exp.column(one.reference, quoted=True) for one in engine.columns if one.type != "DOUBLE"]
        numbers = [one for one in engine.columns if one.type == "DOUBLE"]
        centred = [
            named(
                exp.column(one.reference, quoted=True)
                - exp.Window(this=exp.Avg(this=exp.column(one.reference, quoted=True))),
                one.reference,
            )
            for one in numbers
        ]
        rows = exp.Select(expressions=[*others, *centred]).from_(engine.table(), copy=False)
        return Derived(engine, rows, engine.columns, []), columns


class UnclippedWeights(Table):
    """NOT PRIVATE: weights count as they are, with noise for the schema's largest."""

    def read(self, schema: Schema, key: int, **how: Any) -> Any:
        wider = schema.weight and schema.weight.model_copy(update={"upper": Fraction(10**6)})
        return super().read(schema.model_copy(update={"weight": wider}), key, **how)


class OverflowingRank(Rank):
    """NOT PRIVATE: ranks in 64 bits, which overflow where there are many rows."""

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        a, b = self.quantile.as_integer_ratio()
        up_to = np.cumsum(counts)
        with np.errstate(over="ignore"):
            target = np.int64(a) * up_to[-1]
            short, beyond = target - b * up_to, b * (up_to - counts) - target
            return np.asarray(-np.maximum(0, np.maximum(short, beyond)), dtype=np.int64)


class TypedPandas(Frame):
    """NOT PRIVATE: pandas columns keep the types that pandas took from their values."""

    def describe(self, connection: Any) -> list[Column]:
        import pyarrow as pa

        columns = [self.frame.iloc[:, place] for place in range(self.frame.shape[1])]
        natural = [pa.array(column, from_pandas=True) if _plain(column) else None for column in columns]
        found = []
        for place, (column, values) in enumerate(zip(super().describe(connection), natural, strict=True)):
            kind = None
            if values is not None:
                connection.register(SOURCE, pa.table([values[:0]], names=["v"]))
                kind = str(connection.sql(f"FROM {SOURCE}").types[0])
            found.append(replace(column, type=kind, inexact=False, reference=f"c{place}", who=None))
        return found

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        import pyarrow as pa

        columns = [self.frame.iloc[:, int(column.reference[1:])] for column in used]
        texts = [
            pa.array(column, from_pandas=True)
            if _plain(column)
            else pa.array([None if value is None else str(value) for value in column], pa.string())
            for column in columns
        ]
        connection.register(name, pa.table(texts, names=[column.reference for column in used]))


def _plain(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "biufM"


class _ByText:
    """NOT PRIVATE: values that look alike are one person, the number 1 and the text 1."""

    def describe(self, connection: Any) -> list[Column]:
        return [replace(column, who=None) for column in super().describe(connection)]  # type: ignore[misc]


class ObjectsByText(_ByText, Frame):
    """NOT PRIVATE: objects of a pandas column that look alike are one person, the number 1 and the text 1."""


class ValuesByText(_ByText, Sqlite):
    """NOT PRIVATE: values of SQLite that look alike are one person, the number 1 and the text 1."""


class AnyEncoding(Sqlite):
    """NOT PRIVATE: SQLite turns UTF-16 into UTF-8, in which a damaged text and a whole one can be one person."""

    def _check_encoding(self, file: Any) -> None:
        pass


class NamedNaN(Frame):
    """NOT PRIVATE: rows whose identifier is not a number are all about one person."""

    unit: str | None = None

    def describe(self, connection: Any) -> list[Column]:
        columns = super().describe(connection)
        return [replace(column, type="BIGINT") if column.name == self.unit else column for column in columns]


class UnknownDecimals(Frame):
    """NOT PRIVATE: a type that the engine cannot read is taken for one that it can, and found out while reading."""

    def describe(self, connection: Any) -> list[Column]:
        return [
            replace(column, type="DECIMAL(38,2)") if str(column.type).startswith("Arrow") else column
            for column in super().describe(connection)
        ]


class FirstNames(ParquetFiles):
    """NOT PRIVATE: columns of several files whose names differ in case only are taken for one another."""

    def _names(self) -> list[str]:
        import pyarrow.parquet as pq

        return [str(name) for name in pq.ParquetFile(self.paths[0]).schema_arrow.names]


class StatisticsTrusted(ParquetFiles):
    """NOT PRIVATE: a Parquet file's statistics are believed when they say that no value is NaN."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        paths = ", ".join(f"'{path}'" for path in self.paths)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM read_parquet([{paths}])")


class EditedRows(LinkedTable):
    """NOT PRIVATE: linked tables whose SQL join is changed before it runs."""

    def edit(self, rows: Any) -> None:
        """Change the SQL of the rows."""

    def joined(self, schema: Schema, key: int) -> Table:
        return Table(_Edited(super().joined(schema, key).engine, self.edit), self.allow_views)


class _Edited:
    def __init__(self, engine: Any, edit: Callable[[Any], None]) -> None:
        self._engine, self._edit = engine, edit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def table(self) -> Any:
        rows = self._engine.table()
        self._edit(rows)
        return rows


def _taken_for_few(rows: Any, of: str, more: int) -> None:
    """Raise the size up to which a group of rows is kept whole by `more`. of: the column of GROUP BY."""
    for large in rows.find_all(exp.Having):
        if large.parent.args["group"].sql() == f'GROUP BY "{of}"':
            large.this.set("expression", exp.Literal.number(int(large.this.expression.this) + more))


class AnyNumberAbove(EditedRows):
    """NOT PRIVATE: rows are capped in the child alone, for each row above it, and rows above are not capped."""

    def edit(self, rows: Any) -> None:
        _taken_for_few(rows, "h", 10**6)


class FewTooMany(EditedRows):
    """NOT PRIVATE: in the tables above the child, a group of up to two rows beyond its limit is kept whole."""

    def edit(self, rows: Any) -> None:
        _taken_for_few(rows, "h", 2)


class SharedKeys(EditedRows):
    """NOT PRIVATE: a key that two households have is not left out, so that one leaving makes room for the other."""

    def edit(self, rows: Any) -> None:
        _taken_for_few(rows, "k", 10**6)


class ChildrenOfAll(EditedRows):
    """NOT PRIVATE: a person's aggregate of visits is the greatest of all persons', by a window over all visits."""

    def edit(self, rows: Any) -> None:
        for alias in list(rows.find_all(exp.Alias)):
            if alias.alias.startswith("of_person") and alias.find(exp.AggFunc):
                alias.set("this", exp.Window(this=exp.Max(this=alias.this)))


class OrphansCounted(EditedRows):
    """NOT PRIVATE: child rows without a row above count too, also where the row above was capped away."""

    def edit(self, rows: Any) -> None:
        for join in rows.find_all(exp.Join):
            if join.alias_or_name == "above":
                join.set("side", "LEFT")


class AnyNumberBelow(LinkedTable):
    """NOT PRIVATE: rows of the child are not capped."""

    def read_as(self, schema: Schema) -> Schema:
        found = super().read_as(schema)
        unit = found.privacy_unit.model_copy(update={"contributions": 10**6})
        return found.model_copy(update={"privacy_unit": unit})
