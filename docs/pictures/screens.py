"""The pictures of docs/explorer.md and docs/report.md: `python docs/pictures/screens.py` takes them of the demo.

It needs Chromium and the extra `dev-engines`. The noise is new each time, so that pictures differ a little from one
time to the next, as releases do. The island with eight regions is invented.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import cos, pi, sin
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np

HERE = Path(__file__).parent
REGIONS = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")
WIDE, TALL = 1180, 900  # pixels
SFUMATO = [sys.executable, "-m", "sfumato"]
VIEWS: dict[str, dict[str, Any]] = {
    "explorer-heat": {"by": ["region", "sex"], "shape": "heat"},
    "explorer-map": {"by": ["region"], "shape": "map", "amount": "average", "of": "income"},
    "explorer-compare": {"tab": "compare"},
}
DARK = "explorer-heat"


def island(seed: int = 7) -> dict[str, Any]:
    """Boundaries of eight invented regions around a middle, whose borders are shared."""
    stream = np.random.default_rng(seed)
    rays = []
    for number in range(8):  # from the middle to the coast, a little crooked
        turn = (number - 0.5) * pi / 4
        rays.append([_at(turn + stream.uniform(-0.12, 0.12), 0.2 * step) for step in range(1, 5)])
    features = []
    for number, name in enumerate(REGIONS):
        begins, ends = rays[number], rays[(number + 1) % 8]
        coast = [
            _at((number - 0.5 + step / 12) * pi / 4, 0.84 + 0.04 * sin(3 * number) + stream.uniform(-0.03, 0.03))
            for step in range(1, 12)
        ]
        ring = [_at(0, 0), *begins, *coast, *reversed(ends), _at(0, 0)]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {"name": name}, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


def _at(turn: float, far: float) -> tuple[float, float]:
    return 1000 + 300 * far * cos(turn), 1000 + 240 * far * sin(turn)


@contextmanager
def served(release: Path, maps: str) -> Iterator[str]:
    """Address of an explorer that shows a release."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*SFUMATO, "serve", str(release), "--no-open", "--quiet", "--port", str(port), "--map", maps]
    running = subprocess.Popen(command)  # noqa: S603 (our own command)
    address = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(300):
            try:
                urlopen(address + "api/releases").read()  # noqa: S310 (an address of this machine)
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        running.terminate()
        running.wait()


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        folder = Path(scratch)
        subprocess.run([*SFUMATO, "demo"], cwd=folder, check=True, capture_output=True)  # noqa: S603
        release, areas = folder / "sfumato-demo" / "census.sfumato", folder / "regions.geojson"
        areas.write_text(json.dumps(island()))
        with served(release, f"region={areas}") as address:
            for name, state in VIEWS.items():
                theme = "dark" if name == DARK else "light"
                page = browser.new_page(viewport={"width": WIDE, "height": TALL}, color_scheme=theme)
                page.goto(f"{address}#{quote(json.dumps({'release': 'census'} | state))}")
                page.wait_for_selector("html[data-ready]")
                page.wait_for_selector(".busy", state="detached")
                page.wait_for_selector(f"#view-{state.get('tab', 'explore')} :is(svg[role=img], td)")
                page.screenshot(path=HERE / f"{name}.png")
        file = folder / "census.html"
        report = [*SFUMATO, "report", str(release), "-o", str(file), "--map", f"region={areas}"]
        subprocess.run(report, check=True, capture_output=True)  # noqa: S603
        page = browser.new_page(viewport={"width": WIDE, "height": TALL})
        page.goto(file.as_uri())
        page.screenshot(path=HERE / "report.png")
        page.locator("#attributes").screenshot(path=HERE / "report-attributes.png")
        browser.close()


if __name__ == "__main__":
    main()
