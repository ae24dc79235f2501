"""Worker processes that work out answers, and the nursery process that they are forked from.

A worker takes one question after the other from a pipe, and can be killed at any time. On Linux workers are forked from
a nursery: a process of one thread that has the releases open and has answered a question, so that a new worker is there
within milliseconds and shares its memory with all others. Elsewhere each is a Python of its own.

Nothing is unpickled: questions and answers are bytes, in frames that begin with their length.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

from pydantic import BaseModel

from sfumato.arrays import MOST_DENSE
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.serve.pgwire.asking import Asked, OfCatalogue, answer
from sfumato.serve.pgwire.catalogue.tables import Catalogue
from sfumato.serve.pgwire.protocol import Failure
from sfumato.serve.web import answers
from sfumato.serve.web.answering import Question
from sfumato.serve.web.questions import Chart, Compare, Query
from sfumato.serve.web.requests import Book, Limits, Refusal, Shelf, as_json, read_question, where

LENGTH = struct.Struct("!I")
ANSWER, REFUSAL, FAILURE, INTERNAL, CATALOGUE = b"A", b"R", b"F", b"E", b"C"  # what a reply begins with
NO_MEMORY = 71  # exit code of a worker that ran out of it
ANSWERS, CATALOGUES = "answers", "catalogue"  # what a worker is for
Work: TypeAlias = Callable[["Room", Question], bytes]


@dataclass(frozen=True, eq=False)
class Room:
    """Resources of a worker. works: functions by kind of question; looks_up: whether it has the system catalogue."""

    shelf: Shelf
    works: Mapping[str, Work]
    looks_up: bool = False

    @cached_property
    def catalogue(self) -> Catalogue | None:
        """System catalogue. DuckDB has threads, so it is made after the fork, only in workers that need it."""
        return Catalogue(self.shelf) if self.looks_up else None

    def reply(self, question: Question) -> bytes:
        """Answer a question: one letter for answer or refusal, then the bytes."""
        try:
            return ANSWER + self.works[question.kind](self, question)
        except OfCatalogue:
            return CATALOGUE
        except MemoryError:
            raise
        except Exception as error:
            return _refused(error, by_wire=question.kind == "wire")

    def warm(self) -> None:
        """Answer a question ahead of the fork, so that workers need not load and allocate what all of them share."""
        for book in self.shelf.books[:1]:
            with suppress(Exception):  # whoever asks for it will be told
                answers.chart(book, Chart.model_validate({"by": [book.release.domain.names[0]]}))


def _refused(error: Exception, *, by_wire: bool) -> bytes:
    if isinstance(error, SfumatoError):
        error = Failure.of(error) if by_wire else Refusal.of(error)
    if isinstance(error, Failure):
        return FAILURE + as_json([error.code, error.message, error.hint])
    if isinstance(error, Refusal):
        return REFUSAL + as_json([error.kind, error.error, error.what_to_do])
    return INTERNAL + where(error).encode()


def understood(reply: bytes) -> bytes:
    """Decode a reply: return the answer, or raise the refusal."""
    kind, body = reply[:1], reply[1:]
    if kind == FAILURE:
        raise Failure(*json.loads(body))
    if kind == REFUSAL:
        raise Refusal(*json.loads(body))
    if kind != ANSWER:
        print(f"sfumato: internal error: {printed(body)}", file=sys.stderr)  # noqa: T201
        raise Refusal("internal", "this went wrong on the server's side", "ask another way, and report it")
    return body


def printed(body: bytes) -> str:
    return body.decode(errors="replace")[:200]


def _of(kind: type[BaseModel], work: Callable[[Book, Any], bytes]) -> Work:
    return lambda room, question: work(room.shelf.find(question.name), read_question(question.body, kind))


WORKS: dict[str, Work] = {
    "about": lambda room, question: as_json(answers.describe_book(room.shelf.find(question.name))),
    "query": _of(Query, answers.query),
    "csv": _of(Query, answers.csv),
    "chart": _of(Chart, answers.chart),
    "compare": _of(Compare, answers.compare),
    "wire": lambda room, question: answer(room.shelf, room.catalogue, Asked.unpacked(question.body)),
}


# A worker.


def work(room: Room, take: BinaryIO, give: BinaryIO, limits: Limits) -> NoReturn:
    """Worker loop: answer questions until the pipe ends."""
    try:
        room.catalogue  # noqa: B018 (made before memory is limited)
        _limit_memory(limits, room.shelf)
        give.write(LENGTH.pack(0))  # ready
        give.flush()
        while (head := take.read(LENGTH.size)) != b"" and len(head) == LENGTH.size:
            question = Question.unpacked(take.read(*LENGTH.unpack(head)))
            _limit_processor(limits.answer_seconds)
            reply = room.reply(question)
            _limit_processor(0)
            give.write(LENGTH.pack(len(reply)) + reply)
            give.flush()
    except MemoryError:
        os._exit(NO_MEMORY)
    except OSError:  # nobody is there any more
        os._exit(0)
    os._exit(0)


def _limit_memory(limits: Limits, shelf: Shelf) -> None:
    """Limit the memory of this process; no limit where the system cannot tell what is used already."""
    try:
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except (ImportError, OSError):
        return
    cells = [book.release.domain.size for book in shelf if book.release.domain.size <= MOST_DENSE]
    most = held + limits.memory + limits.memory_per_cell * max(cells, default=0)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _limit_processor(seconds: float) -> None:
    """Limit CPU time: the system ends this process even while C code holds Python's lock."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


# Where workers come from: forked from a nursery,


class Nursery:
    """A warm process to fork workers from. Made while the server has one thread and no event loop yet.

    `control` takes b"B" + what a worker is for, and gives b"B" + its number, with a socket to talk to it; b"K" + a
    number kills a worker, and gives b"K" + its number and how it ended. No worker is waited for before that, so that
    its number cannot belong to another process meanwhile. When `control` closes, because the server ended in whatever
    way, all workers are killed.
    """

    def __init__(
        self, shelf: Shelf, works: Mapping[str, Work], limits: Limits, others: Iterable[socket.socket] = ()
    ) -> None:
        self.control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            try:
                for one in (self.control, *others):
                    one.close()
                _nurse(inside, shelf, works, limits)
            finally:
                os._exit(1)
        inside.close()

    def close(self) -> None:
        """End it, which ends all workers; they are gone when this returns. One that is busy loading is killed."""
        self.control.close()
        for _ in range(50):
            with suppress(ChildProcessError):
                if os.waitpid(self.process, os.WNOHANG)[0] == 0:
                    time.sleep(0.01)
                    continue
            return
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def _nurse(control: socket.socket, shelf: Shelf, works: Mapping[str, Work], limits: Limits) -> None:
    for one in (signal.SIGINT, signal.SIGTERM):  # meant for the server, which ends this process in its own time
        signal.signal(one, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    rooms = {ANSWERS: Room(shelf, works), CATALOGUES: Room(shelf, works, looks_up=True)}
    rooms[ANSWERS].warm()
    gc.collect()
    gc.freeze()  # the collector of a worker need not touch, and so copy, what it did not make
    children: set[int] = set()
    nursery, die_with_parent = os.getpid(), _death_by_parent()
    try:
        while asked := control.recv(64):
            if asked[:1] == b"B":
                theirs, mine = socket.socketpair()
                try:
                    child = os.fork()
                except OSError:  # no more processes, or no memory for one
                    control.send(b"N")
                    continue
                if child == 0:
                    try:
                        die_with_parent(nursery)
                        control.close()
                        theirs.close()
                        work(rooms[asked[1:].decode()], mine.makefile("rb"), mine.makefile("wb"), limits)
                    finally:
                        os._exit(1)
                mine.close()
                children.add(child)
                socket.send_fds(control, [b"B%d" % child], [theirs.fileno()])
                theirs.close()
            elif (child := int(asked[1:])) in children:
                children.discard(child)
                control.send(b"K%d %d" % (child, _killed(child)))
    finally:
        for end in (lambda child: os.kill(child, signal.SIGKILL), lambda child: os.waitpid(child, 0)):
            for child in children:
                with suppress(OSError):
                    end(child)
        os._exit(0)


def _death_by_parent() -> Callable[[int], None]:
    """Have the system kill this process when its parent ends in whatever way: a busy worker would not notice."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask(parent: int) -> None:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it has ended just before
            os._exit(0)

    return ask


def _killed(child: int) -> int:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# or started afresh.


# Command line that starts a worker afresh; its first frame says what to open.
COMMAND = (sys.executable, "-c", "from sfumato.serve.web.working import main; main()")


def what_to_open(shelf: Shelf, paths: Sequence[Path], room: str, limits: Limits) -> bytes:
    """First frame of a fresh worker. A digest ensures that it opens the bytes that the server has checked."""
    files = [
        (
            book.name,
            book.release.schema.dataset,
            str(path.resolve()),
            hashlib.sha256(path.read_bytes()).hexdigest(),
            list(book.maps),
        )
        for book, path in zip(shelf, paths, strict=True)
    ]
    told = as_json({"files": files, "room": room, "limits": vars(limits)})
    return LENGTH.pack(len(told)) + told


def main() -> NoReturn:
    """Run a worker as a process of its own."""
    from sfumato.releases.release import open_release

    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    take, give = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed by mistake is no answer
    told = json.loads(take.read(*LENGTH.unpack(take.read(LENGTH.size))))
    books = []
    for name, table, path, digest, maps in told["files"]:
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() != digest:
            sys.exit("sfumato: a release has changed since it was opened; start the server again")
        opened = [one for _, one in Shelf.spread([(Path(path), open_release(path, most_cells=2**62))])]
        release = opened[0] if len(opened) == 1 else next(one for one in opened if one.schema.dataset == table)
        books.append(Book(name, Path(path).name, release, dict.fromkeys(maps, b"")))
    room = Room(Shelf(tuple(books)), WORKS, looks_up=told["room"] == CATALOGUES)
    room.warm()
    work(room, take, give, Limits(**told["limits"]))
