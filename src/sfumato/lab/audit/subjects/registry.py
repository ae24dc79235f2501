"""Subjects of the sampling audit: the kernel's primitives, and every mechanism's release file as a row of integers.

The neighbouring pairs are worst cases. Of a whole mechanism, everything that the file of its release shows is audited.
A file is written from a manifest and members and from nothing else (`contents_of` in releases/release.py), so it is
these that are laid out, number by number, whatever the kind of release. Each number has a column. A value that is no
number, such as a noise's scale, a name, or the set of keys, enters the checksum in the first column (CRC-32), and so
does a number that none of the first runs had there: nothing that differs in the file looks the same here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, lru_cache
from zlib import crc32

import numpy as np
from pydantic import JsonValue

from sfumato.answers.fit import PARTS
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy, TestingEntropy
from sfumato.lab.audit.subjects.subject import (
    BUDGET,
    HIDDEN,
    ONE,
    Counts,
    Outputs,
    PooledEntropy,
    Subject,
    aggregate_of,
    curator_of,
    primitives,
)
from sfumato.models import every_name, find_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.manifest import content_of
from sfumato.releases.file.members import CELL, parts_column
from sfumato.releases.release import Contents, Release, contents_of
from sfumato.schema import Schema

Numbers = dict[str, int]


@dataclass(frozen=True, eq=False)
class Shown:
    """Numbers and remaining bytes of one release file.

    numbers: of the manifest, by where they stand in it. columns: of the members. words: all else, as bytes.
    """

    numbers: Numbers
    columns: dict[str, Outputs]
    words: bytes


def shown(contents: Contents, cells: int) -> Shown:
    """Extract all numbers of a release file.

    cells: of the domain. A member that numbers its cells is laid out cell by cell, with the others HIDDEN. An estimate,
    which a file keeps as a whole number and a fraction in PARTS, also gets a column with all of it in PARTS, on which a
    threshold separates more.
    """
    numbers, words = numbers_and_words(json.dumps(content_of(contents.manifest)))
    found: dict[str, Outputs] = {}
    for member, columns in contents.columns.items():
        own = dict(columns)
        for name, values in columns.items():
            if parts_column(name) in columns:
                own[f"{name} in parts"] = values * PARTS + columns[parts_column(name)]
        index = columns.get(CELL)
        if index is not None and _in_order(index, cells):
            numbers = numbers | {f"{member}, rows": len(index)}
            own = {name: _scattered(values, index, cells) for name, values in own.items()}
        found |= {f"{member}, {name}": values for name, values in own.items()}
    return Shown(numbers, found, words)


@dataclass(frozen=True, eq=False)
class Layout:
    """Column layout of an output row: one per manifest number; per member column its length, then its values."""

    numbers: dict[str, int]
    columns: dict[str, tuple[int, int]]  # where the length stands, and for how many values there is room after it
    width: int

    @classmethod
    def of(cls, first: Iterable[Shown]) -> Layout:
        """Layout with room for all numbers of some first runs, which must not be among the runs judged."""
        longest: dict[str, int] = {}
        names: dict[str, int] = {}
        for one in first:
            for name in one.numbers:
                names.setdefault(name, 1 + len(names))
            for name, values in one.columns.items():
                longest[name] = max(longest.get(name, 0), len(values))
        width, columns = 1 + len(names), {}
        for name, room in longest.items():
            columns[name] = width, room
            width += 1 + room
        return cls(names, columns, width)

    def row(self, one: Shown) -> Outputs:
        """Output row of a file, (width,); numbers without a column enter the checksum in the first one."""
        row, left = np.full(self.width, HIDDEN), one.words
        for name, number in one.numbers.items():
            place = self.numbers.get(name)
            if place is None:
                left += f"{name}: {number}".encode()
            else:
                row[place] = number
        for name, values in one.columns.items():
            start, room = self.columns.get(name, (0, 0))
            if start:
                row[start] = len(values)
                row[start + 1 : start + 1 + room][: len(values)] = values[:room]
            if len(values) > room or not start:
                left += name.encode() + values[room:].tobytes()
        row[0] = crc32(left)
        return row


def _in_order(index: Outputs, cells: int) -> bool:
    """Whether cell numbers are ascending and inside the domain; otherwise their order might leak."""
    return not len(index) or bool(index[0] >= 0 and index[-1] < cells and (np.diff(index) > 0).all())


def _scattered(values: Outputs, index: Outputs, cells: int) -> Outputs:
    dense = np.full(cells, HIDDEN)
    dense[index] = values
    return dense


@lru_cache(maxsize=256)
def numbers_and_words(text: str) -> tuple[Numbers, bytes]:
    """Numbers of a manifest by their path, and the bytes of everything else in it; cached."""
    numbers: Numbers = {}
    words: list[str] = []
    _walk(json.loads(text), "", numbers, words)
    return numbers, "\n".join(words).encode()


def _walk(value: JsonValue, place: str, numbers: Numbers, words: list[str]) -> None:
    if isinstance(value, dict):
        words.append(f"{place}: {sorted(value)}")
        for key, part in value.items():
            _walk(part, f"{place}/{key}", numbers, words)
    elif isinstance(value, list):
        numbers[f"{place} length"] = len(value)
        for number, part in enumerate(value):
            _walk(part, f"{place}/{number}", numbers, words)
    elif isinstance(value, float):
        numbers[place] = in_order_of_size(value)
    elif type(value) is int and abs(value) < 2**63:
        numbers[place] = value
    else:
        words.append(f"{place}: {value!r}")


def in_order_of_size(value: float) -> int:
    """Order-preserving integer of a float, from its bits."""
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else -1 - (bits & (2**63 - 1))


CELLS = 6  # of the small domain on which whole mechanisms run
FIRST = 12  # runs on either table that show which columns there are
EMPTY_CELL: Counts = (0, 15, 0, 3, 40, 0)  # rows in each cell before a person adds rows to cell 0


def all_subjects() -> list[Subject]:
    """Primitives and whole mechanisms: a mechanism that is added to the registry is attacked without further ado."""
    return primitives() + [subject for name in every_name() for subject in mechanism_subjects(name)]


def mechanism_subject(name: str, *, contributions: int = 1, before: Counts = EMPTY_CELL) -> Subject:
    """Subject for a registered mechanism, with one measure, at epsilon 1; a person adds rows to cell 0."""
    mechanism = find_mechanism(name)
    return subject_of(mechanism.with_options(mechanism.lab.tried_with), contributions=contributions, before=before)


def mechanism_subjects(name: str) -> list[Subject]:
    """Subjects for one mechanism's worst cases: an empty cell, two rows in an empty table, a cell at the threshold."""
    nothing, crowded = (0,) * CELLS, (15, 0, 0, 3, 40, 0)
    cases = (1, EMPTY_CELL), (2, nothing), (1, crowded)
    return [mechanism_subject(name, contributions=rows, before=before) for rows, before in cases]


def subject_of(mechanism: Mechanism, *, contributions: int = 1, before: Counts = EMPTY_CELL) -> Subject:
    """Subject of the sampling audit for a mechanism, in the registry or not."""
    schema = audit_schema(contributions) if mechanism.lab.example is None else mechanism.lab.example(contributions)
    cells = schema.domain.size
    half = next((measure.half_units for measure in schema.measures.values()), None)
    before = tuple(before[cell % CELLS] for cell in range(cells))
    after = (before[0] + contributions, *before[1:])
    sums = (0,) * cells, (contributions * (half or 0), *[0] * (cells - 1))  # the new rows all have the highest value
    tables = aggregate_of(before, sums[0]), aggregate_of(after, sums[1])
    guarantee = describe_guarantee(BUDGET, schema)

    def release(which: int, entropy: Entropy) -> Shown:
        curator = curator_of(schema.domain, tables[which], entropy, contributions, half)
        content = mechanism.run(curator, schema, BUDGET, None)
        return shown(contents_of(Release(content, mechanism.name, guarantee, entropy.private)), cells)

    @cache
    def layout() -> Layout:
        fixed = PooledEntropy(TestingEntropy(0))  # the same columns every time, whatever the runs then draw
        return Layout.of(release(which, fixed) for _ in range(FIRST) for which in (0, 1))

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        pooled = PooledEntropy(entropy)
        return np.array([layout().row(release(which, pooled)) for _ in range(runs)])

    rows = "1 row" if contributions == 1 else f"{contributions} rows"
    return Subject(f"{mechanism.name}, {rows} more than {before[0]} of {sum(before)}", ONE, run)


@lru_cache(maxsize=8)
def audit_schema(contributions: int) -> Schema:
    return Schema.from_dict(
        {
            "dataset": "audit",
            "privacy_unit": {"column": "person", "contributions": contributions},
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": CELLS - 1}},
            "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
        }
    )
