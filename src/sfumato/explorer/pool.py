"""Who answers what, for how long, and what happens to a worker that does not end.

There are quick workers, which no question holds for longer than a moment of CPU. One that does takes its worker along
into the slow lane, as long as there is a place, and a new worker takes over; else it is stopped, and begins again when
a place is free. So questions that take for ever, of whoever asks them, cost the others next to nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from sfumato.explorer.answering import Question, Stopped
from sfumato.explorer.bounds import Limits
from sfumato.explorer.refusals import Refusal
from sfumato.explorer.workers import Lost, Source, Worker, held_bytes, processor_seconds
from sfumato.explorer.working import ANSWERS, CATALOGUE, CATALOGUES, NO_MEMORY, understood

SLOW_NICENESS = 10  # of slow workers: they have what others leave of the processors
MOST_WALL = 8  # times the CPU time that a quick question may take, on a machine that is busy with other things
LOOK_SECONDS = 0.2  # how often it is looked whether a slow question must make room
REMEDY = "ask for fewer groups or a shorter statement, or ask `sfumato query` on a machine of your own"


class Pool:
    """A few workers, and the questions that they work on."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source, self.limits = source, limits
        self._free: dict[str, asyncio.LifoQueue[Worker]] = {}
        self._workers: set[Worker] = set()
        self._slow = asyncio.Semaphore(limits.slow_workers)
        self._slow_waiting = 0
        self._chores: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, *, catalogue: bool) -> None:
        """Have workers ready before anybody asks."""
        self._lane(ANSWERS)
        if catalogue:
            self._lane(CATALOGUES)

    async def solve(self, question: Question) -> bytes:
        """The answer, unless it takes too long; whoever is cancelled while he waits has the work stopped."""
        packed = question.packed()
        until = asyncio.get_running_loop().time() + self.limits.answer_seconds
        try:
            async with asyncio.timeout_at(until + 2 * LOOK_SECONDS):
                reply = await self._quickly(ANSWERS, packed, until)
                if reply == CATALOGUE:
                    reply = await self._quickly(CATALOGUES, packed, until)
        except TimeoutError:
            raise Refusal("busy", "the server was too busy to answer in time", "ask again later") from None
        except Lost:
            raise Refusal("busy", "no process could be started to answer this", "ask again later") from None
        return understood(reply)

    def close(self) -> None:
        """Kill all workers."""
        self._closed = True
        for task in self._chores:
            task.cancel()
        for worker in self._workers:
            worker.end()
            self.source.kill(worker)
        self._workers.clear()
        self.source.close()

    async def _quickly(self, room: str, packed: bytes, until: float) -> bytes:
        free = self._lane(room)
        while (worker := await free.get()).lost:  # it died of nothing that was asked
            self._end(worker)
            self._chore(self._replace(room))
        reply, kept = worker.ask(packed), False
        try:
            if await self._in_no_time(worker, reply):
                found = reply.result()
                kept = not self._worn(worker)
                return found
        except Lost:
            raise await self._autopsy(worker) from None
        except BaseException:  # nobody waits for it any more
            self._end(worker)
            raise
        finally:
            if kept:
                free.put_nowait(worker)
            else:
                if reply.done():
                    self._end(worker)
                self._chore(self._replace(room))
        return await self._slowly(room, worker, reply, packed, until)

    async def _in_no_time(self, worker: Worker, reply: asyncio.Future[bytes]) -> bool:
        """Whether there is a reply within what a quick question may take."""
        seconds, loop = self.limits.quick_seconds, asyncio.get_running_loop()
        began, spent, wait = loop.time(), processor_seconds(worker.process), seconds
        while True:
            await asyncio.wait((reply,), timeout=wait)
            if reply.done():
                return True
            lasted, now = loop.time() - began, processor_seconds(worker.process)
            used = lasted if now is None or spent is None else now - spent
            if used >= seconds or lasted >= MOST_WALL * seconds:
                return False
            wait = max(0.05, seconds - used)

    async def _slowly(
        self, room: str, started: Worker, reply: asyncio.Future[bytes], packed: bytes, until: float
    ) -> bytes:
        """Go on in the slow lane, or begin again there when there is a place."""
        worker: Worker | None = started
        if self._slow.locked():
            self._end(started)
            worker = None
            await self._wait_for_place()
        else:
            await self._slow.acquire()
        try:
            if worker is None:
                worker = await self._born(room)
                reply = worker.ask(packed)
            with suppress(OSError, AttributeError):
                os.setpriority(os.PRIO_PROCESS, worker.process, SLOW_NICENESS)
            await self._as_long_as_it_may(reply, until)
            return reply.result()
        except Lost:
            if worker is None:
                raise
            raise await self._autopsy(worker) from None
        finally:
            self._slow.release()
            if worker is not None:
                self._end(worker)

    async def _wait_for_place(self) -> None:
        if self._slow_waiting >= self.limits.most_slow_waiting:
            raise Refusal("busy", "too many questions that take long are waiting", "ask again later")
        self._slow_waiting += 1
        try:
            await self._slow.acquire()
        finally:
            self._slow_waiting -= 1

    async def _as_long_as_it_may(self, reply: asyncio.Future[bytes], until: float) -> None:
        """A slow question has some seconds for certain; then it makes room if others wait, and at last in any case."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not reply.done():
            await asyncio.wait((reply,), timeout=min(LOOK_SECONDS, max(0.0, until - loop.time())))
            now = loop.time()
            if not reply.done() and (now >= until or (self._slow_waiting and now - began > self.limits.slow_seconds)):
                raise _too_slow()

    async def _born(self, room: str) -> Worker:
        worker = await self.source.born(room)
        self._workers.add(worker)
        return worker

    async def _replace(self, room: str) -> None:
        while not self._closed:
            try:
                self._free[room].put_nowait(await self._born(room))
            except Lost:
                await asyncio.sleep(1)
            else:
                return

    def _end(self, worker: Worker) -> None:
        """Kill a worker, and forget it."""
        if worker in self._workers:
            self._workers.discard(worker)
            worker.end()
            self.source.kill(worker)
            self._chore(self._bury(worker))

    async def _bury(self, worker: Worker) -> None:
        with suppress(Lost):
            await self.source.buried(worker)

    async def _autopsy(self, worker: Worker) -> Refusal:
        """What to tell whoever asked the question that a worker died of."""
        self._workers.discard(worker)
        code = await self.source.buried(worker)
        if code in (NO_MEMORY, -signal.SIGKILL):  # the system's own way with processes that take too much
            what = "working this out takes more memory than a question may have"
            return Stopped("too_large", what, REMEDY)
        if code == -getattr(signal, "SIGPROF", 0):
            return _too_slow()
        print(f"sfumato: internal error: a worker ended ({code})", file=sys.stderr)  # noqa: T201
        return Stopped("internal", "the process that worked this out has ended", "ask another way, and report it")

    def _worn(self, worker: Worker) -> bool:
        """Whether a worker is to be replaced: what it has loaded and laid out may grow with every question."""
        if worker.asked >= self.limits.worker_questions:
            return True
        now = held_bytes(worker.process)
        return now is not None and worker.held is not None and now - worker.held > self.limits.worker_growth

    def _lane(self, room: str) -> asyncio.LifoQueue[Worker]:
        """The quick workers of a room that are free."""
        if room not in self._free:
            self._free[room] = asyncio.LifoQueue()
            for _ in range(self.limits.quick_workers if room == ANSWERS else 1):
                self._chore(self._replace(room))
        return self._free[room]

    def _chore(self, chore: Coroutine[Any, Any, None]) -> None:
        """Do something besides."""
        if self._closed:
            chore.close()
            return
        task = asyncio.get_running_loop().create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


def _too_slow() -> Stopped:
    return Stopped("too_slow", "the answer takes too long", REMEDY)
