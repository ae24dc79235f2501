"""Every error a user can meet, in one tree.

    SfumatoError
    ├── SchemaError            the public schema is incomplete or contradicts itself
    ├── TableError             the table cannot be found, opened or matched with the schema
    ├── BudgetError            a budget that is not a positive number, or for another privacy unit than before
    │   ├── BudgetExhausted    asked for more than what is left
    │   └── RepeatedRelease    asked for what was released last, once more
    ├── LedgerError            the ledger is missing, locked, read-only, damaged or contradicts a receipt
    ├── MechanismError         a mechanism that is unknown or does not fit the schema
    ├── QueryError             a query that names something unknown
    │   └── UnsupportedSQL     SQL that a release cannot answer
    ├── ReleaseFileError       a release file that is damaged, tampered with or too new
    │   └── SignatureError     a signature that is missing, wrong or by somebody else, or a key that is none
    └── PrivacyError           the kernel refuses: going on could leak

    NewLedgerWarning           no error: a ledger was made that knows of no earlier release
    OldWordWarning             no error: a schema uses a word that has another name now

Messages are one line: what was asked, what is available, what to do. They may quote the schema, the command and the
names of columns. They never quote a value, a count or the number of rows of a private table. Names come from files of
strangers too, so that every message is made printable here, whoever shows it.
"""

from __future__ import annotations

from sfumato.plain_text import printable


class SfumatoError(Exception):
    """Something the user can mend; the command line prints it as one line and exits with code 1.

    kind: what scripts can tell apart: "budget" (refused to spend), "input" (what was asked for makes no sense), "file"
    (cannot be read or written), "damaged" (not what was once written), "signature" (not by whom it should be)
    or "refused" (anything else).
    """

    kind = "refused"

    def __init__(self, message: str = "", *, kind: str | None = None) -> None:
        super().__init__(printable(message))
        if kind is not None:
            self.kind = kind


class SchemaError(SfumatoError):
    """The public schema is incomplete or contradicts itself.

    mistakes: all that were found, where the message is about the first: the keys that lead to each, and its message.
    mark: line and column of what YAML itself does not allow, both from 1.
    """

    kind = "input"
    mistakes: tuple[tuple[tuple[str, ...], str], ...] = ()
    mark: tuple[int, int] | None = None


class TableError(SfumatoError):
    """The table cannot be found, opened or matched with the schema."""

    kind = "file"


class BudgetError(SfumatoError):
    """A privacy budget that is not a positive number, or one for another privacy unit than before."""

    kind = "input"


class BudgetExhausted(BudgetError):
    """More budget was asked for than the dataset has left."""

    kind = "budget"


class RepeatedRelease(BudgetError):
    """The last release was requested once more, without saying that this is meant."""

    kind = "budget"


class LedgerError(SfumatoError):
    """The ledger is missing, locked, read-only, damaged or contradicts a receipt."""

    kind = "file"


class MechanismError(SfumatoError):
    """A mechanism that is unknown or does not fit the schema."""

    kind = "input"


class QueryError(SfumatoError):
    """A query that names something unknown or has the wrong shape."""

    kind = "input"


class UnsupportedSQL(QueryError):
    """SQL that a release cannot answer; the message names the construct."""


class ReleaseFileError(SfumatoError):
    """A release file that is damaged, tampered with, too large or from a newer version."""

    kind = "file"


class SignatureError(ReleaseFileError):
    """A signature that is missing, altered or by another key than was asked for; or a key that is none."""

    kind = "signature"


class PrivacyError(SfumatoError):
    """The kernel refuses, because going on could leak or overspend."""


class NewLedgerWarning(UserWarning):
    """A ledger was made that knows of no earlier release; whoever had one before must restore or name it."""


class OldWordWarning(UserWarning):
    """A schema uses a word of earlier versions, which is still read; the message says what it is called now."""
