"""One set of releases, one server and one browser for all tests of the explorer."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exploring import make_releases, serving

import sfumato as sf

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def shelf(releases: list[Path]) -> Any:
    from sfumato.explorer.shelf import Shelf

    return Shelf.of([(path, sf.open(path)) for path in releases])


@pytest.fixture(scope="session")
def client(shelf: Any) -> Any:
    with warnings.catch_warnings():  # newer versions would rather have a successor of httpx
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    from sfumato.explorer.app import explorer
    from sfumato.explorer.http.guards import LOOPBACK

    return TestClient(explorer(shelf, hosts=LOOPBACK), base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="session")
def address(releases: list[Path]) -> Iterator[str]:
    """A server as a user starts it."""
    with serving(releases) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, as the system has it. SFUMATO_BROWSER=required: a build without it has failed."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        why = "no chromium on this machine; install Debian's package, or Google Chrome"
        if os.environ.get("SFUMATO_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # chromium refuses to shut root in
        found = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield found
        found.close()
