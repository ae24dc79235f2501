"""A server with small releases for tests of the explorer: as an application, and as a process."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from waiting import PATIENCE

import sfumato as sf
from sfumato.serve.pgwire.session import Wire
from sfumato.serve.web.answering import Answered, Desk, Question, Solver
from sfumato.serve.web.requests import Shelf
from sfumato.serve.web.working import WORKS, Room, understood

HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=1">',
    "'; DROP TABLE t; --",
    '=HYPERLINK("x")',
    "\u202eevil\u202c",
    "\u05e9\u05dc\u05d5\u05dd",
    "{{7*7}}",
]
SURVEY = {
    "dataset": "survey",
    "privacy_unit": "row",
    "budget": {"epsilon": 100},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 99, "width": 10},
        "sex": {"type": "category", "values": ["F", "M"]},
        "region": {"type": "category", "values": ["North", "South", "East", "West"]},
        "paid": {"type": "number", "lower": 0, "upper": 1000, "bins": 4},
        "member": {"type": "boolean"},
    },
    "measures": {"hours": {"lower": 0, "upper": 60}},
}


def make_releases(folder: Path) -> list[Path]:
    """A survey, a table whose names and labels are out to do harm, and one with far more cells than can be laid out."""
    some = np.random.default_rng(5)
    rows = 3000
    sex = some.choice(["F", "M"], rows)
    table = pa.table(
        {
            "age": some.integers(0, 100, rows),
            "sex": sex,
            "region": some.choice(["North", "South", "East", "West"], rows, p=[0.5, 0.3, 0.15, 0.05]),
            "paid": some.random(rows) * 1000,
            "member": some.random(rows) < 0.3,
            "hours": np.where(sex == "F", 35.0, 40.0),
        }
    )
    harm = {
        "dataset": "harm",
        "privacy_unit": "row",
        "budget": {"epsilon": 100},
        "attributes": {
            "<b>place</b>": {"type": "category", "values": HOSTILE},
            'say "hi"': {"type": "category", "values": ["a<b", "&amp;"]},
        },
    }
    places = pa.table({"<b>place</b>": some.choice(HOSTILE, 500), 'say "hi"': some.choice(["a<b", "&amp;"], 500)})
    wide = {
        "dataset": "wide",
        "privacy_unit": "row",
        "budget": {"epsilon": 100, "delta": "1e-5"},
        "attributes": {name: {"type": "integer", "lower": 0, "upper": 999_999} for name in "xy"},
    }
    far = pa.table({"x": [1, 5, 5] * 100, "y": [2, 7, 7] * 100})
    made = []
    for source, schema, mechanism in ((table, SURVEY, "cells"), (places, harm, "cells"), (far, wide, "sparse-cells")):
        delta = {"delta": "1e-6"} if mechanism == "sparse-cells" else {}
        read = sf.Schema.from_dict(schema)
        one = sf.release(source, read, epsilon=5, mechanism=mechanism, ledger=folder / "ledger", **delta)
        made.append(one.save(folder / f"{read.dataset}.sfumato"))
    return made


class InProcess:
    """Works out answers in a thread of this process, where a test is not about processes."""

    def __init__(self, shelf: Shelf, *, looks_up: bool = False, works=WORKS) -> None:
        self.room = Room(shelf, works, looks_up=looks_up)

    def solve(self, question: Question, answered: Answered) -> Callable[[], None]:
        async def work() -> None:
            try:
                answered(await self.work(question))
            except Exception as error:
                answered(error)

        return asyncio.get_running_loop().create_task(work()).cancel

    async def work(self, question: Question) -> bytes:
        return understood(await asyncio.to_thread(self.room.reply, question))

    def close(self) -> None:
        pass


def desk_for(shelf: Shelf, **settings) -> Desk:
    """A desk without processes."""
    solver: Solver = InProcess(shelf, **settings)
    return Desk(solver)


def client_for(shelf: Shelf) -> Any:
    """A client of the explorer's application, without a server."""
    with warnings.catch_warnings():  # newer versions would rather have a successor of httpx
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    from sfumato.serve.web.requests import LOOPBACK
    from sfumato.serve.web.serving import explorer

    app = explorer(shelf, desk_for(shelf), hosts=LOOPBACK)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@contextmanager
def wire(desk: Desk) -> Iterator[int]:
    """A server of PostgreSQL's protocol in a thread, whose limits a test can set lower; gives its port."""
    loop, door = asyncio.new_event_loop(), socket.create_server(("127.0.0.1", 0))
    server = loop.run_until_complete(Wire(desk).listen(door))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end():
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield door.getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@contextmanager
def serving(paths: list[Path], *more: str) -> Iterator[str]:
    """The command as a process, for as long as the test needs it; gives its address, and its port for tools."""
    command = [sys.executable, "-m", "sfumato", "serve", *map(str, paths), "--no-open", "--port", "0", *more]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"}
    ) as run:
        try:
            assert run.stdout is not None
            address = run.stdout.readline().split()[0]
            yield f"{address} {run.stdout.readline().split()[4]}" if "--pg-port" in more else address
        finally:
            run.terminate()
            run.wait(PATIENCE)
