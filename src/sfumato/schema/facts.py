"""Public counts of the rows of a table, `facts` in a schema: the number of all rows, and complete tables.

    facts:
      - {count: 48842, source: "census 2020, table 1"}
      - {by: sex, counts: {F: 25000, M: 23842}, source: "census 2020, table 2"}
      - {by: [sex, ill], counts: {F: {true: 900, false: 24100}, M: {true: 842, false: 23000}}, source: "table 3"}

They are about rows as they are counted, after the schema's rules. Estimates agree with them (in
answers/constrained_fit.py and models/margins/measure.py) unless noisy counts contradict them: `contradicts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log, prod, sqrt
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import PlainValidator

from sfumato.arrays import Floats
from sfumato.domain import Axis, Domain
from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.schema.parts import category_value, shown
from sfumato.schema.rules import cells_of

_FORM = "write {count: 48842, source: census} or {by: sex, counts: {F: 25000, M: 23842}, source: census}"
_FORM_OF_SEVERAL = (
    "write {by: [sex, ill], counts: {F: {true: 900, false: 24100}, M: {true: 842, false: 23000}}, source: census}"
)
MOST_ROWS = 2**53  # that a double holds exactly
MOST_FACTS, MOST_SOURCE = 32, 300  # lines, and letters of a source
MOST_TOGETHER, MOST_COUNTS = 4, 1024  # attributes of one table, and cells of the tables of several attributes
MISSING = "NULL"  # the key of rows without a value
FALSE_ALARM = 1e-6  # chance that a true fact is taken for a contradiction, for the longest-tailed noise


class Known(Protocol):
    """Protocol: the fields of a schema that facts use."""

    facts: Lines | None

    @property
    def domain(self) -> Domain: ...

    @property
    def known(self) -> tuple[Fact, ...]: ...


@dataclass(frozen=True, eq=False)
class Fact:
    """One line of public counts.

    places: its axes in rising order, none for all rows. counts: of their cells, (cells,). exact: counted in the table
    itself (schema/invariants.py), so that no noise can contradict it.
    """

    places: tuple[int, ...]
    counts: Floats
    source: str
    exact: bool = False

    def contradicts(self, estimate: Floats, variances: Floats | float) -> bool:
        """Whether an estimate of the counts is farther off than its error explains. estimate, variances: as counts.

        The bound is that of Laplace noise, P(|e| > t sd) = exp(-sqrt(2) t), over all counts together.
        """
        if self.exact:
            return False
        estimate, variances = np.atleast_1d(estimate), np.atleast_1d(variances)
        reach = log(len(self.counts) / FALSE_ALARM) / sqrt(2.0)
        return bool((np.abs(estimate - self.counts) > reach * np.sqrt(np.maximum(variances, 0.0)) + 1.0).any())

    def words(self, domain: Domain) -> str:
        """Name of the fact in a sentence, with its source."""
        by = " and ".join(printable(domain.names[place]) for place in self.places)
        return f"{f'rows by {by}' if by else 'all rows'} ({printable(self.source)})"

    def summed(self, places: Sequence[int], domain: Domain) -> Floats:
        """Counts along some of its axes, summed over the others, (cells,)."""
        table = self.counts.reshape([domain.shape[place] for place in self.places])
        others = tuple(at for at, place in enumerate(self.places) if place not in places)
        return np.asarray(table.sum(axis=others)).reshape(-1)


def _lines(value: object) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_FACTS:
        raise ValueError(f"must list 1 to {MOST_FACTS} public counts; {_FORM}")
    return tuple(_line(part) for part in value)


def _line(part: object) -> dict[str, Any]:
    keys = {*part} if isinstance(part, Mapping) else set()
    if not isinstance(part, Mapping) or keys not in ({"count", "source"}, {"by", "counts", "source"}):
        several = isinstance(part, Mapping) and isinstance(part.get("by"), list | tuple)
        raise ValueError(f"has a line that is no public count; {_FORM_OF_SEVERAL if several else _FORM}")
    source = part["source"]
    if not isinstance(source, str) or not 0 < len(source.strip()) <= MOST_SOURCE:
        raise ValueError(f"must say where each count is published, in up to {MOST_SOURCE} letters: source: census 2020")
    if "count" in part:
        return {"count": _rows(part["count"]), "source": source}
    by, counts = part["by"], part["counts"]
    if isinstance(by, str):
        return {"by": by, "counts": _counts(counts, 1, _FORM), "source": source}
    names = [*by] if isinstance(by, list | tuple) else []
    if not 2 <= len(names) <= MOST_TOGETHER or len({*map(str, names)}) < len(names):
        raise ValueError(
            f"counts by one attribute, or by a list of 2 to {MOST_TOGETHER} different ones; {_FORM_OF_SEVERAL}"
        )
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"counts by attributes, named as they are in the schema; {_FORM_OF_SEVERAL}")
    return {"by": names, "counts": _counts(counts, len(names), _FORM_OF_SEVERAL), "source": source}


def _counts(counts: object, levels: int, form: str) -> dict[str, Any]:
    """Nested counts by value, one level for each attribute. form: example for messages."""
    if not isinstance(counts, Mapping) or not counts:
        raise ValueError(f"counts by attributes, with a number for each value within those of the ones before; {form}")
    named = {
        _spelled(key): _rows(part) if levels == 1 else _counts(part, levels - 1, form) for key, part in counts.items()
    }
    if len(named) < len(counts):
        raise ValueError("has a value twice in counts; keep one")
    return named


def _spelled(key: object) -> str:
    """Text of a value: a boolean as `true` or `false`, a missing value as NULL."""
    if key is None or isinstance(key, bool):
        return MISSING if key is None else str(key).lower()
    return str(category_value(key))


def _rows(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ROWS:
        raise ValueError(f"is {shown(value)} where a whole number of rows must stand")
    return value


Lines = Annotated[tuple[dict[str, Any], ...], PlainValidator(_lines)]


def facts_of(schema: Known) -> tuple[Fact, ...]:
    """Facts that a schema states, one for each axis at most; a SchemaError says what does not go together."""
    facts: dict[tuple[int, ...], Fact] = {}
    for number, line in enumerate(schema.facts or (), 1):
        fact = _fact(schema.domain, line, f"facts.{number}")
        if fact.places in facts:
            raise SchemaError(f"facts.{number} counts what another line counts; keep one of them")
        facts[fact.places] = fact
    totals = {float(fact.counts.sum()) for fact in facts.values()}
    if len(totals) > 1:
        least, most = (f"{round(each):,}" for each in (min(totals), max(totals)))
        raise SchemaError(f"facts add up to {least} rows and to {most}; state counts of the same rows, or drop some")
    if sum(len(fact.counts) for fact in facts.values() if len(fact.places) > 1) > MOST_COUNTS:
        raise SchemaError(f"facts count by several attributes in more than {MOST_COUNTS:,} cells; drop some lines")
    for one, other in combinations(facts.values(), 2):
        # Tables that agree in pairs agree with some table of all attributes: that of their common components.
        common = [place for place in one.places if place in other.places]
        if not np.array_equal(one.summed(common, schema.domain), other.summed(common, schema.domain)):
            by = " and ".join(printable(schema.domain.names[place]) for place in common)
            raise SchemaError(
                f"facts count differently by {by} in {one.words(schema.domain)} and in {other.words(schema.domain)}; "
                "state counts of the same rows, or drop one"
            )
    return tuple(facts.values())


def _fact(domain: Domain, line: Mapping[str, Any], path: str) -> Fact:
    """Read one line of facts."""
    if "by" not in line:
        return Fact((), np.array([float(line["count"])]), line["source"])
    names = [line["by"]] if isinstance(line["by"], str) else line["by"]
    if odd := [name for name in names if name not in domain.names]:
        raise SchemaError(f"{path}.by is {shown(odd[0])}, which is no attribute; name one")
    places = [domain.place(name) for name in names]
    if len(places) > 1 and prod(domain.shape[place] for place in places) > MOST_COUNTS:
        raise SchemaError(f"{path} counts more than {MOST_COUNTS:,} cells; count by fewer attributes")
    table = _table([domain.axes[place] for place in places], line["counts"], f"{path}.counts")
    return Fact(tuple(sorted(places)), table.transpose(np.argsort(places)).reshape(-1), line["source"])


def facts_in_words(schema: Known, odd: Sequence[Fact]) -> list[str]:
    """Sentences on the facts that answers agree with, and on those that noisy counts contradict."""
    known, domain = [fact for fact in schema.known if fact not in odd], schema.domain
    followed = ", ".join(fact.words(domain) for fact in known)
    words = [f"answers agree with public counts of {followed}; what these say has no error"] if known else []
    return words + [
        f"CONTRADICTION: noisy counts of {fact.words(domain)} are farther from the public ones than noise explains, so "
        "answers do not follow these"
        for fact in odd
    ]


def _table(axes: Sequence[Axis], counts: Mapping[str, Any], path: str) -> Floats:
    """Counts in the order of axes, an axis of the table for each."""
    axis, deeper = axes[0], axes[1:]
    table = np.full([each.size for each in axes], -1.0)
    for value, rows in counts.items():
        try:
            flags = cells_of(axis, None if value == MISSING and axis.missing else value)
        except ValueError as problem:
            raise SchemaError(f"{path}.{value} {problem}") from None
        if flags.sum() != 1:
            raise SchemaError(f"{path}.{value} is not one value, or one bin, of {axis.name}; count each by itself")
        cell = int(flags.argmax())
        if (table[cell] >= 0.0).any():
            raise SchemaError(f"{path} has {shown(axis.label(cell))} twice; keep one")
        table[cell] = _table(deeper, rows, f"{path}.{value}") if deeper else rows
    if (empty := (table < 0.0).reshape(axis.size, -1).any(axis=1)).any():
        cell = int(empty.argmax())
        left = MISSING if cell >= axis.places else axis.label(cell)
        raise SchemaError(f"{path} leaves out {shown(left)}; count every value of {axis.name} (0 where nobody has it)")
    return table
