"""Codebooks in CSV: a row for each value of a column, or a row for each column, also as REDCap writes them.

variable,value,label          name,type,min,max,values
sex,1,female                  sex,category,,,"1=female; 2=male"
sex,2,male                    age,integer,0,120,
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from sfumato.errors import SchemaError
from sfumato.schema.codebooks.variable import Variable, text_of

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


def read(path: Path, table: str) -> list[Variable]:
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
    """A variable with what one more row says of it."""
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
