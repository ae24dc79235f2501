"""Every message of the page in every language: what the code and the page say, and what the message files have."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

STATIC = files("sfumato.serve.web") / "static"
LANGUAGES = ("de", "fr")
KEPT = {"Sfumato", "API", "CSV", "SVG", "PNG", "SQL", "×", "95 %"}  # names and signs that are the same everywhere
NAMED = {  # from lists of names that the code passes on, or that the server sends
    *("column", "name", "role", "type", "values", "Auto", "Light", "Dark"),
    *("count", "share", "sum", "average", "median"),
    *("all rows", "one value of one attribute", "a pair of values of two attributes"),
}


class Texts(HTMLParser):
    """Texts and spoken attributes of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.inside: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.inside.append(tag)
        self.found |= {value for name, value in attrs if name in ("aria-label", "placeholder") and value}

    def handle_data(self, data):
        if "title" not in self.inside[-1:] and data.strip():
            self.found.add(" ".join(data.split()))


def said() -> set[str]:
    """All English texts that are to be put into other languages."""
    page = Texts()
    page.feed((STATIC / "index.html").read_text(encoding="utf-8"))
    code = [one.read_text(encoding="utf-8") for one in (STATIC / "js").iterdir() if one.name.endswith(".js")]
    literals = {json.loads(found) for text in code for found in re.findall(r'\bt\(("(?:[^"\\]|\\.)*")', text)}
    return (page.found | literals | NAMED) - KEPT


def messages(language: str) -> dict[str, str]:
    text = (STATIC / "js" / "lang" / f"{language}.js").read_text(encoding="utf-8")
    return json.loads(re.sub(r",\s*}\s*;?\s*$", "}", text[text.index("{") :].rstrip().rstrip(";")))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_in_every_language_and_none_is_left_over(language):
    english, own = said(), messages(language)
    assert len(english) > 100
    assert sorted(english - own.keys()) == [], f"lang/{language}.js lacks these"
    assert sorted(own.keys() - english) == [], f"lang/{language}.js has what the page does not say"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_fills_in_the_same_parts_and_ends_in_the_same_blanks(language):
    for english, own in messages(language).items():
        assert sorted(re.findall(r"\{\d\}", english)) == sorted(re.findall(r"\{\d\}", own)), english
        assert own.strip(), english
        if "{" not in own:  # French has a blank before a colon
            assert re.sub(r"\S.*\S|\S", "", english) == re.sub(r"\S.*\S|\S", "", own), english
