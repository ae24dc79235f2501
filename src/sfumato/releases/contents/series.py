"""Series: the releases of one table for many periods, asked as one table with a column `period`.

Every part is a release with a content of its own, opened when a question touches its period. The cells of a question
are the cells of the parts one after the other, with independent noise (answers/parts.py). The schema is the newest
part's; it may have grown since earlier ones: a part answers what names neither a column nor a value that it did not
have, and a question that does is refused with the condition on `period` that leaves such parts out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Axis, ValueSet
from sfumato.domain.predicates import cover
from sfumato.errors import QueryError, ReleaseFileError, SchemaError
from sfumato.frozen import dataclass
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.members import Columns
from sfumato.schema import Schema
from sfumato.schema.attributes import Category, Date
from sfumato.schema.attributes.lists import OTHER
from sfumato.schema.schema import missing_of
from sfumato.schema.series import PERIOD, Series

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.answers.evaluate import View
    from sfumato.answers.parts import PartView, SourceOfParts
    from sfumato.answers.question import Kinds, Manner
    from sfumato.answers.results import Result
    from sfumato.measurement import Noise
    from sfumato.releases.file.series import PartsFile
    from sfumato.releases.release import Release
    from sfumato.releases.rows.from_parts import RowsOfParts
    from sfumato.sql import Select

MOST_LISTED = 6  # periods in a message
MOST_KEPT = 2  # periods as of which leaning parts stay open


class Periods(Date):
    """Calendar periods of a series. gaps: numbers of cells whose period has no part."""

    gaps: tuple[int, ...] = ()

    def axis(self, name: str) -> Axis:
        return replace(super().axis(name), gaps=self.gaps)


@dataclass(frozen=True, eq=False)
class Part:
    """One release of a series. number: in the order of publication, from 1. opened: opens it, at most once.

    described: reads its schema alone, where that is less work.
    """

    number: int
    period: str
    opened: Callable[[], Release]
    described: Callable[[], Schema] | None = None

    @cached_property
    def release(self) -> Release:
        return self.opened()

    @cached_property
    def schema(self) -> Schema:
        return self.described() if self.described and "release" not in self.__dict__ else self.release.schema

    @property
    def content(self) -> ContentOfCells:
        content = self.release.content
        if not isinstance(content, ContentOfCells):
            raise QueryError(
                f"the part of {self.period} is a release by {self.release.mechanism}, which does not count cells; take "
                "it out with `sfumato series extract`, and ask it by itself"
            )
        return content


@dataclass(frozen=True, eq=False)
class _Place:
    """Mapping between the cells of an attribute in one part and on the axis of the series.

    codes: of the part's cells on the newest axis. old: of the newest axis on the part's; -1 for values it did not have.
    """

    codes: Codes
    old: Codes

    def kinds(self, kinds: Codes) -> Codes:
        """Classes of the part's cells, numbered from 0 in order of appearance, from those of the newest axis."""
        _, first, numbers = np.unique(kinds[self.codes], return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[numbers.reshape(-1)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SeriesContent(ContentOfCells):
    """Parts of a series in the order of their periods, the newest of each; one column more than the newest part has."""

    answers_counts: ClassVar[bool] = True
    along: ClassVar[str] = PERIOD  # column that tells parts apart

    schema: Schema
    series: Series
    parts: tuple[Part, ...]
    file: PartsFile | None = None  # that they are in, where they are
    leans: Mapping[str, float | None] = field(default_factory=dict)  # periods opened so far: `spread_beside`; 1: alone

    @classmethod
    def of(cls, parts: Sequence[Part], file: PartsFile | None = None) -> SeriesContent:
        """Series of parts in the order of publication; of several with one period the last one counts."""
        newest = parts[-1].schema
        if newest.series is None:
            raise ReleaseFileError("its newest part does not belong to a series; ask the publisher for a fresh copy")
        series = newest.series
        last = {part.period: part for part in parts}
        attribute, order = period_attribute(series, list(last))
        schema = with_period(newest, attribute)
        return cls(schema, series, tuple(last[label] for label in order), file)

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(part.release for part in self.parts)

    @property
    def newest(self) -> ContentOfCells:
        return self._last.content

    @property
    def _last(self) -> Part:
        return max(self.parts, key=lambda part: part.number)

    def complete(self) -> SeriesContent:
        """Restrict the series to parts with every column and value of the newest one."""

        def has_all(part: Part) -> bool:
            schema = part.schema
            named = {*self.schema.attributes, *self.schema.measures} - {PERIOD}
            there = named <= {*schema.attributes, *schema.measures}
            return there and all(self.place(part, name) is None for name in self.schema.attributes if name != PERIOD)

        kept = tuple(part for part in self.parts if has_all(part))
        if len(kept) == len(self.parts):
            return self
        attribute, _ = period_attribute(self.series, [part.period for part in kept])
        return replace(self, schema=with_period(self.table_schema, attribute), parts=kept)

    @property
    def table_schema(self) -> Schema:
        return self._last.schema

    @property
    def axis(self) -> Axis:
        return self.domain[self.along]

    @cached_property
    def codes(self) -> dict[str, int]:
        """Cell of each period that has a part."""
        cells = {str(label): cell for cell, label in enumerate(self.axis.labels())}
        return {part.period: cells[part.period] for part in self.parts}

    def place(self, part: Part, name: str) -> _Place | None:
        """Mapping of a part's cells to the series (`_Place`); None where both axes are equal."""
        if (part.number, name) not in self._places:
            self._places[part.number, name] = self._place(part, name)
        return self._places[part.number, name]

    @cached_property
    def _places(self) -> dict[tuple[int, str], _Place | None]:
        return {}

    def _place(self, part: Part, name: str) -> _Place | None:
        mine, its = self.schema.attributes[name], part.schema.attributes[name]
        new, old = self.domain[name], its.axis(name)
        if mine is its or new == old:
            return None
        if not isinstance(mine, Category) or not isinstance(its, Category):
            raise ReleaseFileError(f"the part of {part.period} has other cells of {name} than the newest part")
        at = {label: cell for cell, label in enumerate(new.labels())}
        codes = [at.get(label, -1) for label in old.labels()]
        if -1 in codes:
            raise ReleaseFileError(f"the part of {part.period} has a value of {name} that the newest part has not")
        was = {label: cell for cell, label in enumerate(old.labels())}
        gathered = was[OTHER] if its.other else -1  # where rows with a value that was not listed yet were counted
        listed = [was.get(label, -1 if label is None else gathered) for label in new.labels()]
        return _Place(np.asarray(codes, dtype=np.int64), np.asarray(listed, dtype=np.int64))

    def asked_by(self, select: Select) -> SeriesContent:
        """Restrict the series to parts that a query needs; QueryError where one of them cannot answer it."""
        boxes = [(amount, box) for amount in select.amounts for box in amount.predicate.boxes]
        periods = {values: cover(self.axis, values).possible > 0 for values in {box[self.along] for _, box in boxes}}
        touched, unable = list[Part](), dict[str, list[str]]()
        for part in self.parts:
            code = self.codes[part.period]
            mine = [(amount, box) for amount, box in boxes if periods[box[self.along]][code]]
            if not mine:
                continue
            touched.append(part)
            names = {name for _, box in mine for name, _ in box.sets}
            names |= {amount.of for amount, _ in mine if amount.of is not None}
            names |= {*select.group_by} if any(amount.grouped for amount, _ in mine) else set()
            for name in sorted(names - {self.along}):
                lacks = self._lacks(part, name, {box[name] for _, box in mine}, name in select.group_by)
                if lacks is not None:
                    unable.setdefault(lacks, []).append(part.period)
        if not touched:
            raise QueryError(
                f"no row of any period can fulfil this condition; the series has parts of {self._listed_periods}"
            )
        for lacks, labels in unable.items():
            self._refuse(lacks, labels)
        return replace(self, parts=tuple(touched))

    @property
    def _listed_periods(self) -> str:
        gaps = [str(self.axis.label(cell)) for cell in self.axis.gaps]
        if not self.axis.ordered:
            return _listed([part.period for part in self.parts])
        span = f"{self.parts[0].period} to {self.parts[-1].period}"
        return f"{span} without {_listed(gaps)}" if gaps else span

    def _lacks(self, part: Part, name: str, sets: Collection[ValueSet], grouped: bool) -> str | None:
        """Text on the column or value that a part lacks for a query; None where it lacks nothing."""
        schema = part.schema
        if name in schema.measures or name not in self.schema.attributes:
            return None if name in schema.measures else f"{name} was not yet a column"
        if name not in schema.attributes:
            return f"{name} was not yet a column"
        if (place := self.place(part, name)) is None:
            return None
        axis = self.domain[name]
        for values in sets:
            shares = cover(axis, values).share
            for cell in np.flatnonzero(~np.isin(np.arange(axis.size), place.codes)):
                old = int(place.old[cell])
                alike = 0.0 if old < 0 else float(shares[place.codes[old]])
                if shares[cell] != alike or (grouped and shares[cell] > 0):
                    return f"{axis.label(int(cell))} was not yet a value of {name}"
        return None

    def _refuse(self, lacks: str, periods: Sequence[str]) -> NoReturn:
        """Refuse a query that some parts cannot answer; name the WHERE condition that excludes them."""
        able = [part.period for part in self.parts if part.period not in periods]
        first = len(self.parts) - len(able)
        if able and self.axis.ordered and [part.period for part in self.parts[:first]] == list(periods):
            remedy = f"add WHERE {PERIOD} >= '{able[0]}'"
        elif able:
            remedy = "add WHERE " + PERIOD + " NOT IN (" + ", ".join(f"'{label}'" for label in periods) + ")"
        else:
            remedy = "ask for something else"
        verb = "was" if len(periods) == 1 else "were"
        raise QueryError(f"when {_listed(periods)} {verb} published, {lacks}; {remedy}")

    def view(self, kinds: Kinds) -> View:
        from sfumato.answers.evaluate import View
        from sfumato.answers.parts import NoiseOfParts, cells_of_parts

        parts = self._views(kinds)
        cells = cells_of_parts(parts, self.along, tuple(kinds))
        estimated = any(part.view.estimated for part in parts)
        return View(self.schema, cells, NoiseOfParts(parts, self.along), estimated=estimated)

    def _views(self, kinds: Kinds) -> tuple[PartView, ...]:
        from sfumato.answers.parts import PartView

        found, start = [], 0
        for part in self.parts:
            view = part.content.view(self._kinds(part, kinds))
            if view.suppressed is not None:
                raise QueryError(
                    f"the part of {part.period} has a threshold, and sums over such parts are not known; take it out "
                    "with `sfumato series extract`, and ask it by itself"
                )
            places = {name: place for name in view.cells.codes if (place := self.place(part, name)) is not None}
            codes = {name: places[name].codes[c] if name in places else c for name, c in view.cells.codes.items()}
            none = np.zeros(view.cells.size, dtype=np.int64)  # of columns that it has not, by which it is asked nothing
            codes |= {name: none for name in kinds if name != self.along and name not in codes}
            old = {name: (place.old, len(place.codes)) for name, place in places.items()}
            found.append(PartView(self.codes[part.period], view, start, codes, old, self._units(part)))
            start += view.cells.size
        return tuple(found)

    def _units(self, part: Part) -> dict[str, dict[str, float]]:
        """Conversion of a measure's units from the series to a part, where the part uses another step or centre.

        A sum is step * estimate + centre * rows with a value, in both.
        """
        found: dict[str, dict[str, float]] = {}
        for name, its in part.schema.measures.items():
            mine = self.schema.measures[name]
            if (mine.step, mine.centre) == (its.step, its.centre):
                continue
            found[name] = {name: float(its.step / mine.step)}
            if shift := float((its.centre - mine.centre) / mine.step):
                found[name] |= {"count": shift, **({missing_of(name): -shift} if its.missing == "keep" else {})}
        return found

    def _kinds(self, part: Part, kinds: Kinds) -> dict[str, Codes]:
        """Classes of a question along the axes of one part."""
        return {
            name: each if (place := self.place(part, name)) is None else place.kinds(each)
            for name, each in kinds.items()
            if name in part.schema.attributes
        }

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        from sfumato.answers.answer import select_as

        asked = self.asked_by(select)
        result = select_as(asked, select, confidence, manner)
        codes, every = {asked.codes[part.period] for part in asked.parts}, np.array([*self.codes.values()])
        around = {cell: (every[every < cell].max(), every[every > cell].min()) for cell in self.axis.gaps}
        gaps = [str(self.axis.label(cell)) for cell, beside in around.items() if {*beside} <= codes]
        known = {part.period: self.leans[part.period] for part in asked.parts if part.period in self.leans}
        alone = [period for period, beside in known.items() if beside == 1.0]
        leaning = [beside for beside in known.values() if beside != 1.0]
        if alone and len(self.parts) > 1 and manner.interval != "guaranteed":
            told = f"{_listed(alone)} cannot lean on other periods, and is as published (docs/series.md says what can)"
            result = replace(result, notes=(*result.notes, told))
        if leaning and manner.interval != "guaranteed":
            told = f"as of {self.parts[-1].period}: estimates lean on other periods as far as the parts themselves say"
            gained = [each for each in leaning if each is not None]
            if gained:
                told += f"; standard errors of {self.newest.compared} are {np.mean(gained):.2f} of those without"
            result = replace(result, notes=(*result.notes, told))
        if not gaps:
            return result
        verbs = ("has", "is") if len(gaps) == 1 else ("have", "are")
        note = f"{_listed(gaps)} {verbs[0]} no part and {verbs[1]} in no number"
        return replace(result, notes=(*result.notes, note))

    @property
    def independent(self) -> bool:
        return all(part.content.independent and not _spread(part.content) for part in self.parts)

    def exact_at(self, confidence: float) -> float | None:
        every = [part.content.exact_at(confidence) for part in self.parts]
        known = [each for each in every if each is not None]
        return max(known, default=confidence) if len(known) == len(every) else None

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        from sfumato.answers.noise_sum import half_width

        every = [found for part in self.parts if (found := part.content.drawn(confidence)) is not None]
        return max(
            dict.fromkeys(every),
            key=lambda one: half_width([(1.0, *one)], confidence) / (one[0].variance * one[1]) ** 0.5,
            default=None,
        )

    def sure(self, kinds: Kinds) -> SourceOfParts:
        from sfumato.answers.parts import SourceOfParts

        sources = tuple(part.content.sure(self._kinds(part, kinds)) for part in self.parts)
        return SourceOfParts(self._views(kinds), sources)

    def as_measured(self) -> SeriesContent:
        def measured(part: Part) -> Part:
            return Part(part.number, part.period, lambda: replace(part.release, content=part.content.as_measured()))

        return replace(self, parts=tuple(measured(part) for part in self.parts))

    def as_of(self, period: str) -> SeriesContent:
        """Parts up to a period, with estimates that borrow from each other: the knowledge as of that period.

        Asked as of its own period, a part leans on earlier ones (a filter); as of a later one, on later ones too (a
        smoother). Parts are estimated anew when a question touches them.
        """
        places = [part.period for part in self.parts]
        try:
            label = self.series.label(period)
        except SchemaError as problem:
            raise QueryError(str(problem)) from None
        if label not in places:
            raise QueryError(f"there is no part of {period}; the series has parts of {self._listed_periods}")
        if label in self._as_of:
            return self._as_of[label]
        known, leans = self.parts[: places.index(label) + 1], dict[str, float | None]()

        def leaning(at: int) -> Part:
            part, others = known[at], [*known[:at], *known[at + 1 :]]

            def opened() -> Release:
                content = part.content.leaning([each.content for each in others], at)
                leans[part.period] = 1.0 if content is part.content else content.spread_beside(part.content)
                return replace(part.release, content=content)

            return Part(part.number, part.period, opened)

        shown = SeriesContent.of(sorted(known, key=lambda part: part.number), self.file)
        while len(self._as_of) >= MOST_KEPT:
            self._as_of.pop(next(iter(self._as_of)))
        self._as_of[label] = replace(shown, parts=tuple(leaning(at) for at in range(len(known))), leans=leans)
        return self._as_of[label]

    @cached_property
    def _as_of(self) -> dict[str, SeriesContent]:
        """Cache of the last few results of `as_of`, by period."""
        return {}

    @cached_property
    def row_model(self) -> RowsOfParts:
        from sfumato.releases.rows.from_parts import RowsOfPart, RowsOfParts

        parts = []
        for part in self.parts:
            schema = part.schema
            columns = {*schema.attributes, *schema.measures, PERIOD}
            if later := [name for name in (*self.schema.attributes, *self.schema.measures) if name not in columns]:
                lacks = (
                    f"the part of {part.period} has no {later[0]} yet, so that its rows lack a column; ask for rows of "
                    "later periods (WHERE), or take the part out with `sfumato series extract`, and draw from that"
                )
                parts.append(RowsOfPart(self.codes[part.period], part.content.row_model, {}, schema, lacks=lacks))
                continue
            places = {name: at for name in schema.attributes if (at := self.place(part, name)) is not None}
            codes = {name: at.codes for name, at in places.items()}
            parts.append(RowsOfPart(self.codes[part.period], part.content.row_model, codes, schema))
        return RowsOfParts(self.domain, tuple(parts))

    @property
    def about(self) -> About:
        newest = self.newest.about
        first, last = self.parts[0].period, self.parts[-1].period
        span = first if first == last else f"{first} to {last}"
        own = "noise is spread over all parts" if _spread(self.newest) else "every part has noise of its own"
        extent = f"{len(self.parts)} {'part' if len(self.parts) == 1 else 'parts'}, {span}; the newest has "
        return About(
            self.domain.names,
            extent + newest.extent,
            newest.measured,
            f"{own}; in the newest, {newest.errors}",
            (*newest.findings, *filter(None, [self.signed_parts])),
        )

    def compared_with(self, whole: object) -> str:
        """Sentence on the periods that a sum covers, and why it leaves out others of the series."""
        labels = [part.period for part in self.parts]
        span = labels[0] if len(labels) == 1 else f"{len(labels)} periods, {labels[0]} to {labels[-1]}"
        every = whole.parts if isinstance(whole, SeriesContent) else ()
        left = [part.period for part in every if part.period not in labels]
        if not left:
            return span
        verb = "has" if len(left) == 1 else "have"
        return f"{span}, without {_listed(left)}, which {verb} not yet every column and value"

    @property
    def signed_parts(self) -> str:
        """Text naming the parts with signatures of their own; empty where there is none."""
        from sfumato.releases.signature import signed_parts

        return "" if self.file is None else signed_parts(self.file.head.parts)

    def copy_to(self, path: Path) -> Path:
        """Write the whole series to another place, byte for byte."""
        from sfumato.releases.file.series import copy_parts

        if self.file is None:
            raise ReleaseFileError("this series is of releases in memory; save each, and add it with `append_part`")
        copy_parts(self.file, path)
        return path

    def write(self) -> Written:
        raise ReleaseFileError("a series is written part by part; save it, or take a part out")

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        raise ReleaseFileError("a series is a file of releases, not a release")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        cls.check(manifest, schema)

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> SeriesContent:
        raise ReleaseFileError("a series is a file of releases, not a release")


def _spread(content: ContentOfCells) -> bool:
    """Whether the noise of a part is spread over others (running totals)."""
    return getattr(content, "trail", None) is not None


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels[:MOST_LISTED]) + ", ..." * (len(labels) > MOST_LISTED)


def period_attribute(series: Series, labels: Sequence[str]) -> tuple[Category | Periods, list[str]]:
    """The attribute `period` of some periods, and these in its order: by the calendar, or as names came."""
    days = {label: (series.first_day(label), series.last_day(label)) for label in labels}
    if series.period == "name":
        return Category(values=tuple(labels), column=PERIOD), list(labels)
    ordered = sorted(labels, key=lambda label: days[label][0])  # type: ignore[arg-type, return-value]
    whole = Periods(lower=days[ordered[0]][0], upper=days[ordered[-1]][1], by=series.period, column=PERIOD)
    shown = whole.axis(PERIOD).labels()
    gaps = tuple(cell for cell, label in enumerate(shown) if label not in days)
    return whole.model_copy(update={"gaps": gaps}), ordered


def with_period(schema: Schema, attribute: Category | Periods) -> Schema:
    """The schema of a part with the column `period` before its own."""
    parts = {name: getattr(schema, name) for name in type(schema).model_fields if name != "series"}
    column = schema.series.column if schema.series is not None and schema.series.column else PERIOD
    return Schema(
        **{**parts, "attributes": {PERIOD: attribute.model_copy(update={"column": column}), **schema.attributes}}
    )
