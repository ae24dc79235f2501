"""Questions answered one after the other by a few threads; answers are kept for whoever asks the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sfumato.explorer.bounds import ANSWER_SECONDS, MOST_KEPT_ANSWER, MOST_KEPT_BYTES, MOST_WAITING, WORKERS
from sfumato.explorer.refusals import Refusal


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
    """Where questions are put. All but the work itself happens in the thread of the event loop."""

    kept: Kept = field(default_factory=Kept)
    workers: int = WORKERS
    _asked: dict[Hashable, asyncio.Future[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.workers, "sfumato-answers")

    async def answer(self, key: Hashable, work: Callable[[], bytes]) -> bytes:
        """What the work gives; it is done once for all who ask the same at the same time."""
        if (found := self.kept.get(key)) is not None:
            return found
        future = self._asked.get(key)
        if future is None:
            if len(self._asked) >= MOST_WAITING:
                raise Refusal("busy", "too many questions are waiting", "ask again in a few seconds")
            future = asyncio.ensure_future(self._work(key, work))
            self._asked[key] = future
        try:
            return await asyncio.wait_for(asyncio.shield(future), ANSWER_SECONDS)
        except TimeoutError:
            raise Refusal("too_slow", "the answer takes too long", "ask for fewer groups, or again later") from None

    async def _work(self, key: Hashable, work: Callable[[], bytes]) -> bytes:
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, work)
            self.kept.put(key, found)
            return found
        finally:
            del self._asked[key]

    def close(self) -> None:
        """Take no more work, and do not wait for what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)
