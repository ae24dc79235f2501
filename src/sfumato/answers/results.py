"""Result table of a query: keys as labels, numbers as estimates with standard error and interval."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sfumato.domain import EPOCH, Label
from sfumato.frozen import dataclass
from sfumato.plain_text import (
    aligned,
    escaped_json,
    html_block,
    html_table,
    html_text,
    printable,
    spreadsheet_safe,
    width,
)

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes

    from sfumato.answers.export import Frame


@dataclass(frozen=True)
class Estimate:
    """Value, standard error and confidence interval.

    noise: the part of the standard error that comes from the privacy noise. model: the part that comes from an
    assumption about how rows are spread, inside cells or over cells; 0 where no assumption was needed. dates: whether
    value, low and high count days since 1970-01-01; timed: whether these have a time of day. real: of a difference,
    whether its interval excludes zero, so that the noise alone did not make it; None where the answer is not one. sure:
    the ends of the guaranteed interval, where both kinds were asked for.
    """

    value: float
    stderr: float
    low: float
    high: float
    confidence: float
    noise: float
    model: float = 0.0
    dates: bool = False
    timed: bool = False
    real: bool | None = None
    sure: tuple[float, float] | None = None

    def times(self, factor: float) -> Estimate:
        """Multiply by a constant: a negative one swaps the ends, and a multiple of a date is no date."""
        if factor == 1.0:
            return self
        ends = (self.low, self.high) if factor >= 0.0 else (self.high, self.low)
        low, high = (end * factor for end in ends) if factor else (0.0, 0.0)
        stderr, noise, model = (abs(factor) * error for error in (self.stderr, self.noise, self.model))
        scaled = replace(self, value=self.value * factor, stderr=stderr, low=low, high=high, noise=noise, model=model)
        return replace(scaled, dates=False, timed=False)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes zero, so that the noise alone did not make the value."""
        return bool(self.low > 0.0 or self.high < 0.0)

    @property
    def source(self) -> str:
        """Source of the error, in words."""
        return "privacy noise" if self.model == 0 else "privacy noise and how rows are taken to be spread"


Moment = date  # or a datetime, which is one
Cell = Label | float | None | Estimate  # None: NULL, as in the totals of a ROLLUP

OF_WIDTH = "of these error bars is what"  # of the note on the model's part of an interval, which holds it already
CHOSEN = ("chosen among", "may belong on its other side")
ALLOWED_FOR = (  # by the interval, or by an option of the question
    "the interval allows for any",
    "reaches to the ends of bins",
    "guaranteed intervals hold",
    "are as measured",
    "hold together with",
    "there is one number",
)
MINUTES = 24 * 60  # of a day
MOST_SHOWN = 200  # rows in a notebook
MOST_DECIMALS = 12  # a number has no more digits that mean anything


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Result table: rows of keys and estimates, in the order of the select list.

    notes: what was assumed for this answer, in sentences. counted: the release's rules on which rows count, in one
    line. numbers: which columns are estimates; None: those that are in the first row. dated: which columns hold
    single days ("day") or times ("hour"); weeks, months and what else spans several days are texts. errors: whether
    tables, records and frames show standard errors and intervals; `rows` has them in either case. alone: numbers that
    never show theirs, because the statement names them as columns (`SELECT n, n_low FROM ...`).
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    confidence: float
    notes: tuple[str, ...] = ()
    counted: str = ""
    numbers: frozenset[str] | None = None
    dated: Mapping[str, str] = field(default_factory=dict)
    errors: bool = True
    alone: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        return iter(self.rows)

    def column(self, name: str) -> list[Cell]:
        """Cells of one column, by name."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def records(self) -> list[dict[str, Label | float | None]]:
        """One flat mapping for each row: every number `n` comes with `n_stderr`, `n_low` and `n_high`.

        What is not a finite number (an average over what may be no rows at all) is None. Of a difference, `n_real` says
        whether its interval excludes zero. Without `errors`, `n` stands alone.
        """
        return [_record(self.columns, row, self._beside) for row in self.rows]

    def typed_records(self) -> list[dict[str, Moment | Label | float | None]]:
        """Records with dates and datetimes as Python objects, where `records` has ISO texts."""
        whens = self.moments
        return [
            {name: _read(value, whens[name]) if name in whens else value for name, value in record.items()}
            for record in self.records()
        ]

    @property
    def moments(self) -> dict[str, str]:
        """Time unit of the date columns of `headers`: "day" or "hour" by name."""
        kinds = dict(self.dated)
        for place, name in enumerate(self.columns):
            cells = (row[place] for row in self.rows if name in self.estimated)
            some = [cell for cell in cells if isinstance(cell, Estimate) and not math.isnan(cell.value)]
            if some and all(cell.dates for cell in some):
                kinds[name] = "hour" if any(cell.timed for cell in some) else "day"
        ends = ("", "_low", "_high", "_guaranteed_low", "_guaranteed_high")
        numbers = {name + end: kinds[name] for name in kinds if name in self.estimated for end in ends}
        return {name: kind for name, kind in (kinds | numbers).items() if name in self.headers}

    @property
    def estimated(self) -> frozenset[str]:
        """Names of the columns that hold estimates."""
        if self.numbers is not None:
            return self.numbers
        first = self.rows[0] if self.rows else ()
        return frozenset(name for name, cell in zip(self.columns, first, strict=False) if isinstance(cell, Estimate))

    @property
    def _beside(self) -> frozenset[str]:
        """Names of the columns whose records carry standard errors and interval ends."""
        return self.estimated - self.alone if self.errors else frozenset()

    @property
    def headers(self) -> tuple[str, ...]:
        """Keys of `records` in order, also for an empty result."""
        if self.rows:
            return tuple(_record(self.columns, self.rows[0], self._beside))
        number = ("", "_stderr", "_low", "_high")
        suffixes = {name: number if name in self._beside else ("",) for name in self.columns}
        return tuple(name + suffix for name in self.columns for suffix in suffixes[name])

    def to_arrow(self) -> pa.Table:
        """Arrow table of the records; unknown values are null."""
        return self._frame().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """pandas frame of the records; unknown values are NaN."""
        return self._frame().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """polars frame of the records; unknown values are null."""
        return self._frame().to_polars()

    def _frame(self) -> Frame:
        """Typed columns of the records."""
        from sfumato.answers.export import Frame, in_64_bits

        records = self.typed_records()
        columns = {name: in_64_bits([record.get(name) for record in records]) for name in self.headers}
        return Frame(columns, frozenset(self.columns) - self.estimated, self.moments)

    def plot(self, column: str | None = None, *, ax: Axes | None = None, panels: str | None = None) -> Axes:
        """Plot a number of every row with its interval; the first number, unless `column` names another.

        The first key is along the axis, and the others are told apart by colour; where they would lie on each other,
        each value of the last key has a small picture of its own. panels: the key that has them in any case. ax: where
        to draw; a new picture if None. Returns the axes, of small pictures the first. It needs matplotlib.
        """
        from sfumato.answers.export import plot_result

        return plot_result(self.columns, self.rows, self.estimated, self.confidence, column, ax, panels)

    def to_csv(self, *, notes: bool = False) -> str:
        """CSV text of the records, one line each; unknown values are empty.

        Names and labels come from the maker of the release: no terminal obeys them and no spreadsheet runs them. notes:
        add a comment line, which begins with "# ", for each note.
        """
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        headers = self.headers
        writer.writerow(map(_cell, headers))
        writer.writerows([_cell(row.get(name)) for name in headers] for row in self.records())
        return text.getvalue() + "".join(f"# {_comment(note)}\n" for note in self.remarks if notes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes as lines under the answer, the counting rule last."""
        return (*(f"note: {note}" for note in self.notes), *([f"counted: {self.counted}"] if self.counted else []))

    @property
    def decisive(self) -> tuple[str, ...]:
        """Notes that change what one may conclude, the weightiest first: not what the error bar holds already."""
        return tuple(sorted((note for note in self.notes if OF_WIDTH not in note), key=_weight))

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """Headers and cells as printable text, numbers rounded to two digits of their standard error."""
        percent = f"{self.confidence * 100:.6g}"
        intervals = [f"{percent} % interval", *(["guaranteed"] if self.both else [])]
        headers = []
        for name in self.columns:
            shown = printable(name)
            headers += [shown, "± std. error", *intervals] if name in self._beside else [shown]
        with_errors = [name in self._beside for name in self.columns]
        rows = [
            [text for cell, errors in zip(row, with_errors, strict=True) for text in _texts(cell, errors)]
            for row in self.rows
        ]
        return headers, rows

    @property
    def both(self) -> bool:
        """Whether every number has both a typical and a guaranteed interval."""
        return any(isinstance(cell, Estimate) and cell.sure is not None for row in self.rows[:1] for cell in row)

    def __repr__(self) -> str:
        headers, rows = self.texts()
        head, *lines = aligned([headers, *rows])
        notes = [printable(f"note: {note}") for note in self.decisive[:1]]
        return "\n".join([head, "-" * width(head), *lines, *notes])

    def _repr_html_(self) -> str:
        headers, rows = self.texts()
        left, aside, at = list[int](), list[int](), 0
        for place, name in enumerate(self.columns):
            if name not in self.estimated and not all(_is_number(row[place]) for row in self.rows):
                left.append(at)
            beside = name in self._beside
            aside += [at + 1] if beside else []
            at += 3 + self.both if beside else 1
        table = html_table(headers, rows[:MOST_SHOWN], left, aside)
        more = len(rows) - MOST_SHOWN
        first = [f"and {more:,} more rows, all of them in to_pandas() or to_csv()"] if more > 0 else []
        first += [f"note: {note}" for note in self.decisive[:1]]
        shown = [f"<p><small>{html_text(note)}</small></p>" for note in first]
        rest = [f"<p><small>{html_text(note)}</small></p>" for note in self.remarks if note not in first]
        folded = f"<details><summary><small>more notes</small></summary>{''.join(rest)}</details>" if rest else ""
        return html_block(table, *shown, folded)


def _weight(note: str) -> int:
    """Rank of a note: departures from the query first, then selection by noise, then what the interval allows for."""
    if any(words in note for words in ALLOWED_FOR):
        return 2
    return int(any(words in note for words in CHOSEN))


def _record(columns: tuple[str, ...], row: tuple[Cell, ...], beside: Container[str]) -> dict[str, Label | float | None]:
    """Flat mapping of one row; beside: numbers that have their standard errors and interval ends beside them."""
    record: dict[str, Label | float | None] = {}
    for name, cell in zip(columns, row, strict=True):
        if isinstance(cell, Estimate) and name not in beside:
            record[name] = _plain(cell, cell.value)
        elif isinstance(cell, Estimate):
            value, low, high = (_plain(cell, number) for number in (cell.value, cell.low, cell.high))
            record |= {name: value, f"{name}_stderr": _finite(cell.stderr), f"{name}_low": low, f"{name}_high": high}
            record |= {} if cell.real is None else {f"{name}_real": cell.real}
            if cell.sure is not None:
                ends = (_plain(cell, end) for end in cell.sure)
                record |= dict(zip((f"{name}_guaranteed_low", f"{name}_guaranteed_high"), ends, strict=True))
        else:
            record[name] = cell
    return record


def _is_number(cell: Cell) -> bool:
    """Whether a key is numeric or NULL, so that its column is right-aligned."""
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _read(value: Any, kind: str) -> Moment | None:
    """Date or datetime from its ISO text."""
    if value is None:
        return None
    return date.fromisoformat(value) if kind == "day" else datetime.fromisoformat(value)


def _cell(value: Label | float | None) -> Label | float:
    """Cell of a CSV file with text made safe for spreadsheets; numbers unchanged."""
    if value is None:
        return ""
    return spreadsheet_safe(printable(value)) if isinstance(value, str) else value


def _comment(note: str) -> str:
    """Note as a comment line of a CSV file, safe for spreadsheets that split it at commas."""
    return ",".join(map(spreadsheet_safe, printable(note).replace('"', "'").split(",")))


def _finite(number: float) -> float | int | None:
    """Number for a record: an int where it is whole, None where it is not finite."""
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and abs(number) < 2**53 else number


def _plain(cell: Estimate, number: float) -> Label | float:
    """Value or interval end for a record: a number, or an ISO date."""
    return when(number, timed=cell.timed) if cell.dates else _finite(number)


def when(days: float, *, timed: bool = False) -> str | None:
    """ISO 8601 date, or time to the minute, from days since 1970-01-01.

    >>> when(19875.0), when(19875 + 13.999 / 24, timed=True)
    ('2024-06-01', '2024-06-01T13:59')
    """
    if not math.isfinite(days):
        return None
    minutes = math.floor(days * MINUTES + 1e-6)  # a whole minute is seldom a float
    day, minute = divmod(minutes, MINUTES)
    text = (EPOCH + timedelta(days=day)).isoformat()
    return f"{text}T{minute // 60:02}:{minute % 60:02}" if timed else text


def _texts(cell: Cell, errors: bool) -> list[str]:
    """Printed cells of a key or an estimate, alone or with its error."""
    if cell is None:
        return ["NULL"]
    if isinstance(cell, float) and 1e-4 <= abs(cell) < 1e6:  # an error by name, or a value of a synthetic row
        return [f"{cell:,.6g}"]
    if not isinstance(cell, Estimate):
        return [str(cell).lower() if isinstance(cell, bool) else printable(str(cell))]
    decimals = 0 if math.isnan(cell.value) or cell.dates or _nearly_whole(cell) else _decimals(cell)
    intervals = [_interval(cell, (cell.low, cell.high), decimals)]
    intervals += [] if cell.sure is None else [_interval(cell, cell.sure, decimals)]
    if math.isnan(cell.value):
        texts = ["unknown", "", *intervals]
    elif cell.dates:
        unit, error = ("hours", cell.stderr * 24) if cell.timed else ("days", cell.stderr)
        texts = [str(_plain(cell, cell.value)), f"{_number(error, decimals_for(error))} {unit}", *intervals]
    else:
        texts = [_number(cell.value, decimals), _number(cell.stderr, decimals), *intervals]
    return texts if errors else texts[:1]


def _nearly_whole(cell: Estimate) -> bool:
    """Whether a number and its ends are whole, and its error too small to print."""
    return cell.stderr < 1e-6 and all(math.isfinite(x) and x == round(x) for x in (cell.value, cell.low, cell.high))


def _decimals(cell: Estimate) -> int:
    """Decimals of a number: two digits of its error; six digits of its own where it has none."""
    return decimals_for(cell.stderr if cell.stderr > 0 else abs(cell.value) * 1e-4)


def _interval(cell: Estimate, ends: tuple[float, float], decimals: int) -> str:
    """Printed interval."""
    low, high = ends
    if math.isinf(low) and math.isinf(high):
        return "anything"
    if cell.dates:
        return f"{_plain(cell, low)} to {_plain(cell, high)}"
    return f"{_number(low, decimals)} to {_number(high, decimals)}"


def decimals_for(stderr: float) -> int:
    """Number of decimals to print: two significant digits of the standard error.

    >>> decimals_for(57.1), decimals_for(0.0312)
    (0, 3)
    """
    if not math.isfinite(stderr) or stderr <= 0:
        return 0
    return min(max(0, 1 - math.floor(math.log10(stderr))), MOST_DECIMALS)


def _number(number: float, decimals: int) -> str:
    """Printed number, or "unbounded"."""
    return f"{number:,.{decimals}f}" if math.isfinite(number) else ("unbounded" if number > 0 else "-unbounded")


def as_json(records: list[dict[str, Any]]) -> str:
    """Records as strict JSON, one object a line; what would steer a terminal is escaped."""
    return "[" + ",\n ".join(_strict(record) for record in records) + "]"


def as_full_json(result: Result, guarantee: Mapping[str, Any]) -> str:
    """JSON of the rows (`as_json`) with notes, confidence and guarantee.

    guarantee: its record, of types that JSON knows.
    """
    about = {
        "notes": list(result.notes),
        "counted": result.counted,
        "guarantee": dict(guarantee),
        "confidence": result.confidence,
    }
    lines = [f'"{key}": {_strict(value)}' for key, value in about.items()]
    return "{" + ",\n ".join(['"rows": ' + as_json(result.records()).replace("\n", "\n  "), *lines]) + "}"


def _strict(value: Any) -> str:
    """Strict JSON in which nothing steers a terminal."""
    import json

    return escaped_json(json.dumps(value, ensure_ascii=False, allow_nan=False))
