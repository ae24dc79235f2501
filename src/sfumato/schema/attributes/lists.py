"""Attributes whose values are listed one by one: categories and booleans."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from sfumato.domain import Axis
from sfumato.schema.attributes.declared import Attributed, check_size, floats
from sfumato.schema.values import Flag, Values, decimal, exact, shown

OTHER = "other"


class Category(Attributed):
    """One of the listed values; rows with another are left out, or gathered in a last cell with `other: true`.

    >>> Category(values=("F", "M"), other=True).axis("sex").labels()
    ['F', 'M', 'other']
    """

    type: Literal["category"] = "category"
    values: Values
    other: Flag = False

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        seen: set[str] = set()
        for label in self.listed:
            if label in seen:
                raise ValueError(f"lists the value {shown(label)} twice; keep one")
            seen.add(label)
        if self.other and OTHER in seen:
            raise ValueError("lists a value 'other' and has other: true, which adds a cell of that name; drop one")
        check_size(self.size, "list fewer values and set other: true")
        return self

    @property
    def numeric(self) -> bool:
        """Whether every value was written as a number, so that the column is compared as numbers, not as text."""
        return not any(isinstance(value, str) for value in self.values)

    @property
    def listed(self) -> tuple[str, ...]:
        """The values as text, without `other`."""
        return tuple(v if isinstance(v, str) else str(decimal(exact(v))) for v in self.values)

    @property
    def places(self) -> int:
        """How many cells there are for values."""
        return len(self.values) + self.other

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        labels = (*self.listed, OTHER) if self.other else self.listed
        return Axis(name, "category", floats(range(len(labels) + 1)), labels, missing=self.keeps_missing)


class Boolean(Attributed):
    """False or true.

    >>> Boolean().axis("married").labels()
    [False, True]
    """

    type: Literal["boolean"] = "boolean"

    @property
    def places(self) -> int:
        """How many cells there are for values."""
        return 2

    def axis(self, name: str) -> Axis:
        """The numbered cells."""
        return Axis(name, "boolean", floats(range(3)), (False, True), missing=self.keeps_missing)
