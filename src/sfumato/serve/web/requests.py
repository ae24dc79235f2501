"""Read questions from HTTP requests, and guard every request: host names, headers, slow readers, failures.

A body is limited in length and time, must be JSON, and may have the fields of its kind of question only.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.serve.web.bounds import BODY_SECONDS, MOST_BODY, SEND_SECONDS
from sfumato.serve.web.refusals import Refusal

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
