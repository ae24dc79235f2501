"""The server as a process: a socket, a line that says where, perhaps a browser, and then requests until Ctrl-C."""

from __future__ import annotations

import errno
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.releases.release import Release

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SWITCH_SECONDS = 0.0005  # a thread that works out an answer makes room so often for those who send and receive


def serve(
    opened: Sequence[tuple[Path, Release]],
    *,
    host: str,
    port: int,
    pg_port: int | None = None,
    ready: Callable[[str, int | None], None] = lambda _address, _port: None,
) -> None:
    """Serve releases until the process is stopped.

    pg_port: where PostgreSQL's protocol is spoken; None: nowhere. ready: told the address, and that port, when requests
    are taken.
    """
    uvicorn = _uvicorn()
    from sfumato.explorer.answering import Desk
    from sfumato.explorer.answers import description, first_chart
    from sfumato.explorer.app import explorer
    from sfumato.explorer.bounds import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS
    from sfumato.explorer.http.guards import LOOPBACK as NAMES
    from sfumato.explorer.http.patience import Announced, Patient
    from sfumato.explorer.shelf import Shelf

    sys.setswitchinterval(SWITCH_SECONDS)
    listening = bind(host, port)
    for_tools = None if pg_port is None else bind(host, pg_port, "--pg-port")
    shelf, desk = Shelf.of(opened), Desk()
    for book in shelf.books[:1]:  # all that answers need is loaded before anybody waits for it
        desk.kept.put(("about", book.name), description(book))
        desk.warm(partial(first_chart, book))
    app = explorer(shelf, hosts=NAMES if host in LOOPBACK else None, desk=desk)
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
        timeout_graceful_shutdown=2,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=16 * 1024,
    )
    name = "localhost" if host == "localhost" else f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"
    server = Announced(config, lambda: ready(address, None if for_tools is None else for_tools.getsockname()[1]))
    if for_tools is not None:
        from sfumato.explorer.wire.catalogue.database import Catalogue
        from sfumato.explorer.wire.listening import Wire
        from sfumato.explorer.wire.session import Served

        wire, taken = Wire(Served(shelf, Catalogue(shelf), desk)), for_tools
        server.beside = lambda: wire.listen(taken)
    server.run(sockets=[listening])


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """A socket that listens, so that the address is known, and a port that is taken refused, before anything else."""
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
            "the explorer needs a web server, which is not installed; run `pip install 'sfumato[explorer]'`"
        ) from None
    return uvicorn
