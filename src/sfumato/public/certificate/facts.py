"""What a certificate needs to know and a release file does not say: who published it, when, for what.

A file holds nothing that its curator did not state in the schema, and no date, so that equal releases are equal files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date

from sfumato.errors import QueryError
from sfumato.frozen import dataclass

CURATORS = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")  # as the registry lists them
MOST_LENGTH = 2000


@dataclass(frozen=True)
class Facts:
    """All of them as the curator words them; None where nobody said."""

    curator: str | None = None
    curator_type: str | None = None
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    published: str | None = None
    author: str | None = None
    license: str | None = None
    url: str | None = None

    @classmethod
    def of(cls, stated: Mapping[str, str]) -> Facts:
        """Facts by name.

        >>> Facts.of({"curator": "Statistics Office"}).curator
        'Statistics Office'
        """
        known = [one.name for one in fields(cls)]
        for name, value in stated.items():
            if name not in known:
                raise QueryError(f"a certificate has no {name!r}; it takes {', '.join(known)}")
            if not value.strip() or len(value) > MOST_LENGTH:
                raise QueryError(f"{name} must have 1 to {MOST_LENGTH:,} letters")
        if (kind := stated.get("curator_type")) is not None and kind not in CURATORS:
            raise QueryError(f"curator_type is {', '.join(CURATORS[:-1])} or {CURATORS[-1]}, not {kind!r}")
        if (sector := stated.get("sector")) is not None and sector not in SECTORS:
            raise QueryError(f"sector is {', '.join(SECTORS[:-1])} or {SECTORS[-1]}, not {sector!r}")
        if (day := stated.get("published")) is not None and not _is_day(day):
            raise QueryError(f"published is a day such as 2026-01-31, not {day!r}")
        if (url := stated.get("url")) is not None and not re.fullmatch(r"https?://[^\s\"'<>]+", url):
            raise QueryError(f"url is an address such as https://example.org/census, not {url!r}")
        return cls(**stated)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
