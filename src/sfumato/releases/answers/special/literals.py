"""Which conjunction a count asks for: attributes of two values, each with one of them, joined by AND."""

from __future__ import annotations

from sfumato.domain import Domain
from sfumato.domain.boxes import cover
from sfumato.errors import QueryError
from sfumato.releases.answers.groups import Groups
from sfumato.sql import Column, Select

Literals = tuple[tuple[int, int], ...]  # places of attributes, rising, and the code that each must have


def literals_asked(select: Select, column: Column, groups: Groups, domain: Domain, most: int) -> list[Literals | None]:
    """The conjunction of every present group; None where no row can be meant."""
    what = f"this release answers COUNT(*) of up to {most} conditions joined by AND, each on one attribute"
    plain = column.kind == "count" and column.rule is None and column.denominator is None and column.scale == 1.0
    if not plain or len(column.numerator) != 1:
        raise QueryError(f"{what}; {column.name} is another aggregate")
    (amount,) = column.numerator
    if amount.of is not None or amount.factor != 1.0 or amount.present is not None:
        raise QueryError(f"{what}; {column.name} is another aggregate")
    if len(amount.predicate.boxes) > 1:
        raise QueryError(f"{what}; OR and unequal conditions are not among them: ask for each part by itself")
    conditions: dict[int, int] = {}
    for box in amount.predicate.boxes:
        for name, values in box.sets:
            inside = [code for code, share in enumerate(cover(domain[name], values).share.tolist()) if share > 0]
            if len(inside) == 1:
                conditions[domain.place(name)] = inside[0]
    names = select.group_by if amount.grouped else ()
    asked = len({*conditions, *(domain.place(name) for name in names)})
    if asked > most:
        raise QueryError(f"{what}; these are conditions on {asked} attributes: leave out {asked - most} or more")
    found: list[Literals | None] = []
    for row in range(len(groups.present)):
        own = {domain.place(name): int(groups.code(name)[row]) for name in names}
        apart = any(conditions.get(place, code) != code for place, code in own.items())
        nothing = apart or not amount.predicate.boxes
        found.append(None if nothing else tuple(sorted((conditions | own).items())))
    return found
