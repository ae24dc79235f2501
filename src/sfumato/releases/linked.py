"""Linked tables as one release: statements are answered by the table, or the tables, that they are about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.ledger.composition import Loss, composed, sum_of_rho
from sfumato.releases.contents.linked import LinkedContent
from sfumato.releases.contents.series import Part
from sfumato.releases.file.linked import LinkedFile, TableRecord
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.release import Release, release_in
from sfumato.schema import Schema
from sfumato.sql.linked import LinkedTable, route

if TYPE_CHECKING:
    from sfumato.answers.results import Result
    from sfumato.releases.file.series import PartRecord

_OVERVIEW = re.compile(r"(?: show \s+ (?:all \s+)? tables | describe | desc ) \s* ;?", re.VERBOSE | re.IGNORECASE)
_DESCRIBED = re.compile(
    r"""(?: describe (?:\s+ table)? | desc | show \s+ columns \s+ (?: from | in ) ) \s+ (?P<name> "[^"]*" | \w+ ) \s* ;?""",
    re.VERBOSE | re.IGNORECASE,
)
HEADERS = ("table", "belongs_to", "by", "at_most", "rows_of_a_unit", "columns")


@dataclass(frozen=True, eq=False, repr=False)
class Linked(Release):
    """Release of several tables with one privacy unit."""

    content: LinkedContent

    @property
    def links(self) -> Sequence[TableRecord]:
        """Links between the tables, parents first."""
        assert self.content.file is not None  # noqa: S101 (linked tables are a file)
        return self.content.file.head.tables  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def tables(self) -> Mapping[str, Release]:
        """Release of each table, by name; parents first."""
        return _Opened({part.period: part for part in self.content.parts})

    @cached_property
    def _linked(self) -> dict[str, LinkedTable]:
        parts = {part.period: part.schema for part in self.content.parts}
        return {link.name.lower(): linked_table(link, parts[link.name]) for link in self.links}

    def query(self, sql: str, **manner: Any) -> Result:  # type: ignore[override]
        """Answer a statement about one table, or about several; DESCRIBE and SHOW TABLES list what there is."""
        if isinstance(sql, str) and _OVERVIEW.fullmatch(sql.strip()):
            return self._overview(manner.get("confidence", 0.95))
        if isinstance(sql, str) and (found := _DESCRIBED.fullmatch(sql.strip())):
            return self.table(found["name"].strip('"')).query("DESCRIBE", **manner)
        routed = route(sql, self._linked)
        if len(routed.tables) == 1:
            return self.tables[routed.tables[0]].query(routed.sql, **manner)
        return replace(super().query(routed.sql, **manner), counted=self._counted(routed.tables))

    def table(self, name: str) -> Release:
        """Release of one table."""
        for one in self.tables:
            if one.lower() == name.lower():
                return self.tables[one]
        raise QueryError(f"there is no table {name!r} here; there are {', '.join(self.tables)}")

    def _counted(self, names: Sequence[str]) -> str:
        from sfumato.schema.schema import counted_in_short

        every = {name: counted_in_short(self.tables[name].content.table_schema) for name in names}
        return "; ".join(f"of {name}, {rules}" for name, rules in every.items() if rules)

    def _overview(self, confidence: float) -> Result:
        from sfumato.answers.results import Result

        rows = [
            (
                link.name,
                link.belongs_to or "",
                link.by or "",
                "" if link.at_most is None else f"{link.at_most:,}",
                f"{link.limit:,}",
                ", ".join((*table.schema.attributes, *table.schema.measures)),
            )
            for link in self.links
            for table in (self._linked[link.name.lower()],)
        ]
        return Result(HEADERS, tuple(rows), confidence, notes=(self.guarantee.statement,))


class _Opened(Mapping[str, Release]):
    """Releases by name, each opened when it is asked for."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Release:
        return self._parts[name].release

    def __iter__(self) -> Any:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def linked_table(link: TableRecord, schema: Schema) -> LinkedTable:
    """What statements need to know of a table."""
    counts = {name.lower(): column for name, column in link.counts.items()}
    return LinkedTable(schema, link.belongs_to, link.by, link.key, frozenset(link.carried), counts)


def linked_in(file: LinkedFile) -> Linked:
    """An open file of linked tables as a release, whose guarantee is that of all tables together."""

    def part(record: PartRecord) -> Part:
        artifact = file.artifact(record)
        return Part(record.number, record.period, lambda: release_in(artifact), lambda: artifact.schema)

    parts = [part(record) for record in file.head.parts]
    tables = [linked_table(link, one.schema) for link, one in zip(file.head.tables, parts, strict=True)]
    content = LinkedContent.linked(file.head.dataset, parts, tables, file)
    names = dict.fromkeys(each.mechanism for each in file.head.parts)
    private = all(each.private for each in file.head.parts)
    return Linked(content, ", ".join(names), guarantee_of_tables(file, parts[0].schema), private)


def guarantee_of_tables(file: LinkedFile, first: Schema) -> Guarantee:
    """What all tables together promise to one privacy unit: the losses of the tables add up."""
    limits = " and ".join(f"{table.limit:,} of {table.name}" for table in file.head.tables)
    whom = f"the rows of any one {first.privacy_unit.column or 'row'} in all tables (at most {limits})"
    losses = [Loss(part.epsilon, part.delta, part.rho) for part in file.head.parts]
    found = composed(losses, None)
    return guarantee_of(found.epsilon, whom, delta=found.delta, rho=sum_of_rho(losses) if found.delta else None)
