"""A release in JSON: what it holds, what it promises, in numbers and in plain words, and what it cannot answer."""

from __future__ import annotations

from typing import Any

from sfumato.plain_text import printable
from sfumato.releases.description.description import describe
from sfumato.releases.description.group_privacy import in_words
from sfumato.releases.release import QUICKLY_ASKED
from sfumato.serve.web.asked.amounts import summable
from sfumato.serve.web.shelf import Book, Shelf
from sfumato.version import __version__


def list_of(shelf: Shelf) -> dict[str, Any]:
    """The releases that are served, in short."""
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
    """All that a reader should know before asking."""
    release = book.release
    quick = not release.content.answers_linear or release.domain.size <= QUICKLY_ASKED
    about = describe(release, with_errors=quick)
    whole = about.to_dict() | {"name": book.name, "file": book.file, "columns": _columns(book, about.to_dict())}
    whole["promise"] = about.promise
    whole["families"] = in_words(about.groups)
    whole["answers_counts"] = release.content.answers_counts
    whole["summable"] = {"sum": summable(book, "sum"), "median": summable(book, "median")}
    whole["cannot"] = cannot_answer(book, typical_known=all(one.half_width is not None for one in about.typical))
    return whole


def cannot_answer(book: Book, *, typical_known: bool = True) -> list[str]:
    """What nobody can learn from the release, a sentence each."""
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
    found.append("Whether one particular person is in the data: that is what the noise hides.")
    return found


def _columns(book: Book, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The columns as `sfumato info --json` has them, with how SQL writes them and whether values are ordered."""
    domain = book.release.domain
    return [
        column
        | {
            "sql": book.spelled[column["column"]],
            "ordered": column["column"] in domain and domain[column["column"]].ordered,
        }
        for column in about["columns"]
    ]
