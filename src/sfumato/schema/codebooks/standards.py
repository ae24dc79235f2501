"""Codebooks in standard formats: Frictionless data packages, DDI 2.x, and the heads of SPSS and Stata files.

Frequencies (catStat) and statistics of what occurred (sumStat) in DDI come from rows and are passed over. A document
type declaration, with which XML can define entities, is refused, so that a small file stays small.

An SPSS or Stata file may be the private table itself. Names, value labels and codes for missing values were declared by
whoever designed the survey; no row is read. The number of rows is in the file's head too, and is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

from sfumato.errors import SchemaError
from sfumato.schema.codebooks import Variable, bytes_of, of_table, plain_number, text_of

# -- Frictionless standards: datapackage.json, or the table schema of one table


def read_data_package(path: Path, table: str) -> list[Variable]:
    """The fields of a table schema, or of the resource of that name in a data package."""
    try:
        package = json.loads(text_of(path))
    except (ValueError, RecursionError):
        raise SchemaError("the codebook is not JSON; check the file") from None
    schema = _schema(package, table)
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, Mapping) for field in fields):
        raise SchemaError("the table schema has no list of fields; check that it is a Frictionless data package")
    everywhere = schema.get("missingValues", [])
    return [_field(field, everywhere) for field in fields if isinstance(field.get("name"), str)]


def _schema(package: Any, table: str) -> Mapping[str, Any]:
    if not isinstance(package, Mapping):
        raise SchemaError("the codebook is no data package; it must be an object with resources, or with fields")
    if "resources" not in package:
        return package
    resources = package["resources"] if isinstance(package["resources"], list) else []
    by_name = {str(one.get("name", "")): one for one in resources if isinstance(one, Mapping)}
    schema = by_name[of_table(by_name, table, "resources")].get("schema") if by_name else None
    if isinstance(schema, str):
        raise SchemaError("the data package keeps its table schema in another file; name that file as the codebook")
    if not isinstance(schema, Mapping):
        raise SchemaError("the resource has no table schema; add one with fields, or name another codebook")
    return schema


def _field(field: Mapping[str, Any], everywhere: object) -> Variable:
    limits = field.get("constraints")
    limits = limits if isinstance(limits, Mapping) else {}
    values = {plain_number(one): "" for one in _list(limits.get("enum"))}
    for one in _list(field.get("categories")):
        if isinstance(one, Mapping):
            values[plain_number(one.get("value", ""))] = str(one.get("label", ""))
        else:
            values[plain_number(one)] = ""
    missing = [_word(one) for one in _list(field.get("missingValues", everywhere))]
    truths = {str(one): truth for key, truth in (("trueValues", True), ("falseValues", False)) for one in
              _list(field.get(key))}  # fmt: skip
    return Variable(
        field["name"],
        "" if field.get("type") == "any" else str(field.get("type", "")),
        values,
        plain_number(limits.get("minimum", "")),
        plain_number(limits.get("maximum", "")),
        tuple(word for word in missing if word),
        truths if field.get("type") == "boolean" else {},
    )


def _word(one: object) -> str:
    """A missing value, which may come with a label."""
    return plain_number(one.get("value", "") if isinstance(one, Mapping) else one)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# -- DDI


class _Entities(Exception):
    """The file has a document type declaration."""


class _Variables:
    """Handler of expat: what <var> elements say, one after another."""

    def __init__(self) -> None:
        self.found: list[Variable] = []
        self._inside: list[str] = []
        self._text = ""
        self._begin({})

    def _begin(self, attributes: dict[str, str]) -> None:
        self._name, self._stated = attributes.get("name", ""), attributes.get("intrvl", "")
        self._values: dict[str, str] = {}
        self._missing: list[str] = []
        self._bounds = "", ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name, inside = name.rpartition(" ")[2], self._inside
        if name == "var":
            self._begin(attributes)
        elif name == "catgry":
            self._code, self._label, self._none = "", "", attributes.get("missing", "N").upper() == "Y"
        elif name == "varFormat" and inside[-1:] == ["var"]:
            self._stated = "date" if attributes.get("category") == "date" else self._stated
            self._stated = self._stated or {"character": "text", "numeric": "number"}.get(
                attributes.get("type", ""), ""
            )
        elif name == "range" and inside[-1:] == ["valrng"]:
            self._bounds = attributes.get("min", ""), attributes.get("max", "")
        elif name == "item" and inside[-1:] == ["invalrng"]:
            self._missing.append(attributes.get("VALUE", ""))
        inside.append(name)
        self._text = ""

    def text(self, data: str) -> None:
        self._text += data

    def end(self, name: str) -> None:
        name = self._inside.pop()
        text, self._text, parent = " ".join(self._text.split()), "", self._inside[-1:]
        if name == "catValu" and parent == ["catgry"]:
            self._code = text
        elif name == "labl" and parent == ["catgry"]:
            self._label = self._label or text
        elif name == "catgry" and self._code:
            self._values[self._code] = self._label
            self._missing += [self._code] if self._none else []
        elif name == "var" and self._name:
            missing = tuple(dict.fromkeys(word for word in self._missing if word))
            self.found.append(Variable(self._name, self._stated, self._values, *self._bounds, missing))


def read_ddi(path: Path, table: str) -> list[Variable]:
    """The variables of a DDI codebook."""
    found = _Variables()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.CharacterDataHandler, parser.buffer_text = found.text, True
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(bytes_of(path), True)
    except expat.ExpatError as problem:
        raise SchemaError(f"line {problem.lineno}: the codebook is not well-formed XML; check the file") from None
    except _Entities:
        raise SchemaError(
            "the codebook declares a document type, which is not read; delete the line <!DOCTYPE"
        ) from None
    return found.found


def _refuse(*_: object) -> None:
    raise _Entities


# -- SPSS and Stata

_READS = {".sav": "read_sav", ".zsav": "read_sav", ".dta": "read_dta"}


def read_labels(path: Path, table: str) -> list[Variable]:
    """The variables of an SPSS or Stata file, by its head alone."""
    try:
        import pyreadstat
    except ImportError:
        raise SchemaError(
            "SPSS and Stata files are read by pyreadstat; install sfumato[codebooks], or save the labels as CSV"
        ) from None
    if not path.is_file():
        raise SchemaError("there is no such file; check the path", kind="file")
    ending = path.suffix.lower()
    if ending == ".por":
        raise SchemaError("a .por file cannot be read without its rows; save it as .sav, or its labels as CSV")
    problem = False
    try:
        _, head = getattr(pyreadstat, _READS[ending])(
            str(path),
            metadataonly=True,  # for privacy: no row is read
            user_missing=True,  # or codes that mean no value are not told
        )
    except Exception:  # for privacy: its text could quote what the file holds
        problem = True
    if problem:
        raise SchemaError("the file is no SPSS or Stata file that can be read; save its labels as CSV", kind="file")
    return [_labelled(name, head) for name in head.column_names]


def _labelled(name: str, head: Any) -> Variable:
    labels = {plain_number(code): str(label) for code, label in head.variable_value_labels.get(name, {}).items()}
    missing = [plain_number(code) for code in head.missing_user_values.get(name, [])]
    for span in head.missing_ranges.get(name, []):
        low, high = span["lo"], span["hi"]
        missing += [plain_number(low)] if low == high else [code for code in labels if _within(code, low, high)]
    kind = head.readstat_variable_types.get(name, "")
    if str(head.original_variable_types.get(name, "")).startswith(("DATE", "ADATE", "EDATE", "SDATE", "%td", "%d")):
        kind = "date"
    scale = head.variable_measure.get(name, "") == "scale"
    valid = [code for code in labels if code not in missing]
    stated = kind if kind == "date" or not valid else "number" if scale else "category"
    return Variable(name, stated, labels if stated == "category" else {}, missing=tuple(dict.fromkeys(missing)))


def _within(code: str, low: object, high: object) -> bool:
    try:
        return float(low) <= float(code) <= float(high)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
