"""A server with kinds of questions that no text can ask: they never end, take all memory, or kill their process.

`python hostile_server.py LIMITS RELEASE...`: prints its address and its port for tools.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

from sfumato.serve.web.serving import one_thread_each

one_thread_each()

from sfumato.releases.release import open_release  # noqa: E402
from sfumato.serve.pgwire.asking import Asked  # noqa: E402
from sfumato.serve.web.answering import Question  # noqa: E402
from sfumato.serve.web.requests import Limits  # noqa: E402
from sfumato.serve.web.serving import serve  # noqa: E402
from sfumato.serve.web.working import WORKS, Room  # noqa: E402


def spin(_room: Room, question: Question) -> bytes:
    """Never end, and never let go of Python's lock. The body may name a file that is told which process does it."""
    if "file" in (told := json.loads(question.body or b"{}")):
        Path(told["file"]).write_text(str(os.getpid()))
    re.match(r"(a+)+$", "a" * 60 + "b")
    return b"{}"


def eat(_room: Room, _question: Question) -> bytes:
    """Take memory, piece by piece."""
    taken = []
    while True:
        taken.append(bytearray(2**20))


def gulp(_room: Room, _question: Question) -> bytes:
    """Take much of it at once."""
    import numpy as np

    return bytes(np.ones(2**32)[:1])


def end(_room: Room, _question: Question) -> bytes:
    os._exit(3)


def crash(_room: Room, _question: Question) -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(10)
    return b"{}"


def fail(_room: Room, question: Question) -> bytes:
    raise RuntimeError(f"a secret: {question.body!r}")


def work_hard(_room: Room, question: Question) -> bytes:
    """Use so much CPU, and tell which process did it and how much of a processor it is worth."""
    until = time.process_time() + json.loads(question.body)["seconds"]
    while time.process_time() < until:
        pass
    return json.dumps({"process": os.getpid(), "nice": os.getpriority(os.PRIO_PROCESS, 0)}).encode()


def wire(room: Room, question: Question) -> bytes:
    """What tools ask, and by the words of a comment what no text can ask."""
    text = Asked.unpacked(question.body).text
    for name, work in HOSTILE.items():
        if f"-- {name}" in text:
            return work(room, Question("wire", ""))
    return WORKS["wire"](room, question)


HOSTILE = {"spin": spin, "eat": eat, "gulp": gulp, "end": end, "crash": crash, "fail": fail, "work": work_hard}


if __name__ == "__main__":

    def ready(address: str, tools: int | None) -> None:
        print(address, tools, flush=True)

    serve(
        [(Path(path), open_release(path)) for path in sys.argv[2:]],
        host="127.0.0.1",
        port=0,
        pg_port=0,
        ready=ready,
        limits=Limits(**json.loads(sys.argv[1])),
        more=HOSTILE | {"wire": wire},
    )
