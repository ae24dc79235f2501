"""Statements about the session, told by their first word: settings, transactions, and what is refused to begin with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from sfumato.serve.pgwire.failures import READ_ONLY, SYNTAX, UNSUPPORTED, Failure

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
_WRITES = """insert update delete merge truncate create alter drop comment grant revoke lock vacuum analyze analyse
    cluster reindex refresh import security call do load checkpoint reassign notify into"""
_CURSORS = "there are no cursors in SQL; fetch rows in parts by the protocol"
_PREPARED = "statements are prepared by the protocol; write SELECT"
_OTHERS = {
    "copy": "rows are not copied in or out; write SELECT, and the client saves the answer",
    **dict.fromkeys(("execute", "prepare"), _PREPARED),
    **dict.fromkeys(("declare", "fetch", "move"), _CURSORS),
    "explain": "there is no plan to show; the errors of an answer stand beside its numbers",
    "listen": "nothing changes here that could be told of",
}


class Command(NamedTuple):
    """What a statement about the session does.

    kind: one of begin, end, undo, recover, set, show, reset, forget, ignored, empty.
    """

    kind: str
    tag: str
    name: str = ""
    value: str | None = None


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
    "close": Command("ignored", "CLOSE CURSOR"),
}


def read_command(text: str) -> Command | None:
    """What a statement does to the session; None for a question. Writing is refused here.

    >>> read_command("/* hi */ SET sfumato.confidence TO '0.9'")
    Command(kind='set', tag='SET', name='sfumato.confidence', value='0.9')
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


def _reset(_body: str, rest: str) -> Command:
    return Command("reset", "RESET") if rest.lower() == "all" else Command("set", "RESET", rest.strip('"'), None)


def _deallocate(_body: str, rest: str) -> Command:
    return Command("forget", "DEALLOCATE", re.sub(r"^prepare\s+", "", rest, flags=re.IGNORECASE).strip('"'))


_SETTINGS: dict[str, Callable[[str, str], Command | None]] = {
    "show": _show,
    "set": _set,
    "reset": _reset,
    "deallocate": _deallocate,
    "discard": lambda _body, rest: Command("reset", f"DISCARD {rest.upper()[:20]}"),
}


def _read_only() -> Failure:
    return Failure(READ_ONLY, "releases are only read, nothing can be written", "ask with SELECT")
