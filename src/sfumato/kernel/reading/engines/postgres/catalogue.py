"""What a table holds, from the server's catalogue: names, types and what kind of table it is. No row is read."""

from __future__ import annotations

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.postgres.session import Session

TYPES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "REAL",
    "float8": "DOUBLE PRECISION",
    "numeric": "DECIMAL",
    "bool": "BOOLEAN",
    "text": "TEXT",
    "varchar": "TEXT",
    "bpchar": "TEXT",
    "name": "TEXT",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "uuid": "UUID",
}
SHOWN = 20  # tables in a message
_TABLES = """
SELECT n.nspname, c.relname, c.oid::bigint, c.relkind IN ('v', 'm') OR row_security_active(c.oid) OR EXISTS (
    WITH RECURSIVE parts(oid) AS (
        SELECT c.oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid)
    SELECT FROM parts p JOIN pg_class f ON f.oid = p.oid WHERE f.relkind = 'f'),
    has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_NAMED = " AND (n.nspname || '.' || c.relname = {0} OR c.relname = {0})"
_ALL = " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2"
_COLUMNS = """
WITH RECURSIVE types(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_attribute WHERE attrelid = {0} AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT d.attnum, t.typbasetype FROM types d JOIN pg_type t ON t.oid = d.oid WHERE t.typtype = 'd')
SELECT a.attname, a.attgenerated = 'v', t.typtype::text, t.typname, t.typnamespace = 'pg_catalog'::regnamespace,
    EXISTS (SELECT FROM pg_cast x WHERE x.castsource = t.oid AND x.casttarget = 'text'::regtype AND x.castmethod = 'b')
FROM types d JOIN pg_type t ON t.oid = d.oid JOIN pg_attribute a ON a.attrelid = {0} AND a.attnum = d.attnum
WHERE t.typtype <> 'd' ORDER BY a.attnum
"""


@dataclass(frozen=True)
class Relation:
    """A table by its full name, and its columns."""

    schema: str
    name: str
    columns: tuple[Column, ...]


def described(session: Session, name: str | None) -> Relation:
    """The table of this name, or schema.name, inside a transaction; its meaning is settled from then on."""
    path = session.settle()
    ((encoding,),) = session.rows("SELECT getdatabaseencoding()")
    if encoding != "UTF8":  # others have texts that cannot be put into UTF-8, and would stop a reading
        raise TableError(f"{session.address.shown} holds text as {encoding}; only databases in UTF8 can be read")
    found = [] if name is None else session.rows(_TABLES + _NAMED.format(_literal(name)))
    # As PostgreSQL looks for names: the first schema of the path; any other has to be named.
    of_path = [row for schema in path for row in found if row[0] == schema and row[1] == name]
    in_full = [row for row in found if f"{row[0]}.{row[1]}" == name]
    if not (of_path or in_full):
        raise TableError(f"{_asked(name)} in {session.address.shown}; it has {_there(session)}")
    schema, own, number, derived, allowed = (of_path or in_full)[0]
    session.table = f"{schema}.{own}"
    if not allowed:
        raise TableError(f"this account may not read {session.table}; ask for GRANT SELECT on it and USAGE on {schema}")
    columns = [
        Column(column, _type(kind, word, builtin, like_text), column, derived=derived or virtual)
        for column, virtual, kind, word, builtin, like_text in session.rows(_COLUMNS.format(int(number)))
    ]
    return Relation(schema, own, tuple(columns))


def _type(kind: str, word: str, builtin: bool, like_text: bool) -> str:
    """The type as sqlglot knows it; one that cannot be read as `type NAME`, which it does not."""
    if kind == "e":
        return "ENUM"
    if builtin:
        return TYPES.get(word, f"type {word}")
    return "TEXT" if like_text and kind == "b" else f"type {word}"  # such as citext


def _literal(name: str) -> str:
    from sqlglot import exp

    if "\0" in name:
        raise TableError("no table of PostgreSQL has a NUL in its name; check --table")
    return exp.Literal.string(name).sql(dialect="postgres")


def _asked(name: str | None) -> str:
    return "no table was named (--table)" if name is None else f"there is no table {name!r}"


def _there(session: Session) -> str:
    names = [f"{row[0]}.{row[1]}" for row in session.rows(_TABLES + _ALL) if row[-1]]
    more = ", ..." if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) + more) if names else "no tables that this account may read"
