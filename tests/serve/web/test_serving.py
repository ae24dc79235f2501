"""The socket that the server listens on."""

from __future__ import annotations

import socket

import pytest

from sfumato.errors import SfumatoError
from sfumato.serve.web.serving import bind


def test_answers_are_sent_at_once():
    """asyncio switches Nagle's algorithm off for sockets that say that they speak TCP, and for no others."""
    with bind("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_host_that_is_not_here_is_refused():
    for host in ("no.such.host.invalid", "192.0.2.1"):
        with pytest.raises(SfumatoError, match=r"--host|--port"):
            bind(host, 0)
