"""Report mistakes in a schema as one line each, with the remedy: keys left blank, unknown keys and wrong values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from sfumato.schema.attributes import KINDS, Declared
from sfumato.schema.dialect import Dialect
from sfumato.schema.parts import Budget, Measure, PrivacyUnit, Weight, blanks, keys_of, shown

MOST_KEYS = 12  # of a schema that a refusal lists
_TYPES = ", ".join(KINDS)
_NOT_READ = "it is not read from the data, because that would leak it"
UNIT_FORMS = (
    "write `privacy_unit: row` if every row is about a different person, or "
    "`privacy_unit: {column: person_id, contributions: 1}` if a person may have several rows"
)
REMEDIES = {
    "dataset": "name the table in one word, such as census; queries say FROM that word",
    "privacy_unit": UNIT_FORMS,
    "privacy_unit.column": "name the column that says whose row it is",
    "privacy_unit.contributions": "add contributions: 1 (rows kept per person)",
    "budget": "write {epsilon: 3.0} for the most that may ever be spent on this dataset, or delete the line and state "
    "it by `sfumato ledger set`",
    "budget.epsilon": "fill in the most that may ever be spent on this dataset, such as 3.0",
    "ledger": "fill in the identity that `sfumato ledger show` prints, in quotes, or delete the line",
    "attributes": "declare the columns to publish, such as age: {type: integer, lower: 0, upper: 99}",
    "attributes.*": f"give it a type ({_TYPES}) and what belongs to that type, or delete the line",
    "measures": "list the columns to sum, such as charge: {lower: 0, upper: 50000}, or delete the line",
    "measures.*": "give it bounds, such as {lower: 0, upper: 50000}, or delete the line",
    "weight": "write {column: weight, upper: 400} for a survey's weight, or delete the line",
    "impossible": "list combinations that no row has, such as {age: 0..14, marital: married}, or delete the line",
    "follows": "write {state: {from: county, groups: {England: [Kent]}}}, or delete the line",
    "facts": "list public counts, such as {count: 48842, source: census 2020}, or delete the line",
    "invariants": "list tables to publish exactly, protected by nothing, such as [[], region], or delete the line",
    "series": "write {period: month, unit: person in a month}, or delete the line",
    "per_person": "write SELECT person, COUNT(*) AS visits FROM visits GROUP BY person, or delete the line",
    "population": "fill in how many the rows were drawn from, as the public knows it, or delete the line",
    "expected_rows": "fill in a guess that gives nothing away, such as 1000000, or delete the line",
    "file": "say how the file is written, such as {delimiter: ';', decimal: ','}, or delete the line",
    "*.type": f"choose one of {_TYPES}",
    "*.lower": f"fill in the smallest {{name}} the public already knows; {_NOT_READ}",
    "*.upper": f"fill in the largest {{name}} the public already knows; {_NOT_READ}",
    "*.values": "list the values the public already knows, such as [F, M]; they are not read from the data, because "
    "that would leak them",
    "*.bins": "fill in how many cells of equal width to use, or give width or cuts instead",
}
_MEANT = {
    **dict.fromkeys(("int", "whole", "bigint", "count"), "integer"),
    **dict.fromkeys(("float", "double", "decimal", "real", "numeric"), "number"),
    **dict.fromkeys(("string", "str", "text", "varchar", "enum", "categorical"), "category"),
    **dict.fromkeys(("datetime", "timestamp", "day"), "date"),
    **dict.fromkeys(("min", "minimum", "low", "from"), "lower"),
    **dict.fromkeys(("max", "maximum", "high", "to"), "upper"),
    **dict.fromkeys(("categories", "levels", "options"), "values"),
    **dict.fromkeys(("columns", "dimensions"), "attributes"),
    "epsilon": "budget",
    "unit": "privacy_unit",
}


def counted(message: str, count: int) -> str:
    """The message about the first problem, with the number of further problems in the schema."""
    return message + (f" (and {count - 1} more problem{'s' if count > 2 else ''} in this schema)" if count > 1 else "")


def _remedy(path: tuple[str, ...]) -> str:
    name = path[1] if len(path) > 1 else ""
    if len(path) == 3:
        key = f"*.{path[2]}"
    else:
        key = f"{path[0]}.*" if name and path[0] in ("attributes", "measures") else ".".join(path)
    return REMEDIES.get(key, "fill it in or delete the line").replace("{name}", name)


def blanks_of(data: Mapping[Any, object]) -> list[tuple[tuple[str, ...], str]]:
    """Keys that a draft left without a value, each with a message that says what to fill in."""
    return [(path, f"{'.'.join(path)} is blank: {_remedy(path)}") for path in blanks(data)]


def path_of(error: ErrorDetails) -> tuple[str, ...]:
    """The keys that lead to an error."""
    return (*_keys(error), *(["type"] if error["type"] == "union_tag_invalid" else []))


def _keys(error: ErrorDetails) -> list[str]:
    """Where an error is, without the kind of attribute that was tried."""
    place = [str(part) for part in error["loc"]]
    place[0] = place[0].rstrip("_")  # of `with`
    return [*place[:2], *place[3:]] if place[0] == "attributes" else place


def in_plain_words(error: ErrorDetails, known: Sequence[str]) -> str:
    """Error message of one line that names the key and the remedy; `known` are the schema's own keys."""
    place = _keys(error)
    tag = str(error["loc"][2]) if place[0] == "attributes" and len(error["loc"]) > 2 else ""
    path = ".".join(place)
    match error["type"]:
        case "value_error":
            return f"{path} {error['ctx']['error']}"
        case "missing" | "union_tag_not_found":
            place += ["type"] if error["type"] == "union_tag_not_found" else []
            return f"{'.'.join(place)} is missing: {_remedy(tuple(place))}"
        case "union_tag_invalid":
            kind = str(error["ctx"]["tag"])
            return f"{path}.type is {shown(kind)}; choose one of {_TYPES}{_did_you_mean(kind, list(KINDS))}"
        case "literal_error":
            choices = error["ctx"]["expected"].replace("'", "")
            only = "" if " or " in choices else ", or delete the line"
            return f"{path} is {shown(error['input'])}; choose {choices}{only}"
        case "extra_forbidden":
            return _unknown_key(place, tag, known)
    return f"{path} needs keys under it: {_remedy(tuple(place))}"


def _unknown_key(place: Sequence[str], tag: str, known: Sequence[str]) -> str:
    """Message about a key that is not taken. tag: type of the attribute that it is in; known: the schema's own keys."""
    owners: dict[str, type[Declared] | None] = {"attributes": KINDS.get(tag), "measures": Measure}
    owners |= {"budget": Budget, "privacy_unit": PrivacyUnit, "weight": Weight, "file": Dialect}
    owner = owners[place[0]] if len(place) > 1 else None
    known = known if owner is None else keys_of(owner)
    if owner is not None and owner is not Dialect and place[-1] in keys_of(Dialect):
        return f"{'.'.join(place[:-1])} has no key {shown(place[-1])}: it is about the file, so write it under `file:`"
    return (
        f"{'.'.join(place[:-1]) or 'the schema'} has no key {shown(place[-1])}{_did_you_mean(place[-1], known)}; "
        f"it takes {_listed(known)}"
    )


def _listed(keys: Sequence[str]) -> str:
    """Keys that may be written, the first of many; receipts of `discover` are not written by hand."""
    shown = [key for key in keys if key != "discovered"]
    more = f" and {len(shown) - MOST_KEYS} more (docs/schema.md)" if len(shown) > MOST_KEYS else ""
    return ", ".join(shown[:MOST_KEYS]) + more


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(_MEANT.get(word.lower(), word.lower()), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
