"""Codebooks that are plain text: CSV lists of columns and values, and CREATE TABLE statements.

CSV has a row for each value of a column, or a row for each column, also as REDCap writes them.

variable,value,label          name,type,min,max,values
sex,1,female                  sex,category,,,"1=female; 2=male"
sex,2,male                    age,integer,0,120,

SQL is CREATE TABLE with ENUM types and CHECK constraints, as PostgreSQL and DuckDB write them. Only what people
declared is taken: lists, and bounds from comparisons with constants. An ENUM that is made by a query, as DuckDB allows,
has no list here.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.schema.codebooks import Variable, of_table, text_of

# What heads mean, without case, blanks and marks. The first that a file has is taken.
HEADS = {
    "name": "variable variablename variablefieldname column columnname field fieldname var varname name item attribute",
    "value": "value code values codes valuecode category choices options enum allowedvalues permittedvalues"
    " choicescalculationsorsliderlabels responseoptions",
    "label": "label valuelabel labels meaning codelabel text description definition",
    "type": "type datatype vartype variabletype fieldtype format measure measurement level",
    "lower": "min minimum lower low lowerbound textvalidationmin",
    "upper": "max maximum upper high upperbound textvalidationmax",
    "missing": "missing missingvalues missingcodes na navalues ismissing",
}
_YES = ("yes", "y", "true", "t", "1", "x", "missing")


def read_csv(path: Path, table: str) -> list[Variable]:
    """The variables of a CSV file with commas, semicolons or tabs."""
    text = text_of(path)
    first = text.splitlines()[0] if text.strip() else ""
    delimiter = max((";", "\t", ","), key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error:
        raise SchemaError("the codebook is not CSV; save it as CSV with a header line") from None
    heads = _heads(rows[0] if rows else [])
    found: dict[str, Variable] = {}
    last = ""
    for row in rows[1:]:
        cells = {key: row[place].strip() if place < len(row) else "" for key, place in heads.items()}
        last = cells["name"] or last  # the name is often written beside the first value only
        if last:
            found[last] = _with(found.get(last) or Variable(last), cells)
    return list(found.values())


def _heads(header: list[str]) -> dict[str, int]:
    plain = [re.sub(r"[^a-z]", "", name.lower()) for name in header]
    found: dict[str, int] = {}
    for key, names in HEADS.items():
        place = next((plain.index(name) for name in names.split() if name in plain), None)
        if place is not None and place not in found.values():
            found[key] = place
    if "name" not in found or len(found) < 2:
        raise SchemaError(
            "the first line must name the columns: variable, value and label (a row for each value), or name, type, "
            f"min, max and values (a row for each column); it has {', '.join(header[:12]) or 'nothing'}"
        )
    return found


def _with(so_far: Variable, cells: Mapping[str, str]) -> Variable:
    """Extend a variable by one more row of the CSV."""
    values, missing, (lower, upper) = dict(so_far.values), list(so_far.missing), (so_far.lower, so_far.upper)
    written = cells.get("value", "")
    if span := re.fullmatch(
        r"(-?[\d.]+?|\d{4}-\d\d-\d\d)\s*(?:\.\.|–| to | bis )\s*(-?[\d.]+|\d{4}-\d\d-\d\d)", written
    ):
        lower, upper = span.groups()
    else:
        pairs = _pairs(written)
        if len(pairs) == 1 and cells.get("label"):
            pairs = {written: cells["label"]}
        values |= pairs
        if written and cells.get("missing", "").lower() in _YES:
            missing += pairs
    if cells.get("missing", "") and cells["missing"].lower() not in (*_YES, "no", "n", "false", "f", "0"):
        missing += [word.strip() for word in re.split(r"[;|,]", cells["missing"]) if word.strip()]
    return Variable(
        so_far.name,
        so_far.stated or cells.get("type", ""),
        values,
        lower or cells.get("lower", ""),
        upper or cells.get("upper", ""),
        tuple(dict.fromkeys(missing)),
    )


def _pairs(cell: str) -> dict[str, str]:
    """Values and labels of a cell: `1=female; 2=male`, `1, Female | 2, Male`, `F | M`, `F, M`, or one value.

    >>> _pairs("1, Female | 2, Male"), _pairs("1=a; 2=b"), _pairs("F, M"), _pairs("New York")
    ({'1': 'Female', '2': 'Male'}, {'1': 'a', '2': 'b'}, {'F': '', 'M': ''}, {'New York': ''})
    """
    mark = next((mark for mark in ("|", "\n", ";") if mark in cell), None)
    if mark is None and "," in cell:
        mark = ","
    found = {}
    for part in cell.split(mark) if mark else [cell]:
        code, parted, label = part.partition("=")
        if not parted and mark not in (",", None):
            code, _, label = re.sub(r"^(\s*[\w-]+)\s*[,:]\s+", r"\1=", part).partition("=")
        if code.strip():
            found[code.strip().strip("'\"")] = label.strip().strip("'\"")
    return found


def read_sql(path: Path, table: str) -> list[Variable]:
    """The columns of the table of that name, or of the only one."""
    return variables_in(text_of(path), table)


def variables_in(text: str, table: str, dialect: str = "postgres") -> list[Variable]:
    """The columns of a table by its definition. dialect: as sqlglot names it."""
    import sqlglot
    from sqlglot import exp

    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True  # it speaks of statements that are of no concern here
    try:
        statements = sqlglot.parse(text, dialect=dialect, error_level=sqlglot.ErrorLevel.IGNORE)
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise SchemaError("the codebook is not SQL that can be read; keep its CREATE TYPE and CREATE TABLE") from None
    finally:
        log.disabled = before
    creates = [one for one in statements if isinstance(one, exp.Create)]
    enums = {one.this.name.lower(): _texts(one.expression.expressions) for one in creates
             if one.kind == "TYPE" and isinstance(one.expression, exp.DataType)}  # fmt: skip
    tables = {one.this.this.name: one for one in creates if one.kind == "TABLE" and isinstance(one.this, exp.Schema)}
    if not tables:
        raise SchemaError("the codebook has no CREATE TABLE with columns; write the table's definition to it")
    name = of_table(tables, table, "tables")
    altered = [one for one in statements if isinstance(one, exp.Alter) and one.this.name == name]
    said = _constraints([tables[name], *altered])
    return [_variable(column, enums, said) for column in tables[name].this.expressions
            if isinstance(column, exp.ColumnDef)]  # fmt: skip


Said = dict[str, dict[str, Any]]


def _variable(column: Any, enums: dict[str, list[str]], said: Said) -> Variable:
    kind = column.args.get("kind")
    word = "" if kind is None else kind.sql("postgres")
    own = said.get(column.name.lower(), {})
    listed = enums.get(word.rpartition(".")[2].strip('"').lower(), [])
    if kind is not None and kind.this.name == "ENUM":
        listed = _texts(kind.expressions)
    values = dict.fromkeys(own.get("values") or listed, "")
    return Variable(column.name, "category" if listed else word, values, own.get("lower", ""), own.get("upper", ""))


def _constraints(statements: Sequence[Any]) -> Said:
    """Lists and bounds of columns that CHECK constraints state."""
    from sqlglot import exp

    said: Said = {}
    for test in (check.this for one in statements for check in one.find_all(exp.CheckColumnConstraint)):
        for name, key, value in _facts(test):
            said.setdefault(name.lower(), {})[key] = value
    return said


def _facts(test: Any) -> Iterator[tuple[str, str, Any]]:
    """Bounds and lists that a condition states: (column, key of the schema, value), from tests joined by AND."""
    from sqlglot import exp

    test, facts = _bare(test), list[tuple[str, Any]]()
    if isinstance(test, exp.And):
        yield from _facts(test.this)
        yield from _facts(test.expression)
        return
    if isinstance(test, exp.Between):
        ends = _constant(test.args["low"]), _constant(test.args["high"])
        facts = [("lower", ends[0]), ("upper", ends[1])]
    elif isinstance(test, exp.In):
        facts = [("values", _texts(test.expressions))]
    elif isinstance(test, exp.EQ) and isinstance(test.expression, exp.Any):
        array = _bare(test.expression.this)
        facts = [("values", _texts(array.expressions) if isinstance(array, exp.Array) else [])]
    elif isinstance(test, exp.GTE | exp.LTE):  # > and < of whole numbers and of others differ: left to the curator
        key = "lower" if isinstance(test, exp.GTE) else "upper"
        facts = [(key, _constant(test.expression))]
    else:
        return
    column = _bare(test.this)
    if isinstance(column, exp.Column):
        yield from ((column.name, key, value) for key, value in facts if value)


def _bare(value: Any) -> Any:
    """An expression without the brackets and casts around it."""
    from sqlglot import exp

    while isinstance(value, exp.Paren | exp.Cast):
        value = value.this
    return value


def _constant(value: Any) -> str:
    """A number or text as it is written; nothing, if it is no constant."""
    from sqlglot import exp

    value = _bare(value)
    if isinstance(value, exp.Neg) and (inner := _constant(value.this)):
        return f"-{inner}"
    return str(value.this) if isinstance(value, exp.Literal) else ""


def _texts(values: Sequence[Any]) -> list[str]:
    """A list of constants; empty, if something else is among them."""
    found = [_constant(value) for value in values]
    return found if all(found) else []
