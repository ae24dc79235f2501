"""File form of marginals: tables one after the other, with lists of their statistics and attributes.

    tables      for each table: its statistic and number of attributes; `spread` if it has no cells of its own
    attributes  the attributes of all tables, by their place in the schema
    cells       for each cell of all tables: estimate, and standard errors of noise and model in 1024ths of a row
    measured    for each measurement: its statistic, number of attributes, noise, number of answers; contrasts are used
                for attributes of up to `contrasts` values, and query rows were scaled to `length`
    along       the attributes of all measurements
    answers     the noisy answers of all measurements
    blocks      for each set of attributes with errors of blocks: its statistic, number of attributes, whether it stands
                for all sets of its order, spreads by noise and by model of halves, quarters, eighths and sixteenths (or
                no finer than eighths), those of stripes, and the contrast of its halves, if it has one
    among       the attributes of these sets

Files are read with suspicion: whatever Sfumato would not have written is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sfumato.answers.fit import PARTS
from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.linear.strategies.residual_basis import FEW_VALUES, levelled
from sfumato.models.linear.strategies.residual_basis import tables as tables_by_contrasts
from sfumato.models.margins.scales import FINEST, LEVELS, Scaled, Spreads, in_parts
from sfumato.models.margins.table import Noisy, Places, Table, pooled
from sfumato.queries import Identity, Queries
from sfumato.releases.contents.content import ContentOfCells, Written
from sfumato.releases.file import members
from sfumato.releases.file.fit_records import from_whole_numbers, in_whole_numbers
from sfumato.releases.file.manifest import BLOCKS, Manifest, Statistic, details_as
from sfumato.releases.file.members import CELLS, Columns, parts_column
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.schema import Schema

Methods = tuple[tuple[int, int], ...]  # for each measurement: contrasts up to so many values, and the length of rows

ESTIMATE = "estimate"
COLUMNS = {
    "tables": ["statistic", "attributes", "spread"],
    "attributes": ["attribute"],
    CELLS: [ESTIMATE, parts_column(ESTIMATE), "noise", "model"],
    "measured": ["statistic", "attributes", "noise", "answers", "contrasts", "length"],
    "along": ["attribute"],
    "answers": ["answer"],
}
FEWEST_LEVELS = 3  # of blocks; files of versions that told no sixteenths have so many
CONTRASTED = 3  # attributes of a set whose contrast is kept
CELL_BY_CELL = 0, 0  # how margins are measured that need no contrasts
MOST_LENGTH = 2**50  # that rows were brought to
# Statistics that only measurements have: how far guesses lie from the counts, and signed sums of rows.
MISFIT, CONTRAST = "misfit", "contrast"
MOST_GUESSED = 2**14  # values of guesses that a manifest has room for


@record
class MarginsRecord:
    """Entry of a manifest: how tables are joined, noises, spreads by order, and guesses of one-way margins."""

    unbiased: bool
    noises: list[NoiseRecord]
    spreads: list[list[int]]
    guessed: list[list[int]] = field(default_factory=list)  # all rows and one-way margins, in 1024ths


class Kept(NamedTuple):
    """Contents of a file of marginals, without the schema; fields as in `Marginals`."""

    tables: Mapping[str, Mapping[Places, Table]]
    spreads: Mapping[str, Spreads]
    measured: tuple[tuple[Places, Measurement], ...]
    unbiased: bool
    asked: Methods
    guessed: tuple[Floats, ...]


def of_blocks(levels: int) -> dict[str, list[str]]:
    """Column names of the errors of blocks at a number of levels."""
    spreads = [f"{part} {level}" for part in ("noise", "model") for level in range(levels)]
    stripes = [f"stripe {axis}" for axis in range(2)]
    listed = ["statistic", "attributes", "all", *spreads, *stripes, "contrasted", "contrast"]
    return {BLOCKS: listed, "among": ["attribute"]}


def written(schema: Schema, content: Kept) -> Written:
    """Members and manifest entry of a content of marginals."""
    statistics = list(content.tables)
    listed = [(of, table) for of, tables in content.tables.items() for table in tables.values()]
    single = [(of, places, spread) for of, each in content.spreads.items() for places, spread in each.single.items()]
    tables = [(statistics.index(of), len(table.places), 0) for of, table in listed]
    tables += [(statistics.index(of), len(places), in_parts(spread)) for of, places, spread in single]
    sets = [table.places for _, table in listed] + [places for _, places, _ in single]
    estimates, parts = in_whole_numbers(np.concatenate([table.estimate.reshape(-1) for _, table in listed]))
    variances = [table.noise for _, table in listed], [table.model for _, table in listed]
    errors = (np.concatenate([np.sqrt(variance).reshape(-1) for variance in each]) for each in variances)
    noises = {noise: place for place, noise in enumerate(dict.fromkeys(one.noise for _, one in content.measured))}
    kinds = [*statistics, MISFIT, CONTRAST]
    methods = content.asked or (CELL_BY_CELL,) * len(content.measured)
    measured = [
        (kinds.index(one.of), len(places), noises[one.noise], len(one.answers), *how)
        for (places, one), how in zip(content.measured, methods, strict=True)
    ]
    columns: dict[str, list[Whole]] = {
        "tables": _columns(tables, 3),
        "attributes": [_flat(sets)],
        CELLS: [estimates, parts, *(np.rint(PARTS * each).astype(np.int64) for each in errors)],
        "measured": _columns(measured, 6),
        "along": [_flat(places for places, _ in content.measured)],
        "answers": [np.concatenate([np.zeros(0, dtype=np.int64), *(one.answers for _, one in content.measured)])],
    }
    by_scale = [(*each.blocks_by_order.values(), *each.blocks.values()) for each in content.spreads.values()]
    levels = max((len(scaled.noise) for every in by_scale for scaled in every), default=LEVELS)
    named = COLUMNS | of_blocks(levels)
    if blocks := [row for of, each in content.spreads.items() for row in _blocks(statistics.index(of), each)]:
        columns[BLOCKS] = _columns([row for row, _ in blocks], len(named[BLOCKS]))
        columns["among"] = [_flat(places for _, places in blocks)]
    kept = {name: dict(zip(named[name], each, strict=True)) for name, each in columns.items()}
    orders = [content.spreads.get(of, Spreads()).by_order for of in statistics]
    about: dict[str, Any] = {
        "unbiased": content.unbiased,
        "noises": [noise_as_json(noise) for noise in noises],
        "spreads": [[in_parts(spread) for spread in each] for each in orders],
    }
    if content.guessed:
        about["guessed"] = [np.rint(PARTS * each).astype(np.int64).tolist() for each in content.guessed]
    return Written("margins", _statistics(schema, statistics), kept, {"details": about})


def check(manifest: Manifest, schema: Schema) -> None:
    """Validate a manifest's members and statistics; refuse those that marginals do not have."""
    details_as(MarginsRecord, manifest)
    columns = {name: member.columns for name, member in manifest.members.items()}
    if columns not in (COLUMNS, *(COLUMNS | of_blocks(levels) for levels in range(FEWEST_LEVELS, LEVELS + 1))):
        raise refusal("its members are not those of margins")
    if manifest.statistics != _statistics(schema, list(schema.units)):
        raise refusal("its statistics are not those of its schema")


def check_values(columns: Columns) -> None:
    """Validate signs and ranges of single columns; consistency between columns is checked on reading."""
    below = [
        name for name, each in columns.items() if name not in (ESTIMATE, "answer", "contrast") and (each < 0).any()
    ]
    parts = columns.get(parts_column(ESTIMATE))
    if below or (parts is not None and (parts >= PARTS).any()):
        raise refusal("its margins are not spelled as Sfumato spells them")


def read(manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Kept:
    """Decode marginals from an untrusted file."""
    about, statistics = details_as(MarginsRecord, manifest), list(schema.units)
    if len(about.spreads) != len(statistics) or any(spread < 0 for each in about.spreads for spread in each):
        raise refusal("its manifest has spreads that do not go with its statistics")
    tables: dict[str, dict[Places, Table]] = {of: {} for of in statistics}
    single: dict[str, dict[Places, float]] = {of: {} for of in statistics}
    listed, cells = member("tables"), member(CELLS)
    estimates = from_whole_numbers(cells[ESTIMATE], cells[parts_column(ESTIMATE)])
    numbers = (estimates, *((cells[name] / PARTS) ** 2 for name in ("noise", "model")))
    start, shape = 0, schema.domain.shape
    sets = _sets(listed["attributes"], member("attributes")["attribute"], len(shape))
    for of, places, spread in zip(_named(listed["statistic"], statistics), sets, listed["spread"], strict=True):
        if places in tables[of] or places in single[of]:
            raise refusal("it lists a table twice")
        if spread:  # never 0, which stands for a table with cells
            single[of][places] = int(spread) / FINEST
            continue
        sizes = [shape[place] for place in places]
        end = start + prod(sizes)
        if end > len(estimates):
            raise refusal("its tables have more cells than it holds")
        tables[of][places] = Table(places, *(each[start:end].reshape(sizes) for each in numbers))
        start = end
    if start != len(estimates):
        raise refusal("it holds cells of no table")
    _check_whole(tables, len(shape), about.unbiased)
    scaled = _read_blocks(statistics, member, len(shape)) if BLOCKS in manifest.members else {}
    spreads = {
        of: Spreads(tuple(spread / FINEST for spread in each), single[of], *scaled.get(of, ({}, {}, {})))
        for of, each in zip(statistics, about.spreads, strict=True)
    }
    measured = tuple(_measurements(about, [*statistics, MISFIT, CONTRAST], member, shape))
    listed = member("measured")
    methods = tuple(zip(listed["contrasts"].tolist(), listed["length"].tolist(), strict=True))
    if about.guessed and [len(each) for each in about.guessed] != [1, *shape]:
        raise refusal("its guesses do not go with its schema")
    if any(not 0 <= value < MOST_LENGTH for each in about.guessed for value in each):
        raise refusal("its guesses are not as Sfumato makes them")
    guessed = tuple(np.array(each, dtype=np.float64) / PARTS for each in about.guessed)
    return Kept(tables, spreads, measured, about.unbiased, methods, guessed)


def _blocks(statistic: int, spreads: Spreads) -> Iterator[tuple[tuple[int, ...], Places]]:
    """Rows for the block spreads of a statistic, each with its attributes (none if it stands for an order)."""
    listed: list[tuple[Places, int, Scaled]] = [
        ((), order, scaled) for order, scaled in spreads.blocks_by_order.items()
    ]
    listed += [(places, len(places), scaled) for places, scaled in spreads.blocks.items()]
    for places, order, scaled in listed:
        stripes = (*scaled.stripes, 0.0, 0.0)[:2]
        numbers = [round(spread * FINEST) for spread in (*scaled.noise, *scaled.model, *stripes)]
        contrast = spreads.contrasts.get(places) if places else None
        flagged = (0, 0) if contrast is None else (1, round(contrast))
        yield (statistic, order, int(not places), *numbers, *flagged), places


def _read_blocks(
    statistics: list[str], member: Callable[[str], Columns], axes: int
) -> dict[str, tuple[dict[int, Scaled], dict[Places, Scaled], dict[Places, float]]]:
    """Read block spreads by statistic: of all sets of an order, of single sets, and contrasts."""
    listed = member(BLOCKS)
    result: dict[str, tuple[dict[int, Scaled], dict[Places, Scaled], dict[Places, float]]] = {}
    if (listed["all"] > 1).any() or (listed["contrasted"] > 1).any() or (listed["attributes"] < 2).any():
        raise refusal("its errors of blocks are not spelled as Sfumato spells them")
    sets = _sets(np.where(listed["all"] > 0, 0, listed["attributes"]), member("among")["attribute"], axes)
    levels = sum(name.startswith("noise ") for name in listed)
    spreads = [[int(entry) / FINEST for entry in listed[name].tolist()] for name in of_blocks(levels)[BLOCKS][3:-2]]
    orders, flags, contrasts = (listed[name].tolist() for name in ("attributes", "contrasted", "contrast"))
    for row, (of, places) in enumerate(zip(_named(listed["statistic"], statistics), sets, strict=True)):
        by_order, single, kept = result.setdefault(of, ({}, {}, {}))
        entry = [numbers[row] for numbers in spreads]
        stripes = tuple(entry[2 * levels :]) if orders[row] == 2 else ()
        scaled = Scaled(tuple(entry[:levels]), tuple(entry[levels : 2 * levels]), stripes)
        if places in single or (not places and orders[row] in by_order):
            raise refusal("it lists the errors of a set's blocks twice")
        if places:
            single[places] = scaled
        else:
            by_order[orders[row]] = scaled
        if flags[row]:
            if len(places) != CONTRASTED:
                raise refusal("it has contrasts of sets that have none")
            kept[places] = float(contrasts[row])
    return result


def _check_whole(tables: Mapping[str, Mapping[Places, Table]], axes: int, unbiased: bool) -> None:
    """Refuse tables without a total or a one-way margin, and negative counts where none can be."""
    for by_places in tables.values():
        if () not in by_places or (not unbiased and any((axis,) not in by_places for axis in range(axes))):
            raise refusal("it lacks the total or a one-way margin of a statistic")
    if not unbiased and any((table.estimate < 0).any() for table in tables["count"].values()):
        raise refusal("it holds negative counts, where none can be")


def _measurements(
    about: MarginsRecord, kinds: list[str], member: Callable[[str], Columns], shape: Sequence[int]
) -> Iterator[tuple[Places, Measurement]]:
    """Decode the measurements, each with its attributes."""
    listed, answers = member("measured"), member("answers")["answer"]
    sets = _sets(listed["attributes"], member("along")["attribute"], len(shape))
    ends = np.cumsum(listed["answers"])
    if (listed["noise"] >= len(about.noises)).any() or int(ends[-1] if len(ends) else 0) != len(answers):
        raise refusal("its measurements do not go with their noises or answers")
    named = _named(listed["statistic"], kinds)
    if (listed["contrasts"] > FEW_VALUES).any() or (listed["length"] > MOST_LENGTH).any():
        raise refusal("its measurements are not as Sfumato makes them")
    numbers = (listed[name].tolist() for name in ("noise", "answers", "contrasts", "length"))
    for of, places, noise, size, few, length, end in zip(named, sets, *numbers, ends.tolist(), strict=True):
        if size < 1:
            raise refusal("it lists a measurement without answers")
        queries = _queries(tuple(shape[place] for place in places), few, length, size)
        yield places, Measurement(of, queries, answers[end - size : end], (about.noises[noise].noise,))


def _queries(sizes: tuple[int, ...], few: int, length: int, rows: int) -> Queries:
    """Query matrix of a measured margin: its cells, or contrasts of them."""
    if not few:
        return Identity(rows)
    if prod(size - 1 if size <= few else size for size in sizes) != rows:
        raise refusal("its measurements do not have the answers that they ask for")
    queries = tables_by_contrasts(sizes, few)
    return levelled(queries, length) if length else queries


def _sets(orders: Whole, flat: Whole, axes: int) -> list[Places]:
    """Split a flat list of attributes into sets by their orders."""
    if int(orders.sum()) != len(flat) or (orders > axes).any() or (flat >= axes).any():
        raise refusal("its lists of attributes do not go with its schema")
    ends = np.cumsum(orders)
    sets = [tuple(flat[end - order : end].tolist()) for order, end in zip(orders, ends, strict=True)]
    if any(places != tuple(sorted(set(places))) for places in sets):
        raise refusal("its lists of attributes are not in order")
    return sets


def _named(codes: Whole, names: list[str]) -> list[str]:
    """Names of statistics by their codes in the file."""
    if (codes >= len(names)).any():
        raise refusal("its tables are of statistics that its schema does not have")
    return [names[code] for code in codes]


def _statistics(schema: Schema, statistics: list[str]) -> list[Statistic]:
    """Manifest entries of the statistics."""
    found = (members.statistic(of, schema, None) for of in statistics)
    return [Statistic(one.of, CELLS, ESTIMATE, None, one.step, one.centre) for one in found]


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Whole]:
    """Transpose rows of integers into columns."""
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T.copy())


def _flat(sets: Iterable[Places]) -> Whole:
    """Attributes of all sets, one after the other."""
    return np.array([place for places in sets for place in places], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Marginals(ContentOfCells):
    """Marginal tables by statistic and axes; () is the total, and every attribute has a one-way table.

    spreads: overdispersion of sets without a table, by statistic. measured: all noisy answers, with the axes of each.
    unbiased: tables are as measured, may be negative, and are joined by adding ANOVA components; components of no table
    are then unknown. asked: method of each measurement (`Methods`), empty if all are cell by cell. guessed: number of
    all rows and one-way margins, with whose products the first misfits compare pairs, for guaranteed intervals. shared:
    by axes, where estimates borrow from other periods (borrowing.py), covariance by cell of two periods' errors, mean
    over pairs of periods. lags: ratio of the covariance at each lag to that mean, of all pairs of axes, (periods,).
    """

    uses: ClassVar[frozenset[str]] = frozenset({"details"})
    compared: ClassVar[str] = "cells of two columns"

    schema: Schema
    tables: Mapping[str, Mapping[Places, Table]]
    spreads: Mapping[str, Spreads] = field(default_factory=dict)
    measured: tuple[tuple[Places, Measurement], ...] = ()
    unbiased: bool = False
    asked: Methods = ()
    guessed: tuple[Floats, ...] = ()
    shared: Mapping[Places, Floats] = field(default_factory=dict)
    lags: Floats | None = None

    def __post_init__(self) -> None:
        """Round to the digits of a file, so that answers are the same before and after it."""
        tables = {of: {p: table.rounded() for p, table in every.items()} for of, every in self.tables.items()}
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "spreads", {of: each.rounded() for of, each in self.spreads.items()})
        if sum(map(len, self.guessed)) > MOST_GUESSED:
            object.__setattr__(self, "guessed", ())

    @cached_property
    def noisy(self) -> Mapping[Places, Noisy]:
        """Noisy counts of one and two attributes, pooled over all measurements of cells that contain them."""
        listed, shape = [], self.domain.shape
        for places, one in self.measured:
            sizes = [shape[place] for place in places]
            if one.of == "count" and places and isinstance(one.queries, Identity) and len(one.answers) == prod(sizes):
                listed.append((places, (one.answers.astype(np.float64).reshape(sizes), one.noise.continuous_variance)))
        sets = {part for places, _ in listed for order in (1, 2) for part in combinations(places, order)}
        return {places: pooled(listed, places) for places in sorted(sets)}

    def write(self) -> Written:
        kept = self.tables, self.spreads, self.measured, self.unbiased, self.asked, self.guessed
        return written(self.schema, Kept(*kept))

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        check(manifest, schema)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        check_values(columns)
