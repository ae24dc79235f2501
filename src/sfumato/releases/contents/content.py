"""Interface of release contents, and the registry of contents by kind.

Files, SQL, the command line, sampling, the audit and the planner use a content through `Content` alone, so a new kind
of release is one file and one line in `KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sfumato.arrays import Floats
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Queries
from sfumato.queries.workload import places_among
from sfumato.releases.file.manifest import Manifest, Statistic
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:  # publishing needs neither SQL nor intervals nor rows, and starts the sooner without
    from pathlib import Path

    import pyarrow as pa

    from sfumato.answers.evaluate import View
    from sfumato.answers.guaranteed_columns import Source
    from sfumato.answers.question import Kinds, Manner
    from sfumato.answers.results import Estimate, Result
    from sfumato.releases.rows.model import RowModel
    from sfumato.sql import Select

# How a manifest names a content, and where it lives. A module is imported when a file or a mechanism needs it.
KINDS = {
    "cube": "sfumato.releases.contents.cube.Cube",
    "fitted-cube": "sfumato.releases.contents.cube.Cube",
    "sparse-cube": "sfumato.releases.contents.sparse_cube.SparseCube",
    "margins": "sfumato.models.margins.content.Margins",
    "nested-margins": "sfumato.models.margins.nested.NestedMargins",
    "summed-margins": "sfumato.models.margins.nested.SummedMargins",
    "parity": "sfumato.lab.papers.parity.content.ParityCube",
    "rule": "sfumato.lab.papers.pac.content.Rule",
    "quantiles": "sfumato.lab.papers.quantiles.content.Quantiles",
    "coefficients": "sfumato.lab.papers.fourier.content.Coefficients",
    "conjunctions": "sfumato.lab.papers.conjunctions.content.Conjunctions",
    "classifier": "sfumato.lab.papers.sq.content.Classifier",
    "halfspaces": "sfumato.lab.papers.halfspace.content.Halfspaces",
    "learned": "sfumato.lab.papers.mldp.content.Learned",
}


@dataclass(frozen=True)
class About:
    """Self-description of a content.

    extent: amount published, in words. measured: all noisy measurements it rests on. errors: origin of its answers'
    errors, in a sentence. findings: sentences on what it has learnt. examples: queries that it answers, where these are
    not counts of arbitrary cells.
    """

    attributes: tuple[str, ...]
    extent: str
    measured: tuple[Measurement, ...]
    errors: str
    findings: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Written:
    """File form of a content. further: manifest fields that only this kind has; `details` is for new ones."""

    kind: str
    statistics: list[Statistic]
    members: Mapping[str, Columns]
    further: Mapping[str, Any] = field(default_factory=dict)


NOT_UNBIASED = (
    "ask without unbiased, or release by cells, hierarchical, residual or another mechanism that does not shrink"
)


class Content(ABC):
    """Published content that answers queries. It holds no private data."""

    answers_linear: ClassVar[bool] = False  # whether linear queries over the cells have answers
    answers_counts: ClassVar[bool] = True  # whether counts by any attributes have answers
    uses: ClassVar[frozenset[str]] = frozenset()  # fields of a manifest that only some kinds have
    compared: ClassVar[str] = "cells"  # what `spread_beside` is of, in words
    schema: Schema

    @property
    def domain(self) -> Domain:
        return self.schema.domain

    @property
    def newest(self) -> Content:
        """Content whose typical errors are described to readers: of a series, its newest part."""
        return self

    def complete(self) -> Content:
        """Content that answers for every column and value; of a series that has grown, the parts that have all."""
        return self

    @property
    def table_schema(self) -> Schema:
        """Schema of the table that was read, whose rules of counting hold; of a series, that of the newest part."""
        return self.schema

    @property
    def threshold(self) -> int | None:
        """Least noisy count that was published; None where every cell is."""
        return None

    @property
    def independent(self) -> bool:
        """Whether counts of disjoint cells have independent noises."""
        return False

    def together(self, select: Select, confidence: float) -> float | None:
        """Confidence of each number of an answer for simultaneous coverage; None where it is unknown."""
        return None

    def as_measured(self) -> Content:
        """Content with the unbiased measurements in place of model-based estimates."""
        raise QueryError(f"this kind of release holds no unbiased counts; {NOT_UNBIASED}")

    def leaning(self, others: Sequence[Content], before: int) -> Content:
        """Estimates of one period that borrow from others, of which `before` are earlier; unchanged by default.

        Post-processing of published numbers: nothing is spent, and guaranteed intervals stay as they are.
        """
        return self

    def spread_beside(self, other: Content) -> float | None:
        """Ratio of typical standard errors: with borrowing from other periods over without."""
        return None

    def as_of(self, period: str) -> Content:
        """Restrict a series to the parts up to a period, whose estimates borrow strength from each other."""
        raise QueryError("this release is no series, so no period of it leans on others; ask without AS OF")

    @abstractmethod
    def select(self, select: Select, confidence: float) -> Result:
        """Answer a compiled SELECT, with an interval for every number."""

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        """Answer a compiled SELECT with the kind of interval in `manner`."""
        if manner.interval != "typical" or manner.population:
            from sfumato.answers.noise_sum import NONE
            from sfumato.answers.question import NO_SAMPLE

            raise QueryError(NO_SAMPLE if manner.population else NONE)
        return self.select(select, confidence)

    def some_counts(
        self, axes: Sequence[Axis], few: int, confidence: float = 0.95, *, compared: bool = True
    ) -> list[Estimate]:
        """Counts of a few combinations of values of some attributes; the total where there are none.

        compared: see `Manner`; whoever wants standard errors alone saves half of the work without.
        """
        from sfumato.answers.question import Manner
        from sfumato.answers.results import Estimate
        from sfumato.sql import Amount, Column, Select

        columns = []
        for number in range(few if axes else 1):
            where = Predicate.everything()
            for more, axis in enumerate(axes):
                code = int(places_among(axis.places, number + more + 1)[-1])
                where &= Predicate.where(axis.name, axis.values_in(code))
            columns.append(Column(f"count {number}", (Amount(where, None),), scale=self.schema.count_step))
        select = Select(tuple(columns), (), Predicate.everything())
        rows = self.select_as(select, confidence, Manner(compared=compared)).rows
        return [number for row in rows for number in row if isinstance(number, Estimate)]

    def answer_text(self, sql: str, confidence: float) -> Result | None:
        """Answer a statement that is no sum over cells, from its text; None where it is to be compiled as usual."""
        return None

    def halfspace(self, weights: Mapping[str, float], threshold: float, confidence: float) -> Estimate:
        """Estimate the number of rows with a weighted sum of attributes above a threshold."""
        raise QueryError("this release does not count rows along lines; make one that does, see docs/halfspace.md")

    def linear(self, queries: Queries, confidence: float, interval: str = "typical") -> Sequence[Estimate]:
        """Answer linear queries over the cells' counts, (queries, cells). interval: kind of interval."""
        raise QueryError("a release without a number for every cell answers SQL, and no linear queries; ask it by SQL")

    def cells(self) -> Floats:
        """Estimated count of every cell of the domain, (cells,)."""
        raise QueryError("this kind of release does not lay out its cells; ask it by SQL")

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        """Predictions of a published model for rows: the rows with further columns."""
        raise QueryError("this release holds no model to predict with; ask it by SQL")

    @property
    def row_model(self) -> RowModel:
        """Sampler of synthetic rows, made once; drawing of values and files is shared by all kinds."""
        raise QueryError("this kind of release cannot draw rows; release margins or cells for that")

    @property
    @abstractmethod
    def about(self) -> About:
        """Description of the content: extent, measurements, origin of errors, findings, examples."""

    @abstractmethod
    def write(self) -> Written:
        """File form of the content. The audit sees nothing else, so nothing else may be published."""

    def copy_to(self, path: Path) -> Path | None:
        """Write a content that is a file of its own kind, as a series is, to another place; None of all others."""
        return None

    @classmethod
    @abstractmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        """Refuse a manifest whose parts are inconsistent for this kind, before any member is read."""

    @classmethod
    @abstractmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Refuse values that no release of this kind has. columns: of one member."""

    @classmethod
    @abstractmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Self:
        """Restore the content from an untrusted file with a checked manifest. member: returns its columns by name."""


class ContentOfCells(Content):
    """Content that shows cells along the attributes of a query, for the evaluator in answers/evaluate.py."""

    @abstractmethod
    def view(self, kinds: Kinds) -> View:
        """Cells along some attributes, with the source of their errors.

        kinds: the attributes, with the class of each of their values; values of one class may be merged.
        """

    def measured_view(self, kinds: Kinds, sets: Iterable[frozenset[str]]) -> View:
        """Cells as measured, such that sums over functions of each set of attributes are unbiased; else refused."""
        measured = self.as_measured()
        if not isinstance(measured, ContentOfCells):
            raise QueryError(f"this kind of release holds no unbiased counts; {NOT_UNBIASED}")
        return measured.view(kinds)

    @property
    def groups_by_class(self) -> bool:
        """Whether a view's cells are single values or exactly the requested classes, so that these can be groups."""
        return False

    def select(self, select: Select, confidence: float) -> Result:
        from sfumato.answers.question import Manner

        return self.select_as(select, confidence, Manner())

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        from sfumato.answers.answer import select_as

        return select_as(self, select, confidence, manner)

    def exact_at(self, confidence: float) -> float | None:
        """Confidence at which typical intervals are guaranteed at the given one; None where they are not."""
        return None

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        """Noise and multiplicity of the longest-tailed sum that is approximated as normal; None where none is."""
        return None

    def sure(self, kinds: Kinds) -> Source:
        """Source of guaranteed bounds for the cells of a view; a QueryError where there is none."""
        from sfumato.answers.noise_sum import NONE

        raise QueryError(NONE)


def kind_named(kind: str) -> type[Content]:
    """Content class of a manifest's kind."""
    if kind not in KINDS:
        raise refusal("it holds a kind of release that this Sfumato does not know", "upgrade to open it")
    module, _, name = KINDS[kind].rpartition(".")
    found: type[Content] = getattr(import_module(module), name)
    return found
