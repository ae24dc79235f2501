"""Release of halfspace counts: noisy counts along canonical directions answer any linear condition on numbers.

A halfspace is answered by the canonical one nearest to it in each projection, and by the median over projections; the
error of such answers was measured once, with noise (docs/halfspace.md).

File format; the net is made again from its parameters:

counts  the rows of every bin, direction by direction and projection by projection
tested  the noisy sums of misfits, of some test questions each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import degrees, exp, hypot, pi, sin, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sfumato.answers.noise_sum import check_confidence, upper_quantile
from sfumato.answers.results import Estimate, Result
from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.forms import check_form, in_sql
from sfumato.lab.papers.halfspace.net import Halfspace, Net, questions_to_try, read_halfspace, scaled
from sfumato.measurement import Measurement, Noise
from sfumato.models.calibration.model_error import NORMAL_END
from sfumato.plain_text import off_on_average
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.sql import Select

COLUMNS = {"counts": ["count"], "tested": ["misfit"]}
MOST_DIRECTIONS = 4096
MOST_OFFSETS = 4096
MOST_PROJECTIONS = 64
MOST_ATTRIBUTES = 16
MOST_TESTS = 1024
MOST_SEED = 2**53
LARGEST = 2**56  # of an answer: sums of a few hundred of them stay exact


@record
class HalfspacesRecord:
    """Manifest of halfspaces."""

    over: Annotated[list[str], Field(min_length=1, max_length=MOST_ATTRIBUTES)]
    projections: Annotated[int, Field(ge=1, le=MOST_PROJECTIONS)]
    dimensions: Annotated[int, Field(ge=1, le=MOST_ATTRIBUTES)]
    directions: Annotated[int, Field(ge=1, le=MOST_DIRECTIONS)]
    offsets: Annotated[int, Field(ge=2, le=MOST_OFFSETS)]
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)]
    tests: Annotated[int, Field(ge=0, le=MOST_TESTS)]
    noise: NoiseRecord
    noises_of_misfits: Annotated[list[NoiseRecord], Field(max_length=MOST_TESTS)]


STATISTICS = [Statistic("count", "counts", "count", None)]
DELTA = 0.05


def every_bound(net: Net, noise: Noise, delta: float = DELTA) -> float:
    """Bound on the noise of all canonical halfspaces, in rows, with probability 1 - delta: a union bound."""

    level = 1.0 - delta / (2.0 * net.halfspaces)
    # Brought to one total, half of the bins or fewer carry noise beyond what the total has.
    return float(upper_quantile([(1.0, noise, max(1, net.offsets // 2))], level))


def changed_by(dimensions: int, gamma: float) -> float:
    """Upper bound, by theorem 5, on the probability that projection changes a cosine by more than gamma / 4.

    >>> round(changed_by(20_000, 0.5), 4)
    0.0176
    """
    part = gamma / 16.0
    return min(1.0, 2.0 * exp(-(part**2 - part**3) * dimensions / 4.0))


def dimensions_needed(gamma: float, share: float) -> int:
    """Least dimension by theorem 5 for which at most a share / 4 of points change their angle by gamma / 4."""
    part = gamma / 16.0
    return int(np.ceil(4.0 * np.log(8.0 / share) / (part**2 - part**3)))


def guarantee(net: Net) -> str:
    """Sentence on the error guarantee of halfspaces other than the canonical ones."""
    gamma = sin(net.angle)
    if net.plain:
        return (
            f"nothing is projected: another halfspace answers, whose direction is within "
            f"{degrees(net.angle):.1f} degrees (gamma {gamma:.2f}), rows near its line may be counted or not"
        )
    return (
        f"{net.projections} projections to {net.dimensions} dimensions: the survey's theorem promises nothing for so "
        f"few (chance {changed_by(net.dimensions, 0.5):.2f} of changing an angle by 1/8; it needs "
        f"{dimensions_needed(0.5, 0.1):,} dimensions, and there are {len(net.axes)} attributes)"
    )


MOST_OFF = 4.0  # times the rows that may be on either side, up to which the error of the net is sought
HALVINGS = 50
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Halfspaces(Content):
    """Noisy counts `measured` by bin along every canonical direction of `net`, one direction after the other.

    misfits: noisy sums of the absolute errors of answers to the net's test questions; tests: number of questions.
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
        """Rows by projection, direction and bin, shifted evenly so that all directions have one total."""
        shape = (*self.net.vectors.shape[:2], self.net.offsets)
        noisy = np.array([each.answers for each in self.measured], dtype=np.float64).reshape(shape)
        sums = noisy.sum(axis=2, keepdims=True)
        return np.asarray(noisy + (sums.mean() - sums) / self.net.offsets)

    @cached_property
    def rows(self) -> float:
        """Estimated number of all rows: mean over all directions, at least 0."""
        return max(float(self.counts.sum(axis=2).mean()), 0.0)

    @property
    def variance(self) -> float:
        """Variance of the noise of a bin."""
        return self.measured[0].noise.variance

    def value(self, direction: Floats, offset: float) -> tuple[float, float, float]:
        """Noisy count of a halfspace, standard deviation of its noise, and expected rows misplaced by cut bins.

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
        """Ratio of the net's error to the rows misplaced by cut bins, estimated from the measured misfit.

        Errors are taken as normal, with variance that of the noise + (ratio * those rows)^2. The misfit is raised by
        its standard error first.
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
        """Total error of the answers to all test questions, and its standard error."""
        every = [float(each.answers[0]) for each in self.misfits]
        return sum(every), sqrt(sum(each.noise.variance for each in self.misfits))

    def halfspace(self, weights: Mapping[str, float], threshold: float, confidence: float) -> Estimate:
        """Estimate of the rows whose weighted sum of attributes is above a threshold."""
        return self._beyond(weights, threshold + _hair(threshold), confidence)

    def _beyond(self, weights: Mapping[str, float], threshold: float, confidence: float) -> Estimate:
        """Estimate for a halfspace without rows on its boundary."""
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
        """Answer SELECT COUNT(*) with a linear condition (a halfspace)."""
        asked = read_halfspace(sql, self.schema)
        found = self._total(confidence) if not asked.weights else self._asked(asked, confidence)
        return Result((asked.name,), ((found,),), confidence, self._notes(asked), numbers=frozenset({asked.name}))

    def _asked(self, asked: Halfspace, confidence: float) -> Estimate:
        """Estimate for > or >=: the boundary is shifted by a hair, so that rows on it count or not."""
        hair = _hair(asked.threshold)
        return self._beyond(asked.weights, asked.threshold + (-hair if asked.closed else hair), confidence)

    def _total(self, confidence: float) -> Estimate:
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
        net = self.net
        noise = (
            f"{net.halfspaces:,} canonical halfspaces; with probability {100 * (1 - DELTA):g} % the noise of each is "
            f"within {every_bound(net, self.measured[0].noise):,.0f} of {self.rows:,.0f} rows"
        )
        return About(
            self.domain.names,
            f"{net.halfspaces:,} halfspaces over {', '.join(self.over)}",
            (*self.measured, *self.misfits),
            "counts carry noise, and one halfspace answers for another; how far that is off was measured with noise",
            (noise, guarantee(net), *self._said_of_misfits()),
            tuple(self._examples()),
        )

    def _said_of_misfits(self) -> tuple[str, ...]:
        """Sentence on the measured mean error of answers."""
        if not self.misfits:
            return ()
        mean, error = (each / self.tests for each in self.misfit)
        said = f"on {self.tests} halfspaces at random, answers were"
        if mean <= error:  # as in `mean_error` of models/calibration/misfits_by_kind.py
            return (f"{said} {off_on_average(0.0, hidden=max(mean, 0.0) + NORMAL_END * error)}",)
        return (f"{said} {off_on_average(mean)} (± {error:,.0f}, noise of this figure)",)

    def _examples(self) -> Iterator[str]:
        names = [in_sql(name) for name in self.over]
        middles = [float((axis.edges[0] + axis.edges[-1]) / 2) for axis in self.net.axes]
        every = f"SELECT COUNT(*) AS n FROM {in_sql(self.schema.dataset)}"
        yield every
        yield f"{every} WHERE {names[0]} > {middles[0]:g}"
        if len(names) > 1:
            yield f"{every} WHERE {names[0]} + {names[1]} > {sum(middles[:2]):g}"

    def write(self) -> Written:
        answers = np.concatenate([each.answers for each in self.measured])
        tested = np.array([int(each.answers[0]) for each in self.misfits], dtype=np.int64)
        parameters = ("projections", "dimensions", "directions", "offsets", "seed")
        details: dict[str, Any] = {
            "over": list(self.over),
            **{name: getattr(self.net, name) for name in parameters},
            "tests": self.tests,
            "noise": noise_as_json(self.measured[0].noise),
            "noises_of_misfits": [noise_as_json(each.noise) for each in self.misfits],
        }
        members = {"counts": {"count": answers}, "tested": {"misfit": tested}}
        return Written("halfspaces", STATISTICS, members, {"details": details})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        about = details_as(HalfspacesRecord, manifest)
        check_form(manifest, COLUMNS, STATISTICS, "halfspaces")
        numbers = [axis.name for axis in schema.domain if axis.kind in ("integer", "number") and axis.places > 1]
        if not {*about.over} <= {*numbers} or len({*about.over}) < len(about.over):
            raise refusal("its attributes are not numbers of its schema, each once")
        tested = manifest.members["tested"].rows
        if tested != len(about.noises_of_misfits) or (about.tests > 0) != (tested > 0) or tested > about.tests:
            raise refusal("its test does not go with its manifest")
        projections = 1 if about.dimensions >= len(about.over) else about.projections
        directions = 1 if min(about.dimensions, len(about.over)) == 1 else about.directions
        if manifest.members["counts"].rows != projections * directions * about.offsets:
            raise refusal("it does not have a count for each bin of its directions")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Accept any integers: noisy counts have no bounds."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Halfspaces:
        about = details_as(HalfspacesRecord, manifest)
        axes = tuple(schema.domain[name] for name in about.over)
        net = Net(axes, about.projections, about.dimensions, about.directions, about.offsets, about.seed)
        counts, tested = member("counts")["count"], member("tested")["misfit"]
        if any(((each < -LARGEST) | (each > LARGEST)).any() for each in (counts, tested)):
            raise refusal("it has counts that no table has")
        rows, noise = counts.reshape(-1, about.offsets), (about.noise.noise,)
        measured = tuple(Measurement("count", Identity(about.offsets), each, noise) for each in rows)
        noises = enumerate(about.noises_of_misfits)
        misfits = tuple(Measurement("misfit", Identity(1), tested[n : n + 1], (one.noise,)) for n, one in noises)
        return cls(schema, net, measured, misfits, about.tests)


def _hair(threshold: float) -> float:
    """Shift of a boundary that rounding cannot undo."""
    return 1e-9 * max(1.0, abs(threshold)) if np.isfinite(threshold) else 0.0
