"""The page's own files, read once when the server starts: no request ever names a path on the disk."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from sfumato.frozen import dataclass

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Page:
    """A file in memory, as it is and packed."""

    body: bytes
    packed: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> Page:
        tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        return cls(body, gzip.compress(body, 6, mtime=0), TYPES[name.rpartition(".")[2]], tag)

    def response(self, request: Request) -> Response:
        """The file, or word that the browser's copy is still good."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, 200, headers | {"Content-Encoding": "gzip"}, self.media_type)
        return Response(self.body, 200, headers, self.media_type)


def own_files() -> dict[str, Page]:
    """Every file of the page, by its path below /static/."""
    return dict(_below(files("sfumato.serve.web") / "static", ""))


def _below(folder: Traversable, before: str) -> list[tuple[str, Page]]:
    found: list[tuple[str, Page]] = []
    for entry in folder.iterdir():
        name = before + entry.name
        if entry.is_dir():
            found += _below(entry, f"{name}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            found.append((name, Page.of(name, entry.read_bytes())))
    return found
