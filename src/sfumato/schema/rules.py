"""Public knowledge about combinations of values: `impossible` and `follows`, read and turned into structural zeros.

    impossible:                                                    # no row has all of these
      - {age: 0..14, marital: [married, widowed]}
      - {age: 0..15, occupation: {not: none}}
    follows:                                                       # the state is known once the county is
      state: {from: county, groups: {England: [Kent, Devon], Scotland: [Fife]}}

A rule is about whole cells. A row that contradicts one is left out when the table is read, by that row alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from math import prod
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import PlainValidator

from sfumato.arrays import Codes, Flags
from sfumato.domain import EPOCH, Axis, Domain, ValueSet
from sfumato.domain.structural import Excluded, Function, Structure
from sfumato.errors import QueryError, SchemaError
from sfumato.plain_text import printable
from sfumato.schema.attributes import Attribute, Category, Date
from sfumato.schema.attributes.numbers_and_dates import WEEKDAYS
from sfumato.schema.parts import category_value, shown

_SPAN = re.compile(r"\s*(\S.*?)\s*\.\.\s*(\S.*?)\s*")
_IMPOSSIBLE = "write a list of combinations, such as [{age: 0..14, marital: [married, widowed]}]"
_FOLLOWS = "write {state: {from: county, groups: {England: [Kent, Devon], Scotland: [Fife]}}}"
MOST_NAMED = 6  # values in words
MOST_RULES, MOST_CELLS = 500, 2**24  # combinations, and cells of all of them laid out: a file may be a stranger's

Problem = tuple[tuple[str, ...], str]  # keys that lead to a mistake, and how the sentence after them goes on


class Ruled(Protocol):
    """Protocol: the fields of a schema that rules use."""

    attributes: dict[str, Attribute]
    impossible: Combinations | None
    follows: Functions | None

    @property
    def domain(self) -> Domain: ...

    @property
    def group_columns(self) -> Mapping[str, tuple[str, tuple[str | None, ...]]]: ...


def _plain(value: object) -> Any:
    """A value of a rule as JSON holds it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, bool) else category_value(value)


def _combinations(value: object) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(part, Mapping) for part in value):
        raise ValueError(f"must list what no row can be; {_IMPOSSIBLE}")
    return tuple({str(key): _plain(part) for key, part in rule.items()} for rule in value)


def _functions(value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must say which attribute follows from which; {_FOLLOWS}")
    found: dict[str, dict[str, Any]] = {}
    for coarse, said in value.items():
        rule = {"from": said} if isinstance(said, str) else said
        if not isinstance(rule, Mapping) or not isinstance(rule.get("from"), str) or {*rule} - {"from", "groups"}:
            raise ValueError(f"must name for {shown(coarse)} the attribute it follows from; {_FOLLOWS}")
        groups = rule.get("groups")
        if "groups" in rule and (not isinstance(groups, str | Mapping) or not groups):
            raise ValueError(f"must say for {shown(coarse)} which values belong together; {_FOLLOWS}")
        found[str(coarse)] = {key: _plain(part) for key, part in rule.items()}
    return found


Combinations = Annotated[tuple[dict[str, Any], ...], PlainValidator(_combinations)]
Functions = Annotated[dict[str, dict[str, Any]], PlainValidator(_functions)]


def structure_of(schema: Ruled) -> Structure:
    """Structural zeros that a schema states; a SchemaError lists every mistake in them."""
    problems: list[Problem] = []
    functions = _read_functions(schema, problems)
    excluded = _read_combinations(schema, problems)
    if len(excluded) > MOST_RULES or sum(prod(map(len, rule.sides.values())) for rule in excluded) > MOST_CELLS:
        problems.append((("impossible",), f"has more than {MOST_RULES} rules, or {MOST_CELLS:,} cells; state fewer"))
    if not problems:
        structure = Structure(schema.domain.shape, tuple(excluded), tuple(functions))
        problems += _values_that_cannot_be(schema, structure)
    if problems:
        mistakes = tuple((path, f"{'.'.join(path)} {text}") for path, text in problems)
        more = f" (and {len(mistakes) - 1} more in this schema)" if len(mistakes) > 1 else ""
        refusal = SchemaError(mistakes[0][1] + more)
        refusal.mistakes = mistakes
        raise refusal
    return structure


def _read_combinations(schema: Ruled, problems: list[Problem]) -> list[Excluded]:
    result = []
    for number, rule in enumerate(schema.impossible or (), 1):
        sides: dict[int, Flags] = {}
        for name, given in rule.items():
            path = "impossible", str(number), name
            column = schema.group_columns.get(name)
            owner = name if column is None else column[0]
            if owner not in schema.attributes:
                known = [*schema.attributes, *schema.group_columns]
                problems.append((path, f"has no attribute behind it{_meant(name, known)}; rules are about attributes"))
                continue
            place = schema.domain.place(owner)
            axis = schema.domain.axes[place]
            try:
                flags = cells_of(axis, given) if column is None else _in_groups(column[1], given)
            except ValueError as problem:
                problems.append((path, str(problem)))
                continue
            if not flags.any():
                problems.append((path, "holds no value; leave the rule out"))
            sides[place] = flags & sides.get(place, True)
        if len({schema.group_columns.get(name, (name,))[0] for name in rule}) < 2:
            problems.append((("impossible", str(number)), "is about one attribute; name two or more of them"))
        elif sides:
            result.append(Excluded(sides))
    return result


def _in_groups(groups: Sequence[str | None], given: object) -> Flags:
    """Flags of the cells whose group is given."""
    if isinstance(given, Mapping):
        return ~_in_groups(groups, _opposite(given))
    wanted = [None if one is None else str(one) for one in (given if isinstance(given, list) else [given])]
    odd = [one for one in wanted if one not in groups]
    if odd:
        known = [group for group in dict.fromkeys(groups) if group is not None]
        raise ValueError(f"names {shown(odd[0])}, which is no group{_meant(str(odd[0]), known)}")
    return np.array([group in wanted for group in groups])


def cells_of(axis: Axis, given: object) -> Flags:
    """Flags of the cells of an axis that a value, a range, a list of them or {not: ...} means, (cells,).

    None means rows without a value. A ValueError says what is wrong.

    >>> age = Axis("age", "integer", np.arange(0.0, 6.0))
    >>> cells_of(age, "1..2").tolist(), cells_of(age, {"not": [0, "3..4"]}).tolist()
    ([False, True, True, False, False], [False, True, True, False, False])
    """
    if isinstance(given, Mapping):
        return np.asarray(~cells_of(axis, _opposite(given)))
    flags = np.zeros(axis.size, dtype=bool)
    for one in given if isinstance(given, list) else [given]:
        flags |= _cells_of_one(axis, one)
    return flags


def _opposite(given: Mapping[str, Any]) -> Any:
    if [*given] != ["not"] or isinstance(given["not"], Mapping):
        raise ValueError("must be a value, a range such as 0..14, a list, or {not: ...} of one of these")
    return given["not"]


def _cells_of_one(axis: Axis, given: Any) -> Flags:
    if given is None:
        if not axis.missing:
            raise ValueError(f"is null, for rows without a value, of which {axis.name} has none; set missing: keep")
        return np.asarray(np.arange(axis.size) == axis.places)
    flags = np.zeros(axis.size, dtype=bool)
    span = _SPAN.fullmatch(given) if isinstance(given, str) else None
    if axis.values:
        for value in [given] if span is None or str(given) in axis.values else _numbers(*span.groups()):
            flags[_listed(axis, value)] = True
        return flags
    label = str(given)
    if span is None and not isinstance(given, bool) and label in axis.cell_by_label:
        flags[axis.cell_by_label[label]] = True
        return flags
    low, high = (given, given) if span is None else span.groups()
    return _between(axis, low, high, given)


def _listed(axis: Axis, value: object) -> int:
    try:
        return int(axis.read(str(value).lower() if axis.kind == "boolean" else value))
    except QueryError:
        known = [str(each) for each in axis.values]
        raise ValueError(f"names {shown(value)}, which is not listed{_meant(str(value), known)}") from None


def _numbers(first: str, last: str) -> list[str]:
    """Whole numbers of a range among listed values; with zeros in front, texts of one length."""
    if not (first.isdigit() and last.isdigit()) or int(first) > int(last) or int(last) - int(first) > 10**6:
        raise ValueError(
            f"runs from {shown(first)} to {shown(last)}; for listed values write two whole numbers, rising"
        )
    return [
        str(number).zfill(len(first) if first.startswith("0") else 1) for number in range(int(first), int(last) + 1)
    ]


def _between(axis: Axis, low: object, high: object, given: object) -> Flags:
    """Flags of the cells between two values, (cells,), the last whole number or day included; no cell may be cut."""
    try:
        first, last = axis.read(low), axis.read(high)
    except QueryError:
        form = "2024-01-01..2024-03-31" if axis.kind == "date" else "0..14"
        raise ValueError(f"is {shown(given)}; write a value, a range such as {form}, or a list of these") from None
    if first > last:
        raise ValueError(f"runs from {low} down to {high}; write the smaller first")
    beyond = last + 1.0 if axis.discrete or (axis.timed and len(str(high)) <= len("2024-01-01")) else last
    if first < axis.edges[0] or beyond > axis.edges[-1]:
        raise ValueError(f"is {shown(given)}, beyond the bounds of {axis.name}; values there count at the bound")
    cover = axis.cover(ValueSet((((first, 0), (beyond, int(axis.closed and beyond == axis.edges[-1]))),)))
    if not cover.exact:
        cell = int(np.flatnonzero(cover.sure != cover.possible)[0])
        raise ValueError(f"is {shown(given)}, which parts the cell {axis.label(cell)}; rules are about whole cells")
    return np.asarray(cover.sure > 0)


def _read_functions(schema: Ruled, problems: list[Problem]) -> list[Function]:
    follows = schema.follows or {}
    result = []
    for coarse, rule in follows.items():
        path, fine = ("follows", coarse), rule["from"]
        odd = [name for name in (coarse, fine) if name not in schema.attributes]
        if odd:
            where = path if odd[0] == coarse else (*path, "from")
            known = list(schema.attributes)
            problems.append((where, f"names {shown(odd[0])}, which is no attribute{_meant(odd[0], known)}"))
            continue
        if coarse in _behind(fine, follows):
            problems.append((path, "follows from itself; state each attribute by one that is finer"))
            continue
        axes = schema.domain[fine], schema.domain[coarse]
        try:
            image = _image(schema, axes[0], axes[1], rule)
        except ValueError as problem:
            problems.append(((*path, "groups") if "groups" in rule else path, str(problem)))
            continue
        left = np.flatnonzero(image < 0)
        if len(left):
            value = axes[0].label(int(left[0]))
            problems.append((path, f"leaves out {shown(value)} of {fine}; put every value into one group"))
            continue
        places = schema.domain.place(fine), schema.domain.place(coarse)
        result.append(Function(*places, image, axes[1].size))
    return result


def _behind(name: str, follows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """An attribute, and all that it follows from in turn."""
    found = [name]
    while found[-1] in follows and follows[found[-1]]["from"] not in found:
        found.append(follows[found[-1]]["from"])
    return found


def _image(schema: Ruled, fine: Axis, coarse: Axis, rule: Mapping[str, Any]) -> Codes:
    """Cell of the coarser axis for each cell of the finer one; -1 where nothing is said."""
    image = np.full(fine.size, -1, dtype=np.int64)
    if fine.missing:
        if not coarse.missing:
            raise ValueError(f"lets {fine.name} be missing, but not {coarse.name}; set missing: keep there too")
        image[fine.places] = coarse.places
    if fine.values[-1:] == ("other",) and coarse.values[-1:] == ("other",):
        image[fine.places - 1] = coarse.places - 1
    groups = rule.get("groups")
    if groups is None or isinstance(groups, str):
        return _by_groups_of(schema, fine, coarse, groups, image)
    for value, members in groups.items():
        cell, inside = _cells_of_one(coarse, value), cells_of(fine, members)
        twice = np.flatnonzero(inside & (image >= 0) & (image != cell.argmax()))
        if len(twice):
            raise ValueError(f"has {shown(fine.label(int(twice[0])))} in two groups; keep it in one")
        if cell.sum() != 1:
            raise ValueError(f"has a group {shown(value)}, which is not one value of {coarse.name}")
        image[inside] = int(cell.argmax())
    return image


def _by_groups_of(schema: Ruled, fine: Axis, coarse: Axis, name: str | None, image: Codes) -> Codes:
    """Complete `image` by the finer attribute's column of groups, or by the weekday or coarser bin of its cells."""
    attribute = schema.attributes[fine.name]
    columns = attribute.group_columns if isinstance(attribute, Category) else {}
    if name is not None or len(columns) == 1:
        if (name or next(iter(columns))) not in columns:
            raise ValueError(f"is {shown(name)}, which is no column of groups of {fine.name}; write groups out")
        for cell, group in enumerate(columns[name or next(iter(columns))]):
            if group is not None and image[cell] < 0:
                image[cell] = _listed(coarse, group) if coarse.values else int(_cells_of_one(coarse, group).argmax())
        return image
    if fine.values or (coarse.values and not _is_weekday(schema, fine, coarse)):
        raise ValueError("does not say which values belong together; write groups: {England: [Kent, Devon], ...}")
    if coarse.values:
        image[: fine.places] = [_weekday(edge) for edge in fine.edges[:-1]]
        return image
    if fine.kind != coarse.kind:
        raise ValueError(f"is of another type than {fine.name}; write groups: {{1: 0..9, 2: 10..19}}")
    places = np.searchsorted(coarse.edges, fine.edges[:-1], side="right") - 1
    ends = np.searchsorted(coarse.edges, fine.edges[1:], side="left") - 1
    inside = (places == ends) & (places >= 0) & (places < coarse.places)
    image[: fine.places] = np.where(inside, places, -1)
    return image


def _is_weekday(schema: Ruled, fine: Axis, coarse: Axis) -> bool:
    attribute = schema.attributes[coarse.name]
    return (
        isinstance(attribute, Date) and attribute.by == "weekday" and fine.kind == "date" and fine.by in ("day", "hour")
    )


def _weekday(edge: float) -> int:
    return (EPOCH + timedelta(days=int(edge // 1))).weekday() % len(WEEKDAYS)


def _values_that_cannot_be(schema: Ruled, structure: Structure) -> Iterator[Problem]:
    """Listed values that rules leave no row for: more likely a slip than meant."""
    for place in sorted(structure.axes):
        flags, axis = structure.possible((place,)), schema.domain.axes[place]
        cells = [] if flags is None else np.flatnonzero(~flags[: len(axis.values) or axis.places]).tolist()
        cells = [cell for cell in cells if axis.label(cell) != "other"]
        if cells:
            path = ("follows",) if any(each.coarse == place for each in structure.functions) else ("impossible",)
            names = ", ".join(shown(axis.label(cell)) for cell in cells[:MOST_NAMED])
            more = f" and {len(cells) - MOST_NAMED} more" if len(cells) > MOST_NAMED else ""
            yield path, f"leaves no row for {axis.name} {names}{more}; mend the rule, or take the value out"


def rules_in_words(schema: Ruled) -> list[str]:
    """Each rule as a sentence would name it: first combinations, then functions, as `Structure` lists them.

    >>> from sfumato.schema import Schema
    >>> sex, role = ({"type": "category", "values": listed} for listed in (["F", "M"], ["Husband", "Wife"]))
    >>> rule = {"role": "Husband", "sex": "F"}
    >>> attributes = {"sex": sex, "role": role}
    >>> rules_in_words(Schema(dataset="t", privacy_unit="row", attributes=attributes, impossible=[rule]))
    ['role Husband with sex F']
    """
    return [*map(_words, schema.impossible or ()), *map(_follows_in_words, (schema.follows or {}).items())]


def _follows_in_words(item: tuple[str, Mapping[str, Any]]) -> str:
    return f"{printable(item[0])} other than that of its {printable(item[1]['from'])}"


def _words(rule: Mapping[str, Any]) -> str:
    return " with ".join(f"{printable(name)} {printable(_value_in_words(given))}" for name, given in rule.items())


def _value_in_words(given: object) -> str:
    if isinstance(given, Mapping):
        return f"not {_value_in_words(given['not'])}"
    if isinstance(given, list):
        listed = [_value_in_words(one) for one in given[:MOST_NAMED]]
        return " or ".join(listed) + (f" or {len(given) - MOST_NAMED} more" if len(given) > MOST_NAMED else "")
    return "missing" if given is None else str(given).lower() if isinstance(given, bool) else str(given)


def _meant(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def runs_of(codes: Codes) -> list[tuple[int, int, int]]:
    """Runs of equal codes: (first cell, cell after the last, code).

    >>> runs_of(np.array([0, 0, 1, 0]))
    [(0, 2, 0), (2, 3, 1), (3, 4, 0)]
    """
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    return [(low, high, int(codes[low])) for low, high in pairwise(cuts)]
