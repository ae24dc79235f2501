"""Attributes whose values are listed one by one: categories and booleans."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

from pydantic import model_validator

from sfumato.domain import Axis
from sfumato.schema.attributes.declared import Attributed, check_size, floats
from sfumato.schema.groups import GroupLevels, groups_of, order_by_groups, splits_of
from sfumato.schema.recoding import (
    Folds,
    Labels,
    Spellings,
    Truths,
    as_number,
    as_text,
    labels_of,
    places_of,
    truths_of,
)
from sfumato.schema.values import Flag, Values, shown

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
        seen: set[str] = set()
        for value in self.listed:
            if value in seen:
                raise ValueError(f"lists the value {shown(value)} twice; keep one")
            seen.add(value)
        if self.other and OTHER in seen | set(self.shown_values):
            raise ValueError("lists a value 'other' and has other: true, which adds a cell of that name; drop one")
        if self.fold and self.numeric:
            raise ValueError("has fold, but all its values are numbers, which are not folded; drop it")
        check_size(self.size, "list fewer values and set other: true")
        if self.groups:
            order = order_by_groups(self.listed, self.groups)
            object.__setattr__(self, "values", tuple(self.values[place] for place in order))
            self.__dict__.pop("listed", None)  # which was worked out in the order that was written
        _ = self.spellings, self.shown_values  # which refuse what is told twice
        return self

    @cached_property
    def numeric(self) -> bool:
        """Whether every value and spelling is a number, so that the column is compared as numbers, not as text."""
        texts = any(isinstance(value, str) for value in self.values)
        return not texts and all(as_number(spelling) is not None for spelling in self.map or ())

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The values as text, without `other`."""
        return tuple(as_text(value) for value in self.values)

    @property
    def shown_values(self) -> tuple[str, ...]:
        """The listed values as they are shown: by their labels, where they have one."""
        return labels_of(self.listed, self.labels or {})

    @cached_property
    def spellings(self) -> dict[str, int]:
        """Every spelling, folded, and its place in the list."""
        return places_of(self.listed, self.map or {}, self.fold or ())

    @property
    def group_columns(self) -> dict[str, tuple[str | None, ...]]:
        """For each column of groups, the group of every cell; `other` is a group of its own."""
        rest = (*[OTHER] * self.other, *[None] * self.keeps_missing)
        return {column: (*groups, *rest) for column, groups in groups_of(self.listed, self.groups or {}).items()}

    @property
    def places(self) -> int:
        """How many cells there are for values."""
        return len(self.values) + self.other

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        labels = (*self.shown_values, *[OTHER] * self.other)
        codes = self.listed if self.labels else ()
        edges, splits = floats(range(len(labels) + 1)), splits_of(self.group_columns)
        return Axis(name, "category", edges, labels, codes=codes, splits=splits, missing=self.keeps_missing)


class Boolean(Attributed):
    """False or true; a map tells how a table spells them, before what is usual: {1: true, 2: false}.

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
        """Every spelling that the map tells, folded."""
        return truths_of(self.map or {}, self.fold or ())

    @property
    def places(self) -> int:
        """How many cells there are for values."""
        return 2

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        return Axis(name, "boolean", floats(range(3)), (False, True), missing=self.keeps_missing)
