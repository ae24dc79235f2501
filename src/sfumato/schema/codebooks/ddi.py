"""Codebooks of the Data Documentation Initiative, DDI 2.x: variables, their categories and labels, valid ranges.

Frequencies (catStat) and statistics of what occurred (sumStat) come from rows and are passed over. A document type
declaration, with which XML can define entities, is refused, so that a small file stays small.
"""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

from sfumato.errors import SchemaError
from sfumato.schema.codebooks.variable import Variable, bytes_of


class _Entities(Exception):
    """The file has a document type declaration."""


class _Variables:
    """Handler of expat: what <var> elements say, one after another."""

    def __init__(self) -> None:
        self.found: list[Variable] = []
        self._inside: list[str] = []
        self._text = ""
        self._begin({})

    def _begin(self, attributes: dict[str, str]) -> None:
        self._name, self._stated = attributes.get("name", ""), attributes.get("intrvl", "")
        self._values: dict[str, str] = {}
        self._missing: list[str] = []
        self._bounds = "", ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name, inside = name.rpartition(" ")[2], self._inside
        if name == "var":
            self._begin(attributes)
        elif name == "catgry":
            self._code, self._label, self._none = "", "", attributes.get("missing", "N").upper() == "Y"
        elif name == "varFormat" and inside[-1:] == ["var"]:
            self._stated = "date" if attributes.get("category") == "date" else self._stated
            self._stated = self._stated or {"character": "text", "numeric": "number"}.get(
                attributes.get("type", ""), ""
            )
        elif name == "range" and inside[-1:] == ["valrng"]:
            self._bounds = attributes.get("min", ""), attributes.get("max", "")
        elif name == "item" and inside[-1:] == ["invalrng"]:
            self._missing.append(attributes.get("VALUE", ""))
        inside.append(name)
        self._text = ""

    def text(self, data: str) -> None:
        self._text += data

    def end(self, name: str) -> None:
        name = self._inside.pop()
        text, self._text, parent = " ".join(self._text.split()), "", self._inside[-1:]
        if name == "catValu" and parent == ["catgry"]:
            self._code = text
        elif name == "labl" and parent == ["catgry"]:
            self._label = self._label or text
        elif name == "catgry" and self._code:
            self._values[self._code] = self._label
            self._missing += [self._code] if self._none else []
        elif name == "var" and self._name:
            missing = tuple(dict.fromkeys(word for word in self._missing if word))
            self.found.append(Variable(self._name, self._stated, self._values, *self._bounds, missing))


def read(path: Path, table: str) -> list[Variable]:
    """The variables of a DDI codebook."""
    found = _Variables()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.CharacterDataHandler, parser.buffer_text = found.text, True
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(bytes_of(path), True)
    except expat.ExpatError as problem:
        raise SchemaError(f"line {problem.lineno}: the codebook is not well-formed XML; check the file") from None
    except _Entities:
        raise SchemaError(
            "the codebook declares a document type, which is not read; delete the line <!DOCTYPE"
        ) from None
    return found.found


def _refuse(*_: object) -> None:
    raise _Entities
