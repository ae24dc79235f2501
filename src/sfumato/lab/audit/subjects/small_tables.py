"""Small made-up tables for the audit, and curators over them.

Nothing here is private: the tables are public inventions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np

from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.schema import Schema
from sfumato.schema.parts import missing_of


class Row(NamedTuple):
    """Row of a made-up table: person, cell, and steps of each measure.

    A step of None is a missing value.
    """

    person: int
    cell: int
    steps: tuple[int | None, ...] = ()


Table = Sequence[Row]


def neighbouring_tables(
    cells: int, rows: int, contributions: int, levels: Sequence[tuple[int | None, ...]] = ((),)
) -> Iterator[tuple[Table, Table]]:
    """Every table of up to `rows` rows with and without every person, up to the order of rows.

    levels: the steps of the measures that a row may have.
    """
    kinds = list(product(range(cells), levels))
    for size in range(1, contributions + 1):
        for rest in range(rows - size + 1):
            for others in combinations_with_replacement(kinds, rest):
                table = [Row(place + 1, *kind) for place, kind in enumerate(others)]
                for own in combinations_with_replacement(kinds, size):
                    yield [*table, *(Row(0, *kind) for kind in own)], table


def small_schema(cells: int, contributions: int, *, measured: bool) -> Schema:
    """Schema of one attribute with `cells` values and optionally a measure of -2 to 2 steps around its centre."""
    keys: dict[str, object] = {
        "dataset": "audit",
        "privacy_unit": {"column": "person", "contributions": contributions},
        "attributes": {"cell": {"type": "integer", "lower": 0, "upper": cells - 1}},
    }
    return Schema.from_dict(keys | ({"measures": {"m": {"lower": 0, "upper": 4, "step": 1}}} if measured else {}))


def square_schema(contributions: int) -> Schema:
    """Two attributes of two values each: the smallest table with margins."""
    boolean = {"type": "integer", "lower": 0, "upper": 1}
    unit = {"column": "person", "contributions": contributions}
    return Schema.from_dict({"dataset": "audit", "privacy_unit": unit, "attributes": {"a": boolean, "b": boolean}})


def curator_of(schema: Schema, table: Table, budget: Budget, kind: type[Curator], entropy: Entropy) -> Curator:
    """A curator of this kind that holds a table and may spend a budget."""
    counts = np.zeros(schema.domain.size, dtype=np.int64)
    units = {name: measure.half_units for name, measure in schema.measures.items()}
    sums = {name: np.zeros_like(counts) for name in list(schema.units)[1:]}
    for row in table:
        counts[row.cell] += 1
        for (name, half), steps in zip(units.items(), row.steps, strict=True):
            if steps is None:
                sums[missing_of(name)][row.cell] += 1
                continue
            if abs(steps) > half:
                raise PrivacyError(f"a row of the audit has more steps of {name} than the schema allows")
            sums[name][row.cell] += steps
    return over_counts(schema, counts, budget, entropy, sums, kind)


def difference(one: Table, other: Table, contributions: int) -> list[Row]:
    """Rows of the person by whom two tables differ; a PrivacyError if they are no neighbours."""
    larger, smaller = (one, other) if len(one) >= len(other) else (other, one)
    own = [row for row in larger if row.person not in {each.person for each in smaller}]
    rest = Counter(row for row in larger if row not in own)
    if rest != Counter(smaller) or len({row.person for row in own}) > 1 or len(own) > contributions:
        raise PrivacyError("the tables are no neighbours; take away all rows of one person, and give each few enough")
    return own
