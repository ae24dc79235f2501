"""Command `sfumato serve`: releases in the browser, as a JSON API, and over PostgreSQL's protocol."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from sfumato.cli.query import MAPS, MOST_CELLS, SIGNED, maps_in
from sfumato.cli.shared import QUIET

RELEASES = typer.Argument(help="Release files.", show_default=False)
HOST = typer.Option("127.0.0.1", "--host", help="The address to listen on. 0.0.0.0 serves everybody on the network.")
PORT = typer.Option(8484, "--port", min=0, max=65535, help="The port to listen on. 0 takes any free port.")

PG_PORT = typer.Option(
    None,
    "--pg-port",
    min=0,
    max=65535,
    help="Also speak PostgreSQL's protocol on this port, for psql, pandas and BI tools. Read-only.",
    show_default=False,
)


def serve(
    releases: list[Path] = RELEASES,
    host: str = HOST,
    port: int = PORT,
    pg_port: int | None = PG_PORT,
    maps: list[str] = MAPS,
    no_open: bool = typer.Option(False, "--no-open", help="Do not open a browser."),
    require_signature: Path | None = SIGNED,
    most_cells: int | None = MOST_CELLS,
    quiet: bool = QUIET,
) -> None:
    """Explore releases in the browser: charts with error bars, comparisons, SQL. Serves public files only.

    Ctrl-C stops it.
    """
    from sfumato.serve.web.serving import one_thread_each, open_browser
    from sfumato.serve.web.serving import serve as serve_them

    one_thread_each()  # before the libraries are loaded that would start more
    from sfumato.cli.show import say, working
    from sfumato.releases.release import open_release

    files = maps_in(maps)
    with working("opening the releases"):
        opened = [
            (path, open_release(path, most_cells=most_cells, require_signature=require_signature)) for path in releases
        ]

    def ready(address: str, tools: int | None) -> None:
        many = "1 release" if len(opened) == 1 else f"{len(opened)} releases"
        say(f" serves {many}; Ctrl-C stops it.", bold=address)
        if tools is not None:
            say(" for tools that speak to PostgreSQL; any user, no password.", bold=f"psql -h {host} -p {tools}")
        sys.stdout.flush()  # whoever started it by a script waits for this line
        if not no_open:
            open_browser(address)

    try:
        serve_them(opened, host=host, port=port, pg_port=pg_port, maps=files, ready=ready)
    except KeyboardInterrupt:  # the way to stop a server, and no failure
        return
