"""Lean on a release that was published before in another form: other columns, bins, values, or another mechanism.

Shared grid. Two axes of one name have cells in common: a category's values by name, what is not listed going with
"other"; ordered cells between cuts that both axes have. Both releases are summed over the groups of cells that come of
it, along one and two attributes, and the earlier one is brought to the rows of the new one.

Estimator. The two are a series of two periods (`borrowing.py`): the drift between them, and the scatter of counts, are
learned by moments of the innovations, so a prior of another population is believed as little as it deserves; what
jumps lets go. Of the earlier release its unbiased noisy counts are used where it has them, with the noise of each sum,
else its estimates with their errors. Nothing is spent, and guaranteed intervals do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.evaluate import Evaluation
from sfumato.answers.question import ByClass
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import MechanismError, QueryError, ReleaseFileError, SchemaError
from sfumato.frozen import dataclass
from sfumato.models.margins.borrowing import Periods, lean_on
from sfumato.models.margins.table import Places, sum_kinds
from sfumato.releases.contents.content import Content, ContentOfCells
from sfumato.schema import Schema
from sfumato.schema.attributes.lists import OTHER
from sfumato.sql import Amount, Column

if TYPE_CHECKING:
    from os import PathLike

    from sfumato.models.margins.content import Margins
    from sfumato.releases.release import Release

MOST_LEANT_ON = 2**20  # groups of cells of one table; larger ones have next to no rows each
MOST_NAMED = 6  # attributes in a message
UNKNOWN = 1e30  # variance of what the earlier release does not know
OUTSIDE, NO_VALUE = -1, -2  # groups of cells without a partner, and of rows without a value
_NUMBERS = ("integer", "number")


@dataclass(frozen=True, eq=False)
class Shared:
    """Groups of cells that two axes have in common.

    own: group of each cell of the new axis. prior: group of each cell of the earlier one, -1 where it has no partner.
    """

    own: Codes
    prior: Codes

    @classmethod
    def of(cls, own: Axis, prior: Axis) -> Shared | None:
        """Finest common groups of two axes; None where fewer than two are told apart by both."""
        kinds = {own.kind, prior.kind}
        if own.ordered and (len(kinds) == 1 or kinds <= {*_NUMBERS}):
            mine, its = _between_common_cuts(own, prior)
        elif not own.ordered and not prior.ordered:
            mine, its = _by_name(own, prior)
        else:
            return None
        numbers = dict.fromkeys([*mine, *([NO_VALUE] if own.missing else [])])  # groups as the new cells come
        places = {number: place for place, number in enumerate(numbers)}
        mine, its = [*mine, *([NO_VALUE] * own.missing)], [*its, *([NO_VALUE] * prior.missing)]
        found = cls(*(np.array([places.get(number, -1) for number in each], dtype=np.int64) for each in (mine, its)))
        return found if found.known.sum() > 1 else None

    @property
    def known(self) -> Flags:
        """Groups that the earlier axis has."""
        return np.isin(np.arange(self.own.max() + 1), self.prior)

    @property
    def order(self) -> Codes:
        """Classes of the earlier axis in the order in which its cells come: their groups, -1 for the rest."""
        return np.array([*dict.fromkeys(self.prior.tolist())], dtype=np.int64)


def _between_common_cuts(own: Axis, prior: Axis) -> tuple[list[int], list[int]]:
    """Groups of ordered cells, by the cuts that both axes have; what is outside of all of them has no partner."""
    cuts = np.intersect1d(own.edges, prior.edges)
    mine, its = (np.searchsorted(cuts, axis.edges[:-1], side="right") for axis in (own, prior))
    return mine.tolist(), [group if 0 < group < len(cuts) else OUTSIDE for group in its.tolist()]


def _by_name(own: Axis, prior: Axis) -> tuple[list[int], list[int]]:
    """Groups of listed values by name; a value that one axis does not list goes with the other of that axis."""
    fold = str.lower if "boolean" in (own.kind, prior.kind) else str
    ours, theirs = ([fold(str(axis.label(cell))) for cell in range(axis.places)] for axis in (own, prior))
    mine = {label: cell for cell, label in enumerate(ours)}
    if OTHER in theirs:
        gathered = [label for label in ours if label == OTHER or label not in theirs]
        mine |= dict.fromkeys([*gathered, OTHER], mine[gathered[0]] if gathered else OUTSIDE)
    return [mine[label] for label in ours], [mine.get(label, mine.get(OTHER, OUTSIDE)) for label in theirs]


def shared_axes(own: Domain, prior: Domain) -> dict[int, Shared]:
    """Common groups of the axes that two domains both name, by the place of the axis in the first."""
    found = {place: Shared.of(axis, prior[axis.name]) for place, axis in enumerate(own) if axis.name in prior}
    return {place: shared for place, shared in found.items() if shared is not None}


@dataclass(frozen=True, eq=False)
class Prior:
    """An earlier release to lean on. digest: of its file. shown: name of the file, for messages."""

    shown: str
    digest: str
    release: Release
    content: ContentOfCells

    @classmethod
    def read(cls, path: str | PathLike[str], schema: Schema, mechanism: str) -> Prior:
        """Open an untrusted file; refuse what the release of a schema by a mechanism cannot lean on."""
        from sfumato.releases.file.artifact import is_series, read_artifact
        from sfumato.releases.release import release_in

        _refuse_unable(schema, mechanism)
        if is_series(path):
            raise ReleaseFileError(
                f"{path} is a series; take out the part to lean on with `sfumato series extract`, and name that file",
                kind="input",
            )
        artifact = read_artifact(path)
        found = release_in(artifact)
        if not isinstance(found.content, ContentOfCells) or found.content.threshold is not None:
            raise ReleaseFileError(
                f"{artifact.path} is a release by {found.mechanism} that does not tell the counts of all cells, so "
                "that nothing can lean on it; leave out --prior",
                kind="input",
            )
        if not shared_axes(schema.domain, found.content.domain):
            ours, theirs = (", ".join(domain.names[:MOST_NAMED]) for domain in (schema.domain, found.domain))
            raise ReleaseFileError(
                f"{artifact.path} has no attribute in common with the schema, or none with two common values or bins "
                f"(it has {theirs}; the schema {ours}), so that nothing can lean on it; leave out --prior",
                kind="input",
            )
        return cls(artifact.path, artifact.digest, found, found.content)

    def lean(self, content: Content) -> Content:
        """Estimates of a new release that lean on this one."""
        from sfumato.models.margins.content import Margins

        return lean_on_prior(content, self.content) if isinstance(content, Margins) else content


def _refuse_unable(schema: Schema, mechanism: str) -> None:
    """Refuse releases whose estimates cannot lean on another one."""
    from sfumato.models.margins.hierarchy import hierarchies

    if mechanism != "margins":
        raise MechanismError(
            f"--prior is for releases by margins, and {mechanism} is the mechanism here; say --mechanism margins, or "
            "leave out --prior"
        )
    if schema.series is not None:
        raise SchemaError("parts of a series lean on each other when they are asked, by AS OF; leave out --prior")
    if schema.structure is not None or hierarchies(schema):
        raise SchemaError(
            "a release with rules, or with values in groups, cannot lean on an earlier one; leave out --prior"
        )


def lean_on_prior(own: Margins, prior: ContentOfCells) -> Margins:
    """Marginals drawn towards what an earlier release of a table like it says, as far as the two agree."""
    shared = shared_axes(own.domain, prior.domain)
    places = [*((place,) for place in shared), *combinations(shared, 2)]
    places = [each for each in places if each in own.tables["count"]]
    total = max(float(own.tables["count"][()].estimate), 1.0)
    counts = _tables(prior, own.domain, shared, [(), *places])
    scale = total / max(float(counts.pop(())[0]), 1.0)
    kinds = {place: each.own for place, each in shared.items()}
    before, now, typical = dict[Places, _Noisy](), dict[Places, _Noisy](), dict[Places, Floats]()
    for each, (numbers, variance) in counts.items():
        along = [kinds[place] for place in each]
        before[each] = numbers * scale, variance * scale**2
        if each in own.noisy:
            now[each] = _summed(own.noisy[each], along)
        estimate = sum_kinds(own.tables["count"][each].estimate, along)
        typical[each] = np.maximum(np.where(variance < UNKNOWN, (estimate + numbers * scale) / 2.0, estimate), 1.0)
    periods = Periods(total, [total, total], [before, now], typical)
    predicted = {
        each: prediction.forgetting(before[each][1] >= UNKNOWN * scale**2)
        for each, prediction in periods.predicted(1).items()
    }
    return lean_on(own, predicted, periods.walks, kinds)


_Noisy = tuple[Floats, Floats]  # counts along some axes, and the variance of each


def _summed(noisy: tuple[Floats, float], along: Sequence[Codes]) -> _Noisy:
    """Noisy counts summed over groups of cells."""
    numbers, variance = noisy
    return sum_kinds(numbers, along), variance * sum_kinds(np.ones(numbers.shape), along)


def _tables(
    content: ContentOfCells, own: Domain, shared: Mapping[int, Shared], sets: Iterable[Places]
) -> dict[Places, _Noisy]:
    """Counts of a release by common groups of cells, along the axes of another; sets that it cannot answer are left."""
    found, unbiased = dict[Places, _Noisy](), content
    with suppress(QueryError):  # of those that hold no unbiased counts the estimates must do
        measured = content.as_measured()
        unbiased = measured if isinstance(measured, ContentOfCells) else content
    for places in sets:
        shape = tuple(int(shared[place].own.max()) + 1 for place in places)
        if prod(shape) > MOST_LEANT_ON:
            continue
        with suppress(QueryError):  # not measured together, or too large to join
            found[places] = _counted(unbiased, {own.names[place]: shared[place] for place in places}, shape)
    return found


def _counted(content: ContentOfCells, shared: Mapping[str, Shared], shape: tuple[int, ...]) -> _Noisy:
    """Counts of a release along some attributes by groups of cells, and their variances; (groups, ...) each."""
    names = sorted(shared, key=content.domain.place)
    classes = {name: np.argsort(shared[name].order)[np.searchsorted(np.sort(shared[name].order), shared[name].prior)]
               for name in names}  # fmt: skip
    groups = ByClass.of_classes(classes)
    view = content.view(classes)
    if view.suppressed is not None:
        raise QueryError("cells below a threshold are not known")
    listed = Evaluation(view, groups, 0.95).evaluate(Column("n", (Amount(Predicate.everything(), None),)))
    numbers, variance = np.zeros(shape), np.full(shape, UNKNOWN)
    of = [shared[name].order for name in names]
    inside = np.ix_(*(each >= 0 for each in of))
    here = tuple(np.ix_(*(each[each >= 0] for each in of)))
    axes = [[*shared].index(name) for name in names]
    for result, found in ((numbers, [one.value for one in listed]), (variance, [one.stderr**2 for one in listed])):
        table = np.array(found).reshape(groups.shape)[inside]
        np.transpose(result, axes)[here] = table
    variance[~np.isfinite(numbers + variance)] = UNKNOWN
    numbers[variance >= UNKNOWN] = 0.0
    return numbers, variance
