"""Run the server as a process: bind the sockets, announce the address, and serve until Ctrl-C.

Routes of the web server: the JSON API, and the page's own files.

The files are read once when the server starts, so that no request ever names a path on the disk.

Additions to uvicorn: a time limit for clients that send no request, and a signal when the server is ready.
"""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.serve.web.answering import Desk, Question
from sfumato.serve.web.answers import list_of
from sfumato.serve.web.questions import document
from sfumato.serve.web.requests import (
    HEAD_SECONDS,
    Guard,
    Limits,
    Refusal,
    Shelf,
    as_json,
    departure,
    read_body,
    refuse,
)
from sfumato.version import install_command

if TYPE_CHECKING:
    from sfumato.releases.release import Release

LOOPBACK = ("127.0.0.1", "localhost", "::1")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each() -> None:
    """Have linear algebra run in one thread: answers are worked out by several processes already.

    To be called before NumPy is loaded. Threads would also count against the memory that a worker may have.
    """
    for name in THREADS:
        os.environ.setdefault(name, "1")


def serve(
    opened: Sequence[tuple[Path, Release]],
    *,
    host: str,
    port: int,
    pg_port: int | None = None,
    maps: Mapping[str, Path] | None = None,
    ready: Callable[[str, int | None], None] = lambda _address, _port: None,
    limits: Limits | None = None,
    more: Mapping[str, Any] | None = None,
    fork: bool = sys.platform == "linux",
) -> None:
    """Serve releases until the process is stopped.

    pg_port: where PostgreSQL's protocol is spoken; None: nowhere. maps: files of boundaries, by column. ready: told the
    address, and that port, when requests are taken. more: kinds of questions besides, for tests (`working.Work`). fork:
    whether workers are forked.
    """
    uvicorn = _uvicorn()
    from sfumato.serve.web.answering import Desk, Question
    from sfumato.serve.web.maps import with_maps
    from sfumato.serve.web.pool import Pool
    from sfumato.serve.web.requests import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS, Shelf
    from sfumato.serve.web.requests import LOOPBACK as NAMES
    from sfumato.serve.web.workers import source_of_workers
    from sfumato.serve.web.working import WORKS

    opened = Shelf.spread(opened)
    shelf = with_maps(Shelf.of(opened), maps or {})
    listening = bind(host, port)
    for_tools = None if pg_port is None else bind(host, pg_port, "--pg-port")
    others = [listening] if for_tools is None else [listening, for_tools]
    limits, works = limits or Limits(), WORKS | dict(more or {})
    source = source_of_workers(shelf, [path for path, _ in opened], works, limits, others=others, fork=fork)
    pool = Pool(source, limits)
    desk = Desk(pool, limits)
    kinds = KINDS | dict.fromkeys(more or (), "application/json")
    app = explorer(shelf, desk, hosts=NAMES if host in LOOPBACK else None, kinds=kinds)
    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=16 * 1024,
    )
    name = "localhost" if host == "localhost" else f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"

    async def begun() -> list[asyncio.Server]:
        pool.start(catalogue=for_tools is not None)
        for book in shelf.books[:1]:  # what a page asks for first is at hand when it does
            desk.prepare(Question("about", book.name))
        if for_tools is None:
            return []
        from sfumato.serve.pgwire.session import Wire

        return [await Wire(desk).listen(for_tools)]

    server = Announced(
        config, begun, lambda: ready(address, None if for_tools is None else for_tools.getsockname()[1]), desk.close
    )
    source.lost = server.stop
    try:
        server.run(sockets=[listening])
    finally:
        desk.close()
    if server.stopped:
        raise SfumatoError("the process that answers are worked out from has ended; start the server again")


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """Bind a listening socket first, so that the address is known and a taken port refused before anything else."""
    taken = f"port {port} of {host} {{}}; name another with {option}, or {option} 0 for any"
    try:
        ((family, _, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise SfumatoError(f"there is no host {host} here; name an address of this machine with --host") from None
    # The protocol is said by name: of such sockets only does asyncio send small pieces at once, and head and body of an
    # answer are two, the second of which would wait 40 milliseconds for the client to acknowledge the first.
    listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except OSError as problem:
        listening.close()
        why = "is taken" if problem.errno == errno.EADDRINUSE else "cannot be listened on"
        raise SfumatoError(taken.format(why)) from None
    return listening


def open_browser(address: str) -> None:
    """Show the page, without waiting for the browser, which may be a program in this very terminal."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _uvicorn() -> Any:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ModuleNotFoundError:
        raise SfumatoError(
            f"the explorer needs a web server, which is not installed; run `{install_command('explorer')}`"
        ) from None
    return uvicorn


# -- app

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "geojson": "application/geo+json",
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
    outlines = {(book.name, at): Page.of("map.geojson", body) for book in shelf for at, body in book.maps.items()}
    listed, contract = as_json(list_of(shelf)), as_json(document())

    async def releases(request: Request) -> Response:
        return _json(listed)

    async def one(request: Request) -> Response:
        book = shelf.find(request.path_params["name"])
        return _json(await desk.answer(Question("about", book.name)))

    async def outline(request: Request) -> Response:
        book, column = shelf.find(request.path_params["name"]), request.path_params["column"]
        if column not in book.maps:
            there = ", ".join(book.maps) or "none"
            raise Refusal("not_found", "there is no map of such a column", f"columns of {book.name} with one: {there}")
        return outlines[book.name, column].response(request)

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
                Route("/api/releases/{name}/map/{column:path}", outline),
                Route("/api/releases/{name}/{kind}", ask, methods=["POST"]),
            ],
            exception_handlers=dict.fromkeys((Refusal, SfumatoError, HTTPException, Exception), refuse),
        ),
        hosts,
    )


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


# -- timeouts


class Patient(H11Protocol):
    """HTTP protocol of uvicorn with a time limit for the head of a request; uvicorn itself waits for ever."""

    _given_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the clock when a client connects."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the clock only when a whole head has arrived."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif (self.cycle is None or self.cycle.response_complete) and self._given_up is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock when the client disconnects."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._given_up = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None

    def _give_up(self) -> None:
        self._given_up = None
        if not self.transport.is_closing():
            self.transport.abort()


class Announced(Server):
    """Server that tells when requests are taken and Ctrl-C is heard, and not a moment sooner.

    begun: what begins with it, and listens on other ports. ending: called before it waits for answers under way.
    """

    def __init__(
        self,
        config: Config,
        begun: Callable[[], Awaitable[list[asyncio.Server]]],
        ready: Callable[[], None],
        ending: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._begun, self._ready, self._ending = begun, ready, ending
        self._others: list[asyncio.Server] = []
        self.stopped = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets=sockets)
        self._others = await self._begun()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more requests."""
        for other in self._others:
            other.close()
        self._ending()
        await super().shutdown(sockets=sockets)

    def stop(self) -> None:
        """Stop the server because another part has ended."""
        self.stopped = self.should_exit = True
