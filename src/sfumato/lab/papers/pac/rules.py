"""Hypothesis classes for a rule: conditions on attributes, each with its SQL text and the cells it holds in.

thresholds: one ordered attribute, from or below any edge of its cells. stumps: such a threshold of any ordered
attribute, or a value of another one, or all but that. conjunctions: up to so many of these, of different attributes,
all at once. given: conditions that the user writes. All but the last include the two constant rules, which say the same
of every row.

A condition in SQL is read as every WHERE is; one that cuts through a cell is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql import compile_select

Mask = NDArray[np.bool_]
Literal = tuple[str, str, Mask]  # the attribute, the text, and for each of its cells whether it holds

MOST_RULES = 2**16  # time: each is looked at in every cell
MOST_ENTRIES = 2**27  # rules times cells: memory, a byte each
ALWAYS, NEVER = "1 = 1", "1 = 0"


@dataclass(frozen=True, eq=False)
class Rules:
    """texts: in SQL. holds: for every rule and cell of a domain."""

    texts: tuple[str, ...]
    holds: Mask


def literals_of(axis: Axis) -> list[Literal]:
    """The shortest conditions on one attribute; rows without a value fulfil none, as in SQL."""
    name = _in_sql(axis.name)
    places = np.arange(axis.size)
    valued = places < axis.places
    found: list[Literal] = []
    if axis.ordered:
        for cut in range(1, axis.places):
            edge = _edge(axis, cut)
            found += [
                (axis.name, f"{name} >= {edge}", (places >= cut) & valued),
                (axis.name, f"{name} < {edge}", places < cut),
            ]
        return found
    for place, value in enumerate(axis.values):
        shown = str(value).lower() if isinstance(value, bool) else "'" + str(value).replace("'", "''") + "'"
        found.append((axis.name, f"{name} = {shown}", places == place))
        if axis.places > 2:
            found.append((axis.name, f"{name} <> {shown}", (places != place) & valued))
    return found


def how_many(domain: Domain, attributes: Sequence[str], literals: int) -> int:
    """Number of conjunctions of up to so many literals; stumps are those of one."""
    sums = [1] + [0] * literals  # of products over sets of attributes, by their size
    for name in attributes:
        own = len(literals_of(domain[name]))
        sums = [sums[0], *(sums[k] + own * sums[k - 1] for k in range(1, literals + 1))]
    return sum(sums[1:]) + 2


def conjunctions(domain: Domain, attributes: Sequence[str], literals: int) -> Rules:
    """Every conjunction of up to so many literals of different attributes."""
    by_name = [literals_of(domain[name]) for name in attributes]
    texts, rows = [ALWAYS, NEVER], [np.ones(domain.size, dtype=bool), np.zeros(domain.size, dtype=bool)]
    spread = [[(text, _spread(domain, name, mask)) for name, text, mask in own] for own in by_name]
    for count in range(1, literals + 1):
        for chosen in combinations(spread, count):
            for parts in product(*chosen):
                texts.append(" AND ".join(text for text, _ in parts))
                rows.append(np.logical_and.reduce([mask for _, mask in parts]))
    return Rules(tuple(texts), np.array(rows))


def given(texts: Sequence[str], schema: Schema, domain: Domain, label: str) -> Rules:
    """Conditions that the user wrote, over the attributes of a domain."""
    rows = []
    for text in texts:
        predicate = condition_of(text, schema)
        outside = [name for name in predicate.names if name not in domain or name == label]
        if outside:
            raise QueryError(f"the rule {text!r} looks at {outside[0]}, which is the label or not among its attributes")
        rows.append(holds_in_cells(predicate, domain))
    return Rules(tuple(texts), np.array(rows))


def written_rules(text: str) -> tuple[str, ...]:
    """The conditions of a text, one a line, or with semicolons between; lines that begin with -- are comments.

    >>> written_rules("age >= 30; sex = 'F'")
    ('age >= 30', "sex = 'F'")
    """
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return tuple(dict.fromkeys(_stripped(lines)))


def _stripped(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield from (part.strip() for part in line.split(";") if part.strip())


def _spread(domain: Domain, name: str, mask: Mask) -> Mask:
    shape = [axis.size if axis.name == name else 1 for axis in domain]
    return np.broadcast_to(mask.reshape(shape), domain.shape).reshape(-1)


def _in_sql(name: str) -> str:
    from sqlglot.tokens import Tokenizer

    plain = name.isidentifier() and name.upper() not in Tokenizer.KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def _edge(axis: Axis, cut: int) -> str:
    edge = float(axis.edges[cut])
    if axis.kind != "date":
        return str(int(edge)) if edge.is_integer() else repr(edge)
    moment = np.datetime64(round(edge * 24), "h")  # since 1970, as edges are in days
    if axis.timed:
        return f"'{str(moment.astype('datetime64[m]')).replace('T', ' ')}'"
    return f"DATE '{moment.astype('datetime64[D]')}'"


LONGEST = 2000  # characters


def condition_of(text: str, schema: Schema) -> Predicate:
    """The rows that a condition holds for.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> condition_of("ill = true", schema).names
    ('ill',)
    """
    if not text.strip() or len(text) > LONGEST or ";" in text:
        raise QueryError(f"a rule is one SQL condition of up to {LONGEST:,} characters, such as age >= 30")
    select = compile_select(f"SELECT COUNT(*) FROM release WHERE ({text})", schema)
    amounts = [amount for column in select.aggregates for amount, _ in column.counted_by]
    if select.group_by or len(amounts) != 1:
        raise QueryError("a rule is one SQL condition, such as age >= 30 AND sex = 'F', and nothing besides")
    predicate = amounts[0].predicate
    if cut := predicate.cuts(schema.domain):
        raise QueryError(f"the rule {text!r} cuts through cells of {cut[0]}; compare it with the ends of its cells")
    return predicate


def holds(predicate: Predicate, domain: Domain, codes: Mapping[str, Codes], length: int) -> NDArray[np.bool_]:
    """Mask of a list of cells in which it holds, by their places along at least the attributes that matter."""
    if not codes:  # it matters to no attribute: all rows or none
        return np.full(length, bool(predicate))
    return np.asarray(predicate.weights(domain, codes)[0] >= 0.5)


def holds_in_cells(predicate: Predicate, domain: Domain) -> NDArray[np.bool_]:
    """Mask of the cells in which it holds, for a domain that has its attributes."""
    cells = np.arange(domain.size, dtype=np.int64)
    codes = {name: domain.codes_along(name, cells) for name in predicate.names}
    return holds(predicate, domain, codes, domain.size)
