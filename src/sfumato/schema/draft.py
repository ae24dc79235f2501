"""Draft a schema from the names and types of columns, the curator's answers and a public codebook; from nothing else.

Where neither of these says more, bounds and lists of values stay blank. Taking them from the table would publish them:
the largest income in a table is somebody's income. The same goes for the values inside an ENUM type, so type names are
recognised, and their values are copied on demand only, with a line for the curator (`DECLARED`). Where there is no
type, a column's name suggests one, for the curator to correct. No value is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

import yaml

from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.schema.attributes import KINDS
from sfumato.schema.codebooks import flow

_PEOPLE = r"(patient|person|people|customer|client|user|member|employee|household|pupil|student|citizen"
_PEOPLE += r"|respondent|participant|subject|worker|resident)"
IDENTIFIER = re.compile(
    r"(?i:id|uu?id|guid|ssn|nino?|pid|e_?mail)|.*_(?i:id|uuid|guid|ssn|email)|(?i:id)_.*|.*[a-z](Id|ID)"
    rf"|(?i:{_PEOPLE}(_?(no|nr|num|number|key|code))?)"
)

_WORDS = {
    "date": r"date|day|datum|birthday|dob|timestamp|ts|datetime|time|arrived|arrival|departed|departure|pickup|dropoff"
    r"|at|hired|joined|admitted|discharged|born|aufnahme|entlassung",
    "boolean": r"is|has|flag|married|urgent|active|alive|smoker|employed",
    "integer": r"age|alter|years?|months?|days|hours?|children|rooms|count|number|num|visits|size|floors?",
    "number": r"income|salary|wages?|pay|price|costs?|charges?|amount|total|weight|height|length|distance|duration|fare"
    r"|tip|score|rate|share|latitude|longitude|lat|lon|lng|temperature|bmi|kosten|gehalt|betrag|preis",
    "category": r"sex|gender|country|region|state|city|town|stadt|municipality|county|district|zone|ward|department"
    r"|unit|type|kind|status|category|class|group|race|ethnicity|education|occupation|marital|religion|language|colou?r|role"
    r"|grade|geschlecht|station|abteilung|ort|diagnosis|diagnose",
}
# Bounds and values that anybody would expect of such a column: by its type, and by a word of its name, the first that
# fits. They are shown as examples and never filled in.
_EXAMPLES: dict[str, dict[str, str]] = {
    "integer": {
        r"age|alter": "lower: 0, upper: 120",
        r"years?|jahr|yob": "lower: 1900, upper: 2030",
        r"months?|monat": "lower: 1, upper: 12",
        r"days?|nights?": "lower: 0, upper: 365, cuts: [1, 3, 7, 30]",
        r"hours?": "lower: 0, upper: 168, width: 10",
        r"rooms|children|floors?|size|visits|number|num|count": "lower: 0, upper: 20",
        r"income|salary|wages?|pay|price|costs?|charges?|amount|total": "lower: 0, upper: 200000, width: 5000",
        r"zip|postcode|plz": "lower: 0, upper: 99999, width: 1000",
        "": "lower: 0, upper: 120",
    },
    "number": {
        r"share|rate": "lower: 0, upper: 1, width: 0.05",
        r"score|percent|pct": "lower: 0, upper: 100, width: 5",
        r"latitude|lat": "lower: -90, upper: 90, width: 1",
        r"longitude|lon|lng": "lower: -180, upper: 180, width: 1",
        r"height": "lower: 40, upper: 220, width: 5",
        r"weight": "lower: 0, upper: 200, width: 5",
        r"bmi": "lower: 10, upper: 60, width: 2.5",
        r"temperature": "lower: -40, upper: 50, width: 1",
        r"age|alter": "lower: 0, upper: 120, width: 5",
        r"distance|length|duration|fare|tip": "lower: 0, upper: 100, bins: 50",
        "": "lower: 0, upper: 200000, bins: 100",
    },
    "category": {
        r"sex|gender|geschlecht": "values: [F, M], other: true",
        r"countr(y|ies)|nationality|land": "values: [AT, CH, DE], other: true",
        r"region|state|county|district|ward|zone|area": "values: [North, South, East, West], other: true",
        r"city|town|stadt|municipality|ort|zip|postcode|plz": "values: towns.txt, other: true",
        r"education|degree": "values: [primary, secondary, tertiary], other: true",
        r"marital|status": "values: [single, married, divorced, widowed], other: true",
        r"grade|class|level|group|type|kind|category|code": "values: [A, B, C], other: true",
        "": "values: [A, B, C], other: true",
    },
    "boolean": {"": ""},
    "date": {
        r"birth(day|date)?|dob|born": "lower: 1900-01-01, upper: 2030-12-31, by: year",
        r"time|timestamp|ts|datetime|at|pickup|dropoff": "lower: 2020-01-01, upper: 2024-12-31, by: hour",
        "": "lower: 2020-01-01, upper: 2024-12-31, by: month",
    },
}


def example(name: str, kind: str) -> str:
    """An attribute that fits a column's name and type, as YAML on one line.

    >>> example("building_year", "integer"), example("urgent", "boolean")
    ('{type: integer, lower: 1900, upper: 2030}', '{type: boolean}')
    """
    words = _words(name)
    keys = next(keys for word, keys in _EXAMPLES[kind].items() if not word or any(re.fullmatch(word, w) for w in words))
    return f"{{type: {kind}{', ' * bool(keys)}{keys}}}"


def _words(name: str) -> list[str]:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.split(r"[\W_0-9]+", parted) if word]


def kind_from_name(name: str) -> str | None:
    """The kind of attribute that a name suggests by its words, the last one first; None if it suggests none.

    >>> kind_from_name("age"), kind_from_name("AdmissionDate"), kind_from_name("is_smoker"), kind_from_name("notes")
    ('integer', 'date', 'boolean', None)
    """
    parts = _words(name)
    if parts[:1] in (["is"], ["has"]) or parts[-2:] in (["full", "time"], ["part", "time"]):
        return "boolean"
    for part in reversed(parts):
        for kind, pattern in _WORDS.items():
            if re.fullmatch(pattern, part):
                return kind
    return None


def is_identifier(name: str) -> bool:
    """Whether a name suggests that the column says whom a row is about.

    >>> [is_identifier(name) for name in ("person_id", "Employee ID", "Patient-Nr", "idle")]
    [True, True, True, False]
    """
    return IDENTIFIER.fullmatch(re.sub(r"[\s-]+", "_", name.strip())) is not None


_HEADER = """\
# yaml-language-server: $schema=sfumato.schema.json
# Draft of a public schema, made from column names, types and your answers only{codebook}.
#
# The blanks are for you. Nothing was read from the data, because whatever is written here is published: the largest
# income in a table is somebody's income. Fill in what anybody may know without seeing the table, such as 0 to 120 for
# an age. Values outside the bounds count as the nearest bound. By the first line an editor completes and checks this
# file; what it names must lie beside it (`sfumato schema json -o sfumato.schema.json` writes it).
#
# Next:
#   1. Say whose presence is to be hidden (privacy_unit), and how much may ever be spent (budget).
#   2. Fill in every blank; delete the attributes that nobody needs, for fewer cells mean smaller errors.
#      sfumato schema check FILE                    names the line and column of every mistake
#   3. sfumato check TABLE --schema FILE            shows, to you alone, what would be left out; spends nothing
#   4. sfumato plan --schema FILE --epsilon 1       shows the errors to expect; reads no data and spends nothing
#   5. sfumato release TABLE --schema FILE --epsilon 1 -o {dataset}.sfumato
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


@dataclass(frozen=True)
class Answers:
    """The curator's answers: the privacy unit, keys and values of each column, and the total epsilon.

    A column whose type is "skip" is left out. All of it is text as YAML spells it. measures: columns to sum besides.
    codebook: the file that some of it is from. declared: columns whose keys are a database's types and constraints.
    """

    unit: str = ""
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    budget: str = ""
    measures: Sequence[str] = ()
    codebook: str = ""
    declared: Collection[str] = ()


def draft(
    dataset: str,
    columns: Sequence[tuple[str, str | None]],
    answers: Answers | None = None,
    file: Mapping[str, object] | None = None,
) -> str:
    """YAML text with a blank wherever the curator knows better than the table.

    columns: name and engine type of each column; the type is None where only reading values would tell.
    file: how the table's file is written, as far as it was stated.

    >>> print(draft("census", [("person_id", "BIGINT"), ("age", "INTEGER")]).split("attributes:")[1].split("# bins")[0])
    <BLANKLINE>
      # age: {type: integer, lower: 0, upper: 120}  # an example; in place of this block
      age:
        type: integer
        lower:                  # the smallest value that the public already knows
        upper:                  # the largest value that the public already knows
    <BLANKLINE>
    """
    dataset = re.sub(r"[^A-Za-z0-9_]+", "_", dataset) or "_"
    dataset = f"_{dataset}" if dataset[0].isdigit() else dataset
    answers = answers or Answers()
    skipped = {name for name, said in answers.columns.items() if said.get("type") == "skip"}
    people = [name for name in suggested_units(columns) if name not in answers.columns]  # or it was described
    published = [column for column in columns if column[0] not in {*people, *skipped}]
    said = {name: answers.columns.get(name, {}) for name, _ in published}
    kinds = {name: said[name].get("type") or guessed_kind(name, kind) for name, kind in published}
    numbers = [name for name, kind in kinds.items() if kind in ("integer", "number") or name in answers.measures]
    sources = [f"the codebook {printable(answers.codebook)}: check that it is public"] * bool(answers.codebook)
    sources += ["ENUM types and CHECK constraints of the database: are they public?"] * bool(answers.declared)
    source = "".join(f",\n# and from {each}" for each in sources)
    lines = [
        _HEADER.format(dataset=dataset, codebook=source),
        f"dataset: {dataset}  # queries say FROM {dataset}",
        "",
        *([f"privacy_unit: {answers.unit}"] if answers.unit else _units(people)),
        "",
        *([f"file: {flow(dict(file))}  # how the table's file is written", ""] if file else []),
        *_budget(dataset, answers.budget),
        "",
        "attributes:",
        *(
            line
            for name, kind in published
            for line in _attribute(name, kind, said[name], declared=name in answers.declared)
        ),
        *(f"  # {_key(name)} looks like an identifier and was left out" for name in people),
        "",
        *_measures(numbers, answers.measures, said),
        "# expected_rows: 1000000     # optional: a guess for the planner; do not count the rows of the table",
    ]
    return "\n".join(lines) + "\n"


def suggested_units(columns: Sequence[tuple[str, str | None]]) -> list[str]:
    """The columns that, by their names, say whom a row is about."""
    return [name for name, _ in columns if is_identifier(name)]


def guessed_kind(name: str, engine_type: str | None) -> str | None:
    """The kind of attribute that a column's type or, where there are no types, its name suggests."""
    return kind_of(engine_type) if engine_type is not None else kind_from_name(name)


def kind_of(engine_type: str | None) -> str | None:
    """The kind of attribute that fits a column type of an engine, if one does.

    >>> kind_of("DECIMAL(10,2)"), kind_of("TIMESTAMP WITH TIME ZONE"), kind_of("BLOB")
    ('number', 'date', None)
    """
    for kind, pattern in _ENGINE_TYPES.items():
        if engine_type is not None and re.fullmatch(pattern, engine_type.strip(), re.IGNORECASE | re.DOTALL):
            return kind
    return None


def _units(people: Sequence[str]) -> list[str]:
    """Comment lines with the ways to state a privacy unit, the likely one first."""
    columns = [
        f"#   {{column: {_key(name)}, contributions: 1}}   a person may have several rows; 1 of them is kept"
        for name in people or ["person_id"]
    ]
    row = "#   row                      every row is about a different person"
    ways = [*columns, row] if people else [row, *columns]
    hint = f"one of these; {_key(people[0])} looks like a person's:" if people else "one of:"
    return [f"privacy_unit:                # {hint}", *ways]


def _budget(dataset: str, epsilon: str) -> list[str]:
    """Lines for the total budget, without which nothing is released."""
    stated = f"budget: {{epsilon: {epsilon}}}" if epsilon else "budget:"
    return [
        f"{stated:28} # the most that may ever be spent, by all releases together, such as {{epsilon: 3.0}};",
        f"#   or delete the line, and state it by `sfumato ledger set {dataset} --epsilon 3`",
    ]


DECLARED = "# declared by the database; keep it only if it was written down before anybody looked at rows"


def _attribute(name: str, engine_type: str | None, said: Mapping[str, str], *, declared: bool = False) -> list[str]:
    kind = said.get("type") or guessed_kind(name, engine_type)
    shown = f"  # {_key(name)}: {example(name, kind or 'category')}"
    if kind is None:
        choice = f"    type:                   # one of {', '.join(KINDS)}; then fill in what that type needs"
        return [f"{shown}  # an example; in place of this block", f"  {_key(name)}:", choice]
    guess = "" if said or engine_type is not None else "  # a guess from the name; correct it"
    lines, blank = [f"    type: {kind}{guess}"], False
    for line in _LINES[kind]:
        key = line.split(":")[0].strip()
        lines.append(f"    {key}: {said[key]}" if said.get(key) else line)
        blank |= not said.get(key) and re.match(r" +\w+: +#", line) is not None
    lines += [f"    {key}: {said[key]}" for key in ("labels", "map", "missing") if said.get(key)]
    return [
        *([] if said and not blank else [f"{shown}  # an example; in place of this block"]),
        f"  {_key(name)}:{f'  {DECLARED}' * declared}",
        *lines,
    ]


def _measures(names: list[str], chosen: Sequence[str], said: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Columns to sum: those that were asked for, and the others as comments."""

    def line(name: str) -> str:
        lower, upper = (said[name].get(key, "") for key in ("lower", "upper"))
        return f"  {_key(name)}: {{lower: {lower}, upper: {upper}}}"

    others = [name for name in names if name not in chosen]
    asked = ["measures:", *map(line, (name for name in names if name in chosen))] if set(names) & set(chosen) else []
    hint = "# optional: columns to SUM and AVG; fill in bounds that the public already knows"
    return [
        *asked,
        *([] if asked else [f"# measures:                  {hint}"]),
        *(f"# {line(name)}" for name in others),
        *([] if names else ["#   charge: {lower: 0, upper: 50000}"]),
        "",
    ]


def _key(name: str) -> str:
    """Column name as YAML reads it back, quoted only where it must be; unprintable characters are escaped."""
    plain = printable(name) == name
    flow = yaml.safe_dump([name], default_flow_style=True, allow_unicode=True, width=2**31)
    if plain and flow == f"[{name}]\n":
        return name
    quoted: str = yaml.safe_dump(name, default_style='"', allow_unicode=plain, width=2**31)
    return quoted.rstrip("\n")
