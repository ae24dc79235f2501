"""For the site: the README of every model folder is a page of it, `models/<folder>.md`, and links to it lead there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

MODELS = Path(__file__).parents[2] / "src" / "sfumato" / "models"
TO_A_MODEL = re.compile(r"\]\((?:\.\./)+src/sfumato/models/(\w+)/README\.md")
TO_DOCS = re.compile(r"\]\((?:\.\./)+docs/")
BESIDE = re.compile(r"\]\(\.\./(\w+)/README\.md")


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Add the pages."""
    for path in sorted(MODELS.glob("*/README.md")):
        text = TO_DOCS.sub("](../", BESIDE.sub(r"](\1.md", path.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"models/{path.parent.name}.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links from pages in docs/ to these files into links to their pages."""
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
    return TO_A_MODEL.sub(rf"]({up}models/\1.md", markdown)
