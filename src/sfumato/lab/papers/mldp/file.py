"""How a file keeps a learned model: the noisy answers behind it, and its ONNX file byte by byte.

training  the noisy answer of every query that the model was trained on
asked     for each of these queries, the blocks it covers: pairs in order
aside     the noisy counts of the tiles, which were kept aside
model     the bytes of the ONNX file
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from sfumato.arrays import Whole
from sfumato.domain.blocks import Blocks
from sfumato.errors import QueryError
from sfumato.lab.papers.mldp import onnx_file
from sfumato.measurement import Measurement
from sfumato.queries import Identity, Predicates
from sfumato.releases.contents.content import Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, Text, noise_as_json, noise_record, record
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.lab.papers.mldp.content import Learned

COLUMNS = {"training": ["answer"], "asked": ["query", "block"], "aside": ["answer"], "model": ["byte"]}
MOST_BLOCKS = 2**12
MOST_QUERIES = 2**14

Starts = list[Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]]


@record
class LearnedRecord:
    """What a manifest says of a learned model."""

    queries: Literal["ranges", "predicates", "subsets", "similarity"]
    model: Literal["ridge", "gaussian", "svm", "network", "bagging", "boosting"]
    blocks: Starts
    tiles: Starts
    trained: NoiseRecord
    aside: NoiseRecord
    between: Text | None = None


def written(content: Learned) -> Written:
    """All that a file keeps."""
    queries = content.trained.queries
    assert isinstance(queries, Predicates)  # noqa: S101 (sets of blocks)
    sizes = np.diff(queries.starts)
    kept: dict[str, list[Whole]] = {
        "training": [content.trained.answers],
        "asked": [np.repeat(np.arange(queries.rows), sizes), np.asarray(queries.cells)],
        "aside": [content.aside.answers],
        "model": [np.frombuffer(content.onnx, dtype=np.uint8).astype(np.int64)],
    }
    about = {
        "queries": content.kind,
        "model": content.model,
        "blocks": [list(each) for each in content.blocks.starts],
        "tiles": [list(each) for each in content.tiles.starts],
        "trained": noise_as_json(content.trained.noise),
        "aside": noise_as_json(content.aside.noise),
        "between": content.between,
    }
    members = {name: dict(zip(COLUMNS[name], columns, strict=True)) for name, columns in kept.items()}
    return Written("learned", [_statistic(noise_record(content.trained.noise))], members, {"details": about})


def check(manifest: Manifest, schema: Schema) -> None:
    """Refuse a manifest whose parts do not go together."""
    about = details_as(LearnedRecord, manifest)
    if {name: member.columns for name, member in manifest.members.items()} != COLUMNS:
        raise refusal("its members are not those of a learned model")
    if manifest.statistics != [_statistic(about.trained)]:
        raise refusal("its statistics are not those of a learned model")
    blocks, tiles = (_blocks(schema, starts) for starts in (about.blocks, about.tiles))
    if (about.between is None) == (about.queries == "similarity") or not _kept_whole(schema, blocks, about.between):
        raise refusal("its similarities are not between values of one of its attributes")
    rows = {name: member.rows for name, member in manifest.members.items()}
    if not 1 <= rows["training"] <= MOST_QUERIES or rows["asked"] > MOST_QUERIES * blocks.size:
        raise refusal("its model was trained on more queries than Sfumato asks")
    if rows["aside"] != tiles.size or rows["model"] > onnx_file.MOST_BYTES:
        raise refusal("its members do not have the sizes of a learned model")


def check_values(columns: Columns) -> None:
    """Refuse numbers that no such file holds."""
    if any((columns[name] < 0).any() for name in ("query", "block") if name in columns):
        raise refusal("its training queries are not spelled as Sfumato spells them")
    byte = columns.get("byte")
    if byte is not None and ((byte < 0) | (byte > 255)).any():
        raise refusal("its model is not made of bytes")


def parts(
    manifest: Manifest, schema: Schema, member: Callable[[str], Columns]
) -> tuple[str, str, Blocks, Measurement, Blocks, Measurement, bytes, str | None]:
    """All of it, of a file nobody has vouched for."""
    about = details_as(LearnedRecord, manifest)
    blocks, tiles = (_blocks(schema, starts) for starts in (about.blocks, about.tiles))
    answers, asked = member("training")["answer"], member("asked")
    queries = _queries(asked["query"], asked["block"], len(answers), blocks.size)
    trained = Measurement("count", queries, answers, (about.trained.noise,))
    aside = Measurement("count", Identity(tiles.size), member("aside")["answer"], (about.aside.noise,))
    onnx = member("model")["byte"].astype(np.uint8).tobytes()
    try:
        graph = onnx_file.read(onnx)
    except QueryError as error:
        raise refusal(str(error)) from None
    if graph.features != blocks.features:
        raise refusal("its model does not take the features of its queries")
    return about.queries, about.model, blocks, trained, tiles, aside, onnx, about.between


def _queries(query: Whole, block: Whole, number: int, blocks: int) -> Predicates:
    places = query * blocks + block
    every = np.array_equal(np.unique(query), np.arange(number))
    if not every or (block >= blocks).any() or (np.diff(places) <= 0).any():
        raise refusal("its training queries are not sets of its blocks, in order")
    ends = np.searchsorted(query, np.arange(number + 1))
    return Predicates(blocks, [block[a:b] for a, b in pairwise(ends.tolist())])


def _kept_whole(schema: Schema, blocks: Blocks, between: str | None) -> bool:
    if between is None:
        return True
    names = schema.domain.names
    return between in names and len(blocks.starts[names.index(between)]) == schema.domain[between].size


def _blocks(schema: Schema, starts: Starts) -> Blocks:
    shape, size = schema.domain.shape, 1
    if len(starts) != len(shape):
        raise refusal("its blocks do not go with its schema")
    for each, cells in zip(starts, shape, strict=True):
        size *= len(each)
        if each[0] != 0 or each[-1] >= cells or any(b <= a for a, b in pairwise(each)) or size > MOST_BLOCKS:
            raise refusal("its blocks do not go with its schema")
    return Blocks(schema.domain, tuple(map(tuple, starts)))


def _statistic(noise: NoiseRecord) -> Statistic:
    return Statistic("count", "training", "answer", noise)
