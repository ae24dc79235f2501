"""A question read from a request: not too long, not too slowly, JSON, and with the fields that it may have."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from sfumato.serve.web.bounds import BODY_SECONDS, MOST_BODY
from sfumato.serve.web.refusals import Refusal

_B = TypeVar("_B", bound=BaseModel)
MEDIA_TYPE = "application/json"


async def read_body(request: Request) -> bytes:
    """What a client sent."""
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
    """Ends when the client is gone. Only after the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def read_question(body: bytes, kind: type[_B]) -> _B:
    """What a client asks."""
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
