"""Reference reader in plain Python, value by value: the counts and sums that the kernel's statement must give."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.domain import EPOCH
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Aggregate
from sfumato.lab.audit.reading.expressions import evaluate
from sfumato.schema import Schema
from sfumato.schema.attributes import Attribute, Boolean, Category, Date, Integer
from sfumato.schema.attributes.lists import as_number, folded
from sfumato.schema.parts import ROWS, Measure, Weight
from sfumato.schema.per_person import Aggregate as Amount
from sfumato.schema.per_person import PersonRule
from sfumato.schema.recode import Expression
from sfumato.schema.schema import missing_of

Row = Mapping[str, object]  # a value by column name; None if it is missing

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
_TRUE, _FALSE = {"true", "t", "1", "yes", "y"}, {"false", "f", "0", "no", "n"}


@dataclass(frozen=True)
class Placed:
    """Row that falls into a cell: cell, measures in steps (None if missing), privacy unit, and weight in steps."""

    cell: int
    steps: tuple[int | None, ...]
    unit: Hashable
    weight: int = 1


def placed_rows(schema: Schema, rows: Sequence[Row], *, typed: bool) -> list[Placed]:
    """The rows that fall into a cell, before the cap. typed: false where all values are text, as in CSV."""
    found = []
    period, people = period_read(schema), schema.people
    if people is not None:
        rows, typed = people_rows(schema, people, rows, typed=typed), True
    for number, row in enumerate(rows):
        if period is not None and not _in_period(schema, row, period, typed):
            continue
        read = row if people else {column: _as_stated(schema, column, own, typed) for column, own in row.items()}
        read = row if people else {**read, **_made(schema, read, typed)}
        attributes = [(name, part, read[part.column]) for name, part in schema.attributes.items()]
        codes = [
            place(part, schema, name, _bare(schema, part, value, typed), typed) for name, part, value in attributes
        ]
        unit = number if schema.privacy_unit.column is None else unit_of(read[schema.privacy_unit.column])
        bare = [(part, _bare(schema, part, read[part.column], typed)) for part in schema.measures.values()]
        measured = [(part, steps(part, value, typed)) for part, value in bare]
        if unit is None or None in codes or any(part.missing == "drop" and own is None for part, own in measured):
            continue
        weight = 1 if schema.weight is None else _weighed(schema, schema.weight, read, typed)
        if weight < 1 or not _can_be(schema, [int(code or 0) for code in codes]):
            continue
        cell = 0
        for code, size in zip(codes, schema.domain.shape, strict=True):
            cell = cell * size + int(code or 0)
        found.append(Placed(cell, tuple(own for _, own in measured), unit, weight))
    return found


def _weighed(schema: Schema, weight: Weight, read: Row, typed: bool) -> int:
    """Weight of a row in steps; 0 where it is missing or rounds to nothing."""
    value = number_of(_bare(schema, weight, read[weight.column], typed), typed)
    if value is None:
        return 0
    clipped = min(max(value, float(weight.lower)), float(weight.upper))
    if weight.mean is not None:
        clipped = clipped * float(1 - weight.shrink) + float(weight.shrink * weight.mean)
    return min(math.floor(clipped / float(weight.step) + 0.5), weight.most)


def _made(schema: Schema, read: Row, typed: bool) -> dict[str, object]:
    """Values of the columns that the schema's `recode` rules make, by name."""
    made: dict[str, object] = {}
    for name, rule in schema.made.items():

        def leaf(column: str, kind: str, own: str = name) -> object:
            value = made[column] if column in made and column != own else read[column]
            if kind == "number":
                return number_of(_without_marks(schema, column, value, typed), typed)
            if kind in ("date", "time"):
                moment = moment_of(value)
                return moment if moment is None or kind == "time" else moment.date()
            # Where values are read as text, a whole number is true or false by its digits, as 1 and 0 are.
            return text_of(value) if kind == "text" else boolean_of(value if typed else text_of(value))

        if isinstance(rule, Expression):
            made[name] = evaluate(rule, leaf)
        else:
            made[name] = rule.values.get(str(leaf(rule.column, "text")))
    return made


def people_rows(schema: Schema, rule: PersonRule, rows: Sequence[Row], *, typed: bool) -> list[Row]:
    """One row a person, by the schema's `per_person`; its columns are single aggregates of single columns here."""
    whose: dict[Hashable, list[Row]] = defaultdict(list)
    unit = schema.privacy_unit.column or ""
    for row in rows:
        read = {column: _as_stated(schema, column, value, typed) for column, value in row.items()}
        if (person := unit_of(read[unit])) is not None:
            whose[person].append(read)
    booleans = {part.column: part for part in schema.attributes.values() if isinstance(part, Boolean)}
    made = {name: rule.aggregates[value.value] for name, value in rule.columns.items()}
    return [
        {unit: own[0][unit]}
        | {name: _amount(schema, each, booleans.get(name), own, typed) for name, each in made.items()}
        for own in whose.values()
    ]


def _amount(schema: Schema, each: Amount, boolean: Boolean | None, rows: Sequence[Row], typed: bool) -> object:
    """Reference value of one aggregate over a person's rows."""
    if each.argument is None:
        return len(rows)
    column, kind = str(each.argument.value), each.argument.kind
    if each.function in ("values", "different"):
        values = [_identity(row[column], typed) for row in rows]
        there = [value for value in values if value is not None]
        return len(there) if each.function == "values" else len(set(there))
    found = [(_as_kind(schema, kind or "text", column, boolean, row[column], typed), row) for row in rows]
    present = [(value, row) for value, row in found if value is not None]
    order = None if each.order is None else str(each.order.value)
    ranks = [0 if order is None else _rank(schema, order, row[order], typed) for _, row in present]
    keyed: list[Any] = [(rank, _ranked(value), value) for rank, (value, _) in zip(ranks, present, strict=True)]
    keyed = [one for one in keyed if one[0] is not None]
    if not keyed:
        return None
    if each.function in ("sum", "mean"):
        whole = sum(math.floor(min(max(value, -1e12), 1e12) * 1e6 + 0.5) for *_, value in keyed)
        clipped = float(min(max(whole, -(2**62)), 2**62))
        return clipped / (1e6 if each.function == "sum" else len(keyed) * 1e6)
    return (min if each.function in ("least", "all", "first") else max)(keyed, key=lambda one: one[:2])[2]


def _ranked(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _identity(value: object, typed: bool) -> Hashable:
    """Key by which values are equal: texts by their bytes; None if missing, NaN or an empty text."""
    found = unit_of(value if typed else text_of(value))
    return None if found == ("text", b"") else found


def _as_kind(schema: Schema, kind: str, column: str, boolean: Boolean | None, value: object, typed: bool) -> object:
    """Convert a value to a number, text, boolean, date or time, by `kind`; None if it is no such value."""
    if kind == "number":
        return number_of(
            _bare(schema, Measure(lower=Fraction(0), upper=Fraction(1), column=column), value, typed), typed
        )
    if kind == "text":
        return text_of(value) or None
    if kind == "boolean":
        told = None if boolean is None else boolean.spellings.get(folded(text_of(value) or "", boolean.fold or ()))
        return told if told is not None else boolean_of(value if typed else text_of(value))
    moment = moment_of(value)
    return moment if moment is None or kind == "time" else moment.date()


def _rank(schema: Schema, column: str, value: object, typed: bool) -> Any:
    """Sort key of a value; where all values are text, times come before numbers before other texts. None if missing."""
    found: Any = _identity(value, typed)
    if found is None or typed:
        return None if found is None else found[1]
    moment, number = moment_of(text_of(value)), _as_kind(schema, "number", column, None, value, typed)
    rank = 0 if moment is not None else 1 if number is not None else 2
    return rank, moment or datetime.min, number or 0.0, found[1]


def period_read(schema: Schema) -> str | None:
    """The period that audits read of a series whose table has a column for it."""
    if schema.series is None:
        return None
    names = {"day": "2020-02-29", "week": "2020-W09", "month": "2020-02", "quarter": "2020-Q1", "year": "2020"}
    return names.get(schema.series.period, ("a", "1", "true")[len(schema.attributes) % 3])


def _in_period(schema: Schema, row: Row, period: str, typed: bool) -> bool:
    """Whether a row is in a period, by a day between its first and its last or by the period's own text."""
    series = schema.series
    if series is None or series.column is None:
        return True
    value = _as_stated(schema, series.column, row[series.column], typed)
    first, last, moment = series.first_day(period), series.last_day(period), moment_of(value)
    if first is not None and last is not None and moment is not None and not (typed and isinstance(value, str)):
        return first <= moment.date() <= last
    return (text_of(value) or "").strip(" \t\n\v\f\r") == period


def _can_be(schema: Schema, codes: Sequence[int]) -> bool:
    """Whether cells of a row agree with the schema's rules about impossible rows."""
    structure = schema.structure
    if structure is None:
        return True
    if any(each.image[codes[each.fine]] != codes[each.coarse] for each in structure.functions):
        return False
    return not any(all(flags[codes[place]] for place, flags in rule.sides.items()) for rule in structure.excluded)


def _as_stated(schema: Schema, column: str, value: object, typed: bool) -> object:
    """A value, or None if it is a word that the schema's `file` lists as missing."""
    words = schema.file.missing_words(column) if schema.file else ()
    if typed and isinstance(value, bool):
        return value
    if typed and isinstance(value, int | float | Decimal):
        return None if float(value) in [as_number(word) for word in words] else value
    if typed and isinstance(value, date):
        moment = moment_of(value)
        return None if moment is not None and moment.date().isoformat() in words else value
    text = (text_of(value) or "").strip(" \t\n\v\f\r")
    return None if text in words or (_DAY.fullmatch(text) and text.removesuffix(" 00:00:00") in words) else value


def _bare(schema: Schema, part: Any, value: object, typed: bool) -> object:
    """A value, less a unit of measure (such as EUR) on either side if a number is wanted and all values are text."""
    wanted = part.numeric if isinstance(part, Category) else not isinstance(part, Boolean | Date)
    return _without_marks(schema, part.column, value, typed) if wanted else value


def _without_marks(schema: Schema, column: str, value: object, typed: bool) -> object:
    marks = schema.file.marks(column) if schema.file else ()
    if typed or not marks or not isinstance(value, str):
        return value
    blanks = " \t\u00a0\u202f"
    bare = value.lstrip(blanks)
    sign, bare = (bare[0], bare[1:].lstrip(blanks)) if bare[:1] in ("+", "-") and bare else ("", bare)
    first = next((mark for mark in sorted(marks, key=len, reverse=True) if bare.startswith(mark)), None)
    found = value if first is None else sign + bare[len(first) :].lstrip(blanks)
    ends = found.rstrip(blanks)
    last = next((mark for mark in sorted(marks, key=len, reverse=True) if ends.endswith(mark)), None)
    return found if last is None else ends[: -len(last)].rstrip(blanks)


def difference(schema: Schema, rows: Sequence[Row], found: Aggregate, *, typed: bool) -> str | None:
    """Difference of a reading from the reference reading, in words; None if they agree.

    Which rows of a unit with too many are kept is the engine's own choice, so there only their number is compared.
    """
    placed, most = placed_rows(schema, rows, typed=typed), schema.privacy_unit.contributions
    if schema.privacy_unit.column is None:
        most = len(placed) + 1
    of_unit = Counter(row.unit for row in placed)
    sure = [row for row in placed if of_unit[row.unit] <= most]
    counts, possible = (Counter[int](), Counter[int]())
    for row in placed:
        possible[row.cell] += row.weight
        counts[row.cell] += row.weight if of_unit[row.unit] <= most else 0
    there = dict(zip(found.cells.tolist(), found.counts.tolist(), strict=True))
    wanted = sum(min(most, rows) for rows in of_unit.values())
    counted_rows = sum(there.values())
    if schema.weight is not None:
        counted_rows = int(found.sums[ROWS].sum()) // schema.weight.most if ROWS in found.sums else wanted
    if counted_rows != wanted:
        return f"{counted_rows} rows counted, {wanted} expected"
    for cell in {*there, *counts}:
        if not counts[cell] <= there.get(cell, 0) <= possible[cell]:
            return f"{there.get(cell, 0)} rows in cell {cell}, {counts[cell]} expected"
    if len(sure) == len(placed):
        for at, name in enumerate(schema.measures):
            sums: dict[int, int] = defaultdict(int)
            missing: dict[int, int] = defaultdict(int)
            for row in sure:
                own = row.steps[at]
                sums[row.cell] += row.weight * (own or 0)
                missing[row.cell] += row.weight * (own is None)
            if dict(zip(found.cells.tolist(), found.sums[name].tolist(), strict=True)) != dict(sums):
                return f"sums of {name} differ"
            counted = found.sums.get(missing_of(name))
            if counted is not None and dict(zip(found.cells.tolist(), counted.tolist(), strict=True)) != dict(missing):
                return f"rows without {name} differ"
    return None


def unit_of(value: object) -> Hashable:
    """Privacy unit named by a value: text by bytes, others by type and value; None if missing or NaN."""
    if isinstance(value, str):
        return ("text", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, float) and math.isnan(value):
        return None
    return value if value is None else (type(value).__name__, value)


def place(attribute: Attribute, schema: Schema, name: str, value: object, typed: bool) -> int | None:
    """Cell of a value along its axis; None if its row is left out."""
    code = _of_value(attribute, schema, name, value, typed)
    if code is not None or not attribute.keeps_missing:
        return len(attribute.values) if code is None and isinstance(attribute, Category) and attribute.other else code
    if not isinstance(attribute, Category) or _is_missing(attribute, value, typed):
        return attribute.places
    return len(attribute.values) if attribute.other else None


def _is_missing(attribute: Category, value: object, typed: bool) -> bool:
    return (
        number_of(value, typed) is None
        if attribute.numeric
        else folded(text_of(value) or "", attribute.fold or ()) == ""
    )


def _of_value(attribute: Attribute, schema: Schema, name: str, value: object, typed: bool) -> int | None:
    edges = schema.domain[name].edges
    if isinstance(attribute, Category):
        return _in_list(attribute, value, typed)
    if isinstance(attribute, Boolean):
        told = attribute.spellings.get(folded(text_of(value) or "", attribute.fold or ()))
        known = told if told is not None else boolean_of(value if typed else text_of(value))
        return None if known is None else int(known)
    if isinstance(attribute, Date):
        return _of_moment(attribute, value, edges)
    number = number_of(value, typed)
    if number is None:
        return None
    clipped = min(max(number, float(attribute.lower)), float(attribute.upper))
    if isinstance(attribute, Integer):
        clipped = math.floor(clipped)
    return min(int(np.searchsorted(edges, clipped, side="right")) - 1, len(edges) - 2)


def _of_moment(attribute: Date, value: object, edges: Any) -> int | None:
    moment = moment_of(value)
    if moment is None:
        return None
    if attribute.by == "weekday":
        return moment.weekday()
    if attribute.by == "hour_of_day":
        return moment.hour
    since = min(max(moment, attribute.moments[0]), attribute.moments[1]) - datetime(EPOCH.year, EPOCH.month, EPOCH.day)
    days = (since.days * 86400 + since.seconds) / 86400
    return int(np.searchsorted(edges, days if attribute.has_time else since.days, side="right")) - 1


def _in_list(attribute: Category, value: object, typed: bool) -> int | None:
    if attribute.numeric:
        number = number_of(value, typed)
        listed = {as_number(spelling): code for spelling, code in attribute.spellings.items()}
        return listed.get(number)
    text = text_of(value)
    return None if text is None else attribute.spellings.get(folded(text, attribute.fold or ()))


def steps(measure: Any, value: object, typed: bool) -> int | None:
    """A measure in whole steps from its centre; None if it is missing."""
    number = number_of(value, typed)
    if number is None:
        return 0 if measure.missing == "middle" else None
    centre, step, half = float(measure.centre), float(measure.step), measure.half_units
    clipped = min(max(number, float(measure.lower)), float(measure.upper))
    return int(min(max(math.floor((clipped - centre) / step + 0.5), -half), half))


def number_of(value: object, typed: bool) -> float | None:
    """Parse a value as a number; None if it is none."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if not typed and value in ("true", "false"):
            return float(value == "true")
        try:
            number = float(value) if value.isascii() else math.nan
        except ValueError:
            return None
        return None if math.isnan(number) else number
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return None if math.isnan(number) else number
    return None


def text_of(value: object) -> str | None:
    """A value as text; a whole float is a whole number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**63:
        return str(int(value))
    return str(value)


def boolean_of(value: object) -> bool | None:
    """Parse a value as a boolean; None if it is none."""
    if isinstance(value, str):
        word = value.lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return bool(value) if isinstance(value, bool | int) else None


def moment_of(value: object) -> datetime | None:
    """A value as a time, in UTC; a day begins at midnight."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    found = _DAY.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        return datetime.fromisoformat(value.strip()) if found and isinstance(value, str) else None
    except ValueError:
        return None
