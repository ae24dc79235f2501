"""`LinkedSchema`: the public description of several tables with one privacy unit, each a child of another or a root.

A root names the column that says whose row it is (`unit`); a child names its parent and the column by which it knows
its parent's row (`belongs_to`, `by`), and how many rows of one parent's row count (`at_most`). It becomes one plain
`Schema` for each table, in whose attributes those that a child takes from its parent are columns like any other, and
whose contributions are the limits along the way multiplied: at most 6 persons of a household and 12 visits of a person
are 72 visits of a household.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.dialect import PLAIN, Dialect, same_name
from sfumato.schema.parts import EXACT_IN_A_FLOAT, ColumnName, Count, Declared, PositiveExact, blanks, decimal, keys_of
from sfumato.schema.per_person import Aggregate, PersonRule, person_rule, settled, uses_of
from sfumato.schema.remedies import in_plain_words
from sfumato.schema.schema import Schema

MOST_TABLES = 32
OF_ALL = ("dataset", "privacy_unit", "budget", "ledger")  # keys that are stated once, for all tables
NOT_LINKED = ("series", "per_person", "weight", "invariants")
ROWS = Aggregate("rows")  # COUNT(*)
_FORM = "write tables: {persons: {source: persons.csv, unit: household_id, key: person_id, attributes: ...}, ...}"


class Link(Declared):
    """Keys that link a table to its parent and children, or a root to the privacy unit.

    source: file, or table of a database. unit: of a root, the column that says whose row it is. key: by which children
    know a row. by: of a child, the column with the parent's key. with_parents: attributes of the parent that rows of
    the child have too. share: of the budget, beside the other tables' shares.
    """

    source: ColumnName | None = None
    unit: ColumnName | None = None
    key: ColumnName | None = None
    belongs_to: ColumnName | None = None
    by: ColumnName | None = None
    at_most: Count | None = None
    share: PositiveExact = Fraction(1)
    with_parents: list[ColumnName] = Field(default_factory=list)
    children: str | None = None


@dataclass(frozen=True)
class TableInGroup:
    """A table of a linked schema.

    schema: as its release carries it; dataset is the table's name, the privacy unit that of all tables, contributions
    the limit. limit: the most rows of one unit that count. at_most: of a child, those of one row of its parent; of a
    root, those of one unit. source: where it is, relative to a folder or database. file: how its own file
    is written. children: SQL of the columns that are made of a child's rows. amounts: the same, parsed and checked.
    """

    name: str
    schema: Schema
    source: str
    limit: int
    at_most: int
    share: Fraction
    unit: str | None = None
    key: str | None = None
    belongs_to: str | None = None
    by: str | None = None
    with_parents: tuple[str, ...] = ()
    file: Dialect = PLAIN
    children: str | None = None
    amounts: PersonRule | None = None

    @property
    def counts(self) -> dict[str, str]:
        """Column that says how many rows of a child each row has, by the child's name."""
        rule = self.amounts
        if rule is None or rule.where:
            return {}
        whole = [
            name for name, one in rule.columns.items() if one.op == "column" and rule.aggregates[one.value] == ROWS
        ]
        return dict.fromkeys([rule.table], whole[0]) if whole else {}

    @property
    def from_below(self) -> tuple[str, ...]:
        """Names of the columns that are made of a child's rows."""
        return () if self.amounts is None else tuple(self.amounts.columns)

    def to_dict(self) -> dict[str, Any]:
        """The link as a release of linked tables states it, of types that JSON knows."""
        facts: dict[str, Any] = {"unit": self.unit, "key": self.key, "belongs_to": self.belongs_to, "by": self.by}
        facts |= {"with_parents": list(self.with_parents) or None, "children": self.children}
        stated = {name: value for name, value in facts.items() if value is not None}
        return {**stated, "at_most": self.at_most, "limit": self.limit, "share": decimal(self.share)}


@dataclass(frozen=True)
class LinkedSchema:
    """Several tables, parents before children, with one privacy unit.

    head: dataset, privacy unit, budget and ledger of all tables, as a schema; its attributes mean nothing.

    >>> persons = {"unit": "home", "key": "id", "attributes": {"ill": {"type": "boolean"}}}
    >>> visits = {"belongs_to": "persons", "by": "id", "at_most": 12, "attributes": {"late": {"type": "boolean"}}}
    >>> unit, tables = {"column": "home", "contributions": 6}, {"persons": persons, "visits": visits}
    >>> LinkedSchema.from_dict({"dataset": "town", "privacy_unit": unit, "tables": tables}).tables["visits"].limit
    72
    """

    head: Schema
    tables: dict[str, TableInGroup]

    @property
    def dataset(self) -> str:
        """The account of all tables in the ledger."""
        return self.head.dataset

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LinkedSchema:
        """Read a linked schema from a YAML file."""
        found = load_schema(path)
        if isinstance(found, Schema):
            raise SchemaError(f"{path}: it describes one table; {_FORM}")
        return found

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any]) -> LinkedSchema:
        """The linked schema that a mapping with the keys of the YAML file describes."""
        if odd := [key for key in mapping if key not in (*OF_ALL, "tables")]:
            raise SchemaError(
                f"the schema has tables and {odd[0]!r} beside them; state it for each table, or delete it"
            )
        stated = {key: mapping[key] for key in OF_ALL if key in mapping}
        head = Schema.from_dict({**stated, "attributes": {"any": {"type": "boolean"}}})
        if head.privacy_unit.column is None:
            raise SchemaError(
                "privacy_unit is row, but linked tables hide all rows of somebody; write "
                "privacy_unit: {column: household_id, contributions: 6}, the most rows of one in a table with a unit"
            )
        return cls(head, dict(_expanded(head, _tables(mapping.get("tables")))))

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Link of each table, of types that JSON knows."""
        return {name: table.to_dict() for name, table in self.tables.items()}


def load_schema(path: str | PathLike[str] | Mapping[str, Any], mapping: object = None) -> Schema | LinkedSchema:
    """Read a schema, of one table or of linked ones, from a YAML file or a mapping with the keys of one.

    mapping: what is in the file, if that is known.
    """
    from sfumato.schema.file import read_yaml, with_values_from_files

    if isinstance(path, Mapping):
        return LinkedSchema.from_dict(path) if is_linked(path) else Schema.from_dict(path)
    try:
        mapping = read_yaml(Path(path)) if mapping is None else mapping
        if not is_linked(mapping):
            return Schema.load(path, mapping)
        assert isinstance(mapping, Mapping)  # noqa: S101 (as `is_linked` says)
        tables = mapping["tables"]
        if isinstance(tables, Mapping):
            tables = {name: with_values_from_files(part, Path(path).parent) for name, part in tables.items()}
        return LinkedSchema.from_dict({**mapping, "tables": tables})
    except SchemaError as problem:
        said = str(problem)
        raise SchemaError(said if said.startswith(f"{path}: ") else f"{path}: {said}", kind=problem.kind) from None


def is_linked(mapping: object) -> bool:
    """Whether the mapping of a schema file describes linked tables."""
    return isinstance(mapping, Mapping) and "tables" in mapping


def _tables(tables: object) -> dict[str, tuple[Link, dict[str, Any]]]:
    """Link and remaining keys of each table; children after their parents."""
    if not isinstance(tables, Mapping) or not tables:
        raise SchemaError(f"tables must name the tables and what is in them; {_FORM}")
    if len(tables) > MOST_TABLES:
        raise SchemaError(f"tables has {len(tables)} tables; {MOST_TABLES} is the most")
    found: dict[str, tuple[Link, dict[str, Any]]] = {}
    for name, part in tables.items():
        if not isinstance(name, str) or not isinstance(part, Mapping):
            raise SchemaError(f"tables.{name} must say what is in that table; {_FORM}")
        if blank := next(blanks(part), None):
            raise SchemaError(f"tables.{name}.{'.'.join(blank)} is blank; fill it in or delete the line")
        if odd := [key for key in part if key in (*OF_ALL, *NOT_LINKED, "tables")]:
            where = "it is stated once, for all tables" if odd[0] in OF_ALL else "which linked tables cannot have"
            raise SchemaError(f"tables.{name} has {odd[0]!r}: {where}; take it out there")
        own = {key: value for key, value in part.items() if key in Link.model_fields}
        try:
            found[name] = Link(**own), {key: value for key, value in part.items() if key not in own}
        except ValidationError as problem:
            said = in_plain_words(problem.errors(include_url=False)[0], keys_of(Link))
            raise SchemaError(f"tables.{name}.{said}") from None
    return _in_order(found)


def _in_order(tables: dict[str, tuple[Link, dict[str, Any]]]) -> dict[str, tuple[Link, dict[str, Any]]]:
    """Tables with every parent before its children; parents that are not there, and circles, are refused."""
    spelled: dict[str, str] = {}
    for name, (link, _) in tables.items():
        if spelled.setdefault(name.lower(), name) != name:
            raise SchemaError(f"tables has {spelled[name.lower()]!r} and {name!r}, which SQL does not tell apart")
        _refuse_half_a_link(name, link)
        if link.belongs_to is not None and link.belongs_to not in tables:
            raise SchemaError(f"tables.{name}.belongs_to is {link.belongs_to!r}, which is none of the tables")
    done: dict[str, tuple[Link, dict[str, Any]]] = {}
    while ready := [n for n, (link, _) in tables.items() if n not in done and link.belongs_to in (None, *done)]:
        done |= {name: tables[name] for name in ready}
    if left := [name for name in tables if name not in done]:
        raise SchemaError(f"tables.{left[0]} belongs to itself by way of its parents; one table must have a unit")
    return done


def _refuse_half_a_link(name: str, link: Link) -> None:
    where = f"tables.{name}"
    if (link.unit is None) == (link.belongs_to is None):
        raise SchemaError(
            f"{where} must say either unit, the column that says whose row it is, or belongs_to, the table whose rows "
            "its rows hang on"
        )
    if link.belongs_to is None:
        if odd := [key for key in ("by", "with_parents") if getattr(link, key)]:
            raise SchemaError(f"{where} has {odd[0]}, which is for a table that belongs to another; take it out")
        return
    if link.by is None:
        raise SchemaError(f"{where} lacks by: name the column with the key of its row of {link.belongs_to}")
    if link.at_most is None:
        raise SchemaError(
            f"{where} lacks at_most: the most rows of one row of {link.belongs_to} that count, such as 12"
        )


def _expanded(head: Schema, tables: Mapping[str, tuple[Link, dict[str, Any]]]) -> Iterator[tuple[str, TableInGroup]]:
    done: dict[str, tuple[TableInGroup, dict[str, Any]]] = {}
    unit = head.privacy_unit
    for name, (link, own) in tables.items():
        most = link.at_most or unit.contributions
        limit = most * (1 if link.belongs_to is None else done[link.belongs_to][0].limit)
        if limit >= EXACT_IN_A_FLOAT:
            raise SchemaError(f"tables.{name}: the limits along its parents multiply to {limit:,} rows; state smaller")
        mapping = dict(own)
        parent = None
        if link.belongs_to is not None:
            parent, above = done[link.belongs_to]
            if parent.key is None:
                raise SchemaError(f"tables.{parent.name} lacks key: the column by which {name} knows its rows")
            mapping = _with_parents(name, link, parent, above, mapping)
        whose = {"column": unit.column, "contributions": limit}
        try:
            schema = Schema.from_dict({**mapping, "dataset": name, "privacy_unit": whose})
        except SchemaError as problem:
            raise SchemaError(f"tables.{name}: {problem}", kind=problem.kind) from None
        if schema.per_person is not None:
            raise SchemaError(
                f"tables.{name} states per_person, which is for one table alone; make the rows before, or leave it out"
            )
        file = schema.file or PLAIN
        if parent is not None:
            schema = schema.model_copy(update={"file": _spelled(schema, parent.schema, link.with_parents)})
            _refuse_taken(name, schema, link.with_parents)
        facts = (link.share, link.unit, link.key, link.belongs_to, link.by, tuple(link.with_parents), file)
        amounts = None if link.children is None else _amounts(name, link.children, tables, schema)
        table = TableInGroup(name, schema, link.source or name, limit, most, *facts, link.children, amounts)
        done[name] = table, mapping
        yield name, table


def _amounts(name: str, text: str, tables: Mapping[str, tuple[Link, dict[str, Any]]], schema: Schema) -> PersonRule:
    """Parse `children`: the aggregates of a child's rows, as columns with the kinds that the schema needs."""
    below = {child: one.by for child, (one, _) in tables.items() if one.belongs_to == name and one.by is not None}
    child, by = next(iter(below.items()), ("visits", "person_id"))
    try:
        rule = person_rule(text)
        if tables[name][0].key is None or same_name(below.get(rule.table, "")) != same_name(rule.person):
            raise ValueError(
                "must be about rows of a table that belongs to it, by its key; write "
                f"SELECT {by}, COUNT(*) AS {child} FROM {child} GROUP BY {by}"
            )
        made = {same_name(one) for one in rule.columns}
        uses = [use for use in uses_of(schema) if same_name(use[1]) in made]
        if not uses:
            raise ValueError(f"makes {', '.join(rule.columns)}; declare one as an attribute, with its bounds")
        return settled(rule, iter(uses))
    except ValueError as problem:
        raise SchemaError(f"tables.{name}.children {problem}") from None


def _with_parents(
    name: str, link: Link, parent: TableInGroup, above: Mapping[str, Any], mapping: dict[str, Any]
) -> dict[str, Any]:
    """The keys of a child with the attributes of its parent that it takes; each in a column of the attribute's name."""
    own = mapping.get("attributes")
    own = dict(own) if isinstance(own, Mapping) else {}
    for attribute in link.with_parents:
        if attribute not in parent.schema.attributes:
            has = ", ".join(parent.schema.attributes)
            raise SchemaError(f"tables.{name}.with_parents names {attribute!r}; {parent.name} has {has}")
        if parent.schema.attributes[attribute].column in parent.from_below:
            raise SchemaError(
                f"tables.{name}.with_parents names {attribute!r}, which {parent.name} makes of children; leave it out"
            )
        if any(one.lower() == attribute.lower() for one in own):
            raise SchemaError(
                f"tables.{name} has an attribute {attribute!r} and takes that of {parent.name}; rename one (`column`)"
            )
        own[attribute] = {key: value for key, value in above["attributes"][attribute].items() if key != "column"}
    return {**mapping, "attributes": own}


def _spelled(schema: Schema, parent: Schema, taken: list[str]) -> Dialect | None:
    """Dialect of a child's file; columns taken from the parent keep its words for missing values and its units."""
    file, above = schema.file or PLAIN, parent.file or PLAIN
    columns = {part.column: (file, part.column) for part in (*schema.attributes.values(), *schema.measures.values())}
    columns |= {name: (above, parent.attributes[name].column) for name in taken}
    words: dict[str, Any] = {}
    for key in ("missing", "strip"):
        by = {
            name: found
            for name, (one, column) in columns.items()
            if (found := one.missing_words(column) if key == "missing" else one.marks(column))
        }
        words[key] = by or None
    merged = file.model_copy(update=words)
    return None if merged == PLAIN else merged


def _refuse_taken(name: str, schema: Schema, taken: list[str]) -> None:
    """Refuse a column of a child that is called as one that comes from its parents."""
    parts = {**schema.attributes, **schema.measures}
    own = {same_name(part.column): part.column for one, part in parts.items() if one not in taken}
    for column in (*taken, schema.privacy_unit.column or ""):
        if same_name(column) in own:
            raise SchemaError(
                f"tables.{name} reads a column {own[same_name(column)]!r} of its own, and one of that name comes from "
                "its parents; rename one of the two"
            )
