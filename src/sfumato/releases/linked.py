"""Linked tables as one release: statements are answered by the table, or the tables, that they are about.

Linked tables asked together: the cells of all tables, told apart by a column with the table's name.

A statement about one table is answered by that table's release (releases/linked.py). One about several, such as visits
for each person, is made of sums over cells of several releases with independent noise, as those of a series are
(contents/series.py): here a part is a table, and a column of one table may be unknown to the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.ledger.composition import Loss, composed, sum_of_rho
from sfumato.releases.contents.content import About
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.file.linked import LinkedFile, TableRecord, open_linked
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.release import Release, release_in
from sfumato.schema import Schema
from sfumato.schema.attributes import Category
from sfumato.schema.series import Series
from sfumato.sql.linked import TABLE, LinkedTable, route, shared_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.answers.regression import Regression
    from sfumato.answers.results import Result
    from sfumato.answers.survival import Survival
    from sfumato.releases.contents.content import ContentOfCells
    from sfumato.releases.description import Description
    from sfumato.releases.file.linked import LinkedFile
    from sfumato.releases.file.series import PartRecord
    from sfumato.releases.release import Release
    from sfumato.releases.rows.from_parts import RowsOfParts
    from sfumato.sql import Select

BY_NAME = Series(period="name", unit="person for ever", periods=1)  # parts are told apart by names


@dataclass(frozen=True, eq=False)
class LinkedContent(SeriesContent):
    """Tables in the order of their links, parents first. Its columns are those that mean the same wherever they are."""

    along: ClassVar[str] = TABLE

    @classmethod
    def linked(
        cls, dataset: str, parts: Sequence[Part], tables: Sequence[LinkedTable], file: LinkedFile
    ) -> LinkedContent:
        """Content of tables, each a part."""
        names = tuple(part.period for part in parts)
        attributes = {TABLE: Category(values=names, column=TABLE)}
        shared, measures = shared_columns(tables), {name for one in tables for name in one.schema.measures}
        schema = Schema(
            dataset=dataset,
            privacy_unit=parts[0].schema.privacy_unit,
            attributes=attributes | {name: part for name, part in shared.items() if name not in measures},
            measures={name: part for name, part in shared.items() if name in measures},
        )
        return cls(schema, BY_NAME, tuple(parts), file)

    @property
    def tables(self) -> dict[str, Release]:
        return {part.period: part.release for part in self.parts}

    @property
    def newest(self) -> ContentOfCells:
        return self.parts[0].content

    @property
    def table_schema(self) -> Schema:
        return self.parts[0].schema

    def complete(self) -> LinkedContent:
        return self

    def asked_by(self, select: Select) -> LinkedContent:
        if not any(amount.predicate.boxes for amount in select.amounts):  # sums that cancel each other are of no rows
            return replace(self, parts=self.parts[:1])
        found = super().asked_by(select)
        assert isinstance(found, LinkedContent)  # noqa: S101 (it is this one with fewer parts)
        return found

    def _units(self, part: Part) -> dict[str, dict[str, float]]:
        return {}  # columns of other steps are not shared

    def _refuse(self, lacks: str, periods: Sequence[str]) -> NoReturn:
        name = lacks.split(" was not yet ", maxsplit=1)[0]
        raise QueryError(f"{name} is no column of {' and '.join(periods)}; ask each table by its own columns")

    def as_of(self, period: str) -> NoReturn:
        raise QueryError("linked tables are no series, so no period of them leans on others; ask without AS OF")

    @property
    def row_model(self) -> RowsOfParts:
        raise QueryError("rows are drawn table by table: SELECT * FROM one of them, or `sfumato sample` for all")

    @property
    def limits(self) -> str:
        """Rows of one privacy unit in each table, in words."""
        return "at most " + ", ".join(
            f"{part.schema.privacy_unit.contributions:,} of {part.period}" for part in self.parts
        )

    @property
    def about(self) -> About:
        every = [(part.period, part.release.content.about) for part in self.parts]
        extent = f"{len(every)} linked tables: " + "; ".join(f"{name}: {about.extent}" for name, about in every)
        errors = "every table has noise of its own; " + "; ".join(f"{name}: {about.errors}" for name, about in every)
        measured = tuple(one for _, about in every for one in about.measured)
        findings = tuple(f"{name}: {one}" for name, about in every for one in about.findings)
        return About(self.domain.names, extent, measured, errors, findings)


_OVERVIEW = re.compile(r"(?: show \s+ (?:all \s+)? tables | describe | desc ) \s* ;?", re.VERBOSE | re.IGNORECASE)
_DESCRIBED = re.compile(
    r"""(?: describe (?:\s+ table)? | desc | show \s+ columns \s+ (?: from | in ) )
        \s+ (?P<name> "[^"]*" | \w+ ) \s* ;?""",
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
        return self.content.file.head.tables  # type: ignore[no-any-return]

    @property
    def tables(self) -> Mapping[str, Release]:
        """Release of each table, by name; parents first."""
        return self.content.tables

    @cached_property
    def _linked(self) -> dict[str, LinkedTable]:
        parts = {part.period: part.schema for part in self.content.parts}
        return {link.name.lower(): linked_table(link, parts[link.name]) for link in self.links}

    def query(self, sql: str, *, own: str | None = None, **manner: Any) -> Result:
        """Answer a statement about one table, or about several; DESCRIBE and SHOW TABLES list what there is.

        own: table that is meant by FROM release. manner: as a release of one table takes it.
        """
        if _OVERVIEW.fullmatch(str(sql).strip()):
            return self._overview(manner.get("confidence", 0.95))
        if found := _DESCRIBED.fullmatch(str(sql).strip()):
            return one_table(self, found["name"].strip('"')).query("DESCRIBE", **manner)
        of, text = self.routed(sql, own, manner.get("tables") or ())
        if of is not self:
            return of.query(text, **manner)
        return replace(super().query(text, **manner), counted=self._counted)

    def routed(self, sql: str, own: str | None = None, brought: Iterable[str] = ()) -> tuple[Release, str]:
        """Table that answers a statement, or all. own: the table of FROM release. brought: public tables to join."""
        meant = {} if own is None else {"release": self._linked[own.lower()]}
        found = route(sql, self._linked | meant, brought)
        return (self.table(found.tables[0]) if len(found.tables) == 1 else self), found.sql

    def served(self) -> list[TableOfLinked]:
        """Each table as a release by itself, with the promise of all, which answers statements about the others too."""
        return [
            TableOfLinked(
                one.content, one.mechanism, self.guarantee, one.private, self.receipt, None, one.options, self
            )
            for one in self.tables.values()
        ]

    def table(self, name: str) -> Release:
        """Release of one table."""
        for part in self.content.parts:
            if part.period.lower() == name.lower():
                return part.release
        there = ", ".join(part.period for part in self.content.parts)
        raise QueryError(f"there is no table {name!r} here; there are {there}")

    def regress(self, formula: str, **asked: Any) -> Regression:
        there = ", ".join(link.name for link in self.links)
        raise QueryError(f"a regression is of one table; take it from .tables, which has {there}")

    def survival(self, time: str, event: str, **asked: Any) -> Survival:
        there = ", ".join(link.name for link in self.links)
        raise QueryError(f"survival curves are of one table; take them from .tables, which has {there}")

    def sample_tables(self, rows: int | None = None, *, seed: int | None = None) -> dict[str, pa.Table]:
        """Draw synthetic rows of all tables, with keys that match. rows: of each table that belongs to none."""
        from sfumato.answers.export import as_synthetic
        from sfumato.releases.rows.from_parts import draw_linked

        drawn = draw_linked(self.tables, self.links, rows, seed)
        return {name: as_synthetic(one.rows, name) for name, one in drawn.items()}

    def describe(self, *, confidence: float = 0.95, with_errors: bool = True) -> Description:
        """Describe all tables together; `tables` has a release for each, which describes itself."""
        from sfumato.releases.description import example_queries

        found = super().describe(confidence=confidence, with_errors=False)
        every = tuple(text for one in self.tables.values() for text in example_queries(one.schema)[:2])
        return replace(found, counted=(), examples=every)

    @property
    def _counted(self) -> str:
        """Counted columns of each table: rows of child tables per row."""
        from sfumato.schema.schema import counted_in_short

        every = {name: counted_in_short(one.content.table_schema) for name, one in self.tables.items()}
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


@dataclass(frozen=True, eq=False, repr=False)
class TableOfLinked(Release):
    """Release of one of several linked tables; statements may join the others. whole: the release of all of them."""

    whole: Linked | None = None

    def routed(self, sql: str) -> tuple[Release, str]:
        assert self.whole is not None  # noqa: S101 (it is never without)
        return self.whole.routed(sql, self.schema.dataset)

    def query(self, sql: str, **manner: Any) -> Result:
        assert self.whole is not None  # noqa: S101 (it is never without)
        if str(sql).strip().rstrip("; ").lower() in ("describe", "desc"):
            return super().query(sql, **manner)
        return self.whole.query(sql, own=self.schema.dataset, **manner)


def linked_table(link: TableRecord, schema: Schema) -> LinkedTable:
    """Description of a table for routing statements."""
    counts = {name.lower(): column for name, column in link.counts.items()}
    return LinkedTable(schema, link.belongs_to, link.by, link.key, frozenset(link.carried), counts)


def linked_in(file: LinkedFile) -> Linked:
    """Release over an open file of linked tables, with the guarantee of all tables together."""

    def part(record: PartRecord) -> Part:
        artifact = file.artifact(record)
        return Part(record.number, record.period, lambda: release_in(artifact), lambda: artifact.schema)

    parts = [part(record) for record in file.head.parts]
    tables = [linked_table(link, one.schema) for link, one in zip(file.head.tables, parts, strict=True)]
    content = LinkedContent.linked(file.head.dataset, parts, tables, file)
    names = dict.fromkeys(each.mechanism for each in file.head.parts)
    private = all(each.private for each in file.head.parts)
    return Linked(content, ", ".join(names), guarantee_of_tables(file, parts[0].schema), private, file.head.receipt)


def opened(path: str | Path, most_cells: int | None = None) -> tuple[str, Callable[[], Release]]:
    """Digest of a file of linked tables, and a function that opens it."""
    file = open_linked(path, most_cells)
    return file.digest, partial(linked_in, file)


def guarantee_of_tables(file: LinkedFile, first: Schema) -> Guarantee:
    """Guarantee of all tables together to one privacy unit: the losses of the tables add up."""
    limits = " and ".join(f"{table.limit:,} of {table.name}" for table in file.head.tables)
    whom = f"the rows of any one {first.privacy_unit.column or 'row'} in all tables (at most {limits})"
    losses = [Loss(part.epsilon, part.delta, part.rho) for part in file.head.parts]
    rho, delta = sum_of_rho(losses), max(loss.delta for loss in losses)
    found = composed(losses, delta if rho is not None and delta else None)  # in rho, at the delta that was asked for
    return guarantee_of(found.epsilon, whom, delta=found.delta, rho=rho if found.delta else None)


def one_table(release: Release, name: str | None) -> Release:
    """The release of a table that is named, where tables are linked; any other release is that of its one table.

    What it promises is what all tables of the file promise together, for a reader of one has the others too.
    """
    if isinstance(release, Linked):
        if name is None:
            there = ", ".join(link.name for link in release.links)
            raise QueryError(f"this file has several tables: {there}; name one with --table, or take it from .tables")
        return replace(release.table(name), guarantee=release.guarantee, receipt=release.receipt)
    if name is not None and name.lower() != release.schema.dataset.lower():
        raise QueryError(f"there is no table {name!r} here; this is a release of {release.schema.dataset} alone")
    return release
