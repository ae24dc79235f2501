"""Extended query protocol: prepared statements, portals and cursors of one session.

Cursors of SQL (DECLARE, FETCH, MOVE, CLOSE): an answer that is kept, and a position in it.

Positions are PostgreSQL's: 0 before the first row, then the number of the row fetched last, and one more than there are
rows behind the last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized
from dataclasses import replace
from struct import unpack_from
from typing import Any, Protocol

from sfumato.serve.pgwire import packets as outgoing
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.asking import Answer, Asked, spread
from sfumato.serve.pgwire.commands import Command, read_command
from sfumato.serve.pgwire.packets import Parse, read_bind, read_execute, read_named, read_parse
from sfumato.serve.pgwire.protocol import Column, Failure, Given
from sfumato.serve.web.requests import MOST_KEPT_BY_SESSION, MOST_PREPARED


class Cursor:
    """Cursor on an answer. asked: its request, to be asked again for other formats. held: outlives its transaction."""

    def __init__(self, asked: Asked, found: Answer, *, held: bool) -> None:
        self.asked, self.found, self.held = asked, found, held
        self.at = 0
        self._told = False  # the notes on the answer
        self._ends: list[int] | None = None

    def take(self, asked: Asked, found: Answer) -> None:
        """Replace the request and its answer by those with other formats of rows."""
        self.asked, self.found, self._ends = asked, found, None

    def fetch(self, command: Command) -> Answer:
        """Move, and cut out the rows on the way: an answer to FETCH; to MOVE, one without its rows."""
        numbers = self._moved(command.way, command.step)
        ends = self._row_ends()
        rows = b"".join(self.found.rows[ends[number - 1] : ends[number]] for number in numbers)
        notes = () if self._told else self.found.notes
        self._told = True
        part = replace(self.found, count=len(numbers), notes=notes, rows=rows, tag=command.tag)
        return part if command.tag == "FETCH" else replace(part, rows=b"")

    def columns(self, command: Command) -> Answer:
        """Answer without rows, which describes a FETCH; the position stays."""
        return replace(self.found, count=0, notes=(), rows=b"", tag=command.tag)

    def _moved(self, way: str, count: int | None) -> range:
        """Move the position as FETCH states, None meaning ALL; return the numbers of the rows fetched, from 1."""
        last, here = self.found.count, self.at
        if way in ("absolute", "relative"):
            step = count or 0
            goal = here + step if way == "relative" else step if step >= 0 else last + 1 + step
            self.at = min(max(goal, 0), last + 1)
            return range(self.at, self.at + 1) if 1 <= self.at <= last and goal == self.at else range(0)
        if count == 0:
            return range(here, here + 1) if 1 <= here <= last else range(0)
        forward = (way == "forward") == (count is None or count > 0)
        step = last + 1 if count is None else min(abs(count), last + 1)
        self.at = min(here + step, last + 1) if forward else max(here - step, 0)
        return range(here + 1, min(here + step, last) + 1) if forward else range(here - 1, max(here - step, 1) - 1, -1)

    def _row_ends(self) -> list[int]:
        """Offset behind each row, from 0 for the first row's beginning."""
        if self._ends is None:
            self._ends = [0]
            while self._ends[-1] < len(self.found.rows):
                (length,) = unpack_from("!i", self.found.rows, self._ends[-1] + 1)
                self._ends.append(self._ends[-1] + 1 + length)
        return self._ends


# -- extended


class Conversation(Protocol):
    """Session as the extended protocol knows it: how it answers, and how it sends."""

    send: Callable[[bytes], Awaitable[None]]

    def statements(self, text: str) -> list[str]:
        """Split a text into its statements."""

    async def found(self, text: str, **given: Any) -> Answer | Command:
        """Answer a statement, or return its command on the session."""

    def whole(self, found: Answer) -> bytes:
        """All messages of an answer, the description of its columns first."""

    def told(self, command: Command) -> bytes:
        """Messages that a command has for the client."""

    def done(self, command: Command) -> bytes:
        """Last message of a command."""

    def notes(self, found: Answer) -> bytes:
        """Notices that carry an answer's notes."""


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
    """Extended query protocol: the prepared statements and portals of a session, and its cursors.

    A cursor of SQL is a portal that is declared by name; clients describe and close it as one.
    """

    def __init__(self, session: Conversation) -> None:
        self.session = session
        self.statements: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}
        self.cursors: dict[str, Cursor] = {}
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
        found: Answer | Command
        if named.kind == "P" and named.name in self.cursors:
            found, formats, said = self.cursors[named.name].found, self.cursors[named.name].asked.formats, b""
        elif named.kind == "P":
            portal = self._portal(named.name)
            found = await self._found(portal)
            formats = portal.formats
            said = b""
        else:
            prepared = self._statement(named.name)
            found = await self.session.found(prepared.text, types=prepared.types, values=None)
            formats = ()
            said = outgoing.parameter_types(found.parameters if isinstance(found, Answer) else ())
            prepared.known = found.columns if isinstance(found, Answer) and found.described else None
        if isinstance(found, Answer) and found.described:
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
        if not found.described:
            await session.send(session.whole(found))
            return
        rows, portal.at, count = found.part(portal.at, asked.most)
        more = portal.at < len(found.rows)
        await session.send(rows)
        await session.send(outgoing.SUSPENDED if more else notes + outgoing.complete(f"{found.tag} {count}"))

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
        whole += sum(len(one.found.rows) for one in self.cursors.values())
        if len(kept) >= MOST_PREPARED or (len(kept) > 1 and whole + size > MOST_KEPT_BY_SESSION):
            raise Failure(pg.TOO_LARGE, "too many statements or portals are kept", "close some, or end the transaction")

    async def _close(self, body: bytes) -> None:
        named = read_named(body)
        kept: dict[str, Any] = self.statements
        if named.kind == "P":
            kept = self.cursors if named.name in self.cursors else self.portals
        kept.pop(named.name, None)
        await self.session.send(outgoing.CLOSED)

    def declare(self, name: str, cursor: Cursor) -> None:
        """Keep a cursor."""
        if name in self.cursors or name in self.portals:
            raise Failure("42P03", "a cursor of this name is there already", "close it first, or take another name")
        self._refuse_too_many(self.cursors, len(cursor.found.rows))
        self.cursors[name] = cursor

    def cursor(self, name: str) -> Cursor:
        if name not in self.cursors:
            raise Failure(pg.NO_PORTAL, "there is no cursor of this name", "DECLARE it first, in the same transaction")
        return self.cursors[name]

    def close(self, name: str) -> None:
        """Drop a cursor, or all for an empty name."""
        if name:
            self.cursor(name)
        self.cursors = {other: one for other, one in self.cursors.items() if name and other != name}

    def end_transaction(self) -> None:
        """Drop portals, and cursors that were not declared to be held."""
        self.portals.clear()
        self.cursors = {name: one for name, one in self.cursors.items() if one.held}

    def _statement(self, name: str) -> Prepared:
        if name not in self.statements:
            raise Failure(pg.NO_STATEMENT, "no statement of this name is prepared", "prepare it first")
        return self.statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise Failure(pg.NO_PORTAL, "there is no portal of this name", "bind a statement first")
        return self.portals[name]
