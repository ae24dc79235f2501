"""What a classifier's noisy counts answer: rows by its target, by one of its attributes, or by both.

By the target alone every table tells something: they are averaged, each as far as its noise allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.intervals.fieller import Term
from sfumato.measurement import Noise
from sfumato.releases.answers.counted_noise import CountedNoise
from sfumato.releases.answers.gathered import Gathered, gather
from sfumato.releases.answers.groups import Groups
from sfumato.releases.answers.view import Sum, View

if TYPE_CHECKING:
    from sfumato.releases.contents.special.classifier import Classifier


@dataclass(frozen=True, eq=False)
class Averaged:
    """The noises of cells that are averages of several tables' cells; parts: their cells, noises and weights."""

    parts: tuple[tuple[Gathered, Noise, float], ...]

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[tuple[Term, ...]]:
        every = []
        for part, noise, weight in self.parts:
            found = CountedNoise({"count": noise}).terms(sides, part, groups)
            every.append([[_weighed(term, weight) for term in terms] for terms in found])
        return [tuple(term for terms in group for term in terms) for group in zip(*every, strict=True)]

    def largest_model_part(self, side: object, groups: object) -> None:
        """Not told here."""

    def signs_of_rows(self, within: object, cells: Gathered) -> None:
        return None


def _weighed(term: Term, weight: float) -> Term:
    return Term.of(term.noise, term.multiplicity, *(weight * each for each in term.weights))


def view_of_counts(content: Classifier, names: tuple[str, ...]) -> View:
    """Counts along some attributes, or a refusal that says along which there are some."""
    parts = [_gathered(domain, values, names, noise) for domain, values, noise in _tables(content, names)]
    if not parts:
        raise QueryError(_why_not(content, names))
    trust = np.array([1.0 / (part.merged * noise.continuous_variance) for part, noise in parts])
    weights = trust / trust.sum()
    values: Floats = np.sum(
        [weight * part.values["count"] for (part, _), weight in zip(parts, weights, strict=True)], axis=0
    )
    cells = Gathered(parts[0][0].codes, {"count": values}, parts[0][0].merged)
    averaged = Averaged(tuple((*part, float(weight)) for part, weight in zip(parts, weights, strict=True)))
    return View(content.schema, cells, averaged)


def _tables(content: Classifier, names: tuple[str, ...]) -> list[tuple[Domain, Floats, Noise]]:
    """The tables that have all the attributes."""
    found, features = [], content.features if content.tables else ()
    for feature, measured in zip(features, content.tables, strict=True):
        if {*names} <= {feature, content.target}:
            along = content.domain.along([content.target, feature])
            found.append((along, measured.answers.astype(np.float64), measured.noise))
    if content.tested is not None and content.by_stratum is not None and {*names} <= {content.target}:
        stratum = _stratum(content.domain, content.target, len(content.by_stratum))
        found.append((stratum, content.by_stratum.astype(np.float64).reshape(-1), content.tested.noise))
    return found


def _stratum(domain: Domain, target: str, strata: int) -> Domain:
    """The strata and the classes, as a domain of its own."""
    from sfumato.domain import Axis

    return Domain((Axis(f"stratum of {target}", "integer", np.arange(strata + 1.0)), domain[target]))


def _gathered(domain: Domain, values: Floats, names: tuple[str, ...], noise: Noise) -> tuple[Gathered, Noise]:
    by: Mapping[str, Floats] = {"count": values}
    return gather(domain, by, names), noise


def _why_not(content: Classifier, names: tuple[str, ...]) -> str:
    known = f"{content.target}, alone or by one of {', '.join(content.features)}" if content.tables else content.target
    return f"this classifier was learnt from counts by {known}; it has none by {', '.join(names)}; release margins"
