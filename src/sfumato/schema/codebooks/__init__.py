"""Read codebooks: public lists of a table's columns, values, labels and bounds, from which a schema is drafted.

A codebook is public by itself, which is what the curator says by naming it; what is taken from it is published with a
release. Whatever it tells of rows (frequencies, smallest and largest values that occurred, the number of rows) is left
out, and of a file that holds rows besides, SPSS or Stata, none is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from importlib import import_module
from pathlib import Path

import yaml

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.attributes.lists import as_text
from sfumato.schema.dialect import same_name
from sfumato.schema.parts import as_day, exact, whole

# By the ending of a file: module and function that takes a path and the table's name, and returns variables.
READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), ("plain_text", "read_csv")),
    ".json": ("standards", "read_data_package"),
    ".xml": ("standards", "read_ddi"),
    **dict.fromkeys((".sql", ".ddl"), ("plain_text", "read_sql")),
    **dict.fromkeys((".sav", ".zsav", ".por", ".dta"), ("standards", "read_labels")),
}

MOST_BYTES = 2**24  # of a codebook
Value = str | int

_TYPES = {
    "integer": r"(big|small|tiny|huge)?int(eger)?[0-9]*|whole|count|year|long|byte|ordinal",
    "number": r"num(ber|eric)?|float[0-9]*|double( precision)?|decimal|real|continuous|scale|contin|money|currency",
    "category": r"str(ing)?|text|char(acter)?|varchar|categor(y|ical)|enum|factor|nominal|discrete|radio|dropdown|code",
    "boolean": r"bool(ean)?|yesno|truefalse|logical|flag|binary",
    "date": r"date(time)?(_[a-z]+)?|timestamp|day|dmy|mdy|ymd",
}


@dataclass(frozen=True)
class Variable:
    """A column as a codebook describes it. values: listed ones with their labels, empty texts where there is none.

    stated: its type in the codebook's own words. missing: codes and texts that are no value. truths: what is true and
    false, where that is stated.
    """

    name: str
    stated: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    lower: str = ""
    upper: str = ""
    missing: Sequence[str] = ()
    truths: Mapping[str, bool] = field(default_factory=dict)

    @property
    def kind(self) -> str | None:
        """The type of attribute: by its list of values, by its bounds, or by the word that the codebook has."""
        listed = [value for value in self.values if value not in self.missing]
        if listed and {value.lower() for value in listed} <= {"true", "false"}:
            return "boolean"
        word = re.sub(r"\(.*", "", self.stated.strip().lower())
        told = next((kind for kind, pattern in _TYPES.items() if re.fullmatch(pattern, word)), None)
        if listed and not (told in ("number", "date") or (told == "integer" and self.lower and self.upper)):
            return "category"
        if told in (None, "category") and self.lower and self.upper:
            if as_day(self.lower[:10]) and as_day(self.upper[:10]):
                return "date"
            return "integer" if _is_whole(self.lower) and _is_whole(self.upper) else "number"
        return told

    def keys(self) -> dict[str, str]:
        """Keys of the attribute and their values as YAML spells them; without its type, if that is not known."""
        kind = self.kind
        if kind is None:
            return {}
        found = {"type": kind}
        if kind == "category":
            values = [value for value in self.values if value not in self.missing]
            if values:
                found |= {"values": _listed(values)} | self._labels(values)
        elif kind == "boolean":
            found |= {"map": flow(dict(self.truths))} if self.truths else {}
        else:
            for key, bound in (("lower", self.lower), ("upper", self.upper)):
                if bound and (text := _bound(kind, bound)):
                    found[key] = text
        if self.missing:
            found["missing"] = "keep"
        return found

    def _labels(self, values: Sequence[str]) -> dict[str, str]:
        """Labels of listed values, each made its own where two values share one."""
        labels = {value: self.values[value].strip() for value in values if self.values[value].strip()}
        labels = {value: label for value, label in labels.items() if label != value}
        known = [*labels.values(), *values]
        unlike = {value: label if known.count(label) == 1 else f"{label} ({value})" for value, label in labels.items()}
        coded = _coded(values)
        return {"labels": flow({as_code(value, coded): label for value, label in unlike.items()})} if unlike else {}


def as_code(value: str, coded: bool) -> Value:
    """A listed value as a schema has it: a number, where all values of its list are whole numbers as they are written.

    >>> as_code("1", True), as_code("01", False)
    (1, '01')
    """
    return whole(value) if coded else value


def _coded(values: Sequence[str]) -> bool:
    return all(re.fullmatch(r"0|-?[1-9][0-9]{0,14}", value) for value in values)


def _listed(values: Sequence[str]) -> str:
    """A list in YAML; consecutive whole numbers as a range."""
    if not _coded(values):
        return flow(list(values))
    codes = [whole(value) for value in values]
    if len(codes) > 8 and codes == list(range(codes[0], codes[0] + len(codes))):
        return f"{codes[0]}..{codes[-1]}"
    return flow(codes)


def _is_whole(text: str) -> bool:
    try:
        return exact(text).denominator == 1
    except ValueError:
        return False


def _bound(kind: str, text: str) -> str:
    """A bound as YAML has it; nothing, if it is none of its kind."""
    if kind == "date":
        return text[:10] if as_day(text[:10]) else ""
    try:
        number = exact(text)
    except ValueError:
        return ""
    return as_text(int(number)) if number.denominator == 1 else "" if kind == "integer" else text.strip()


def flow(value: object) -> str:
    """A value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**31, sort_keys=False)
    return text.removesuffix("...\n").rstrip("\n")


def plain_number(value: object) -> str:
    """A code as text, whole floats as whole numbers: 3 and not 3.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def bytes_of(path: Path) -> bytes:
    """Read a codebook that is not too large."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as problem:
        raise SchemaError(f"the codebook cannot be read ({problem.strerror}); check the path", kind="file") from None
    if len(content) > MOST_BYTES:
        raise SchemaError("the codebook is larger than 16 MB; leave out what is about other tables")
    return content


def text_of(path: Path) -> str:
    """Read a codebook that is text: UTF-8, or what spreadsheets of Western Europe write."""
    content = bytes_of(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def of_table(tables: Mapping[str, object], wanted: str, what: str) -> str:
    """Name of the wanted table of a codebook: the only one there is, or the one so called. what: word for messages."""
    same = [name for name in tables if name.lower() == wanted.lower()]
    if len(tables) == 1 or same:
        return (same or list(tables))[0]
    names = ", ".join(list(tables)[:10]) or "none"
    raise SchemaError(f"it describes {len(tables)} {what} ({names}), and none is called {wanted!r}; keep one of them")


def read_codebook(path: Path, table: str) -> list[Variable]:
    """The variables of a codebook. table: whose they are, where it describes several tables."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise SchemaError(f"{path}: a codebook must end in {', '.join(READERS)}; save it as one of them, such as CSV")
    try:
        module = import_module(f"sfumato.schema.codebooks.{reader[0]}")
        found: list[Variable] = getattr(module, reader[1])(path, table)
    except SchemaError as problem:
        raise SchemaError(f"{path}: {problem}", kind=problem.kind) from None
    if not found:
        raise SchemaError(f"{path}: the codebook describes no column; check that it is the right file")
    return found


def keys_of_columns(variables: Sequence[Variable], columns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Keys of the columns of a table that a codebook describes, as YAML spells them, by the table's own names.

    >>> keys_of_columns([Variable("SEX", values={"1": "female", "2": "male"})], ["sex", "age"])
    {'sex': {'type': 'category', 'values': '[1, 2]', 'labels': '{1: female, 2: male}'}}
    """
    return {name: keys for name, variable in _matched(variables, columns).items() if (keys := variable.keys())}


def missing_words(variables: Sequence[Variable], columns: Sequence[str]) -> list[str] | dict[str, list[str]]:
    """Codes for missing values: one list, if all columns have the same, or else by column."""
    by_column = {name: list(one.missing) for name, one in _matched(variables, columns).items() if one.missing}
    lists = list(by_column.values())
    return lists[0] if len(lists) == len(columns) > 0 and all(one == lists[0] for one in lists) else by_column


def _matched(variables: Sequence[Variable], columns: Sequence[str]) -> Mapping[str, Variable]:
    """The variable of each column, by names that may differ in case and outer blanks."""
    by_name = {same_name(variable.name): variable for variable in variables}
    return {name: by_name[same_name(name)] for name in columns if same_name(name) in by_name}
