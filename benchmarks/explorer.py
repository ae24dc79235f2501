"""The explorer under load and in a browser. `python benchmarks/explorer.py [--seconds 60] [--clients 200]`

A release of a million cells is served as a user would serve it, by a process of its own. Clients ask as fast as they
get answers, without a pause, over connections that stay open. Most ask what somebody asked before, as people do who
look at the same page; a share (`--new`) asks what nobody asked, which the server has to work out. Server and clients
share the machine, so a busy one shows: the load average is printed, and what an answer costs the server in CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--new", type=float, default=0.02, help="share of questions that nobody asked before")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = _million_cells(Path(folder))
        command = [sys.executable, "-m", "sfumato", "serve", str(path), "--no-open", "--port", "0", "--pg-port", "0"]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            address, wire = server.stdout.readline().split()[0], int(server.stdout.readline().split()[4])
            print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            print(f"serving a million cells after {time.perf_counter() - began:.2f} s, {_megabytes(server.pid):.0f} MB")
            try:
                _browse(address)
                asyncio.run(_load(address, server.pid, given))
                asyncio.run(_wire(wire, given))
            finally:
                server.terminate()


def _million_cells(folder: Path) -> Path:
    some = np.random.default_rng(1)
    rows = {name: np.clip(some.normal(50, 15, 300_000), 0, 99).astype(int) for name in "xyz"}
    schema = sf.Schema.from_dict(SCHEMA)
    made = sf.release(pa.table(rows), schema, epsilon=1, mechanism="cells", ledger=folder / "ledger")
    return made.save(folder / "million.sfumato")


def _megabytes(process: int, what: str = "VmRSS") -> float:
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(what)), float("nan"))


def _cpu(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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


async def _load(address: str, process: int, given: argparse.Namespace) -> None:
    place = urlsplit(address)
    times: list[tuple[bool, float]] = []
    errors: list[str] = []
    fresh = iter(range(KNOWN, 10**9))

    async def client(number: int) -> None:
        some = random.Random(number)

        def questions() -> Iterator[tuple[bool, int]]:
            while time.perf_counter() < until:
                new = some.random() < given.new
                yield new, next(fresh) if new else some.randrange(KNOWN)

        await ask(questions())

    async def ask(questions: Iterator[tuple[bool, int]]) -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for new, question in questions:
            kind, body = _question(question)
            head = f"POST /api/releases/million/{kind} HTTP/1.1\r\nHost: {place.netloc}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            began = time.perf_counter()
            writer.write(head.encode() + body)
            status = await reader.readline()
            length = 0
            while (line := await reader.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            await reader.readexactly(length)
            times.append((new, time.perf_counter() - began))
            if b" 200 " not in status:
                errors.append(status.decode().strip())
        writer.close()

    began = time.perf_counter()
    await ask((True, number) for number in range(KNOWN))
    found = np.array([seconds for _, seconds in times]) * 1000
    whole = time.perf_counter() - began
    print(f"{KNOWN} questions for the first time, one by one: {whole:.1f} s, median {np.median(found):.0f} ms each")
    print(f"CPU of the server: {_cpu(process) / KNOWN * 1000:.1f} ms an answer, its start included")
    times.clear()
    until = time.perf_counter() + given.seconds
    before, spent = _megabytes(process), _cpu(process)
    print(f"{given.clients} clients for {given.seconds:g} s, {given.new:.0%} of questions new ...", flush=True)
    gone = await asyncio.gather(*(client(number) for number in range(given.clients)), return_exceptions=True)
    errors += [repr(one) for one in gone if one is not None]
    every = np.array([seconds for _, seconds in times]) * 1000
    new = np.array([seconds for is_new, seconds in times if is_new] or [np.nan]) * 1000
    print(
        f"{len(every):,} answers, {len(every) / given.seconds:,.0f} a second, {len(errors)} errors {set(errors) or ''}"
    )
    for name, some in (("all", every), ("never asked before", new)):
        p50, p99, worst = np.percentile(some, [50, 99, 100])
        print(f"{name}: median {p50:.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms")
    after, peak = _megabytes(process), _megabytes(process, "VmHWM")
    print(f"memory: {before:.0f} MB before, {after:.0f} MB after, {peak:.0f} MB peak")
    print(f"CPU of the server: {(_cpu(process) - spent) / max(1, len(every)) * 1000:.2f} ms an answer")


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
