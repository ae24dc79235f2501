"""Publish linked tables: one reservation for all, its budget dealt out by their shares, and one file.

As for one table (publish.py), whatever can be refused from names, types and the schema is refused before the
reservation, and no row is read before it. Each table has a mechanism of its own; what one privacy unit loses over all
of them is at most the sum of the parts.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import PrivacyError, QueryError, SchemaError, TableError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.ledger import Account
from sfumato.kernel.opening import Share, Step, Terms, check_shares, open_shares
from sfumato.kernel.reading.engines import Engine, is_spark
from sfumato.kernel.reading.joining import LinkedTable, Placed
from sfumato.kernel.reading.table import open_engine
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.publishing.prepare import (
    Prepared,
    Request,
    check_place,
    digest_of_request,
    name_of_table,
    prepare,
    telling_what_stays,
)
from sfumato.releases.file.artifact import keep_earlier
from sfumato.releases.file.linked import TableRecord, write_linked
from sfumato.releases.file.manifest import guarantee_of
from sfumato.releases.release import Release, open_release
from sfumato.schema.linked import LinkedSchema, TableInGroup

if TYPE_CHECKING:
    from sfumato.kernel.ledger.ledger import Receipt

_ONE_TABLE = {
    "workload": "--workload is about one table so far",
    "series": "a series is of one table so far",
    "prior": "--prior is about one table so far",
    "table_name": "--table names one table, and the schema says the source of each",
}


@dataclass(frozen=True, eq=False)
class PreparedTables:
    """Linked tables settled before any data is read: the cost of all, and of each its schema, mechanism and part."""

    linked: LinkedSchema
    cost: Cost
    tables: dict[str, Prepared]
    digest: str

    @property
    def mechanism(self) -> str:
        """Names of the mechanisms, as the ledger records them."""
        return ", ".join(dict.fromkeys(one.mechanism.name for one in self.tables.values()))

    def terms(self, request: Request) -> Terms:
        """Terms of all tables together, on which they are opened."""
        again, another = request.again, request.another_unit
        return Terms(self.linked.head, self.cost, self.mechanism, self.digest, another_unit=another, again=again)


@dataclass(frozen=True, eq=False)
class PublishedTables:
    """Linked tables on disk, how they were prepared, and where an earlier file of the same name went."""

    path: Path
    kept: Path | None
    prepared: PreparedTables
    tables: dict[str, Release]
    receipt: Receipt


def publish_linked(
    base: Any,
    linked: LinkedSchema,
    request: Request,
    out: str | PathLike[str],
    *,
    step: Step,
    entropy: Entropy | None = None,
) -> PublishedTables:
    """Release linked tables into one file.

    base: the folder of their files, the address of their database, a connection or session, or a mapping from their
    names to frames or paths. request: what is asked for all of them; its schema is the linked schema's head.
    """
    path, source, book = Path(out), entropy or SystemEntropy(), request.ledger
    check_place(path)
    nonce = source.bytes(16).hex()
    with telling_what_stays(book, linked.dataset, nonce):
        step("plan")
        prepared = prepare_linked(base, linked, request)
        shares = _shares(base, prepared, request)
        opening = open_shares(
            list(shares.values()), prepared.terms(request), ledger=book, entropy=source, step=step, nonce=nonce
        )
        done: dict[str, Release] = {}
        for (name, share), opened in zip(shares.items(), opening, strict=True):
            step("measure")
            was, receipt = prepared.tables[name], opened.receipt
            content = was.mechanism.run(opened.curator, share.schema, share.budget, was.workload)
            if not opened.curator.charge.fullest <= opened.curator.charge.limit:
                raise PrivacyError("the mechanism spent more than was reserved; nothing is published")
            promise = guarantee_of(
                was.cost.epsilon,
                share.schema.whom,
                delta=was.cost.delta,
                rho=share.budget.rho,
                derived=share.table.derived(share.schema),
            )
            done[name] = Release(content, was.mechanism.name, promise, source.private, options=was.options)
        step("write")
        kept = keep_earlier(path)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as folder:
            parts = [
                (_record(linked.tables[name]), made.save(Path(folder, f"{name}.sfumato")))
                for name, made in done.items()
            ]
            digest = write_linked(path, linked.dataset, parts, {**receipt.to_dict()})
        step("publish")
        book.publish(receipt, digest)
        step("done")
        return PublishedTables(path, kept, prepared, done, receipt)


def release_linked(
    base: Any, linked: LinkedSchema, request: Request, *, step: Step, entropy: Entropy | None = None
) -> Release:
    """Publish linked tables and hand back what anyone may see; `save` writes its file."""
    with tempfile.TemporaryDirectory() as folder:
        made = publish_linked(base, linked, request, Path(folder, "linked.sfumato"), step=step, entropy=entropy)
        return open_release(made.path, allow_not_private=True)  # an open file can be read after its folder is gone


def rehearse_linked(
    base: Any, linked: LinkedSchema, request: Request, out: str | PathLike[str]
) -> tuple[PreparedTables, Account]:
    """Make every check that `publish_linked` makes before it spends; return what the release would be, and account."""
    check_place(Path(out))
    prepared = prepare_linked(base, linked, request)
    terms = prepared.terms(request)
    check_shares(list(_shares(base, prepared, request).values()), terms)
    return prepared, request.ledger.foresee(terms.wanted)


def prepare_linked(base: Any, linked: LinkedSchema, request: Request) -> PreparedTables:
    """Settle mechanism and part of the budget of each table; refuse what does not fit."""
    for name, said in _ONE_TABLE.items():
        if getattr(request, name) is not None:
            raise (QueryError if name in ("workload", "prior") else SchemaError)(f"{said}; leave it out")
    cost = request.cost
    tables = _dealt(linked, request, cost)
    if not cost.pure and all(one.cost.pure for one in tables.values()):
        cost = cost.without_delta  # nobody needs the delta, so that nobody pays for it
        tables = _dealt(linked, request, cost)
    digests = {
        name: digest_of_request(_shown(base, linked.tables[name]), replace(request, schema=one.schema), one)
        for name, one in tables.items()
    }
    links = sorted((name, str(linked.tables[name].to_dict()), digests[name]) for name in tables)
    return PreparedTables(linked, cost, tables, hashlib.sha256(str(links).encode()).hexdigest())


def _dealt(linked: LinkedSchema, request: Request, cost: Cost) -> dict[str, Prepared]:
    parts = cost.budget.split(*(table.share for table in linked.tables.values()))
    result = {}
    for (name, table), part in zip(linked.tables.items(), parts, strict=True):
        own = replace(
            request, schema=table.schema, epsilon=part.epsilon, rho=part.rho, delta=None if cost.pure else cost.delta
        )
        try:
            result[name] = prepare(own)
        except (SchemaError, QueryError) as problem:
            raise type(problem)(f"tables.{name}: {problem}", kind=problem.kind) from None
    return result


def _shares(base: Any, prepared: PreparedTables, request: Request) -> dict[str, Share]:
    """The tables, opened by names and types, each with its part of the budget."""
    linked = prepared.linked
    tables = open_tables(base, linked, allow_views=request.allow_views, dialect=request.dialect)
    return {
        name: Share(tables[name], was.schema.published(), was.cost.budget, was.mechanism.holds.by_margins)
        for name, was in prepared.tables.items()
    }


def open_tables(
    base: Any, linked: LinkedSchema, *, allow_views: bool = False, dialect: str | None = None
) -> dict[str, LinkedTable]:
    """The tables of a linked schema as sources; their names and types are looked at, no row is read."""
    engines: dict[str, Engine] = {}
    for number, (name, table) in enumerate(linked.tables.items()):
        place, inside = source_of(base, table)
        if inside is not None and is_spark(base) and engines:
            place = next(iter(engines.values())).session  # type: ignore[attr-defined]
        try:
            engine = open_engine(place, inside, table.file, _columns_of(table, linked), dialect)
        except TableError as problem:
            raise TableError(f"tables.{name}: {problem}", kind=problem.kind) from None
        if engines and (within := getattr(engine, "within", None)) is not None:
            engine = within(next(iter(engines.values())))
        called = getattr(engine, "called", None)
        engines[name] = engine if called is None else called(number)
    result: dict[str, LinkedTable] = {}
    for name, table in linked.tables.items():
        above = () if table.belongs_to is None else result[table.belongs_to].chain
        below = tuple(Placed(linked.tables[rule.table], engines[rule.table]) for rule in (table.amounts,) if rule)
        result[name] = LinkedTable(engines[name], allow_views, (*above, Placed(table, engines[name])), below)
    return result


def source_of(base: Any, table: TableInGroup) -> tuple[Any, str | None]:
    """Source of a table: (path or frame, None), or (database, name of the table there)."""
    if isinstance(base, Mapping):
        if table.name not in base:
            raise TableError(f"there is no table {table.name!r} in the mapping; it has {', '.join(map(str, base))}")
        return base[table.name], None
    if isinstance(base, Path) or (isinstance(base, str) and ":" not in base[:12]):
        if not Path(base).is_dir():
            raise TableError(
                f"{base} is no folder; name the folder that the sources of the linked tables are in, or their database"
            )
        if table.source == "-":
            raise TableError(f"tables.{table.name}.source is the standard input, which is read only once; use a file")
        return Path(base, table.source), None
    return base, table.source


def _shown(base: Any, table: TableInGroup) -> Any:
    """The source of a table, as a name for the digest of a request."""
    place, inside = source_of(base, table)
    return place if inside is None else f"{name_of_table(place) or ''}#{inside}"


def _columns_of(table: TableInGroup, linked: LinkedSchema) -> list[str]:
    """Columns that are asked of the table's own source, by its own schema or its parent's."""
    own = [part.column for name, part in table.schema.attributes.items() if name not in table.with_parents]
    own += [part.column for part in table.schema.measures.values()]
    own += [column for rule in table.schema.made.values() for column in rule.columns]
    own = [name for name in own if name not in table.from_below]
    above = linked.tables[table.belongs_to].amounts if table.belongs_to else None
    own += [leaf.value for leaf in above.leaves] if above and above.table == table.name else []
    return list(dict.fromkeys([*own, *(name for name in (table.unit, table.key, table.by) if name is not None)]))


def _record(table: TableInGroup) -> TableRecord:
    """The link of a table, as the file states it."""
    at_most = None if table.belongs_to is None else table.at_most
    link = (table.belongs_to, table.by, table.key, at_most, list(table.with_parents))
    by_column = {part.column: name for name, part in table.schema.attributes.items()}
    counts = {child: by_column[column] for child, column in table.counts.items() if column in by_column}
    return TableRecord(table.name, table.limit, *link, counts)
