"""What goes wrong, as PostgreSQL says it: one line, what to do, and a code (SQLSTATE) that programs can tell apart."""

from __future__ import annotations

from sfumato.errors import QueryError, SfumatoError, UnsupportedSQL
from sfumato.serve.web.refusals import Refusal

PROTOCOL = "08P01"
UNSUPPORTED = "0A000"
BAD_VALUE = "22P02"
READ_ONLY = "25006"
FAILED_TRANSACTION = "25P02"
NO_STATEMENT, NO_PORTAL = "26000", "34000"
SYNTAX, NO_TABLE, NO_FUNCTION, AMBIGUOUS = "42601", "42P01", "42883", "42P09"
TOO_MANY_CONNECTIONS = "53300"
TOO_LARGE = "54000"
CANCELLED = "57014"
IDLE = "57P05"
INTERNAL = "XX000"

_BY_KIND = {
    "malformed": SYNTAX,
    "not_found": NO_TABLE,
    "too_long": TOO_LARGE,
    "invalid": "22023",
    "unanswerable": "42000",
    "too_large": TOO_LARGE,
    "internal": INTERNAL,
    "busy": "53000",
    "too_slow": CANCELLED,
}
_BY_WORDS = {"no column ": "42703", "no table ": NO_TABLE, "this SQL cannot be read": SYNTAX}


class Failure(Exception):
    """A message that is refused. fatal: the connection ends with it."""

    def __init__(self, code: str, message: str, hint: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.fatal = code, message, hint, fatal

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Any error; of one that nobody foresaw nothing is told, for its text is whatever a client sent.

        >>> Failure.of(UnsupportedSQL("a join is not supported; ask one table")).code
        '0A000'
        """
        if isinstance(error, Failure):
            return error
        if isinstance(error, Refusal):
            return cls(_BY_KIND[error.kind], error.error, error.what_to_do)
        if isinstance(error, SfumatoError):
            said = Refusal.of(error)
            return cls(_code(error), said.error, said.what_to_do)
        return cls(INTERNAL, "this went wrong on the server's side", "ask another way, and report it")


def malformed(what: str, *, fatal: bool = False) -> Failure:
    """A message that is not as the protocol has it."""
    return Failure(PROTOCOL, what, "speak version 3 of PostgreSQL's protocol", fatal=fatal)


def _code(error: SfumatoError) -> str:
    if isinstance(error, UnsupportedSQL):
        return UNSUPPORTED
    known = (code for words, code in _BY_WORDS.items() if str(error).startswith(words))
    return next(known, "42000") if isinstance(error, QueryError) else "42000"
