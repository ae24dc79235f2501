"""What an engine says stays in the kernel: no error that leaves it holds the engine's words, in whatever pocket."""

from __future__ import annotations

import signal
import traceback
from types import FunctionType, ModuleType

import duckdb
import pyarrow as pa
import pytest

from sfumato.errors import PrivacyError, TableError
from sfumato.kernel.reading.engines import duckdb as engine
from sfumato.kernel.reading.engines import silenced
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

CANARY = "Zyqqert-Vauxhall"
SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
)


def pockets(error: BaseException) -> list[str]:
    """Every place of an error in which the canary is found: words, causes, contexts, notes, frames and their variables.

    The frames of this test, and what it handed in itself, are not searched.
    """
    found, seen, todo = [], set(), [("error", error, 0)]
    while todo:
        where, thing, depth = todo.pop()
        if id(thing) in seen or depth > 12 or isinstance(thing, ModuleType | FunctionType | type):
            continue
        seen.add(id(thing))
        if isinstance(thing, str | bytes):
            if CANARY in (thing if isinstance(thing, str) else thing.decode("latin-1")):
                found.append(where)
            continue
        inner = []
        if isinstance(thing, BaseException):
            inner += [("cause", thing.__cause__), ("context", thing.__context__), ("args", thing.args)]
            inner += [("text", "".join(traceback.format_exception(thing))), ("vars", vars(thing))]
            if isinstance(thing, UnicodeError):
                inner.append(("object", thing.object))
            trace = thing.__traceback__
            while trace is not None:
                frame = trace.tb_frame
                if frame.f_code.co_filename != __file__:
                    inner.append((f"{frame.f_code.co_name}()", dict(frame.f_locals)))
                trace = trace.tb_next
        elif isinstance(thing, dict):
            inner += [(str(key), value) for key, value in thing.items()] + [("key", key) for key in thing]
        elif isinstance(thing, list | tuple | set | frozenset):
            inner += [("item", value) for value in thing]
        elif isinstance(thing, pa.Table | pa.ChunkedArray | pa.Array):
            inner += [("values", str(thing.to_pylist()))]
        elif hasattr(thing, "__dict__"):
            inner += [("vars", vars(thing))]
        todo += [(f"{where}.{name}", value, depth + 1) for name, value in inner]
    return found


def raised(work) -> BaseException:
    with pytest.raises((TableError, PrivacyError, KeyboardInterrupt)) as caught:
        work()
    return caught.value


def test_the_search_finds_what_it_looks_for():
    """The way it was: `raise ... from None` inside `except` keeps the engine's error as a context."""

    def from_none():
        try:
            raise duckdb.ConversionException(f"Could not convert string '{CANARY}' to INT32")
        except Exception:
            raise TableError("could not be read") from None

    def in_a_frame():
        namespace = {"TableError": TableError, "value": CANARY}
        exec(compile("def work(value):\n raise TableError('no')\nwork(value)", "elsewhere.py", "exec"), namespace)

    kept = pockets(raised(from_none))
    assert any("context" in where for where in kept)
    assert any("work()" in where for where in pockets(raised(in_a_frame)))
    assert pockets(raised(lambda: (_ for _ in ()).throw(TableError("no")))) == []


class Failing:
    """A connection that says a private value, as DuckDB's may."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __getattr__(self, name: str):
        raise self.error

    def close(self) -> None:
        pass


ERRORS = [
    lambda: duckdb.ConversionException(f"Conversion Error: Could not convert string '{CANARY}' to INT32"),
    lambda: duckdb.InvalidInputException(f"Invalid Input Error: {CANARY}"),
    lambda: RuntimeError(CANARY),
    lambda: MemoryError(CANARY),
    lambda: UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, "bad"),
]


@pytest.mark.parametrize("make", ERRORS)
def test_while_reading_and_while_opening(make, tmp_path, monkeypatch):
    duckdb.sql("SELECT 1 AS x").write_parquet(str(tmp_path / "t.parquet"))
    table = open_table(tmp_path / "t.parquet")
    monkeypatch.setattr(engine.Session, "__enter__", lambda self: Failing(make()))
    error = raised(lambda: table.aggregate(SCHEMA, key=1))
    assert type(error) is TableError and "could not be read to its end" in str(error)
    assert pockets(error) == [] and error.__context__ is None and error.__cause__ is None
    monkeypatch.setattr(engine.Session, "open", lambda self: Failing(make()))
    error = raised(lambda: open_table(tmp_path / "t.parquet"))
    assert type(error) is TableError and "cannot be opened" in str(error)
    assert pockets(error) == [] and error.__context__ is None


def test_a_stream_that_breaks_in_the_middle():
    """A real engine's real message: DuckDB quotes what the stream said."""
    schema = pa.schema([pa.field("x", pa.int64())])

    def batches():
        yield pa.record_batch([pa.array([1, 2])], schema=schema)
        raise ValueError(f"cannot parse {CANARY}")

    with pytest.raises(Exception, match=CANARY):
        connection = duckdb.connect()
        connection.register("t", pa.RecordBatchReader.from_batches(schema, batches()))
        connection.sql("SELECT count(*), sum(x) FROM t").fetchall()
    table = open_table(pa.RecordBatchReader.from_batches(schema, batches()), allow_views=True)
    error = raised(lambda: table.aggregate(SCHEMA, key=1))
    assert "could not be read" in str(error) and pockets(error) == [] and error.__context__ is None


def test_a_first_line_that_is_a_row(tmp_path):
    """A file without names: its first line, which a decoding error holds, is somebody's."""
    (tmp_path / "t.csv").write_bytes(CANARY.encode() + b"\xff,7\n1,2\n")
    error = raised(lambda: open_table(tmp_path / "t.csv"))
    assert "not UTF-8" in str(error) and pockets(error) == [] and error.__context__ is None
    (tmp_path / "q.csv").write_bytes(f'"{CANARY},7\n1,2\n'.encode())
    error = raised(lambda: open_table(tmp_path / "q.csv"))
    assert "header" in str(error) and pockets(error) == []


def test_our_own_words_are_kept_and_their_frames_are_not():
    def refuse():
        try:
            raise ValueError(CANARY)
        except ValueError:
            secret = CANARY
            raise TableError(f"there is no table of {len(secret)} letters; name another") from None

    error = raised(lambda: silenced(refuse, "something else"))
    assert str(error) == "there is no table of 16 letters; name another"
    assert pockets(error) == [] and error.__context__ is None


def test_an_answer_that_is_no_aggregate_leaves_its_counts_behind(monkeypatch):
    table = open_table(pa.table({"x": [1]}))
    wrong = pa.table({"cell": ["0", CANARY], "n": [1, 2]})
    monkeypatch.setattr(engine.DuckDB, "run", lambda self, statement, used: wrong.slice(0))
    error = raised(lambda: table.aggregate(SCHEMA, key=1))
    assert type(error) is PrivacyError and pockets(error) == [] and error.__context__ is None


def test_what_goes_well_goes_through():
    assert silenced(lambda: 7, "no") == 7
    assert silenced(lambda: None, "no") is None


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), None])
def test_an_interrupt_that_an_engine_swallows_is_an_interrupt(error, ctrl_c):
    """DuckDB makes a RuntimeError of it, another engine might make nothing of it; the signal itself is heard."""
    before = signal.getsignal(signal.SIGINT)

    def work():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if error is not None:
                raise error from None

    stop = raised(lambda: silenced(work, "it may be damaged"))
    assert type(stop) is KeyboardInterrupt and stop.args == () and stop.__context__ is None
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_of_that_name_without_an_interrupt_is_an_error():
    def work():
        raise RuntimeError("Query interrupted")

    assert type(raised(lambda: silenced(work, "it may be damaged"))) is TableError


def test_a_handler_that_does_not_stop_anything_is_left_in_charge():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        assert silenced(lambda: signal.raise_signal(signal.SIGINT) or 7, "no") == 7
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
