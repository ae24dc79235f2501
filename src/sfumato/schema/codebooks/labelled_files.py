"""Codebooks inside SPSS and Stata files: names, value labels and codes for missing values; never a row.

Such a file may be the private table itself. Labels and codes were declared by whoever designed the survey. The number
of rows is in the file's head too, and is not looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.schema.codebooks.variable import Variable, plain_number

_READS = {".sav": "read_sav", ".zsav": "read_sav", ".dta": "read_dta"}


def read(path: Path, table: str) -> list[Variable]:
    """The variables of a file, by its head alone."""
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
    return [_variable(name, head) for name in head.column_names]


def _variable(name: str, head: Any) -> Variable:
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
