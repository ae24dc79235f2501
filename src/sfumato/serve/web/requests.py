"""Read questions from HTTP requests, guard every request, and refuse in JSON: the reason, the remedy, and a keyword.

A body is limited in length and time, must be JSON, and may have the fields of its kind of question only.

Limits on what clients may ask of the server at once; beyond them are refusals that say what to do.

The releases that are served, each under its dataset's name.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.releases.linked import Linked
from sfumato.releases.release import Release
from sfumato.sql import compile_select

MOST_BODY = 64 * 1024  # bytes of a question
MOST_CELLS = 10**9  # that a question looks at, counted before anything is laid out
MOST_NUMBERS = 25_000  # with an interval each, in one answer
MOST_SURE_NUMBERS = 2_500  # with an interval of a kind that takes longer: guaranteed, or all at once
MOST_POINTS = 4_096  # of a chart: more cannot be told apart on a screen
MOST_COARSE_POINTS = 1_600  # of a chart that had more: neighbours are taken together until so many are left
MOST_BINS = 200  # of one attribute then
MOST_WAITING = 512  # different questions that wait for their turn
MOST_KEPT_BYTES = 64 * 2**20  # of answers that are kept for whoever asks the same
MOST_KEPT_ANSWER = 4 * 2**20  # of one of them
MOST_CONNECTIONS = 2_000
HEAD_SECONDS = 10.0  # until the head of a request is there, from when the connection or the request began
BODY_SECONDS = 10.0  # until all of a body is there
SEND_SECONDS = 30.0  # until a client has taken a piece of an answer
KEEP_ALIVE_SECONDS = 30  # between two requests of one connection


@dataclass(frozen=True)
class Limits:
    """Limits on the cost of one question to the server.

    Quick workers are never held for longer than `quick_seconds` of CPU: a question that needs more goes on, or begins
    again, as one of the few slow ones, which have what the others leave of the processors.
    """

    answer_seconds: float = 30.0  # until an answer is found, waiting included; a worker is killed then
    quick_workers: int = 2
    quick_seconds: float = 0.25  # of CPU
    slow_workers: int = 2
    slow_seconds: float = 5.0  # that a slow question has for certain, also where others wait for its place
    most_slow_waiting: int = 16
    memory: int = 128 * 2**20  # bytes that a worker may add to those that it began with
    memory_per_cell: int = 24  # bytes more for each cell of the largest release that lays its cells out
    worker_questions: int = 2_000  # after which a worker is replaced
    worker_growth: int = 32 * 2**20  # bytes that it may hold between two questions
    remembered_seconds: float = 60.0  # for which a question whose worker was stopped is refused at once
    most_remembered: int = 4_096


# Of PostgreSQL's protocol:
MOST_MESSAGE = 2**20  # bytes of a message
MOST_STARTUP = 10_000  # bytes of the first message, as PostgreSQL has it
MOST_SESSIONS = 200  # connections at once
MOST_PREPARED = 500  # statements that a connection may keep, and portals
MOST_KEPT_BY_SESSION = 8 * 2**20  # bytes of its statements, and of the values and rows of its portals
STARTUP_SECONDS = 10.0  # until a client has said who it is
MESSAGE_SECONDS = 30.0  # until all of a message is there, from its first byte
IDLE_SECONDS = 3600.0  # between two messages of one connection
CATALOGUE_SECONDS = 1.5  # of the processor, until the catalogue has answered

# -- requests

STATUS = {
    "malformed": 400,
    "not_found": 404,
    "method": 405,
    "too_long": 413,
    "media_type": 415,
    "wrong_host": 421,
    "invalid": 422,
    "unanswerable": 422,
    "too_large": 422,
    "internal": 500,
    "busy": 503,
    "too_slow": 503,
}
_OTHERWISE = "read /api/openapi.json, which says what can be asked"
_BY_STATUS = {
    404: ("not_found", "there is nothing at this address", "GET /api/releases lists what there is"),
    405: ("method", "this address takes no such request", "use a method that the header Allow lists"),
    500: ("internal", "this went wrong on the server's side", "ask another way, and report it"),
}


class Refusal(Exception):
    """A question that is not answered. kind: one of STATUS."""

    def __init__(self, kind: str, error: str, what_to_do: str = _OTHERWISE) -> None:
        super().__init__(error)
        self.kind, self.error, self.what_to_do = kind, error, what_to_do

    @classmethod
    def of(cls, error: SfumatoError) -> Refusal:
        """Make a refusal of a release's error, its remedy split off where it names one.

        >>> Refusal.of(SfumatoError("no column 'x'; there are a, b")).what_to_do
        'there are a, b'
        """
        what, _, remedy = str(error).partition("; ")
        return cls("unanswerable", what, remedy or "see which columns there are, and ask another way")

    def response(self, **headers: str) -> Response:
        """The refusal as it goes to the client."""
        if self.kind in ("busy", "too_slow"):
            headers.setdefault("Retry-After", "5")
        said = {"error": printable(self.error), "kind": self.kind, "what_to_do": printable(self.what_to_do)}
        return Response(as_json(said), STATUS[self.kind], headers, "application/json")


def as_json(value: Any) -> bytes:
    """Strict JSON in ASCII, so that nothing in it steers a terminal."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


async def refuse(request: Request, error: Exception) -> Response:
    """Answer with a refusal."""
    if isinstance(error, SfumatoError):
        error = Refusal.of(error)
    if isinstance(error, Refusal):
        return error.response()
    status = error.status_code if isinstance(error, HTTPException) else 500
    kind, what, remedy = _BY_STATUS.get(status, ("malformed", "this request makes no sense here", _OTHERWISE))
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return Refusal(kind, what, remedy).response(**headers)


_B = TypeVar("_B", bound=BaseModel)
MEDIA_TYPE = "application/json"


async def read_body(request: Request) -> bytes:
    """Read the body of a request, sent as JSON, within limits of length and time."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != MEDIA_TYPE:  # a page of another site cannot send this type without asking first
        raise Refusal("media_type", "the body is not sent as JSON", f"send Content-Type: {MEDIA_TYPE}")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _whole(request)
    except TimeoutError:
        raise Refusal("too_slow", "the body took too long to arrive", "send it again, at once") from None
    except ClientDisconnect:
        raise Refusal("malformed", "the connection ended before the body", "send it again") from None


async def departure(request: Request) -> None:
    """Wait until the client disconnects. Only after the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def read_question(body: bytes, kind: type[_B]) -> _B:
    """Parse and validate the question of a request."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as problem:
        raise _in_words(problem) from None


async def _whole(request: Request) -> bytes:
    too_long = Refusal("too_long", f"a question has at most {MOST_BODY:,} bytes", "ask in parts")
    stated = request.headers.get("content-length", "0")
    if not stated.isascii() or not stated.isdigit() or int(stated[:20]) > MOST_BODY:
        raise too_long
    pieces, length = [], 0
    async for piece in request.stream():
        length += len(piece)
        if length > MOST_BODY:
            raise too_long
        pieces.append(piece)
    return b"".join(pieces)


def _in_words(problem: ValidationError) -> Refusal:
    first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return Refusal("malformed", "the body is not JSON", 'send an object such as {"sql": "SELECT COUNT(*) ..."}')
    where = ".".join(str(part) for part in first["loc"][:6])
    return Refusal("invalid", f"{where or 'the body'}: {first['msg'][:200].lower()}")


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Outermost layer of the application. hosts: names under which the server may be called; None: any."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None = None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            async with asyncio.timeout(SEND_SECONDS):  # a client that does not read must not hold the answer for ever
                await send(message)

        try:
            if not self._called_by_name(scope):
                raise Refusal("wrong_host", "this server does not go by that name", "call it 127.0.0.1 or localhost")
            await self.app(scope, receive, guarded)
        except Refusal as refusal:
            await refusal.response()(scope, receive, guarded)
        except TimeoutError:
            return
        except Exception as error:
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
            if not begun:
                failed = Refusal("internal", "this went wrong on the server's side", "ask another way, and report it")
                await failed.response()(scope, receive, guarded)

    def _called_by_name(self, scope: Scope) -> bool:
        """Check the Host header, against DNS rebinding: requests of foreign pages carry their own name."""
        if self.hosts is None:
            return True
        host = Headers(scope=scope).get("host", "")
        name = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        return name.lower() in self.hosts


def where(error: Exception) -> str:
    """Type and location of an unforeseen error, and no more, for its text is whatever a client sent."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}" if trace else "?"
    return f"{type(error).__name__} ({place})"


# -- shelf

Place = TypeVar("Place", bound=str | Path)


@dataclass(frozen=True, eq=False)
class Book:
    """One release that is served. file: its file's name without the folder, which is not disclosed.

    maps: columns that have boundaries, with these as GeoJSON; the server itself sends them, and workers know the names.
    """

    name: str
    file: str
    release: Release
    maps: Mapping[str, bytes] = field(default_factory=dict)

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
