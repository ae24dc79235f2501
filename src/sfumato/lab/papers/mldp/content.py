"""Release of a learned model: COUNT of any WHERE, and similarity of values, without any published cell.

Error bars are computed from held-out answers when the release is first asked. The similarity of two values is the
cosine of their counts by blocks of the other attributes, corrected for the noise that lengthens both vectors; its
interval follows from the errors of the counts to first order (the delta method).

File format:

training  the noisy answer of every query that the model was trained on
asked     for each of these queries, the blocks it covers: pairs in order
aside     the noisy counts of the tiles, which were held out
model     the bytes of the ONNX file
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from sfumato.answers.answer import result_of
from sfumato.answers.noise_sum import check_confidence
from sfumato.answers.question import Groups
from sfumato.answers.results import Estimate, Result
from sfumato.arrays import Floats, Whole
from sfumato.domain.predicates import Part, Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.forms import check_form
from sfumato.lab.papers.mldp import onnx_file
from sfumato.lab.papers.mldp.error_bars import ErrorBars, boxes_of_tiles, parts_of
from sfumato.lab.papers.mldp.onnx_file import Running, can_run, missing
from sfumato.lab.papers.mldp.training_queries import Blocks, along_axes
from sfumato.measurement import Measurement
from sfumato.queries import Identity, Predicates
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.description import example_queries
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, Text, noise_as_json, noise_record, record, refusal
from sfumato.releases.rows.coding import NOWHERE, codes_in
from sfumato.schema import Schema
from sfumato.sql import Column, Select, compile_select

if TYPE_CHECKING:
    import pyarrow as pa


COLUMNS = {"training": ["answer"], "asked": ["query", "block"], "aside": ["answer"], "model": ["byte"]}
MOST_BLOCKS = 2**12
MOST_QUERIES = 2**14

Starts = list[Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]]


@record
class LearnedRecord:
    """Manifest of a learned model."""

    queries: Literal["ranges", "predicates", "subsets", "similarity"]
    model: Literal["ridge", "gaussian", "svm", "network", "bagging", "boosting"]
    blocks: Starts
    tiles: Starts
    trained: NoiseRecord
    aside: NoiseRecord
    between: Text | None = None


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


MOST_GROUPS = 20_000  # each is a question of its own to the model
NOTE = "a model learnt from noisy answers; its error bars come from noisy answers that it was not trained on"


@dataclass(frozen=True, eq=False)
class Learned(Content):
    """A published model of counting queries.

    kind: family of the queries it was trained on. model: its name. blocks: of cells, whose shares in a query are its
    features. trained: noisy answers to queries over the blocks. aside: noisy counts of other blocks, the tiles. onnx:
    the model's own file. between: the attribute whose values `predict` compares, only where the unit is a row.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    kind: str
    model: str
    blocks: Blocks
    trained: Measurement
    tiles: Blocks
    aside: Measurement
    onnx: bytes
    between: str | None = None

    @cached_property
    def running(self) -> Running:
        return Running(self.onnx)

    @cached_property
    def error_bars(self) -> ErrorBars:
        """Conformal error bars from held-out tile counts: every box of neighbouring tiles is a test query."""
        rows, sums = boxes_of_tiles(self.blocks, self.tiles)
        misfits = sums @ self.aside.answers - self.running.predict(rows)
        noise = self.aside.noise.variance * sums.sum(axis=1)
        return ErrorBars.of(misfits, parts_of(rows, self.blocks.size), noise)

    def counts(self, asked: Sequence[tuple[Predicate, Mapping[str, int]]], confidence: float) -> list[Estimate]:
        """Estimates of the rows in each of several predicates, at one cell of some attributes each."""
        if not asked:
            return []
        exact = all(predicate.exact(self.domain) for predicate, _ in asked)
        parts: tuple[Part, ...] = ("share",) if exact else ("share", "sure", "possible")
        ends = [self._answers(asked, part) for part in parts]
        values, errors = ends[0]
        reach = self.error_bars.quantile(confidence)
        low = np.min([value - reach * error for value, error in ends], axis=0)
        high = np.max([value + reach * error for value, error in ends], axis=0)
        found = zip(*(np.maximum(each, 0.0).tolist() for each in (values, errors, low, high)), strict=True)
        return [Estimate(v, error, a, b, confidence, 0.0, error) for v, error, a, b in found]

    def _answers(self, asked: Sequence[tuple[Predicate, Mapping[str, int]]], part: Part) -> tuple[Floats, Floats]:
        rows = np.array(
            [
                self.blocks.of_boxes([along_axes(self.domain, box, fixed, part) for box in predicate.boxes])
                for predicate, fixed in asked
            ]
        )
        return self.running.predict(rows), self.error_bars.errors(parts_of(rows, self.blocks.size))

    def select(self, select: Select, confidence: float) -> Result:
        check_confidence(confidence)
        groups = Groups.of(select, self.domain)
        if len(groups.present) > MOST_GROUPS:
            raise QueryError(f"a model is asked group by group, at most {MOST_GROUPS:,}; group by fewer attributes")
        codes = {name: groups.code(name) for name in groups.names}
        fixed = [{name: int(codes[name][row]) for name in codes} for row in range(len(groups.present))]
        estimates = {}
        for column in dict.fromkeys(select.aggregates):
            predicate, grouped = _counted(column)
            asked = [(predicate, where if grouped else {}) for where in fixed]
            estimates[column] = self.counts(asked, confidence)
        return result_of(select, groups, self.domain, estimates, confidence, (NOTE,))

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        """Similarity of two values of the attribute, for pairs in the columns of its name and `other`."""
        if self.between is None:
            return super().predict(rows, confidence)
        check_confidence(confidence)
        return with_similarities(self, self.between, rows, confidence)

    @property
    def about(self) -> About:
        most, noise = int(self.trained.queries.l1), float(self.trained.noise.parameter)
        learnt = (
            f"a {self.model} model learnt from {len(self.trained.answers):,} noisy answers ({self.kind}; one row is in "
            f"{most} of them, so each has noise of scale {noise:.4g}) answers COUNT of any condition"
        )
        return About(
            self.domain.names,
            f"a {self.model} model of {self.blocks.size:,} blocks of {self.domain.size:,} cells",
            (self.trained, self.aside),
            NOTE,
            (learnt, self._how_good(), *([] if self.between is None else [UNIT.format(self.between)])),
            tuple(text for text in example_queries(self.schema) if _counts(text, self.schema)),
        )

    def _how_good(self) -> str:
        if not can_run():
            return missing()
        rows, _ = boxes_of_tiles(self.blocks, self.tiles)
        errors = self.error_bars.errors(parts_of(rows, self.blocks.size))
        return f"its answers to ranges are off by about {np.sqrt((errors**2).mean()):,.3g} rows (root mean square)"

    def write(self) -> Written:
        queries = self.trained.queries
        assert isinstance(queries, Predicates)  # noqa: S101 (sets of blocks)
        sizes = np.diff(queries.starts)
        kept: dict[str, list[Whole]] = {
            "training": [self.trained.answers],
            "asked": [np.repeat(np.arange(queries.rows), sizes), np.asarray(queries.cells)],
            "aside": [self.aside.answers],
            "model": [np.frombuffer(self.onnx, dtype=np.uint8).astype(np.int64)],
        }
        about = {
            "queries": self.kind,
            "model": self.model,
            "blocks": [list(each) for each in self.blocks.starts],
            "tiles": [list(each) for each in self.tiles.starts],
            "trained": noise_as_json(self.trained.noise),
            "aside": noise_as_json(self.aside.noise),
            "between": self.between,
        }
        members = {name: dict(zip(COLUMNS[name], columns, strict=True)) for name, columns in kept.items()}
        return Written("learned", [_statistic(noise_record(self.trained.noise))], members, {"details": about})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        about = details_as(LearnedRecord, manifest)
        check_form(manifest, COLUMNS, [_statistic(about.trained)], "a learned model")
        blocks, tiles = (_blocks(schema, starts) for starts in (about.blocks, about.tiles))
        if (about.between is None) == (about.queries == "similarity") or not _kept_whole(schema, blocks, about.between):
            raise refusal("its similarities are not between values of one of its attributes")
        rows = {name: member.rows for name, member in manifest.members.items()}
        if not 1 <= rows["training"] <= MOST_QUERIES or rows["asked"] > MOST_QUERIES * blocks.size:
            raise refusal("its model was trained on more queries than Sfumato asks")
        if rows["aside"] != tiles.size or rows["model"] > onnx_file.MOST_BYTES:
            raise refusal("its members do not have the sizes of a learned model")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        if any((columns[name] < 0).any() for name in ("query", "block") if name in columns):
            raise refusal("its training queries are not spelled as Sfumato spells them")
        byte = columns.get("byte")
        if byte is not None and ((byte < 0) | (byte > 255)).any():
            raise refusal("its model is not made of bytes")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Learned:
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
        return cls(schema, about.queries, about.model, blocks, trained, tiles, aside, onnx, about.between)


def _counts(text: str, schema: Schema) -> bool:
    """Whether a statement asks for counts alone."""

    try:
        return all(_counted(column) for column in compile_select(text, schema).aggregates)
    except QueryError:
        return False


def _counted(column: Column) -> tuple[Predicate, bool]:
    """Predicate that a COUNT counts, and whether GROUP BY splits it; a QueryError for other aggregates."""
    plain = column.denominator is None and column.rule is None and len(column.numerator) == 1 and column.scale == 1.0
    amount = column.numerator[0] if plain else None
    if amount is None or amount.of is not None or amount.present is not None or amount.factor != 1.0:
        raise QueryError(
            f"a learned model answers COUNT(*) with any WHERE, not {column.name}; release with auto for the rest"
        )
    return amount.predicate, amount.grouped


OTHER = "other"
UNIT = "similarities of {}: one row is protected, which hides single rows and not who is in the table"


def with_similarities(content: Learned, between: str, rows: pa.Table, confidence: float) -> pa.Table:
    """Append the columns similarity and its interval's ends to rows; null for values that are not listed."""
    import pyarrow as pa

    if OTHER not in rows.column_names:
        raise QueryError(f"similarity is asked for pairs: rows with the columns {between!r} and {OTHER!r}")
    one = codes_in(rows, content.schema, [between])[between]
    second = rows.select([OTHER]).rename_columns([between])
    two = codes_in(second, content.schema, [between])[between]
    profiles = profiles_of(content, between)
    # A block is a training query of its own, and the model no better than its noise; the error bars are of long boxes.
    one_block = content.error_bars.errors(np.array([[0.0, 1.0, 1.0]]))[0]
    error = max(float(one_block), float(np.sqrt(content.trained.noise.variance)))
    reach = float(ndtri(0.5 + confidence / 2))
    known = (one != NOWHERE) & (two != NOWHERE)
    found = [
        similarity(profiles[a], profiles[b], error, reach) if there else (None, None, None)
        for a, b, there in zip(one, two, known, strict=True)
    ]
    for place, name in enumerate(("similarity", "similarity_low", "similarity_high")):
        rows = rows.append_column(name, pa.array([each[place] for each in found], pa.float64()))
    return rows


def profiles_of(content: Learned, between: str) -> Floats:
    """Predicted counts of blocks of the other attributes for each value of an attribute, (values, blocks)."""
    blocks = content.blocks
    counts = content.running.predict(blocks.of_sets(np.eye(blocks.size))).reshape(blocks.shape)
    place = content.domain.place(between)
    return np.asarray(np.moveaxis(counts, place, 0).reshape(blocks.shape[place], -1))


def similarity(a: Floats, b: Floats, error: float, reach: float) -> tuple[float, float, float]:
    """Cosine of two vectors of counts with standard error `error` each, and its interval of `reach` standard errors."""
    lengths = [max(float(x @ x) - len(x) * error**2, error**2, 1e-9) for x in (a, b)]
    scale = float(np.sqrt(lengths[0] * lengths[1]))
    value = float(a @ b) / scale
    slopes = (b / scale - value * a / lengths[0], a / scale - value * b / lengths[1])
    spread = error * float(np.sqrt(sum(float(slope @ slope) for slope in slopes)))
    low, high = value - reach * spread, value + reach * spread
    return min(max(value, 0.0), 1.0), min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
