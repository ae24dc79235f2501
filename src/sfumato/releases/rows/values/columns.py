"""Which columns synthetic rows have: those of the table that the schema describes, so that it reads them back."""

from __future__ import annotations

from sfumato.frozen import dataclass
from sfumato.schema import Schema


@dataclass(frozen=True)
class TableColumn:
    """A column of the table, with the attributes and measures that are read from it. Neither: it says who a row is."""

    name: str
    attributes: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()


def table_columns(schema: Schema) -> tuple[TableColumn, ...]:
    """The privacy unit's column, if there is one, then those of attributes and of measures, each once.

    >>> census = Schema(dataset="t", privacy_unit={"column": "person", "contributions": 2}, attributes={
    ...     "day": {"type": "date", "by": "weekday", "column": "at"},
    ...     "hour": {"type": "date", "by": "hour_of_day", "column": "at"}})
    >>> [column.name for column in table_columns(census)]
    ['person', 'at']
    """
    names = dict.fromkeys(part.column for part in (*schema.attributes.values(), *schema.measures.values()))
    unit = schema.privacy_unit.column
    alone = [TableColumn(unit)] if unit is not None and unit not in names else []
    return (
        *alone,
        *(
            TableColumn(
                name,
                tuple(key for key, part in schema.attributes.items() if part.column == name),
                tuple(key for key, part in schema.measures.items() if part.column == name),
            )
            for name in names
        ),
    )
