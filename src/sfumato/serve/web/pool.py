"""Pool of worker processes with a quick and a slow lane: scheduling, time limits, and replacement of workers.

No question holds a quick worker for longer than a moment of CPU. One that takes more keeps its worker and moves with it
into the slow lane, as long as there is a place; else it is stopped, and begins again when a place is free. So endless
questions cost other clients next to nothing. Quick questions are handed on by callbacks, and ahead of time, because
with hundreds of clients a turn of the event loop is long.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from sfumato.serve.web.answering import Answered, Question, Stopped
from sfumato.serve.web.requests import Limits, Refusal
from sfumato.serve.web.workers import Lost, Source, Worker, held_bytes, processor_seconds
from sfumato.serve.web.working import ANSWERS, CATALOGUE, CATALOGUES, NO_MEMORY, understood

AHEAD = 3  # questions that a worker has at a time, the one that it works on among them
SLOW_NICENESS = 10  # of slow workers: they have what others leave of the processors
LOOK_SECONDS = 0.2  # how often it is looked whether a slow question must make room
REMEDY = "ask for fewer groups or a shorter statement, or ask `sfumato query` on a machine of your own"


class Job:
    """A question under way: it waits in a lane, is with a worker, or has a task in the slow lane."""

    def __init__(self, packed: bytes, answered: Answered) -> None:
        self.packed, self.answered = packed, answered
        self.room, self.over, self.suspected = ANSWERS, False, False
        self.worker: Worker | None = None
        self.task: asyncio.Task[None] | None = None
        self.deadline: asyncio.TimerHandle | None = None

    def finish(self, found: bytes | Exception) -> None:
        """Hand out the answer or the refusal."""
        if not self.over:
            self.forget()
            self.answered(found)

    def forget(self) -> None:
        """Drop the job: nobody waits for it any more."""
        self.over = True
        if self.deadline is not None:
            self.deadline.cancel()


class Lane:
    """Quick workers with the same resources (`working.Room`), and the questions that wait for one."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.waiting: deque[Job] = deque()

    def free(self) -> Worker | None:
        """Least loaded worker, if it may have more questions."""
        least = min(self.workers, key=lambda worker: len(worker.jobs), default=None)
        return least if least is not None and len(least.jobs) < AHEAD else None


class Pool:
    """Pool of workers and the questions that they work on."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source, self.limits = source, limits
        self._lanes: dict[str, Lane] = {}
        self.workers: set[Worker] = set()
        self._slow = asyncio.Semaphore(limits.slow_workers)
        self._slow_waiting = 0
        self._chores: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, *, catalogue: bool) -> None:
        """Start workers before anybody asks."""
        self._lane(ANSWERS)
        if catalogue:
            self._lane(CATALOGUES)

    def solve(self, question: Question, answered: Answered) -> Callable[[], None]:
        """Answer a question, or refuse it if it takes too long. Returns a function that stops it."""
        job = Job(question.packed(), answered)
        job.deadline = asyncio.get_running_loop().call_later(self.limits.answer_seconds, self._expire, job)
        self._dispatch(job)
        return lambda: self._stop(job)

    def close(self) -> None:
        """Kill all workers."""
        self._closed = True
        for task in self._chores:
            task.cancel()
        for worker in self.workers:
            worker.end()
            self.source.kill(worker)
        self.workers.clear()
        self.source.close()

    # The quick lane.

    def _lane(self, room: str) -> Lane:
        if room not in self._lanes:
            self._lanes[room] = Lane()
            for _ in range(self.limits.quick_workers if room == ANSWERS else 1):
                self._chore(self._replace(room))
        return self._lanes[room]

    def _dispatch(self, job: Job) -> None:
        lane = self._lane(job.room)
        lane.waiting.append(job)
        self._hand_on(lane)

    def _hand_on(self, lane: Lane) -> None:
        """Give waiting questions to workers that may have more."""
        while lane.waiting and (worker := lane.free()) is not None:
            job = lane.waiting.popleft()
            if job.over:
                continue
            job.worker = worker
            worker.jobs.append(job)
            if len(worker.jobs) == 1:
                self._begin(worker)
            worker.ask(job.packed)

    def _begin(self, worker: Worker) -> None:
        """Start the clock of the question that a worker begins with now."""
        worker.spent = processor_seconds(worker.process)
        worker.clock = asyncio.get_running_loop().call_later(
            self.limits.quick_seconds, self._look, worker, self.limits.quick_seconds
        )

    def _look(self, worker: Worker, lasted: float, *, again: bool = False) -> None:
        """Move a question to the slow lane once it exceeds the quick limit: of CPU time, where that is known.

        again: replies that came while the loop was busy are read by now.
        """
        now, loop = processor_seconds(worker.process), asyncio.get_running_loop()
        left = self.limits.quick_seconds - (lasted if now is None or worker.spent is None else now - worker.spent)
        if left > 0:
            wait = max(0.05, left)
            worker.clock = loop.call_later(wait, self._look, worker, lasted + wait)
            return
        if not again:
            worker.clock = loop.call_later(0, partial(self._look, worker, lasted, again=True))
            return
        job, reply = self._detached(worker), asyncio.get_running_loop().create_future()
        worker.replied = _settling(reply)
        job.task = self._chore(self._slowly(job, worker, reply))

    def _replied(self, worker: Worker, reply: bytes | None) -> None:
        """Take a quick worker's answer to its first question; None: the worker has ended."""
        if reply is None:
            if len(worker.jobs) > 1 and not worker.jobs[0].suspected:
                # Its answer may have been lost with the pipe, and the next question have ended the worker.
                worker.jobs[0].suspected = True
                self._retire(worker)
            elif worker.jobs:
                job = self._detached(worker)
                job.task = self._chore(self._autopsy(job, worker))
            else:
                self._retire(worker)
            return
        if worker.clock is not None:
            worker.clock.cancel()
        job = worker.jobs.popleft()
        job.worker = None
        if worker.jobs:
            self._begin(worker)
        if not job.over:
            self._understand(job, reply)
        if self._worn(worker):
            self._retire(worker)
        elif (lane := self._lanes[worker.room]).waiting:
            self._hand_on(lane)

    def _understand(self, job: Job, reply: bytes) -> None:
        if reply == CATALOGUE and job.room == ANSWERS:
            job.room = CATALOGUES
            self._dispatch(job)
            return
        try:
            job.finish(understood(reply))
        except Exception as refusal:
            job.finish(refusal)

    def _detached(self, worker: Worker) -> Job:
        """Detach a worker with the question it works on; its other questions go back to the lane."""
        if worker.clock is not None:
            worker.clock.cancel()
        job: Job = worker.jobs.popleft()
        lane = self._lanes[worker.room]
        lane.workers.remove(worker)
        while worker.jobs:
            other = worker.jobs.pop()
            other.worker = None
            lane.waiting.appendleft(other)
        self._chore(self._replace(worker.room))
        self._hand_on(lane)
        return job

    def _retire(self, worker: Worker) -> None:
        """Replace a worker that has done enough, or that ended through no question's fault."""
        lane = self._lanes[worker.room]
        if worker.jobs:
            job = self._detached(worker)
            job.worker = None
            lane.waiting.appendleft(job)
            self._hand_on(lane)
        else:
            lane.workers.remove(worker)
            self._chore(self._replace(worker.room))
        self._end(worker)

    def _stop(self, job: Job) -> None:
        """Stop a question that nobody waits for any more."""
        if job.over:
            return
        job.forget()
        if job.task is not None:
            job.task.cancel()
            if job.worker is not None:
                self._end(job.worker)
        elif (worker := job.worker) is not None and worker.jobs[0] is job:
            self._detached(worker)
            self._end(worker)

    def _expire(self, job: Job) -> None:
        """Refuse a question whose time is over."""
        working = job.worker is not None and (job.task is not None or job.worker.jobs[0] is job)
        refusal = _too_slow() if working else Refusal("busy", "the server was too busy to answer", "ask again later")
        self._stop(job)
        job.answered(refusal)

    # The slow lane.

    async def _slowly(self, job: Job, started: Worker, reply: asyncio.Future[bytes | None]) -> None:
        """Continue in the slow lane, or begin again there when there is a place."""
        worker: Worker | None = started
        if self._slow.locked():
            self._end(started)
            job.worker = worker = None
            if self._slow_waiting >= self.limits.most_slow_waiting:
                job.finish(Refusal("busy", "too many questions that take long are waiting", "ask again later"))
                return
            self._slow_waiting += 1
            try:
                await self._slow.acquire()
            finally:
                self._slow_waiting -= 1
        else:
            await self._slow.acquire()
        try:
            if worker is None:
                reply = asyncio.get_running_loop().create_future()
                job.worker = worker = await self._born(job.room)
                worker.replied = _settling(reply)
                worker.ask(job.packed)
            with suppress(OSError, AttributeError):
                own = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, worker.process, own + SLOW_NICENESS)
            said = await self._as_long_as_it_may(reply)
            if said is None:
                await self._autopsy(job, worker)
            else:
                self._understand(job, said)
        except Stopped as refusal:
            job.finish(refusal)
        except Lost:
            job.finish(Refusal("busy", "no process could be started to answer this", "ask again later"))
        finally:
            self._slow.release()
            if worker is not None:
                self._end(worker)

    async def _as_long_as_it_may(self, reply: asyncio.Future[bytes | None]) -> bytes | None:
        """Wait for the reply to a slow question; after `slow_seconds` it is refused as soon as others wait."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not reply.done():
            await asyncio.wait((reply,), timeout=LOOK_SECONDS)
            if not reply.done() and self._slow_waiting and loop.time() - began > self.limits.slow_seconds:
                raise _too_slow()
        return reply.result()

    # Workers come and go.

    async def _born(self, room: str) -> Worker:
        worker = await self.source.born(room)
        worker.room, worker.held = room, held_bytes(worker.process)
        self.workers.add(worker)
        return worker

    async def _replace(self, room: str) -> None:
        """Add a new worker to a quick lane."""
        while not self._closed:
            try:
                worker = await self._born(room)
            except Lost:
                await asyncio.sleep(1)
                continue
            worker.replied = self._replied
            self._lanes[room].workers.append(worker)
            self._hand_on(self._lanes[room])
            return

    def _end(self, worker: Worker) -> None:
        """Kill a worker, and forget it."""
        if worker in self.workers:
            self.workers.discard(worker)
            worker.end()
            self.source.kill(worker)
            self._chore(self._buried(worker))

    async def _buried(self, worker: Worker) -> int | None:
        """Exit code of a worker; None where nobody knows it."""
        with suppress(Lost):
            return await self.source.buried(worker)
        return None

    async def _autopsy(self, job: Job, worker: Worker) -> None:
        """Refuse the question that a worker died of, with the reason."""
        self.workers.discard(worker)
        worker.end()
        code = await self._buried(worker)
        if code in (NO_MEMORY, -signal.SIGKILL):  # the latter is the system's way with processes that take too much
            job.finish(Stopped("too_large", "working this out takes more memory than a question may have", REMEDY))
        elif code == -getattr(signal, "SIGPROF", 0):
            job.finish(_too_slow())
        else:
            print(f"sfumato: internal error: a worker ended ({code})", file=sys.stderr)  # noqa: T201
            said = "the process that worked this out has ended"
            job.finish(Stopped("internal", said, "ask another way, and report it"))

    def _worn(self, worker: Worker) -> bool:
        """Decide whether to replace a worker: its memory may grow with every question."""
        if worker.asked >= self.limits.worker_questions:
            return True
        now = held_bytes(worker.process)
        return now is not None and worker.held is not None and now - worker.held > self.limits.worker_growth

    def _chore(self, chore: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a background task."""
        task = asyncio.get_running_loop().create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        if self._closed:
            task.cancel()
        return task


def _settling(reply: asyncio.Future[bytes | None]) -> Callable[[Worker, bytes | None], None]:
    def settle(_: Worker, said: bytes | None) -> None:
        if not reply.done():
            reply.set_result(said)

    return settle


def _too_slow() -> Stopped:
    return Stopped("too_slow", "the answer takes too long", REMEDY)
