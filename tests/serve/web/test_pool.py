"""A question costs whoever asks it that question, and nobody else anything: the server as it runs, with questions that
never end, take all memory or kill their process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import hostile_server
import pytest
from raw_wire import Raw, code, kinds
from waiting import PATIENCE, wait_until

from sfumato.serve.web.answering import Question
from sfumato.serve.web.pool import Pool
from sfumato.serve.web.requests import Limits
from sfumato.serve.web.workers import Spawned

LIMITS = {"answer_seconds": 60, "quick_seconds": 0.1, "slow_seconds": 0.5}
COUNT = "SELECT COUNT(*) AS n FROM survey WHERE age < {}0"
linux = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")


class Server:
    """The server, and what is left of its processes."""

    def __init__(self, run: subprocess.Popen[str]) -> None:
        self.run = run
        self.address, port = run.stdout.readline().split()
        self.tools = int(port)

    def ask(self, kind: str, **body: object) -> tuple[int, dict[str, object]]:
        request = urllib.request.Request(
            f"{self.address}api/releases/survey/{kind}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            assert refused.headers["content-type"] == "application/json"
            return refused.code, json.load(refused)

    def described(self) -> bool:
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{self.address}api/releases/survey") as about:
            return bool(about.read())
        return False

    def processes(self) -> list[int]:
        """All that descend from the server, the nursery first."""
        found = [self.run.pid]
        for parent in found:
            with suppress(OSError):
                found += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        return found[1:]


@contextmanager
def hostile(releases, **limits):
    command = [sys.executable, hostile_server.__file__, json.dumps(LIMITS | limits), str(releases[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            server = Server(run)
            if "answer_seconds" not in limits:
                wait_until(server.described)  # so that nothing but what a test asks is under way
            yield server
        finally:
            run.kill()


@pytest.fixture(scope="module")
def server(releases):
    with hostile(releases) as found:
        yield found


@pytest.fixture(scope="module")
def impatient(releases):
    with hostile(releases, answer_seconds=3, quick_seconds=30) as found:
        numbers = iter(range(10_000))
        wait_until(lambda: found.ask("work", seconds=0, number=next(numbers))[0] == 200)
        yield found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def in_background(*calls) -> list[Thread]:
    threads = [Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def spinning(server, folder, count: int) -> list[int]:
    """Ask so many questions that never end, and wait until processes work on as many as can be."""
    files = [folder / f"{place}.pid" for place in range(count)]
    asked = [lambda file=file: suppressed(server, file) for file in files]
    in_background(*asked)
    wait_until(lambda: all(file.exists() and file.read_text() for file in files))
    return [int(file.read_text()) for file in files]


def suppressed(server, file) -> None:
    with suppress(OSError, ValueError):  # the server may end first
        server.ask("spin", file=str(file))


@pytest.mark.full
@linux
@pytest.mark.parametrize(
    ("kind", "status", "name", "said"),
    [
        ("spin", 503, "too_slow", "takes too long"),
        ("eat", 422, "too_large", "more memory"),
        ("gulp", 422, "too_large", "more memory"),
        ("end", 500, "internal", "has ended"),
        ("crash", 500, "internal", "has ended"),
        ("fail", 500, "internal", "server's side"),
    ],
)
def test_whoever_asks_too_much_is_refused_and_the_next_one_is_answered(server, impatient, kind, status, name, said):
    server = impatient if kind == "spin" else server  # on which no question is slow, so that both lanes have deadlines
    found, refusal = server.ask(kind)
    assert (found, refusal["kind"]) == (status, name) and said in refusal["error"] and refusal["what_to_do"]
    assert "secret" not in json.dumps(refusal)
    assert server.ask("query", sql=COUNT.format(len(kind)))[0] == 200
    with Raw(server.tools) as raw:
        found = raw.ask(f"SELECT 1 -- {kind}")
        expected = {"too_slow": "57014", "too_large": "54000", "internal": "XX000"}[name]
        assert code(found) == expected and kinds(found) == b"EZ"
        assert kinds(raw.ask("SELECT COUNT(*) AS n FROM survey")).startswith(b"TD")  # the same connection
        assert kinds(raw.ask("SELECT relname FROM pg_catalog.pg_class")).startswith(b"TD")


@linux
def test_others_are_answered_while_questions_never_end(releases, tmp_path):
    """More of them than there are workers; deadlines so far away that no place is freed by one."""
    with hostile(releases, slow_seconds=60) as server:
        spinning(server, tmp_path, 6)
        for place in range(1, 9):
            assert server.ask("query", sql=COUNT.format(place))[0] == 200
        with Raw(server.tools) as raw:
            assert kinds(raw.ask("SELECT COUNT(*) AS n FROM survey")).startswith(b"TD")
        nursery, *workers = server.processes()
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert sum(os.getpriority(os.PRIO_PROCESS, worker) > own for worker in workers) == 2 and len(workers) <= 5
        server.run.send_signal(signal.SIGTERM)
        server.run.wait(PATIENCE)
        assert not any(map(alive, (nursery, *workers)))


@linux
def test_a_slow_question_goes_on_with_less_of_the_processor_and_is_answered(server):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    status, slow = server.ask("work", seconds=0.2)
    _, quick = server.ask("work", seconds=0.0)
    assert status == 200 and quick["nice"] == own and slow["nice"] == min(own + 10, 19)


@linux
def test_a_slow_question_gets_a_place_after_those_that_never_end(server, tmp_path):
    """Whose own deadline is far away."""
    spinning(server, tmp_path, 4)
    assert server.ask("work", seconds=0.3)[0] == 200


@linux
def test_work_for_a_client_that_left_is_stopped(server, tmp_path):
    file = tmp_path / "pid"
    body = json.dumps({"file": str(file)}).encode()
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    head = "POST /api/releases/survey/spin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: file.exists() and file.read_text())
    wait_until(lambda: not alive(int(file.read_text())))


@linux
@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_server(releases, tmp_path, ended, ctrl_c):
    with hostile(releases) as server:
        workers = spinning(server, tmp_path, 2)
        every = {*server.processes(), *workers}  # the system may leave some out of its list
        assert len(every) >= 4 and all(map(alive, workers))
        server.run.send_signal(ended)
        server.run.wait(PATIENCE)
        wait_until(lambda: not any(map(alive, every)))


@linux
def test_a_server_that_can_have_no_more_workers_ends_and_says_so(releases):
    with hostile(releases) as server:
        nursery, *_ = server.processes()
        os.kill(nursery, signal.SIGKILL)
        _, said = server.run.communicate(timeout=PATIENCE)
        assert server.run.returncode == 1 and "start the server again" in said


@linux
def test_workers_that_have_grown_or_answered_enough_are_replaced(releases):
    with hostile(releases, worker_questions=3, quick_workers=1) as server:
        numbers = [server.ask("work", seconds=0, place=place)[1]["process"] for place in range(9)]
        assert len(set(numbers)) >= 3 and all(numbers.count(number) <= 3 for number in numbers)


def test_where_nothing_is_forked_workers_open_the_files_themselves(shelf, releases):
    limits = Limits(quick_workers=1, answer_seconds=120)
    sql = json.dumps({"sql": COUNT.format(3)}).encode()

    async def solve(pool: Pool) -> bytes:
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        pool.solve(Question("query", "survey", sql), found.set_result)
        return await found

    async def ask() -> list[bytes]:
        pool = Pool(Spawned(shelf, releases, limits), limits)
        try:
            first = await solve(pool)
            (worker,) = pool.workers
            os.kill(worker.process, signal.SIGKILL)  # which is noticed, and another one started
            while not worker.lost:
                await asyncio.sleep(0.01)
            return [first, await solve(pool)]
        finally:
            ended = [protocol.ended.wait() for _, protocol in pool.source.running.values()]
            pool.close()
            await asyncio.gather(*ended)

    first, second = asyncio.run(asyncio.wait_for(ask(), 100))
    assert first == second and json.loads(first)["rows"][0]["n"] > 0
