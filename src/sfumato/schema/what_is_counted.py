"""State in sentences by which rules a release counts rows and values; they follow from the public schema alone.

How often a rule applied is private and said nowhere; that it may have is public, and readers of an answer should know.
"""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.plain_text import printable
from sfumato.schema.attributes import Category, Column
from sfumato.schema.parts import bounds_of
from sfumato.schema.schema import Schema

MOST_IN_SHORT, MOST_NAMED = 4, 12  # columns that are named; more are numbered


def what_is_counted(schema: Schema) -> tuple[str, ...]:
    """The rules by which rows and values entered, one sentence each.

    >>> age = {"type": "integer", "lower": 0, "upper": 9}
    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"age": age})
    >>> print(*what_is_counted(schema), sep="\\n")
    rows with a missing or unreadable age are left out
    values beyond the bounds count at the bound: age from 0 to 9
    """
    unit, (unread, unlisted) = schema.privacy_unit, _left_out(schema)
    rules = []
    if unit.column is not None:
        verb = "is" if unit.contributions == 1 else "are"
        rules.append(f"at most {_rows(unit.contributions)} of each {printable(unit.column)} {verb} counted")
    if unread:
        rules.append(f"rows with a missing or unreadable {_listed(unread, 'or', MOST_NAMED)} are left out")
    for keeps, what in ((False, "a missing or"), (True, "an")):
        if odd := [name for name in unlisted if schema.attributes[name].keeps_missing is keeps]:
            rules.append(f"rows with {what} unlisted {_listed(odd, 'or', MOST_NAMED)} are left out")
    if clipped := _clipped(schema):
        bounds = (f"{name} from {lower} to {upper}" for name, (lower, upper) in clipped.items())
        rules.append(f"values beyond the bounds count at the bound: {_listed(bounds, most=MOST_NAMED)}")
    if kept := [name for name, measure in schema.measures.items() if measure.missing == "keep"]:
        rules.append(f"sums and averages of {_listed(kept, 'and', MOST_NAMED)} are over rows that have a value")
    if middle := [name for name, measure in schema.measures.items() if measure.missing == "middle"]:
        names = _listed(middle, "or", MOST_NAMED)
        rules.append(f"a missing or unreadable {names} counts as the middle of its bounds")
    return tuple(rules)


def counted_in_short(schema: Schema) -> str:
    """The rules of `what_is_counted` in one line, to stand after "counted:" under an answer.

    >>> counted_in_short(Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}}))
    'no row whose ill is missing or unreadable'
    """
    unit = schema.privacy_unit
    rules = [] if unit.column is None else [f"at most {_rows(unit.contributions)} of each {printable(unit.column)}"]
    unread, unlisted = _left_out(schema)
    if unread or unlisted:
        kept = not unread and all(schema.attributes[name].keeps_missing for name in unlisted)
        odd = [] if kept else ["missing"]
        odd += [*(["unreadable"] if unread else []), *(["unlisted"] if unlisted else [])]
        rules.append(f"no row whose {_listed([*unread, *unlisted], 'or', MOST_IN_SHORT)} is {_listed(odd, 'or')}")
    if _clipped(schema):
        rules.append("values beyond the bounds as the bound")
    return "; ".join(rules)


def _rows(most: int) -> str:
    return "1 row" if most == 1 else f"{most:,} rows"


def _left_out(schema: Schema) -> tuple[list[str], list[str]]:
    """The columns whose rows fall out: where they are missing or cannot be read, and where they are not listed."""
    every = schema.attributes.items()
    unread = [name for name, part in every if not isinstance(part, Category) and not part.keeps_missing]
    unlisted = [name for name, part in every if isinstance(part, Category) and not part.other]
    unread += [name for name, measure in schema.measures.items() if measure.missing == "drop" and name not in unread]
    whose = schema.privacy_unit.column
    return [*unread, *([] if whose is None or whose in unread else [whose])], unlisted


def _clipped(schema: Schema) -> dict[str, tuple[str, str]]:
    """Columns whose values are moved to a bound, and their bounds."""
    every: list[tuple[str, Column]] = [*schema.attributes.items(), *schema.measures.items()]
    return {name: bounds for name, part in every if (bounds := bounds_of(part)) is not None}


def _listed(names: Iterable[str], last: str = "and", most: int | None = None) -> str:
    """Names as a sentence lists them, those that are too many as a number."""
    shown = [printable(name) for name in names]
    if most is not None and len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"
