"""Tables of two attributes from noisy counts: the chi-square test of independence, Cramer's V, odds and risk ratios.

Let n be the noisy table, (rows, columns), p and q its margins as shares and d = n - (row sums)(column sums)' / N. To
first order d = L n with L = (I - p 1')(x)(I - q 1'). If rows of the table are drawn from a population in which both
attributes are independent, d has mean 0 and covariance

    Sigma = S + L C L',     S = N (diag p - p p')(x)(diag q - q q'),     C the covariance of the noise.

The test statistic is T = d' Sigma^- S Sigma^- d, the score test for a small random effect of covariance S: without
noise it is Pearson's chi-square, and where noise outweighs sampling it counts little. Its distribution under
independence is simulated from p, q and N as published (Gaboardi et al. 2016), with Poisson counts, whose d is that of
multinomial ones, and noise like that which was drawn. There is no seed: whoever asks twice reads the same p-value.

Cramer's V is about the table itself: V^2 = sum of d^2 / e, with e = N p q', over N (fewer of rows and columns - 1).
Noise adds to it, so V^2 of the noisy table is too high. With the tables e + s d, whose V is s times that of n, the
noise is simulated for each s: the estimate is the s that explains V^2 of n on average, the interval holds those that
explain it within the confidence (test inversion).

Both need unbiased counts, whose noise is known: what a model made of them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import shake_256
from math import inf, nan, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.answers.evaluate import Evaluation, Shown, Sum
from sfumato.answers.fieller import Functional, Term, linear_interval
from sfumato.answers.question import Groups, cell_weights, kinds_asked
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import EVERY_ROW, times
from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, ValueSet
from sfumato.domain.predicates import Predicate
from sfumato.effort import at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Laplace
from sfumato.schema import Schema
from sfumato.sql import Amount, Column, Select, compile_select
from sfumato.sql.plan import Bivariate

MOST_TESTED = 2**10  # counts of a table of two attributes
MOST_IN_ALL = 2**12  # of such counts, over the groups of an answer
DRAWS = 4_999  # simulated tables of a test, so that a p-value is a multiple of 1 / 5,000
DRAWS_OF_V = 1_999
FEW = 16  # noises, and the root of rows, beyond which a sum of them is taken as normal
HALVINGS = 24  # of the bracket around an end of an interval
MEASURED = "ask with --unbiased (unbiased=True), or release these columns together"


@dataclass(frozen=True, eq=False)
class PairTable:
    """Noisy counts of two attributes, (rows, columns). terms: noises with their weights on the counts, row by row."""

    counts: Floats
    terms: tuple[Term, ...]

    @property
    def weights(self) -> Floats:
        """Weight of each noise in each count, (noises, counts)."""
        weights = np.array([term.weights[::3] for term in self.terms], dtype=np.float64)
        return weights.reshape(len(self.terms), -1)[:, : self.counts.size] if self.terms else np.zeros((0, self.size))

    @property
    def size(self) -> int:
        return int(self.counts.size)

    @property
    def covariance(self) -> Floats:
        """Covariance of the noise, (counts, counts)."""
        variances = np.array([term.noise.variance * term.multiplicity for term in self.terms])
        return np.asarray((self.weights.T * variances) @ self.weights)

    def noise(self, draws: int, uniform: Uniform) -> Floats:
        """Simulate the noise of the table, (draws, counts)."""
        every = np.zeros((draws, self.size))
        for term, weights in zip(self.terms, self.weights, strict=True):
            inside = np.flatnonzero(weights)
            every[:, inside] += _drawn(term, draws, uniform)[:, None] * weights[inside]
        return every

    def kept(self, rows: Codes, columns: Codes) -> PairTable:
        """Table of some rows and columns."""
        inside = (rows[:, None] * self.counts.shape[1] + columns).reshape(-1)
        weights = np.repeat(self.weights[:, inside], 3, axis=1).tolist()
        terms = (replace(term, weights=tuple(each)) for term, each in zip(self.terms, weights, strict=True))
        return PairTable(self.counts[np.ix_(rows, columns)], tuple(terms))

    def surely_there(self, axis: int, confidence: float) -> Codes:
        """Rows (0) or columns (1) whose sum surely is positive: its interval excludes 0."""
        kept, sums = [], self.counts.sum(axis=1 - axis)
        for place, value in enumerate(sums.tolist()):
            label = np.zeros(self.counts.shape)
            label[(slice(None),) * axis + (place,)] = 1.0
            along = self.weights @ label.reshape(-1)
            terms = [replace(term, weights=(each,) * 3) for term, each in zip(self.terms, along.tolist(), strict=True)]
            if linear_interval(Functional(value, value, value), terms, confidence).low > 0.0:
                kept.append(place)
        return np.array(kept, dtype=np.int64)


class Uniform:
    """Reproducible uniform numbers for simulations of what is public; noise is drawn elsewhere."""

    def __init__(self) -> None:
        self._asked = 0

    def __call__(self, many: int) -> Floats:
        """Numbers between 0 and 1, both excluded, (many,): new ones with each call."""
        self._asked += 1
        bits = np.frombuffer(shake_256(self._asked.to_bytes(8, "big")).digest(8 * many), dtype=np.uint64)
        return np.asarray(((bits >> 12).astype(np.float64) + 0.5) / 2.0**52)


def _drawn(term: Term, draws: int, uniform: Uniform) -> Floats:
    """Simulate the sum of the noises of a term, (draws,), normal if they are many.

    A discrete Laplace noise is the difference of two geometric ones, by inversion.
    """
    if isinstance(term.noise, Laplace) and term.multiplicity <= FEW:
        signs = np.repeat([1.0, -1.0], term.multiplicity)
        steps = np.floor(-float(term.noise.scale) * np.log(uniform(len(signs) * draws))).reshape(len(signs), draws)
        return np.asarray(signs @ steps)
    from scipy.special import ndtri

    return np.asarray(sqrt(term.noise.variance * term.multiplicity) * ndtri(uniform(draws)))


def _poisson(mean: float, draws: int, uniform: Uniform) -> Floats:
    """Poisson numbers, (draws,): by inversion, or by the normal with a correction of skewness where they are large."""
    from scipy.special import ndtri, pdtr

    if mean <= FEW**2:
        return np.asarray(np.searchsorted(pdtr(np.arange(FEW**2 * 3), mean), uniform(draws)), dtype=np.float64)
    z = ndtri(uniform(draws))
    return np.asarray(np.rint(mean + sqrt(mean) * z + (z * z - 1.0) / 6.0))


def pair_tables(predicate: Predicate, names: tuple[str, str], at: Evaluation, what: str) -> Iterator[PairTable | None]:
    """Noisy table of two attributes for each present group; None if not determined. what: names the use in refusals."""
    view, domain = at.view, at.view.schema.domain
    axes = [domain[name] for name in names]
    shape = axes[0].places, axes[1].places
    size = shape[0] * shape[1]
    fewer = "take attributes with fewer values, or fewer groups"
    at_most(size, MOST_TESTED, f"counts of {names[0]} by {names[1]}", fewer)
    at_most(size * len(at.groups.present), MOST_IN_ALL, f"counts of {names[0]} by {names[1]} in all groups", fewer)
    if view.suppressed is not None or view.estimated:
        raise QueryError(f"{what} needs counts as they were measured; {MEASURED}")
    base = cell_weights(Amount(predicate, None), view.schema, view.cells.codes, view.cells.size)["count"]
    code = view.cells.codes[names[0]] * shape[1] + view.cells.codes[names[1]]
    code = np.where((view.cells.codes[names[0]] < shape[0]) & (view.cells.codes[names[1]] < shape[1]), code, -1)
    sums = [
        Sum({"count": times(base, np.asarray(code == each, dtype=np.float64))}, {}, {}, np.zeros(at.groups.number))
        for each in range(size)
    ]
    values = np.array([at.values_of(one)[0] for one in sums])  # (counts, groups)
    for group, terms in zip(at.groups.present, at.terms(sums), strict=True):
        if terms is not None and any(term.model for term in terms):
            raise QueryError(f"{what} needs counts as they were measured; {MEASURED}")
        yield None if terms is None else PairTable(values[:, group].reshape(shape), tuple(terms))


def cramers_v(column: Column, rule: Bivariate, evaluation: Evaluation) -> list[Estimate]:
    """Cramer's V with its interval for every present group."""
    at = evaluation if rule.grouped else replace(evaluation, groups=EVERY_ROW)
    estimates = []
    for table in pair_tables(rule.predicate, (rule.of, rule.by), at, "CRAMERS_V"):
        if table is None:
            evaluation.undetermined.append(column)
        estimates.append(_v(table, at.confidence))
    return estimates if rule.grouped else estimates * len(evaluation.groups.present)


def _v(table: PairTable | None, confidence: float) -> Estimate:
    """Cramer's V over the values that surely have rows, by test inversion."""
    unknown = Estimate(nan, nan, 0.0, 1.0, confidence, nan, nan)
    if table is None:
        return unknown
    rows, columns = (table.surely_there(axis, confidence) for axis in (0, 1))
    if min(len(rows), len(columns)) < 2:
        return unknown
    table = table.kept(rows, columns)
    expected = table.counts.sum(axis=1)[:, None] * table.counts.sum(axis=0) / table.counts.sum()
    apart, fewer = table.counts - expected, min(table.counts.shape) - 1
    noise = table.noise(DRAWS_OF_V, Uniform()).reshape(-1, *table.counts.shape)
    observed = float(_phi_squared(table.counts[None])[0])
    tail = (1.0 - confidence) / 2.0

    def excess(law: Callable[[Floats], float]) -> Callable[[float], float]:
        """Simulated statistic at dependence s, less the observed one; its root is an end of the interval."""
        return lambda s: law(_phi_squared(expected + s * apart + noise)) - observed

    most = sqrt(fewer / observed) if observed > 0.0 else 0.0  # where V is 1
    value, low, high = (
        _root(excess(law), most) * sqrt(observed / fewer)
        for law in (
            lambda each: float(each.mean()),
            lambda each: float(np.quantile(each, 1.0 - tail)),
            lambda each: float(np.quantile(each, tail)),
        )
    )
    low, high = min(low, value), max(high, value)
    stderr = (high - low) / (2.0 * NormalDist().inv_cdf(1.0 - tail))
    return Estimate(value, stderr, low, high, confidence, stderr)


def _phi_squared(tables: Floats) -> Floats:
    """Sum of d^2 / e over N of each table, (tables,). Margins that noise made less than a row count as one row."""
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    whole = np.maximum(tables.sum(axis=(1, 2)), 1.0)[:, None, None]
    apart = tables - rows[:, :, None] * columns[:, None, :] / whole
    expected = np.maximum(rows, 1.0)[:, :, None] * np.maximum(columns, 1.0)[:, None, :] / whole
    return np.asarray((apart**2 / expected).sum(axis=(1, 2)) / whole[:, 0, 0])


def _root(rising: Callable[[float], float], most: float) -> float:
    """Zero of a rising function between 0 and most by bisection; the nearest end where there is none."""
    low, high = 0.0, most
    if rising(low) >= 0.0:
        return low
    if rising(high) <= 0.0:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)
    return (low + high) / 2.0


@dataclass(frozen=True, eq=False)
class IndependenceTest:
    """Chi-square test of independence of two attributes. It prints as a line.

    statistic: Pearson's chi-square if there were no noise. p_value: chance of so large a statistic if rows were drawn
    from a population in which both are independent, noise included. degrees: of freedom. rows: estimate of their
    number.
    """

    names: tuple[str, str]
    statistic: float
    degrees: int
    p_value: float
    rows: Estimate
    notes: tuple[str, ...]

    def __str__(self) -> str:
        chance = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        free = f"{self.degrees} degree{'s' * (self.degrees > 1)} of freedom"
        first = (
            f"{self.names[0]} and {self.names[1]}: chi-square {self.statistic:.4g}, {free}, {chance}, "
            f"{self.rows.value:,.0f} ± {self.rows.stderr:,.0f} rows"
        )
        return "\n".join([first, *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__


def independence(content: Shown, first: str, second: str, *, where: str | None = None) -> IndependenceTest:
    """Test whether two attributes are independent. where: condition as behind WHERE in SQL."""
    schema = content.schema
    names = attribute_named(first, schema), attribute_named(second, schema)
    if names[0] == names[1]:
        raise QueryError(f"{names[0]} is not independent of itself; name two attributes")
    rows = Predicate.everything()
    if where is not None:
        rows = compile_select(f"SELECT COUNT(*) FROM release WHERE {where}", schema).where
    for name in names:
        if schema.domain[name].missing:
            rows &= ~Predicate.where(name, ValueSet.missing())
    select = Select((Column("n", tuple(Amount(rows, name) for name in names)),), (), Predicate.everything())
    evaluation = Evaluation(content.view(kinds_asked(select, schema)), Groups.of(select, schema.domain), 0.95)
    (table,) = pair_tables(rows, names, evaluation, "a test")
    if table is None:
        raise QueryError(f"{names[0]} and {names[1]} were not measured together, so there is no test; {MEASURED}")
    counted = evaluation.evaluate(Column("n", (Amount(rows, None),)))[0]
    if not counted.low > 0.0:
        raise QueryError("there are too few rows to test, compared with the noise; take more of them")
    statistic, p_value = _tested(table)
    many = [axis.places - 1 for axis in (schema.domain[name] for name in names)]
    notes = ["the p-value knows the noise of the release; rows are taken as drawn one by one from a population"]
    if schema.privacy_unit.contributions > 1:
        notes.append(f"several rows of one {schema.privacy_unit.column} are not independent: the p-value is too small")
    return IndependenceTest(names, statistic, many[0] * many[1], p_value, counted, tuple(notes))


def _tested(table: PairTable) -> tuple[float, float]:
    """Statistic T and its p-value by simulation."""
    shape = table.counts.shape
    p, q = (np.maximum(table.counts.sum(axis=axis), 0.0) for axis in (1, 0))
    p, q, whole = p / p.sum(), q / q.sum(), max(float(table.counts.sum()), 1.0)
    inside = (np.arange(shape[0] - 1)[:, None] * shape[1] + np.arange(shape[1] - 1)).reshape(-1)  # the rest follows
    linear = np.kron(*(np.eye(len(one)) - np.outer(one, np.ones(len(one))) for one in (p, q)))[inside]
    sampling = whole * np.kron(*((np.diag(one) - np.outer(one, one))[:-1, :-1] for one in (p, q)))
    both = sampling + linear @ table.covariance @ linear.T
    inverse = np.linalg.pinv(both, hermitian=True)
    form = inverse @ sampling @ inverse

    def statistics(tables: Floats) -> Floats:
        """T of each table, (tables,)."""
        margins = tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :]
        apart = (tables - margins / np.maximum(tables.sum(axis=(1, 2)), 1.0)[:, None, None]).reshape(len(tables), -1)
        return np.asarray(((apart[:, inside] @ form) * apart[:, inside]).sum(axis=1))

    uniform, means = Uniform(), whole * np.outer(p, q).reshape(-1)
    drawn = table.noise(DRAWS, uniform) + np.stack([_poisson(mean, DRAWS, uniform) for mean in means.tolist()], axis=1)
    statistic = float(statistics(table.counts[None])[0])
    larger = int((statistics(drawn.reshape(-1, *shape)) >= statistic).sum())
    return statistic, (1 + larger) / (DRAWS + 1)


def attribute_named(name: str, schema: Schema) -> str:
    """Attribute of this name, capitals or not."""
    known = {one.lower(): one for one in schema.domain.names}
    if name.lower() not in known:
        raise QueryError(f"there is no attribute {name!r}; there are {', '.join(list(known.values())[:20])}")
    return known[name.lower()]


def ratio_statement(exposure: str, outcome: str, schema: Schema, *, odds: bool, where: str | None) -> str:
    """SELECT of the odds ratio or the risk ratio of two attributes with two values each, or of two conditions."""
    with_it, so = condition_of(exposure, schema), condition_of(outcome, schema)
    a, b, c, d = (
        f"COUNT(*) FILTER (WHERE {one} AND {other})"
        for one in (f"({with_it})", f"NOT ({with_it})")
        for other in (f"({so})", f"NOT ({so})")
    )
    ratio = f"({a} / {b}) / ({c} / {d})" if odds else f"({a} / ({a} + {b})) / ({c} / ({c} + {d}))"
    return f"SELECT {ratio} AS ratio FROM release" + (f" WHERE {where}" if where is not None else "")


def condition_of(text: str, schema: Schema) -> str:
    """SQL condition that an attribute with two values has the second; a text that names none is itself a condition."""
    names: Sequence[str] = [name for name in schema.domain.names if name.lower() == text.strip('" ').lower()]
    if not names:
        return text
    axis: Axis = schema.domain[names[0]]
    name = '"' + axis.name.replace('"', '""') + '"'
    if axis.places != 2 or axis.kind == "number":
        raise QueryError(f"{axis.name} has not two values; write a condition, such as {axis.name} = 'yes'")
    if axis.kind == "boolean":
        return name
    value = str(axis.label(1)).replace("'", "''")
    return f"{name} = {value if axis.kind == 'integer' else chr(39) + value + chr(39)}"


def as_ratio(found: Estimate) -> Estimate:
    """Clip the interval of a ratio of counts at 0; unknown where noise made the ratio negative."""
    if not found.value >= 0.0:
        return replace(found, value=nan, stderr=nan, low=0.0, high=inf, noise=nan, model=nan, sure=None)
    sure = None if found.sure is None else (max(found.sure[0], 0.0), found.sure[1])
    return replace(found, low=max(found.low, 0.0), sure=sure)
