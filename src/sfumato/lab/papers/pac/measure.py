"""PAC: a rule that predicts one attribute from the others, chosen by the exponential mechanism; its sample complexity.

Kasiviswanathan, Lee, Nissim, Raskhodnikova, Smith, What can we learn privately (2008), theorem 7 of the Survey, section
5.2. Corrected (docs/pac.md): the score moves one way, so that the choice has twice the paper's rate; the error of the
chosen rule is measured.

Sample complexity: the theorem leaves its constants open; here they are, for this score. With probability 1 - beta / 2
the chosen rule gets at most ln(2 |H| / beta) / epsilon rows of the table more wrong than the best one; with probability
1 - beta / 2 the share that every rule gets wrong in the table is within t = sqrt(ln(4 |H| / beta) / (2 n)) of that in
the population (Hoeffding's inequality for each). Both together, in the population:

    error of the chosen rule  <=  that of the best + alpha,     alpha = ln(2 |H| / beta) / (epsilon n) + 2 t.

epsilon: the budget of the choice, divided by the rows that a person may have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, exp, inf, log, sqrt
from typing import Literal

import numpy as np

from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import RowsRight
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.lab.papers.pac.content import (
    MOST_ENTRIES,
    MOST_RULES,
    Rule,
    Rules,
    conjunctions,
    given,
    how_many,
    written_rules,
)
from sfumato.models.base.mechanism import (
    Figure,
    Forecast,
    Holds,
    Lab,
    Mechanism,
    Promises,
    sure,
    with_rows,
    without_rows,
)
from sfumato.queries import Identity, Weighted, Workload
from sfumato.schema import Schema

DOUBLINGS, HALVINGS = 200, 200  # steps of a search


def learning_error(rows: float, rules: float, epsilon: float, beta: float) -> float:
    """Excess error alpha over the best rule, with confidence 1 - beta."""
    _check(rows=rows, rules=rules, epsilon=epsilon, beta=beta)
    return _error(rows, log(rules), epsilon, log(beta))


def learning_rows(alpha: float, rules: float, epsilon: float, beta: float) -> int:
    """Sample complexity: rows for which the excess error is at most alpha."""
    _check(alpha=alpha, rules=rules, epsilon=epsilon, beta=beta)
    return ceil(_crossing(lambda rows: _error(rows, log(rules), epsilon, log(beta)) <= alpha, 1.0))


def learning_epsilon(alpha: float, rows: float, rules: float, beta: float) -> float:
    """Epsilon for which the excess error is at most alpha; a QueryError where too few rows rule that out."""
    _check(alpha=alpha, rows=rows, rules=rules, beta=beta)
    left = alpha - _error(rows, log(rules), inf, log(beta))
    if left <= 0.0:
        enough = learning_rows(alpha, rules, 1e9, beta)
        raise QueryError(f"no epsilon gives that error with {rows:,.0f} rows: without privacy it takes {enough:,}")
    return (log(2.0 * rules) - log(beta)) / (rows * left)


def learning_rules(alpha: float, rows: float, epsilon: float, beta: float) -> int:
    """Largest number of rules for which the excess error is at most alpha; 0 where not even one."""
    _check(alpha=alpha, rows=rows, epsilon=epsilon, beta=beta)
    if _error(rows, 0.0, epsilon, log(beta)) > alpha:
        return 0
    most = _crossing(lambda spread: _error(rows, spread, epsilon, log(beta)) > alpha, 1.0, least=0.0)
    return int(exp(min(most, 700.0)) * (1.0 + 1e-12))


def learning_doubt(alpha: float, rows: float, rules: float, epsilon: float) -> float:
    """Failure probability beta: bound on P(excess error > alpha); 1 where the bound is void.

    >>> round(learning_doubt(0.05, 10_000, 200, 0.5), 4)
    0.0085
    """
    _check(alpha=alpha, rows=rows, rules=rules, epsilon=epsilon)
    if _error(rows, log(rules), epsilon, 0.0) > alpha:
        return 1.0
    return exp(-_crossing(lambda spread: _error(rows, log(rules), epsilon, -spread) > alpha, 1.0, least=0.0))


def _error(rows: float, log_rules: float, epsilon: float, log_beta: float) -> float:
    of_choice = (log(2.0) + log_rules - log_beta) / (epsilon * rows)
    return of_choice + 2.0 * sqrt((log(4.0) + log_rules - log_beta) / (2.0 * rows))


def _crossing(is_beyond: Callable[[float], bool], start: float, least: float | None = None) -> float:
    """Smallest value at which a condition holds, upwards from `least`, or from a millionth of the start."""
    high = start
    for _ in range(DOUBLINGS):
        if is_beyond(high):
            break
        high *= 2.0
    else:
        raise QueryError("these numbers ask for more than any table has; allow a larger error")
    low = start / 1e6 if least is None else least
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high


def _check(**stated: float) -> None:
    for name, value in stated.items():
        most = 1.0 if name in ("alpha", "beta") else inf
        if not 0.0 < value < most or (name == "rules" and value < 1):
            needed = "between 0 and 1" if most == 1.0 else "positive" if name != "rules" else "1 or more"
            raise QueryError(f"{name} must be {needed}, got {value}")


@dataclass(frozen=True)
class Settings:
    """Chosen by judgement. shares: of the budget, for choosing a rule and for counting how often it is right."""

    shares: tuple[int, int] = (3, 1)


@dataclass(frozen=True)
class Options:
    """target: the attribute to predict; the last if left open. positive: its value to predict; of two, the second.

    rules: the class. attributes: that rules look at; all if left open. of: the attribute of thresholds. literals: of a
    conjunction, at most. given: rules of your own, conditions in SQL, one a line or with semicolons between.
    """

    target: str | None = None
    positive: str | None = None
    rules: Literal["thresholds", "stumps", "conjunctions"] = "stumps"
    attributes: tuple[str, ...] = ()
    of: str | None = None
    literals: int = 2
    given: str | None = None


PLAIN, SETTINGS = Options(), Settings()
AN_ERROR = 0.05  # beyond that of the best rule, for which a plan says how many rows it takes


def pac(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Rule:
    """Choose a rule with few errors by the exponential mechanism, and measure its confusion matrix."""
    to_choose, to_count = budget.split(*SETTINGS.shares)
    label, place = label_of(schema, options), place_of(schema, options)
    names = looked_at(schema, options)
    domain = schema.domain.along([*names, label])
    view = curator if domain == schema.domain else curator.margin(domain.names)
    found = class_of(schema, domain, names, label, options)
    has = domain.codes_along(label, np.arange(domain.size)) == place

    chosen = view.select(RowsRight(found.holds == has), to_choose)
    says = found.holds[chosen]
    kinds = np.stack([says & has, says & ~has, ~says & has, ~says & ~has]).astype(np.int64)  # a row is of one kind
    counted = replace(view.measure(Weighted(kinds), to_count), queries=Identity(len(kinds)))
    return Rule(schema, found.texts[chosen], label, place, len(found.texts), to_choose.amount, counted)


def label_of(schema: Schema, options: Options) -> str:
    return schema.domain.names[-1] if options.target is None else options.target


def place_of(schema: Schema, options: Options) -> int:
    """Index, among the label attribute's values, of the positive class."""
    axis = schema.domain[label_of(schema, options)]
    if options.positive is None:
        return 1
    return next(place for place, shown in enumerate(axis.labels()) if _same(shown, options.positive))


def looked_at(schema: Schema, options: Options) -> tuple[str, ...]:
    """Attributes that rules may use."""
    label, names = label_of(schema, options), schema.domain.names
    if options.given is None and options.rules == "thresholds":
        ordered = [name for name in names if name != label and schema.domain[name].ordered]
        return tuple(ordered) if options.of is None else (options.of,)
    wanted = options.attributes or names
    return tuple(name for name in names if name in wanted and name != label)


def class_of(schema: Schema, domain: Domain, names: Sequence[str], label: str, options: Options) -> Rules:
    """Hypothesis class over the cells of a domain."""
    if options.given is not None:
        return given(written_rules(options.given), schema, domain, label)
    return conjunctions(domain, names, _literals(options))


def refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    domain, label = schema.domain, label_of(schema, options)
    for name in (label, *options.attributes, *([] if options.of is None else [options.of])):
        if name not in domain:
            return f"there is no attribute {name!r}; there are {', '.join(domain.names)}"
    return _label_refused(schema, label, options) or _class_refused(schema, label, options)


def _label_refused(schema: Schema, label: str, options: Options) -> str | None:
    shown = schema.domain[label].labels()
    if options.positive is not None and not any(_same(each, options.positive) for each in shown):
        return f"{label} has no value {options.positive!r} to be told"
    if options.positive is None and len(shown) != 2:
        return f"{label} has {len(shown):,} values; say which of them rules should tell: --with positive=VALUE"
    return None


def _class_refused(schema: Schema, label: str, options: Options) -> str | None:
    names = looked_at(schema, options)
    of_one = options.given is None and options.rules == "thresholds"
    if not names or label in names or label in (options.of, *options.attributes):
        return "rules need an attribute to look at, besides the label; thresholds one that is ordered"
    if of_one and len(names) > 1:
        return f"thresholds are of one attribute; say which: --with of={names[0]}"
    if of_one and not schema.domain[names[0]].ordered:
        return f"{names[0]} has no order, so it has no thresholds; use --with rules=stumps"
    if options.literals < 1:
        return "a conjunction has at least one literal; give literals=1 or more"
    domain = schema.domain.along([*names, label])
    return _given_refused(schema, domain, label, options) or _too_many(domain, names, options)


def _given_refused(schema: Schema, domain: Domain, label: str, options: Options) -> str | None:
    if options.given is None:
        return None
    texts = written_rules(options.given)
    if not texts:
        return "no rule is given; write one SQL condition a line, such as age >= 30"
    if len(texts) > MOST_RULES or domain.size > MOST_ENTRIES:
        return None  # too many anyhow
    try:
        given(texts, schema, domain, label)
    except QueryError as error:
        return str(error)
    return None


def _too_many(domain: Domain, names: Sequence[str], options: Options) -> str | None:
    written, many = options.given is not None, _how_many(domain, names, options)
    room = min(MOST_RULES, MOST_ENTRIES // domain.size)
    if many <= room:
        return None
    fewer = "give fewer rules" if written and room else _fewer(domain, names, room)
    return f"{many:,} rules over {domain.size:,} cells are too many, {room:,} would do; {fewer}"


def _how_many(domain: Domain, names: Sequence[str], options: Options) -> int:
    if options.given is not None:
        return len(written_rules(options.given))
    return how_many(domain, names, _literals(options))


def _fewer(domain: Domain, names: Sequence[str], room: int) -> str:
    """Advice for a hypothesis class that is too large."""
    fitting = [k for k in range(1, len(names) + 1) if how_many(domain, names, k) <= room]
    if fitting:
        return f"literals={max(fitting)} has {how_many(domain, names, max(fitting)):,}"
    return "name fewer attributes (--with attributes=...), or wider bins in the schema"


def _literals(options: Options) -> int:
    return options.literals if options.rules == "conjunctions" else 1


def _same(label: object, stated: str) -> bool:
    return label is not None and str(label).lower() == stated.lower()


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    to_choose, to_count = (
        float(each.amount) / schema.privacy_unit.contributions for each in budget.split(*SETTINGS.shares)
    )
    names, beta = looked_at(schema, options), 1.0 - confidence
    many = _how_many(schema.domain.along([*names, label_of(schema, options)]), names, options)
    figures = (
        Figure("rules to choose from", many, "rules"),
        Figure(f"more rows wrong than by the best of them, at most, {sure(confidence)}", log(many / beta) / to_choose),
        Figure("standard error of the rows that it gets wrong", 2.0 / to_count),  # of two counts, variance 2 scale^2
        Figure(
            f"rows for an error of at most {AN_ERROR:g} beyond the best rule's, {sure(confidence)}",
            learning_rows(AN_ERROR, many, to_choose, beta),
        ),
        *with_rows(
            schema,
            lambda rows: Figure(
                f"error beyond the best rule's, at most, of {rows:,} rows drawn at random, {sure(confidence)}",
                100.0 * learning_error(rows, many, to_choose, beta),
                "% of rows",
            ),
        ),
    )
    return Promises(figures, without_rows(schema, "by how much its rule may fall behind the best one"))


EXAMPLE = small_table("examples", age=whole_up_to(3), ill={"type": "boolean"})  # four ages and a label


MECHANISM = Mechanism(
    name="pac",
    summary="a rule that tells one attribute from the others, and how often it is right",
    paper="Kasiviswanathan et al. 2008",
    run=pac,
    refuses=refuses,
    answers="its own questions",
    options=Options,
    holds=Holds(by_margins=True),
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"rules": "thresholds"}),
)
