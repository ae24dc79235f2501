"""Categories and booleans: attributes whose values are listed one by one, their spellings, and groups of their values.

A table's own spellings become listed values by folding letters and blanks, and by a map. Folding is of ASCII alone,
letter by letter from a table, so that it depends on no locale, no version of Unicode and no engine: A to Z become a to
z, and blanks (space, tab, line ends) at both ends are dropped. An É stays an É: map it.

Groups of listed values, such as municipalities in regions, are public columns that follow from another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from string import ascii_lowercase, ascii_uppercase
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import PlainValidator, model_validator

from sfumato.domain import Axis
from sfumato.plain_text import all_file_safe, file_safe
from sfumato.schema.parts import (
    Attributed,
    Flag,
    Values,
    category_value,
    check_size,
    column_name,
    decimal,
    exact,
    flag,
    shown,
)

Fold = Literal["case", "spaces"]
Value = str | int | float

UPPER, LOWER = ascii_uppercase, ascii_lowercase
BLANKS = " \t\n\v\f\r"
_FOLDS: tuple[Fold, ...] = ("case", "spaces")
_LETTERS = str.maketrans(UPPER, LOWER)


def folded(text: str, how: tuple[Fold, ...]) -> str:
    """Fold a text as stated: ASCII letters to lower case, blanks at both ends dropped.

    >>> folded(" Ünal ", ("case", "spaces")), folded("F ", ("case",))
    ('Ünal', 'f ')
    """
    text = text.strip(BLANKS) if "spaces" in how else text
    return text.translate(_LETTERS) if "case" in how else text


def as_text(value: Value) -> str:
    """A listed value as text; numbers in the one way in which they are shown."""
    return value if isinstance(value, str) else str(decimal(exact(value)))


def _as_texts(values: Sequence[Value]) -> tuple[str, ...]:
    """Listed values as text; many texts at once."""
    if {*map(type, values)} == {str}:
        return tuple(values)  # type: ignore[arg-type]
    return tuple(as_text(value) for value in values)


def as_number(text: str) -> float | None:
    """Parse a text as a number; None if it is none."""
    try:
        return float(exact(text))
    except ValueError:
        return None


def _fold(value: object) -> tuple[Fold, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(word in _FOLDS for word in words):
        raise ValueError(f"is {shown(value)}; choose case, spaces or [case, spaces]")
    return tuple(word for word in _FOLDS if word in words)


def _keyed(read: Callable[[object], Value], example: str) -> Callable[[object], dict[str, Value]]:
    """Parser of a mapping from spellings to values, each of which `read` parses. example: for messages."""

    def pairs(value: object) -> dict[str, Value]:
        if not isinstance(value, Mapping) or not value:
            raise ValueError(f"must be pairs, such as {example}")
        try:
            found = [(as_text(category_value(key)), read(entry)) for key, entry in value.items()]
        except ValueError as problem:
            raise ValueError(f"holds an entry that {str(problem).partition(', or use type: boolean')[0]}") from None
        if len(dict(found)) < len(found):
            raise ValueError("has a key twice, once as a number and once as text; keep one")
        return dict(found)

    return pairs


def _label(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is {shown(value)}; a label must be text, in quotes if YAML reads it otherwise")
    return value


Folds = Annotated[tuple[Fold, ...], PlainValidator(_fold)]
Spellings = Annotated[dict[str, Value], PlainValidator(_keyed(category_value, "{f: F, m: M}"))]
Truths = Annotated[dict[str, bool], PlainValidator(_keyed(flag, "{ja: true, nein: false}"))]
Labels = Annotated[dict[str, str], PlainValidator(_keyed(_label, "{1: Never married, 2: Married}"))]


def places_of(listed: tuple[str, ...], spelled: Mapping[str, Value], fold: tuple[Fold, ...]) -> dict[str, int]:
    """All known spellings, folded, with the index of the listed value that each means."""
    folds = [folded(text, fold) for text in listed] if fold else listed
    places = dict(zip(reversed(folds), reversed(range(len(folds))), strict=True))
    for place, text in enumerate(listed) if len(places) < len(listed) else ():
        other = places.setdefault(folded(text, fold), place)
        if other != place:
            raise ValueError(f"lists {shown(listed[other])} and {shown(text)}, which fold takes for one; keep one")
    place_of = {text: place for place, text in enumerate(listed)} if spelled else {}
    for spelling, value in spelled.items():
        if as_text(value) not in place_of:
            raise ValueError(f"maps {shown(spelling)} to {shown(value)}, which is not listed; add it to values")
        place = place_of[as_text(value)]
        other = places.setdefault(folded(spelling, fold), place)
        if other != place:
            raise ValueError(
                f"maps {shown(spelling)} to {shown(value)}, but it already means {shown(listed[other])}; drop one"
            )
    every = (*listed, *spelled)
    for text in (
        () if all_file_safe(every) else every
    ):  # as `sample` and Excel write what a spreadsheet would run, or not show
        places.setdefault(folded(file_safe(text), fold), places[folded(text, fold)])
    return places


def truths_of(spelled: Mapping[str, bool], fold: tuple[Fold, ...]) -> dict[str, bool]:
    """The spellings of a boolean that the map states, folded."""
    found: dict[str, bool] = {}
    for spelling, truth in spelled.items():
        if found.setdefault(folded(spelling, fold), truth) != truth:
            raise ValueError(f"maps {shown(spelling)} to true and to false, which fold takes for one; drop one")
    return found


def labels_of(listed: tuple[str, ...], labels: Mapping[str, str]) -> tuple[str, ...]:
    """The label of each listed value, or the value itself."""
    if not labels:
        return listed
    codes = {code: place for place, code in enumerate(listed)}
    unknown = [code for code in labels if code not in codes]
    if unknown:
        raise ValueError(f"labels {shown(unknown[0])}, which is not listed; add it to values, or drop the label")
    found, seen = tuple(labels.get(code, code) for code in listed), set[str]()
    for place, label in enumerate(found):
        if label in seen or codes.get(label, place) != place:
            raise ValueError(f"has the label {shown(label)} for two values; queries could not tell them apart")
        seen.add(label)
    return found


Levels = dict[str, dict[str, tuple[str, ...] | int]]

_EXAMPLE = "{region: {North: [Aa, Bergen], South: [Calw]}}"


def _levels(value: object) -> Levels:
    if not isinstance(value, Mapping) or not value or not all(isinstance(part, Mapping) for part in value.values()):
        raise ValueError(f"must name columns, and for each of them groups of values, such as {_EXAMPLE}")
    try:
        return {
            column_name(column): {as_text(category_value(group)): _members(some) for group, some in groups.items()}
            for column, groups in value.items()
        }
    except ValueError as problem:
        raise ValueError(f"holds an entry that {problem}") from None


def _members(value: object) -> tuple[str, ...] | int:
    if type(value) is int and value > 0:
        return value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(
            f"is {shown(value)}; list the values of each group, such as {_EXAMPLE}, or how many of the values"
        )
    if {*map(type, value)} == {str}:
        return tuple(value)
    return tuple(as_text(category_value(member)) for member in value)


GroupLevels = Annotated[Levels, PlainValidator(_levels)]


def groups_of(listed: tuple[str, ...], levels: Levels) -> dict[str, tuple[str, ...]]:
    """For each column of groups, the group of every listed value.

    A group's members are values, or groups of a column before it: {region: {...}, country: {X: [North, South]}}. Or
    their number, where each column's groups hold the values one after the other.

    >>> groups_of(("a", "b", "c"), {"region": {"N": ("a", "b"), "S": ("c",)}, "land": {"X": ("N", "S")}})
    {'region': ('N', 'N', 'S'), 'land': ('X', 'X', 'X')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for column, groups in levels.items():
        if _counted(groups):
            found[column] = _runs(column, groups, len(listed))
            continue
        known = _inside(listed, found)
        group_of: dict[str, str] = {}
        for group, members in groups.items():
            if isinstance(members, int):
                raise ValueError(
                    f"has groups of {column} some of which are lists and some numbers; list the values of all"
                )
            for value in (value for member in members for value in _values(member, column, known)):
                other = group_of.setdefault(value, group)
                if other != group:
                    raise ValueError(f"has {shown(value)} in two groups of {column}, {shown(other)} and {shown(group)}")
        left = [value for value in listed if value not in group_of]
        if left:
            raise ValueError(f"has {shown(left[0])} in no group of {column}; put every value into one")
        found[column] = tuple(group_of[value] for value in listed)
    return found


def _counted(groups: Mapping[str, tuple[str, ...] | int]) -> bool:
    """Whether all groups are given by their number of values."""
    return all(isinstance(members, int) for members in groups.values())


def _runs(column: str, groups: Mapping[str, tuple[str, ...] | int], values: int) -> tuple[str, ...]:
    """Group of every value, where each group is given by its number of consecutive values."""
    sizes = [size for size in groups.values() if isinstance(size, int)]
    if sum(sizes) != values:
        raise ValueError(
            f"has {values} values, and the groups of {column} have {sum(sizes)} in all; correct the numbers"
        )
    return tuple(chain.from_iterable(map(repeat, groups, sizes)))


def _inside(listed: tuple[str, ...], found: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Listed values by the name that stands for them: a value, or else a group of the last column that has it."""
    inside: dict[str, list[str]] = {}
    for groups in found.values():
        own: dict[str, list[str]] = {}
        for value, group in zip(listed, groups, strict=True):
            own.setdefault(group, []).append(value)
        inside |= own
    return inside | {value: [value] for value in listed}


def _values(member: str, column: str, known: Mapping[str, list[str]]) -> list[str]:
    """Expand a group's member to listed values: itself, or the members of a group of an earlier column."""
    if member not in known:
        raise ValueError(f"has {shown(member)} in a group of {column}, which is neither a listed value nor a group")
    return known[member]


def splits_of(columns: Mapping[str, tuple[str | None, ...]]) -> tuple[tuple[int, ...], ...]:
    """The boundaries between groups, column by column from the coarsest, as far as columns are nested.

    >>> splits_of({"region": ("N", "N", "S", "E"), "land": ("X", "X", "X", "Y")})
    ((3,), (2, 3))
    """
    found: list[tuple[int, ...]] = []
    for groups in sorted(columns.values(), key=lambda groups: len(set(groups))):
        cuts = tuple(place for place in range(1, len(groups)) if groups[place] != groups[place - 1])
        nested = not found or set(found[-1]) < set(cuts)
        if cuts and nested and len(cuts) == len(set(groups)) - 1:
            found.append(cuts)
    return tuple(found)


def order_by_groups(listed: tuple[str, ...], levels: Levels) -> list[int]:
    """Order of values (their indices) that keeps each group together, so that trees cut between groups first."""
    found = groups_of(listed, levels)
    coarse_first = sorted(found, key=lambda column: len(levels[column]))
    ranks = [{group: rank for rank, group in enumerate(levels[column])} for column in coarse_first]
    keys = [
        tuple(rank[found[column][place]] for column, rank in zip(coarse_first, ranks, strict=True))
        for place in range(len(listed))
    ]
    return sorted(range(len(listed)), key=lambda place: keys[place])


OTHER = "other"


class Category(Attributed):
    """One of the listed values; rows with another are left out, or gathered in a last cell with `other: true`.

    >>> Category(values=("F", "M"), other=True).axis("sex").labels()
    ['F', 'M', 'other']
    """

    type: Literal["category"] = "category"
    values: Values
    other: Flag = False
    map: Spellings | None = None  # other spellings of listed values
    fold: Folds | None = None  # differences in spelling that do not matter
    labels: Labels | None = None  # what is shown in place of a value
    groups: GroupLevels | None = None  # columns that follow from this one, and their groups of values

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        seen = set(self.listed)
        if len(seen) < len(self.listed):
            twice = next(value for value, number in Counter(self.listed).items() if number > 1)
            raise ValueError(f"lists the value {shown(twice)} twice; keep one")
        if self.other and OTHER in seen | set(self.shown_values):
            raise ValueError("lists a value 'other' and has other: true, which adds a cell of that name; drop one")
        if self.fold and self.numeric:
            raise ValueError("has fold, but all its values are numbers, which are not folded; drop it")
        check_size(self.size, "list fewer values and set other: true")
        if self.groups and not all(map(_counted, self.groups.values())):
            order = order_by_groups(self.listed, self.groups)
            if any(map(_counted, self.groups.values())) and order != sorted(order):
                raise ValueError(
                    "has groups by number whose values are not in the order of the other groups; list them"
                )
            object.__setattr__(self, "values", tuple(self.values[place] for place in order))
            for name in ("listed", "shown_values"):  # which were worked out in the order that was written
                self.__dict__.pop(name, None)
        _ = self.group_columns if self.groups else None
        _ = self.shown_values, (self.map or self.fold) and self.spellings  # which refuse what is told twice
        return self

    @cached_property
    def numeric(self) -> bool:
        """Whether every value and spelling is a number, so that the column is compared as numbers, not as text."""
        texts = any(isinstance(value, str) for value in self.values)
        return not texts and all(as_number(spelling) is not None for spelling in self.map or ())

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The values as text, without `other`."""
        return _as_texts(self.values)

    @cached_property
    def shown_values(self) -> tuple[str, ...]:
        """The listed values as they are shown: by their labels, where they have one."""
        return labels_of(self.listed, self.labels or {})

    @cached_property
    def spellings(self) -> dict[str, int]:
        """Every spelling, folded, and its place in the list."""
        return places_of(self.listed, self.map or {}, self.fold or ())

    def knows(self, text: str) -> bool:
        """Whether a text is a listed value, or a spelling of one."""
        if self.numeric:
            return as_number(text) in map(as_number, self.spellings)
        return folded(text, self.fold or ()) in self.spellings

    @cached_property
    def group_columns(self) -> dict[str, tuple[str | None, ...]]:
        """For each column of groups, the group of every cell; `other` is a group of its own."""
        rest = (*[OTHER] * self.other, *[None] * self.keeps_missing)
        return {column: (*groups, *rest) for column, groups in groups_of(self.listed, self.groups or {}).items()}

    @property
    def places(self) -> int:
        """The number of listed values, `other` included; a cell for missing values is not."""
        return len(self.values) + self.other

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        labels = (*self.shown_values, *[OTHER] * self.other)
        codes = self.listed if self.labels else ()
        edges, splits = np.arange(len(labels) + 1.0), splits_of(self.group_columns)
        return Axis(name, "category", edges, labels, codes=codes, splits=splits, missing=self.keeps_missing)


class Boolean(Attributed):
    """Boolean attribute. map: a table's spellings, which precede the usual ones: {1: true, 2: false}.

    >>> Boolean().axis("married").labels()
    [False, True]
    """

    type: Literal["boolean"] = "boolean"
    map: Truths | None = None
    fold: Folds | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.fold and not self.map:
            raise ValueError("has fold without a map; add a map, or drop it: true and false are read in any case")
        _ = self.spellings
        return self

    @cached_property
    def spellings(self) -> dict[str, bool]:
        """The spellings that the map states, folded."""
        return truths_of(self.map or {}, self.fold or ())

    def knows(self, text: str) -> bool:
        """Whether the map has a text."""
        return folded(text, self.fold or ()) in self.spellings

    @property
    def places(self) -> int:
        """The number of values: true and false."""
        return 2

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        return Axis(name, "boolean", np.arange(3.0), (False, True), missing=self.keeps_missing)
