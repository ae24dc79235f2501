"""A release without the release: everything public is settled and checked, no row is read, nothing is spent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount
from sfumato.kernel.ledger.ledger import Account, Ledger
from sfumato.kernel.opening import rehearse
from sfumato.publishing.place import check_place
from sfumato.publishing.prepare import Prepared, prepare
from sfumato.publishing.publish import describe_guarantee, table_for
from sfumato.publishing.request import digest_of_request
from sfumato.releases.file.manifest import Guarantee
from sfumato.schema import Schema


@dataclass(frozen=True)
class Rehearsal:
    """What a release would do.

    guarantee: what its file would promise. account: where the dataset stands before it. replaces: whether a file of
    that name would be moved away. errors: the standard errors to expect of counts, where these depend on noise alone.
    """

    path: Path
    prepared: Prepared
    guarantee: Guarantee
    account: Account
    replaces: bool
    errors: Mapping[str, float]


def rehearse_release(
    table: Any,
    schema: Schema,
    epsilon: Amount,
    out: str | Path,
    *,
    ledger: Ledger,
    another_unit: bool = False,
    table_name: str | None = None,
    allow_views: bool = False,
    again: bool = False,
    **how: Any,
) -> Rehearsal:
    """Refuse whatever `publish` would refuse before it spends, and tell what it would do otherwise."""
    path = Path(out)
    check_place(path)
    prepared = prepare(schema, epsilon, **how)
    schema = prepared.schema
    with table_for(schema, table, table_name, allow_views) as source:
        account = rehearse(
            source,
            schema,
            prepared.cost,
            ledger=ledger,
            mechanism=prepared.mechanism.name,
            another_unit=another_unit,
            request=digest_of_request(table, table_name, prepared, how.get("workload")),
            again=again,
        )
        derived = source.derived(schema)
    cost = prepared.cost
    promise = describe_guarantee(cost.budget, schema, cost, derived=derived)
    return Rehearsal(path, prepared, promise, account, path.exists(), _errors(prepared))


def _errors(prepared: Prepared) -> dict[str, float]:
    from sfumato.planner.by_kind import errors_by_kind

    with suppress(SfumatoError):
        return errors_by_kind(prepared.schema, prepared.mechanism, prepared.workload, prepared.cost.budget)
    return {}
