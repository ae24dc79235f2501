"""How a table spells a cell of an attribute, and into which cell an attribute reads a spelling."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from sfumato.domain import Axis
from sfumato.schema.attributes import Attribute, Boolean, Category, Integer, Number
from sfumato.schema.attributes.lists import OTHER
from sfumato.schema.recoding import as_number, folded

_TRUTHS = {"false": 0, "true": 1, "0": 0, "1": 1}


def spelled(attribute: Attribute, cell: int, counted: bool = False) -> Iterator[str | None]:
    """The texts that are read into a cell, the plainest first; None is no value. None at all where there are too many.

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
    """The cell that a text is read into, as far as can be told here; None if its row would be left out."""
    missing = attribute.places if attribute.keeps_missing else None
    if text is None:
        return missing
    if isinstance(attribute, Category):
        place = attribute.spellings.get(folded(text, attribute.fold or ()))
        return len(attribute.values) if place is None and attribute.other else place
    if isinstance(attribute, Boolean):
        told = attribute.spellings.get(folded(text, attribute.fold or ()))
        return _TRUTHS.get(text, missing) if told is None else int(told)
    number = as_number(text)
    if number is None or not isinstance(attribute, Integer | Number):
        return missing
    place = int(np.searchsorted(axis.edges, number, side="right")) - 1
    return min(max(place, 0), axis.places - 1)


def in_digits(attribute: Category, counted: bool) -> bool:
    """Whether all of a category is written in digits: a word for others would be read as no value beside a number.

    Where values have decimals too, for these are spelled in many ways.
    """
    whole = all((number := as_number(text)) is not None and number.is_integer() for text in attribute.spellings)
    return counted or (attribute.numeric and (not attribute.other or attribute.keeps_missing or not whole))


def _unlisted(attribute: Category, counted: bool) -> str:
    """What is read as other: the word unless it is listed, or a number."""
    if in_digits(attribute, counted):
        numbers = [number for text in attribute.spellings if (number := as_number(text)) is not None]
        return str(int(max(numbers, default=0.0)) + 1)
    words = (OTHER + "_" * more for more in count())
    return next(word for word in words if folded(word, attribute.fold or ()) not in attribute.spellings)
