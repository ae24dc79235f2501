"""Settings of a session, and the statements that change them: SET, SHOW, RESET, transactions.

Most settings change nothing. Those that begin with `sfumato.` set confidence and kind of interval. Statements are
recognised by their first word; those that write are refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pydantic import ValidationError

from sfumato.serve.pgwire.protocol import READ_ONLY, SYNTAX, UNSUPPORTED, Failure
from sfumato.serve.web.questions import Query
from sfumato.version import __version__

SERVER_VERSION = "15.0"  # whose catalogue is imitated
TOLD = {
    "server_version": f"{SERVER_VERSION} (Sfumato {__version__})",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "default_transaction_read_only": "on",
    "application_name": "",
}
FIRST = TOLD | {
    "search_path": '"$user", public',
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "default_transaction_isolation": "read committed",
    "client_min_messages": "notice",
    "extra_float_digits": "1",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "server_version_num": "150000",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "bytea_output": "hex",
    "row_security": "on",
    "timezone": "UTC",
    "wal_level": "replica",
    "session_authorization": "curator",
    "sfumato.confidence": "0.95",
    "sfumato.interval": "typical",
    "sfumato.possible": "off",
    "sfumato.selected": "on",
    "sfumato.simultaneous": "off",
    "sfumato.strict": "off",
    "sfumato.unbiased": "off",
}
_FIXED = (  # which stay as they are, whatever a client says, for answers are never sent otherwise
    *("server_version", "server_version_num", "server_encoding", "transaction_read_only", "is_superuser"),
    *("client_encoding", "DateStyle", "IntervalStyle", "standard_conforming_strings", "integer_datetimes"),
)
_CASE = {name.lower(): name for name in FIRST}
_MANNER = "sfumato."
_FLAGS = ("possible", "selected", "simultaneous", "strict", "unbiased")
MOST = 200  # settings of one session


class Settings:
    """The settings of one session."""

    def __init__(self) -> None:
        self._changed: dict[str, str] = {}

    def get(self, name: str) -> str:
        """The value of a setting."""
        known = _CASE.get(name.lower(), name.lower())
        if known not in FIRST and known not in self._changed:
            raise Failure("42704", f"there is no setting {name[:63]!r}", "SHOW ALL lists them")
        return self._changed.get(known, FIRST.get(known, ""))

    def set(self, name: str, value: str | None) -> str | None:
        """Change or reset a setting; returns its name if the client wants to be told of the change."""
        known = _CASE.get(name.lower(), name.lower())[:63]
        if value is None or value.lower() == "default":
            self._changed.pop(known, None)
        elif known in ("default_transaction_read_only", "transaction_read_only") and _is(
            value, "off", "false", "no", "0"
        ):
            raise Failure("25006", "releases are only read", "leave the session read-only")
        elif known == "client_encoding" and value.lower().strip("'").replace("-", "") not in ("utf8", "unicode"):
            raise Failure("22023", "texts are sent in UTF-8", "SET client_encoding = 'UTF8'")
        elif known not in _FIXED:
            if len(self._changed) >= MOST and known not in self._changed:
                raise Failure("54000", f"a session has at most {MOST} settings", "RESET ALL")
            before = dict(self._changed)
            self._changed[known] = value[:1000]
            if known.startswith(_MANNER):
                self._checked(known, before)
        return known if known in TOLD else None

    def reset(self) -> None:
        """Set all back to their values at the beginning."""
        self._changed.clear()

    def all(self) -> dict[str, str]:
        """Every setting."""
        return dict(sorted((FIRST | self._changed).items()))

    @property
    def how(self) -> Query:
        """Confidence and kind of interval as a `Query` without its statement."""
        named = {name: self.get(_MANNER + name) for name in _FLAGS}
        flags = {name: _is(value, "on", "true", "yes", "1") for name, value in named.items()}
        confidence = float(self.get("sfumato.confidence"))
        return Query(sql="-", confidence=confidence, interval=self.get("sfumato.interval"), **flags)  # type: ignore[arg-type]

    @property
    def quiet(self) -> bool:
        """Whether notes are suppressed."""
        return _is(self.get("client_min_messages"), "warning", "error", "fatal", "panic")

    def _checked(self, name: str, before: dict[str, str]) -> None:
        try:
            if name not in FIRST:
                raise ValueError
            _ = self.how
        except (ValueError, ValidationError):
            self._changed = before
            raise Failure(
                "22023",
                f"{name} cannot be this",
                "sfumato.confidence is between 0.01 and 0.99999, sfumato.interval typical, guaranteed or both, "
                f"{', '.join(_MANNER + flag for flag in _FLAGS[:-1])} and {_MANNER}{_FLAGS[-1]} are on or off",
            ) from None


def _is(value: str, *words: str) -> bool:
    return value.lower() in words


def startup_options(text: str) -> dict[str, str]:
    """Parse settings in a client's startup options: `-c name=value`, blanks escaped by a backslash.

    >>> startup_options("-c sfumato.confidence=0.9 --search_path=public")
    {'sfumato.confidence': '0.9', 'search_path': 'public'}
    """
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", text)]
    joined = re.findall(r"(?:-c\s*|--)([A-Za-z_.]+)=(\S*)", " ".join(words))
    return dict(joined)


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
    """Command on the session, parsed.

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
    """Parse a command on the session; None for a query. Statements that write are refused here.

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


_SETTINGS: dict[str, Callable[[str, str], Command | None]] = {
    "show": _show,
    "set": _set,
    "reset": lambda _, rest: Command("reset" if rest.lower() == "all" else "set", "RESET", rest.strip('"')),
    "deallocate": lambda _, rest: Command("forget", "DEALLOCATE", re.sub(r"(?i)^prepare\s+", "", rest).strip('"')),
    "discard": lambda _, rest: Command("reset", f"DISCARD {rest.upper()[:20]}"),
}


def _read_only() -> Failure:
    return Failure(READ_ONLY, "releases are only read, nothing can be written", "ask with SELECT")
