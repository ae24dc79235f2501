"""How connections begin and end: malformed, huge, slow and too many first messages; encryption; giving up."""

from __future__ import annotations

import asyncio
from struct import pack

import pytest
from exploring import InProcess, desk_for, wire
from raw_wire import Raw, code, kinds
from waiting import wait_until

from sfumato.serve.pgwire import packets as frames
from sfumato.serve.pgwire import session as listening
from sfumato.serve.web.answering import Desk

COUNT = b"SELECT COUNT(*) AS n FROM survey\0"


def test_encryption_is_declined_and_the_connection_goes_on(pg_port):
    with Raw(pg_port, begin=False) as raw:
        for request in (80877103, 80877104):
            raw.start(request, b"")
            assert raw.exactly(1) == b"N"
        raw.start()
        told = raw.until(b"Z")
        assert kinds(told).strip(b"S") == b"R" + b"S" * (len(told) - 3) + b"KZ" and told[0][1] == bytes(4)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
        (b"\x16\x03\x01\x02\x00\x01", "08P01"),  # TLS without asking
        (pack("!ii", 8, 2 << 16), "08P01"),
        (pack("!i", 2**31 - 1), "08P01"),
        (pack("!i", -5), "08P01"),
        (pack("!iii", 12, 3 << 16, 0x61626364), "08P01"),
        (pack("!ii", 9, 3 << 16) + b"\0", "28000"),
        (pack("!ii", 8, 80877103) * 9, "08P01"),
    ],
)
def test_what_is_no_first_message_is_refused(pg_port, sent, expected):
    with Raw(pg_port, begin=False) as raw:
        raw.socket.sendall(sent)
        found = b"".join(iter(lambda: raw.exactly(1) or None, None)).lstrip(b"N")
        assert f"C{expected}".encode() in found and b"FATAL" in found


def test_a_newer_version_is_told_which_one_is_spoken(pg_port):
    with Raw(pg_port, begin=False) as raw:
        raw.start((3 << 16) + 2, b"user\0me\0_pq_.new\x001\0\0")
        assert raw.until(b"Z")[0] == (b"v", pack("!ii", 3 << 16, 1) + b"_pq_.new\0")


def test_huge_and_malformed_messages_end_the_connection(pg_port):
    for sent, expected in [
        (b"Q" + pack("!i", 2**20 + 1), "54000"),
        (b"Q" + pack("!i", 3), "08P01"),
        (b"\x00" + pack("!i", 4), "08P01"),
    ]:
        with Raw(pg_port) as raw:
            raw.socket.sendall(sent)
            assert code(raw.until(b"Z")) == expected and raw.exactly(1) == b""


def test_slow_clients_are_given_up_and_the_others_do_not_notice(shelf, monkeypatch):
    monkeypatch.setattr(listening, "STARTUP_SECONDS", 0.2)
    monkeypatch.setattr(frames, "MESSAGE_SECONDS", 0.2)
    monkeypatch.setattr(frames, "IDLE_SECONDS", 0.6)
    with wire(desk_for(shelf)) as port, Raw(port, begin=False) as silent, Raw(port) as halting, Raw(port) as idle:
        halting.socket.sendall(b"Q" + pack("!i", 100))
        assert code(silent.until(b"Z")) == "08P01"
        assert code(halting.until(b"Z")) == "08P01"
        with Raw(port) as quick:
            assert b"D" in kinds(quick.ask("SELECT COUNT(*) AS n FROM survey"))
        assert code(idle.until(b"Z")) == "57P05"


def test_too_many_clients_are_refused(shelf, monkeypatch):
    monkeypatch.setattr(listening, "MOST_SESSIONS", 1)
    with wire(desk_for(shelf)) as port, Raw(port), Raw(port, begin=False) as second:
        second.start()
        assert code(second.until(b"Z")) == "53300"


class Stuck(InProcess):
    """Answers nothing, until it does."""

    busy = True

    async def work(self, question):
        while self.busy:
            await asyncio.sleep(0.05)
        return await super().work(question)


def test_a_question_can_be_given_up(shelf):
    """And the connection can be used again."""
    solver = Stuck(shelf)
    with wire(Desk(solver)) as port, Raw(port) as raw:
        raw.send((b"Q", COUNT))
        for wrong in (raw.key[:4] + bytes(4), raw.key[:3], raw.key):  # the first two change nothing
            with Raw(port, begin=False) as other:
                other.start(80877102, wrong)
                assert other.exactly(1) == b""
        assert code(raw.until(b"Z")) == "57014"
        solver.busy = False
        assert b"D" in kinds(raw.ask("SELECT COUNT(*) AS n FROM survey WHERE age < 20"))


class Broken(InProcess):
    """Fails as nobody foresaw, by an error that also tells of connections that broke."""

    async def work(self, question):
        raise TimeoutError("a secret")


def test_an_error_of_ours_is_an_error_response_and_the_connection_goes_on(shelf, capsys):
    with wire(Desk(Broken(shelf))) as port, Raw(port) as raw:
        for _ in range(2):
            found = raw.ask("SELECT COUNT(*) AS n FROM survey")
            assert code(found) == "XX000" and kinds(found) == b"EZ"
        assert kinds(raw.ask("SHOW server_version")) == b"TDCZ"
    said = capsys.readouterr().err
    assert said.count("internal error: TimeoutError") == 2 and "secret" not in said


def test_work_for_a_client_that_left_is_stopped(shelf):
    solver = Stuck(shelf)
    desk = Desk(solver)
    with wire(desk) as port:
        with Raw(port) as raw:
            raw.send((b"Q", COUNT))
            wait_until(lambda: desk.under_way)
        wait_until(lambda: not desk.under_way)
