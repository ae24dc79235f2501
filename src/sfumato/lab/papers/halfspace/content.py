"""Noisy counts along canonical directions, which answer for every halfspace: 3 * age - 2 * income > 10.

A halfspace is answered by the canonical one nearest to it in each projection, and by the median over projections. How
far that is off was measured once, with noise, on halfspaces through points of the grid at random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import hypot, pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.halfspace.net import Net, questions_to_try, scaled
from sfumato.measurement import Measurement
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.members import Columns
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.answers.estimate import Estimate
    from sfumato.answers.result import Result
    from sfumato.sql import Select
    from sfumato.sql.halfspaces import Halfspace

MOST_OFF = 4.0  # times the rows that may be on either side, up to which the error of the net is sought
HALVINGS = 50
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Halfspaces(Content):
    """net: the canonical halfspaces. measured: rows by bin along every direction, one after the other.

    misfits: noisy sums of what answers to the net's test questions are off by; tests: how many these are.
    """

    answers_counts: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    net: Net
    measured: tuple[Measurement, ...]
    misfits: tuple[Measurement, ...] = ()
    tests: int = 0

    @property
    def over(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.net.axes)

    @cached_property
    def counts(self) -> Floats:
        """Rows by projection, direction and bin, brought to one total."""
        shape = (*self.net.vectors.shape[:2], self.net.offsets)
        noisy = np.array([each.answers for each in self.measured], dtype=np.float64).reshape(shape)
        sums = noisy.sum(axis=2, keepdims=True)
        return np.asarray(noisy + (sums.mean() - sums) / self.net.offsets)

    @cached_property
    def rows(self) -> float:
        """All rows, from all directions together."""
        return max(float(self.counts.sum(axis=2).mean()), 0.0)

    @property
    def variance(self) -> float:
        """Of the noise of a bin."""
        return self.measured[0].noise.variance

    def value(self, direction: Floats, offset: float) -> tuple[float, float, float]:
        """The noisy count of a halfspace, the deviation of its noise, and how many rows may be on either side of it.

        The rows of a bin that the line cuts are taken as spread evenly over its points. If a share f of these lies
        inside, 2 f (1 - f) of the rows may be on the wrong side.
        """
        values, noises, unsure, bins = [], [], [], self.net.offsets
        for number, (place, share) in enumerate(self.net.inside(direction, offset)):
            held = self.counts[number, place]
            values.append(float(share @ held))
            mean = float(share.mean())  # of the total's noise, which all directions share
            noises.append(float(((share - mean) ** 2).sum()) + mean**2 * bins / len(self.measured))
            unsure.append(2.0 * float((share * (1.0 - share)) @ np.maximum(held, 0.0)))
        spread = 1.0 if len(values) < 3 else pi / 2.0  # of a median, over that of a mean
        variance = self.variance * float(np.mean(noises)) * spread / len(values)
        return float(np.median(values)), sqrt(variance), float(np.median(unsure))

    @cached_property
    def off(self) -> float:
        """The error of the net over the rows that may be on either side, by the measured misfit.

        Errors are thought of as normal, with the noise's variance and the square of this times those rows.
        """
        if not self.misfits:
            return 1.0
        asked = [self.value(*each) for each in questions_to_try(self.net, self.tests)]
        noises, unsure = np.array([each[1] for each in asked]), np.array([each[2] for each in asked])
        target = sum(self.misfit)  # a standard error more, so as not to be taken in by luck

        def expected(times: float) -> float:
            return float(np.hypot(noises, times * unsure).sum()) * sqrt(2.0 / pi)

        low, high = 0.0, MOST_OFF
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if expected(middle) < target else (low, middle)
        return high

    @property
    def misfit(self) -> tuple[float, float]:
        """What answers to all test questions are off by together, and the standard error of that."""
        every = [float(each.answers[0]) for each in self.misfits]
        return sum(every), sqrt(sum(each.noise.variance for each in self.misfits))

    def halfspace(self, weights: Mapping[str, float], threshold: float, confidence: float) -> Estimate:
        """How many rows have a weighted sum of attributes above a threshold."""
        return self._beyond(weights, threshold + _hair(threshold), confidence)

    def _beyond(self, weights: Mapping[str, float], threshold: float, confidence: float) -> Estimate:
        """The same where no row lies on the line itself."""
        from sfumato.answers.answer import check_confidence
        from sfumato.answers.estimate import Estimate

        check_confidence(confidence)
        strangers = [name for name in weights if name not in self.over]
        along = [float(weights.get(name, 0.0)) for name in self.over]
        if strangers or not any(along) or not np.isfinite([*along, threshold]).all():
            what = f"no direction along {strangers[0]}" if strangers else "no direction of these weights"
            raise QueryError(f"this release has {what}; give finite weights for some of {', '.join(self.over)}")
        direction, offset = scaled(self.net.axes, along, float(threshold))
        value, noise, unsure = self.value(direction, offset)
        model = self.off * unsure
        deviation = hypot(noise, model)
        width = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * deviation
        low, high = max(0.0, value - width), max(0.0, value + width)
        return Estimate(value, deviation, min(low, value), high, confidence, noise, model)

    # -- SQL

    def answer_text(self, sql: str, confidence: float) -> Result:
        """COUNT(*) of rows on one side of a line."""
        from sfumato.answers.result import Result
        from sfumato.sql.halfspaces import read_halfspace

        asked = read_halfspace(sql, self.schema)
        found = self._total(confidence) if not asked.weights else self._asked(asked, confidence)
        return Result((asked.name,), ((found,),), confidence, self._notes(asked), numbers=frozenset({asked.name}))

    def _asked(self, asked: Halfspace, confidence: float) -> Estimate:
        """Rows on the line itself count or not: it is moved by a hair."""
        hair = _hair(asked.threshold)
        return self._beyond(asked.weights, asked.threshold + (-hair if asked.closed else hair), confidence)

    def _total(self, confidence: float) -> Estimate:
        from sfumato.answers.estimate import Estimate

        deviation = sqrt(self.variance * self.net.offsets / len(self.measured))
        width = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * deviation
        return Estimate(self.rows, deviation, max(0.0, self.rows - width), self.rows + width, confidence, deviation)

    def _notes(self, asked: Halfspace) -> tuple[str, ...]:
        wide = [
            a.name for a in self.net.axes if a.name in asked.weights and (not a.discrete or np.ptp(a.edges) > a.places)
        ]
        if not wide:
            return ()
        return (
            f"rows are taken at the middle of their bins of {', '.join(wide)}; the interval does not allow for more",
        )

    def select(self, select: Select, confidence: float) -> Result:
        raise QueryError("this release counts rows on one side of a line; ask it COUNT(*) with a linear WHERE")

    # -- what it says of itself, and its file

    @property
    def about(self) -> About:
        from sfumato.lab.papers.halfspace.findings import examples_of, findings_of

        return About(
            self.domain.names,
            f"{self.net.halfspaces:,} halfspaces over {', '.join(self.over)}",
            (*self.measured, *self.misfits),
            "counts carry noise, and one halfspace answers for another; how far that is off was measured with noise",
            findings_of(self),
            examples_of(self),
        )

    def write(self) -> Written:
        from sfumato.lab.papers.halfspace import file as halfspaces_file

        return halfspaces_file.written(self)

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        from sfumato.lab.papers.halfspace import file as halfspaces_file

        halfspaces_file.check(manifest, schema)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Any whole numbers may be noisy counts."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Halfspaces:
        from sfumato.lab.papers.halfspace import file as halfspaces_file

        return cls(schema, *halfspaces_file.parts(manifest, schema, member))


def _hair(threshold: float) -> float:
    """By how much a line is moved off the rows that lie on it, which rounding would put on either side."""
    return 1e-9 * max(1.0, abs(threshold)) if np.isfinite(threshold) else 0.0
