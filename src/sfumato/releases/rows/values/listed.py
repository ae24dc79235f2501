"""Columns of listed values: what the table has for a row's cells, in a spelling that all its attributes read so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Block
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.releases.rows.values.spelled import cell_of, in_digits, spelled
from sfumato.schema.attributes import Attribute, Boolean, Category
from sfumato.schema.recoding import as_number

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Listed:
    """A column that categories or booleans are read from, the first of them first.

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
        """A value for every row; nothing is left to chance."""
        import pyarrow as pa

        (_, first), *others = self.parts
        if not others:
            return self._cells.take(pa.array(block.codes[first.name]))
        codes = np.stack([block.codes[axis.name] for _, axis in self.parts], axis=1)
        seen, places = np.unique(codes, axis=0, return_inverse=True)
        texts = [self._text(tuple(map(int, cells))) for cells in seen]
        return self._typed(texts).take(pa.array(places.reshape(-1)))

    @cached_property
    def _cells(self) -> Any:
        """What stands for each cell of the first attribute."""
        attribute, axis = self.parts[0]
        return self._typed([next(spelled(attribute, cell, self.counted)) for cell in range(axis.size)])

    def _text(self, cells: Sequence[int]) -> str | None:
        """A text that every attribute reads into its cell; what the first one does, where noise left none."""
        for (attribute, _), cell in zip(self.parts, cells, strict=True):
            for text in spelled(attribute, cell, self.counted):
                if all(cell_of(*part, text) == wanted for part, wanted in zip(self.parts, cells, strict=True)):
                    return text
        return next(spelled(self.parts[0][0], cells[0], self.counted))

    def _typed(self, texts: Sequence[str | None]) -> Any:
        import pyarrow as pa

        kind = self.type
        if kind == pa.string():
            return pa.array(texts, kind)
        if kind == pa.bool_():
            return pa.array([None if text is None else text == "true" for text in texts], kind)
        numbers = [None if text is None else as_number(text) for text in texts]
        return pa.array([number if number is None or kind != pa.int64() else int(number) for number in numbers], kind)
