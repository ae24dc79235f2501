"""What is worked out for each kind of question, from the question to the bytes of its answer. Runs in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.answers.result import Result
from sfumato.serve.web.asked.charts import as_columns, chart_sql, leading
from sfumato.serve.web.asked.coarser import coarser, note
from sfumato.serve.web.asked.comparing import as_comparison, compare_sql
from sfumato.serve.web.asked.questions import Chart, Compare, Manner, Query
from sfumato.serve.web.asked.size import size_of
from sfumato.serve.web.bounds import MOST_SURE_NUMBERS
from sfumato.serve.web.describing import describe_book
from sfumato.serve.web.refusals import as_json
from sfumato.serve.web.shelf import Book


def description(book: Book) -> bytes:
    """What a release is."""
    return as_json(describe_book(book))


def query(book: Book, asked: Query) -> bytes:
    """Rows, as `sfumato query --format json` has them, with what a reader of the numbers should know."""
    result = ask(book, asked.sql, asked, strict=asked.strict)
    return as_json({"rows": result.records(), "columns": list(result.headers)} | _about(book, asked.sql, asked, result))


def csv(book: Book, asked: Query) -> bytes:
    """The same as comma-separated values, notes below them as comments."""
    return ask(book, asked.sql, asked, strict=asked.strict).to_csv(notes=True).encode()


def chart(book: Book, asked: Chart) -> bytes:
    """A number for every value of some attributes."""
    sql = chart_sql(asked, book)
    size = size_of(sql, book.release)
    bins = coarser(asked, book, size.numbers or size.cells)
    if bins:
        sql = chart_sql(asked, book, bins)
    result = ask(book, sql, asked)
    return as_json(
        {"by": asked.by, "amount": asked.amount, "of": asked.of}
        | as_columns(result, len(asked.by))
        | _leading(book, sql, asked, result)
        | _about(book, sql, asked, result, note(bins))
    )


def _leading(book: Book, sql: str, asked: Chart, result: Result) -> dict[str, bool]:
    """Whether a page may call one group the highest, or the lowest: only if that is so in all intervals together.

    Whoever looks for the highest of many looks at the one that noise lifted most. What does not lie apart by intervals
    of its own does so even less by those, which are wider, and need not be asked for.
    """
    found, keys = leading(result, len(asked.by)), len(asked.by)
    if asked.simultaneous or not any(found.values()):
        return found
    if len(result.rows) > MOST_SURE_NUMBERS:
        return dict.fromkeys(found, False)
    return leading(ask(book, sql, asked.model_copy(update={"simultaneous": True, "interval": "typical"})), keys)


def first_chart(book: Book) -> bytes:
    """What a page most likely asks for first: counts by one attribute."""
    return chart(book, Chart.model_validate({"by": [book.release.domain.names[0]]}))


def compare(book: Book, asked: Compare) -> bytes:
    """Two groups, their difference, and what may be said of it."""
    sql = compare_sql(asked, book)
    result = ask(book, sql, asked)
    found: dict[str, Any] = {"rows": result.records(), "columns": list(result.headers)}
    return as_json(as_comparison(result, asked) | found | _about(book, sql, asked, result))


def ask(book: Book, sql: str, how: Manner, *, strict: bool = False) -> Result:
    """The answer to a statement, which is measured before it is worked out."""
    size = size_of(sql, book.release)
    size.refuse_if_too_large(slow=how.slow)
    return book.release.query(
        sql,
        confidence=how.confidence,
        strict=strict,
        interval=how.interval,
        possible=how.possible,
        simultaneous=how.simultaneous,
        selected=how.selected,
        unbiased=how.unbiased,
    )


def _about(book: Book, sql: str, how: Manner, result: Result, notes: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "release": book.name,
        "sql": sql,
        "confidence": how.confidence,
        "interval": how.interval,
        "notes": [*notes, *result.notes],
        "counted": result.counted,
    }
