"""Tables into which every awkward value is dealt: for engines where a reading takes so long that few can be tried.

A table of `awkward_table` has a few values of a few columns, and a fault that hangs on one value is found after some
hundred pairs. Here each row is awkward in every column and every value of every column is there, so that one reading
tells whether any of them falls into a wrong cell; and people are chosen that an engine might take for one another, each
with as many rows as are used, so that two who become one are counted too seldom, and one who becomes two too often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

from sfumato.lab.audit.reading.tables import DAYS, LARGE, NUMBERS, TEXTS, TIMES, UTC, AwkwardTable
from sfumato.schema import Schema

MOST = 3  # rows of a person that are used
TOO_MANY = 4  # rows that one person has beside these
_YEAR = {"lower": "2020-01-01", "upper": "2020-12-31"}
_LISTED = ["a", "A", "ä", "a\u0308", "a ", " a", "ß", "1", "true", "nan"]

# Each column: its type, its values, and an attribute that tells them apart. No row falls out, whatever it holds.
COLUMNS: dict[str, tuple[str, Sequence[object], dict[str, Any]]] = {
    "text": ("string", TEXTS, {"type": "category", "values": _LISTED, "other": True}),
    "spelled": (
        "string",
        ["1", " 2.5e0 ", "nan", "-inf", "1e999", "x", "", "1e-400", "2 5", "０"],
        {"type": "category", "values": [1, 2.5, 25], "other": True},
    ),
    "float": (
        "float64",
        NUMBERS,
        {"type": "category", "values": ["0", "0.5", "-0.5", "inf", "1e+308", "3"], "other": True},
    ),
    "large": ("int64", LARGE, {"type": "integer", "lower": -2, "upper": 2}),
    "number": (
        "float64",
        [*NUMBERS, 1e19, -1e19, 2.0**53],
        {"type": "number", "lower": 0, "upper": 1, "width": "0.25"},
    ),
    "word": ("string", ["true", "F", "yes", "maybe", "", "0", "TRUE", "t", "no"], {"type": "boolean"}),
    "day": ("date32", DAYS, {"type": "date", "by": "week", **_YEAR}),
    "at": (
        "timestamp[us, tz=UTC]",
        [time.replace(tzinfo=UTC) for time in TIMES],
        {"type": "date", "by": "hour_of_day"},
    ),
}
MEASURED = [*NUMBERS, 4.0, -4.0]
PEOPLE: dict[str, Sequence[object]] = {
    "string": ["p", "P", "p ", "é", "e\u0301"],
    "float64": [0.0, -0.0, math.nan, 1.0, math.inf],
}


def dealt_table(kind: str, random: Random) -> AwkwardTable:
    """Every value of every column, in rows of a few people whose names are of one kind, of PEOPLE."""
    attributes = {name: {**described, "missing": "keep"} for name, (_, _, described) in COLUMNS.items()}
    schema = Schema.from_dict(
        {
            "dataset": "reading",
            "privacy_unit": {"column": "who", "contributions": MOST},
            "attributes": attributes,
            "measures": {"m": {"lower": -4, "upper": 4, "step": 1, "column": "m"}},
        }
    )
    types = {name: own for name, (own, _, _) in COLUMNS.items()} | {"m": "float64", "who": kind}
    hands = {name: _dealt([*values, None], random) for name, (_, values, _) in COLUMNS.items()}
    hands["m"] = _dealt([*MEASURED, None], random)
    people = [person for person in PEOPLE[kind] for _ in range(MOST)]
    people += [PEOPLE[kind][-1]] * TOO_MANY + [None]
    length = max(len(people), *(len(hand) for hand in hands.values()))
    people += [PEOPLE[kind][-1]] * (length - len(people))
    rows = tuple(
        {**{name: hand[place % len(hand)] for name, hand in hands.items()}, "who": person}
        for place, person in enumerate(people)
    )
    return AwkwardTable(schema, rows, types)


def _dealt(values: list[object], random: Random) -> list[object]:
    random.shuffle(values)
    return values
