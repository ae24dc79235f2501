"""Conjunctions: counts of 2 l literals inferred from noisy counts of l, on random subsets; see docs/conjunctions.md.

Dwork, Nissim, "Privacy-preserving datamining on vertically partitioned databases", CRYPTO 2004; Dwork's survey of 2008,
section 4.1. The paper searches for one heavy subset; the covariance uses all subsets at once. Counted in error, to
measure the tables of 2 l attributes themselves is better wherever either is of use: the release says by how much.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.conjunctions.content import (
    MOST_ANSWERS,
    Conjunctions,
    best_subsets,
    direct_error,
    expected_error,
    rows_needed,
)
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.models.base.mechanism import Figure, Forecast, Lab, Mechanism, Promises, sure, with_rows, without_rows
from sfumato.queries import Identity, Workload
from sfumato.schema import Schema

SUBSETS = 32  # where nobody says how many rows to expect
A_SHARE = 0.05  # of the rows, within which a plan says how many it takes
FEWEST_SUBSETS, MOST_SUBSETS = 4, 4096


@dataclass(frozen=True)
class Options:
    """literals: of each conjunction that is counted. subsets: of the rows; None: as the expected rows need."""

    literals: int = 1
    subsets: int | None = None
    seed: int = 0


PLAIN = Options()


def conjunctions(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Conjunctions:
    """Publish noisy tables of few attributes, of the whole table and of subsets of its rows. budget: spent evenly."""
    names, literals = schema.domain.names, options.literals
    subsets = _subsets(schema, budget, options)
    tables = list(combinations(names, literals))
    scale = schema.privacy_unit.contributions * (subsets + 1) * len(tables) / budget.amount
    answers = []
    for number in range(subsets + 1):
        seen = curator.subset(options.seed, number - 1) if number else curator
        measured = [seen.margin(table).measure(Identity(2**literals), scales=scale) for table in tables]
        answers.append([one.answers for one in measured])
    return Conjunctions(schema, literals, np.array(answers), measured[0].noise)


def _subsets(schema: Schema, budget: Budget, options: Options) -> int:
    if options.subsets is not None:
        return options.subsets
    if schema.expected_rows is None:
        return SUBSETS
    epsilon = float(budget.amount) / schema.privacy_unit.contributions
    found = best_subsets(float(schema.expected_rows), len(schema.domain.shape), options.literals, epsilon)
    return min(found, MOST_SUBSETS)


def _refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    wide = [axis.name for axis in schema.domain if axis.size != 2]
    if wide:
        size = schema.domain[wide[0]].size
        return f"it takes attributes of two values, and {wide[0]} has {size}; leave it out or recode it"
    if schema.measures:
        return "it counts rows and takes no measures; leave them out of the schema"
    return _refuses_options(len(schema.domain.shape), options)


def _refuses_options(axes: int, options: Options) -> str | None:
    if not 1 <= options.literals <= axes // 2:
        return f"conjunctions of {options.literals} literals need {2 * options.literals} attributes; there are {axes}"
    if options.subsets is not None and not FEWEST_SUBSETS <= options.subsets <= MOST_SUBSETS:
        return f"state from {FEWEST_SUBSETS} to {MOST_SUBSETS:,} subsets"
    if not 0 <= options.seed < 2**32:
        return "state a seed from 0 to 2^32 - 1"
    answers = (1 + (options.subsets or MOST_SUBSETS)) * comb(axes, options.literals) * 2**options.literals
    if answers > MOST_ANSWERS:
        return f"these are {answers:,} counts, and {MOST_ANSWERS:,} can be kept; state fewer subsets or literals"
    return None


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    epsilon, axes = float(budget.amount) / schema.privacy_unit.contributions, len(schema.domain.shape)
    literals, subsets = options.literals, _subsets(schema, budget, options)
    twice = 2 * literals
    needed = rows_needed(axes, literals, epsilon, A_SHARE, 1.0 - confidence)
    figures = (
        Figure("subsets of the rows, in each of which all tables are counted", subsets, "subsets"),
        Figure(f"tables of {literals} attributes", comb(axes, literals), "tables"),
        *with_rows(
            schema,
            lambda rows: Figure(
                f"standard error of a count of {twice} conditions, inferred, with {rows:,} rows, about",
                expected_error(rows, axes, literals, subsets, epsilon, worst=False),
            ),
        ),
        Figure(
            f"rows for all counts of {twice} conditions to be within {100 * A_SHARE:g} % of them, {sure(confidence)}",
            needed,
        ),
        Figure(
            f"standard error if tables of {twice} attributes were measured themselves",
            direct_error(axes, literals, epsilon),
        ),
    )
    return Promises(figures, without_rows(schema, "the error of what is inferred"))


EXAMPLE = small_table("audit", a=whole_up_to(1), b=whole_up_to(1), c=whole_up_to(1))  # three attributes of two values


MECHANISM = Mechanism(
    name="conjunctions",
    summary="counts of many conditions inferred from counts of few on random subsets of the rows",
    paper="Dwork, Nissim 2004",
    run=conjunctions,
    refuses=_refuses,
    answers="its own questions",
    options=Options,
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"subsets": "4"}),
)
