"""The whole page: one file, no network, no script, one style sheet that its own policy names by hash."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files

from sfumato.public.report.markup import Markup, joined, tag
from sfumato.version import __version__


def page(title: str, head: Markup, parts: Sequence[Markup | None], made_by: str) -> str:
    """HTML that works from disk and by post, and asks nobody for anything."""
    style = files("sfumato.public.report").joinpath("style.css").read_text(encoding="utf-8")
    known = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    heads = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"sfumato {__version__}"),
        tag("title", title),
        Markup(f"<style>{style}</style>"),
    ]
    said = (
        f"Made from the release alone, which {made_by} wrote, by sfumato {__version__}: no private data and no budget "
        "were needed. This page runs no script and asks no server."
    )
    body = [_fades(), head, tag("main", parts), tag("footer", tag("p", said))]
    return "<!doctype html>\n" + tag("html", tag("head", heads), tag("body", joined(body)), lang="en", dir="ltr") + "\n"


def _fades() -> Markup:
    """From solid to nothing, to the right and upwards; every picture uses these."""
    stops = [(0.0, 1.0), (1.0, 0.06)]

    def fade(name: str, **ends: int) -> Markup:
        marks = [tag("stop", offset=at, stop_opacity=much, class_="fading") for at, much in stops]
        return tag("linearGradient", marks, id=name, **ends)

    inside = [fade("fade", x1=0, y1=0, x2=1, y2=0), fade("fade-up", x1=0, y1=1, x2=0, y2=0)]
    return tag("svg", tag("defs", inside), class_="defs", aria_hidden="true", width=0, height=0)
