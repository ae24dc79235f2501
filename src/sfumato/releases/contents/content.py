"""What every content of a release can do, and the table of contents by kind.

A release promises; its content knows. Files, SQL, the command line, sampling, the audit and the planner ask a content
through what stands here, so that a new kind of release is a file beside this one and a line in `KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Queries
from sfumato.releases.file.manifest import Manifest, Statistic
from sfumato.releases.file.members import Columns
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:  # publishing needs neither SQL nor intervals nor rows, and starts the sooner without
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
    """What a content says of itself.

    extent: how much is published, in words. measured: everything the curator handed out for it. errors: how the errors
    of its answers arise, in a sentence. findings: what it has learnt, a sentence each, besides what it can be asked.
    examples: questions that it answers, where these are not counts of any cells.
    """

    attributes: tuple[str, ...]
    extent: str
    measured: tuple[Measurement, ...]
    errors: str
    findings: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Written:
    """What goes into a file. further: fields of the manifest that only this kind has; `details` is for new ones."""

    kind: str
    statistics: list[Statistic]
    members: Mapping[str, Columns]
    further: Mapping[str, Any] = field(default_factory=dict)


NOT_UNBIASED = (
    "ask without unbiased, or release by cells, hierarchical, residual or another mechanism that does not shrink"
)


class Content(ABC):
    """Something published that answers questions. It holds no private data."""

    answers_linear: ClassVar[bool] = False  # whether linear queries over the cells have answers
    answers_counts: ClassVar[bool] = True  # whether counts by any attributes have answers
    uses: ClassVar[frozenset[str]] = frozenset()  # fields of a manifest that only some kinds have
    schema: Schema

    @property
    def domain(self) -> Domain:
        return self.schema.domain

    @property
    def threshold(self) -> int | None:
        """The least noisy count that was published, where not every cell is."""
        return None

    @property
    def independent(self) -> bool:
        """Whether counts of different cells carry noises that have nothing to do with each other."""
        return False

    def together(self, select: Select, confidence: float) -> float | None:
        """The confidence of each number with which all of an answer hold together; None where that is not known."""
        return None

    def as_measured(self) -> Content:
        """The same without what a model made of its measurements: counts and sums are unbiased."""
        raise QueryError(f"this kind of release holds no unbiased counts; {NOT_UNBIASED}")

    @abstractmethod
    def select(self, select: Select, confidence: float) -> Result:
        """Answer a compiled SELECT, with an interval for every number."""

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        """The same with intervals of a kind that is asked for."""
        if manner.interval != "typical":
            from sfumato.answers.noise_sum import NONE

            raise QueryError(NONE)
        return self.select(select, confidence)

    def answer_text(self, sql: str, confidence: float) -> Result | None:
        """Answer a statement that is no sum over cells, as it was written; None where it is to be compiled as usual."""
        return None

    def halfspace(self, weights: Mapping[str, float], threshold: float, confidence: float) -> Estimate:
        """How many rows have a weighted sum of attributes above a threshold."""
        raise QueryError("this release does not count rows along lines; make one that does, see docs/halfspace.md")

    def linear(self, queries: Queries, confidence: float, interval: str = "typical") -> Sequence[Estimate]:
        """Answer linear queries over the cells' counts. interval: of which kind."""
        raise QueryError("a release without a number for every cell answers SQL, and no linear queries; ask it by SQL")

    def cells(self) -> Floats:
        """The estimated count of every cell of the domain, laid out."""
        raise QueryError("this kind of release does not lay out its cells; ask it by SQL")

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        """What a model that was published says of rows; the same rows with further columns."""
        raise QueryError("this release holds no model to predict with; ask it by SQL")

    @property
    def row_model(self) -> RowModel:
        """What synthetic rows are drawn from. It is made once; drawing, values, files and the rest are shared."""
        raise QueryError("this kind of release cannot draw rows; release margins or cells for that")

    @property
    @abstractmethod
    def about(self) -> About:
        """What the content says of itself."""

    @abstractmethod
    def write(self) -> Written:
        """All that a file keeps of it. The audit looks at nothing else, so nothing else may be published."""

    @classmethod
    @abstractmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        """Refuse a manifest whose parts do not go together for this kind; no member has been read yet."""

    @classmethod
    @abstractmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Refuse values that no release of this kind has. columns: of one member."""

    @classmethod
    @abstractmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Self:
        """The content of a file nobody has vouched for, whose manifest was checked. member: its columns, by name."""


class ContentOfCells(Content):
    """A content that can show cells along the attributes of a query: the evaluator does the rest."""

    @abstractmethod
    def view(self, kinds: Kinds) -> View:
        """The cells along some attributes, and where their errors come from.

        kinds: the attributes, and which of their values may be taken together.
        """

    def select(self, select: Select, confidence: float) -> Result:
        from sfumato.answers.question import Manner

        return self.select_as(select, confidence, Manner())

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        from sfumato.answers.answer import select_as

        return select_as(self, select, confidence, manner)

    def exact_at(self, confidence: float) -> float | None:
        """At which confidence typical intervals hold for every table with this one; None where they need not."""
        return None

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        """A noise and how many of it: of such sums as are taken as normal, the one that reaches furthest; or None."""
        return None

    def sure(self, kinds: Kinds) -> Source:
        """What finds the ends of guaranteed intervals, for the cells of a view; a QueryError where nothing does."""
        from sfumato.answers.noise_sum import NONE

        raise QueryError(NONE)


def kind_named(kind: str) -> type[Content]:
    """The content that a manifest names."""
    if kind not in KINDS:
        raise refusal("it holds a kind of release that this Sfumato does not know", "upgrade to open it")
    module, _, name = KINDS[kind].rpartition(".")
    found: type[Content] = getattr(import_module(module), name)
    return found
