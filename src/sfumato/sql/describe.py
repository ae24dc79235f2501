"""DESCRIBE: which columns there are to ask about."""

from __future__ import annotations

import re

from sfumato.errors import QueryError
from sfumato.schema import Schema

_DESCRIBE = re.compile(
    r"""(?: describe (?:\s+ table)? | desc | show \s+ columns \s+ (?: from | in ) )
        (?: \s+ (?P<name> "[^"]*" | [A-Za-z_0-9]+ ) )? \s* ;?""",
    re.VERBOSE | re.IGNORECASE,
)


def is_describe(text: object, schema: Schema) -> bool:
    """Whether a statement asks for the columns, of this table; of another it is refused.

    >>> schema = Schema(dataset="census", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> [is_describe(text, schema) for text in ("DESCRIBE", "describe Census;", "SELECT COUNT(*) FROM census")]
    [True, True, False]
    """
    found = _DESCRIBE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return False
    name = (found["name"] or "release").strip('"')
    if name.lower() not in (schema.dataset.lower(), "release"):
        raise QueryError(f"there is no table {name!r} here; write DESCRIBE {schema.dataset}")
    return True
