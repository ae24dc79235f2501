"""Linked tables asked together: the cells of all tables, told apart by a column with the table's name.

A statement about one table is answered by that table's release (releases/linked.py). One about several, such as visits
for each person, is made of sums over cells of several releases with independent noise, as those of a series are
(contents/series.py): here a part is a table, and a column of one table may be unknown to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NoReturn

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.contents.content import About
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.schema import Schema
from sfumato.schema.attributes import Category
from sfumato.schema.series import Series
from sfumato.sql.linked import TABLE, LinkedTable, shared_columns

if TYPE_CHECKING:
    from sfumato.releases.contents.content import ContentOfCells
    from sfumato.releases.file.linked import LinkedFile
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
