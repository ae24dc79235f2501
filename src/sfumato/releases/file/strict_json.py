"""Strict JSON: one canonical spelling to write, and nothing ambiguous accepted on reading.

Keys are sorted, with two spaces of indent, UTF-8 and a newline at the end. Keys inside `schema` are not sorted: the
order of the attributes is the order in which cells are numbered.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from sfumato.errors import ReleaseFileError
from sfumato.plain_text import printable

MOST_DIGITS = 100  # of a whole number, or of either side of a fraction: all that follows fits a float
MOST_DEPTH = 20
FRESH_COPY = "ask the publisher for a fresh copy"


def one_line(text: str) -> str:
    r"""Untrusted text as a message may quote it: printable, without terminal control, and short.

    >>> one_line("census\n.sfumato")
    'census\\x0a.sfumato'
    """
    line = printable(text[:301])
    return line if len(line) <= 300 else line[:300] + "..."


def refusal(what: str, remedy: str = FRESH_COPY) -> ReleaseFileError:
    """Error for an untrusted file: the defect, and the remedy."""
    return ReleaseFileError(f"{one_line(what)}; {remedy}", kind="damaged" if remedy == FRESH_COPY else None)


def canonical(content: dict[str, Any]) -> bytes:
    """Canonical bytes of a manifest."""
    ordered = {key: content[key] if key == "schema" else _sorted(content[key]) for key in sorted(content)}
    return (json.dumps(ordered, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _sorted(content: Any) -> Any:
    """Copy with all keys sorted."""
    if isinstance(content, dict):
        return {key: _sorted(content[key]) for key in sorted(content)}
    return [_sorted(item) for item in content] if isinstance(content, list) else content


def strict_json(raw: bytes) -> Any:
    """Parse untrusted JSON; refuse duplicate keys, non-finite or huge numbers, and deep nesting."""
    try:
        content = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_such_number,
            parse_int=_whole,
            parse_float=_finite,
        )
        _check_depth(content)
    except UnicodeDecodeError:
        raise refusal("its manifest is not UTF-8 text") from None
    except RecursionError:
        raise refusal("its manifest is nested too deeply") from None
    except json.JSONDecodeError:
        raise refusal("its manifest is not JSON") from None
    return content


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Object of key-value pairs, or a refusal of duplicate keys."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise refusal("its manifest has a key twice")
    return content


def _no_such_number(text: str) -> NoReturn:
    """Refuse NaN and infinities."""
    raise refusal(f"its manifest holds {text}, which is not a number")


def _whole(text: str) -> int:
    """Parse an integer of bounded length."""
    if len(text) > MOST_DIGITS:
        raise refusal(f"its manifest holds a number of more than {MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    """Parse a finite float."""
    number = float(text)
    return number if math.isfinite(number) else _no_such_number("a number too large")


def _check_depth(content: Any) -> None:
    """Raise RecursionError beyond the maximal depth, without recursion."""
    level, depth = [content], 0
    while level:
        if depth > MOST_DEPTH:
            raise RecursionError
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        depth += 1
