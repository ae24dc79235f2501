"""The parts a composed family is made of."""

from __future__ import annotations

from sfumato.errors import QueryError
from sfumato.queries.base import Queries


def check_parts(parts: tuple[Queries, ...], what: str) -> None:
    """Refuse to compose nothing, or what is not a family."""
    if not parts:
        raise QueryError(f"{what} needs at least one family of queries")
    for part in parts:
        if not isinstance(part, Queries):
            raise QueryError(f"{what} is made of families of queries such as Identity(5), not of {type(part).__name__}")


def listed(parts: tuple[Queries, ...]) -> str:
    """The parts in a few words."""
    return ", ".join(map(repr, parts[:4])) + (f", ... {len(parts) - 4} more" if len(parts) > 4 else "")
