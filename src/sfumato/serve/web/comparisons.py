"""Comparisons of two groups as SQL, and their answer in a sentence."""

from __future__ import annotations

from typing import Any

from sfumato.answers.results import Estimate, Result, decimals_for
from sfumato.plain_text import printable
from sfumato.serve.web.charts import aggregate, check_amount, conditions
from sfumato.serve.web.questions import Compare
from sfumato.serve.web.requests import Refusal
from sfumato.serve.web.shelf import Book

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
