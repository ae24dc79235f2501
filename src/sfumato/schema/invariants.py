"""Exact counts of a table that its release publishes beside noisy ones, `invariants` in a schema.

    invariants: [[], region, [region, sex]]

Each line is a list of attributes, [] for the number of all rows. Nothing protects these counts (docs/privacy.md,
theorem 17), so that the schema alone publishes none: a release must be told `--even-though-exact` too. Its schema then
has the counts themselves, {by: [region], counts: [900, 870]} in the order of cells, and estimates agree with them as
with facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import PlainValidator

from sfumato.arrays import Whole
from sfumato.domain import Domain
from sfumato.errors import SchemaError
from sfumato.plain_text import printable
from sfumato.schema.facts import MOST_COUNTS, MOST_FACTS, MOST_ROWS, MOST_TOGETHER, Fact
from sfumato.schema.parts import PrivacyUnit, shown

ExactSets = tuple[tuple[str, ...], ...]  # attributes of each table of exact counts
COUNTED = "counted exactly in this table"  # source of counts that nobody published before
EVEN_THOUGH = "--even-though-exact (even_though_exact=True)"
_FORM = "write [[], region, [region, sex]]; [] is the number of all rows"
# There is no proof for these.
NOT_BESIDE = "facts", "series", "impossible", "follows", "weight", "per_person", "discovered"


class Stated(Protocol):
    """Protocol: the fields of a schema that invariants use."""

    privacy_unit: PrivacyUnit
    invariants: tuple[Any, ...] | None

    @property
    def domain(self) -> Domain: ...


def _lines(value: object) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_FACTS:
        raise ValueError(f"must list 1 to {MOST_FACTS} tables of attributes; {_FORM}")
    return tuple(_counted(line) if isinstance(line, Mapping) else _names(line) for line in value)


def _names(line: object) -> tuple[str, ...]:
    names = [line] if isinstance(line, str) else line
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"has {shown(line)}, which is no list of attributes; {_FORM}")
    if len(names) > MOST_TOGETHER or len({*names}) < len(names):
        raise ValueError(f"has a line that does not name up to {MOST_TOGETHER} different attributes; {_FORM}")
    return tuple(names)


def _counted(line: Mapping[Any, object]) -> dict[str, Any]:
    """A line with its counts, as a release has it."""
    counts = line.get("counts")
    if {*line} != {"by", "counts"} or not isinstance(counts, list | tuple):
        raise ValueError(f"has a line with keys that are not those of a release; {_FORM}")
    if not all(type(each) is int and 0 <= each <= MOST_ROWS for each in counts):
        raise ValueError("has counts that are no numbers of rows; leave counts to the release")
    return {"by": _names(line["by"]), "counts": tuple(counts)}


Invariants = Annotated[tuple[Any, ...], PlainValidator(_lines)]


def sets_of(lines: Sequence[Any]) -> ExactSets:
    """Attributes of each table."""
    return tuple(line["by"] if isinstance(line, Mapping) else line for line in lines)


def are_counted(lines: Sequence[Any]) -> bool:
    """Whether the tables have their counts, as in the schema of a release."""
    return all(isinstance(line, Mapping) for line in lines)


def check_invariants(schema: Stated) -> None:
    """Refuse tables that do not go with the rest of the schema, or that are not few and small."""
    if beside := [key for key in NOT_BESIDE if getattr(schema, key) is not None]:
        raise SchemaError(f"invariants do not go with {beside[0]}; leave one of them out")
    if schema.privacy_unit.column is not None:
        raise SchemaError(
            "invariants are for privacy_unit: row; which rows of a person are counted is drawn at random, and "
            "counts of these would not be counts of the table"
        )
    sets = sets_of(schema.invariants or ())
    for names in sets:
        if odd := [name for name in names if name not in schema.domain.names]:
            raise SchemaError(f"invariants name {shown(odd[0])}, which is no attribute; name one")
    if len({frozenset(names) for names in sets}) < len(sets):
        raise SchemaError("invariants have a table twice; keep one of them")
    if sum(prod(schema.domain[name].size for name in names) for names in sets) > MOST_COUNTS:
        raise SchemaError(f"invariants are more than {MOST_COUNTS:,} counts, all together; leave some out")


def counted_facts(schema: Stated) -> tuple[Fact, ...]:
    """The exact counts as facts; a SchemaError says what they contradict."""
    lines, facts = schema.invariants or (), list[Fact]()
    if any(isinstance(line, Mapping) for line in lines) and not are_counted(lines):
        raise SchemaError("invariants have counts in some lines only; leave counts to the release")
    for line in lines if are_counted(lines) else ():
        along = schema.domain.along(line["by"])
        if len(line["counts"]) != along.size:
            raise SchemaError(f"invariants have {len(line['counts'])} counts where {along.size} belong")
        places = tuple(schema.domain.place(name) for name in along.names)
        facts.append(Fact(places, np.array(line["counts"], dtype=np.float64), COUNTED, exact=True))
    return tuple(facts)


def counted_lines(sets: ExactSets, disclose: Callable[[Sequence[str]], Whole]) -> list[dict[str, Any]]:
    """Lines with their exact counts, as a release's schema has them. disclose: gives those of a set of attributes."""
    return [{"by": names, "counts": disclose(names).tolist()} for names in sets]


def tables_in_words(sets: ExactSets) -> str:
    """What is counted exactly, such as "all rows and rows by region"; empty where nothing is.

    >>> tables_in_words(((), ("region", "sex"))), tables_in_words(())
    ('all rows, and rows by region and sex', '')
    """
    listed = [f"rows by {' and '.join(map(printable, names))}" if names else "all rows" for names in sets]
    return ", and ".join([", ".join(listed[:-1]), listed[-1]] if listed[1:] else listed)
