"""What Spark reads: a table of its catalogue, Parquet files, or a DataFrame; its columns in a form of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.spark.sessions import settled

# Formats that give each value as it was stored. Others work it out when it is read, from text or on another server,
# and some can be told to stop at a value.
STORED = {"parquet", "orc", "delta", "iceberg"}
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark notes that a text is of fixed width


@dataclass(frozen=True)
class Found:
    """A DataFrame over private rows. derived: whether they are worked out when they are read."""

    frame: Any = field(repr=False)  # for privacy: its repr can show rows
    shown: str
    derived: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, c0, c1, ... to the engine: names may come twice, or differ by case alone."""
        return tuple(
            Column(part.name, bare_type(part.dataType.simpleString()), f"c{place}", derived=self.derived)
            for place, part in enumerate(self.frame.schema.fields)
        )

    def cleaned(self, used: Sequence[Column], *, validates: bool) -> Any:
        """The used columns, texts by their bytes. validates: whether this Spark knows what valid UTF-8 is."""
        numbered = self.frame.toDF(*(f"c{place}" for place in range(len(self.frame.schema.fields))))
        parts = self.frame.schema.fields
        return numbered.selectExpr(*(_cleaned(column, parts[int(column.reference[1:])], validates) for column in used))


def bare_type(kind: str) -> str:
    """A type in capitals, without what is inside it, save the digits of decimals.

    >>> bare_type("string collate UTF8_LCASE"), bare_type("decimal(9,2)"), bare_type("struct<a:int>")
    ('STRING', 'DECIMAL(9,2)', 'STRUCT')
    >>> bare_type("char(5)"), bare_type("void"), bare_type("timestamp_ntz")
    ('STRING', 'NULL', 'TIMESTAMP_NTZ')
    """
    if re.fullmatch(r"decimal\([0-9, ]+\)", kind):
        return kind.upper()
    word = re.split(r"[ (<]", kind)[0]
    return {"char": "STRING", "varchar": "STRING", "void": "NULL"}.get(word, word.upper())


def _cleaned(column: Column, part: Any, validates: bool) -> str:
    """A column as the statement reads it.

    A text loses its collation, and the blanks that pad one of fixed width; one that is not valid is missing, as it is
    in Parquet files.
    """
    name = column.reference
    if column.type != "STRING":
        return name
    plain = f"CAST({name} AS STRING)"
    if str(part.metadata.get(_CHAR, part.dataType.simpleString())).startswith("char("):
        plain = f"RTRIM({plain})"
    if validates:
        return f"TRY_VALIDATE_UTF8({plain}) AS {name}"
    raw = f"CAST({plain} AS BINARY)"
    return f"CASE WHEN ENCODE(DECODE({raw}, 'UTF-8'), 'UTF-8') = {raw} THEN {plain} END AS {name}"


def find(session: Any, name: str | None, at: str) -> Found:
    """A table of a session's catalogue by its name, or Parquet files by their path. at: what a message calls it."""
    if name is None:
        raise TableError(f"no table was named at {at}; name one of its catalogue, or a path of Parquet files (--table)")
    if "/" in name or name.lower().endswith(".parquet"):
        try:
            with settled(session) as own:  # where names that differ by case alone are two
                return Found(own.read.parquet(name), name, derived=False)
        except Exception:
            refused = f"{name} at {at} cannot be read as Parquet; check the path, as that Spark sees it"
        raise TableError(refused)  # outside: for privacy, nothing of Spark's own error may be kept
    try:
        known = session.catalog.tableExists(name)
        frame = session.table(name) if known else None
        derived = known and not _is_stored(session, name)
    except Exception:
        known = False
    if not known:
        raise TableError(f"there is no table {name!r} at {at} that may be read; check its name and the catalogue")
    return Found(frame, f"the table {name}", derived)


def _is_stored(session: Any, name: str) -> bool:
    """Whether a table holds its values, as told by Spark's description of it."""
    if session.catalog.getTable(name).tableType not in ("MANAGED", "EXTERNAL"):
        return False
    quoted = ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in re.findall(r"`[^`]+`|[^.]+", name))
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    facts = {row["col_name"]: str(row["data_type"]).lower() for row in rows}
    if facts.get("Provider") == "hive":
        return any(kind in facts.get("Serde Library", "") for kind in ("parquet", "orc"))
    return facts.get("Provider") in STORED


def given(frame: Any) -> Found:
    """A DataFrame of the program: a plan, whose rows are worked out when they are read."""
    return Found(frame, "the Spark DataFrame", derived=True)
