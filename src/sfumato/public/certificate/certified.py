"""What a certificate rests on: a checked release file, its signature, and the facts that its curator states.

A file holds nothing that its curator did not state in the schema, and no date, so that equal releases are equal files.
Who published it, when and for what comes from `Facts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields
from datetime import date
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError, SfumatoError
from sfumato.frozen import dataclass
from sfumato.measurement import Gaussian
from sfumato.releases.signature import Signature

if TYPE_CHECKING:
    from sfumato.releases.contents.content import Content
    from sfumato.releases.file.manifest import Manifest
    from sfumato.schema import Schema

CURATORS = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")  # as the registry lists them
MOST_LENGTH = 2000


@dataclass(frozen=True)
class Facts:
    """Facts that the curator states for a certificate, in the curator's words; None where not stated."""

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
        """Make facts from names and texts.

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


LAPLACE, GAUSSIAN = "discrete Laplace", "discrete Gaussian"


@dataclass(frozen=True, eq=False)
class Certified:
    """What a release file and its curator say of it.

    verified: whether the signature was checked with a key that was named. file, sha256, bytes: of the release
    file itself, as `sha256sum` says them. written_on: when it was last written, as the file system knows it, which the
    file does not.
    """

    file: str
    sha256: str
    bytes: int
    digest: str
    manifest: Manifest
    schema: Schema
    content: Content
    facts: Facts = field(default_factory=Facts)
    signature: Signature | None = None
    verified: bool = False
    written_on: str = ""

    @property
    def signature_record(self) -> dict[str, Any] | None:
        """Signature beside the file, with the result of its check; None where there is none."""
        if self.signature is None:
            return None
        of_this = self.signature.digest == self.digest
        return {"key": self.signature.by, "of_this_file": of_this, "verified": self.verified}

    @property
    def noises(self) -> tuple[str, ...]:
        """Noise distributions that were drawn, without their scales, which stand in the file."""
        drawn = {isinstance(noise, Gaussian) for one in self.content.about.measured for noise in one.noises}
        return tuple(name for name, gaussian in ((LAPLACE, False), (GAUSSIAN, True)) if gaussian in drawn)

    @property
    def recipe(self) -> dict[str, str]:
        """Mechanism by name, with what this Sfumato knows of it."""
        from sfumato.models import find_mechanism

        name = self.manifest.mechanism.name
        try:
            found = find_mechanism(name)
        except SfumatoError:  # of a newer Sfumato, or somebody's own
            return {"name": name}
        return {"name": name, "summary": found.summary, "from": found.paper, "page": f"docs/{found.docs}"}
