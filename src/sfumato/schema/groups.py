"""Groups of listed values, such as municipalities in regions: public columns that follow from another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import PlainValidator

from sfumato.schema.recoding import as_text
from sfumato.schema.values import category_value, column_name, shown

Levels = dict[str, dict[str, tuple[str, ...]]]

_EXAMPLE = "{region: {North: [Aa, Bergen], South: [Calw]}}"


def _levels(value: object) -> Levels:
    if not isinstance(value, Mapping) or not value or not all(isinstance(part, Mapping) for part in value.values()):
        raise ValueError(f"must name columns, and for each of them groups of values, such as {_EXAMPLE}")
    try:
        return {
            column_name(column): {as_text(category_value(group)): _members(some) for group, some in groups.items()}
            for column, groups in value.items()
        }
    except ValueError as problem:
        raise ValueError(f"holds an entry that {problem}") from None


def _members(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"is {shown(value)}; list the values of each group, such as {_EXAMPLE}")
    return tuple(as_text(category_value(member)) for member in value)


GroupLevels = Annotated[Levels, PlainValidator(_levels)]


def groups_of(listed: tuple[str, ...], levels: Levels) -> dict[str, tuple[str, ...]]:
    """For each column of groups, the group of every listed value.

    A group's members are values, or groups of a column before it: {region: {...}, country: {X: [North, South]}}.

    >>> groups_of(("a", "b", "c"), {"region": {"N": ("a", "b"), "S": ("c",)}, "land": {"X": ("N", "S")}})
    {'region': ('N', 'N', 'S'), 'land': ('X', 'X', 'X')}
    """
    found: dict[str, tuple[str, ...]] = {}
    known = {value: [value] for value in listed}
    for column, groups in levels.items():
        group_of: dict[str, str] = {}
        for group, members in groups.items():
            for value in (value for member in members for value in _values(member, column, known)):
                other = group_of.setdefault(value, group)
                if other != group:
                    raise ValueError(f"has {shown(value)} in two groups of {column}, {shown(other)} and {shown(group)}")
        left = [value for value in listed if value not in group_of]
        if left:
            raise ValueError(f"has {shown(left[0])} in no group of {column}; put every value into one")
        found[column] = tuple(group_of[value] for value in listed)
        inside: dict[str, list[str]] = {}
        for value in listed:
            inside.setdefault(group_of[value], []).append(value)
        known = {**known, **{group: some for group, some in inside.items() if group not in group_of}}
    return found


def _values(member: str, column: str, known: Mapping[str, list[str]]) -> list[str]:
    """The listed values that a member of a group stands for: itself, or those of a group of a column before."""
    if member not in known:
        raise ValueError(f"has {shown(member)} in a group of {column}, which is neither a listed value nor a group")
    return known[member]


def splits_of(columns: Mapping[str, tuple[str | None, ...]]) -> tuple[tuple[int, ...], ...]:
    """Where the groups of each column part, the coarsest first, as far as groups lie within those of the column before.

    >>> splits_of({"region": ("N", "N", "S", "E"), "land": ("X", "X", "X", "Y")})
    ((3,), (2, 3))
    """
    found: list[tuple[int, ...]] = []
    for groups in sorted(columns.values(), key=lambda groups: len(set(groups))):
        cuts = tuple(place for place in range(1, len(groups)) if groups[place] != groups[place - 1])
        nested = not found or set(found[-1]) < set(cuts)
        if cuts and nested and len(cuts) == len(set(groups)) - 1:
            found.append(cuts)
    return tuple(found)


def order_by_groups(listed: tuple[str, ...], levels: Levels) -> list[int]:
    """The places of values, those of a group together: trees then cut between groups before they cut through them."""
    found = groups_of(listed, levels)
    coarse_first = sorted(found, key=lambda column: len(levels[column]))
    ranks = [{group: rank for rank, group in enumerate(levels[column])} for column in coarse_first]
    keys = [
        tuple(rank[found[column][place]] for column, rank in zip(coarse_first, ranks, strict=True))
        for place in range(len(listed))
    ]
    return sorted(range(len(listed)), key=lambda place: keys[place])
