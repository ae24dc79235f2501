"""One connection: its settings, its transaction, its prepared statements, and what each message does.

What is worked out goes through the same desk as the questions of the JSON API, so the same limits hold, and answers
are kept for all.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from sfumato.serve.pgwire import packets as outgoing
from sfumato.serve.pgwire.asking import Asked
from sfumato.serve.pgwire.catalogue.database import Who
from sfumato.serve.pgwire.commands import Command, read_command
from sfumato.serve.pgwire.decoding import Answer, pack_answer, spread
from sfumato.serve.pgwire.encoding import TEXT
from sfumato.serve.pgwire.extended import Extended
from sfumato.serve.pgwire.failures import (
    CANCELLED,
    FAILED_TRANSACTION,
    INTERNAL,
    TOO_LARGE,
    UNSUPPORTED,
    Failure,
    malformed,
)
from sfumato.serve.pgwire.packets import read_query
from sfumato.serve.pgwire.settings import TOLD, Settings
from sfumato.serve.web.answering import Desk, Question
from sfumato.serve.web.bounds import MOST_BODY
from sfumato.serve.web.http.guards import where
from sfumato.serve.web.refusals import Refusal
from sfumato.sql import read_workload

MOST_STATEMENTS = 100  # in one message
Send = Callable[[bytes], Awaitable[None]]
Gone = Callable[[], Coroutine[Any, Any, None]]


class Session:
    """The state of one connection. send: hands bytes to the client, and waits where it does not take them. gone: ends
    when the client has left.
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
            self.extended.synchronise()
            await self.send(outgoing.ready(self.status))
            return True
        if kind in (b"H", b"d", b"c", b"f") or (self.skipping and kind != b"Q"):
            return True
        try:
            if kind == b"Q":
                self.skipping = False
                await self._simple(read_query(body))
            elif kind == b"F":
                raise Failure(UNSUPPORTED, "functions are not called by messages", "write SELECT")
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
        if failure.code == INTERNAL and not isinstance(error, Failure | Refusal):  # the desk tells of its own
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
        if failure.fatal:
            raise failure
        self.status = "E" if self.status == "T" else self.status
        await self.send(outgoing.error(failure))

    async def _simple(self, text: str) -> None:
        """A text of one statement or several; the first that fails ends it."""
        statements = self.statements(text)
        if len(statements) > MOST_STATEMENTS:
            raise Failure(TOO_LARGE, f"a text has at most {MOST_STATEMENTS} statements", "ask in parts")
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
        """The statements of a text."""
        if len(text) > MOST_BODY:
            raise Failure(TOO_LARGE, f"a question has at most {MOST_BODY:,} characters", "ask in parts")
        return read_workload(text)

    async def found(self, text: str, **given: object) -> Answer | Command:
        """The answer to a statement, or what it does to the session. given: as `Asked` has it."""
        command = read_command(text)
        if self.status == "E" and (command is None or command.kind not in ("end", "undo", "recover")):
            raise Failure(FAILED_TRANSACTION, "an earlier statement of this transaction has failed", "ROLLBACK")
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
            raise Failure(CANCELLED, "the question was given up, as was asked for", "ask again") from None
        finally:
            self.working = None

    async def _worked(self, asked: Asked) -> Answer:
        try:
            return Answer.unpacked(await self.desk.answer(Question("wire", "", asked.packed()), self.gone()))
        except OSError as error:  # of ours, and no connection of a client's that broke
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
            raise Failure.of(error) from None

    def cancel(self) -> None:
        """Give up what is being worked out."""
        if self.working is not None:
            self.working.cancel()

    def _shown(self, name: str) -> Answer:
        if name.lower() == "all":
            columns, rows = (
                [(one, TEXT) for one in ("name", "setting")],
                [list(pair) for pair in self.settings.all().items()],
            )
        else:
            columns, rows = [(name, TEXT)], [[self.settings.get(name)]]
        return Answer.unpacked(pack_answer(columns, rows))

    def told(self, command: Command) -> bytes:
        """Do what a statement about the session says; what the client wants to know of it."""
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
        """That it is done."""
        return outgoing.EMPTY if command.kind == "empty" else outgoing.complete(command.tag)

    def notes(self, found: Answer) -> bytes:
        """What a reader of an answer should know."""
        return b"" if self.settings.quiet else b"".join(map(outgoing.notice, found.notes))

    def greeting(self) -> bytes:
        """The settings that clients are told of at the beginning."""
        said = b"".join(outgoing.parameter(name, self.settings.get(name)) for name in TOLD)
        return said + outgoing.parameter("session_authorization", self.who.user)
