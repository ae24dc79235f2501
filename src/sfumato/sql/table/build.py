"""Compile one flattened SELECT to a table: its groups, their aggregates, steps on rows, and columns."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product
from math import prod
from operator import and_
from typing import Any, Protocol

from sfumato.domain.predicates import Predicate
from sfumato.effort import MOST_RULES, at_most
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.expressions import Classes, cell_classes, read_classes
from sfumato.sql.plan import Column, Key, Select, unique_names
from sfumato.sql.predicates import noted, read_condition, table_scope
from sfumato.sql.scope import Scope, Windows, number, text_of, unsupported
from sfumato.sql.select_list import read_column
from sfumato.sql.table.flatten import Flat, RawStep
from sfumato.sql.table.items import ItemReader, Numbers, TableKey, decided
from sfumato.sql.table.plan import (
    Block,
    Item,
    Keep,
    Once,
    Part,
    Places,
    Rank,
    Rule,
    Sort,
    Step,
    Table,
    Take,
    with_own_errors,
)
from sfumato.sql.table.syntax import totals_in
from sfumato.sql.values.tree import Tree

MOST_COLUMNS = 5_000  # groups by expressions, times aggregates: each is worked out by itself
MOST_LISTED = 100_000  # combinations of values, where nothing is counted

LISTED = "a release holds no rows: these are the values that its schema lists, whether or not any row has them"


def build_table(flat: Flat, schema: Schema) -> Table:
    """Plan of a grouped SELECT over the release."""
    scope = table_scope(flat.base, schema)
    rows = reduce(and_, (read_condition(where, scope) for where in flat.wheres), scope.rows)
    listing = flat.sets is None
    items = tuple(item for item in flat.items if not (listing and item.measure))
    sets = (tuple(item.node for item in items),) if flat.sets is None else flat.sets
    if len(sets) > 1 and (found := totals_in([item.node for item in items])):
        raise unsupported(f"{found[0].sql(dialect='duckdb')} over several grouping sets", "ask for them one at a time")
    keys = _keys(sets, items, flat.steps, scope)
    reader = ItemReader(scope, rows, keys, tuple(frozenset(map(text_of, chosen)) for chosen in sets))
    steps = [read_step(step, reader) for step in flat.steps]
    shown = [(item.name, *reader.item(item.node)) for item in items]
    beside = with_own_errors([(tree, number) for *_, tree, number in shown])
    names = unique_names([(name or default, own) for (name, default, *_), own in zip(shown, beside, strict=True)])
    columns = tuple(
        Item(name, tree, number, number and not own)
        for name, (_, _, tree, number), own in zip(names, shown, beside, strict=True)
    )
    if not reader.aggregates:
        _check_length(keys, sets, schema)
    parts = tuple(_part(chosen, keys, reader, scope, rows) for chosen in sets)
    notes = [note for step, raw in zip(steps, flat.steps, strict=True) if (note := reader.numbers.note(step, raw.word))]
    notes += [decided("CASE")] * any(reader.numbers.decides(item.tree) for item in columns)
    notes += [LISTED] * (not reader.aggregates)
    places = Places(len(keys) + len(reader.aggregates))
    columns = tuple(replace(item, tree=places.of_tree(item.tree)) for item in columns)
    return Table(parts, len(keys), reader.differences, tuple(map(places.of_step, steps)), columns, tuple(notes))


def _check_length(keys: tuple[TableKey, ...], sets: Any, schema: Schema) -> None:
    """Refuse an answer that would list too many combinations of values."""
    sizes = {key.text: len(key.classes) if key.classes else schema.domain[key.attribute or ""].size for key in keys}
    length = max(prod(sizes[text] for text in {text_of(node) for node in chosen}) for chosen in sets)
    remedy = "name fewer columns, or write LIMIT 10 for synthetic rows"
    at_most(length, MOST_LISTED, "combinations of values would be listed", remedy)


def _keys(sets: Any, items: Any, steps: tuple[RawStep, ...], scope: Scope) -> tuple[TableKey, ...]:
    """All keys of all sets: attributes by their cells, and expressions, which split groups one by one.

    An attribute that a total is partitioned by is split as well, so that each group knows the rows of its partition.
    """
    nodes = [*(item.node for item in items), *(node for step in steps for node in step.nodes)]
    totals = [node.args.get("partition_by") or [] for node in totals_in(nodes)]
    at_most(max(map(len, totals), default=0), MOST_RULES, "keys are in a window", "name each key once")
    parted = {text_of(key) for keys in totals for key in keys}
    found: dict[str, TableKey] = {}
    for node in (node for chosen in sets for node in chosen):
        text = text_of(node)
        if text in found:
            continue
        if node.key == "column" and scope.groups_of(node) is None:
            axis = scope.axis_of(node, "GROUP BY" if steps or len(sets) > 1 else "a list of values")
            classes: Classes | None = cell_classes(axis) if text in parted else None
            found[text] = TableKey(text, axis.name, classes)
        else:
            found[text] = TableKey(text, None, read_classes(node, scope, "GROUP BY"))
    return tuple(found.values())


def _part(chosen: Any, keys: tuple[TableKey, ...], reader: ItemReader, scope: Scope, rows: Predicate) -> Part:
    """One grouping set, with a block for each combination of values of its expressions."""
    texts = {text_of(node) for node in chosen}
    plain = [key for key in keys if key.text in texts and key.classes is None]
    split = [key for key in keys if key.text in texts and key.classes is not None]
    group_by = tuple(key.attribute for key in plain if key.attribute is not None)
    many = prod(len(key.classes or {}) for key in split) * max(1, len(reader.aggregates))
    if many > MOST_COLUMNS:
        raise QueryError(
            f"the expressions of GROUP BY make {many:,} numbers and {MOST_COLUMNS:,} is the most; use coarser ones, "
            "or group by attributes themselves"
        )
    blocks: list[Block] = []
    columns: list[Column] = []
    for values in product(*((key.classes or {}).items() for key in split)):
        known = {key.text: predicate for key, (_, predicate) in zip(split, values, strict=True)}
        where = reduce(and_, known.values(), rows)
        if not where and (split or group_by):
            continue
        within = replace(scope, windows=Windows(rows, known))
        blocks.append(Block(tuple(value for value, _ in values), where))
        for node in reader.aggregates:
            column = read_column(node, within, where, grouped=bool(group_by))
            columns.append(replace(column, name=f"{len(columns)}", difference=False))  # the table says what is real
    places = {key.text: ("attribute", place) for place, key in enumerate(plain)}
    places |= {key.text: ("block", place) for place, key in enumerate(split)}
    select = Select((*(Key(name, name) for name in group_by), *columns), group_by, rows)
    sources = tuple(places.get(key.text) for key in keys)
    axes = tuple(key.attribute if key.text in texts else None for key in keys)
    return Part(noted(select, scope), tuple(blocks), sources, axes)  # type: ignore[arg-type]


class Reader(Protocol):
    """Protocol: translates expressions over rows."""

    @property
    def numbers(self) -> Numbers: ...

    def read(self, node: Any, place: str) -> Tree: ...


def read_step(raw: RawStep, reader: Reader) -> Step:
    """Translate a row operation from syntax."""
    if raw.kind == "keep":
        return Keep(reader.read(raw.nodes[0], raw.word))
    if raw.kind == "take":
        return Take(raw.limit, raw.offset)
    if raw.kind == "once":
        trees = tuple(reader.read(node, "SELECT DISTINCT") for node in raw.nodes)
        if any(reader.numbers.is_number(tree) for tree in trees):
            raise unsupported("SELECT DISTINCT of aggregates", "leave DISTINCT out: groups differ in their keys")
        return Once(trees)
    if raw.kind == "sort":
        return Sort(_rules(raw.nodes, reader))
    window = raw.nodes[0]
    known = ("this", "over", "partition_by", "order")
    if any(value and key not in known for key, value in window.args.items()) or not window.args.get("order"):
        raise unsupported("a rank of this form", "write RANK() OVER (ORDER BY COUNT(*) DESC)")
    parted, rules = window.args.get("partition_by") or [], window.args["order"].expressions
    at_most(max(len(parted), len(rules)), MOST_RULES, "keys are in a window", "name each key once")
    within = tuple(reader.read(node, "PARTITION BY") for node in parted)
    return Rank(window.this.key, within, _rules(rules, reader), _tiles(window.this))


def _tiles(function: Any) -> int:
    """The number of tiles of NTILE; 1 for any other rank."""
    if function.key != "ntile":
        return 1
    tiles = number(function.this) if function.this is not None else None
    if tiles is None or tiles < 1 or not tiles.is_integer():
        raise QueryError("NTILE needs a whole number of at least 1, as in NTILE(4)")
    return int(tiles)


def _rules(nodes: Any, reader: Reader) -> tuple[Rule, ...]:
    return tuple(
        Rule(reader.read(rule.this, "ORDER BY"), bool(rule.args.get("desc")), bool(rule.args.get("nulls_first")))
        for rule in nodes
    )
