"""What kind of values a column holds, from the word that an engine has for its type."""

from __future__ import annotations

from sqlglot import exp

from sfumato.kernel.source.engines import Column

TEXTS = exp.DataType.TEXT_TYPES | {exp.DataType.Type.ENUM}


def type_of(source: Column, dialect: str) -> exp.DType | None:
    """The column's type, without what an engine calls it; None where all is text."""
    return None if source.type is None else exp.DataType.build(source.type, dialect=dialect).this


def is_float(source: Column, dialect: str) -> bool:
    """Whether the column holds floats."""
    return type_of(source, dialect) in exp.DataType.FLOAT_TYPES
