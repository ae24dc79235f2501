"""What a release was asked for, as one digest, so that the same request is known again. Public facts only."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from sfumato.publishing.prepare import Prepared
from sfumato.schema import Schema

NOT_ASKED_FOR = "budget", "ledger", "expected_rows"  # a schema that differs in these alone asks for the same
NOT_RELEASED = "file"  # how the table's file is written: it decides what is read, not what a release holds
IN_MEMORY = ":memory:"  # no path or address: these are absolute, or have a scheme
WHERE = "host", "hostaddr", "port", "dbname", "service"  # options that say where a table is; others can be passwords


def digest_of_request(table: Any, name: str | None, prepared: Prepared, workload: object) -> str:
    """SHA-256 over the table's name, the schema, the mechanism, the cost and the workload.

    Nothing that the table holds goes into it, not even its size or when it was written. Frames and connections have no
    name, and count as one: a notebook that is run twice makes another frame and means the same release.
    """
    facts: dict[str, Any] = {
        "table": name_of_table(table) or IN_MEMORY,
        "name": name,
        "schema": _without(prepared.schema, *NOT_ASKED_FOR),
        "mechanism": prepared.mechanism.name,
        "epsilon": str(prepared.cost.epsilon),
        "delta": str(prepared.cost.delta),
        "workload": _text_of(workload),
    }
    if prepared.mechanism.chosen:
        facts["options"] = dict(prepared.mechanism.chosen)
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
    """The part of a schema that decides what a release holds."""
    return _without(schema, *NOT_ASKED_FOR, NOT_RELEASED)


def _without(schema: Schema, *keys: str) -> dict[str, Any]:
    return {key: part for key, part in schema.to_dict().items() if key not in keys}


def _text_of(workload: object) -> str | None:
    if workload is None:
        return None
    if isinstance(workload, str | Path):
        with suppress(OSError, ValueError):
            return Path(workload).read_text(encoding="utf-8")
    return str(workload)
