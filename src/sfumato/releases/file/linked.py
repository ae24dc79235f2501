"""File of linked tables: a zip with `tables.json` first and then a release file for each table, byte for byte.

It is made as a series file is (series.py): parts are chained, and the digest of the head, which a signature is about,
covers every byte of every table and what is said of their links. A table comes after the table that it belongs to. The
file is written once, whole or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import field
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.releases.file.artifact import (
    TABLES_FILE,
    Artifact,
    Layout,
    opened_for_reading,
    read_body,
    read_directory,
    read_members,
)
from sfumato.releases.file.consistency import usual_bound
from sfumato.releases.file.records import Text, record, refusal
from sfumato.releases.file.series import (
    MOST_HEAD_BYTES,
    KeptOpen,
    PartRecord,
    PartsFile,
    check_entry,
    check_listed,
    check_parts,
    checked_head,
    part_record,
    write_parts,
)
from sfumato.schema import Schema
from sfumato.version import __version__

MOST_TABLES = 32
TABLES = Layout(TABLES_FILE, MOST_HEAD_BYTES, re.compile(r"part_[0-9]{4}\.sfumato"), MOST_TABLES)

Rows = Annotated[int, Field(ge=1, lt=2**62)]


@record
class TableRecord:
    """Link of a table to its parent. belongs_to: the parent table. by: column with the key of a row's parent.

    key: column that identifies this table's own rows. at_most: most rows with one parent. limit: most rows of one
    privacy unit. carried: columns taken from a table above it. counts: by child table, the column of this table with a
    row's number of children.
    """

    name: Text
    limit: Rows
    belongs_to: Text | None = None
    by: Text | None = None
    key: Text | None = None
    at_most: Rows | None = None
    carried: list[Text] = field(default_factory=list)
    counts: dict[Text, Text] = field(default_factory=dict)


@record
class LinkedHead:
    """Head of a file of linked tables: dataset, links, and an entry for each table in the same order.

    receipt: of the one reservation that paid for all tables.
    """

    dataset: Text
    tables: Annotated[list[TableRecord], Field(min_length=1, max_length=MOST_TABLES)]
    parts: Annotated[list[PartRecord], Field(min_length=1, max_length=MOST_TABLES)]
    receipt: dict[str, JsonValue] | None = None
    format: Literal["sfumato linked tables"] = "sfumato linked tables"
    version: Literal[1] = 1
    written_by: Text = field(default=f"sfumato {__version__}")


@dataclass(frozen=True, eq=False)
class LinkedFile(PartsFile):
    """Opened file of linked tables."""

    head: LinkedHead

    def check(self, artifact: Artifact, part: PartRecord) -> None:
        check_entry(artifact, part)
        check_table(artifact.schema, self.head.tables[part.number - 1])


def check_tables(tables: Sequence[TableRecord]) -> None:
    """Refuse links that no linked schema has: parents come first, and limits multiply along links."""
    above: dict[str, TableRecord] = {}
    for table in tables:
        if table.name.lower() in above:
            raise refusal(f"it has two tables {table.name}")
        parent = None if table.belongs_to is None else above.get(table.belongs_to.lower())
        if len({table.belongs_to is None, table.by is None, table.at_most is None}) > 1:
            raise refusal(f"the link of its table {table.name} is not whole")
        if table.belongs_to is not None and (parent is None or parent.key is None):
            raise refusal(f"its table {table.name} belongs to no table before it that has a key")
        if parent is not None and table.limit != parent.limit * (table.at_most or 1):
            raise refusal(f"the limit of its table {table.name} is not that of its links")
        if parent is None and table.carried:
            raise refusal(f"its table {table.name} carries columns of no table")
        above[table.name.lower()] = table
    for table in tables:
        below = {each.name for each in tables if each.belongs_to == table.name}
        if not set(table.counts) <= below:
            raise refusal(f"its table {table.name} counts rows of tables that do not belong to it")


def check_table(schema: Schema, table: TableRecord) -> None:
    """Refuse a table's release that is of another table, or of another limit or columns than its link says."""
    named = {*schema.attributes, *schema.measures}
    if schema.dataset != table.name:
        raise refusal("it is the release of another table")
    if schema.privacy_unit.contributions != table.limit:
        raise refusal("its rows of one privacy unit are not as many as its link says")
    if not {*table.carried} <= named or not {*table.counts.values()} <= {*schema.attributes}:
        raise refusal("it has not the columns that its link says")


def open_linked(path: str | os.PathLike[str], most_cells: int | None = None) -> LinkedFile:
    """Open an untrusted file of linked tables; refuse whatever `write_linked` would not have written."""
    with opened_for_reading(path) as (opened, size, shown):
        entries = read_directory(opened, size, TABLES)
        head, digest = checked_head(read_body(opened, entries[0]), LinkedHead, 1)
        check_head(head)
        check_listed(entries, head.parts)
        file = KeptOpen(os.dup(opened.fileno()))  # the same file, even if another takes its name
    return LinkedFile(shown, head, digest, tuple(entries), file, most_cells)


def check_head(head: LinkedHead) -> None:
    """Refuse a head whose links or chain are broken."""
    check_tables(head.tables)
    check_parts(head.parts)
    if [table.name for table in head.tables] != [part.period for part in head.parts]:
        raise refusal("its parts are not those of its tables")


def write_linked(
    path: str | os.PathLike[str],
    dataset: str,
    tables: Sequence[tuple[TableRecord, str | os.PathLike[str]]],
    receipt: dict[str, JsonValue] | None = None,
) -> str:
    """Write a file of linked tables whole or not at all; return its digest. tables: each with its release file."""
    bodies, parts, unit = list[bytes](), list[PartRecord](), set[str | None]()
    for table, part in tables:
        with opened_for_reading(part) as (file, size, shown):
            raw = file.read()
            artifact = read_members(BytesIO(raw), size, shown, usual_bound(size))
            check_table(artifact.schema, table)
        bodies.append(raw)
        parts.append(part_record(artifact, raw, table.name, parts, correct=False))
        unit.add(artifact.schema.privacy_unit.column)
    if len(unit) > 1:
        raise ReleaseFileError("linked tables have one privacy unit, by one column; state it once", kind="input")
    head = LinkedHead(dataset, [table for table, _ in tables], parts, receipt)
    check_head(head)
    return write_parts(Path(path), TABLES_FILE, head, bodies)
