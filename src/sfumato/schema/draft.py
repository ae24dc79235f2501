"""A first draft of a schema, from the names and types of columns and from nothing else.

Bounds and lists of values stay blank. Taking them from the table would publish them: the largest income in a table is
somebody's income. The same goes for the values inside an ENUM type, so type names are recognised but never copied.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from sfumato.plain_text import printable
from sfumato.schema.attributes import KINDS

_HEADER = """\
# Draft of a public schema, made from column names and types only.
#
# The blanks are for you. Nothing was read from the data, because whatever is written here is published: the largest
# income in a table is somebody's income. Fill in what anybody may know without seeing the table, such as 0 to 120 for
# an age. Values outside the bounds count as the nearest bound.
#
# Next:
#   1. Say whose presence is to be hidden (privacy_unit).
#   2. Fill in every blank; delete the attributes that nobody needs, for fewer cells mean smaller errors.
#   3. sfumato plan --schema FILE --epsilon 1       shows the errors to expect; reads no data and spends nothing
#   4. sfumato release TABLE --schema FILE --epsilon 1 -o {dataset}.sfumato
"""

_LOWER = "    lower:                  # the smallest value that the public already knows"
_UPPER = "    upper:                  # the largest value that the public already knows"
_LINES = {
    "integer": (
        _LOWER,
        _UPPER,
        "    # bins: 20              # optional: gather values in 20 cells (or use width, or cuts)",
    ),
    "number": (_LOWER, _UPPER, "    bins:                   # how many cells of equal width (or use width, or cuts)"),
    "category": (
        "    values:                 # the values that the public already knows, such as [F, M]",
        "    other: false            # true adds one more cell, for all values that are not listed",
    ),
    "boolean": (),
    "date": (
        "    lower:                  # the first day that the public already knows, such as 2020-01-01",
        "    upper:                  # the last day that the public already knows",
        "    by: day                 # or hour, week, month, quarter, year; or weekday, hour_of_day without bounds",
    ),
}

_ENGINE_TYPES = {
    "integer": r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?[0-9]*|LONG|SHORT|BYTE|(DECIMAL|NUMERIC)\([0-9]+(, *0)?\)",
    "number": r"DOUBLE( PRECISION)?|FLOAT[0-9]*|REAL|(DECIMAL|NUMERIC)(\([0-9, ]+\))?",
    "category": r"(VAR)?CHAR(ACTER VARYING)?(\([0-9]+\))?|TEXT|STRING|ENUM\b.*",
    "boolean": r"BOOL(EAN)?",
    "date": r"DATE(TIME)?|TIMESTAMP\b.*|TIMESTAMP_.*|TIMESTAMPTZ",
}

_IDENTIFIER = re.compile(
    r"(?i:id|uu?id|guid|ssn|nino?|pid|e_?mail)|.*_(?i:id|uuid|guid|ssn|email)|(?i:id)_.*|.*[a-z](Id|ID)"
)


def draft(dataset: str, columns: Sequence[tuple[str, str | None]]) -> str:
    """YAML text with a blank wherever the curator knows better than the table.

    columns: name and engine type of each column; the type is None where only reading values would tell.

    >>> print(draft("census", [("person_id", "BIGINT"), ("age", "INTEGER")]).split("attributes:")[1].split("# bins")[0])
    <BLANKLINE>
      age:
        type: integer
        lower:                  # the smallest value that the public already knows
        upper:                  # the largest value that the public already knows
    <BLANKLINE>
    """
    dataset = re.sub(r"[^A-Za-z0-9_]+", "_", dataset) or "_"
    dataset = f"_{dataset}" if dataset[0].isdigit() else dataset
    people = [name for name, _ in columns if _IDENTIFIER.fullmatch(name)]
    published = [(name, kind_of(engine_type)) for name, engine_type in columns if name not in people]
    lines = [
        _HEADER.format(dataset=dataset),
        f"dataset: {dataset}  # queries say FROM {dataset}",
        "",
        "privacy_unit:                # one of:",
        "#   row                      every row is about a different person",
        *(_unit(name) for name in people or ["person_id"]),
        "",
        "# budget: {epsilon: 3.0}     # optional: the most that may ever be spent on this dataset",
        "",
        "attributes:",
        *(line for name, kind in published for line in _attribute(name, kind)),
        *(f"  # {_key(name)} looks like an identifier and was left out" for name in people),
        "",
        *_measures([name for name, kind in published if kind in ("integer", "number")]),
        "# expected_rows: 1000000     # optional: a guess for the planner; do not count the rows of the table",
    ]
    return "\n".join(lines) + "\n"


def kind_of(engine_type: str | None) -> str | None:
    """The kind of attribute that fits a column type of an engine, if one does.

    >>> kind_of("DECIMAL(10,2)"), kind_of("TIMESTAMP WITH TIME ZONE"), kind_of("BLOB")
    ('number', 'date', None)
    """
    for kind, pattern in _ENGINE_TYPES.items():
        if engine_type is not None and re.fullmatch(pattern, engine_type.strip(), re.IGNORECASE | re.DOTALL):
            return kind
    return None


def _unit(name: str) -> str:
    return f"#   {{column: {_key(name)}, contributions: 1}}   a person may have several rows; 1 of them is kept"


def _attribute(name: str, kind: str | None) -> list[str]:
    if kind is None:
        choice = f"    type:                   # one of {', '.join(KINDS)}; then fill in what that type needs"
        return [f"  {_key(name)}:", choice]
    return [f"  {_key(name)}:", f"    type: {kind}", *_LINES[kind]]


def _measures(names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        "# measures:                  # optional: columns to SUM and AVG; fill in bounds that the public already knows",
        *(f"#   {_key(name)}: {{lower: , upper: }}" for name in names),
        "",
    ]


def _key(name: str) -> str:
    """A column name as YAML reads it back, quoted only where it must be, with what has no shape spelled out."""
    plain = printable(name) == name
    flow = yaml.safe_dump([name], default_flow_style=True, allow_unicode=True, width=2**31)
    if plain and flow == f"[{name}]\n":
        return name
    quoted: str = yaml.safe_dump(name, default_style='"', allow_unicode=plain, width=2**31)
    return quoted.rstrip("\n")
