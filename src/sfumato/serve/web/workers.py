"""Worker processes as the server sees them: started by forking or afresh, sent questions, and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from sfumato.serve.web.requests import Limits, Shelf
from sfumato.serve.web.working import ANSWERS, CATALOGUES, COMMAND, LENGTH, Nursery, Work, what_to_open


class Lost(Exception):
    """A worker has ended."""


class Worker:
    """One worker process, which answers one question after the other. replied: called with each reply; None: it ended.

    jobs: questions not answered yet, the first being worked on; spent: CPU seconds when it began; clock: its timer.
    """

    def __init__(self, process: int, write: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self.process, self._write, self._close = process, write, close
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.replied: Callable[[Worker, bytes | None], None] | None = None
        self.room, self.asked, self.lost = "", 0, False
        self.held: int | None = None  # bytes, when it was new
        self.jobs: deque[Any] = deque()
        self.spent: float | None = None
        self.clock: asyncio.TimerHandle | None = None
        self._data = bytearray()

    def ask(self, packed: bytes) -> None:
        """Send a question."""
        self.asked += 1
        self._write(LENGTH.pack(len(packed)) + packed)

    def feed(self, data: bytes) -> None:
        """Take bytes that the worker sent: that it is ready, and then replies."""
        self._data += data
        while len(self._data) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            reply = bytes(self._data[LENGTH.size : end])
            del self._data[:end]
            if not self.ready.done():
                self.ready.set_result(None)
            elif self.replied is not None and not self.lost:
                self.replied(self, reply)

    def fell(self) -> None:
        """Note that the worker has ended by itself."""
        if not self.lost:
            self.end()
            if self.replied is not None:
                self.replied(self, None)

    def end(self) -> None:
        """Stop listening to the worker."""
        self.lost = True
        self._close()
        if not self.ready.done():
            self.ready.set_exception(Lost())
            self.ready.exception()  # looked at, should nobody wait for it


class Forked:
    """Source of workers that the nursery forks."""

    lost: Callable[[], None] | None = None  # called when the nursery has ended, and there will be no more of them

    def __init__(self, nursery: Nursery) -> None:
        self.nursery = nursery
        self._told: deque[asyncio.Future[tuple[bytes, list[int]]]] = deque()
        self._listening = self._closed = False

    async def born(self, room: str) -> Worker:
        said, sockets = await self._request(b"B" + room.encode())
        if not sockets:
            raise Lost
        process, loop = int(said[1:]), asyncio.get_running_loop()
        try:
            transport, protocol = await loop.create_connection(_Pipe, sock=socket.socket(fileno=sockets[0]))
            worker = Worker(process, transport.write, transport.abort)
            protocol.worker = worker
            await worker.ready
        except BaseException:
            self._discard(process)
            raise
        return worker

    def kill(self, worker: Worker) -> None:
        with suppress(ProcessLookupError):  # here, should the nursery be busy; its number is its own until it is buried
            os.kill(worker.process, signal.SIGKILL)

    async def buried(self, worker: Worker) -> int | None:
        """Kill a worker; returns its exit code, negative for a signal; its own where it had ended by itself."""
        said, _ = await self._request(b"K%d" % worker.process)
        return int(said.split()[1])

    def _discard(self, process: int) -> None:
        """Kill a worker that was started but never handed out."""
        with suppress(Lost):
            self._request(b"K%d" % process)

    def _request(self, request: bytes) -> asyncio.Future[tuple[bytes, list[int]]]:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise Lost
        if not self._listening:
            self._listening = True
            self.nursery.control.setblocking(False)
            loop.add_reader(self.nursery.control, self._heard)
        try:
            self.nursery.control.send(request)
        except OSError:
            raise Lost from None
        answer: asyncio.Future[tuple[bytes, list[int]]] = loop.create_future()
        self._told.append(answer)
        return answer

    def _heard(self) -> None:
        try:
            said, sockets, _, _ = socket.recv_fds(self.nursery.control, 64, 1)
        except BlockingIOError:
            return
        except OSError:
            said, sockets = b"", []
        if not said:
            self._stop()
            if self.lost is not None:
                self.lost()
            return
        answer = self._told.popleft()
        if not answer.cancelled():
            answer.set_result((said, sockets))
        elif sockets:  # whoever wanted a worker has left
            os.close(sockets[0])
            self._discard(int(said[1:]))

    def _stop(self) -> None:
        self._closed = True
        if self._listening:
            with suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self.nursery.control)
        while self._told:
            if not (answer := self._told.popleft()).done():
                answer.set_exception(Lost())
                answer.exception()  # looked at, should nobody wait for it

    def close(self) -> None:
        self._stop()
        self.nursery.close()


class Spawned:
    """Source of workers that are started afresh, a second or two each, where forking is not reliable."""

    lost: Callable[[], None] | None = None

    def __init__(self, shelf: Shelf, paths: Sequence[Path], limits: Limits) -> None:
        self._first = {room: what_to_open(shelf, paths, room, limits) for room in (ANSWERS, CATALOGUES)}
        self.running: dict[int, tuple[asyncio.SubprocessTransport, _Process]] = {}

    async def born(self, room: str) -> Worker:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(_Process, *COMMAND, stderr=None)
        stdin: Any = transport.get_pipe_transport(0)

        def close() -> None:
            if not stdin.is_closing():  # asyncio closes it, too, when the process has ended, and not twice
                stdin.abort()

        worker = Worker(transport.get_pid(), stdin.write, close)
        protocol.worker = worker
        self.running[worker.process] = transport, protocol
        stdin.write(self._first[room])
        try:
            await worker.ready
        except BaseException:
            transport.close()
            del self.running[worker.process]
            raise
        return worker

    def kill(self, worker: Worker) -> None:
        with suppress(ProcessLookupError, KeyError):
            self.running[worker.process][0].kill()

    async def buried(self, worker: Worker) -> int | None:
        transport, protocol = self.running[worker.process]
        await protocol.ended.wait()
        del self.running[worker.process]
        transport.close()
        return transport.get_returncode()

    def close(self) -> None:
        for transport, _ in self.running.values():
            transport.close()  # which kills it


class _Pipe(asyncio.Protocol):
    """Reads a worker's messages from a socket."""

    worker: Worker | None = None

    def data_received(self, data: bytes) -> None:
        if self.worker is not None:
            self.worker.feed(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.worker is not None:
            self.worker.fell()


class _Process(asyncio.SubprocessProtocol):
    """Reads a worker's messages from its standard output."""

    worker: Worker | None = None

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if self.worker is not None and isinstance(data, bytes):
            self.worker.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if self.worker is not None:
            self.worker.fell()

    def process_exited(self) -> None:
        self.ended.set()
        if self.worker is not None:
            self.worker.fell()


Source: TypeAlias = Forked | Spawned


def source_of_workers(
    shelf: Shelf,
    paths: Sequence[Path],
    works: Mapping[str, Work],
    limits: Limits,
    *,
    others: Sequence[socket.socket] = (),
    fork: bool = sys.platform == "linux",
) -> Source:
    """Choose the source: forked workers where that is safe. others: sockets that they must not hold."""
    return Forked(Nursery(shelf, works, limits, others)) if fork else Spawned(shelf, paths, limits)


def processor_seconds(process: int) -> float | None:
    """CPU seconds that a process has used; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def held_bytes(process: int) -> int | None:
    """Writable memory of a process, where the system tells; what it shares with the nursery counts in full."""
    try:
        return int(Path(f"/proc/{process}/statm").read_bytes().split()[5]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return None
