"""Reading audit: compare readings of a source with and without each person, and with a reference reader.

The proof speaks of tables, the code reads files, and here they must agree. For every source, awkward tables are read
whole and again without the rows of each unit in turn. The gathered counts and sums may move by no more than is charged;
nothing may fail on one and not on the other; and a slow reading in plain Python must agree cell by cell.

Values of a column that nobody listed (kernel/discovering.py) are read in the same way (`attack_values`): without a unit
one person's values may be missing, no more of them than were asked for, and all other people's are the same.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain, repeat
from math import ceil
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.discovering import values_schema
from sfumato.lab.audit.reading.reference import difference, period_read
from sfumato.lab.audit.reading.sources import SOURCES
from sfumato.lab.audit.reading.tables import Case, Make
from sfumato.schema import Schema

KEY = 20240229  # which rows of a unit are kept depends on it; it is the same for both of a pair
SHOWN = 3  # complaints that are kept for each source
VALUES = 0.1  # pairs of looks at values beside those of releases


@dataclass(frozen=True)
class ReadingFinding:
    """Result of the reading audit of one source. largest: the largest distance of a pair, relative to its charge."""

    source: str
    pairs: int
    largest: float
    complaints: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.complaints

    @property
    def verdict(self) -> str:
        """Sentence on the result of the reading audit, claiming no more than was found."""
        return f"VIOLATION: {self.complaints[0]}" if self.complaints else "no violation found"


def sources_here() -> list[str]:
    """Names of the sources whose libraries and servers are available."""
    return [name for name, source in SOURCES.items() if source.here]


def reading_finding(name: str, pairs: int, seed: int = 1) -> ReadingFinding:
    """Audit a source with at least `pairs` pairs of neighbouring tables, fewer where reading takes long."""
    source = SOURCES[name]
    enough = ceil(pairs * source.share)
    read = attack_source(name, source.make, enough, seed=seed, first=source.first)
    looked = attack_source(name, source.make, ceil(enough * VALUES), seed=seed, attack=attack_values)
    largest, complaints = max(read.largest, looked.largest), (read.complaints + looked.complaints)[:SHOWN]
    return ReadingFinding(name, read.pairs + looked.pairs, largest, complaints)


def attack_source(
    name: str,
    make: Make,
    pairs: int,
    *,
    seed: int = 1,
    patient: bool = True,
    first: Sequence[Make] = (),
    attack: Attack | None = None,
) -> ReadingFinding:
    """Audit one source. patient: continue after the first complaint. first: makers of cases to try before `make`."""
    attack = attack or attack_case
    random = Random(f"{name} {seed}")  # noqa: S311 (tables, not noise)
    done, largest, complaints = 0, 0.0, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for one in chain(first, repeat(make)):
            if done >= pairs or (complaints and not patient):
                break
            tried, moved, said = attack(one(random, Path(folder)), patient=patient)
            done, largest = done + tried, max(largest, moved)
            complaints += said
    return ReadingFinding(name, done, largest, tuple(complaints[:SHOWN]))


def attack_case(case: Case, *, patient: bool = True) -> tuple[int, float, list[str]]:
    """Compare all neighbouring pairs of one table: number of pairs, largest relative distance, and complaints."""
    whole = _read(case, case.parts)
    complaints = [] if isinstance(whole, str) else _unlike(case, case.parts, whole)
    refused = isinstance(whole, str) and whole.startswith("refused")
    largest, done = 0.0, 0
    for fewer in _neighbours(case):
        if complaints and not patient:
            break
        done += 1
        other = _read(case, fewer)
        if isinstance(whole, str) or isinstance(other, str):
            if not (refused and isinstance(other, str) and other.startswith("refused")):
                complaints.append(f"{whole if isinstance(whole, str) else other} with or without one unit only")
            continue
        moved = move(case.schema, whole, other)
        largest = max(largest, float(moved))
        if moved > 1:
            complaints.append(f"one unit moves what is gathered {float(moved):g} times as far as is charged")
        complaints += _unlike(case, fewer, other)
    return done, largest, complaints


class Attack(Protocol):
    """Comparison of all neighbouring pairs of one table, as `attack_case` makes it."""

    def __call__(self, case: Case, *, patient: bool) -> tuple[int, float, list[str]]: ...


def attack_values(case: Case, *, patient: bool = True) -> tuple[int, float, list[str]]:
    """Compare all neighbouring pairs by the values of one column, at most one to three a person, like `attack_case`."""
    attributes, size = list(case.schema.attributes.values()), len(case.parts)
    listable = [one for one in attributes if one.type != "date"] or attributes  # times are refused
    schema = values_schema(listable[size % len(listable)].column, case.schema.privacy_unit, case.schema.file)
    most = 1 if schema.privacy_unit.column is None else 1 + size % 3
    whole = _looked(case, schema, most, case.parts)
    largest, done, complaints = 0.0, 0, list[str]()
    for fewer in _neighbours(case):
        if complaints and not patient:
            break
        done += 1
        other = _looked(case, schema, most, fewer)
        if isinstance(whole, str) or isinstance(other, str):
            if whole != other:
                complaints.append(f"{whole if isinstance(whole, str) else other} with or without one unit only")
            continue
        moved = [*(whole - other).elements(), *(other - whole).elements()]
        largest = max(largest, float(len(moved)), *(len(values) / most for values in moved))
        if largest > 1:
            complaints.append(f"one unit moves the values of {len(moved)} people, or more values than were asked for")
    return done, largest, complaints


def _looked(case: Case, schema: Schema, most: int, parts: tuple[object, ...]) -> Counter[tuple[bytes, ...]] | str:
    """Number of people by the values that they have, or a text on how reading failed or was refused."""
    try:
        table = case.open(parts)
        table.check_values(schema, most)
    except SfumatoError as error:
        return f"refused ({type(error).__name__})"
    try:
        values, places, numbers = table.read_values(schema, KEY, most)
    except Exception as error:
        return f"failed while reading ({type(error).__name__})"
    if most == 1:
        return Counter({(values[place],): int(count) for place, count in zip(places, numbers, strict=True)})
    people: dict[int, list[bytes]] = {}
    for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
        people.setdefault(number, []).append(values[place])
    return Counter(tuple(sorted(held)) for held in people.values())


def move(schema: Schema, one: Aggregate, other: Aggregate) -> Fraction:
    """Distance of two readings divided by the charge of one unit: rows, or steps of a measure, over all cells."""
    rows = schema.most_of_a_unit
    charged = {"count": rows} | {name: rows * measure.half_units for name, measure in schema.summed.items()}
    cells = np.union1d(one.cells, other.cells)
    apart = {of: np.abs(one.at(cells, of) - other.at(cells, of)).sum() for of in charged}
    return max(Fraction(int(apart[of]), charged[of]) for of in charged)


def _neighbours(case: Case) -> Iterable[tuple[object, ...]]:
    """Tables without one unit's rows, for each unit; rows without a unit are removed one at a time."""
    if case.neighbours is not None:
        yield from case.neighbours()
        return
    units = [case.unit(part) for part in case.parts]
    for unit in dict.fromkeys(unit for unit in units if unit is not None):
        yield tuple(part for part, other in zip(case.parts, units, strict=True) if other != unit)
    for place in [place for place, unit in enumerate(units) if unit is None]:
        yield case.parts[:place] + case.parts[place + 1 :]


def _read(case: Case, parts: tuple[object, ...]) -> Aggregate | str:
    """Counts read from a case, or a text on how reading failed or was refused."""
    period = period_read(case.schema)
    units = {type(unit) for unit in map(case.unit, case.parts) if unit is not None}
    named = period is not None and case.schema.series.promise.most != 1 and units <= {str, int}  # type: ignore[union-attr]
    admit = everybody if named and len(units) == 1 else None
    try:
        table = case.open(parts)
        table.check(case.schema, period, with_people=admit is not None)
    except SfumatoError as error:
        return f"refused ({type(error).__name__})"
    try:
        return table.aggregate(case.schema, KEY, period=period, admit=admit)
    except Exception as error:
        return f"failed while reading ({type(error).__name__})"


def everybody(people: Sequence[bytes]) -> NDArray[np.bool_]:
    """Admit all: rows are read with their people, as for a register, and nobody is left out."""
    return np.ones(len(people), dtype=bool)


def _unlike(case: Case, parts: tuple[object, ...], found: Aggregate) -> list[str]:
    if case.unlike is not None:
        unlike = case.unlike(parts, found)
    else:
        unlike = difference(case.schema, case.rows(parts), found, typed=case.typed)
    return [] if unlike is None else [f"not as the reference: {unlike}"]
