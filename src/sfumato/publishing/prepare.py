"""Request for a release, prepared from public facts alone: mechanism, cost, workload, path, digest.

Everything that can be refused without data is refused here, before anything is spent. The digest recognises a repeated
request; it covers public facts only, nothing of the table.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from glob import escape as glob_escape
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from sfumato.arrays import MOST_DENSE
from sfumato.errors import (
    BudgetError,
    LedgerError,
    MechanismError,
    PrivacyError,
    QueryError,
    ReleaseFileError,
    SchemaError,
    SfumatoError,
)
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, Budget, Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.models import find_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import readable
from sfumato.publishing.fits_in_file import with_steps_of
from sfumato.queries import Workload, default_workload
from sfumato.releases.file.artifact import Artifact, read_artifact
from sfumato.releases.file.manifest import LEANS_ON
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.schema.invariants import EVEN_THOUGH

if TYPE_CHECKING:
    from sfumato.models.margins.borrowing import Prior


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that a curator says about a release, except the private table and the randomness.

    Both entries, `sfumato.release` and the command line, make one; preparing, publishing and rehearsing take it. All of
    it is public: neither the table nor an address with a password is in it, so whatever is settled from a request alone
    cannot depend on private data. Nothing is checked here. Each field is checked where it is used, so that refusals
    come in the order in which a release goes on. `sfumato.release` says what each field means.
    """

    schema: Schema
    epsilon: Amount | None
    delta: Amount | None = None
    mechanism: str = "auto"
    workload: Workload | str | Path | None = None
    workload_only: bool = False
    options: Mapping[str, object] | None = None
    even_if_useless: bool = False
    table_name: str | None = None
    dialect: str | None = None
    allow_views: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    another_unit: bool = False
    even_though_exact: bool = False
    again: bool = False
    rho: Amount | None = None
    series: Path | None = None
    period: str | None = None
    correct: bool = False
    prior: Path | None = None

    @property
    def label(self) -> str | None:
        """The period as files write it; refused here where it is none, or where schema and request do not agree."""
        series = self.schema.series
        if series is None:
            if self.series is not None or self.period is not None:
                raise SchemaError(
                    "the schema says nothing of a series; add series: {period: month, unit: person in a month}, or "
                    "leave out --series and --period"
                )
            return None
        if self.period is None:
            raise SchemaError(
                f"the schema states a series, published {series.period} by {series.period}; name its file and the "
                "period of this table: --series, --period"
            )
        return series.label(self.period)

    @property
    def cost(self) -> Cost:
        """Epsilon and delta, or rho, as exact fractions; refused here if they are no amounts of privacy."""
        return Cost.stated(self.epsilon, self.delta, self.rho)


WHY_RUNNING = "the schema asks for running totals"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A release settled before any data is read: schema, mechanism, cost and workload."""

    schema: Schema
    mechanism: Mechanism
    cost: Cost
    workload: Workload | None
    why: str | None = None  # of a mechanism that was chosen for the curator
    expected: float = inf  # its error, that of all kinds of query as the workload weighs them, in rows
    stated: bool = False  # whether the curator gave a workload
    prior: Prior | None = None  # an earlier release that its estimates lean on

    @property
    def options(self) -> Mapping[str, str]:
        """Options of the mechanism, and the release that estimates lean on, by its digest, as the file keeps them."""
        return {**self.mechanism.chosen, **({} if self.prior is None else {LEANS_ON: self.prior.digest})}


def prepare(request: Request) -> Prepared:
    """Resolve mechanism, cost and workload of a request; refuse one too large, not writable or without information."""
    if request.options and request.mechanism == "auto":
        raise MechanismError("--with is about one mechanism; name it with --mechanism")
    if request.workload_only and request.workload is None:
        raise QueryError("--workload-only is about the statements of --workload; name their file with it")
    _refuse_exact(request)
    prepared = replace(_settled(request), stated=request.workload is not None)
    if not request.even_if_useless and not prepared.mechanism.special:
        from sfumato.planner.marginal_errors import refuse_useless

        refuse_useless(request.schema, prepared.mechanism, prepared.workload, prepared.cost.budget, _one_way_forecast)
    if request.prior is None:
        return prepared
    from sfumato.models.margins.borrowing import Prior

    _refuse_prior(prepared.schema, prepared.mechanism.name)
    return replace(prepared, prior=Prior.read(request.prior, prepared.schema))


def _refuse_exact(request: Request) -> None:
    """Refuse exact counts that the schema or the request alone asks for, and a schema that has them already."""
    schema = request.schema
    if schema.invariants is None and request.even_though_exact:
        raise SchemaError(f"{EVEN_THOUGH} is for a schema with invariants; leave it out")
    if schema.invariants and schema.known:
        raise SchemaError("the schema is one of a release, with its exact counts; name tables alone in invariants")
    if schema.invariants and not request.even_though_exact:
        raise PrivacyError(
            f"the schema's invariants would publish exact counts of {schema.exact_counts}, which nothing protects: "
            f"they can tell who is in the table, whatever epsilon is; take invariants out, or say so: {EVEN_THOUGH}"
        )


def _refuse_prior(schema: Schema, mechanism: str) -> None:
    """Refuse `--prior` for mechanisms and schemas whose estimates cannot use a prior release."""
    from sfumato.models.margins.measure import MECHANISM
    from sfumato.models.margins.nested import hierarchies

    if mechanism != MECHANISM.name:
        raise MechanismError(
            f"--prior is for releases by margins, and {mechanism} is the mechanism here; say --mechanism margins, or "
            "leave out --prior"
        )
    if schema.series is not None:
        raise SchemaError("parts of a series lean on each other when they are asked, by AS OF; leave out --prior")
    exact = schema.known or schema.invariants
    if schema.structure is not None or exact or schema.weight is not None or hierarchies(schema):
        raise SchemaError(
            "a release with rules, facts, weights or values in groups cannot lean on an earlier one; leave out --prior"
        )


def _one_way_forecast(mechanism: Mechanism, schema: Schema, workload: Workload, budget: Budget) -> Mapping[str, float]:
    from sfumato.planner.forecast import one_way_forecast  # rarely needed, and it loads the planner

    return one_way_forecast(mechanism, schema, workload, budget)


def _settled(request: Request) -> Prepared:
    schema, cost = request.schema, request.cost
    asked = _workload(request, schema)
    if schema.running:
        from sfumato.models.cells.cells import for_running

        running = for_running(schema, request.mechanism, pure=cost.pure)
        return _fitting(Prepared(schema, running.with_options(request.options or {}), cost, asked, WHY_RUNNING))
    if request.mechanism != "auto":
        mechanism = find_mechanism(request.mechanism).with_options(request.options or {})
        return _fitting(Prepared(schema, mechanism, cost, asked))
    from sfumato.planner.choose import choose_for

    choice, cost = choose_for(schema, cost, asked)
    return _fitting(Prepared(schema, find_mechanism(choice.name), cost, asked, choice.why, choice.expected))


def _workload(request: Request, schema: Schema) -> Workload | None:
    """Workload that is served: the default one, one that is tilted to the statements given, or these alone."""
    given = request.workload
    if isinstance(given, str | Path):
        from sfumato.planner.questions import read_statements
        from sfumato.sql.workload import workload_of

        given = workload_of(read_statements(given, schema), schema)
    if given is None:
        named = request.mechanism not in ("auto", None)
        most = find_mechanism(request.mechanism).holds.most_cells if named else None
        return default_workload(schema.domain) if schema.domain.size <= max(MOST_DENSE, most or 0) else None
    if given.columns != schema.domain.size:
        raise QueryError(f"the workload spans {given.columns} cells, the schema has {schema.domain.size}")
    if request.workload_only or given is default_workload(schema.domain):
        return given
    from sfumato.planner.other_plans import tilt_towards

    return tilt_towards(given, schema.domain)


def _fitting(prepared: Prepared) -> Prepared:
    from sfumato.publishing.fits_in_file import check_writable, with_steps_that_fit

    schema, mechanism = prepared.schema, prepared.mechanism
    workload = mechanism.serves(prepared.workload)
    mechanism.check(schema, workload)
    cost = prepared.cost if mechanism.gaussian else prepared.cost.without_delta
    schema = with_steps_that_fit(schema, cost, mechanism, workload)
    check_writable(schema, cost, mechanism, workload)
    return replace(prepared, schema=schema, cost=cost, workload=workload)


NOT_ASKED_FOR = "budget", "ledger", "expected_rows"  # a schema that differs in these alone asks for the same
NOT_RELEASED = "file"  # how the table's file is written: it decides what is read, not what a release holds
IN_MEMORY = ":memory:"  # no path or address: these are absolute, or have a scheme
WHERE = "host", "hostaddr", "port", "dbname", "service"  # options that say where a table is; others can be passwords


def digest_of_request(table: Any, request: Request, prepared: Prepared) -> str:
    """SHA-256 over the table's name, the schema, the mechanism, the cost and the workload.

    Nothing that the table holds goes into it, not even its size or when it was written. Frames and connections have no
    name, and count as one: a notebook that is run twice makes another frame and means the same release.
    """
    facts: dict[str, Any] = {
        "table": name_of_table(table) or IN_MEMORY,
        "name": request.table_name,
        "schema": _without(prepared.schema, *NOT_ASKED_FOR),
        "mechanism": prepared.mechanism.name,
        "epsilon": str(prepared.cost.epsilon),
        "delta": str(prepared.cost.delta),
        "workload": _text_of(request.workload),
    }
    if request.workload is not None and not request.workload_only:
        facts["tilted"] = True  # the statements alone were all that a workload could mean once
    if prepared.options:
        facts["options"] = dict(prepared.options)
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def name_of_table(table: Any) -> str | None:
    """The path or address of a table, without who logs in; a frame in memory has none.

    >>> name_of_table("postgresql://ada:secret@example.org/census")
    'postgresql://example.org/census'
    >>> name_of_table("postgresql:///census?host=/run/db&password=secret")
    'postgresql:///census?host=%2Frun%2Fdb'
    """
    if isinstance(table, Path):
        return str(table.absolute())
    if not isinstance(table, str):
        return None
    if "://" not in table:
        return table if table == "-" else str(Path(table).absolute())
    with suppress(ValueError):
        parts = urlsplit(table)
        said = urlencode([pair for pair in parse_qsl(parts.query) if pair[0] in WHERE])
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{said and '?'}{said}"
    return None


def what_is_released(schema: Schema) -> dict[str, Any]:
    """Fields of a schema that decide what a release holds; `invariants` as the attribute sets of the exact counts."""
    exact = {} if schema.invariants is None else {"invariants": [[*names] for names in schema.exact_sets]}
    return _without(schema, *NOT_ASKED_FOR, NOT_RELEASED) | exact


def _without(schema: Schema, *keys: str) -> dict[str, Any]:
    return {key: part for key, part in schema.to_dict().items() if key not in keys}


def _text_of(workload: object) -> str | None:
    if workload is None:
        return None
    if isinstance(workload, str | Path):
        with suppress(OSError, ValueError):
            return Path(workload).read_text(encoding="utf-8")
    return str(workload)


def check_place(path: Path) -> None:
    """Refuse an output path at which no file can be written."""
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"{path} cannot be written; name a file in a folder that exists")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ReleaseFileError(f"the folder of {path} cannot be written to; choose another with -o")


def _part_there(path: Path, request: Request) -> Release | None:
    """The part of a series that answers for the period asked for; None where there is none."""
    from sfumato.releases.file.series import open_series
    from sfumato.releases.release import release_in

    file = open_series(path)
    part = file.head.newest.get(request.label or "")
    return None if part is None else release_in(file.artifact(part)).refuse_unless_private()


def check_series(request: Request) -> None:
    """Refuse a part that could not be added to its series, before anything is spent."""
    from sfumato.releases.file.series import check_growth, check_period, open_series, series_of

    path, label = request.series, request.label
    if path is None or label is None:
        return
    check_place(path)
    if left := sorted(path.absolute().parent.glob(f"{glob_escape(path.name)}.*.part")):
        raise ReleaseFileError(
            f"a part that was paid for lies in {left[0]}, left by a release that was interrupted; add it first, with "
            f"`sfumato series add {path} {path.with_name(left[0].name)} --period ...`, --correct if it corrects one",
            kind="input",
        )
    if not path.exists():
        return check_period(label, None, correct=request.correct)
    found = open_series(path)
    if (found.head.dataset, found.head.series) != (request.schema.dataset, series_of(request.schema)):
        raise ReleaseFileError(
            f"{path} is the series of another dataset, or with another promise; begin a new file", kind="input"
        )
    check_period(label, found.head.newest.get(label), correct=request.correct)
    newest = found.artifact(found.head.parts[-1])
    check_growth(newest.schema, request.schema)
    if newest.schema.running:
        _check_running(request, newest)


def _check_running(request: Request, newest: Artifact) -> None:
    """Refuse a part whose noise could not take back that of earlier parts: of another schema or another budget."""
    if what_is_released(newest.schema) != what_is_released(with_steps_of(request.schema, newest.schema)):
        raise SchemaError(
            "a series with running: true keeps its schema as it is, for the noise of each cell is spread over parts; "
            "leave the schema as it was, or begin a new file"
        )
    receipt, book = newest.manifest.receipt or {}, request.ledger
    known = {entry.nonce for entry in book.entries(request.schema.dataset)}
    if receipt.get("ledger") == book.identity() and receipt.get("nonce") not in known:
        raise LedgerError(
            f"the ledger {book.path} does not know the newest part of the series, so it is an old copy, and with it "
            "noise would be taken back twice; restore ledger and noise from the latest backup",
            kind="damaged",
        )
    promised = newest.manifest.guarantee
    if request.cost.budget.rho != promised.rho:
        raise BudgetError(
            f"a series with running: true has the same budget in each part, epsilon {readable(promised.epsilon)} and "
            f"delta {readable(promised.delta)}; ask for it, or begin a new file",
            kind="budget",
        )


def part_place(path: Path, label: str) -> Path:
    """Path of the file of a part until it is appended to its series."""
    return path.with_name(f"{path.name}.{re.sub(r'[^A-Za-z0-9-]', '_', label)}.part")


def already_there(path: Path, request: Request) -> Release | None:
    """Return the same release if its file exists already, so that nothing need be spent; else None.

    A mechanism may not have needed the delta that is asked for. A file that is something else is refused, whatever it
    is: to go on would spend a budget that nobody meant to spend.
    """
    cost = request.cost
    if not path.exists():
        return None
    away = "move it away, or leave out --if-missing"
    try:
        result = Release.load(path).refuse_unless_private() if request.series is None else _part_there(path, request)
    except SfumatoError as problem:
        raise type(problem)(f"{problem}; {away}", kind=problem.kind) from None
    if result is None:
        return None
    promise = result.guarantee
    for what, same in {
        "schema": what_is_released(result.schema) == what_is_released(with_steps_of(request.schema, result.schema)),
        "epsilon": promise.epsilon in (cost.epsilon, cost.without_delta.epsilon),
        "delta": promise.delta in (0, cost.delta),
        "mechanism": request.mechanism in ("auto", result.mechanism),
        "prior": result.leans_on == (None if request.prior is None else read_artifact(request.prior).digest),
    }.items():
        if not same:
            raise ReleaseFileError(f"{path} is a release already, but with another {what}; {away}", kind="input")
    return result


@contextmanager
def telling_what_stays(ledger: Ledger, dataset: str, nonce: str) -> Iterator[None]:
    """Context that adds to a KeyboardInterrupt a note on what stays reserved under this nonce."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(_what_stays(ledger, dataset, nonce))
        raise


def _what_stays(ledger: Ledger, dataset: str, nonce: str) -> str:
    """Sentence on the state of a reservation, read from the ledger."""
    try:
        entry = next((entry for entry in ledger.entries(dataset) if entry.nonce == nonce), None)
    except LedgerError:
        return f"the ledger {ledger.path} cannot be read now; what is reserved in it counts as spent"
    if entry is None:
        return f"nothing was reserved yet on dataset {dataset!r} (ledger {ledger.path})"
    what = f"epsilon {readable(entry.epsilon)}" + (f" and delta {readable(entry.delta)}" if entry.delta else "")
    how = "stays reserved and counts as spent" if entry.state == "reserved" else "is spent; the release was published"
    return f"{what} on dataset {dataset!r} {how} (ledger {ledger.path})"
