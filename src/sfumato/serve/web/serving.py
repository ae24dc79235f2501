"""Run the server as a process: bind the sockets, announce the address, and serve until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.serve.web.bounds import Limits
from sfumato.version import install_command

if TYPE_CHECKING:
    from sfumato.releases.release import Release

LOOPBACK = ("127.0.0.1", "localhost", "::1")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each() -> None:
    """Have linear algebra run in one thread: answers are worked out by several processes already.

    To be called before NumPy is loaded. Threads would also count against the memory that a worker may have.
    """
    for name in THREADS:
        os.environ.setdefault(name, "1")


def serve(
    opened: Sequence[tuple[Path, Release]],
    *,
    host: str,
    port: int,
    pg_port: int | None = None,
    ready: Callable[[str, int | None], None] = lambda _address, _port: None,
    limits: Limits | None = None,
    more: Mapping[str, Any] | None = None,
    fork: bool = sys.platform == "linux",
) -> None:
    """Serve releases until the process is stopped.

    pg_port: where PostgreSQL's protocol is spoken; None: nowhere. ready: told the address, and that port, when requests
    are taken. more: kinds of questions besides, for tests (`working.Work`). fork: whether workers are forked.
    """
    uvicorn = _uvicorn()
    from sfumato.serve.web.answering import Desk, Question
    from sfumato.serve.web.app import KINDS, explorer
    from sfumato.serve.web.bounds import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS
    from sfumato.serve.web.pool import Pool
    from sfumato.serve.web.requests import LOOPBACK as NAMES
    from sfumato.serve.web.shelf import Shelf
    from sfumato.serve.web.timeouts import Announced, Patient
    from sfumato.serve.web.workers import source_of_workers
    from sfumato.serve.web.working import WORKS

    listening = bind(host, port)
    for_tools = None if pg_port is None else bind(host, pg_port, "--pg-port")
    others = [listening] if for_tools is None else [listening, for_tools]
    opened = Shelf.spread(opened)
    shelf, limits, works = Shelf.of(opened), limits or Limits(), WORKS | dict(more or {})
    source = source_of_workers(shelf, [path for path, _ in opened], works, limits, others=others, fork=fork)
    pool = Pool(source, limits)
    desk = Desk(pool, limits)
    kinds = KINDS | dict.fromkeys(more or (), "application/json")
    app = explorer(shelf, desk, hosts=NAMES if host in LOOPBACK else None, kinds=kinds)
    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=16 * 1024,
    )
    name = "localhost" if host == "localhost" else f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"

    async def begun() -> list[asyncio.Server]:
        pool.start(catalogue=for_tools is not None)
        for book in shelf.books[:1]:  # what a page asks for first is at hand when it does
            desk.prepare(Question("about", book.name))
        if for_tools is None:
            return []
        from sfumato.serve.pgwire.listening import Wire

        return [await Wire(desk).listen(for_tools)]

    server = Announced(
        config, begun, lambda: ready(address, None if for_tools is None else for_tools.getsockname()[1]), desk.close
    )
    source.lost = server.stop
    try:
        server.run(sockets=[listening])
    finally:
        desk.close()
    if server.stopped:
        raise SfumatoError("the process that answers are worked out from has ended; start the server again")


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """Bind a listening socket first, so that the address is known and a taken port refused before anything else."""
    taken = f"port {port} of {host} {{}}; name another with {option}, or {option} 0 for any"
    try:
        ((family, _, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise SfumatoError(f"there is no host {host} here; name an address of this machine with --host") from None
    # The protocol is said by name: of such sockets only does asyncio send small pieces at once, and head and body of an
    # answer are two, the second of which would wait 40 milliseconds for the client to acknowledge the first.
    listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except OSError as problem:
        listening.close()
        why = "is taken" if problem.errno == errno.EADDRINUSE else "cannot be listened on"
        raise SfumatoError(taken.format(why)) from None
    return listening


def open_browser(address: str) -> None:
    """Show the page, without waiting for the browser, which may be a program in this very terminal."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _uvicorn() -> Any:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ModuleNotFoundError:
        raise SfumatoError(
            f"the explorer needs a web server, which is not installed; run `{install_command('explorer')}`"
        ) from None
    return uvicorn
