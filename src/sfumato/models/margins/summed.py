"""Sum of marginals of disjoint tables, such as those of two offices: a question is put to each, and answers add up.

Tables of two offices are not joined as one. If offices differ, what one attribute says of another differs between them,
and summed pairs would no longer tell what each office's pairs did. So every release stays as it is, and numbers are
added when a question is asked: noises are independent, model errors are added as those of the parts of a series are
(answers/parts.py), and guaranteed bounds are sums of bounds, each with its share of the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.answers.evaluate import View
from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.parts import NoiseOfParts, PartView, SourceOfParts, cells_of_parts
from sfumato.answers.question import Kinds
from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Noise
from sfumato.models.margins.content import Margins
from sfumato.models.margins.nested import NestedMargins
from sfumato.models.margins.noise import longest_tail
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import record, refusal
from sfumato.releases.parts import MOST_PARTS
from sfumato.releases.rows.from_parts import dealt_out
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, RowModel
from sfumato.schema import Schema

NOWHERE = ""  # name of the attribute that tells the tables apart: none
CAN_BE: dict[str, type[Margins | NestedMargins]] = {"margins": Margins, "nested-margins": NestedMargins}


@record
class OfTable:
    """Manifest entry of one of the tables: kind and details as a file of its own would have them."""

    kind: str
    details: dict[str, Any] = field(default_factory=dict)


@record
class SummedRecord:
    """Manifest entry of a sum."""

    of: list[OfTable]


@dataclass(frozen=True, eq=False)
class SummedMargins(ContentOfCells):
    """Marginals of several disjoint tables with one schema, whose counts and sums are added up."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    parts: tuple[Margins | NestedMargins, ...]

    @classmethod
    def of(cls, contents: Sequence[Margins | NestedMargins | SummedMargins]) -> SummedMargins:
        """Sum of releases, or of sums of them."""
        parts = [part for each in contents for part in (each.parts if isinstance(each, SummedMargins) else [each])]
        return cls(contents[0].schema, tuple(parts))

    def _views(self, kinds: Kinds) -> tuple[PartView, ...]:
        views, start = [], 0
        for number, part in enumerate(self.parts):
            view = part.view(kinds)
            views.append(PartView(number, view, start, view.cells.codes, {}, {}))
            start += view.cells.size
        return tuple(views)

    def view(self, kinds: Kinds) -> View:
        views = self._views(kinds)
        estimated = any(each.view.estimated for each in views)
        cells = cells_of_parts(views, NOWHERE, tuple(kinds))
        return View(self.schema, cells, NoiseOfParts(views, NOWHERE), estimated=estimated)

    def exact_at(self, confidence: float) -> float | None:
        every = [part.exact_at(confidence) for part in self.parts]
        known = [each for each in every if each is not None]
        return max(known) if len(known) == len(every) else None

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        return longest_tail(frozenset(one.noise for one in self.about.measured), confidence)

    def sure(self, kinds: Kinds) -> Source:
        return SourceOfParts(self._views(kinds), tuple(part.sure(kinds) for part in self.parts))

    def as_measured(self) -> SummedMargins:
        return replace(self, parts=tuple(part.as_measured() for part in self.parts))

    def cells(self) -> Floats:
        return np.asarray(sum(part.cells() for part in self.parts))

    @cached_property
    def row_model(self) -> RowModel:
        return RowsOfSum(tuple(part.row_model for part in self.parts))

    @property
    def about(self) -> About:
        every = [part.about for part in self.parts]
        extents = [*dict.fromkeys(each.extent for each in every)]
        errors = [*dict.fromkeys(each.errors for each in every)]
        measured = tuple(one for each in every for one in each.measured)
        extent = f"the sum of {len(every)} tables: {'; '.join(extents)}"
        return About(self.domain.names, extent, measured, f"tables are added up; of each, {'; '.join(errors)}")

    def write(self) -> Written:
        every = [part.write() for part in self.parts]
        members = {_named(name, at): each for at, one in enumerate(every) for name, each in one.members.items()}
        listed = [{"kind": one.kind, "details": one.further["details"]} for one in every]
        statistics = [replace(each, member=_named(each.member, 0)) for each in every[0].statistics]
        return Written("summed-margins", statistics, members, {"details": {"of": listed}})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        for kind, single in _parted(manifest):
            kind.check(single, schema)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        Margins.check_values(manifest, schema, columns)

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> SummedMargins:
        def of(at: int) -> Callable[[str], Columns]:
            return lambda name: member(_named(name, at))

        return cls(schema, tuple(kind.read(one, schema, of(at)) for at, (kind, one) in enumerate(_parted(manifest))))


def _named(member: str, at: int) -> str:
    """Name of a member of one of the tables."""
    return f"{member}_{at}"


def _parted(manifest: Manifest) -> list[tuple[type[Margins | NestedMargins], Manifest]]:
    """Kind of each table, and the manifest that a file of its own would have."""
    every = details_as(SummedRecord, manifest).of
    if not 2 <= len(every) <= MOST_PARTS or any(each.kind not in CAN_BE for each in every):
        raise refusal("its manifest has tables that no sum is made of")
    names, result = {*manifest.members}, list[tuple[type[Margins | NestedMargins], Manifest]]()
    statistics = [replace(one, member=one.member.removesuffix("_0")) for one in manifest.statistics]
    for at, each in enumerate(every):
        mine = [name for name in manifest.members if name.endswith(_named("", at))]
        members = {name.removesuffix(_named("", at)): manifest.members[name] for name in mine}
        own = replace(manifest, kind=each.kind, details=each.details, members=members, statistics=statistics)
        result.append((CAN_BE[each.kind], own))
        names -= {*mine}
    if names:
        raise refusal("it has members of no table")
    return result


@dataclass(frozen=True, eq=False)
class RowsOfSum:
    """Row sampler of a sum: a table in proportion to its rows, then a row of it."""

    models: tuple[RowModel, ...]

    @property
    def total(self) -> float:
        return sum(max(model.total, 0.0) for model in self.models)

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        return np.asarray(sum(model.margin(groupings) for model in self.models))

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        which, inside = dealt_out(np.array([max(model.total, 0.0) for model in self.models]), places)
        blocks = [
            model.draw(inside[which == at], random) for at, model in enumerate(self.models) if (which == at).any()
        ]
        return Block.joined(blocks)
