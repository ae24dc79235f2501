"""Whether the parts of a release file go together: its schema, its kind, its guarantee, its statistics, its members."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.errors import BudgetError, SchemaError
from sfumato.inference.fits.base import PARTS
from sfumato.kernel.budget import epsilon_for
from sfumato.releases.file.manifest import Guarantee, Manifest
from sfumato.releases.file.parquet import Column, check_sizes
from sfumato.releases.file.room import check_room
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema
from sfumato.schema.schema import axis_sizes

CELLS = "cells"  # the member with a row for each cell
CELL = "cell"  # its column, in a sparse cube, that numbers the cells
NUMBERS, VALUE = "numbers", "value"  # the member and the column of a fitted cube that hold all its arrays


def parts_column(column: str) -> str:
    """The column of a fitted cube that adds 1024ths to another; no statistic's own column can have such a name."""
    return f"parts of {column}"


def check_manifest(manifest: Manifest, most_cells: int | None = None) -> Schema:
    """The schema in a manifest, after checking that schema, statistics and members go together.

    most_cells: how many numbers opening it may lay out, no bound where it is only to be written.
    """
    check_sizes(manifest.members.values())
    check_room(manifest, axis_sizes(manifest.schema), most_cells)  # before the schema lays out its axes
    schema = _schema(manifest)
    _check_guarantee(manifest.guarantee)
    _check_kind(manifest)
    _check_statistics(manifest, schema)
    _check_members(manifest, schema)
    return schema


def _schema(manifest: Manifest) -> Schema:
    try:
        schema = Schema.from_dict(manifest.schema)
        if schema.domain.size < 1:
            raise refusal("its schema has no cells")
    except SchemaError as error:
        raise refusal(f"its schema is not valid: {error}") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError):
        raise refusal("its schema is not valid") from None
    return schema


def _check_guarantee(guarantee: Guarantee) -> None:
    """A promise in epsilon and delta must follow from the rho behind it."""
    if guarantee.rho is None:
        return
    try:
        follows = epsilon_for(guarantee.rho, guarantee.delta) <= guarantee.epsilon
    except BudgetError:
        follows = False
    if not follows:
        raise refusal("its guarantee does not follow from its rho")


def _check_kind(manifest: Manifest) -> None:
    sparse, fitted = manifest.kind == "sparse-cube", manifest.kind == "fitted-cube"
    if sparse != (manifest.threshold is not None) or (manifest.totals and not sparse):
        raise refusal("its manifest has a threshold or totals that do not go with its kind")
    if sparse and len(manifest.members) != 1:
        raise refusal("it is a sparse cube and does not have exactly one member")
    if any((statistic.noise is None) != fitted for statistic in manifest.statistics):
        raise refusal("its statistics have a noise that does not go with its kind, or lack one")
    listed = [statistic.of for statistic in manifest.statistics]
    if [fit.of for fit in manifest.fits] != (listed if fitted else []) or (manifest.queries and not fitted):
        raise refusal("its manifest has fits that do not go with its kind or its statistics")


def _check_statistics(manifest: Manifest, schema: Schema) -> None:
    scales = {"count": (1, 0)} | {name: (measure.step, measure.centre) for name, measure in schema.measures.items()}
    listed = [statistic.of for statistic in manifest.statistics]
    for names in (listed, [total.of for total in manifest.totals]):
        if len(set(names)) < len(names) or not set(names) <= set(scales):
            raise refusal("its manifest names a statistic twice or one that its schema does not have")
    if "count" not in listed:
        raise refusal("its manifest has no statistic 'count'")
    if any((statistic.step, statistic.centre) != scales[statistic.of] for statistic in manifest.statistics):
        raise refusal("its manifest has a step or a centre that is not that of its schema")


def _check_members(manifest: Manifest, schema: Schema) -> None:
    sparse, fitted = manifest.kind == "sparse-cube", manifest.kind == "fitted-cube"
    places = [(statistic.member, statistic.column) for statistic in manifest.statistics]
    if fitted:
        places += [(member, parts_column(column)) for member, column in places] + [(NUMBERS, VALUE)]
    places += [(name, CELL) for name in manifest.members if sparse]
    kept = [(name, column) for name, member in manifest.members.items() for column in member.columns]
    if sorted(places) != sorted(kept):
        raise refusal("its statistics are not the columns of its members, one each")
    for name, member in manifest.members.items():
        if member.file != f"{name}.parquet":
            raise refusal(f"its member {name} is not kept in {name}.parquet")
        rows = sum(manifest.arrays) if fitted and name == NUMBERS else schema.domain.size
        if member.rows > rows or (member.rows < rows and not sparse):
            raise refusal(f"its member {name} does not have a row for each cell of its schema, or number of its arrays")
    if manifest.arrays and not fitted:
        raise refusal("its manifest has arrays that do not go with its kind")


def check_values(manifest: Manifest, schema: Schema, columns: Mapping[str, Column]) -> None:
    """Cells of a sparse cube are numbered in order, each once, and none was published below the threshold.

    In a fitted cube parts are parts: they never reach a whole.
    """
    if manifest.kind == "fitted-cube":
        for statistic in manifest.statistics:
            parts = columns.get(parts_column(statistic.column))
            if parts is not None and not 0 <= parts.min() <= parts.max() < PARTS:
                raise refusal("its estimates are not spelled as Sfumato spells them")
    if manifest.threshold is None:
        return
    cells = columns[CELL]
    counts = next(columns[statistic.column] for statistic in manifest.statistics if statistic.of == "count")
    if len(cells) and (cells[0] < 0 or cells[-1] >= schema.domain.size or not (cells[1:] > cells[:-1]).all()):
        raise refusal("its cells are not in order, or lie outside its schema")
    if (counts < manifest.threshold).any():
        raise refusal("it holds a count below its own threshold")
