"""What several tests share: a small schema, a way to make curators, and a ledger of one's own."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: tests run side by side and share the cores

import pytest
from curators import CENSUS
from hypothesis import HealthCheck, settings
from layers import NAMES, STATED, mark_layers
from waiting import interruptible

from sfumato.schema import Schema

# A busy machine is no reason to fail. On a build server the same examples are tried every time, so that a change is
# judged by what it changes; on a developer's machine new ones are.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("server", parent=settings.get_profile("patient"), derandomize=True)
settings.load_profile("server" if os.environ.get("CI") else "patient")

ENGINES_REQUIRED = os.environ.get("SFUMATO_ENGINES") == "required"  # set by `make test-engines`


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the trials of tests/fire in full; takes many minutes")
    parser.addoption("--layers", action="store_true", help="say how many tests each layer has, and run none")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A test file that cannot be imported has failed; pytest would pass over it as over a module without examples."""
    missing = report.skipped and report.nodeid.startswith("tests/")
    if missing and ("unable to import module" in str(report.longrepr) or ENGINES_REQUIRED):
        raise pytest.UsageError(f"{report.nodeid} cannot be imported, so that none of its tests would run")


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put every test into its layer."""
    counted = mark_layers(items)
    if config.getoption("--layers"):
        words = " + ".join(f"{counted[name]:,} {name}" for name in NAMES)
        pytest.exit(f"{words} = {sum(counted.values()):,} tests", returncode=0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where engines are required, a test that misses its package has failed: nobody would see that it was skipped."""
    report = yield
    lacks = report.skipped and re.search("could not import|needs ", str(report.longrepr))
    if ENGINES_REQUIRED and lacks and item.get_closest_marker("engines") and not item.nodeid.endswith(STATED):
        report.outcome, report.longrepr = "failed", f"skipped where engines are required: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether the long form of a trial was asked for."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(autouse=True)
def own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test may touch the ledger of whoever runs it."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("SFUMATO_LEDGER", str(path))
    return path


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """For a test that interrupts itself or a child: SIGINT does what it does in a terminal."""
    with interruptible():
        yield


@pytest.fixture
def census() -> Schema:
    return Schema.from_dict(CENSUS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as the system has it. SFUMATO_BROWSER=required: a build without it has failed.

    It ends with the module: as long as it lives an event loop is running, and tests with one of their own would fail.
    """
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
