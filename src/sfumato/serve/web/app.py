"""Routes of the web server: the JSON API, and the page's own files.

The files are read once when the server starts, so that no request ever names a path on the disk.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.serve.web.answering import Desk, Question
from sfumato.serve.web.answers import list_of
from sfumato.serve.web.questions import document
from sfumato.serve.web.requests import Guard, Refusal, as_json, departure, read_body, refuse
from sfumato.serve.web.shelf import Shelf

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Page:
    """Static file in memory, plain and compressed."""

    body: bytes
    packed: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> Page:
        tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        return cls(body, gzip.compress(body, 6, mtime=0), TYPES[name.rpartition(".")[2]], tag)

    def response(self, request: Request) -> Response:
        """Respond with the file, or with 304 if the browser's copy is still good."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, 200, headers | {"Content-Encoding": "gzip"}, self.media_type)
        return Response(self.body, 200, headers, self.media_type)


def pages_below(folder: Traversable, before: str = "") -> dict[str, Page]:
    """Load every file of a folder, by its path below that."""
    found: dict[str, Page] = {}
    for entry in folder.iterdir():
        name = before + entry.name
        if entry.is_dir():
            found |= pages_below(entry, f"{name}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            found[name] = Page.of(name, entry.read_bytes())
    return found


KINDS = {"query": "application/json", "csv": "text/csv", "chart": "application/json", "compare": "application/json"}


def explorer(
    shelf: Shelf, desk: Desk, *, hosts: Collection[str] | None = None, kinds: Mapping[str, str] = KINDS
) -> ASGIApp:
    """Build the whole web application.

    hosts: names under which it may be called; None: any. kinds: of questions, with the media type of their answers.
    """
    pages = pages_below(files("sfumato.serve.web") / "static")
    listed, contract = as_json(list_of(shelf)), as_json(document())

    async def releases(request: Request) -> Response:
        return _json(listed)

    async def one(request: Request) -> Response:
        book = shelf.find(request.path_params["name"])
        return _json(await desk.answer(Question("about", book.name)))

    async def ask(request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in kinds:
            raise Refusal("not_found", "there is nothing at this address", f"ask one of {', '.join(kinds)}")
        book = shelf.find(request.path_params["name"])
        question = Question(kind, book.name, await read_body(request))
        found = await desk.answer(question, departure(request))
        if kinds[kind] != "text/csv":
            return _json(found)
        headers = {"Content-Disposition": f'attachment; filename="{book.name}.csv"', "Cache-Control": "no-store"}
        return Response(found, media_type="text/csv; charset=utf-8", headers=headers)

    async def openapi(request: Request) -> Response:
        return _json(contract)

    async def front(request: Request) -> Response:
        return pages["index.html"].response(request)

    async def static(request: Request) -> Response:
        page = pages.get(request.path_params["path"])
        if page is None:
            raise Refusal("not_found", "there is no such file", "go to /")
        return page.response(request)

    return Guard(
        Starlette(
            routes=[
                Route("/", front),
                Route("/static/{path:path}", static),
                Route("/api/openapi.json", openapi),
                Route("/api/releases", releases),
                Route("/api/releases/{name}", one),
                Route("/api/releases/{name}/{kind}", ask, methods=["POST"]),
            ],
            exception_handlers=dict.fromkeys((Refusal, SfumatoError, HTTPException, Exception), refuse),
        ),
        hosts,
    )


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})
