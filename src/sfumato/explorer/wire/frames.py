"""The stream of a connection, cut into messages: never longer than allowed, never waited for without end."""

from __future__ import annotations

import asyncio
from struct import unpack

from sfumato.explorer.bounds import IDLE_SECONDS, MESSAGE_SECONDS, MOST_MESSAGE, MOST_STARTUP
from sfumato.explorer.wire.failures import IDLE, PROTOCOL, TOO_LARGE, Failure, malformed


async def first_message(reader: asyncio.StreamReader) -> bytes:
    """A message before the connection is one, which has a length and no letter."""
    (length,) = unpack("!i", await reader.readexactly(4))
    if not 8 <= length <= MOST_STARTUP:
        raise malformed("the first message is not one of PostgreSQL's protocol", fatal=True)
    return await reader.readexactly(length - 4)


async def next_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The letter and the body of a message."""
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            kind = await reader.readexactly(1)
    except TimeoutError:
        raise Failure(IDLE, "nothing was asked for a long time", "connect again", fatal=True) from None
    try:
        async with asyncio.timeout(MESSAGE_SECONDS):
            (length,) = unpack("!i", await reader.readexactly(4))
            if length < 4:
                raise malformed("a message is shorter than its own length", fatal=True)
            if length > MOST_MESSAGE:
                raise Failure(TOO_LARGE, f"a message has at most {MOST_MESSAGE:,} bytes", "ask in parts", fatal=True)
            return kind, await reader.readexactly(length - 4)
    except TimeoutError:
        raise Failure(PROTOCOL, "the message took too long to arrive", "send it at once", fatal=True) from None
