"""Where a query comes from: the command itself, stdin, or a file of many."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import QueryError
from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Statements:
    """What is asked. many: from a file, where there may be several; then an answer goes with its statement."""

    texts: list[str]
    many: bool = False
    where: str = ""

    @contextmanager
    def named(self, place: int) -> Iterator[None]:
        """Say of a refusal which statement it is about, where there are several."""
        try:
            yield
        except QueryError as problem:
            if not self.many:
                raise
            raise type(problem)(f"{self.where}, statement {place + 1} of {len(self.texts)}: {problem}") from None


def statements_in(given: str) -> Statements:
    """The statement itself; `-` for one from stdin; `@FILE` for those of a file, `@-` for those of stdin."""
    if given == "-":
        return Statements([_stdin()])
    if not given.startswith("@"):
        return Statements([given])
    from sfumato.sql import read_workload

    name = given.removeprefix("@")
    texts = read_workload(_stdin() if name == "-" else _file(Path(name)))
    where = "stdin" if name == "-" else name
    if not texts:
        raise QueryError(f"{where} holds no query; write SELECT statements, separated by semicolons")
    return Statements(texts, many=True, where=where)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except ValueError:
        raise QueryError("stdin is no UTF-8 text; pass SELECT statements") from None


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is no UTF-8 text"
        raise QueryError(
            f"{path} cannot be read ({reason}); name a text file of SELECT statements", kind="file"
        ) from None


def beside_their_statements(answers: list[tuple[str, str]]) -> str:
    """JSON texts, each in one object with its statement: a list as "rows", an object as it is."""
    import json

    def joined(text: str, answer: str) -> str:
        return f'{{"sql": {json.dumps(text)},\n' + (f'"rows": {answer}}}' if answer.startswith("[") else answer[1:])

    return "[" + ",\n".join(joined(*one) for one in answers) + "]"
