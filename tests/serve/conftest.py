"""One set of releases, one server and one browser for all tests of the explorer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exploring import desk_for, make_releases, serving

import sfumato as sf

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def shelf(releases: list[Path]) -> Any:
    from sfumato.serve.web.shelf import Shelf

    return Shelf.of([(path, sf.open(path)) for path in releases])


@pytest.fixture(scope="session")
def catalogue(shelf: Any) -> Any:
    from sfumato.serve.pgwire.catalogue.tables import Catalogue

    return Catalogue(shelf)


@pytest.fixture(scope="session")
def client(shelf: Any) -> Any:
    with warnings.catch_warnings():  # newer versions would rather have a successor of httpx
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    from sfumato.serve.web.app import explorer
    from sfumato.serve.web.requests import LOOPBACK

    app = explorer(shelf, desk_for(shelf), hosts=LOOPBACK)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="session")
def served(releases: list[Path]) -> Iterator[str]:
    """A server as a user starts it."""
    with serving(releases, "--pg-port", "0") as found:
        yield found


@pytest.fixture(scope="session")
def address(served: str) -> str:
    """For browsers."""
    return served.split(maxsplit=1)[0]


@pytest.fixture(scope="session")
def pg_port(served: str) -> int:
    """For tools that speak to PostgreSQL."""
    return int(served.split()[1])
