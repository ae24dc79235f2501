"""Publish a private table: prepare, reserve the budget, read, measure, and write the release file.

The budget is reserved in the ledger before a row is read, and a file appears only afterwards. `rehearse_release` is the
dry run: it makes every check on public facts, reads no row and spends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError, PrivacyError, ReleaseFileError, SfumatoError, SignatureError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, Budget, Cost
from sfumato.kernel.ledger.book import period_of
from sfumato.kernel.ledger.composition import Period
from sfumato.kernel.ledger.ledger import Account, Entry, Ledger, Receipt
from sfumato.kernel.opening import Step, Terms, open_curator, rehearse, unit_of
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.publishing.prepare import (
    Prepared,
    Request,
    check_place,
    check_series,
    digest_of_request,
    part_place,
    prepare,
    telling_what_stays,
)
from sfumato.queries import Workload
from sfumato.releases.contents.content import Content
from sfumato.releases.file.artifact import keep_earlier
from sfumato.releases.file.manifest import Guarantee, guarantee_of
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.schema.invariants import counted_lines
from sfumato.schema.linked import LinkedSchema, load_schema

if TYPE_CHECKING:
    from sfumato.models.margins.borrowing import Prior
    from sfumato.releases.file.series import Signed


def release(
    table: Any,
    schema: Schema | LinkedSchema | Mapping[str, Any] | str | PathLike[str],
    epsilon: Amount | None = None,
    *,
    delta: Amount | None = None,
    rho: Amount | None = None,
    mechanism: str = "auto",
    workload: Workload | str | Path | None = None,
    workload_only: bool = False,
    options: Mapping[str, object] | None = None,
    ledger: Ledger | str | Path | None = None,
    another_unit: bool = False,
    even_though_exact: bool = False,
    table_name: str | None = None,
    dialect: str | None = None,
    allow_views: bool = False,
    even_if_useless: bool = False,
    again: bool = False,
    series: str | Path | None = None,
    period: str | None = None,
    correct: bool = False,
    prior: str | Path | None = None,
    entropy: Entropy | None = None,
    step: Step = lambda name: None,
) -> Release:
    """Publish a private table: reserve the budget, read, add noise, and hand back what anyone may see.

    table: a path or glob (csv, parquet), a pandas, polars or Arrow frame, or with `table_name` a database URL or a
    connection (docs/engines.md).
    dialect: the SQL that a connection speaks, as sqlglot names it, where the connection does not tell.
    schema: what is public about the table, the path of its YAML file or a mapping with its keys. Of linked tables
    (docs/linked.md), table is the folder or database that they are in, or a mapping from their names to frames.
    epsilon: what this release costs, charged to `schema.dataset` in the ledger before the table is read.
    delta: allows mechanisms that can use it Gaussian noise; it is charged too, unless the mechanism needs none.
    rho: what this release costs in zero-concentrated privacy, in place of epsilon; delta, 1e-6 if none is given, is
    then that at which the guarantee tells an epsilon.
    workload: the queries that matter most: SELECT statements as text or in a file; if None, what everybody asks.
    workload_only: nothing but the workload matters; without it, most accuracy goes there and the rest stays useful.
    options: what a mechanism with a purpose of its own is to do, by name; its page says which there are.
    another_unit: states that a further promise is meant where the ledger knows the dataset with another privacy unit.
    even_though_exact: publish the schema's `invariants` exactly, which nothing protects; without it they are refused.
    allow_views: read a view, a lazy frame or a relation too; the promise is then about the rows it gives.
    even_if_useless: go on even if, by the schema's `expected_rows`, every count of a single value would be noise.
    again: make one more release like the dataset's last: the same table by name, schema, mechanism and cost. Without it
    that is refused before anything is reserved. Tables in memory have no name, and count as one.
    series, period: the file of a series that gets this release as its next part, and the period of the table; the
    schema says how long a period is and whose presence is hidden (docs/series.md). correct: replace an earlier part.
    prior: a release of a table like this one, published before, that estimates lean on as far as the two agree.
    entropy: for tests only; a release made with a testing generator is marked NOT PRIVATE.
    step: told the name of each step as it begins.
    """
    public = schema if isinstance(schema, Schema | LinkedSchema) else load_schema(schema)
    request = Request(
        public if isinstance(public, Schema) else public.head,
        epsilon,
        delta=delta,
        rho=rho,
        mechanism=mechanism,
        workload=workload,
        workload_only=workload_only,
        options=options,
        even_if_useless=even_if_useless,
        table_name=table_name,
        dialect=dialect,
        allow_views=allow_views,
        ledger=ledger if isinstance(ledger, Ledger) else Ledger(ledger),
        another_unit=another_unit,
        even_though_exact=even_though_exact,
        again=again,
        series=None if series is None else Path(series),
        period=period,
        correct=correct,
        prior=None if prior is None else Path(prior),
    )
    if isinstance(public, LinkedSchema):
        from sfumato.publishing.linked import release_linked

        return release_linked(table, public, request, step=step, entropy=entropy)
    if request.series is not None:
        return publish(table, request, request.series, step=step, entropy=entropy).release
    with _made(table, request, step, entropy) as (made, _):
        return made


@contextmanager
def _made(
    table: Any, request: Request, step: Step, entropy: Entropy | None = None
) -> Iterator[tuple[Release, Prepared]]:
    """Yield a release with its preparation; an interrupt while it is in use says which amount stays reserved."""
    from threadpoolctl import threadpool_limits

    source, book = entropy or SystemEntropy(), request.ledger
    nonce = source.bytes(16).hex()
    with telling_what_stays(book, request.schema.dataset, nonce):
        step("plan")
        prepared = prepare(request)
        if prepared.prior is not None and source.private:
            prepared.prior.release.refuse_unless_private()
        source_table = table_for(table, request, prepared.schema)
        schema, mechanism, cost = prepared.schema.published(), prepared.mechanism, prepared.cost
        opened = open_curator(
            source_table,
            terms_for(table, request, prepared, schema),
            ledger=book,
            entropy=source,
            step=step,
            nonce=nonce,
            for_margins=mechanism.holds.by_margins,
        )
        if request.even_though_exact:
            exact = counted_lines(schema.exact_sets, opened.curator.disclose)
            schema = Schema.from_dict({**schema.to_dict(), "invariants": exact})
        step("measure")
        # Products of small matrices: threads that wait for each other take several times as much CPU as one does, and
        # sum in another order, so that the same random bits would give other digits.
        with threadpool_limits(1, user_api="blas"):
            content = mechanism.run(opened.curator, schema, cost.budget, prepared.workload)
        if not opened.curator.charge.fullest <= opened.curator.charge.limit:
            raise PrivacyError("the mechanism spent more than was reserved; nothing is published")
        if prepared.prior is not None:
            content = prepared.prior.lean(content)  # work on published numbers: it costs nothing
        derived, leaning = source_table.derived(schema), prepared.prior is not None
        guarantee = describe_guarantee(cost.budget, schema, cost, derived=derived, leaning=leaning)
        marking = _mark_published(book, opened.receipt, step)
        facts = (content, mechanism.name, guarantee, source.private, opened.receipt.to_dict(), marking)
        yield Release(*facts, options=prepared.options), prepared


def table_for(table: Any, request: Request, schema: Schema) -> Table:
    """Open the private table and check its column names and types; the same for a release and a dry run."""
    return open_table(
        table, name=request.table_name, allow_views=request.allow_views, schema=schema, dialect=request.dialect
    )


def terms_for(table: Any, request: Request, prepared: Prepared, schema: Schema) -> Terms:
    """Terms for opening the curator: schema, cost, mechanism, and the digest that recognises a repeated request."""
    digest = digest_of_request(table, request, prepared)
    if prepared.prior is not None and not request.again:
        _refuse_same_table(table, request, prepared, prepared.prior)
    name, another_unit = prepared.mechanism.name, request.another_unit
    again, period = request.again or request.correct, request.label
    exact = request.even_though_exact
    return Terms(schema, prepared.cost, name, digest, another_unit, again, period, exact=exact)


def _refuse_same_table(table: Any, request: Request, prepared: Prepared, prior: Prior) -> None:
    """Refuse to lean on a release of the very same table, which `combine` fuses without loss."""
    same = digest_of_request(table, request, replace(prepared, prior=None))
    nonce = (prior.release.receipt or {}).get("nonce")
    listed = request.ledger.entries(request.schema.dataset)
    if any((entry.nonce, entry.request) == (nonce, same) for entry in listed):
        raise ReleaseFileError(
            f"{prior.shown} is a release of this very table, by its name in the ledger, with the same schema and "
            "epsilon; release it once more without --prior and fuse the two with `sfumato combine`, or say --again if "
            "the table is another one by now",
            kind="input",
        )


@dataclass(frozen=True)
class Published:
    """A release on disk, how it was prepared, and where an earlier file of the same name went."""

    release: Release
    path: Path
    kept: Path | None
    prepared: Prepared

    def errors(self) -> dict[str, float]:
        """The standard errors to expect of counts, in rows, by how many attributes they name; public."""
        return _errors(replace(self.prepared, schema=self.release.schema), self.release.content)

    def warnings(self) -> tuple[str, ...]:
        """Kinds of question that the stated workload makes useless, in words; public."""
        return _warnings(self.prepared, self.release.content)


def publish(table: Any, request: Request, out: str | Path, *, step: Step, entropy: Entropy | None = None) -> Published:
    """Release a table straight into a file.

    What can be refused is refused before the budget is reserved.
    """
    path = Path(out)
    check_place(path)
    check_series(request)
    with _made(table, request, step, entropy) as (made, was):
        if request.series is not None:
            step("write")
            _append(made, request, path)
            step("done")
            return Published(made, path, None, was)
        # A release cannot be made again without paying again, so an earlier one is never overwritten.
        kept = keep_earlier(path)
        step("write")
        made.save(path)
        step("done")
        return Published(made, path, kept, was)


def _append(made: Release, request: Request, path: Path) -> None:
    """Write a part to its own file, then append it to its series, so that a paid release is never lost."""
    from sfumato.releases.file.series import append_part

    label = request.label
    assert label is not None  # noqa: S101 (a request with a series has a period)
    place = part_place(path, label)
    made.save(place)
    try:
        append_part(path, place, label, correct=request.correct)
    except SfumatoError as problem:
        raise type(problem)(
            f"{problem}; the part is paid for and lies in {place}: add it with `sfumato series add {path} {place} "
            f"--period {label}{' --correct' if request.correct else ''}`",
            kind=problem.kind,
        ) from None
    place.unlink()


def add_part(series: str | Path, part: str | Path, period: str, ledger: Ledger, *, correct: bool = False) -> int | None:
    """Add a release file to a series; return the ledger's entry where it was reserved for it, and is published now.

    Whoever was killed after the file was written and before the ledger was told has a release that counts as spent and
    not as published. The file carries the nonce of its reservation, so nothing else can be taken for it. Where the
    ledger at hand made the receipt, a release that it has with other contents, or of another period, is refused. A
    signature beside the release is kept with it.
    """
    from sfumato.releases.file.artifact import read_artifact
    from sfumato.releases.file.series import append_part

    artifact = read_artifact(Path(part))
    entry = _entry_of(artifact.manifest.receipt, ledger)
    if entry is not None:
        known, stated = entry.period, artifact.schema.series
        if stated is not None and known is not None and known != stated.label(period):
            raise LedgerError(
                f"the ledger has this release as that of {known}, not of {period}; add it with --period {known}",
                kind="input",
            )
        receipt = Receipt.from_dict(artifact.manifest.receipt or {})
        if entry.state == "published":
            ledger.verify(receipt, artifact.digest)
    append_part(series, part, period, correct=correct, signed=_signed(Path(part), artifact.digest))
    if entry is None or entry.state == "published":
        return None
    ledger.publish(receipt, artifact.digest)
    return entry.number


def _signed(part: Path, digest: str) -> Signed | None:
    """The signature beside a release file, checked; None where there is none."""
    from sfumato.releases.file.series import Signed
    from sfumato.releases.signature import holds, read_signature, signature_beside

    beside = signature_beside(part)
    if (result := read_signature(beside)) is None:
        return None
    if result.digest != digest or not holds(result):
        raise SignatureError(
            f"{beside.name} is no signature of {part}: sign it again with `sfumato sign`, or take the signature away"
        )
    return Signed(result.digest, result.public_key, result.signature)


def _entry_of(receipt: Mapping[str, object] | None, ledger: Ledger) -> Entry | None:
    """The ledger's entry that a receipt is of; None where another ledger made it."""
    if receipt is None or receipt.get("ledger") != ledger.identity():
        return None
    found = Receipt.from_dict(receipt)
    return next((entry for entry in ledger.entries(found.dataset) if entry.nonce == found.nonce), None)


def describe_guarantee(
    budget: Budget, schema: Schema, cost: Cost | None = None, *, derived: bool = False, leaning: bool = False
) -> Guarantee:
    """The promise in symbols and in plain words.

    cost: what was reserved for the budget; for rho-zCDP the epsilon at the usual delta of 1e-6 where none is given.
    derived: the rows came from a view, so that the promise is about them and not about the tables behind it.
    leaning: estimates lean on an earlier release.
    """
    cost = cost or Cost.of(budget)
    return guarantee_of(
        cost.epsilon,
        schema.whom,
        delta=cost.delta,
        rho=budget.rho,
        derived=derived,
        bought=schema.bought,
        exact=schema.exact_sets,
        leaning=leaning,
    )


def _mark_published(ledger: Ledger, receipt: Receipt, step: Step) -> Callable[[str], None]:
    """Mark the ledger's entry as published at the first save; until then, or if it fails, it counts as spent."""
    done: list[str] = []

    def published(digest: str) -> None:
        if not done:
            step("publish")
            ledger.publish(receipt, digest)
            done.append(digest)

    return published


@dataclass(frozen=True)
class Rehearsal:
    """Result of a dry run: the guarantee, account and expected errors of a release that was not made.

    guarantee: what its file would promise. account: where the dataset stands before it. replaces: whether a file of
    that name would be moved away. errors: the standard errors to expect of counts, where these depend on noise alone.
    warnings: kinds of question that the stated workload would make useless. period: by which losses add up.
    """

    path: Path
    prepared: Prepared
    guarantee: Guarantee
    account: Account
    replaces: bool
    errors: Mapping[str, float]
    warnings: tuple[str, ...] = ()
    period: Period | None = None


def rehearse_release(table: Any, request: Request, out: str | Path) -> Rehearsal:
    """Make every check that `publish` makes before it spends, and return what the release would be."""
    path = Path(out)
    check_place(path)
    check_series(request)
    prepared = prepare(request)
    schema = prepared.schema
    with table_for(table, request, schema) as source:
        account = rehearse(source, terms_for(table, request, prepared, schema), ledger=request.ledger)
        derived = source.derived(schema)
    cost = prepared.cost
    promise = describe_guarantee(cost.budget, schema, cost, derived=derived, leaning=prepared.prior is not None)
    found = _errors(prepared), _warnings(prepared)
    replaces = request.series is None and path.exists()
    period = period_of(unit_of(schema), request.label)
    return Rehearsal(path, prepared, promise, account, replaces, *found, period)


def _errors(was: Prepared, content: Content | None = None) -> dict[str, float]:
    from sfumato.planner.marginal_errors import errors_by_kind

    with suppress(SfumatoError):  # what cannot be foretold must not look like a release that failed
        return errors_by_kind(was.schema, was.mechanism, was.workload, was.cost.budget, content)
    return {}


def _warnings(was: Prepared, content: Content | None = None) -> tuple[str, ...]:
    if not was.stated or was.mechanism.answers != "everything":
        return ()
    from sfumato.planner.other_plans import useless_kinds

    with suppress(SfumatoError):
        return useless_kinds(was.schema, was.mechanism, was.workload, was.cost.budget, content)
    return ()
