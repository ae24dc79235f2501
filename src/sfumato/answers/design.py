"""Formula of a model ("income ~ age + C(region) + age:sex") to its family and its design matrix, without scarce values.

The grammar is the common part of Wilkinson-Rogers formulas: names, `C(name)` for a number taken as a category, `a:b`
for a product, `a*b` for `a + b + a:b`, and `- 1` or `+ 0` for a model without an intercept. A name with signs in it is
quoted: "hours-per-week", `hours-per-week` or Q("hours-per-week"). Categories are coded by indicators of every value but
the first (treatment coding), so coefficients are differences to that value.

Scarce values (`scarce_values`, `without`): values of a category with too few rows for a coefficient. Within the noise
such a value may have no rows, while sums of products over its rows are not zero. So its own coefficient is open, and
with it all others of columns that vary inside it: there is nothing that it could not explain. Without its rows the
others are what they are. They move by about the share that these rows have in the table, times how different they are.
So nothing is left out if that share may be large: then coefficients stay open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from sfumato.answers.evaluate import Evaluation, Sum
from sfumato.answers.fieller import Functional, Interval
from sfumato.answers.function_interval import Function, function_interval
from sfumato.answers.question import ByStatistic
from sfumato.answers.spreads import by_factor
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema

MOST_CHARACTERS = 2_000
MOST_COLUMNS = 24  # of a design matrix: their products are worked out together
_QUOTED = re.compile(r"""Q\(\s*(?:"([^"]+)"|'([^']+)')\s*\)|"([^"]+)"|`([^`]+)`""")
_SIGNS = "()+-~*:"
_HIDDEN = str.maketrans(_SIGNS, "\ue000\ue001\ue002\ue003\ue004\ue005\ue006")  # of quoted names, while signs are read
_QUOTE = "\ue007"  # before such a name, so that a column named 1 is no intercept
_SHOWN: dict[int, str | None] = {hidden: chr(sign) for sign, hidden in _HIDDEN.items()} | {ord(_QUOTE): None}
_TERM = re.compile(r"\s*(?:C\(\s*(?P<coded>[^()]+?)\s*\)|(?P<plain>[^()+\-~*:]+?))\s*")
WRITE = "write a formula such as 'income ~ age + C(region) + age:sex'"


@dataclass(frozen=True, eq=False)
class Family:
    """Mean of the outcome as a function of eta = X beta, with its derivative. title: of the printed table."""

    name: str
    title: str
    mean: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]


def _logistic(eta: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(eta, -700.0, 700.0))))


def _exponential(eta: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(eta, -700.0, 700.0)))


FAMILIES = {
    one.name: one
    for one in (
        Family("linear", "Least squares from a release", lambda eta: eta, np.ones_like),
        Family(
            "logistic", "Logistic regression from a release", _logistic, lambda eta: _logistic(eta) * _logistic(-eta)
        ),
        Family("poisson", "Poisson regression from a release", _exponential, _exponential),
    )
}


@dataclass(frozen=True)
class Factor:
    """A part of a design column along one attribute. value: of the indicator; None for the number itself."""

    attribute: str
    label: str
    value: int | None = None

    def along(self, domain: Domain) -> Floats:
        """Value of the factor in each cell of its attribute, (axis size,)."""
        axis = domain[self.attribute]
        if self.value is None:
            return np.asarray(axis.amounts[1], dtype=np.float64)
        return np.asarray(np.arange(axis.size) == self.value, dtype=np.float64)


@dataclass(frozen=True)
class DesignColumn:
    """A column of the design matrix: a product of factors, none of them for the intercept."""

    factors: tuple[Factor, ...]

    @property
    def name(self) -> str:
        return ":".join(factor.label for factor in self.factors) or "Intercept"

    @property
    def is_number(self) -> bool:
        """Whether the column is a single numeric attribute, which bins may blur."""
        return len(self.factors) == 1 and self.factors[0].value is None


@dataclass(frozen=True)
class Design:
    """Columns of a linear or generalised linear model. outcome: an attribute or a measure."""

    formula: str
    outcome: str
    columns: tuple[DesignColumn, ...]
    family: Family

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes of the predictors, each once."""
        return tuple(dict.fromkeys(factor.attribute for column in self.columns for factor in column.factors))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def sets(self, schema: Schema) -> set[frozenset[str]]:
        """Sets of attributes that the sums of products need jointly: of two columns (least squares), else of all."""
        outcome = frozenset({self.outcome} & {*schema.domain.names})
        if self.family.name != "linear":
            return {outcome.union(self.attributes)}
        each = [outcome, *(frozenset(one.attribute for one in column.factors) for column in self.columns)]
        return {one | other for one in each for other in each}


def read_formula(text: str, schema: Schema, family: str = "linear") -> Design:
    """Design of a formula over the columns of a schema. family: "linear", "logistic" or "poisson"."""
    if family not in FAMILIES:
        raise QueryError(f"a family is {', '.join(FAMILIES)}, not {family!r}")
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"a formula has at most {MOST_CHARACTERS:,} characters; {WRITE}")
    hidden = _QUOTED.sub(lambda found: _QUOTE + next(filter(None, found.groups())).translate(_HIDDEN), text)
    left, parted, right = hidden.partition("~")
    if not parted or "~" in right or not left.strip():
        raise QueryError(f"a formula has an outcome, ~ and predictors; {WRITE}")
    outcome = _known(left.strip(), schema)
    _check_outcome(outcome, schema, family)
    intercept, terms = True, list[tuple[tuple[str, bool], ...]]()
    for sign, term in re.findall(r"([+-]?)([^+-]+)", right):
        if term.strip() in ("0", "1"):
            intercept = (sign == "-") == (term.strip() == "0")
        elif sign == "-":
            raise QueryError(
                f"{_shown(term)} is taken out of the formula; leave it out instead (- 1 alone is known), and quote a "
                'name that has signs in it: "hours-per-week"'
            )
        else:
            terms += _products(term)
    if not right.strip() or not (terms or intercept):
        raise QueryError(f"the formula has no predictors; {WRITE}")
    names = [tuple(_factors(name, coded, schema, outcome) for name, coded in term) for term in dict.fromkeys(terms)]
    columns = [DesignColumn(())] if intercept else []
    columns += [DesignColumn(factors) for term in names for factors in product(*term)]
    if len(columns) > MOST_COLUMNS:
        raise QueryError(
            f"the formula makes {len(columns)} columns and {MOST_COLUMNS} is the most; take categories with fewer "
            "values, or fewer products"
        )
    return Design(" ".join(text.split()), outcome, tuple(dict.fromkeys(columns)), FAMILIES[family])


def _check_outcome(outcome: str, schema: Schema, family: str) -> None:
    """Refuse an outcome that a family cannot have."""
    axis = next((one for one in schema.domain if one.name == outcome), None)
    if family == "logistic":
        if axis is None or axis.places != 2 or axis.kind == "number":
            raise QueryError(f"{outcome}: the outcome of a logistic model is an attribute with two values")
    elif axis is not None and axis.kind not in ("integer", "number", "boolean"):
        raise QueryError(
            f"{outcome} is of type {axis.kind}; the outcome of least squares is a number or a boolean, and of two "
            'values by family="logistic"'
        )
    least = float(axis.amounts[0].min() if axis is not None else schema.measures[outcome].lower)
    if family == "poisson" and least < 0.0:
        raise QueryError(f"{outcome} may be negative by the schema; the outcome of a Poisson model is a count")


def _products(text: str) -> Iterator[tuple[tuple[str, bool], ...]]:
    """Terms of `a`, `a:b` and `a*b`, each as (name, whether it is taken as a category)."""
    starred = [_names(part) for part in text.split("*")]
    if len(starred) > 2:
        raise QueryError(f"{_shown(text)}: products of three are too many; write the wanted ones as a:b")
    yield from starred
    if len(starred) == 2:
        yield (*starred[0], *starred[1])


def _names(text: str) -> tuple[tuple[str, bool], ...]:
    result = []
    for part in text.split(":"):
        matched = _TERM.fullmatch(part)
        if matched is None:
            raise QueryError(f"{_shown(part) or 'an empty term'} cannot be read in a formula; {WRITE}")
        result.append((_shown(matched["coded"] or matched["plain"]), matched["coded"] is not None))
    if len(result) > 2 or len({name for name, _ in result}) < len(result):
        raise QueryError(f"{_shown(text)}: a term is one column, or the product of two different ones")
    return tuple(result)


def _shown(text: str) -> str:
    """Part of a formula as it was written, but for quotes."""
    return text.translate(_SHOWN).strip()


def _known(name: str, schema: Schema) -> str:
    """Column of this name, capitals or not."""
    name = _shown(name)
    known = [*schema.domain.names, *schema.measures]
    found = [one for one in known if one == name] or [one for one in known if one.lower() == name.lower()]
    if not found:
        raise QueryError(f"there is no column {name!r}; there are {', '.join(known[:20])}")
    return found[0]


def _factors(name: str, coded: bool, schema: Schema, outcome: str) -> list[Factor]:
    """Factors of one name: the number, or an indicator of every value but the first."""
    attribute = _known(name, schema)
    if attribute == outcome:
        raise QueryError(f"{attribute} is the outcome and cannot predict itself")
    if attribute not in schema.domain:
        raise QueryError(
            f"{attribute} is a measure, of which a release has sums alone; as a predictor declare it as an attribute "
            "too, and release again"
        )
    axis = schema.domain[attribute]
    if axis.kind in ("integer", "number") and not coded:
        return [Factor(attribute, attribute)]
    label = f"C({attribute})" if coded else attribute
    return [Factor(attribute, f"{label}[T.{axis.label(value)}]", value) for value in range(1, axis.places)]


Scarce = Mapping[str, frozenset[int]]  # values by attribute
NONE: Scarce = {}
CLEAR = 2.0  # times the half-width of its interval: a count above that is no zero, nor are sums of squares of its rows
MOST_LEFT_OUT = 0.05  # of the rows, at the upper end of the interval of how many are left out
MOST_NAMED = 3  # in a note


def scarce_values(design: Design, counts: ByStatistic, evaluation: Evaluation) -> dict[str, frozenset[int]]:
    """Values of the categories of a design whose counts are not clearly above zero; none if they may hold many rows.

    counts: weights of the count of all rows.
    """
    view, every = evaluation.view, list[tuple[str, int]]()
    coded = (one.attribute for column in design.columns for one in column.factors if one.value is not None)
    for name in dict.fromkeys(coded):
        every += [(name, value) for value in range(view.schema.domain[name].places)]
    if not every:
        return {}
    ones = np.ones(view.cells.size)
    found: dict[str, frozenset[int]] = {}
    parts = [(view.cells.codes[name] == value).astype(np.float64) for name, value in every]
    for (name, value), count in zip(every, _intervals(parts, counts, evaluation), strict=True):
        if count is None or count.value <= CLEAR * (count.value - count.low):
            found[name] = found.get(name, frozenset()) | {value}
    whole, out = _intervals([ones, ones - kept_cells(found, evaluation)], counts, evaluation)
    return found if whole and out and out.high <= MOST_LEFT_OUT * whole.low else {}


def _intervals(parts: Sequence[Floats], counts: ByStatistic, evaluation: Evaluation) -> list[Interval | None]:
    """Intervals of the counts of rows in some cells. parts: 1 for these, 0 for others, (cells,)."""
    sums = [Sum(by_factor(counts, part), {}, {}, np.zeros(1)) for part in parts]
    held = [Functional(*(float(part[0]) for part in evaluation.values_of(one))) for one in sums]
    terms, units = evaluation.terms(sums)[0], np.eye(len(sums))
    if terms is None:
        return [None] * len(sums)
    return [function_interval(_linear(unit), (), held, terms, evaluation.confidence) for unit in units]


def kept_cells(scarce: Scarce, evaluation: Evaluation) -> Floats:
    """1 for cells without scarce values, 0 for others, (cells,)."""
    cells = evaluation.view.cells
    kept = np.ones(cells.size)
    for name, values in scarce.items():
        kept *= ~np.isin(cells.codes[name], [*values])
    return kept


def without(design: Design, scarce: Scarce) -> tuple[Design, dict[int, int]]:
    """Design without columns of scarce values, and the place in it of every column that means the same there.

    Where a column is there without a category and times its values, coefficients are differences to the first value. If
    that is scarce, they become differences to the first that is not, which none of the asked ones are.
    """
    gone = {
        column for column in design.columns if any(one.value in scarce.get(one.attribute, ()) for one in column.factors)
    }
    known, differ = {column.factors: column for column in design.columns}, set[DesignColumn]()
    for name in (name for name, values in scarce.items() if 0 in values):
        coded = {one.value for column in design.columns for one in column.factors if one.attribute == name}
        first = min((value for value in coded if value is not None and value not in scarce[name]), default=0)
        for column in design.columns:
            rest = tuple(one for one in column.factors if one.attribute != name)
            if len(rest) == len(column.factors) or rest not in known:
                continue
            differ |= {column, known[rest]}
            if any(one.attribute == name and one.value == first for one in column.factors):
                gone.add(column)
    left = [column for column in design.columns if column not in gone]
    places = {design.columns.index(one): place for place, one in enumerate(left) if one not in differ}
    return replace(design, columns=tuple(left)), places


def in_words(scarce: Scarce, evaluation: Evaluation) -> str:
    """Note on the values whose rows are left out."""
    domain = evaluation.view.schema.domain
    named = [f"{name} = {domain[name].label(value)}" for name, values in scarce.items() for value in sorted(values)]
    more = f" and {len(named) - MOST_NAMED} more values" if len(named) > MOST_NAMED else ""
    return (
        f"{', '.join(named[:MOST_NAMED])}{more}: too few rows to tell from none. Coefficients of these are open, and "
        "their rows are left out of the others"
    )


def _linear(weights: Floats) -> Function:
    return lambda sums: (float(weights @ sums), weights)
