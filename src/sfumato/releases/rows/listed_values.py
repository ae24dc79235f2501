"""Columns of categories and booleans in synthetic rows, in spellings that the schema reads back into the same cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Block, RandomNumbers, arrow_numbers, arrow_texts
from sfumato.schema.attributes import Attribute, Boolean, Category, Integer, Number
from sfumato.schema.attributes.lists import OTHER, as_number, folded

if TYPE_CHECKING:
    import pyarrow as pa

_TRUTHS = {"false": 0, "true": 1, "0": 0, "1": 1}


def spelled(attribute: Attribute, cell: int, counted: bool = False) -> Iterator[str | None]:
    """Texts that are read into a cell, the simplest first; None is a missing value. Empty where there are too many.

    counted: the column is read as a number too.
    """
    if cell == attribute.places:
        yield None
    elif isinstance(attribute, Category) and cell == len(attribute.values):
        yield _unlisted(attribute, counted)
    elif isinstance(attribute, Category):
        yield attribute.listed[cell]
        yield from (text for text, place in attribute.spellings.items() if place == cell)
    elif isinstance(attribute, Boolean):
        usual = ("false", "true")[cell]
        if attribute.spellings.get(folded(usual, attribute.fold or ()), cell) == cell:
            yield usual
        yield from (text for text, truth in attribute.spellings.items() if truth == cell)


def cell_of(attribute: Attribute, axis: Axis, text: str | None) -> int | None:
    """Cell that a text is read into; None if its row would be left out."""
    missing = attribute.places if attribute.keeps_missing else None
    if text is None:
        return missing
    if isinstance(attribute, Category):
        cell = attribute.spellings.get(folded(text, attribute.fold or ()))
        return len(attribute.values) if cell is None and attribute.other else cell
    if isinstance(attribute, Boolean):
        truth = attribute.spellings.get(folded(text, attribute.fold or ()))
        return _TRUTHS.get(text, missing) if truth is None else int(truth)
    number = as_number(text)
    if number is None or not isinstance(attribute, Integer | Number):
        return missing
    cell = int(np.searchsorted(axis.edges, number, side="right")) - 1
    return min(max(cell, 0), axis.places - 1)


def in_digits(attribute: Category, counted: bool) -> bool:
    """Whether a category is written in digits only: a word for others would be read as missing beside numbers.

    Also where values have decimals, for these are spelled in many ways.
    """
    whole = all((number := as_number(text)) is not None and number.is_integer() for text in attribute.spellings)
    return counted or (attribute.numeric and (not attribute.other or attribute.keeps_missing or not whole))


def _unlisted(attribute: Category, counted: bool) -> str:
    """Text that is read as "other": the word unless it is listed, or a number."""
    if in_digits(attribute, counted):
        numbers = [number for text in attribute.spellings if (number := as_number(text)) is not None]
        return str(int(max(numbers, default=0.0)) + 1)
    words = (OTHER + "_" * more for more in count())
    return next(word for word in words if folded(word, attribute.fold or ()) not in attribute.spellings)


@dataclass(frozen=True)
class Listed:
    """Column that categories or booleans are read from, the first of them first.

    counted: it is read as a number as well, by a measure or another attribute.
    """

    parts: tuple[tuple[Attribute, Axis], ...]
    counted: bool = False

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        attribute, *others = (attribute for attribute, _ in self.parts)
        if isinstance(attribute, Boolean) and not others and next(spelled(attribute, 1)) == "true":
            return pa.bool_()
        listed = [part for part, _ in self.parts if isinstance(part, Category)]
        texts = not listed or any(not in_digits(part, self.counted) for part in listed)
        numbers = [as_number(text) for part in listed for text in part.spellings]
        if texts or None in numbers:
            return pa.string()
        whole = all(number is not None and number.is_integer() and abs(number) < 2**53 for number in numbers)
        return pa.int64() if whole else pa.float64()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """Value of every row; deterministic."""
        (_, first), *others = self.parts
        if not others:
            return self._cells.take(arrow_numbers(block.codes[first.name]))
        codes = np.stack([block.codes[axis.name] for _, axis in self.parts], axis=1)
        seen, places = np.unique(codes, axis=0, return_inverse=True)
        texts = [self._text(tuple(map(int, cells))) for cells in seen]
        return self._typed(texts).take(arrow_numbers(places.reshape(-1)))

    @cached_property
    def _cells(self) -> Any:
        """Value of each cell of the first attribute."""
        attribute, axis = self.parts[0]
        return self._typed([next(spelled(attribute, cell, self.counted)) for cell in range(axis.size)])

    def _text(self, cells: Sequence[int]) -> str | None:
        """Text that every attribute reads into its cell; the first one's where noise made the cells inconsistent."""
        for (attribute, _), cell in zip(self.parts, cells, strict=True):
            for text in spelled(attribute, cell, self.counted):
                if all(cell_of(*part, text) == wanted for part, wanted in zip(self.parts, cells, strict=True)):
                    return text
        return next(spelled(self.parts[0][0], cells[0], self.counted))

    def _typed(self, texts: Sequence[str | None]) -> Any:
        import pyarrow as pa

        kind = self.type
        if kind == pa.string():
            return arrow_texts(texts)
        if kind == pa.bool_():
            true, missing = np.array([text == "true" for text in texts]), np.array([text is None for text in texts])
            return arrow_numbers(true.astype(np.int8), missing).cast(kind)
        numbers = [None if text is None else as_number(text) for text in texts]
        values = np.array([number or 0.0 for number in numbers])
        missing = np.array([number is None for number in numbers])
        return arrow_numbers(values.astype(np.int64) if kind == pa.int64() else values, missing)
