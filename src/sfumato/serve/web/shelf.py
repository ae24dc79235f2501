"""The releases that are served, each under its dataset's name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.releases.linked import Linked
from sfumato.releases.release import Release
from sfumato.serve.web.requests import Refusal
from sfumato.sql import compile_select

Place = TypeVar("Place", bound=str | Path)


@dataclass(frozen=True, eq=False)
class Book:
    """One release that is served. file: its file's name without the folder, which is not disclosed."""

    name: str
    file: str
    release: Release

    @cached_property
    def spelled(self) -> dict[str, str]:
        """Spelling of each column in SQL: plain where that is understood, else in quotes."""
        schema, found = self.release.schema, {}
        for name in (*schema.attributes, *schema.group_columns, *schema.measures):
            text = f"SELECT {name}, COUNT(*) AS a_number FROM release GROUP BY {name}"
            if name in schema.measures:
                text = f"SELECT AVG({name}) AS a_number FROM release"
            plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
            found[name] = name if plain and self._compiles(text) else '"' + name.replace('"', '""') + '"'
        return found

    def _compiles(self, text: str) -> bool:
        try:
            compile_select(text, self.release.schema)
        except SfumatoError:
            return False
        return True


@dataclass(frozen=True, eq=False)
class Shelf:
    """All releases that are served, in the order in which they were named."""

    books: tuple[Book, ...]

    @classmethod
    def of(cls, opened: Sequence[tuple[str | Path, Release]]) -> Shelf:
        """Name each release as its dataset, which is what SQL calls it everywhere.

        Releases of one dataset are named after their files, numbered where two are called the same.
        """
        opened = cls.spread(opened)
        datasets = Counter(release.schema.dataset.lower() for _, release in opened)
        taken = {name for name, count in datasets.items() if count == 1}
        books: list[Book] = []
        for path, release in opened:
            name = release.schema.dataset
            if datasets[name.lower()] > 1:
                stem, number = _stem(path), 2
                name = stem
                while name.lower() in taken:
                    name, number = f"{stem}-{number}", number + 1
                taken.add(name.lower())
            books.append(Book(name, Path(path).name, release))
        return cls(tuple(books))

    @staticmethod
    def spread(opened: Sequence[tuple[Place, Release]]) -> list[tuple[Place, Release]]:
        """Releases with their files; of linked tables, each table."""
        return [
            (path, one)
            for path, release in opened
            for one in (release.served() if isinstance(release, Linked) else [release])
        ]

    def __iter__(self) -> Iterator[Book]:
        return iter(self.books)

    def find(self, name: str) -> Book:
        """Find a release by name, or by that of its file, as addresses may have it."""
        named = [book for book in self.books if book.name == name]
        for book in named or [book for book in self.books if _stem(book.file) == name]:
            return book
        raise Refusal("not_found", "no release of this name is served here", "GET /api/releases lists them")


def _stem(path: str | Path) -> str:
    """Name of a file without its ending, as it fits into an address."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(path).stem).strip("-")[:80] or "release"
