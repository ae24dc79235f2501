"""What stands around every request: its host, the headers of its answer, slow readers, and failures nobody foresaw."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.serve.web.bounds import SEND_SECONDS
from sfumato.serve.web.refusals import Refusal

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """The outermost layer. hosts: names under which the server may be called; None: any."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None = None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            async with asyncio.timeout(SEND_SECONDS):  # a client that does not read must not hold the answer for ever
                await send(message)

        try:
            if not self._called_by_name(scope):
                raise Refusal("wrong_host", "this server does not go by that name", "call it 127.0.0.1 or localhost")
            await self.app(scope, receive, guarded)
        except Refusal as refusal:
            await refusal.response()(scope, receive, guarded)
        except TimeoutError:
            return
        except Exception as error:
            print(f"sfumato: internal error: {where(error)}", file=sys.stderr)  # noqa: T201
            if not begun:
                failed = Refusal("internal", "this went wrong on the server's side", "ask another way, and report it")
                await failed.response()(scope, receive, guarded)

    def _called_by_name(self, scope: Scope) -> bool:
        """Against pages elsewhere whose name was made to lead here: their requests carry their own name."""
        if self.hosts is None:
            return True
        host = Headers(scope=scope).get("host", "")
        name = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        return name.lower() in self.hosts


def where(error: Exception) -> str:
    """Kind and place of an error that nobody foresaw, and no more, for its text is whatever a client sent."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}" if trace else "?"
    return f"{type(error).__name__} ({place})"
