"""What a release is, for whoever was handed the file: what is in it, what it promises, how good it is, what to ask."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

from sfumato.answers.estimate import Estimate
from sfumato.answers.shown.full_json import guarantee_record
from sfumato.frozen import dataclass
from sfumato.plain_text import aligned, as_rows, printable
from sfumato.releases.description.examples import example_queries
from sfumato.releases.description.group_privacy import GroupPromise, group_privacy, in_words
from sfumato.releases.description.typical_errors import TypicalError, typical_errors
from sfumato.schema import Schema
from sfumato.schema.columns import HEADERS, column_records, columns_of
from sfumato.schema.what_is_counted import what_is_counted

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Guarantee
    from sfumato.releases.release import Release


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """A release in words and numbers. It prints as text, shows itself as HTML in a notebook, and is a dict for JSON.

    extent: how much is published. errors: how the errors of answers arise. typical: how large they are, at
    `confidence`. counted: by which rules rows and values entered. examples: queries that it answers. findings: what a
    model that it holds has learnt.
    """

    schema: Schema
    mechanism: str
    guarantee: Guarantee
    extent: str
    errors: str
    typical: tuple[TypicalError, ...]
    confidence: float
    counted: tuple[str, ...]
    examples: tuple[str, ...]
    findings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The description of types that JSON knows; what is unknown is None."""
        return {
            "dataset": self.schema.dataset,
            "mechanism": self.mechanism,
            "extent": self.extent,
            "guarantee": guarantee_record(self.guarantee),
            "groups": [one.record for one in self.groups],
            "columns": column_records(self.schema),
            "counted": list(self.counted),
            "errors": self.errors,
            "confidence": self.confidence,
            "typical_errors": [{"counts_of": one.counts_of, "half_width": one.half_width} for one in self.typical],
            "examples": list(self.examples),
            **({"findings": list(self.findings)} if self.findings else {}),
        }

    @property
    def promise(self) -> str:
        """The guarantee in symbols."""
        promise = f"epsilon {float(self.guarantee.epsilon):g}"
        return promise + (f", delta {float(self.guarantee.delta):g}" if self.guarantee.delta else "")

    @property
    def groups(self) -> tuple[GroupPromise, ...]:
        """What the guarantee means for several privacy units together."""
        promised = self.guarantee
        return group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)

    @property
    def column_rows(self) -> list[list[str]]:
        """The columns as texts, under HEADERS."""
        rows = ((*column.row[:3], column.row[3] or "", column.row[4]) for column in columns_of(self.schema))
        return [[printable(f"{cell:,}" if isinstance(cell, int) else cell) for cell in row] for row in rows]

    @property
    def typical_rows(self) -> list[list[str]]:
        """The typical errors as texts, under the headers that `error_headers` has."""
        widths = ["unknown" if one.half_width is None else f"± {as_rows(one.half_width)}" for one in self.typical]
        return [[one.counts_of, width] for one, width in zip(self.typical, widths, strict=True)]

    @property
    def error_headers(self) -> list[str]:
        return ["counts of", f"{self.confidence * 100:.6g} % interval"]

    def __repr__(self) -> str:
        columns = aligned([HEADERS, *self.column_rows], left=(0, 1, 2, 4))
        typical = aligned([self.error_headers, *self.typical_rows], left=(0,)) if self.typical else []
        parts = [
            [f"{self.schema.dataset}: {self.extent}, mechanism {self.mechanism}, {self.promise}"],
            [self.guarantee.statement, in_words(self.groups)],
            columns,
            ["Counted by rule:", *(f"  {rule}" for rule in self.counted)] if self.counted else [],
            [f"Errors: {self.errors}.", *typical],
            ["Found:", *(f"  {finding}" for finding in self.findings)] if self.findings else [],
            ["Ask:", *(f"  {example}" for example in self.examples)] if self.examples else [],
        ]
        return "\n\n".join("\n".join(map(printable, part)) for part in parts if part)

    def _repr_html_(self) -> str:
        from sfumato.releases.description.as_html import description_as_html

        return description_as_html(self)


def describe(release: Release, confidence: float = 0.95, *, with_errors: bool = True) -> Description:
    """All that can be said of a release without being asked anything in particular.

    with_errors: ask it how large its errors typically are, which takes seconds where ten million cells were fitted.
    """
    about = release.content.about
    countable = release.content.answers_counts
    typical = typical_errors(release.content, confidence) if with_errors and countable else ()
    examples = about.examples or (example_queries(release.schema) if countable else ())
    if any(one.half_width is None for one in typical):  # it answers what it was made for and perhaps nothing else
        examples = tuple(text for text in examples if _answers(release, text))
    schema, rules = release.schema, what_is_counted(release.schema)
    made = (release.mechanism, release.guarantee, about.extent, about.errors)
    return Description(schema, *made, typical, confidence, rules, examples, about.findings)


def _answers(release: Release, text: str) -> bool:
    cells = [cell for row in release.query(text).rows for cell in row]
    return not any(isinstance(cell, Estimate) and isnan(cell.value) for cell in cells)
