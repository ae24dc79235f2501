"""Results of an audit as plain values, for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.lab.audit.report import Report
    from sfumato.lab.audit.statements.fuzzer import Round


def of_statements(asked: Round, seed: int) -> dict[str, Any]:
    """Result of random statements."""
    found = [
        {"complaint": one.complaint, "statement": one.small or one.text, "release": one.world, "again": one.again}
        for one in asked.found
    ]
    numbers = {"asked": asked.asked, "answered": asked.answered, "compared": asked.compared}
    return {"seed": seed, **numbers, "found": found}


def of_audit(report: Report | None, caught: Sequence[tuple[str, str | None, str]]) -> dict[str, Any]:
    """Findings of all attacks, and the broken variants that they caught; without a report only the latter."""
    found: dict[str, Any] = {}
    if report is not None:
        found = {
            "violated": report.violated,
            "mechanisms": [
                {
                    "name": row.name,
                    "claimed_epsilon": row.claimed,
                    "lower_bound": row.bound,
                    "runs": row.runs,
                    "coverage": row.coverage,
                    "verdict": row.verdict,
                }
                for row in report.rows
            ],
            "exact": [_of_finding(one) for one in report.exact],
            "replayed": [_of_finding(one) for one in report.replayed],
            "read_from": [
                {"source": one.source, "pairs": one.pairs, "largest": one.largest, "verdict": one.verdict}
                for one in report.read
            ],
            "guaranteed": [
                {
                    "mechanism": one.mechanism,
                    "confidence": one.confidence,
                    "held": one.held,
                    "releases": one.releases,
                    "verdict": one.verdict,
                }
                for one in report.sure
            ],
        }
    return {**found, "mutants": [{"name": name, "caught_by": by, "how": how} for name, by, how in caught]}


def _of_finding(found: Any) -> dict[str, Any]:
    return {
        "name": found.name,
        "claimed": found.claimed,
        "loss": found.loss,
        "pairs": found.pairs,
        "sound": found.sound,
    }
