"""Listen on PostgreSQL's port: limits on connections, handshake, cancellation, and end of a connection."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from contextlib import suppress
from struct import unpack

from sfumato.serve.pgwire import packets as outgoing
from sfumato.serve.pgwire.catalogue.tables import Who
from sfumato.serve.pgwire.packets import first_message, next_message, read_startup
from sfumato.serve.pgwire.protocol import PROTOCOL, TOO_MANY_CONNECTIONS, Failure, malformed
from sfumato.serve.pgwire.session import Gone, Send, Session
from sfumato.serve.pgwire.settings import Settings, startup_options
from sfumato.serve.web.answering import Desk
from sfumato.serve.web.bounds import MOST_SESSIONS, SEND_SECONDS, STARTUP_SECONDS
from sfumato.serve.web.requests import where

VERSION = 3 << 16
SSL, GSS, CANCEL = 80877103, 80877104, 80877102
LOOK_SECONDS = 0.25  # how often it is looked whether a client that waits for an answer is still there
_IDENTITY = ("user", "database", "options", "replication")


class Wire:
    """Server of PostgreSQL's protocol."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._sessions: dict[tuple[int, int], Session] = {}
        self._connections = 0
        self._numbers = 0

    async def listen(self, listening: socket.socket) -> asyncio.Server:
        """Accept connections on a socket that is listening already."""
        return await asyncio.start_server(self._connected, sock=listening)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= 2 * MOST_SESSIONS:  # beyond, not even a refusal is worth a wait
                await self._served(reader, writer)
        except Failure as failure:
            with suppress(OSError):
                writer.write(outgoing.error(Failure(failure.code, failure.message, failure.hint, fatal=True)))
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass  # the client left, or never came so far, or the server ends
        except Exception as error:
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
        finally:
            self._connections -= 1
            writer.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(data: bytes) -> None:
            writer.write(data)
            async with asyncio.timeout(SEND_SECONDS):
                await writer.drain()

        async def gone() -> None:
            while not reader.at_eof():
                await asyncio.sleep(LOOK_SECONDS)

        try:
            async with asyncio.timeout(STARTUP_SECONDS):
                found = await self._begun(reader, send, gone)
        except TimeoutError:
            raise Failure(PROTOCOL, "the connection took too long to begin", "connect again", fatal=True) from None
        if found is None:
            return
        self._numbers = self._numbers % (2**31 - 1) + 1
        key = (self._numbers, secrets.randbits(32))
        self._sessions[key] = found
        try:
            await send(outgoing.AUTHENTICATED + found.greeting() + outgoing.cancel_key(*key) + outgoing.ready("I"))
            going = True
            while going:
                going = await found.take(*await next_message(reader))
        finally:
            del self._sessions[key]

    async def _begun(self, reader: asyncio.StreamReader, send: Send, gone: Gone) -> Session | None:
        """Start a client's session; None where the connection only cancels another session's query."""
        for _ in range(4):  # encryption may be asked for, once each
            data = await first_message(reader)
            (code,) = unpack("!i", data[:4])
            if code in (SSL, GSS):
                await send(outgoing.NO_ENCRYPTION)
                continue
            if code == CANCEL:
                if len(data) == 12 and (session := self._sessions.get(unpack("!iI", data[4:]))) is not None:
                    session.cancel()
                return None
            if code >> 16 != 3:
                raise malformed("this is not version 3 of PostgreSQL's protocol", fatal=True)
            if self._connections > MOST_SESSIONS:
                raise Failure(TOO_MANY_CONNECTIONS, "too many clients are connected", "try again later", fatal=True)
            given = read_startup(data[4:])
            options = [name for name in given if name.startswith("_pq_.")]
            if code != VERSION or options:
                await send(outgoing.versions(VERSION, options))
            return self._session(given, send, gone)
        raise malformed("the connection does not begin", fatal=True)

    def _session(self, given: dict[str, str], send: Send, gone: Gone) -> Session:
        user = given.get("user", "")[:63]
        if not user:
            raise Failure("28000", "no user is named", "name any; there is no login", fatal=True)
        settings = Settings()
        wanted = {
            name: value for name, value in given.items() if name not in _IDENTITY and not name.startswith("_pq_.")
        }
        for name, value in (wanted | startup_options(given.get("options", ""))).items():
            settings.set(name, value)
        return Session(self.desk, Who(user, given.get("database", user)[:63] or user), settings, send, gone)
