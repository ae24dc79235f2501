"""Views of a session: CREATE TEMPORARY VIEW names a SELECT, which is written into the statements that ask it.

Nothing is stored: a view is a text that its connection keeps. ibis makes one to learn the columns of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from sfumato.serve.pgwire.protocol import TOO_LARGE, Column, Failure
from sfumato.serve.web.bounds import MOST_BODY
from sfumato.sql.reading import parse


class View(NamedTuple):
    """View of a session: its name, its statement, and the columns of its answer."""

    name: str
    text: str
    columns: tuple[Column, ...]


class Views:
    """The views of a session, in the order in which they were made; a later one may ask an earlier one."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def put(self, view: View, *, replace: bool) -> None:
        """Keep a view."""
        if view.name in self._views and not replace:
            raise Failure("42P07", "a view of this name is there already", "DROP VIEW it first")
        others = [one for name, one in self._views.items() if name != view.name]
        if sum(len(one.text) + 100 for one in (*others, view)) > MOST_BODY:
            raise Failure(TOO_LARGE, f"the views of a session have at most {MOST_BODY:,} characters", "DROP VIEW some")
        self._views = {one.name: one for one in (*others, view)}

    def drop(self, name: str, *, if_exists: bool) -> None:
        """Forget a view; an empty name means the last one."""
        name = name or next(reversed(self._views), "")
        if self._views.pop(name, None) is None and not if_exists:
            raise Failure("42P01", "there is no view of this name", "views last as long as their connection")

    def asked_by(self, text: str) -> tuple[View, ...]:
        """The views that a statement may ask, itself or by another view; all of them, if it looks up names."""
        if re.search(r"\bpg_|\binformation_schema\b", text, re.IGNORECASE):
            return tuple(self._views.values())
        asked: list[View] = []
        for view in reversed(self._views.values()):
            if any(view.name.lower() in one.lower() for one in (text, *(later.text for later in asked))):
                asked.append(view)
        return tuple(reversed(asked))


def with_views(tree: exp.Expression, views: Iterable[View], dialect: str = "duckdb") -> bool:
    """Define views by WITH in a statement that reads them; whether there were any. dialect: of the views' texts."""
    needed: list[Any] = []
    trees: list[Any] = [tree]
    for view in reversed(list(views)):
        read = [table for one in trees for table in _tables(one) if table.name == view.name]
        if not read:
            continue
        for table in read:
            table.set("db", None)
            table.set("catalog", None)
        inner = parse(view.text, dialect)
        trees.append(inner)
        needed.insert(0, exp.CTE(this=inner, alias=exp.TableAlias(this=exp.to_identifier(view.name, quoted=True))))
    if needed and isinstance(tree, exp.Query):
        own = tree.args.get("with_")
        tree.set("with_", exp.With(expressions=[*needed, *(own.expressions if own else [])]))
    return bool(needed)


def _tables(tree: Any) -> Sequence[Any]:
    made = {cte.alias for cte in tree.find_all(exp.CTE)}
    return [table for table in tree.find_all(exp.Table) if table.name not in made and table.db in ("", "public")]
