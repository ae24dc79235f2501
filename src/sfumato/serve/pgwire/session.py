"""Session of one PostgreSQL connection: settings, transaction, and both query protocols, simple and extended.

Statements are answered through the same `Desk` as the questions of the JSON API, so the same limits hold.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sized
from dataclasses import replace
from typing import Any

from sfumato.serve.pgwire import packets as outgoing
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.asking import Answer, Asked, Given, pack_answer, spread
from sfumato.serve.pgwire.catalogue.tables import Who
from sfumato.serve.pgwire.packets import Parse, read_bind, read_execute, read_named, read_parse, read_query
from sfumato.serve.pgwire.protocol import Column, Failure, malformed
from sfumato.serve.pgwire.settings import TOLD, Command, Settings, read_command
from sfumato.serve.web.answering import Desk, Question
from sfumato.serve.web.bounds import MOST_BODY, MOST_KEPT_BY_SESSION, MOST_PREPARED
from sfumato.serve.web.requests import Refusal, where
from sfumato.sql import read_workload


class Prepared:
    """Prepared statement. known: its columns, once the client was told of them."""

    def __init__(self, parsed: Parse) -> None:
        self.text, self.types = parsed.text, parsed.oids
        self.known: tuple[Column, ...] | None = None


class Portal:
    """Prepared statement with values bound. at: offset of the first row that was not sent yet."""

    def __init__(self, prepared: Prepared, values: tuple[Given, ...], formats: tuple[int, ...]) -> None:
        self.prepared, self.values, self.formats = prepared, values, formats
        self.found: Answer | Command | None = None
        self.at, self.begun = 0, False

    @property
    def size(self) -> int:
        """Bytes that are kept for it."""
        rows = len(self.found.rows) if isinstance(self.found, Answer) else 0
        return rows + sum(len(given.value or b"") for given in self.values)


class Extended:
    """Extended query protocol: the prepared statements and portals of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.statements: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}
        self.messages: dict[bytes, Callable[[bytes], Awaitable[None]]] = {
            b"P": self._parse,
            b"B": self._bind,
            b"D": self._describe,
            b"E": self._execute,
            b"C": self._close,
        }

    def forget(self, name: str = "all") -> None:
        """Drop all prepared statements, or one of them."""
        if name.lower() == "all":
            self.statements.clear()
        elif self.statements.pop(name, None) is None:
            raise Failure(pg.NO_STATEMENT, "no statement of this name is prepared", "prepare it first")

    async def _parse(self, body: bytes) -> None:
        parsed = read_parse(body)
        if parsed.name and parsed.name in self.statements:
            raise Failure("42P05", "a statement of this name is prepared already", "close it first")
        self._refuse_too_many(self.statements, len(parsed.text))
        if len(self.session.statements(parsed.text)) > 1:
            raise Failure(pg.SYNTAX, "a text of several statements cannot be prepared", "ask them one at a time")
        read_command(parsed.text)  # so that what is refused to begin with is refused here
        self.statements[parsed.name] = Prepared(parsed)
        await self.session.send(outgoing.PARSED)

    async def _bind(self, body: bytes) -> None:
        bound = read_bind(body)
        self._refuse_too_many(self.portals, sum(len(value or b"") for value in bound.values))
        formats = spread(bound.formats, len(bound.values))
        values = tuple(Given(value, bool(form)) for value, form in zip(bound.values, formats, strict=True))
        self.portals[bound.portal] = Portal(self._statement(bound.statement), values, bound.results)
        await self.session.send(outgoing.BOUND)

    async def _describe(self, body: bytes) -> None:
        named = read_named(body)
        if named.kind == "P":
            portal = self._portal(named.name)
            found = await self._found(portal)
            formats = portal.formats
            said = b""
        else:
            prepared = self._statement(named.name)
            found = await self.session.found(prepared.text, types=prepared.types, values=None)
            formats = ()
            said = outgoing.parameter_types(found.parameters if isinstance(found, Answer) else ())
            prepared.known = found.columns if isinstance(found, Answer) else None
        if isinstance(found, Answer):
            await self.session.send(said + outgoing.row_description(found.columns, spread(formats, len(found.columns))))
        else:
            await self.session.send(said + outgoing.NOTHING)

    async def _execute(self, body: bytes) -> None:
        asked = read_execute(body)
        portal = self._portal(asked.portal)
        found = await self._found(portal)
        session = self.session
        if isinstance(found, Command):
            await session.send(session.told(found) + session.done(found))
            return
        notes = b"" if portal.begun else session.notes(found)
        portal.begun = True
        rows, portal.at, count = found.part(portal.at, asked.most)
        more = portal.at < len(found.rows)
        await session.send(rows)
        await session.send(outgoing.SUSPENDED if more else notes + outgoing.complete(f"SELECT {count}"))

    async def _found(self, portal: Portal) -> Answer | Command:
        if portal.found is None:
            prepared = portal.prepared
            portal.found = await self.session.found(
                prepared.text,
                types=prepared.types,
                values=portal.values,
                formats=portal.formats,
                announced=prepared.known,
            )
        return portal.found

    def _refuse_too_many(self, kept: Sized, size: int) -> None:
        """Bound the memory that a client takes here; one more is always let in where there is no other."""
        whole = sum(len(one.text) for one in self.statements.values()) + sum(one.size for one in self.portals.values())
        if len(kept) >= MOST_PREPARED or (len(kept) > 1 and whole + size > MOST_KEPT_BY_SESSION):
            raise Failure(pg.TOO_LARGE, "too many statements or portals are kept", "close some, or end the transaction")

    async def _close(self, body: bytes) -> None:
        named = read_named(body)
        (self.portals if named.kind == "P" else self.statements).pop(named.name, None)
        await self.session.send(outgoing.CLOSED)

    def _statement(self, name: str) -> Prepared:
        if name not in self.statements:
            raise Failure(pg.NO_STATEMENT, "no statement of this name is prepared", "prepare it first")
        return self.statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise Failure(pg.NO_PORTAL, "there is no portal of this name", "bind a statement first")
        return self.portals[name]


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
        self.extended = Extended(self)
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
            columns, formats = found.columns, spread((), len(found.columns))
            await self.send(outgoing.row_description(columns, formats) + found.rows)
            await self.send(self.notes(found) + outgoing.complete(f"SELECT {found.count}"))
        await self.send(outgoing.ready(self.status))

    def statements(self, text: str) -> list[str]:
        """Split a text into its statements."""
        if len(text) > MOST_BODY:
            raise Failure(pg.TOO_LARGE, f"a question has at most {MOST_BODY:,} characters", "ask in parts")
        return read_workload(text)

    async def found(self, text: str, **given: object) -> Answer | Command:
        """Answer a statement, or return its command on the session. given: further fields of `Asked`."""
        command = read_command(text)
        if self.status == "E" and (command is None or command.kind not in ("end", "undo", "recover")):
            raise Failure(pg.FAILED_TRANSACTION, "an earlier statement of this transaction has failed", "ROLLBACK")
        if command is not None and command.kind == "show":
            return self._shown(command.name)
        if command is not None:
            return command
        asked = replace(Asked(text, self.who, self.settings.how), **given)  # type: ignore[arg-type]
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
            self.extended.portals.clear()
        elif command.kind == "reset":
            self.settings.reset()
            if command.tag in ("DISCARD ALL", "DISCARD PLANS"):
                self.extended.forget()
        elif command.kind == "forget":
            self.extended.forget(command.name)
        elif command.kind == "set" and (changed := self.settings.set(command.name, command.value)) is not None:
            return outgoing.parameter(changed, self.settings.get(changed))
        return b""

    def done(self, command: Command) -> bytes:
        """Message that a command is complete."""
        return outgoing.EMPTY if command.kind == "empty" else outgoing.complete(command.tag)

    def notes(self, found: Answer) -> bytes:
        """Notes on an answer, as messages."""
        return b"" if self.settings.quiet else b"".join(map(outgoing.notice, found.notes))

    def greeting(self) -> bytes:
        """The settings that clients are told of at the beginning."""
        said = b"".join(outgoing.parameter(name, self.settings.get(name)) for name in TOLD)
        return said + outgoing.parameter("session_authorization", self.who.user)
