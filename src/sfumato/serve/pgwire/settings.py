"""Settings of a session.

Most settings change nothing. Those that begin with `sfumato.` set confidence and kind of interval, and whether numbers
come with error columns.
"""

from __future__ import annotations

import re

from pydantic import ValidationError

from sfumato.serve.pgwire.protocol import Failure
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
    "sfumato.errors": "on",
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
_FLAGS = ("errors", "possible", "selected", "simultaneous", "strict", "unbiased")
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0", "none")
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
        """Confidence, kind of interval and error columns as a `Query` without its statement."""
        named = {name: self.get(_MANNER + name) for name in _FLAGS}
        if not all(_is(value, *_ON, *_OFF) for value in named.values()):
            raise ValueError
        flags = {name: _is(value, *_ON) for name, value in named.items()}
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
