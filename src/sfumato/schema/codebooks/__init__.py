"""Read codebooks: public lists of a table's columns, values, labels and bounds, from which a schema is drafted.

A codebook is public by itself, which is what the curator says by naming it; what is taken from it is published with a
release. Whatever it tells of rows (frequencies, smallest and largest values that occurred, the number of rows) is left
out, and of a file that holds rows besides, SPSS or Stata, none is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from sfumato.errors import SchemaError
from sfumato.schema.codebooks.variable import Variable
from sfumato.schema.dialect import same_name

__all__ = ["Variable", "keys_of_columns", "missing_words", "read_codebook"]

# By the ending of a file: module and function that takes a path and the table's name, and returns variables.
READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), ("plain_text", "read_csv")),
    ".json": ("standards", "read_data_package"),
    ".xml": ("standards", "read_ddi"),
    **dict.fromkeys((".sql", ".ddl"), ("plain_text", "read_sql")),
    **dict.fromkeys((".sav", ".zsav", ".por", ".dta"), ("standards", "read_labels")),
}


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
