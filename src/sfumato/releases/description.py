"""Description of a release for its recipient: content, guarantee, typical errors, example queries; also DESCRIBE.

Typical errors are medians of interval half-widths that the release states for a few counts of each kind: the total, one
value of one attribute, a pair of values of two. Example queries are generated from the schema and kept if they compile.
All text may come from a stranger's file, so the HTML form escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import product
from math import isnan
from statistics import median
from typing import TYPE_CHECKING, Any

from sfumato.answers.results import Estimate, Result
from sfumato.domain import EPOCH, Axis
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.plain_text import aligned, as_rows, html_block, html_table, html_text, printable
from sfumato.queries.workload import some_sets
from sfumato.releases.contents.content import Content
from sfumato.releases.group_privacy import GroupPromise, group_privacy, in_words
from sfumato.schema import Schema
from sfumato.schema.columns import HEADERS, column_records, columns_as_html, columns_of
from sfumato.schema.parts import ROWS
from sfumato.schema.schema import counted_in_short
from sfumato.sql import compile_select

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Guarantee

KINDS = ("all rows", "one value of one attribute", "a pair of values of two attributes")
ASKED = 3  # sets of attributes of each kind that stand for all, and as many values of each
MANY_CELLS = 2**14  # laid out: each question runs over all of them, so that one value of a set is asked for
VERY_MANY_CELLS = 2**20  # and of one set


@dataclass(frozen=True)
class TypicalError:
    """Median half-width of the intervals of one kind of count; None where it is unbounded."""

    counts_of: str
    half_width: float | None


def typical_errors(content: Content, confidence: float) -> tuple[TypicalError, ...]:
    """Median half-width of intervals for the total and for counts by one and by two attributes."""
    laid_out = content.domain.size if content.answers_linear else 0
    sets = 1 if laid_out > VERY_MANY_CELLS else ASKED
    values = 1 if laid_out > MANY_CELLS else ASKED
    errors = []
    for kind, words in enumerate(KINDS[: len(content.domain.axes) + 1]):
        estimates = [content.some_counts(axes, values, confidence) for axes in some_sets(content.domain, kind, sets)]
        middle = median((count.high - count.low) / 2 for counts in estimates for count in counts)
        errors.append(TypicalError(words, middle if middle < float("inf") else None))
    return tuple(errors)


MOST_GROUPS = 20  # of an example, so that its answer fits on a screen
MOST_VALUE = 40  # characters of a value that is written out

Name = Callable[[str], str]


def example_queries(schema: Schema) -> tuple[str, ...]:
    """Example queries: the total, a table, a range, an average and a share, as far as the schema has columns for them.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> example_queries(schema)[1]
    'SELECT ill, COUNT(*) AS n FROM t GROUP BY ill'
    """
    ways = [(table, name) for name, table in product((_as_it_is, _in_quotes), (schema.dataset, "release"))]
    spelled = [list(_written(schema, table, name)) for table, name in ways]
    queries = (next(filter(lambda text: _compiles(text, schema), texts), None) for texts in zip(*spelled, strict=True))
    return tuple(text for text in queries if text is not None)


def _written(schema: Schema, table: str, name: Name) -> Iterator[str]:
    """SQL text of the examples for one spelling of table and column names."""
    shown = [axis for axis in schema.domain if printable(axis.name) == axis.name]
    keys = sorted((axis for axis in shown if 1 < axis.size <= MOST_GROUPS), key=lambda axis: axis.ordered)
    spans = [axis for axis in shown if axis.kind in ("integer", "number", "date") and axis.places > 2]
    measures = [measure for measure in schema.measures if printable(measure) == measure]
    within = f" WHERE {_middle(spans[0], name)}" if spans else ""
    beside = ", COUNT_ROWS() AS unweighted" if ROWS in schema.summed else ""
    yield f"SELECT COUNT(*) AS n{beside} FROM {table}"
    if keys:
        key = name(keys[0].name)
        yield f"SELECT {key}, COUNT(*) AS n FROM {table} GROUP BY {key}"
    if within:
        yield f"SELECT COUNT(*) AS n FROM {table}{within}"
    if measures:
        average = f"AVG({name(measures[0])}) AS average FROM {table}"
        yield f"SELECT {key}, {average} GROUP BY {key}" if keys else f"SELECT {average}"
    if keys and (value := _value(keys[0])) is not None:
        yield f"SELECT COUNT(*) FILTER (WHERE {key} = {value}) / COUNT(*) AS share FROM {table}{within}"


def _middle(axis: Axis, name: Name) -> str:
    """SQL condition on the middle third of an axis that cuts no cell."""
    low, high = (_edge(axis, place) for place in (axis.places // 3, axis.places - axis.places // 3))
    return f"{name(axis.name)} >= {low} AND {name(axis.name)} < {high}"


def _edge(axis: Axis, index: int) -> str:
    edge = float(axis.edges[index])
    if axis.kind == "date":
        return f"DATE '{EPOCH + timedelta(days=int(edge))}'"
    return str(int(edge)) if edge == int(edge) else repr(edge)


def _value(axis: Axis) -> str | None:
    """SQL literal of an example value, the first printable one; None where there is none."""
    for label in axis.values if axis.values else ():
        text = str(label)
        if isinstance(label, bool):
            return "true"
        if printable(text) == text and len(text) <= MOST_VALUE:
            return "'" + text.replace("'", "''") + "'"
    return None


def _as_it_is(name: str) -> str:
    """Column name, quoted only where SQL needs it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else _in_quotes(name)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _compiles(text: str, schema: Schema) -> bool:
    try:
        return compile_select(text, schema).exact
    except SfumatoError:
        return False


def _list(texts: Iterable[str], tag: str = "span") -> str:
    return "<ul>" + "".join(f"<li><{tag}>{html_text(text)}</{tag}></li>" for text in texts) + "</ul>"


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """Description of a release: prints as text, renders as HTML in a notebook, and converts to a dict for JSON.

    extent: amount published. errors: origin of the errors of answers. typical: their sizes at `confidence`. counted:
    rules by which rows and values were counted. examples: queries that it answers. findings: what a published model has
    learnt.
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
        """JSON-ready mapping of the description; unknown values are None."""
        return {
            "dataset": self.schema.dataset,
            "mechanism": self.mechanism,
            "extent": self.extent,
            "guarantee": self.guarantee.record(),
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
        """Guarantee in symbols, such as "epsilon 1, delta 1e-06"."""
        promise = f"epsilon {float(self.guarantee.epsilon):g}"
        return promise + (f", delta {float(self.guarantee.delta):g}" if self.guarantee.delta else "")

    @property
    def groups(self) -> tuple[GroupPromise, ...]:
        """Group privacy: the guarantee for several privacy units together."""
        promised = self.guarantee
        return group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)

    @property
    def families(self) -> str:
        """Group privacy in words."""
        return in_words(self.groups, exact=bool(self.schema.invariants))

    @property
    def column_rows(self) -> list[list[str]]:
        """Rows of the table of columns, as texts under HEADERS."""
        rows = ((*column.row[:3], column.row[3] or "", column.row[4]) for column in columns_of(self.schema))
        return [[printable(f"{cell:,}" if isinstance(cell, int) else cell) for cell in row] for row in rows]

    @property
    def typical_rows(self) -> list[list[str]]:
        """Rows of the table of typical errors, as texts under `error_headers`."""
        widths = ["unknown" if one.half_width is None else f"± {as_rows(one.half_width)}" for one in self.typical]
        return [[one.counts_of, width] for one, width in zip(self.typical, widths, strict=True)]

    @property
    def error_headers(self) -> list[str]:
        """Headers of the table of typical errors."""
        return ["counts of", f"{self.confidence * 100:.6g} % interval"]

    def __repr__(self) -> str:
        columns = aligned([HEADERS, *self.column_rows], left=(0, 1, 2, 4))
        typical = aligned([self.error_headers, *self.typical_rows], left=(0,)) if self.typical else []
        parts = [
            [f"{self.schema.dataset}: {self.extent}, mechanism {self.mechanism}, {self.promise}"],
            [self.guarantee.statement, self.families],
            columns,
            ["Counted by rule:", *(f"  {rule}" for rule in self.counted)] if self.counted else [],
            [f"Errors: {self.errors}.", *typical],
            ["Found:", *(f"  {finding}" for finding in self.findings)] if self.findings else [],
            ["Ask:", *(f"  {example}" for example in self.examples)] if self.examples else [],
        ]
        return "\n\n".join("\n".join(map(printable, part)) for part in parts if part)

    def _repr_html_(self) -> str:
        """HTML of the description, with its own style and no script."""
        title = f"{self.schema.dataset}: {self.extent}, mechanism {self.mechanism}, {self.promise}"
        parts = [f"<p><b>{html_text(title)}</b></p>", f"<p>{html_text(self.guarantee.statement)}</p>"]
        parts.append(columns_as_html(self.schema))
        if self.counted:
            parts.append(f"<p>Counted by rule:</p>{_list(self.counted)}")
        parts.append(f"<p>Errors: {html_text(self.errors)}.</p>")
        if self.typical:
            parts.append(html_table(self.error_headers, self.typical_rows, left=[0]))
        if self.examples:
            parts.append(f"<p>Ask:</p>{_list(self.examples, 'code')}")
        return html_block(*parts)


def effective_rows(schema: Schema, ask: Callable[[str], Result]) -> tuple[str, ...]:
    """Sentence on the effective sample size, (sum of weights)^2 / sum of their squares (Kish), of weighted rows.

    Squares of weights are known where the weight is a measure too: its weighted sum is that of w * w.
    """
    weight = schema.weight
    if weight is None:
        return ()
    wide = (name for name, one in schema.measures.items() if one.column == weight.column and one.upper >= weight.upper)
    if (name := next(wide, None)) is None:
        column = printable(weight.column)
        return (
            f"the effective sample size is not known, for squares of weights were not measured; with {column} as a "
            f"measure it is COUNT(*) / AVG({column})",
        )
    shared, own = float(weight.shrink * (weight.mean or 0)), float(1 - weight.shrink)
    mean = f"AVG({_in_quotes(name)})" if weight.mean is None else f"({shared!r} + {own!r} * AVG({_in_quotes(name)}))"
    (found,) = (
        cell for cell in ask(f"SELECT COUNT(*) / {mean} AS n FROM release").rows[0] if isinstance(cell, Estimate)
    )
    return (
        f"the effective sample size is {as_rows(found.value)} rows, from {as_rows(found.low)} to {as_rows(found.high)}",
    )


def determines(result: Result) -> bool:
    """Whether a release determines every number of an answer."""
    cells = [cell for row in result.rows for cell in row]
    return not any(isinstance(cell, Estimate) and isnan(cell.value) for cell in cells)


def describe_columns(schema: Schema, confidence: float, notes: tuple[str, ...]) -> Result:
    """Result of DESCRIBE: a row for each column, with the counting rules beside the notes."""
    rows = tuple(column.row for column in columns_of(schema))
    return Result(HEADERS, rows, confidence, notes, counted_in_short(schema), frozenset())
