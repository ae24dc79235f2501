"""Boundaries of the releases that are served: read once when the server starts, and sent as they are then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sfumato.errors import QueryError
from sfumato.public.boundaries import columns_with_areas, features_of, matched
from sfumato.serve.web.requests import Book, Shelf, as_json


def with_maps(shelf: Shelf, files: Mapping[str, Path]) -> Shelf:
    """Shelf with boundaries added to each release that has the column of a file, with values that the file knows.

    A file that fits no release is refused with the error of the first release that has the column.
    """
    found: dict[str, dict[str, bytes]] = {book.name: {} for book in shelf}
    for column, file in files.items():
        features, problem = features_of(file), None
        for book in shelf:
            if column not in columns_with_areas(book.release.schema):
                continue
            try:
                areas = matched(book.release.schema, column, features, str(file))
            except QueryError as refused:
                problem = problem or refused
            else:
                found[book.name][column] = as_json(areas.geojson())
        if not any(column in maps for maps in found.values()):
            raise problem or QueryError(_unknown(column, shelf))
    return Shelf(tuple(_mapped(book, found[book.name]) for book in shelf))


def _mapped(book: Book, maps: Mapping[str, bytes]) -> Book:
    return replace(book, maps=maps) if maps else book


def _unknown(column: str, shelf: Shelf) -> str:
    there = dict.fromkeys(name for book in shelf for name in columns_with_areas(book.release.schema))
    listed = ", ".join(list(there)[:20]) or "none"
    return f"no release here has a column {column!r} that a map can show; columns that have areas: {listed}"
