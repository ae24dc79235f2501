"""For the site: links that leave the folder of pages become plain names, as there is nothing there to follow."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page without such links."""
    depth = len(PurePosixPath(page.file.src_uri).parts) - 1

    def named(link: re.Match[str]) -> str:
        return f"{link[1]} (`{link[2].replace('../', '')}`)" if link[2].count("../") > depth else link[0]

    return LINK.sub(named, markdown)
