"""What is worth saying about a workload beyond its figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from sfumato.mechanisms.registry import MECHANISMS
from sfumato.planner.forecast import Outlook, Question


def explain(outlooks: Sequence[Outlook], question: Question) -> tuple[str, ...]:
    """The first remark that a mechanism has on a plan, where there is something to compare it with."""
    priced = {found.mechanism: found.overall for found in outlooks if found.how == "exact" and isfinite(found.overall)}
    remarks = (MECHANISMS[name].remark for name in MECHANISMS if name in priced and len(priced) > 1)
    said = (remark(priced, question.schema, question.workload) for remark in remarks if remark is not None)
    return tuple(text for text in said if text)[:1]
