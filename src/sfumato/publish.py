"""The whole line, once: table, schema and budget in; release out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetError, PrivacyError, QueryError, ReleaseFileError, SchemaError
from sfumato.kernel.budget import Amount, Budget, as_epsilon
from sfumato.kernel.entropy import Entropy, SystemEntropy
from sfumato.kernel.ledger import Ledger, Receipt
from sfumato.kernel.opening import Step, open_curator
from sfumato.kernel.source import open_table
from sfumato.measurement import LARGEST_SCALE, Laplace
from sfumato.mechanisms import find_mechanism
from sfumato.mechanisms.cells import is_sparse, planned_noises
from sfumato.releases.manifest import MOST_MANIFEST_BYTES, Guarantee, fraction_text
from sfumato.releases.release import Release
from sfumato.schema import PrivacyUnit, Schema

if TYPE_CHECKING:
    from sfumato.sql import Select


def release(
    table: Any,
    schema: Schema,
    epsilon: Amount,
    *,
    mechanism: str = "auto",
    ledger: Ledger | str | Path | None = None,
    table_name: str | None = None,
    entropy: Entropy | None = None,
    step: Step = lambda name: None,
) -> Release:
    """Publish a private table: reserve the budget, read, add noise, and hand back what anyone may see.

    table: a path or glob (csv, parquet), a database URL with `table_name`, or a pandas, polars or Arrow frame.
    epsilon: what this release costs, charged to `schema.dataset` in the ledger before the table is read.
    entropy: for tests only; a release made with a testing generator is marked NOT PRIVATE.
    step: told the name of each step as it begins.
    """
    budget = Budget.pure(as_epsilon(epsilon))
    chosen = find_mechanism(mechanism)
    _check_writable(schema, budget, chosen.name)
    source = entropy or SystemEntropy()
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    opened = open_curator(
        open_table(table, name=table_name),
        schema,
        budget,
        ledger=book,
        mechanism=chosen.name,
        entropy=source,
        step=step,
    )
    step("measure")
    cube = chosen.run(opened.curator, schema, budget)
    if not opened.curator.charge.fullest <= opened.curator.charge.limit:
        raise PrivacyError("the mechanism spent more than was reserved; nothing is published")
    return Release(
        cube,
        chosen.name,
        describe_guarantee(budget, schema),
        source.private,
        opened.receipt.to_dict(),
        _mark_published(book, opened.receipt, step),
    )


@dataclass(frozen=True)
class Published:
    """A release on disk, and where an earlier file of the same name went."""

    release: Release
    path: Path
    kept: Path | None


def publish(table: Any, schema: Schema, epsilon: Amount, out: str | Path, *, step: Step, **how: Any) -> Published:
    """Release a table straight into a file. What can be refused is refused before the budget is reserved."""
    path = Path(out)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"{path} cannot be written; name a file in a folder that exists")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ReleaseFileError(f"the folder of {path} cannot be written to; choose another with -o")
    made = release(table, schema, epsilon, step=step, **how)
    # A release cannot be made again without paying again, so an earlier one is never overwritten.
    kept = _keep_earlier(path)
    step("write")
    made.save(path)
    step("done")
    return Published(made, path, kept)


def open_release(path: str | Path, *, allow_not_private: bool = False) -> Release:
    """Open a published release. One made with a testing generator is refused unless asked for by name."""
    found = Release.load(path)
    return found if allow_not_private else found.refuse_unless_private()


def check_workload(path: Path, schema: Schema) -> list[tuple[str, Select]]:
    """The queries of a workload file, each understood against the schema."""
    from sfumato.sql import compile_select, read_workload

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise QueryError(f"the workload {path} cannot be read; name a text file of SELECT statements") from None
    statements = read_workload(text)
    if not statements:
        raise QueryError(f"the workload {path} holds no query; write SELECT statements, separated by semicolons")
    return [(" ".join(statement.split()), compile_select(statement, schema)) for statement in statements]


def describe_guarantee(budget: Budget, schema: Schema) -> Guarantee:
    """The promise in symbols and in plain words."""
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only, so far)
    unit = describe_unit(schema.privacy_unit)
    factor = exp(min(float(budget.epsilon), 700.0))
    return Guarantee(
        epsilon=budget.epsilon,
        unit=unit,
        neighbours="two tables are neighbours if one has all the rows of one privacy unit and the other has none",
        statement=(
            f"Whatever this file shows would have been shown with at most {factor:.3g} times higher or lower "
            f"probability if {unit} had been left out of the table."
        ),
    )


def describe_unit(unit: PrivacyUnit) -> str:
    """The privacy unit in plain words."""
    if unit.column is None:
        return "any one row"
    rows = "1 row" if unit.contributions == 1 else f"{unit.contributions} rows"
    return f"the rows of any one {unit.column} (at most {rows} each)"


def _check_writable(schema: Schema, budget: Budget, mechanism: str) -> None:
    """Refuse, before anything is spent, what could not be written afterwards."""
    written = json.dumps({"schema": schema.to_dict()}, indent=2, ensure_ascii=False).encode()
    if len(written) > MOST_MANIFEST_BYTES * 9 // 10:
        raise SchemaError("the schema's lists of values are too long for a release file; use fewer values and `other`")
    noises = planned_noises(schema, budget, sparse=is_sparse(schema, mechanism)).values()
    scales = [noise.scale for pair in noises for noise in pair if isinstance(noise, Laplace)]
    steps = [number for measure in schema.measures.values() for number in (measure.step, measure.centre)]
    if max(scales) > LARGEST_SCALE:
        raise BudgetError("epsilon is so small that the noise would not fit 64 bits; give more, or coarser `step`s")
    for number in (*scales, *steps):
        fraction_text(number)


def _keep_earlier(path: Path) -> Path | None:
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.~{number}~")).exists():
        number += 1
    path.rename(kept)
    return kept


def _mark_published(ledger: Ledger, receipt: Receipt, step: Step) -> Callable[[str], None]:
    """What to do when the release is first saved. Until then, and if it fails, the entry stays reserved: spent."""
    done: list[str] = []

    def published(digest: str) -> None:
        if not done:
            step("publish")
            ledger.publish(receipt, digest)
            done.append(digest)

    return published
