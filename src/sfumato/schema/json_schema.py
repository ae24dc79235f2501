"""JSON Schema of the YAML file, for editors: keys, choices and requirements from the classes, words from a table.

It checks less than `sfumato schema check`, which also compares bounds, values and names with one another.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from sfumato.schema.attributes import KINDS
from sfumato.schema.dialect import Dialect
from sfumato.schema.discovered import Discovered
from sfumato.schema.parts import Budget, Declared, Measure, PrivacyUnit, Weight, field_of, keys_of
from sfumato.schema.schema import Schema
from sfumato.schema.series import Series

Fragment = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
# What an editor looks for, from the first line of a draft: `sfumato init -o` and `sfumato schema json -o` write it.
FILE = "sfumato.schema.json"

_DIGITS = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*$|^\s*[+-]?[0-9]+/[0-9]+\s*$"
_NUMBER: Fragment = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": _DIGITS}]}
_WHOLE: Fragment = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": _DIGITS}]}
_COUNT: Fragment = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _DIGITS}]}
_DAY: Fragment = {"type": "string", "pattern": r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\s*$"}
_NAME: Fragment = {"type": "string", "pattern": r"\S"}
_FLAG: Fragment = {"type": "boolean"}
_VALUE: Fragment = {"type": ["string", "number"]}


def _list(item: Fragment) -> Fragment:
    return {"type": "array", "items": item, "minItems": 1}


def _pairs(value: Fragment) -> Fragment:
    return {"type": "object", "additionalProperties": value, "minProperties": 1}


def _or_by_column(one: Fragment) -> Fragment:
    return {"anyOf": [one, _pairs(one)]}


_WORDS: Fragment = {"anyOf": [{"type": "string"}, _list(_VALUE)]}
_FROM_FILE: Fragment = {
    "type": "object",
    "properties": dict.fromkeys(("file", "column", "labels"), _NAME) | {"groups": {"anyOf": [_NAME, _list(_NAME)]}},
    "required": ["file", "column"],
    "additionalProperties": False,
}
_OF_A_RULE: Fragment = {"type": ["string", "number", "boolean", "null"]}
_SIDE: Fragment = {"anyOf": [_OF_A_RULE, _list(_OF_A_RULE)]}
_NOT: Fragment = {"type": "object", "required": ["not"], "properties": {"not": _SIDE}, "additionalProperties": False}
_COMBINATION: Fragment = {
    "type": "object",
    "additionalProperties": {"anyOf": [*_SIDE["anyOf"], _NOT]},
    "minProperties": 2,
}
_FUNCTION: Fragment = {
    "type": "object",
    "required": ["from"],
    "properties": {"from": _NAME, "groups": {"anyOf": [_NAME, _pairs({"anyOf": [*_SIDE["anyOf"], _NOT]})]}},
    "additionalProperties": False,
}


def _rule(required: list[str], **keys: tuple[Fragment, str]) -> Fragment:
    properties = {key: {"description": words, **shape} for key, (shape, words) in keys.items()}
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


_OTHERWISE = (_VALUE, "The value where nothing matched; missing if left out.")
_ROW_RULES: list[Fragment] = [
    _rule(
        ["match", "first_of"],
        match=(_NAME, "The column of texts."),
        first_of=(_pairs({"anyOf": [_VALUE, _list(_VALUE)]}), "Values, each with its words and patterns."),
        otherwise=_OTHERWISE,
    ),
    _rule(
        ["point"],
        point=(_list(_NAME), "The columns of a point, such as [lon, lat]."),
        boxes=({"type": "object"}, "Areas as [west, south, east, north]."),
        grid=({"type": "object"}, "A grid of cells: west, south, east, north, columns, rows."),
        polygons=({"type": "object"}, "Areas as lists of corners [x, y], or of rings of them."),
        geojson=({"type": "object"}, "A GeoJSON file beside the schema, and the property that names its areas."),
        otherwise=_OTHERWISE,
    ),
]
_LOOK_UP: Fragment = _rule(
    ["key"],
    file=(_NAME, "A public CSV file beside the schema."),
    key=(_NAME, "The column of the file that is compared."),
    column=(_NAME, "The table's column, if it has another name than the key."),
    columns=(_list(_NAME), "The columns of the file to add; all if left out."),
    table=({"type": "object"}, "The columns written out, in place of a file."),
)
_FACTS: list[Fragment] = [
    _rule(["count", "source"], count=(_COUNT, "Of all rows."), source=(_NAME, "Where it is published.")),
    _rule(
        ["by", "counts", "source"],
        by=(_NAME, "The attribute."),
        counts=(_pairs(_WHOLE), "Rows of each of its values; of rows without one under NULL."),
        source=(_NAME, "Where it is published."),
    ),
    _rule(
        ["by", "counts", "source"],
        by=(_list(_NAME), "Attributes, at most four."),
        counts=(_pairs({"type": "object"}), "Rows of each value of the first by each value of the second, and so on."),
        source=(_NAME, "Where it is published."),
    ),
]
_FOLD: Fragment = {"enum": ["case", "spaces"]}
_GROUPS = _pairs(_pairs({"anyOf": [_list(_VALUE), {"type": "integer", "minimum": 1}]}))

# Each key: what may stand there (nothing where a class lists its choices), and what it means. Keys that mean another
# thing in one class stand under its name.
_KEYS: dict[str, tuple[Fragment, str]] = {
    "dataset": ({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, "The name in FROM, and in the ledger."),
    "population": (_COUNT, "How many the rows were drawn from, by public knowledge: for answers about a population."),
    "expected_rows": (_COUNT, "A public guess, for the planner alone. Do not count the rows of the table."),
    "ledger": ({"type": "string", "pattern": "^[0-9a-f]{32}$"}, "Identity of the only ledger that may be used."),
    "PrivacyUnit.column": (_NAME, "The column that says whose row it is."),
    "contributions": (_COUNT, "How many rows of each person are used."),
    "epsilon": (_NUMBER, "The most that may ever be spent, by all releases together."),
    "per": ({}, "year: the releases of each calendar year together keep to it; of a series of single periods."),
    "rho": (_NUMBER, "The most that may ever be spent, in rho of zero-concentrated privacy; instead of epsilon."),
    "delta": (_NUMBER, "The total delta, for releases that need one; below 1."),
    "type": ({}, "The kind of values."),
    "column": (_NAME, "The table's column, if it has another name."),
    "missing": ({}, "keep: one more cell for rows without a value."),
    "Measure.missing": ({}, "Rows without a value: keep them, drop them, or count the middle of the bounds."),
    "lower": (_NUMBER, "The smallest value that the public already knows; smaller ones count as this one."),
    "upper": (_NUMBER, "The largest value that the public already knows; larger ones count as this one."),
    "Integer.lower": (_WHOLE, "The smallest value that the public already knows; smaller ones count as this one."),
    "Integer.upper": (_WHOLE, "The largest value that the public already knows; larger ones count as this one."),
    "Date.lower": (_DAY, "The first day that the public already knows, such as 2020-01-01."),
    "Date.upper": (_DAY, "The last day that the public already knows."),
    "bins": (_COUNT, "How many cells of equal width."),
    "width": (_NUMBER, "The width of each cell."),
    "Integer.width": (_COUNT, "The width of each cell."),
    "cuts": (_list(_NUMBER), "Where cells part, from small to large."),
    "by": ({}, "One cell for each of these; weekday and hour_of_day have no bounds."),
    "values": (
        {"anyOf": [_list(_VALUE), _NAME, _FROM_FILE]},
        "The values that the public already knows: [F, M], a range 0..41, or a file of values beside the schema.",
    ),
    "other": (_FLAG, "true: one more cell, for all values that are not listed."),
    "map": (_pairs(_VALUE), "Other spellings of listed values."),
    "Boolean.map": (_pairs(_FLAG), "What is true and false, such as {1: true, 2: false}."),
    "fold": ({"anyOf": [_FOLD, _list(_FOLD)]}, "Differences in spelling that do not matter."),
    "labels": (_pairs({"type": "string"}), "What is shown in place of a value."),
    "groups": (_GROUPS, "Columns that follow from this one, such as {region: {North: [Aa], South: [Calw]}}."),
    "step": (_NUMBER, "What values are rounded to; chosen if left out."),
    "Weight.column": (_NAME, "The column that says how often a row counts."),
    "Weight.lower": (_NUMBER, "The smallest weight; smaller ones count as this one. 0 if left out."),
    "Weight.upper": (_NUMBER, "The largest weight; larger ones count as this one. Noise grows with it."),
    "shrink": (_NUMBER, "From 0 to below 1: how far weights are moved to the mean, which lowers the noise."),
    "mean": (_NUMBER, "The public mean that weights are moved to."),
    "unweighted_share": (_NUMBER, "Share of the budget for COUNT_ROWS(), beside the weighted count, which has 1."),
    "weight": ({}, "A survey's weight: how often each row counts."),
    "budget_share": (_NUMBER, "Its share of the budget beside the count, which has 1; no survey weight."),
    "format": ({}, "The kind of file, where its name does not say."),
    "delimiter": (_NAME | {"pattern": "."}, "Between fields: one character, or tab."),
    "quote": ({"type": "string"}, "Around fields: one character, or none."),
    "encoding": (_NAME, "Such as utf-8, latin-1 or cp1252."),
    "columns": ({"anyOf": [_NAME, _list(_NAME)]}, "All columns in order, of a file without a header line."),
    "decimal": ({"enum": [".", ","]}, "In numbers that are text."),
    "thousands": ({"type": "string"}, "In numbers that are text: , . ' _ or space."),
    "dates": (_or_by_column(_NAME), "As in strptime, such as %d.%m.%Y; also by column."),
    "Dialect.missing": (_or_by_column(_WORDS), "Texts that stand for a missing value, such as [NA, n/a, '-']."),
    "strip": (_or_by_column(_WORDS), "Currencies and units around numbers, such as [EUR, '%']."),
    "sheet": (_NAME, "Of an Excel file; the first if left out."),
    "privacy_unit": ({}, "Whose presence is hidden: row, or the column that says who and how many rows of each."),
    "budget": ({}, "The most that may ever be spent on the dataset."),
    "attributes": ({}, "Columns that queries can filter and group by."),
    "measures": ({}, "Columns that queries can sum and average; values are clipped to the bounds."),
    "impossible": (
        _list(_COMBINATION),
        "Combinations of values that no row can have: [{age: 0..14, marital: [married, widowed]}].",
    ),
    "follows": (
        _pairs({"anyOf": [_NAME, _FUNCTION]}),
        "Attributes that follow from finer ones: {state: {from: county, groups: {England: [Kent, Devon]}}}.",
    ),
    "facts": (
        _list({"anyOf": _FACTS}),
        "Public counts that answers agree with: [{by: sex, counts: {F: 250, M: 238}, source: census}].",
    ),
    "invariants": (
        _list({"anyOf": [_NAME, {"type": "array", "items": _NAME}]}),
        "Tables whose exact counts are published, protected by nothing: [[], region, [region, sex]]; [] is all rows.",
    ),
    "series": ({}, "A table that is published again for every period."),
    "period": ({}, "How long one period is; names have no calendar."),
    "label": (_NAME, "What pages call the column, such as Age at visit; queries name the column as ever."),
    "unit": (_NAME, "What its numbers are in, such as EUR; pages show it."),
    "description": (_NAME, "A sentence about the column for readers of pages."),
    "Series.unit": (
        _NAME,
        "Whose presence is hidden: person (or row) in a month, person in at most 6 months, or person for ever.",
    ),
    "periods": (_COUNT, "How many periods are planned."),
    "Series.column": (_NAME, "Which column says the period of a row, where one table holds several."),
    "running": (_FLAG, "true: sums over many periods are as exact as can be, single periods less so."),
    "per_person": (_NAME, "SQL that makes one row of each person's many: SELECT id, COUNT(*) AS n FROM t GROUP BY id."),
    "file": ({}, "How the table's file is written."),
    "discovered": ({}, "Receipts for what `sfumato discover` bought from the table; leave them as they are."),
    "Discovered.epsilon": (_NUMBER, "What was paid for the keys, from the dataset's budget."),
    "Discovered.delta": (_NUMBER, "What was paid in delta."),
    "entry": (_COUNT, "The entry of the ledger that paid."),
    "nonce": ({"type": "string", "pattern": "^[0-9a-f]{32}$"}, "The nonce of that entry."),
    "filled": (_list(_NAME), "The keys that were bought."),
    "recode": (
        _pairs({"anyOf": [_NAME, *_ROW_RULES]}),
        "Columns made of each row by a public rule: {hour: EXTRACT(HOUR FROM t)}.",
    ),
    "with": (
        {"anyOf": [_LOOK_UP, _list(_LOOK_UP)]},
        "Public tables in which values are looked up: [{file: postcodes.csv, key: postcode}].",
    ),
}


def json_schema() -> Fragment:
    """The JSON Schema of a schema file.

    >>> json_schema()["properties"]["dataset"]["pattern"]
    '^[A-Za-z_][A-Za-z0-9_]*$'
    """
    whole = _object(Schema)
    parts: dict[str, Fragment] = {
        "privacy_unit": {"anyOf": [{"const": "row"}, _object(PrivacyUnit) | {"required": ["column"]}]},
        "budget": _object(Budget) | {"oneOf": [{"required": ["epsilon"]}, {"required": ["rho"]}]},
        "attributes": {"type": "object", "minProperties": 1, "additionalProperties": _attribute()},
        "measures": {"type": "object", "additionalProperties": _object(Measure)},
        "weight": _object(Weight),
        "series": _object(Series),
        "file": _object(Dialect),
        "discovered": {"type": "array", "minItems": 1, "items": _object(Discovered)},
    }
    for key, part in parts.items():
        whole["properties"][key] = {"description": _KEYS[key][1], **part}
    stated = {"anyOf": [{"const": "row"}, {"required": ["contributions"]}]}  # by per_person it is 1
    whole |= {"if": {"not": {"required": ["per_person"]}}, "then": {"properties": {"privacy_unit": stated}}}
    # A file of linked tables has its attributes table by table (docs/linked.md).
    said = "Linked tables, each with its source, link and attributes."
    tables = {"description": said, "type": "object", "minProperties": 1, "additionalProperties": {"type": "object"}}
    whole["properties"]["tables"] = tables
    whole["required"] = [key for key in whole["required"] if key != "attributes"]
    whole["anyOf"] = [{"required": ["attributes"]}, {"required": ["tables"]}]
    return {"$schema": DRAFT, "title": "Sfumato schema", "description": "What is public about a table.", **whole}


def _attribute() -> Fragment:
    """One attribute: its type chooses which other keys there are, so that an editor complains about those alone."""
    kinds = [
        {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]}, "then": _object(part)}
        for kind, part in KINDS.items()
    ]
    kind = {"enum": list(KINDS), "description": _KEYS["type"][1]}
    return {"type": "object", "required": ["type"], "properties": {"type": kind}, "allOf": kinds}


def _object(part: type[Declared]) -> Fragment:
    """A part of the schema as an object with its own keys and no others."""
    fields = part.model_fields
    required = [key for key in keys_of(part) if fields[field_of(part, key)].is_required()]
    properties = {key: _key(part, key) for key in keys_of(part)}
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _key(part: type[Declared], key: str) -> Fragment:
    own = f"{part.__name__}.{key}"
    shape, words = _KEYS[own if own in _KEYS else key]
    choices = _choices(part.model_fields[field_of(part, key)].annotation)
    return {"description": words, **({"enum": choices} if choices else shape)}


def _choices(annotation: Any) -> list[str]:
    """The words of a Literal, also of one that may be left out."""
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    some = [_choices(inner) for inner in get_args(annotation) if get_origin(inner) is Literal]
    return some[0] if some else []
