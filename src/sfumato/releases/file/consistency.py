"""Consistency checks of an untrusted manifest: memory bound, schema, guarantee, receipt, statistics, members, kind.

Equal numbers compress to almost nothing, so a file of 3 MB can claim a gigabyte. The memory bound counts numbers of
eight bytes: those in the file, the bytes of the file itself, the edges of the axes, and what fits make of their numbers
while they are read (`room` of each family, measured in tests/releases/file/test_room.py on files at the bound).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from sfumato.arrays import MOST_SPANNED
from sfumato.errors import BudgetError, SchemaError
from sfumato.kernel.budget import epsilon_for
from sfumato.plain_text import write_fraction
from sfumato.releases.contents.content import kind_named
from sfumato.releases.file.manifest import (
    BLOCKS,
    LEANS_ON,
    PARTS,
    SCALED_VERSION,
    SOLVED_VERSION,
    Manifest,
    guarantee_of,
)
from sfumato.releases.file.members import Columns, check_sizes
from sfumato.releases.file.records import FAMILIES, leaves_out_estimates, refusal
from sfumato.schema import Schema
from sfumato.schema.schema import axis_sizes

MOST_CELLS = 24_000_000  # numbers that any file may lay out unless more is asked for: about 300 MB
PER_BYTE = 6  # and for each byte of a larger file, so that whoever could send 30 MB can have them opened


def usual_bound(size: int) -> int:
    """Default bound on the numbers that a file of so many bytes may lay out in memory.

    >>> usual_bound(3_000_000), usual_bound(30_000_000)
    (24000000, 180000000)
    """
    return max(MOST_CELLS, PER_BYTE * size)


def check_room(manifest: Manifest, axes: Sequence[int], most: int | None) -> None:
    """Refuse a file that would lay out more than `most` numbers. axes: number of cells of each attribute."""
    needed = numbers_laid_out(manifest, axes)
    if most is not None and needed > most:
        raise refusal(
            f"it lays out {needed:,} numbers in memory, and a file may lay out {most:,} unless more is allowed",
            f"if you trust its publisher, allow it with --most-cells {needed} (in Python: most_cells={needed})",
        )


def numbers_laid_out(manifest: Manifest, axes: Sequence[int]) -> int:
    """Upper bound of the eight-byte numbers in memory while a file is opened."""
    read = sum(member.rows * len(member.columns) for member in manifest.members.values())
    held = sum(member.bytes for member in manifest.members.values()) // 8
    room = max((FAMILIES[fit.family].room for fit in manifest.fits), default=1)
    cells = max((member.rows for member in manifest.members.values()), default=0)
    spanned = [one.columns for fit in manifest.fits for one in fit.measurements]
    besides = sum(3 * min(columns, MOST_SPANNED) for columns in spanned if columns > cells)
    # While an axis is made there are two of it; by the time the values are read there is one.
    return sum(axes) + max([room * read + held + besides, *axes])


OF_SOME_KINDS = frozenset({"threshold", "totals", "fits", "queries", "arrays", "details"})  # of the manifest


def check_manifest(manifest: Manifest, most_cells: int | None = None) -> Schema:
    """Validate a manifest and return its schema.

    most_cells: how many numbers opening it may lay out, no bound where it is only to be written.
    """
    check_sizes(manifest.members.values())
    check_room(manifest, axis_sizes(manifest.schema), most_cells)  # before the schema lays out its axes
    schema = _schema(manifest)
    _check_guarantee(manifest, schema)
    _check_receipt(manifest, schema)
    _check_files(manifest)
    if (manifest.version == SCALED_VERSION) != (BLOCKS in manifest.members):
        raise refusal("its version does not go with its members")
    if (manifest.version == SOLVED_VERSION) != leaves_out_estimates(manifest.fits):
        raise refusal("its manifest has fits that do not go with its version, or lacks them")
    kind = kind_named(manifest.kind)
    _check_statistics(manifest, schema, every=kind.answers_linear)
    for field in OF_SOME_KINDS - kind.uses:
        if getattr(manifest, field) not in (None, [], {}):
            raise refusal(f"its manifest has {field} that do not go with its kind")
    kind.check(manifest, schema)
    return schema


def _schema(manifest: Manifest) -> Schema:
    try:
        schema = Schema.from_dict(saying_what_is_missing(manifest.schema))
        if schema.domain.size < 1:
            raise refusal("its schema has no cells")
        if schema.invariants and not schema.known:
            raise refusal("its schema names exact counts and lacks them")
    except SchemaError as error:
        raise refusal(f"its schema is not valid: {error}") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError):
        raise refusal("its schema is not valid") from None
    return schema


def saying_what_is_missing(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add the rule for missing values to an old file's schema, whose measures imputed the middle of the bounds."""
    measures = schema.get("measures")
    if not isinstance(measures, Mapping):
        return dict(schema)
    parts = measures.items()
    said = {name: {"missing": "middle", **part} if isinstance(part, Mapping) else part for name, part in parts}
    return {**schema, "measures": said}


def _check_guarantee(manifest: Manifest, schema: Schema) -> None:
    """Check that epsilon follows from rho, or from the parts of a combined file, and that the words match it."""
    guarantee = manifest.guarantee
    if manifest.receipt is not None and PARTS in manifest.receipt:
        from sfumato.releases.parts import follows_from_parts, parts_in

        parts = parts_in(manifest.receipt)
        amounts = (guarantee.epsilon, guarantee.delta, guarantee.rho)
        if not follows_from_parts(parts, amounts, by_row=schema.privacy_unit.column is None):
            raise refusal("its guarantee does not follow from its parts")
    else:
        try:
            follows = guarantee.rho is None or epsilon_for(guarantee.rho, guarantee.delta) <= guarantee.epsilon
        except BudgetError:
            follows = False
        if not follows:
            raise refusal("its guarantee does not follow from its rho")
    epsilon, delta, rho = guarantee.epsilon, guarantee.delta, guarantee.rho
    leans = LEANS_ON in manifest.mechanism.options  # which older files do not say in their guarantee
    worded = [
        guarantee_of(
            epsilon,
            schema.whom,
            delta=delta,
            rho=rho,
            derived=view,
            bought=schema.bought,
            exact=schema.exact_sets,
            leaning=leaning,
        )
        for view, leaning in product((False, True), {False, leans})
    ]
    if guarantee not in worded:
        raise refusal("the words of its guarantee contradict its epsilon, its delta or its privacy unit")


def _check_receipt(manifest: Manifest, schema: Schema) -> None:
    promised = manifest.guarantee
    facts = {
        "dataset": schema.dataset,
        "epsilon": write_fraction(promised.epsilon),
        "delta": write_fraction(promised.delta),
    }
    receipt = manifest.receipt or {}
    if any(receipt.get(name, fact) != fact for name, fact in facts.items()):
        raise refusal("its ledger receipt contradicts its guarantee or its dataset")


def _check_statistics(manifest: Manifest, schema: Schema, *, every: bool) -> None:
    """Check that the statistics are those of the schema in order; every: all of them, not only the first ones."""
    measured = {name: (measure.step, measure.centre) for name, measure in schema.summed.items()}
    scales = {of: measured.get(of, (1, 0)) for of in schema.units}
    listed, totals = ([one.of for one in kind] for kind in (manifest.statistics, manifest.totals))
    if listed != list(scales)[: len(scales) if every else len(listed)] or totals not in ([], list(scales)):
        raise refusal("its statistics or totals are not those of its schema, in their order")
    if any((statistic.step, statistic.centre) != scales[statistic.of] for statistic in manifest.statistics):
        raise refusal("its manifest has a step or a centre that is not that of its schema")


def _check_files(manifest: Manifest) -> None:
    for name, member in manifest.members.items():
        if member.file != f"{name}.parquet":
            raise refusal(f"its member {name} is not kept in {name}.parquet")


def check_values(manifest: Manifest, schema: Schema, columns: Columns) -> None:
    """Refuse values of a member that no content of the manifest's kind has."""
    kind_named(manifest.kind).check_values(manifest, schema, columns)
