"""The explorer under load, attacked and in a browser. `python benchmarks/explorer.py [--seconds 60] [--clients 200]`

A release of a million cells is served as a user would serve it, by a process of its own. Clients ask as fast as they
get answers, without a pause, over connections that stay open. Most ask what somebody asked before, as people do who
look at the same page; a share (`--new`) asks what nobody asked, which the server has to work out. Server and clients
share the machine, so a busy one shows: the load average is printed, and what an answer costs the server in CPU.

Then two of the clients are out to do harm (`--hostile`): each sends, in turn, statements that once took for ever, and
three questions that no statement can ask, which this server alone knows (`WALL`): one never ends and never lets go of
Python's lock, one takes all memory, one ends its process. Times are those of the others; memory is the sum over all
processes of the server, shared pages by their share (PSS). At last `--texts` different questions of 19 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

import sfumato as sf

SCHEMA = {
    "dataset": "million",
    "privacy_unit": "row",
    "budget": {"epsilon": 10},
    "attributes": {
        "x": {"type": "integer", "lower": 0, "upper": 99},
        "y": {"type": "integer", "lower": 0, "upper": 99},
        "z": {"type": "integer", "lower": 0, "upper": 99},
    },
}
# Each moves the slider: it is never at its end already.
KEYS = ("ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End", "ArrowLeft", "ArrowLeft", "ArrowLeft")
KNOWN = 500  # different questions that are asked again and again


LETTERS, LEVELS = "a" * 60, range(1, 24)
STATEMENTS = {
    "LIKE of a regex": f"SELECT COUNT(*) AS n FROM million WHERE '{LETTERS}' LIKE '{'%a' * 14}%b'",
    "CUBE of 28": f"SELECT COUNT(*) AS n FROM million GROUP BY CUBE({', '.join(['x'] * 28)})",
    "ROLLUP of 500": f"SELECT COUNT(*) AS n FROM million GROUP BY ROLLUP({', '.join(['x'] * 500)})",
    "WITH that doubles": "WITH c0 AS (SELECT x, COUNT(*) AS n FROM million GROUP BY x), "
    + ", ".join(f"c{k} AS (SELECT * FROM c{k - 1} UNION ALL SELECT * FROM c{k - 1})" for k in LEVELS)
    + " SELECT * FROM c23",
    "n + n in 20 levels": "SELECT n + n AS n FROM (" * 20 + "SELECT COUNT(*) AS n FROM million" + ")" * 20,
    "ORDER BY of 2,500": f"SELECT x, COUNT(*) AS n FROM million GROUP BY x ORDER BY {', '.join(['2'] * 2500)}",
    "HAVING IN of 3,000": "SELECT x, COUNT(*) AS n FROM million GROUP BY x HAVING COUNT(*) IN "
    + f"({', '.join(map(str, range(3000)))})",
}


def _spin(*_: object) -> bytes:
    re.match(r"(a+)+$", LETTERS + "b")
    return b"{}"


def _eat(*_: object) -> bytes:
    taken = []
    while True:
        taken.append(bytearray(2**20))


def _end(*_: object) -> bytes:
    os._exit(3)


WALL: dict[str, Callable[..., bytes]] = {"end": _end, "eat": _eat, "spin": _spin}
HARM = (*WALL, *STATEMENTS)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--new", type=float, default=0.02, help="share of questions that nobody asked before")
    options.add_argument("--hostile", type=int, default=2, help="clients of those that are out to do harm")
    options.add_argument("--texts", type=int, default=2_000, help="different questions of 19 KB")
    options.add_argument("--only", choices=["browse", "load", "hostile", "texts", "wire"])
    options.add_argument("--be-server", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.be_server is not None:
        _be_server(given.be_server)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = _million_cells(Path(folder))
        command = [sys.executable, __file__, "--be-server", str(path)]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            address, wire = server.stdout.readline().split()
            print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            print(f"serving a million cells after {time.perf_counter() - began:.2f} s, {_megabytes(server.pid):.0f} MB")
            sections = {
                "browse": lambda: _browse(address),
                "load": lambda: asyncio.run(_load(address, server.pid, given)),
                "hostile": lambda: asyncio.run(_hostile(address, server.pid, given)),
                "texts": lambda: asyncio.run(_texts(address, server.pid, given.texts)),
                "wire": lambda: asyncio.run(_wire(int(wire), given)),
            }
            try:
                for name, section in sections.items():
                    if given.only in (None, name):
                        section()
                _stop(address, server)
            finally:
                server.kill()


def _be_server(path: Path) -> None:
    """`sfumato serve`, with a few kinds of questions more."""
    from sfumato.releases.release import open_release
    from sfumato.serve.web.serving import serve

    def ready(address: str, tools: int | None) -> None:
        print(address, tools, flush=True)

    serve([(path, open_release(path))], host="127.0.0.1", port=0, pg_port=0, ready=ready, more=WALL)


def _million_cells(folder: Path) -> Path:
    some = np.random.default_rng(1)
    rows = {name: np.clip(some.normal(50, 15, 300_000), 0, 99).astype(int) for name in "xyz"}
    schema = sf.Schema.from_dict(SCHEMA)
    made = sf.release(pa.table(rows), schema, epsilon=1, mechanism="cells", ledger=folder / "ledger")
    return made.save(folder / "million.sfumato")


def _processes(server: int) -> list[int]:
    """A server and all that it has started."""
    found = [server]
    for parent in found:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    return found


def _megabytes(server: int) -> float:
    """Memory of a server and of all that it has started; what several share is counted once."""
    total = 0
    for process in _processes(server):
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def _cpu(server: int) -> float:
    """Seconds of CPU that a server and all that it has started have used, those that have ended among them."""
    total = 0
    for process in _processes(server):
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def _browse(address: str) -> None:
    """How long until the page can be used, and until a move of the slider is answered."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium here: the page is not timed")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for visit in ("first", "second"):
            page = browser.new_page()
            began = time.perf_counter()
            page.goto(address)
            page.wait_for_selector("#chart svg")
            print(f"{visit} visit: chart with error bars after {time.perf_counter() - began:.2f} s")
            for when, pause in (("at once", 0), ("after five seconds on the page", 5000)):
                page.wait_for_timeout(pause)
                moves = [1000 * _move(page, key) for key in KEYS]
                first, middle, worst = moves[0], sorted(moves)[len(moves) // 2], max(moves)
                shown = f"first {first:.0f} ms, median {middle:.0f} ms, worst {worst:.0f} ms"
                print(f"{visit} visit: moves of the slider {when}: {shown}")
            page.close()
        browser.close()


def _move(page: object, key: str) -> float:
    """From the key to the frame that shows the new confidence, measured in the page itself.

    The clock starts as the event enters the page, before any listener of the page's own: one that is called after them
    would start it when an answer that is at hand is drawn already.
    """
    page.focus("#confidence")
    page.evaluate(
        """() => {
          window.asked = window.drawn = null;
          window.addEventListener("input", () => { window.asked = performance.now(); }, {capture: true, once: true});
          new MutationObserver((_, one) => {
            one.disconnect();
            requestAnimationFrame(() => setTimeout(() => { window.drawn = performance.now(); }));
          }).observe(document.getElementById("figure"), {attributes: true, attributeFilter: ["data-confidence"]});
        }"""
    )
    page.keyboard.press(key)
    while page.evaluate("window.drawn === null"):
        page.wait_for_timeout(20)
    took = page.evaluate("(window.drawn - window.asked) / 1000")
    assert took > 0, took
    return took


def _question(number: int) -> tuple[str, bytes]:
    """One of endlessly many questions about the cube, always the same for the same number."""
    some = random.Random(number)
    low = {name: some.randrange(90) for name in "xyz"}
    where = [{"attribute": name, "first": low[name], "last": low[name] + some.randrange(1, 10)} for name in "xyz"]
    confidence = some.choice([0.5, 0.8, 0.9, 0.95, 0.99])
    if number % 4 == 0:
        return "chart", json.dumps({"by": ["x"], "where": where[1:], "confidence": confidence}).encode()
    if number % 4 == 1:
        return "chart", json.dumps({"by": ["x", "y"], "where": where, "confidence": confidence}).encode()
    sql = f"SELECT COUNT(*) AS n FROM million WHERE x >= {low['x']} AND y < {low['y'] + 10} AND z <> {low['z']}"
    return "query", json.dumps({"sql": sql, "confidence": confidence}).encode()


class Client:
    """A connection that stays open."""

    def __init__(self, address: str) -> None:
        self.place = urlsplit(address)

    async def connect(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection(self.place.hostname, self.place.port)
        return self

    async def ask(self, kind: str, body: bytes) -> tuple[str, float]:
        """The status of the answer, and how many seconds it took."""
        head = f"POST /api/releases/million/{kind} HTTP/1.1\r\nHost: {self.place.netloc}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        began = time.perf_counter()
        self.writer.write(head.encode() + body)
        status = await self.reader.readline()
        length = 0
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        said = await self.reader.readexactly(length)
        kind = "" if b" 200 " in status else json.loads(said)["kind"]
        return f"{status.decode().strip()[9:12]} {kind}".strip(), time.perf_counter() - began


class Times:
    """What clients saw: how long each answer took, and what was no answer."""

    def __init__(self) -> None:
        self.every: list[tuple[bool, float]] = []
        self.errors: list[str] = []

    def note(self, status: str, seconds: float, *, new: bool) -> None:
        self.every.append((new, seconds))
        if status != "200":
            self.errors.append(status)

    def show(self, seconds: float) -> None:
        every = np.array([took for _, took in self.every]) * 1000
        new = np.array([took for is_new, took in self.every if is_new] or [np.nan]) * 1000
        rate, errors = len(every) / seconds, f"{len(self.errors)} errors {set(self.errors) or ''}"
        print(f"{len(every):,} answers, {rate:,.0f} a second, {errors}")
        for name, some in (("all", every), ("never asked before", new)):
            p50, p99, worst = np.percentile(some, [50, 99, 100])
            print(f"{name}: median {p50:.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms")


@asynccontextmanager
async def _watched(server: int) -> AsyncIterator[None]:
    """Memory while something happens, looked at twice a second, and the CPU that it took."""
    before, spent, most = _megabytes(server), _cpu(server), 0.0

    async def look() -> None:
        nonlocal most
        while True:
            most = max(most, _megabytes(server))
            await asyncio.sleep(0.5)

    looking = asyncio.ensure_future(look())
    yield
    looking.cancel()
    after, many = _megabytes(server), len(_processes(server))
    print(
        f"memory of all processes (PSS): {before:.0f} MB before, {after:.0f} MB after ({many}), {most:.0f} MB at most"
    )
    print(f"CPU of all processes: {_cpu(server) - spent:.1f} s")


async def _clients(address: str, given: argparse.Namespace, count: int, fresh: Iterator[int]) -> Times:
    """So many clients that ask without a pause."""
    times, until = Times(), time.perf_counter() + given.seconds

    async def client(number: int) -> None:
        some, asking = random.Random(number), await Client(address).connect()
        while time.perf_counter() < until:
            new = some.random() < given.new
            times.note(*await asking.ask(*_question(next(fresh) if new else some.randrange(KNOWN))), new=new)
        asking.writer.close()

    gone = await asyncio.gather(*(client(number) for number in range(count)), return_exceptions=True)
    times.errors += [repr(one) for one in gone if one is not None]
    return times


async def _known(address: str) -> list[float]:
    """Ask what is asked again and again for the first time."""
    asking = await Client(address).connect()
    found = [await asking.ask(*_question(number)) for number in range(KNOWN)]
    assert {status for status, _ in found} == {"200"}
    return [seconds for _, seconds in found]


async def _load(address: str, server: int, given: argparse.Namespace) -> None:
    spent = _cpu(server)
    found = np.array(await _known(address)) * 1000
    print(f"{KNOWN} questions for the first time, one by one: median {np.median(found):.0f} ms each")
    print(f"CPU of the server: {(_cpu(server) - spent) / KNOWN * 1000:.1f} ms an answer")
    print(f"{given.clients} clients for {given.seconds:g} s, {given.new:.0%} of questions new ...", flush=True)
    async with _watched(server):
        times = await _clients(address, given, given.clients, iter(range(KNOWN, 10**9)))
    times.show(given.seconds)


async def _hostile(address: str, server: int, given: argparse.Namespace) -> None:
    """Some of the clients are out to do harm; the others are not to notice."""
    await _known(address)
    told: dict[str, list[str]] = {}

    async def harm(number: int) -> None:
        asking, turn = await Client(address).connect(), number * len(HARM) // given.hostile
        while True:
            name = HARM[turn % len(HARM)]
            turn += 1  # another text each time, for one that was stopped is refused at once when it is asked again
            asked = {"sql": f"{STATEMENTS[name]} -- {number} {turn}"} if name in STATEMENTS else [number, turn]
            kind = "query" if name in STATEMENTS else name
            told.setdefault(name, []).append((await asking.ask(kind, json.dumps(asked).encode()))[0])

    others = given.clients - given.hostile
    print(f"{others} clients and {given.hostile} hostile ones for {given.seconds:g} s ...", flush=True)
    async with _watched(server):
        harming = [asyncio.ensure_future(harm(number)) for number in range(given.hostile)]
        times = await _clients(address, given, others, iter(range(10**9, 2 * 10**9)))
        for one in harming:
            one.cancel()
        await asyncio.gather(*harming, return_exceptions=True)
    times.show(given.seconds)
    for name, statuses in told.items():
        print(f"  {name}: {', '.join(f'{statuses.count(one)} times {one}' for one in sorted(set(statuses)))}")


async def _texts(address: str, server: int, count: int) -> None:
    """Different questions of 19 KB: what is kept must not grow with them."""
    print(f"{count:,} different questions of 19 KB ...", flush=True)
    numbers, errors = iter(range(count)), []

    async def client() -> None:
        asking = await Client(address).connect()
        for number in numbers:
            sql = f"SELECT COUNT(*) AS n FROM million WHERE x < {1 + number % 99} /* {number:019000d} */"
            status, _ = await asking.ask("query", json.dumps({"sql": sql}).encode())
            errors.extend([] if status == "200" else [status])

    async with _watched(server):
        await asyncio.gather(*(client() for _ in range(4)))
    print(f"{len(errors)} errors {set(errors) or ''}")


def _stop(address: str, server: subprocess.Popen[str]) -> None:
    """How long the server takes to end while workers are busy with what never ends."""

    async def ask() -> None:
        asked = [(await Client(address).connect()).ask("spin", b"%d" % number) for number in range(4)]
        under_way = asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(2)
        began, every = time.perf_counter(), _processes(server.pid)
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.wait)
        took = time.perf_counter() - began
        left = [one for one in every if Path(f"/proc/{one}").exists()]
        print(f"ended {took:.2f} s after SIGTERM, of {len(every)} processes {len(left)} are left")
        under_way.cancel()

    asyncio.run(ask())


async def _wire(port: int, given: argparse.Namespace) -> None:
    """Questions by PostgreSQL's protocol that were asked before, for a sixth of the time."""
    seconds, clients = given.seconds / 6, min(given.clients, 190)
    times: list[float] = []
    errors: list[str] = []

    async def client(questions: Iterator[int]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack("!ii", 17, 3 << 16) + b"user\0me\0\0")
        await answered(reader)
        for number in questions:
            low, high = number % 90, 10 + number // 90
            text = f"SELECT COUNT(*) AS n FROM million WHERE x >= {low} AND y < {high}".encode() + b"\0"
            began = time.perf_counter()
            writer.write(b"Q" + struct.pack("!i", len(text) + 4) + text)
            await answered(reader)
            times.append(time.perf_counter() - began)
        writer.close()

    async def answered(reader: asyncio.StreamReader) -> None:
        kind = b""
        while kind != b"Z":
            kind, length = struct.unpack("!ci", await reader.readexactly(5))
            body = await reader.readexactly(length - 4)
            errors.extend([body.decode(errors="replace")] if kind == b"E" else [])

    def questions(number: int) -> Iterator[int]:
        some = random.Random(number)
        while time.perf_counter() < until:
            yield some.randrange(KNOWN)

    await client(iter(range(KNOWN)))
    times.clear()
    until = time.perf_counter() + seconds
    gone = await asyncio.gather(*(client(questions(number)) for number in range(clients)), return_exceptions=True)
    errors += [repr(one) for one in gone if one is not None]
    p50, p99 = np.percentile(np.array(times) * 1000, [50, 99])
    print(
        f"PostgreSQL's protocol, {clients} clients, {seconds:g} s: {len(times) / seconds:,.0f} answers a second, ",
        end="",
    )
    print(f"{len(errors)} errors {set(errors) or ''}, median {p50:.0f} ms, p99 {p99:.0f} ms")


if __name__ == "__main__":
    main()
