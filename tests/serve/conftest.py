"""One set of releases, one server and one browser for all tests of the explorer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exploring import client_for, make_releases, serving

import sfumato as sf

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def shelf(releases: list[Path]) -> Any:
    from sfumato.serve.web.requests import Shelf

    return Shelf.of([(path, sf.open(path)) for path in releases])


@pytest.fixture(scope="session")
def catalogue(shelf: Any) -> Any:
    from sfumato.serve.pgwire.catalogue.tables import Catalogue

    return Catalogue(shelf)


@pytest.fixture(scope="session")
def client(shelf: Any) -> Any:
    return client_for(shelf)


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
