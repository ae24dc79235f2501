"""What scripts are told: accounts, entries and promises as plain values. Amounts of privacy stay exact fractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.kernel.ledger.ledger import Account, Change, Entry
    from sfumato.releases.file.manifest import Guarantee


def of_account(account: Account) -> dict[str, Any]:
    """Where a dataset stands."""
    return {
        "dataset": account.dataset,
        "spellings": list(account.spellings),
        "epsilon": {"total": account.total, "spent": account.spent, "left": account.left},
        "delta": {"total": account.total_delta, "spent": account.spent_delta, "left": account.left_delta},
        "releases": account.published,
        "reserved_only": account.entries - account.published,
        "promises": [
            {"to": one.whom, "unit": _unit(one.unit), "epsilon": one.spent, "delta": one.spent_delta}
            for one in account.promises
        ],
    }


def of_entry(entry: Entry) -> dict[str, Any]:
    """One reservation."""
    return {
        "entry": entry.number,
        "dataset": entry.dataset,
        "reserved_at": entry.reserved_at,
        "epsilon": entry.epsilon,
        "delta": entry.delta,
        "mechanism": entry.mechanism,
        "state": entry.state,
        "unit": _unit(entry.unit),
        "contributions": entry.contributions,
        "request": entry.request,
        "digest": entry.digest,
    }


def of_change(change: Change) -> dict[str, Any]:
    """A total that was stated or changed."""
    return {
        "dataset": change.dataset,
        "changed_at": change.changed_at,
        "who": change.who,
        "reason": change.reason,
        "epsilon": {"before": change.old_total, "after": change.total},
        "delta": {"before": change.old_delta, "after": change.total_delta},
    }


def of_guarantee(promise: Guarantee) -> dict[str, Any]:
    """What a file promises."""
    parts = {"definition": promise.definition, "epsilon": promise.epsilon, "delta": promise.delta, "rho": promise.rho}
    return {**parts, "unit": promise.unit, "neighbours": promise.neighbours, "statement": promise.statement}


def _unit(unit: Any) -> str | None:
    return None if unit is None else unit.column or "row"
