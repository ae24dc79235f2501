"""Answer each kind of question of the JSON API: description, query, CSV, chart, comparison. Runs in a worker.

The size of a question is computed from its plan and refused, where it is too large, before anything is allocated. The
description of a release holds its columns and guarantee, in numbers and in plain words, and what it cannot answer.

Comparisons of two groups as SQL, and their answer in a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from sfumato.answers.question import Groups, kinds_asked
from sfumato.answers.results import Estimate, Result, decimals_for
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.releases.release import QUICKLY_ASKED, Release
from sfumato.serve.web.charts import (
    aggregate,
    as_columns,
    chart_sql,
    check_amount,
    coarser,
    conditions,
    cut_short,
    leading,
    note,
    summable,
)
from sfumato.serve.web.questions import Chart, Compare, Manner, Query
from sfumato.serve.web.requests import MOST_CELLS, MOST_NUMBERS, MOST_SURE_NUMBERS, Book, Refusal, Shelf, as_json
from sfumato.sql import Column, Select, SyntheticRows, compile_statement, selects_of
from sfumato.sql.plan import Distinct
from sfumato.version import __version__

NAMES = ("first_group", "second_group", "difference")


def compare_sql(asked: Compare, book: Book) -> str:
    """SQL for two numbers and their difference, which share their noise as they do in the release."""
    if asked.amount == "share":
        if not asked.having or asked.of is not None:
            raise Refusal("invalid", "a share of whom?", "say in `having` whose share in each group is compared")
    else:
        check_amount(asked.amount, asked.of, book)
        if asked.having:
            raise Refusal("invalid", "only a share has `having`", "leave it out, or compare shares")
    first, second = (_number(asked, group, book) for group in (asked.first, asked.second))
    if first == second:
        raise Refusal("invalid", "the two groups are the same", "choose two that differ")
    numbers = (first, second, f"{first} - {second}")
    listed = ", ".join(f"{number} AS {name}" for number, name in zip(numbers, NAMES, strict=True))
    return f"SELECT {listed} FROM {book.release.schema.dataset}"


def _number(asked: Compare, group: Any, book: Book) -> str:
    among = conditions(group, book)
    if asked.amount != "share":
        return aggregate(asked.amount, asked.of, book, among)
    inside = aggregate("count", None, book, [*among, *conditions(asked.having, book)])
    return f"{inside} / {aggregate('count', None, book, among)}"


def as_comparison(result: Result, asked: Compare) -> dict[str, Any]:
    """Result of a comparison: the numbers, whether the difference exceeds the noise, and a sentence on it."""
    (row,) = result.rows
    *_, apart = (cell for cell in row if isinstance(cell, Estimate))
    real = None if apart.value != apart.value else apart.low > 0 or apart.high < 0
    return {"real": real, "statement": _statement(apart, real, asked)}


def _statement(apart: Estimate, real: bool | None, asked: Compare) -> str:
    sure = f"{asked.confidence * 100:.6g} % sure"
    if real is None:
        return "Nothing can be said of this difference: the release did not measure what it takes."
    of = printable(asked.of or "")
    what = {"count": "number of rows", "share": "share", "sum": f"sum of {of}"}.get(
        asked.amount, f"{asked.amount} {of}"
    )
    if not real:
        return (
            f"No difference can be told from the noise: the {what} of the first group may be anything from "
            f"{_apart(apart.low, apart, asked)} to {_apart(apart.high, apart, asked)} than that of the "
            f"second ({sure}). It could be chance."
        )
    least, most = sorted((abs(apart.low), abs(apart.high)))
    more = "higher" if apart.low > 0 else "lower"
    return (
        f"The {what} of the first group is {more} than that of the second, by {_shown(least, apart, asked)} to "
        f"{_shown(most, apart, asked)} ({sure}). That is more than the privacy noise can explain."
    )


def _apart(end: float, apart: Estimate, asked: Compare) -> str:
    return f"{_shown(abs(end), apart, asked)} {'lower' if end < 0 else 'higher'}"


def _shown(number: float, apart: Estimate, asked: Compare) -> str:
    if number == float("inf"):
        return "any amount"
    if asked.amount == "share":
        return f"{number * 100:,.{decimals_for(apart.stderr * 100)}f} points"
    return f"{number:,.{0 if asked.amount == 'count' and apart.stderr >= 1 else decimals_for(apart.stderr)}f}"


# -- answers


@dataclass(frozen=True)
class Size:
    """Size of a question. cells: looked at, summed over all numbers. numbers: that need an interval each."""

    cells: int
    numbers: int

    def refuse_if_too_large(self, *, slow: bool) -> None:
        """Refuse a question beyond the limits. slow: its intervals are of a kind that takes longer."""
        most = MOST_SURE_NUMBERS if slow else MOST_NUMBERS
        remedy = "group by fewer attributes, narrow it by WHERE, or ask `sfumato query` on a machine of your own"
        if self.cells > MOST_CELLS:
            raise Refusal("too_large", f"the question is about {self.cells:.3g} cells, 10^9 is the most", remedy)
        if self.numbers > most:
            raise Refusal(
                "too_large", f"the answer has {self.numbers:,} numbers, {most:,} is the most of this kind", remedy
            )


@lru_cache(maxsize=128)  # a slider asks the same statement again and again; texts may be long
def size_of(sql: str, release: Release) -> Size:
    """Size of a statement; zero for text that is no statement, which is refused when it is asked."""
    try:
        release, sql = release.routed(sql)
        statement = compile_statement(sql, release.schema)
    except QueryError:
        return Size(0, 0)
    if isinstance(statement, SyntheticRows):
        return Size(release.domain.size, statement.number * len(statement.items))
    selects = selects_of(statement)
    sizes = [_of_select(select, release) for select in selects]
    return Size(sum(size.cells for size in sizes), sum(size.numbers for size in sizes))


def _of_select(select: Select, release: Release) -> Size:
    domain = release.domain
    aggregates = max(1, sum(_counts(column) for column in set(select.aggregates)))
    whole = prod(domain[name].size for name in select.group_by)
    if whole > MOST_CELLS:  # before it is looked up which groups a WHERE leaves
        return Size(whole, 0)
    told_apart = prod(int(kinds.max(initial=0)) + 1 for kinds in kinds_asked(select, release.schema).values())
    laid_out = domain.size if release.content.answers_linear else 0
    return Size(aggregates * max(told_apart, laid_out), aggregates * len(Groups.of(select, domain).present))


def _counts(column: Column) -> int:
    """Number of estimates behind a column in each group: of COUNT(DISTINCT), a count of each value; else 1."""
    return len(column.rule.predicates) if isinstance(column.rule, Distinct) else 1


def list_of(shelf: Shelf) -> dict[str, Any]:
    """List the releases that are served, in short."""
    return {"version": __version__, "releases": [_in_short(book) for book in shelf]}


def _in_short(book: Book) -> dict[str, Any]:
    release = book.release
    return {
        "name": book.name,
        "file": book.file,
        "dataset": release.schema.dataset,
        "mechanism": release.mechanism,
        "extent": release.content.about.extent,
        "epsilon": float(release.guarantee.epsilon),
        "delta": float(release.guarantee.delta or 0),
        "href": f"/api/releases/{book.name}",
    }


def describe_book(book: Book) -> dict[str, Any]:
    """Describe a release: all that a reader should know before asking."""
    release = book.release
    quick = not release.content.answers_linear or release.domain.size <= QUICKLY_ASKED
    about = release.describe(with_errors=quick)
    whole = about.to_dict() | {"name": book.name, "file": book.file, "columns": _columns(book, about.to_dict())}
    whole["promise"] = about.promise
    whole["families"] = about.families
    whole["maps"] = list(book.maps)
    whole["answers_counts"] = release.content.answers_counts
    whole["summable"] = {"sum": summable(book, "sum"), "median": summable(book, "median")}
    whole["cannot"] = cannot_answer(book, typical_known=all(one.half_width is not None for one in about.typical))
    return whole


def cannot_answer(book: Book, *, typical_known: bool = True) -> list[str]:
    """Limits of a release, a sentence each: questions that nobody can answer from it."""
    release, schema = book.release, book.release.schema
    found = [f"Nothing about columns other than {', '.join(map(printable, book.spelled))}."]
    if not release.content.answers_counts:
        found.append("Counts by any attributes: it answers the questions that it was made for, listed as examples.")
    elif not typical_known:
        found.append("What does not follow from the questions that it was made for is shown as unknown.")
    if not schema.measures:
        found.append("Sums or averages of anything but its own numeric attributes.")
    if release.content.threshold is not None:
        found.append("Which rare combinations there are: cells with few rows were left out, and are known in sum only.")
    if not schema.invariants:
        found.append("Whether one particular person is in the data: that is what the noise hides.")
    return found


def _columns(book: Book, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as `sfumato info --json` has them, with their spelling in SQL and whether values are ordered."""
    domain = book.release.domain
    named = ((column, column["column"]) for column in about["columns"])
    return [
        column | {"sql": book.spelled[name], "ordered": name in domain and domain[name].ordered}
        for column, name in named
    ]


def query(book: Book, asked: Query) -> bytes:
    """Answer a statement: rows as `sfumato query --format json` has them, with notes."""
    result = ask(book, asked.sql, asked, strict=asked.strict, errors=asked.errors)
    return as_json({"rows": result.records(), "columns": list(result.headers)} | _about(book, asked.sql, asked, result))


def csv(book: Book, asked: Query) -> bytes:
    """Answer a statement as comma-separated values, with the notes below them as comments."""
    return ask(book, asked.sql, asked, strict=asked.strict, errors=asked.errors).to_csv(notes=True).encode()


def chart(book: Book, asked: Chart) -> bytes:
    """Answer a chart: a number for every value of some attributes."""
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
        | {"cut_short": cut_short(asked, book, bins)}
        | _about(book, sql, asked, result, note(bins))
    )


def _leading(book: Book, sql: str, asked: Chart, result: Result) -> dict[str, bool]:
    """Decide whether a page may call a group the highest or lowest: only if all intervals together show it.

    The highest of many is likely the one that noise raised most, so the intervals must hold simultaneously. These are
    wider, so they are computed only where single intervals already set a group apart.
    """
    found, keys = leading(result, len(asked.by)), len(asked.by)
    if asked.simultaneous or not any(found.values()):
        return found
    if len(result.rows) > MOST_SURE_NUMBERS:
        return dict.fromkeys(found, False)
    return leading(ask(book, sql, asked.model_copy(update={"simultaneous": True, "interval": "typical"})), keys)


def compare(book: Book, asked: Compare) -> bytes:
    """Compare two groups: their numbers, their difference, and the conclusion."""
    sql = compare_sql(asked, book)
    result = ask(book, sql, asked)
    found: dict[str, Any] = {"rows": result.records(), "columns": list(result.headers)}
    return as_json(as_comparison(result, asked) | found | _about(book, sql, asked, result))


def ask(book: Book, sql: str, how: Manner, *, strict: bool = False, errors: bool = True) -> Result:
    """Answer a statement after checking its size."""
    size_of(sql, book.release).refuse_if_too_large(slow=how.slow)
    manner = {name: getattr(how, name) for name in Manner.model_fields}
    return book.release.query(sql, strict=strict, errors=errors, **manner)


def _about(book: Book, sql: str, how: Manner, result: Result, notes: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "release": book.name,
        "sql": sql,
        "confidence": how.confidence,
        "interval": how.interval,
        "notes": [*notes, *result.notes],
        "decisive": [*notes, *result.decisive],
        "counted": result.counted,
    }
