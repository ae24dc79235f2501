"""Release of a rule: one SQL condition that predicts a value of the label, with its noisy error rate."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn

import numpy as np
from pydantic import Field

from sfumato.answers.fieller import Functional, Interval, Term, ratio_interval
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.pac.rules import condition_of, holds
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file import members
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import CELLS, Columns
from sfumato.releases.file.records import PositiveExact, Text, fraction_text, record, refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.answers.results import Result
    from sfumato.sql import Select

COUNT = "count"
KINDS_OF_ROWS = 4  # the rule holds or not, and the label has the value or not: holds and has, holds and has not, ...
NO_COUNTS = "this release holds a rule and how often it is right, no counts; see `sfumato info` and `sfumato predict`"


@record
class RuleRecord:
    """Manifest of a rule. considered: rules that it was chosen from, with so much of epsilon."""

    rule: Text
    label: Text
    place: Annotated[int, Field(ge=0)]
    considered: Annotated[int, Field(ge=1)]
    choice: PositiveExact


@dataclass(frozen=True, eq=False)
class Rule(Content):
    """text: the condition. label, place: the attribute it tells of, and the number of the value it tells.

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
        """The value of the label that it tells."""
        return self.domain[self.label].label(self.place)

    def wrong(self, confidence: float = 0.95) -> Interval:
        """The share of rows that the rule gets wrong."""
        return self._share((0.0, 1.0, 1.0, 0.0), confidence)

    def commoner(self, confidence: float = 0.95) -> Interval:
        """Share of rows that the better of the two constant rules gets wrong."""
        has, has_not = (float(self.counted.answers[list(places)].sum()) for places in ((0, 2), (1, 3)))
        return self._share((1.0, 0.0, 1.0, 0.0) if has < has_not else (0.0, 1.0, 0.0, 1.0), confidence)

    def behind(self, confidence: float = 0.95) -> float:
        """Bound, with this confidence, on the rows that it gets wrong beyond those of the best rule of its class.

        A rule that gets t rows more wrong than the best is exp(-r t) times as likely, at rate r, and there are as many
        of them as rules: more than t with a probability of at most rules exp(-r t).
        """
        rate = float(self.choice) / self.schema.privacy_unit.contributions
        return log(self.considered / (1.0 - confidence)) / rate

    def _share(self, weights: tuple[float, ...], confidence: float) -> Interval:
        noise, answers = self.counted.noise, self.counted.answers.astype(np.float64)
        terms = [Term.of(noise, 1, weight, weight, weight, 1.0, 1.0, 1.0) for weight in weights]
        top, bottom = float(answers @ np.array(weights)), float(answers.sum())
        return ratio_interval(Functional(top, top, top), Functional(bottom, bottom, bottom), terms, confidence, (0, 1))

    def select(self, select: Select, confidence: float) -> Result:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise QueryError(NO_COUNTS)

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        """The value where the rule holds, the other one where it does not; null there if the label has several."""
        from sfumato.answers.answer import check_confidence
        from sfumato.lab.papers.predictions import share_of, with_predictions
        from sfumato.releases.rows.encode import NOWHERE, codes_in

        check_confidence(confidence)
        names, axis = self.condition.names, self.domain[self.label]
        codes = codes_in(rows, self.schema, names)
        known = np.all([np.ones(rows.num_rows, dtype=bool), *(codes[name] != NOWHERE for name in names)], axis=0)
        inside = {name: np.maximum(codes[name], 0) for name in names}
        told = holds(self.condition, self.domain, inside, rows.num_rows).tolist()
        others = [axis.label(place) for place in range(axis.size) if place != self.place]
        values = {True: self.value, False: others[0] if len(others) == 1 else None}
        right = {True: self._right((0, 1), 0, confidence), False: self._right((2, 3), 3, confidence)}
        judged = list(zip(told, known.tolist(), strict=True))
        shares = [share_of(right[says]) if sure else None for says, sure in judged]
        return with_predictions(rows, [values[says] if sure else None for says, sure in judged], shares)

    def _right(self, among: tuple[int, int], kind: int, confidence: float) -> Interval:
        """Share of one kind of rows among two: those that the rule judges alike."""
        counts, noise = self.counted.answers.astype(np.float64), self.counted.noise
        weights = (float(each == kind) for each in among)
        terms = [Term.of(noise, 1, weight, weight, weight, 1.0, 1.0, 1.0) for weight in weights]
        top, bottom = float(counts[kind]), float(counts[list(among)].sum())
        return ratio_interval(Functional(top, top, top), Functional(bottom, bottom, bottom), terms, confidence, (0, 1))

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
        """Four noisy counts may be any whole numbers."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Rule:
        about, (one,) = details_as(RuleRecord, manifest), manifest.statistics
        assert one.noise is not None  # noqa: S101 (checked when the file was opened)
        answers = member(one.member)[one.column]
        counted = Measurement(COUNT, Identity(KINDS_OF_ROWS), answers, (one.noise.noise,))
        return cls(schema, about.rule, about.label, about.place, about.considered, about.choice, counted)


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.2f} % (95 % interval {100 * share.low:.2f} to {100 * share.high:.2f} %)"
