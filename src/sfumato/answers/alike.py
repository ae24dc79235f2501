"""Which values of an attribute a question does not tell apart.

A question over many attributes weighs nearly all their values alike: `hours > 40` makes two kinds of a hundred hours.
Cells that agree in the kinds of all their values get the same weight in every sum, so a content that has to put cells
together when it is asked needs to do so for kinds of values only, and not at all along an attribute with one kind.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.boxes import cover
from sfumato.schema import Schema
from sfumato.sql import Select

Kinds = Mapping[str, Codes]  # for each attribute, the kind of every cell of its axis, numbered from 0


def kinds_asked(select: Select, schema: Schema) -> Kinds:
    """The kinds of values that a question tells apart, along each attribute that it is about, in order of name."""
    domain = schema.domain
    kinds: dict[str, Codes] = {}
    names = {*select.group_by, *(name for amount in select.amounts for name in amount.predicate.names)}
    told = {name for column in select.aggregates for _, values in column.counted_by for name in values}
    valued = told | {a.of for a in select.amounts if a.of is not None and a.of not in schema.measures}
    names |= valued
    for name in sorted(names):
        axis, found = domain[name], np.zeros(domain[name].size, dtype=np.int64)
        for values in dict.fromkeys(box[name] for amount in select.amounts for box in amount.predicate.boxes):
            covered = cover(axis, values)
            for part in (covered.share, covered.sure, covered.possible):
                found = _told_apart(found, part)
        if name in select.group_by or name in valued:
            seen = np.zeros(axis.size, dtype=bool)
            for predicate in (select.where, *(amount.predicate for amount in select.amounts)):
                for box in predicate.boxes:
                    seen |= cover(axis, box[name]).possible > 0
            found = _told_apart(found, np.where(seen, np.arange(axis.size, dtype=np.float64), -1.0))
        kinds[name] = found
    return kinds


def _told_apart(kinds: Codes, by: Floats) -> Codes:
    """Kinds that agree in a further number too, numbered in the order in which they first appear.

    Neighbours mostly agree, so runs of them are compared and not single values, of which there may be millions.
    """
    changes = (kinds[1:] != kinds[:-1]) | (by[1:] != by[:-1])
    starts = np.flatnonzero(np.append(True, changes))
    numbers = np.unique(by[starts], return_inverse=True)[1].reshape(-1)
    both = kinds[starts] * (int(numbers.max()) + 1) + numbers
    _, first, kind = np.unique(both, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return np.repeat(place[kind.reshape(-1)], np.diff(np.append(starts, len(kinds))))
