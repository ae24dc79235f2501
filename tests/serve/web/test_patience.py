"""Clients that take too long lose their connection; the others do not notice."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest
import uvicorn
from exploring import desk_for
from waiting import PATIENCE

from sfumato.serve.web import requests as bodies
from sfumato.serve.web import serving as patience
from sfumato.serve.web.serving import explorer


@contextmanager
def listening(app):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen(16)
        config = uvicorn.Config(app, http=patience.Patient, ws="none", lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            yield door.getsockname()
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_head_that_never_ends_is_given_up(shelf, monkeypatch, sent):
    """The wait of the slow client has begun before the quick one comes, which has all the time that it needs."""
    wait, begun = patience.Patient._wait, threading.Event()

    def waits(client: patience.Patient) -> None:
        wait(client)
        begun.set()

    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(patience.Patient, "_wait", waits)
    with listening(explorer(shelf, desk_for(shelf))) as door, socket.create_connection(door) as slow:
        slow.sendall(sent)
        slow.settimeout(PATIENCE)
        assert begun.wait(PATIENCE)
        monkeypatch.setattr(patience, "HEAD_SECONDS", PATIENCE)
        with socket.create_connection(door) as quick:
            quick.sendall(b"GET /api/releases HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert quick.recv(15).startswith(b"HTTP/1.1 200")
        with suppress(ConnectionResetError):
            assert slow.recv(100) == b""


def test_a_body_that_never_ends_is_refused(shelf, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    lines = [
        "POST /api/releases/survey/query HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        "Content-Length: 99",
    ]
    head = ("\r\n".join(lines) + "\r\n\r\n{").encode()
    with listening(explorer(shelf, desk_for(shelf))) as door, socket.create_connection(door) as slow:
        slow.sendall(head)
        slow.settimeout(PATIENCE)
        said = slow.recv(4096)
        while b"what_to_do" not in said:
            said += slow.recv(4096)
        assert said.startswith(b"HTTP/1.1 503") and b"too_slow" in said
