"""The documentation as a site: every page is in it, every link leads somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built strictly: whatever the builder warns of stops it. Not quietly: then it would count no warnings."""
    where = tmp_path_factory.mktemp("site")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(where)]
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return where


def test_every_page_is_in_it_and_in_its_menu(site):
    for page in PAGES:
        name = "index.html" if page.as_posix() == "README.md" else page.with_suffix(".html").as_posix()
        assert (site / name).is_file(), name
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.as_posix() for page in PAGES if f": {page.as_posix()}\n" not in menu] == []


def test_the_page_of_every_model_is_in_it(site):
    """Written beside the code, and found from the other pages: links in both directions lead somewhere."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    models = sorted(path.parent.name for path in (ROOT / "src" / "sfumato" / "models").glob("*/README.md"))
    assert len(models) >= 8
    for name in models:
        text = (site / "models" / f"{name}.html").read_text(encoding="utf-8")
        assert f": models/{name}.md\n" in menu and "<h1" in text and "/docs/" not in text
    assert 'href="models/cells.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert 'href="../cells.html"' in (site / "models" / "cells.html").read_text(encoding="utf-8")


def test_nothing_is_fetched_from_elsewhere(site):
    loaded = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(https?:)?//""")
    for page in site.rglob("*.html"):
        found = loaded.search(page.read_text(encoding="utf-8"))
        assert found is None, f"{page.name}: {found[0]}"


def test_the_reference_has_signatures_and_descriptions(site):
    page = (site / "reference.html").read_text(encoding="utf-8")
    for name in ("release", "open_release", "make_plan", "Release", "Schema", "Estimate"):
        assert re.search(rf'id="sfumato\.[\w.]*{name}"', page), name
    assert "epsilon" in page


def test_examples_of_docstrings_are_code(site):
    page = (site / "reference.html").read_text(encoding="utf-8")
    assert page.count('<span class="gp">') >= 3 and "<blockquote>" not in page


def test_the_command_that_builds_it_is_the_one_that_is_tested():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nsite:")[2].splitlines()[1]
    assert recipe.endswith("mkdocs build --strict")
