"""Commands on a session, which are no questions: SET, SHOW, transactions, COPY and the cursors of SQL.

Statements are recognised by their first word; those that write are refused here.

COPY (SELECT ...) TO STDOUT: parse its options, and encode rows in PostgreSQL's three copy formats.

In binary a copied row is the body of a DataRow message, so that only the letter of the message differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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


# -- commands

_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z)|\()*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_SET = re.compile(
    r"""set \s+ (?:session \s+ | local \s+)? (?P<name> [\w.]+ | "[^"]+" | time \s+ zone )
        (?: \s* (?: = | \bto\b ) \s* | \s+ ) (?P<value> .+ )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_NO_SETTING = re.compile(
    r"(session\s+characteristics|(local\s+|session\s+)?transaction|constraints|role|session\s+authorization)\b", re.I
)
_SHOWN = {"time_zone": "TimeZone", "transaction_isolation_level": "transaction_isolation"}
_READS = ("select", "with", "values", "table", "describe", "desc")
_WRITES = """insert update delete merge truncate alter comment grant revoke lock vacuum analyze analyse
    cluster reindex refresh import security call do load checkpoint reassign notify into"""
_PREPARED = "statements are prepared by the protocol; write SELECT"
_OTHERS = {
    **dict.fromkeys(("execute", "prepare"), _PREPARED),
    "explain": "there is no plan to show; the errors of an answer stand beside its numbers",
    "listen": "nothing changes here that could be told of",
}


class Command(NamedTuple):
    """Command on the session, parsed.

    kind: one of begin, end, undo, recover, set, show, reset, forget, copy, declare, fetch, close, view, drop, ignored,
    empty. name: of a setting, a prepared statement, a cursor or a view. query: the statement inside a COPY, DECLARE or
    CREATE VIEW. copy: how it is copied. held: whether a cursor outlives its transaction. lax: OR REPLACE, IF EXISTS.
    way, step: of a FETCH; None takes all.
    """

    kind: str
    tag: str
    name: str = ""
    value: str | None = None
    query: str = ""
    copy: Copy | None = None
    held: bool = False
    lax: bool = False
    way: str = "forward"
    step: int | None = 1


_PLAIN = {
    "begin": Command("begin", "BEGIN"),
    "start": Command("begin", "START TRANSACTION"),
    "commit": Command("end", "COMMIT"),
    "end": Command("end", "COMMIT"),
    "rollback": Command("undo", "ROLLBACK"),
    "abort": Command("undo", "ROLLBACK"),
    "savepoint": Command("ignored", "SAVEPOINT"),
    "release": Command("ignored", "RELEASE"),
    "unlisten": Command("ignored", "UNLISTEN"),
}


def read_command(text: str) -> Command | None:
    """Parse a command on the session; None for a query. Statements that write are refused here.

    >>> read_command("/* hi */ SET sfumato.confidence TO '0.9'")[:4]
    ('set', 'SET', 'sfumato.confidence', '0.9')
    """
    start = _BLANK.match(text)
    body = text[start.end() if start else 0 :].strip().rstrip(";").strip()
    found = _WORD.match(body)
    word = found[0].lower() if found else ""
    rest = body[len(word) :].strip()
    if word in _READS:
        return None
    if word in ("begin", "start", "set") and re.search(r"\bread\s+write\b", rest, re.IGNORECASE):
        raise _read_only()
    if word in _PLAIN:
        back = _PLAIN[word].kind == "undo" and re.search(r"\bto\b", rest, re.IGNORECASE)
        return Command("recover", "ROLLBACK") if back else _PLAIN[word]
    if word in _WRITES.split():
        raise _read_only()
    if word in _OTHERS:
        raise Failure(UNSUPPORTED, f"{word.upper()} is not supported", _OTHERS[word])
    read = _SETTINGS.get(word)
    return Command("empty", "") if not body else read(body, rest) if read else None


def _show(_body: str, rest: str) -> Command | None:
    if rest.strip("; ").lower() in ("tables", "all tables"):
        return None  # which is a question: what tables there are
    if re.match(r"columns\b", rest, re.IGNORECASE):
        return None  # a question about a release
    name = re.sub(r"\s+", "_", rest.strip().strip('"').lower())
    return Command("show", "SHOW", _SHOWN.get(name, name))


def _set(body: str, rest: str) -> Command:
    if _NO_SETTING.match(rest):
        return Command("ignored", "SET")
    found = _SET.fullmatch(body)
    if found is None:
        raise Failure(SYNTAX, "this SET cannot be read", "write SET name = value")
    name = "TimeZone" if found["name"].lower().split() == ["time", "zone"] else found["name"].strip('"')
    value = found["value"].strip()
    quoted = re.fullmatch(r"e?'((?:[^']|'')*)'", value, re.IGNORECASE | re.DOTALL)
    return Command("set", "SET", name, quoted[1].replace("''", "'") if quoted else value)


def _copy(body: str, _rest: str) -> Command:
    query, copy = read_copy(body)
    _is_question(query, "COPY")
    return Command("copy", "COPY", query=query, copy=copy)


_PIECES = re.compile(r'"(?:[^"]|"")*"|[^\s"]+')
_DECLARED = ("asensitive", "insensitive", "no", "scroll", "with", "without", "hold", "cursor")
_STEPS = {"next": ("forward", 1), "prior": ("backward", 1), "first": ("absolute", 1), "last": ("absolute", -1)}


def _declare(body: str, _rest: str) -> Command:
    """Parse DECLARE name [options] CURSOR [WITH HOLD] FOR query."""
    words: list[str] = []
    for piece in _PIECES.finditer(body):
        words.append(piece[0] if piece[0].startswith('"') else piece[0].lower())
        if words[-1] == "for" and "cursor" in words[2:]:
            options, query = words[2:-1], body[piece.end() :].strip()
            if "binary" in options:
                raise Failure(UNSUPPORTED, "DECLARE BINARY is not supported", "ask for binary values by the protocol")
            if set(options) <= set(_DECLARED):
                _is_question(query, "DECLARE")
                held = " ".join(options).endswith("with hold")
                return Command("declare", "DECLARE CURSOR", _name(words[1]), query=query, held=held)
        if len(words) > 12:
            break
    raise Failure(SYNTAX, "this DECLARE cannot be read", "write DECLARE name CURSOR FOR SELECT ...")


def _is_question(query: str, around: str) -> None:
    if not query or read_command(query) is not None:
        raise Failure(SYNTAX, f"{around} takes a SELECT", f"write {around} with a SELECT inside")


def _fetch(body: str, _rest: str) -> Command:
    """Parse FETCH or MOVE [direction] [count] [FROM] name.

    >>> read_command('FETCH BACKWARD ALL FROM "c"')[-2:]
    ('backward', None)
    """
    tag, *words = [piece[0] for piece in _PIECES.finditer(body[:1000])]
    if not 1 <= len(words) <= 4 or len(body) > 1000:
        raise _unread(tag)
    name, words = _name(words[-1]), [word.lower() for word in words[:-1]]
    if words and words[-1] in ("from", "in"):
        words.pop()
    way, step = "forward", 1
    if words and words[0] in _STEPS:
        way, step = _STEPS[words.pop(0)]
    elif words and words[0] in ("forward", "backward", "absolute", "relative"):
        way = words.pop(0)
    if not words:
        return Command("fetch", tag.upper(), name, way=way, step=step)
    if len(words) > 1 or not re.fullmatch(r"[+-]?[0-9]{1,18}|all", words[0]):
        raise _unread(tag)
    if words == ["all"] and way not in ("forward", "backward"):
        raise _unread(tag)
    return Command("fetch", tag.upper(), name, way=way, step=None if words == ["all"] else int(words[0]))


def _unread(tag: str) -> Failure:
    return Failure(SYNTAX, f"this {tag.upper()} cannot be read", f"write {tag.upper()} FORWARD 100 FROM name")


def _close(_body: str, rest: str) -> Command:
    """Parse CLOSE name, or ALL."""
    return Command("close", "CLOSE CURSOR", "" if rest.lower() == "all" else _name(rest))


def _name(text: str) -> str:
    """Name of a cursor: as it is in quotes, else in small letters."""
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


_CREATED = re.compile(
    r'create\s+(?P<again>or\s+replace\s+)?temp(?:orary)?\s+view\s+(?P<name>"[^"]+"|\w+)\s+as\b(?P<query>.*)',
    re.I | re.S,
)
_DROPPED = re.compile(r'drop\s+view\b(?P<lax>\s+if\s+exists\b)?(?:\s+(?P<name>"[^"]+"|\w+))?(?:\s+cascade)?', re.I)


def _create(body: str, _rest: str) -> Command:
    """Parse CREATE TEMPORARY VIEW, which is kept by the session; all else that creates would write."""
    found = _CREATED.fullmatch(body)
    if found is None:
        raise _read_only()
    query = found["query"].strip()
    _is_question(query, "CREATE VIEW")
    return Command("view", "CREATE VIEW", _name(found["name"]), query=query, lax=found["again"] is not None)


def _drop(body: str, _rest: str) -> Command:
    """Parse DROP VIEW. ibis 12 forgets the name: it means the view that was made last."""
    found = _DROPPED.fullmatch(body)
    if found is None or not (found["name"] or found["lax"]):
        raise _read_only()
    return Command("drop", "DROP VIEW", _name(found["name"] or ""), lax=found["lax"] is not None)


_SETTINGS: dict[str, Callable[[str, str], Command | None]] = {
    "show": _show,
    "set": _set,
    "reset": lambda _, rest: Command("reset" if rest.lower() == "all" else "set", "RESET", rest.strip('"')),
    "deallocate": lambda _, rest: Command("forget", "DEALLOCATE", re.sub(r"(?i)^prepare\s+", "", rest).strip('"')),
    **{"copy": _copy, "declare": _declare, "fetch": _fetch, "move": _fetch, "close": _close},
    **{"create": _create, "drop": _drop},
    "discard": lambda _, rest: Command("reset", f"DISCARD {rest.upper()[:20]}"),
}


def _read_only() -> Failure:
    return Failure(READ_ONLY, "releases are only read, nothing can be written", "ask with SELECT")
