"""Whom an epsilon protects: the privacy unit as a value, in words for people, and as the ledger writes it."""

from __future__ import annotations

import json

from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Unit:
    """Any one row, or all rows of any one value of a column.

    How many rows of each are used (`contributions`) is no part of it. Neighbouring tables differ by *all* rows of one
    unit, whatever cap is put on them afterwards, and the noise already pays for the cap. So two releases with one
    column and two caps make the same promise about the same neighbours, and their epsilons add up.

    column: None where every row is a unit of its own.
    """

    column: str | None

    def in_words(self, *contributions: int) -> str:
        """The unit as a promise names it.

        >>> ROW.in_words(1), Unit("person_id").in_words(1), Unit("person_id").in_words(3, 1, 3)  # doctest: +ELLIPSIS
        ('any one row', 'the rows of any one person_id (at most 1 row each)', '...(at most 1 or 3 rows each)')
        """
        if self.column is None:
            return "any one row"
        most = sorted(set(contributions))
        rows = "1 row" if most == [1] else f"{' or '.join(map(str, most))} rows"
        return f"the rows of any one {self.column} (at most {rows} each)"

    def written(self) -> str:
        """The unit as the ledger keeps it; a column may be called "row" and still be told from a row.

        >>> ROW.written(), Unit("row").written()
        ('row', 'column "row"')
        """
        return "row" if self.column is None else f"column {json.dumps(self.column)}"

    @classmethod
    def read(cls, text: object) -> Unit:
        """Read what `written` wrote; a ValueError says that it did not."""
        if not isinstance(text, str) or not text.startswith(("row", 'column "')):
            raise ValueError("not a privacy unit")
        unit = cls(None if text == "row" else json.loads(text.removeprefix("column ")))
        if unit.written() != text:
            raise ValueError("not a privacy unit as the ledger writes it")
        return unit


ROW = Unit(None)
