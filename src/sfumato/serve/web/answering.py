"""Questions and cached answers: equal questions are worked out once, and the answer kept for later clients."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import field
from functools import partial
from time import time
from typing import Any, NamedTuple, Protocol

from sfumato.frozen import dataclass
from sfumato.serve.web.requests import MOST_KEPT_ANSWER, MOST_KEPT_BYTES, MOST_WAITING, Limits, Refusal
from sfumato.sql.spellings import asks_clock

ENTRY_BYTES = 512  # of a kept answer besides its own: digest, links and what the allocator adds


class Question(NamedTuple):
    """Question of a client: its kind, the release it is about, and the bytes that the client sent."""

    kind: str
    name: str
    body: bytes = b""

    @property
    def key(self) -> bytes:
        """Digest under which the answer is cached: the text may be many times longer than its answer.

        A question that asks the clock is another one a minute later.
        """
        minute = int(time() / 60) if asks_clock(self.body.decode("utf-8", "replace")) else ""
        return hashlib.blake2b(self.packed() + f"{minute}".encode(), digest_size=20).digest()

    def packed(self) -> bytes:
        """Encode the question for a worker."""
        return f"{self.kind}\n{self.name}\n".encode() + self.body

    @classmethod
    def unpacked(cls, data: bytes) -> Question:
        kind, name, body = data.split(b"\n", 2)
        return cls(kind.decode(), name.decode(), body)


class Stopped(Refusal):
    """A refusal because a worker was killed or died of a question: asked again, it would cost another worker."""


Answered = Callable[[bytes | Exception], None]


class Solver(Protocol):
    """Interface of whatever works out answers: in a server, a pool of processes."""

    def solve(self, question: Question, answered: Answered) -> Callable[[], None]:
        """Start on a question; `answered` is called later. Returns a function that stops the work."""

    def close(self) -> None: ...


@dataclass(eq=False)
class Kept:
    """Cache of answers by the digest of their question; the least recently used are dropped first."""

    most_bytes: int = MOST_KEPT_BYTES
    by_key: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)
    size: int = 0

    def get(self, key: bytes) -> bytes | None:
        """Cached answer to a question."""
        if (found := self.by_key.get(key)) is not None:
            self.by_key.move_to_end(key)
        return found

    def put(self, key: bytes, answer: bytes) -> None:
        """Cache an answer, unless it is so long that many others would have to go."""
        if key in self.by_key or len(answer) > MOST_KEPT_ANSWER:
            return
        self.by_key[key] = answer
        self.size += len(answer) + ENTRY_BYTES
        while self.size > self.most_bytes:
            _, gone = self.by_key.popitem(last=False)
            self.size -= len(gone) + ENTRY_BYTES


@dataclass(eq=False)
class Desk:
    """Front of the pool: takes questions in the server's event loop, and works nothing out itself."""

    solver: Solver
    limits: Limits = field(default_factory=Limits)
    kept: Kept = field(default_factory=Kept)
    _waiting: dict[bytes, list[asyncio.Future[bytes]]] = field(default_factory=dict)
    under_way: dict[bytes, Callable[[], None]] = field(default_factory=dict)
    stopped: OrderedDict[bytes, tuple[float, Stopped]] = field(default_factory=OrderedDict)
    _closed: bool = False

    async def answer(self, question: Question, gone: Coroutine[Any, Any, None] | None = None) -> bytes:
        """Answer a question; clients that ask the same at the same time share the work.

        gone: ends when the one who asks has left. Work that nobody waits for any more is stopped.
        """
        key = question.key
        if (found := self.kept.get(key)) is not None:
            if gone is not None:
                gone.close()
            return found
        watching = asyncio.ensure_future(gone) if gone is not None else None
        try:
            mine = self._ask(key, question)
            if watching is not None:
                watching.add_done_callback(lambda _: _give_up(mine))
            try:
                return await mine
            finally:
                self._leave(key, mine)
        finally:
            if watching is not None:
                watching.cancel()

    def prepare(self, question: Question) -> None:
        """Answer a question ahead of time, so that the first client who asks it does not wait."""
        self._ask(question.key, question).add_done_callback(lambda done: done.cancelled() or done.exception())

    def _ask(self, key: bytes, question: Question) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        if key not in self._waiting:
            self._refuse_what_was_stopped(key, loop.time())
            if self._closed:
                raise _ending()
            if len(self._waiting) >= MOST_WAITING:
                raise Refusal("busy", "too many questions are waiting", "ask again in a few seconds")
            self._waiting[key] = []
            self.under_way[key] = self.solver.solve(question, partial(self._hand_out, key))
        mine: asyncio.Future[bytes] = loop.create_future()
        self._waiting[key].append(mine)
        return mine

    def _leave(self, key: bytes, mine: asyncio.Future[bytes]) -> None:
        """Remove a client that left before the answer was handed out; the last one to leave stops the work."""
        waiting = self._waiting.get(key, [])
        if mine in waiting:
            waiting.remove(mine)
            if not waiting:
                del self._waiting[key]
                self.under_way.pop(key)()

    def _hand_out(self, key: bytes, found: bytes | Exception) -> None:
        """Hand the answer to all who wait, in the same turn of the event loop."""
        self.under_way.pop(key, None)
        if isinstance(found, bytes):
            self.kept.put(key, found)
        if isinstance(found, Stopped):
            self.stopped[key] = asyncio.get_running_loop().time() + self.limits.remembered_seconds, found
            if len(self.stopped) > self.limits.most_remembered:
                self.stopped.popitem(last=False)
        for one in self._waiting.pop(key, []):
            if one.done():  # given up
                continue
            if isinstance(found, bytes):
                one.set_result(found)
            else:
                one.set_exception(found)

    def _refuse_what_was_stopped(self, key: bytes, now: float) -> None:
        """Refuse a question that was stopped before: sent again and again it would keep all workers busy."""
        until, refusal = self.stopped.get(key, (0.0, None))
        if refusal is not None and now < until:
            raise Stopped(refusal.kind, refusal.error, refusal.what_to_do)
        self.stopped.pop(key, None)

    def close(self) -> None:
        """Refuse all waiting questions and stop the running ones."""
        if self._closed:
            return
        self._closed = True
        for key, stop in list(self.under_way.items()):
            stop()
            self._hand_out(key, _ending())
        self.solver.close()


def _ending() -> Refusal:
    return Refusal("busy", "the server is ending", "ask again when it has been started anew")


def _give_up(mine: asyncio.Future[bytes]) -> None:
    if not mine.done():
        mine.set_exception(Refusal("too_slow", "the client left before the answer", "wait for it"))
