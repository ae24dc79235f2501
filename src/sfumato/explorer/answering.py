"""Questions answered one after the other by a few threads; answers are kept for whoever asks the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from typing import Any

from sfumato.explorer.bounds import ANSWER_SECONDS, MOST_KEPT_ANSWER, MOST_KEPT_BYTES, MOST_WAITING, WORKERS
from sfumato.explorer.refusals import Refusal
from sfumato.frozen import dataclass


@dataclass(eq=False)
class Kept:
    """Answers by question, the ones longest unused thrown away first."""

    most_bytes: int = MOST_KEPT_BYTES
    _found: OrderedDict[Hashable, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, key: Hashable) -> bytes | None:
        """The answer to a question that was asked before."""
        if (found := self._found.get(key)) is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: Hashable, answer: bytes) -> None:
        """Remember an answer, unless it is so long that many others would have to go."""
        if key in self._found or len(answer) > MOST_KEPT_ANSWER:
            return
        self._found[key] = answer
        self._bytes += len(answer)
        while self._bytes > self.most_bytes:
            _, gone = self._found.popitem(last=False)
            self._bytes -= len(gone)


@dataclass(eq=False)
class Desk:
    """Where questions are put. All but the work itself happens in the thread of the event loop.

    Who waits is woken by the thread that found the answer, in one turn of the loop: with hundreds of clients a turn is
    long, and every task in between would cost another.
    """

    kept: Kept = field(default_factory=Kept)
    workers: int = WORKERS
    _waiting: dict[Hashable, list[asyncio.Future[bytes]]] = field(default_factory=dict)
    _under_way: dict[Hashable, Future[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.workers, "sfumato-answers")

    async def answer(
        self, key: Hashable, work: Callable[[], bytes], gone: Coroutine[Any, Any, None] | None = None
    ) -> bytes:
        """What the work gives; it is done once for all who ask the same at the same time.

        gone: ends when the one who asks has left. Work that nobody waits for any more is not begun; what has begun
        is finished, for the next one may ask for it, and a thread cannot be stopped.
        """
        watching = asyncio.ensure_future(gone) if gone is not None else None
        try:
            if (found := self.kept.get(key)) is not None:
                return found
            mine = self._ask(key, work)
            if watching is not None:
                watching.add_done_callback(lambda _: _give_up(mine))
            return await self._patiently(key, mine)
        finally:
            if watching is not None:
                watching.cancel()

    def warm(self, work: Callable[[], bytes]) -> None:
        """Do some work for nobody, so that the first who asks does not wait for what is loaded and laid out once."""

        def quietly() -> None:
            with suppress(Exception):  # whoever asks for it will be told
                work()

        self._threads.submit(quietly)

    def _ask(self, key: Hashable, work: Callable[[], bytes]) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        if key not in self._waiting:
            if len(self._waiting) >= MOST_WAITING:
                raise Refusal("busy", "too many questions are waiting", "ask again in a few seconds")
            self._waiting[key] = []
            self._under_way[key] = self._threads.submit(self._work, loop, key, work)
        mine: asyncio.Future[bytes] = loop.create_future()
        self._waiting[key].append(mine)
        return mine

    async def _patiently(self, key: Hashable, mine: asyncio.Future[bytes]) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await mine
        except TimeoutError:
            raise Refusal("too_slow", "the answer takes too long", "ask for fewer groups, or again later") from None
        finally:
            waiting = self._waiting.get(key, [])
            if mine in waiting:  # not handed out: it took too long, or the client left
                waiting.remove(mine)
                if not waiting and self._under_way[key].cancel():
                    del self._waiting[key], self._under_way[key]

    def _work(self, loop: asyncio.AbstractEventLoop, key: Hashable, work: Callable[[], bytes]) -> None:
        """In a thread: find the answer, and have the loop hand it out."""
        found: bytes | Exception
        try:
            found = work()
        except Exception as error:
            found = error
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(self._hand_out, key, found)

    def _hand_out(self, key: Hashable, found: bytes | Exception) -> None:
        if isinstance(found, bytes):
            self.kept.put(key, found)
        del self._under_way[key]
        for one in self._waiting.pop(key, []):
            if one.done():  # given up
                continue
            if isinstance(found, bytes):
                one.set_result(found)
            else:
                one.set_exception(found)

    def close(self) -> None:
        """Take no more work, and do not wait for what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _give_up(mine: asyncio.Future[bytes]) -> None:
    if not mine.done():
        mine.set_exception(Refusal("too_slow", "the client left before the answer", "wait for it"))
