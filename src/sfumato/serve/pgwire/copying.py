"""COPY (SELECT ...) TO STDOUT: parse its options, and encode rows in PostgreSQL's three copy formats.

In binary a copied row is the body of a DataRow message, so that only the letter of the message differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import pack
from typing import NamedTuple

from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.packets import data_row, message
from sfumato.serve.pgwire.protocol import READ_ONLY, SYNTAX, UNSUPPORTED, Column, Failure

_COPY = re.compile(r"copy\s*\((?P<query>.*)\)\s*to\s+stdout\b(?P<options>.*)", re.IGNORECASE | re.DOTALL)
_WORDS = re.compile(r"e?'((?:[^']|'')*)'|([(),])|([^\s(),']+)", re.IGNORECASE)
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = pack("!h", -1)
_FLAGS = {**dict.fromkeys(("true", "on", "1", ""), True), **dict.fromkeys(("false", "off", "0"), False)}
_LETTERS = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_HINT = "write COPY (SELECT ...) TO STDOUT WITH (FORMAT csv, HEADER)"


class Copy(NamedTuple):
    """Options of a COPY. form: text, csv or binary. header: whether names come first. quote, escape: of csv."""

    form: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'

    @property
    def code(self) -> int:
        """Format code of the protocol: 0 for text and csv, 1 for binary."""
        return int(self.form == "binary")


def read_copy(body: str) -> tuple[str, Copy]:
    """Parse a COPY into the statement that it copies and its options; what is no copy of an answer is refused.

    >>> read_copy("COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, DELIMITER ';')")[1].delimiter
    ';'
    """
    found = _COPY.fullmatch(body)
    if found is None:
        if re.search(r"\bfrom\s+(?:stdin|program|e?')", body, re.IGNORECASE):
            raise Failure(READ_ONLY, "releases are only read, nothing can be copied into them", "ask with SELECT")
        raise Failure(UNSUPPORTED, "COPY of anything but an answer to the client is not supported", _HINT)
    return found["query"].strip(), _options(found["options"])


def _options(text: str) -> Copy:
    """Options in either spelling: `(FORMAT csv, HEADER)`, or `CSV HEADER DELIMITER AS ';'` of old."""
    stated = _stated(text)
    form = stated.pop("format", "text").lower()
    flag = stated.pop("header", "false").lower()
    if stated.pop("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise Failure("22023", "texts are sent in UTF-8", "leave ENCODING out")
    if form not in ("text", "csv", "binary") or flag not in _FLAGS:
        raise Failure("22023", "an option of COPY has a value that it does not know", _HINT)
    if form == "binary" and (stated or _FLAGS[flag]):
        raise Failure("22023", "COPY in binary has no other options", "leave them out")
    usual = Copy("csv", ",", "") if form == "csv" else Copy(form)
    copy = usual._replace(header=_FLAGS[flag], **stated)
    copy = copy._replace(escape=stated.get("escape", copy.quote))
    marks = (copy.delimiter, copy.quote, copy.escape)
    if any(len(mark) != 1 or not mark.isascii() or mark in "\r\n" for mark in marks) or copy.delimiter == copy.quote:
        raise Failure("22023", "DELIMITER, QUOTE and ESCAPE are one character each, and differ", _HINT)
    if form == "text" and (copy.delimiter.isalnum() or copy.delimiter in "\\."):
        raise Failure("22023", "this DELIMITER could be part of a value", "take a comma, a tab or the like")
    if any(mark in copy.null for mark in (*"\r\n", copy.delimiter)):
        raise Failure("22023", "NULL must be written without line ends and delimiters", "take another text for it")
    return copy


def _stated(text: str) -> dict[str, str]:
    stated: dict[str, str] = {}
    words = [(quoted, sign, plain) for quoted, sign, plain in _WORDS.findall(text)]
    listed = any(sign == "(" for _, sign, _ in words)
    name = ""
    for quoted, sign, plain in words:
        word = plain.lower()
        if sign:
            name = ""
        elif not listed and word in ("with", "as"):
            continue
        elif not listed and word in ("binary", "csv"):
            stated["format"] = word
        elif word in ("format", "delimiter", "null", "header", "quote", "escape", "encoding") and not name:
            stated[word] = ""
            name = "" if not listed and word == "header" else word
        elif name:
            stated[name], name = plain or quoted.replace("''", "'"), ""
        elif not (listed and word == "with"):
            known = "FORMAT, DELIMITER, NULL, HEADER, QUOTE and ESCAPE are"
            raise Failure(SYNTAX, f"COPY has no option {word[:30].upper() or 'of this kind'} here", known)
    return stated


def copied_rows(copy: Copy, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> bytes:
    """Encode rows as CopyData messages, one for each row, and one for the end of a binary copy."""
    if copy.form == "binary":
        cells = [[pg.as_binary(value, oid) for value, (_, oid) in zip(row, columns, strict=True)] for row in rows]
        bodies = [*(data_row(row)[5:] for row in cells), _END]
        bodies[0] = _SIGNATURE + bodies[0]  # in one message, as PostgreSQL sends them, for readers rely on it
    else:
        texts = [[pg.as_text(value, oid) for value, (_, oid) in zip(row, columns, strict=True)] for row in rows]
        lines = [[None if text is None else text.decode() for text in row] for row in texts]
        bodies = [_line(copy, line) for line in ([[name for name, _ in columns]] if copy.header else []) + lines]
    return b"".join(message(b"d", body) for body in bodies)


def _line(copy: Copy, cells: Sequence[str | None]) -> bytes:
    write = _quoted if copy.form == "csv" else _escaped
    texts = (copy.null if cell is None else write(copy, cell) for cell in cells)
    return (copy.delimiter.join(texts) + "\n").encode("utf-8", "replace")


def _escaped(copy: Copy, text: str) -> str:
    """Value in the text format: what would end a field or a line has a backslash."""
    letters = _LETTERS if copy.delimiter in _LETTERS else _LETTERS | {copy.delimiter: "\\" + copy.delimiter}
    return "".join(letters.get(letter, letter) for letter in text)


def _quoted(copy: Copy, text: str) -> str:
    """Value in csv: in quotes where it would be read otherwise without, or as NULL."""
    if text not in (copy.null, "", "\\.") and not any(mark in text for mark in (copy.delimiter, copy.quote, *"\r\n")):
        return text
    if copy.escape != copy.quote:
        text = text.replace(copy.escape, copy.escape * 2)
    return copy.quote + text.replace(copy.quote, copy.escape + copy.quote) + copy.quote
