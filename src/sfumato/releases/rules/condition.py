"""A condition in SQL as a set of cells, read as every WHERE is; one that cuts through a cell is refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.domain import Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql import compile_select

LONGEST = 2000  # characters


def condition_of(text: str, schema: Schema) -> Predicate:
    """The rows that a condition holds for.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> condition_of("ill = true", schema).names
    ('ill',)
    """
    if not text.strip() or len(text) > LONGEST or ";" in text:
        raise QueryError(f"a rule is one SQL condition of up to {LONGEST:,} characters, such as age >= 30")
    select = compile_select(f"SELECT COUNT(*) FROM release WHERE ({text})", schema)
    amounts = [amount for column in select.aggregates for amount, _ in column.counted_by]
    if select.group_by or len(amounts) != 1:
        raise QueryError("a rule is one SQL condition, such as age >= 30 AND sex = 'F', and nothing besides")
    predicate = amounts[0].predicate
    if cut := predicate.cuts(schema.domain):
        raise QueryError(f"the rule {text!r} cuts through cells of {cut[0]}; compare it with the ends of its cells")
    return predicate


def holds(predicate: Predicate, domain: Domain, codes: Mapping[str, Codes], length: int) -> NDArray[np.bool_]:
    """Whether it holds for each of a list of cells, by their places along at least the attributes that matter."""
    if not codes:  # it matters to no attribute: all rows or none
        return np.full(length, bool(predicate))
    return np.asarray(predicate.weights(domain, codes)[0] >= 0.5)


def holds_in_cells(predicate: Predicate, domain: Domain) -> NDArray[np.bool_]:
    """Whether it holds, for every cell of a domain that has its attributes."""
    cells = np.arange(domain.size, dtype=np.int64)
    codes = {name: domain.codes_along(name, cells) for name in predicate.names}
    return holds(predicate, domain, codes, domain.size)
