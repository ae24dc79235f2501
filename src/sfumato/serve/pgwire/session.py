"""Session of one PostgreSQL connection: settings, transaction, and the simple query protocol.

Statements are answered through the same `Desk` as the questions of the JSON API, so the same limits hold.

Listen on PostgreSQL's port: limits on connections, handshake, cancellation, and end of a connection.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from struct import unpack
from typing import Any

from sfumato.serve.pgwire import packets as outgoing
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.asking import Answer, Asked, pack_answer, spread
from sfumato.serve.pgwire.catalogue.tables import Who
from sfumato.serve.pgwire.commands import Command, read_command
from sfumato.serve.pgwire.extended import Cursor, Extended
from sfumato.serve.pgwire.packets import first_message, next_message, read_query, read_startup
from sfumato.serve.pgwire.protocol import PROTOCOL, TOO_MANY_CONNECTIONS, Failure, malformed
from sfumato.serve.pgwire.settings import TOLD, Settings, startup_options
from sfumato.serve.pgwire.statements import View, Views
from sfumato.serve.web.answering import Desk, Question
from sfumato.serve.web.requests import MOST_BODY, MOST_SESSIONS, SEND_SECONDS, STARTUP_SECONDS, Refusal, where
from sfumato.sql import read_workload

MOST_STATEMENTS = 100  # in one message
Send = Callable[[bytes], Awaitable[None]]
Gone = Callable[[], Coroutine[Any, Any, None]]


class Session:
    """State of one connection.

    send: hands bytes to the client, and waits where it does not take them. gone: ends when the client has left.
    """

    def __init__(self, desk: Desk, who: Who, settings: Settings, send: Send, gone: Gone) -> None:
        self.desk, self.who, self.settings, self.send, self.gone = desk, who, settings, send, gone
        self.status = "I"  # I: no transaction; T: in one; E: in one that has failed
        self.skipping = False  # after an error in the extended protocol, until Sync
        self.extended, self.views = Extended(self), Views()
        self.working: asyncio.Task[Answer] | None = None

    async def take(self, kind: bytes, body: bytes) -> bool:
        """Do what a message says; False where it says goodbye."""
        if kind == b"X":
            return False
        if kind == b"S":
            self.skipping = False
            if self.status == "I":  # portals live as long as their transaction
                self.extended.portals.clear()
            await self.send(outgoing.ready(self.status))
            return True
        if kind in (b"H", b"d", b"c", b"f") or (self.skipping and kind != b"Q"):
            return True
        try:
            if kind == b"Q":
                self.skipping = False
                await self._simple(read_query(body))
            elif kind == b"F":
                raise Failure(pg.UNSUPPORTED, "functions are not called by messages", "write SELECT")
            elif kind in self.extended.messages:
                await self.extended.messages[kind](body)
            else:
                raise malformed("there is no message of this kind", fatal=True)
        except OSError:  # the client has left
            raise
        except Exception as error:
            await self._refuse(error)
            if kind in (b"Q", b"F"):
                await self.send(outgoing.ready(self.status))
            else:
                self.skipping = True
        return True

    async def _refuse(self, error: Exception) -> None:
        failure = Failure.of(error)
        if failure.code == pg.INTERNAL and not isinstance(error, Failure | Refusal):  # the desk tells of its own
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
        if failure.fatal:
            raise failure
        self.status = "E" if self.status == "T" else self.status
        await self.send(outgoing.error(failure))

    async def _simple(self, text: str) -> None:
        """Run a simple query: one statement or several; the first that fails ends it."""
        statements = self.statements(text)
        if len(statements) > MOST_STATEMENTS:
            raise Failure(pg.TOO_LARGE, f"a text has at most {MOST_STATEMENTS} statements", "ask in parts")
        if not statements:
            await self.send(outgoing.EMPTY)
        for statement in statements:
            found = await self.found(statement)
            if isinstance(found, Command):
                await self.send(self.told(found) + self.done(found))
                continue
            await self.send(self.whole(found))
        await self.send(outgoing.ready(self.status))

    def statements(self, text: str) -> list[str]:
        """Split a text into its statements."""
        if len(text) > MOST_BODY:
            raise Failure(pg.TOO_LARGE, f"a question has at most {MOST_BODY:,} characters", "ask in parts")
        return read_workload(text)

    def whole(self, found: Answer) -> bytes:
        """All messages of an answer, the description of its columns first."""
        columns, end = found.columns, self.notes(found) + outgoing.complete(f"{found.tag} {found.count}")
        if found.copied is not None:
            return outgoing.copy_begins(len(columns), found.copied) + found.rows + outgoing.COPY_DONE + end
        if not found.described:
            return end
        return outgoing.row_description(columns, spread((), len(columns))) + found.rows + end

    async def found(self, text: str, **given: Any) -> Answer | Command:
        """Answer a statement, or return its command on the session. given: further fields of `Asked`."""
        command = read_command(text)
        if self.status == "E" and (command is None or command.kind not in ("end", "undo", "recover")):
            raise Failure(pg.FAILED_TRANSACTION, "an earlier statement of this transaction has failed", "ROLLBACK")
        if command is not None and command.kind == "show":
            return self._shown(command.name)
        inside = command.query if command else text
        asked = Asked(inside, self.who, self.settings.how, views=self.views.asked_by(inside))
        if command is not None and command.kind == "fetch":
            return await self._fetched(command, **given)
        if command is not None and command.kind == "declare":
            return await self._declared(command, replace(asked, **given | {"announced": None}))
        if command is not None and command.kind == "copy":
            return command if given.get("values", ()) is None else await self._answer(replace(asked, copy=command.copy))
        if command is not None and command.kind == "view" and given.get("values", ()) is not None:
            found = await self._answer(asked)
            self.views.put(View(command.name, command.query, found.columns), replace=command.lax)
        return command or await self._answer(replace(asked, **given))

    async def _declared(self, command: Command, asked: Asked) -> Command:
        """Declare a cursor, unless the client only wants a description of the statement."""
        if asked.values is not None:
            if self.status == "I" and not command.held:
                hint = "BEGIN first, or DECLARE it WITH HOLD"
                raise Failure("25P01", "a cursor is declared inside of a transaction", hint)
            self.extended.declare(command.name, Cursor(asked, await self._answer(asked), held=command.held))
        return command

    async def _fetched(self, command: Command, formats: tuple[int, ...] = (), **given: Any) -> Answer:
        """Rows of a cursor, in the formats that are asked for now."""
        cursor = self.extended.cursor(command.name)
        if spread(formats, len(cursor.found.columns)) != spread(cursor.asked.formats, len(cursor.found.columns)):
            asked = replace(cursor.asked, formats=formats)
            cursor.take(asked, await self._answer(asked))
        return cursor.columns(command) if given.get("values", ()) is None else cursor.fetch(command)

    async def _answer(self, asked: Asked) -> Answer:
        """Answer a request, unless the client gives it up."""
        self.working = asyncio.ensure_future(self._worked(asked))
        try:
            return await self.working
        except asyncio.CancelledError:
            if (mine := asyncio.current_task()) is not None and mine.cancelling():
                raise
            raise Failure(pg.CANCELLED, "the question was given up, as was asked for", "ask again") from None
        finally:
            self.working = None

    async def _worked(self, asked: Asked) -> Answer:
        try:
            return Answer.unpacked(await self.desk.answer(Question("wire", "", asked.packed()), self.gone()))
        except OSError as error:  # of ours, and no connection of a client's that broke
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
            raise Failure.of(error) from None

    def cancel(self) -> None:
        """Cancel the query under way."""
        if self.working is not None:
            self.working.cancel()

    def _shown(self, name: str) -> Answer:
        if name.lower() == "all":
            columns, rows = [("name", pg.TEXT), ("setting", pg.TEXT)], list(self.settings.all().items())
            return Answer.unpacked(pack_answer(columns, rows))
        return Answer.unpacked(pack_answer([(name, pg.TEXT)], [[self.settings.get(name)]]))

    def told(self, command: Command) -> bytes:
        """Run a command on the session; returns the messages about changed settings."""
        if command.kind == "begin" or (command.kind == "recover" and self.status == "E"):
            self.status = "T"
        elif command.kind in ("end", "undo"):
            self.status = "I"
            self.extended.end_transaction()
        elif command.kind == "reset":
            self.settings.reset()
            if command.tag in ("DISCARD ALL", "DISCARD PLANS"):
                self.extended.forget()
            if command.tag == "DISCARD ALL":
                self.extended.close("")
                self.views = Views()
        elif command.kind == "forget":
            self.extended.forget(command.name)
        elif command.kind == "drop":
            self.views.drop(command.name, if_exists=command.lax)
        elif command.kind == "close":
            self.extended.close(command.name)
        elif command.kind == "set" and (changed := self.settings.set(command.name, command.value)) is not None:
            return outgoing.parameter(changed, self.settings.get(changed))
        return b""

    def done(self, command: Command) -> bytes:
        """Message CommandComplete, or EmptyQueryResponse for an empty one."""
        return outgoing.EMPTY if command.kind == "empty" else outgoing.complete(command.tag)

    def notes(self, found: Answer) -> bytes:
        """Notes on an answer, as messages."""
        return b"" if self.settings.quiet else b"".join(map(outgoing.notice, found.notes))

    def greeting(self) -> bytes:
        """The settings that clients are told of at the beginning."""
        said = b"".join(outgoing.parameter(name, self.settings.get(name)) for name in TOLD)
        return said + outgoing.parameter("session_authorization", self.who.user)


# -- listening

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
