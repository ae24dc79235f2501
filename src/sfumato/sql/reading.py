"""Parse SQL text to a syntax tree: the only module that calls sqlglot's parser, with its errors as one line.

DESCRIBE, which lists the columns, is recognised here too.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.effort import DEEPEST, MOST_CHARACTERS, MOST_LEVELS, OF_A_NODE, counted, spend
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.scope import unsupported
from sfumato.sql.spellings import REWRITTEN, TOP, in_one_spelling

if TYPE_CHECKING:
    from sqlglot import exp

_OTHER_NAMES = ("STRING_AGG", "LISTAGG", "MAX_BY", "MIN_BY")  # of functions that the parser keeps no place of

WRITE_AS_OF = "write FROM the table AS OF '2026-11', or whatever its period is called"

_PIECES = re.compile(
    r"""(?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
      | (?P<text> '[^']*(?:''[^']*)*(?:'|\Z) | "[^"]*(?:""[^"]*)*(?:"|\Z) | [^;'"/\-]+ | . )""",
    re.VERBOSE | re.DOTALL,
)


def read_workload(text: str) -> list[str]:
    """The statements of a .sql file, without those that are empty or only comments.

    >>> read_workload("SELECT 1; -- one; two\\nSELECT ';';")
    ['SELECT 1', "-- one; two\\nSELECT ';'"]
    """
    statements: list[str] = []
    pieces: list[str] = []
    says_something = False
    for piece in _PIECES.finditer(text):
        if piece[0] != ";":
            pieces.append(piece[0])
            says_something |= piece["text"] is not None and not piece[0].isspace()
            continue
        if says_something:
            statements.append("".join(pieces).strip())
        pieces, says_something = [], False
    return [*statements, "".join(pieces).strip()] if says_something else statements


_AS_OF = re.compile(r"\bas\s+of\b|\bsystem_time\b|\bat\s*\(|\bsystem\s+time\b", re.IGNORECASE)
_BARE_AS_OF = re.compile(
    r"""(?<! SYSTEM_TIME ) (?<! TIMESTAMP ) (?<! VERSION ) (?P<before> \s | \A ) AS \s+ OF (?: \s+ SYSTEM \s+ TIME )?
        (?: \s+ (?: DATE | TIMESTAMP ) )? (?P<after> \s* ) \Z""",
    re.VERBOSE | re.IGNORECASE,
)


_OF_TIME = frozenset({"SYSTEM_TIME", "TIMESTAMP", "VERSION", "AT", "BEFORE", "END"})  # where a table is of a time


def _as_of_in_full(text: str) -> str:
    """The text with FROM t AS OF '2026-11' as the standard writes it: FROM t FOR SYSTEM_TIME AS OF '2026-11'."""
    if _AS_OF.search(text) is None:
        return text
    pieces = [piece[0] for piece in _PIECES.finditer(text)]
    for place, following in enumerate(pieces[1:]):
        if following.startswith("'"):
            pieces[place] = _BARE_AS_OF.sub(r"\g<before> FOR SYSTEM_TIME AS OF\g<after>", pieces[place])
    return "".join(pieces)


def period_asked(text: object, schema: Schema) -> str | None:
    """The period that a statement states as AS OF '2026-11' behind every table; None where it states none."""
    if not isinstance(text, str) or _AS_OF.search(text) is None:
        return None
    with compiling():
        return as_of(parse(text, schema=schema))


def as_of(tree: exp.Expression) -> str | None:
    """Remove AS OF from the tables of a syntax tree and return its period; None where it states none.

    Different periods in one statement, and any other time of a table, are refused by name.
    """
    from sqlglot import exp

    if _OF_TIME.isdisjoint(tree.meta.get("words", _OF_TIME)):
        return None
    made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    stated = set[str | None]()
    for table in tree.find_all(exp.Table):
        version = table.args.get("version")
        if table.args.get("when") is not None or (version is not None and version.args.get("kind") != "AS OF"):
            raise unsupported("a table of another time than AS OF one period", WRITE_AS_OF)
        if version is not None:
            said = version.expression
            said = said.this if said.key == "cast" else said
            if not (said.key == "literal" and said.is_string):
                raise unsupported("AS OF anything but a period as text", WRITE_AS_OF)
            stated.add(said.name)
            table.set("version", None)
        elif table.db or table.name.lower() not in made:
            stated.add(None)
    if len(stated) > 1:
        named = sorted(each for each in stated if each is not None)
        which = f"AS OF {' and '.join(repr(each) for each in named)}" if named[1:] else "AS OF behind some tables only"
        raise unsupported(
            f"{which} in one statement", "write the same AS OF behind every table, or ask in two statements"
        )
    return next(iter(stated), None)


def parameters_apart(text: str) -> str:
    """The text with a blank after each $1, outside of quotes and comments: `$1,$` would open a text in dollar signs.

    >>> parameters_apart("a IN ($1,$2) AND b = '$3'")
    "a IN ($1 ,$2 ) AND b = '$3'"
    """
    if "$" not in text:
        return text

    def apart(piece: re.Match[str]) -> str:
        plain = piece["text"] and piece[0][0] not in "'\""
        return re.sub(r"\$([0-9]+)", r"$\1 ", piece[0]) if plain else piece[0]

    return _PIECES.sub(apart, text)


def parse(text: str, dialect: str = "duckdb", schema: Schema | None = None) -> exp.Expression:
    """The syntax tree of the one statement in a text. dialect: whose SQL it is; releases read DuckDB's alone.

    schema: of the table that is asked about; a complaint names its columns that are reserved words.
    """
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError

    if not isinstance(text, str):
        raise QueryError(f"a query is text, not {type(text).__name__}")
    _check_size(text)
    full = _as_of_in_full(text)
    try:
        with silence(), room_to_nest():
            read = "tsql" if dialect == "duckdb" and TOP.search(text) else dialect  # which alone has SELECT TOP 3
            statements: list[Any] = [tree for tree in sqlglot.parse(full, read=read) if tree is not None]
    except ParseError as error:
        meant = text if schema is None else _columns_quoted(text, schema)
        if meant != text:
            with suppress(QueryError):
                return parse(meant, dialect)
        more = "; AS OF stands behind the table's name, before its alias" if full != text else ""
        more = more or (_reserved(text, schema) if schema else "")
        raise QueryError(_parse_complaint(error.errors) + more) from None
    except SqlglotError:
        raise QueryError("this SQL cannot be read: a quotation mark or a comment is opened and not closed") from None
    except RecursionError:
        raise too_deep() from None
    if not statements:
        raise QueryError("the query is empty; write SELECT COUNT(*) FROM ...")
    if len(statements) > 1:
        raise unsupported(f"a text of {len(statements)} statements", "ask them one at a time")
    tree: exp.Expression = statements[0]
    if tree.key == "select" and not tree.expressions:
        raise QueryError("the query selects nothing; write SELECT COUNT(*) FROM ...")
    words = _remember_names(tree, full)
    spend(OF_A_NODE * sum(1 for _ in tree.walk()))
    return in_one_spelling(tree) if dialect == "duckdb" and not words.isdisjoint(REWRITTEN) else tree


class Words(frozenset[str]):
    """The words of a text, which all nodes of its syntax tree share, and the copies of these too."""

    def __deepcopy__(self, _memo: object) -> Words:
        return self


def _remember_names(tree: exp.Expression, text: str) -> Words:
    """Store in each node its function's name as written, which the parser may change; return all words of the text.

    Refuse a tree of too many levels, where a chain of AND or of OR is one level.
    """
    from sqlglot import exp

    words = Words(re.findall(r"\w+", text.upper()))
    levels: dict[int, int] = {}
    for node in tree.walk():  # parents first
        parent = node.parent
        alike = parent is not None and node.key == parent.key and node.key in ("and", "or")
        levels[id(node)] = levels.get(id(parent), 0) + (not alike)
        if levels[id(node)] > MOST_LEVELS:
            raise too_deep()
        node.meta["words"] = words
        if isinstance(node, exp.Func) and "start" in node.meta:
            node.meta["written"] = text[node.meta["start"] : node.meta["end"] + 1]
            continue
        names = [*node.sql_names(), *_OTHER_NAMES] if isinstance(node, exp.Func) else [node.key.upper()]
        if found := [name for name in names if name in words]:
            node.meta["written"] = found[0]
    return words


def too_deep() -> QueryError:
    """The error for a query whose nesting exhausts the stack."""
    return QueryError(
        f"the query is nested too deeply, and {DEEPEST} parentheses or {MOST_LEVELS} levels are the most; write it "
        "with fewer parentheses, NOT, CASE or operators"
    )


def _check_size(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"the query is too long: at most {MOST_CHARACTERS:,} characters are read; ask in parts")
    depth = brackets = 0
    for piece in _PIECES.finditer(text):
        if piece["text"] and piece[0][0] not in "'\"":
            for character in piece[0]:
                depth += (character in "([{") - (character in ")]}")
                brackets += character == "["  # the parser goes back to the first of a[1][1]... at each of them
                if depth > DEEPEST or brackets > MOST_LEVELS:
                    raise too_deep()


def _parse_complaint(errors: list[dict[str, Any]]) -> str:
    """One line without colours: what is wrong and where."""
    first = errors[0] if errors else {}
    what = str(first.get("description") or "unexpected text").partition(" but got ")[0].partition("<")[0].strip()
    if what.startswith("Required keyword"):
        what = "something is missing"
    elif "Unexpected token" in what:
        what = "unexpected text"
    near = " ".join(str(first.get("highlight") or "").split())[:40]
    place = f" at line {first.get('line')}, column {first.get('col')}" if first.get("line") else ""
    return f"this SQL cannot be read: {what[0].lower()}{what[1:]}{place}" + (f", near {near!r}" if near else "")


MOST_TRIED = 20  # columns of a text that cannot be read


_KEYWORDS = {"alter", "drop", "force", "grant", "if", "insert", "install", "lock", "map", "revoke", "rollback"}


def _columns_quoted(text: str, schema: Schema) -> str:
    """The text with columns in double quotes whose names the parser takes for keywords, and databases do not."""
    names = {name.lower(): name for name in (*schema.attributes, *schema.measures) if name.lower() in _KEYWORDS}
    if not names:
        return text
    word = re.compile(rf"\b(?:{'|'.join(names)})\b(?!\s*\()", re.IGNORECASE)
    pieces = []
    for piece in _PIECES.finditer(text):
        plain = piece["text"] and piece[0][0] not in "'\""
        pieces.append(word.sub(lambda found: f'"{names[found[0].lower()]}"', piece[0]) if plain else piece[0])
    return "".join(pieces)


def _reserved(text: str, schema: Schema) -> str:
    """Suggestion to quote columns whose names are reserved words of SQL."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    pieces = (piece["text"] for piece in _PIECES.finditer(text) if piece["text"] and piece[0][0] not in "'\"")
    words = {word.lower() for piece in pieces for word in re.findall(r"\w+", piece)}
    found = []
    for name in [name for name in (*schema.attributes, *schema.measures) if name.lower() in words][:MOST_TRIED]:
        try:
            with silence():
                sqlglot.parse(f"SELECT {name} FROM t", read="duckdb")
        except SqlglotError:
            found.append(f'"{name}"')
    if not found:
        return ""
    listed, meant = ", ".join(found), "columns are meant" if len(found) > 1 else "column is meant"
    return f"; if the {meant}, write {listed} in double quotes, as without them it is a word of SQL"


MOST_FRAMES = 6_000  # calls within each other: the parser needs 23 for a parenthesis, and Python allows 1,000

_ROOM = {"blocks": 0, "before": 0}
_ROOM_LOCK = Lock()


@contextmanager
def room_to_nest() -> Iterator[None]:
    """Let calls nest as deep as a statement within the limits needs, whatever the limit of Python; in all threads."""
    with _ROOM_LOCK:
        if not _ROOM["blocks"]:
            _ROOM["before"] = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_ROOM["before"], MOST_FRAMES))
        _ROOM["blocks"] += 1
    try:
        yield
    finally:
        with _ROOM_LOCK:
            _ROOM["blocks"] -= 1
            if not _ROOM["blocks"]:
                sys.setrecursionlimit(_ROOM["before"])


@contextmanager
def silence() -> Iterator[None]:
    """Keep sqlglot from printing about syntax that it does not know; we report that ourselves."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def compiling() -> Iterator[None]:
    """Bound the work of compiling a statement, quietly; nesting that exhausts the stack is refused in words."""
    try:
        with silence(), counted(), room_to_nest():
            yield
    except RecursionError:
        raise too_deep() from None


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
