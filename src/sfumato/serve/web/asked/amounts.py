"""What is counted, averaged or summed, as SQL says it, of all rows or of those that meet conditions."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.serve.web.asked.questions import PLAIN, Amount
from sfumato.serve.web.refusals import Refusal
from sfumato.serve.web.shelf import Book

FUNCTIONS: dict[Amount, str] = {"sum": "SUM", "average": "AVG", "median": "MEDIAN"}
ALIASES: dict[Amount, str] = {"count": "n", "share": "share", "sum": "total", "average": "average", "median": "median"}


def check_amount(amount: Amount, of: str | None, book: Book) -> None:
    """Refuse a sum of nothing, or of what cannot be summed."""
    if amount in PLAIN:
        if of is not None:
            raise Refusal("invalid", f"a {amount} is of rows, not of a column", "leave `of` out")
        return
    if of is None:
        raise Refusal("invalid", f"{amount} of which column?", "name one in `of`")
    if of not in summable(book, amount):
        names = ", ".join(summable(book, amount)) or "none"
        raise Refusal("invalid", f"{of!r} has no {amount}", f"columns that have one: {names}")


def summable(book: Book, amount: Amount) -> list[str]:
    """The columns that can be summed and averaged, or have a median."""
    schema = book.release.schema
    numbers = [axis.name for axis in schema.domain if axis.kind in ("integer", "number")]
    return numbers if amount == "median" else [*schema.measures, *numbers]


def aggregate(amount: Amount, of: str | None, book: Book, among: Sequence[str] = ()) -> str:
    """The aggregate; among: conditions on its rows. A share is of all rows of the answer."""
    rows = f" FILTER (WHERE {' AND '.join(among)})" if among else ""
    if amount == "count":
        return f"COUNT(*){rows}"
    if amount == "share":
        return "COUNT(*) / SUM(COUNT(*)) OVER ()"
    return f"{FUNCTIONS[amount]}({book.spelled[str(of)]}){rows}"


def alias(wanted: str, book: Book) -> str:
    """A name for a number that no column has."""
    taken = {name.lower() for name in book.spelled}
    while wanted in taken or any(f"{wanted}_{end}" in taken for end in ("low", "high", "stderr")):
        wanted += "_"
    return wanted
