"""An answer with all that belongs to it, as one JSON object: rows, notes, the guarantee and the confidence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.answers.result import Result, as_json
from sfumato.kernel.budget import readable
from sfumato.plain_text import escaped_json

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Guarantee


def as_full_json(result: Result, guarantee: Guarantee) -> str:
    """The rows as `as_json` has them, and beside them what a reader of the numbers should know."""
    about = {
        "notes": list(result.notes),
        "counted": result.counted,
        "guarantee": guarantee_record(guarantee),
        "confidence": result.confidence,
    }
    lines = [f'"{key}": {as_text(value)}' for key, value in about.items()]
    return "{" + ",\n ".join(['"rows": ' + as_json(result.records()).replace("\n", "\n  "), *lines]) + "}"


def guarantee_record(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee of types that JSON knows; amounts of privacy as exact text, which `--epsilon` takes too."""
    exact = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "rho": guarantee.rho}
    amounts = {name: None if amount is None else readable(amount) for name, amount in exact.items()}
    words = {"unit": guarantee.unit, "neighbours": guarantee.neighbours, "statement": guarantee.statement}
    return {"definition": guarantee.definition} | amounts | words


def as_text(value: Any) -> str:
    """Strict JSON in which nothing steers a terminal."""
    return escaped_json(json.dumps(value, ensure_ascii=False, allow_nan=False))
