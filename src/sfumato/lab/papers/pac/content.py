"""Rules that predict a value of the label: hypothesis classes of SQL conditions, and the release of one chosen rule.

thresholds: one ordered attribute, from or below any edge of its cells. stumps: such a threshold of any ordered
attribute, or a value of another one, or all but that. conjunctions: up to so many of these, of different attributes.
given: conditions that the user writes. All but the last include the two constant rules. A condition is read as every
WHERE is; one that cuts through a cell is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import log
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sfumato.answers.fieller import Interval
from sfumato.answers.noise_sum import check_confidence
from sfumato.arrays import Codes
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.forms import noisy_share, share_of, with_predictions
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file import members
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import CELLS, Columns
from sfumato.releases.file.records import PositiveExact, Text, fraction_text, record, refusal
from sfumato.releases.rows.coding import NOWHERE, codes_in
from sfumato.schema import Schema
from sfumato.sql import compile_select

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.answers.results import Result
    from sfumato.sql import Select


Mask = NDArray[np.bool_]
Literal = tuple[str, str, Mask]  # the attribute, the text, and for each of its cells whether it holds

MOST_RULES = 2**16  # time: each is looked at in every cell
MOST_ENTRIES = 2**27  # rules times cells: memory, a byte each
ALWAYS, NEVER = "1 = 1", "1 = 0"


@dataclass(frozen=True, eq=False)
class Rules:
    """Hypothesis class. texts: rules as SQL. holds: (rules, cells), whether each holds in each cell."""

    texts: tuple[str, ...]
    holds: Mask


def literals_of(axis: Axis) -> list[Literal]:
    """Atomic conditions on one attribute (thresholds or values); rows without a value satisfy none, as in SQL."""
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
    """Number of conjunctions of up to so many literals, the two constant rules included."""
    sums = [1] + [0] * literals  # of products over sets of attributes, by their size
    for name in attributes:
        own = len(literals_of(domain[name]))
        sums = [sums[0], *(sums[k] + own * sums[k - 1] for k in range(1, literals + 1))]
    return sum(sums[1:]) + 2


def conjunctions(domain: Domain, attributes: Sequence[str], literals: int) -> Rules:
    """Hypothesis class of all conjunctions of up to `literals` literals of different attributes."""
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
    """Hypothesis class of conditions that the user wrote; a QueryError for one on the label or unknown attributes."""
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
    parts = (part.strip() for line in lines for part in line.split(";"))
    return tuple(dict.fromkeys(part for part in parts if part))


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
    """Predicate of a condition in SQL.

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
    """Mask of listed cells in which a predicate holds, (length,). codes: of the cells along its attributes."""
    if not codes:  # it matters to no attribute: all rows or none
        return np.full(length, bool(predicate))
    return np.asarray(predicate.weights(domain, codes)[0] >= 0.5)


def holds_in_cells(predicate: Predicate, domain: Domain) -> NDArray[np.bool_]:
    """Mask of all cells of a domain in which a predicate holds, (cells,)."""
    cells = np.arange(domain.size, dtype=np.int64)
    codes = {name: domain.codes_along(name, cells) for name in predicate.names}
    return holds(predicate, domain, codes, domain.size)


COUNT = "count"
KINDS_OF_ROWS = 4  # the rule holds or not, and the label has the value or not: holds and has, holds and has not, ...
NO_COUNTS = "this release holds a rule and how often it is right, no counts; see `sfumato info` and `sfumato predict`"


@record
class RuleRecord:
    """Manifest of a rule. considered: size of the class it was chosen from. choice: epsilon of that choice."""

    rule: Text
    label: Text
    place: Annotated[int, Field(ge=0)]
    considered: Annotated[int, Field(ge=1)]
    choice: PositiveExact


@dataclass(frozen=True, eq=False)
class Rule(Content):
    """Published rule `text` for value number `place` of the attribute `label`, with its noisy confusion matrix.

    considered, choice: how many rules it was chosen from, and the epsilon for that. counted: rows where the rule holds
    and the label has the value, holds and has not, does not hold and has, neither.
    """

    answers_counts: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    text: str
    label: str
    place: int
    considered: int
    choice: Fraction
    counted: Measurement

    @cached_property
    def condition(self) -> Predicate:
        return condition_of(self.text, self.schema)

    @property
    def value(self) -> object:
        """Value of the label that the rule predicts."""
        return self.domain[self.label].label(self.place)

    def wrong(self, confidence: float = 0.95) -> Interval:
        """Error rate of the rule in the released table."""
        return self._share((1, 2), (0, 3), confidence)

    def commoner(self, confidence: float = 0.95) -> Interval:
        """Error rate of the better constant rule."""
        has, has_not = (int(self.counted.answers[list(kinds)].sum()) for kinds in ((0, 2), (1, 3)))
        return self._share((0, 2), (1, 3), confidence) if has < has_not else self._share((1, 3), (0, 2), confidence)

    def behind(self, confidence: float = 0.95) -> float:
        """Bound, at this confidence, on the excess errors (rows) over the best rule of the class.

        A rule that gets t rows more wrong than the best is exp(-r t) times as likely, at rate r, and there are as many
        of them as rules: more than t with a probability of at most rules exp(-r t).
        """
        rate = float(self.choice) / self.schema.privacy_unit.contributions
        return log(self.considered / (1.0 - confidence)) / rate

    def _share(self, inside: Sequence[int], outside: Sequence[int], confidence: float) -> Interval:
        """Share of some cells of the confusion matrix in these and others, with interval."""
        counts = self.counted.answers
        top, rest = ((float(counts[list(kinds)].sum()), len(kinds)) for kinds in (inside, outside))
        return noisy_share(self.counted.noise, top, rest, confidence)

    def select(self, select: Select, confidence: float) -> Result:
        raise QueryError(NO_COUNTS)

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        """Predict for rows: the value where the rule holds, else the other one; null if the label has several."""
        check_confidence(confidence)
        names, axis = self.condition.names, self.domain[self.label]
        codes = codes_in(rows, self.schema, names)
        known = np.all([np.ones(rows.num_rows, dtype=bool), *(codes[name] != NOWHERE for name in names)], axis=0)
        inside = {name: np.maximum(codes[name], 0) for name in names}
        told = holds(self.condition, self.domain, inside, rows.num_rows).tolist()
        others = [axis.label(place) for place in range(axis.size) if place != self.place]
        values = {True: self.value, False: others[0] if len(others) == 1 else None}
        right = {True: self._share((0,), (1,), confidence), False: self._share((3,), (2,), confidence)}
        judged = list(zip(told, known.tolist(), strict=True))
        shares = [share_of(right[says]) if sure else None for says, sure in judged]
        return with_predictions(rows, [values[says] if sure else None for says, sure in judged], shares)

    @property
    def about(self) -> About:
        wrong, common = self.wrong(), self.commoner()
        where = f"where {self.text}" if self.condition.names else "always" if self.condition else "never"
        findings = (
            f"{self.label} is {self.value} {where}: chosen from {self.considered:,} rule{'s' * (self.considered > 1)}.",
            f"It is wrong for {_percent(wrong)} of the rows; saying the same of all rows is for {_percent(common)}.",
            f"With 95 % confidence no rule of its class gets {self.behind():,.1f} rows fewer wrong.",
        )
        return About(
            tuple(dict.fromkeys((*self.condition.names, self.label))),
            f"a rule chosen from {self.considered:,}",
            (self.counted,),
            "the rule was chosen at random in favour of good ones; how often it is right was counted with known noise",
            findings,
        )

    def write(self) -> Written:
        details = {
            "rule": self.text,
            "label": self.label,
            "place": self.place,
            "considered": self.considered,
            "choice": fraction_text(self.choice),
        }
        statistics = [members.statistic(COUNT, self.schema, self.counted.noise)]
        return Written("rule", statistics, {CELLS: {COUNT: self.counted.answers}}, {"details": details})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        about = details_as(RuleRecord, manifest)
        if about.label not in schema.domain or about.place >= schema.domain[about.label].size:
            raise refusal("its rule tells a value that its schema does not have")
        if [one.of for one in manifest.statistics] != [COUNT] or manifest.statistics[0].noise is None:
            raise refusal("its statistics are not those of a rule")
        if not isinstance(manifest.statistics[0].noise.noise, Laplace):
            raise refusal("its noise is not the one that its kind has")
        members.check_columns(manifest, [])
        members.check_rows(manifest, dict.fromkeys(manifest.members, KINDS_OF_ROWS))
        try:
            condition_of(about.rule, schema)
        except QueryError:
            raise refusal("its rule is no condition on the attributes of its schema") from None

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Accept any four integers: noisy counts have no bounds."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Rule:
        about, (one,) = details_as(RuleRecord, manifest), manifest.statistics
        assert one.noise is not None  # noqa: S101 (checked when the file was opened)
        answers = member(one.member)[one.column]
        counted = Measurement(COUNT, Identity(KINDS_OF_ROWS), answers, (one.noise.noise,))
        return cls(schema, about.rule, about.label, about.place, about.considered, about.choice, counted)


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.2f} % (95 % interval {100 * share.low:.2f} to {100 * share.high:.2f} %)"
