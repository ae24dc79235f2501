"""Additions to uvicorn: a time limit for clients that send no request, and a signal when the server is ready."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.serve.web.bounds import HEAD_SECONDS


class Patient(H11Protocol):
    """HTTP protocol of uvicorn with a time limit for the head of a request; uvicorn itself waits for ever."""

    _given_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the clock when a client connects."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the clock only when a whole head has arrived."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif (self.cycle is None or self.cycle.response_complete) and self._given_up is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock when the client disconnects."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._given_up = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None

    def _give_up(self) -> None:
        self._given_up = None
        if not self.transport.is_closing():
            self.transport.abort()


class Announced(Server):
    """Server that tells when requests are taken and Ctrl-C is heard, and not a moment sooner.

    begun: what begins with it, and listens on other ports. ending: called before it waits for answers under way.
    """

    def __init__(
        self,
        config: Config,
        begun: Callable[[], Awaitable[list[asyncio.Server]]],
        ready: Callable[[], None],
        ending: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._begun, self._ready, self._ending = begun, ready, ending
        self._others: list[asyncio.Server] = []
        self.stopped = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets=sockets)
        self._others = await self._begun()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more requests."""
        for other in self._others:
            other.close()
        self._ending()
        await super().shutdown(sockets=sockets)

    def stop(self) -> None:
        """Stop the server because another part has ended."""
        self.stopped = self.should_exit = True
