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
from dataclasses import replace
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.evaluate import Evaluation
from sfumato.answers.local_level import Prediction, Walk
from sfumato.answers.question import ByClass
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import MechanismError, QueryError, ReleaseFileError, SchemaError
from sfumato.frozen import dataclass
from sfumato.models.margins.borrowing import Periods, lean_margin, with_tables
from sfumato.models.margins.joining import onto_total
from sfumato.models.margins.shrinkage import LEAST, all_pairs, fit_margins
from sfumato.models.margins.table import Places, Table, sum_kinds
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
    earlier = Earlier.of(prior, own, shared)
    tables = dict(own.tables["count"])
    for place, (predicted, walk) in earlier.margins.items():
        tables[place,], _ = lean_margin(own, place, predicted, walk, shared[place].own)
    one_way = [tables[place,].estimate for place in range(len(own.domain.axes))]
    pairs = [_Pair.of(own, shared, places, told) for places, told in earlier.pairs.items()]
    believed = _Belief.of(pairs)
    ratios = dict[Places, float]()
    for pair in pairs:
        tables[pair.places], ratios[pair.places] = pair.leaning(believed)
    for places, table in tables.items():
        if len(places) == 2:
            fitted = fit_margins(np.maximum(table.estimate, 0.0), one_way[places[0]], one_way[places[1]])
            tables[places] = replace(table, estimate=fitted)
    return with_tables(own, tables, ratios)


_Noisy = tuple[Floats, Floats]  # counts along some axes, and the variance of each


@dataclass(frozen=True, eq=False)
class Earlier:
    """Counts of an earlier release by common groups of cells, at the rows of the new one.

    margins: for each shared axis what it predicts of the new margin, with its walk in time; what jumped is not
    predicted. pairs: its estimates along two axes, nan where it has none.
    """

    margins: Mapping[int, tuple[Prediction, Walk]]
    pairs: Mapping[Places, Floats]

    @classmethod
    def of(cls, prior: ContentOfCells, own: Margins, shared: Mapping[int, Shared]) -> Earlier:
        unbiased = prior
        with suppress(QueryError):  # of those that hold no unbiased counts the estimates must do
            measured = prior.as_measured()
            unbiased = measured if isinstance(measured, ContentOfCells) else prior
        total = max(float(own.tables["count"][()].estimate), 1.0)
        listed: list[Places] = [(), *((place,) for place in shared)]
        listed = [places for places in listed if not places or places in own.noisy]
        counts = _tables(unbiased, own.domain, shared, listed)
        if () not in counts:
            return cls({}, {})
        scale = total / max(float(counts.pop(())[0]), 1.0)
        before = {places: (numbers * scale, variance * scale**2) for places, (numbers, variance) in counts.items()}
        now = {places: _summed(own.noisy[places], [shared[place].own for place in places]) for places in before}
        rows = {p: sum_kinds(own.tables["count"][p].estimate, [shared[place].own for place in p]) for p in before}
        typical = {
            p: np.maximum(np.where(_known(before[p]), (rows[p] + before[p][0]) / 2.0, rows[p]), 1.0) for p in before
        }
        periods = Periods(total, [total, total], [before, now], typical)
        predicted = periods.predicted(1)
        margins = {p[0]: (predicted[p].forgetting(~_known(before[p])), periods.walks[p]) for p in before}
        both = [places for places in combinations(margins, 2) if places in own.tables["count"]]
        pairs = _tables(prior, own.domain, shared, both)
        if unbiased is prior:
            pairs = _shrunk(pairs, {place: before[place,][0] / scale for place in margins}, own.domain)
        found = dict[Places, Floats]()
        for places, numbers in pairs.items():
            jumped = [~np.isfinite(margins[place][0].variance) for place in places]
            unknown = np.logical_or.outer(*jumped) | ~_known(numbers)
            found[places] = np.where(unknown, np.nan, numbers[0] * scale)
        return cls(margins, found)


def _known(noisy: _Noisy) -> Flags:
    """Flags of counts that the earlier release has."""
    return np.asarray(noisy[1] < UNKNOWN * LEAST)


def _shrunk(pairs: Mapping[Places, _Noisy], margins: Mapping[int, Floats], domain: Domain) -> dict[Places, _Noisy]:
    """Unbiased noisy pairs, shrunk as those of one release are; none has less noise than rounding is worth."""
    axes = [*margins]
    total = max(float(np.mean([each.sum() for each in margins.values()])), 1.0)
    one_way = [onto_total(each, total) for each in margins.values()]
    noisy: dict[Places, tuple[Floats, float]] = {
        (axes.index(a), axes.index(b)): (numbers[0], max(float(np.median(numbers[1][_known(numbers)])), 1 / 12))
        for (a, b), numbers in pairs.items()
        if _known(numbers).any()
    }
    ordered = [domain.axes[place].ordered for place in axes]
    made = all_pairs(one_way, noisy, ordered) if noisy else {}
    return {(axes[a], axes[b]): (made[a, b].estimate, pairs[axes[a], axes[b]][1]) for a, b in noisy}


@dataclass(frozen=True, eq=False)
class _Pair:
    """A pair of the new release beside the earlier one's, by common groups of cells.

    table: as published, by cell. kinds: group of each value. known: groups that the earlier release tells, flags.
    published, earlier: of these, the latter fitted to the margins of the former. noisy: the new release's, if it
    measured the pair, with variances.
    """

    table: Table
    kinds: tuple[Codes, Codes]
    known: Flags
    published: Floats
    earlier: Floats
    noisy: _Noisy | None

    @classmethod
    def of(cls, own: Margins, shared: Mapping[int, Shared], places: Places, told: Floats) -> _Pair:
        table, (first, second) = own.tables["count"][places], (shared[place].own for place in places)
        published, known = sum_kinds(table.estimate, [first, second]), np.isfinite(told)
        held = np.where(known, published, 0.0)
        earlier = fit_margins(np.where(known, np.maximum(told, 0.0), 0.0), held.sum(axis=1), held.sum(axis=0))
        noisy = _summed(own.noisy[places], [first, second]) if places in own.noisy else None
        return cls(table, (first, second), known, published, np.where(known, earlier, published), noisy)

    @property
    def places(self) -> Places:
        return self.table.places

    @property
    def variance(self) -> Floats:
        """Claimed error variances by cell."""
        return np.maximum(self.table.noise + self.table.model, LEAST)

    @property
    def moments(self) -> Floats:
        """Sums over groups in units of their noise: products and squares of differences, risk (SURE); their number."""
        if self.noisy is None:
            return np.zeros(4)
        (numbers, drawn), apart = self.noisy, self.earlier - self.published
        own_noise = np.minimum(sum_kinds(self.table.noise, self.kinds), drawn)
        off, here = numbers - self.published, self.known
        sums = (apart * off + own_noise)[here], apart[here] ** 2, (off**2 - drawn + 2.0 * own_noise)[here]
        return np.array([*((each / drawn[here]).sum() for each in sums), here.sum()])

    def leaning(self, believed: _Belief) -> tuple[Table, float]:
        """Pair drawn towards the earlier one, and the ratio of its error variance to that before.

        Cells of a group share its correction by their variances (GLS), and its gain in the same way.
        """
        here, variance = np.ix_(*self.kinds), self.variance
        share = np.where(self.known[here], variance / sum_kinds(variance, self.kinds)[here], 0.0)
        moved = believed.weight * share * (self.earlier - self.published)[here]
        left = variance * (1.0 - believed.gain * share)
        noise = np.minimum((1.0 - believed.weight * share) ** 2 * self.table.noise, left)
        found = Table(self.places, self.table.estimate + moved, noise, left - noise)
        return found, float(left.sum() / variance.sum())


@dataclass(frozen=True, eq=False)
class _Belief:
    """Weight of the earlier release against the new one in pairs, and the share of error variance that it takes away.

    With p the published estimate, e the earlier one and y noisy counts of variance r of the same table, the weight of
    least squared error is E (e - p)(x - p) / E (e - p)^2. Its numerator is estimated by (e - p)(y - p) + Cov(p, y)
    (Stein's unbiased risk estimate), of which Cov(p, y) is at least the variance of the noise that is left in p. The
    gain is then weight^2 E (e - p)^2 of the risk E (p - x)^2 = E (p - y)^2 - r + 2 Cov(p, y). Of both the end of one
    standard error is taken, towards no weight and towards no gain.
    """

    weight: float
    gain: float

    @classmethod
    def of(cls, pairs: Sequence[_Pair]) -> _Belief:
        """Belief that all measured pairs support together."""
        products, squares, risk, number = np.sum([pair.moments for pair in pairs], axis=0) if pairs else np.zeros(4)
        if squares <= 0.0:
            return cls(0.0, 0.0)
        weight = float(np.clip((products - np.sqrt(squares)) / squares, 0.0, 1.0))
        return cls(weight, float(min(weight**2 * squares / (max(risk, 0.0) + np.sqrt(2.0 * number)), 1.0)))


def _summed(noisy: tuple[Floats, float], along: Sequence[Codes]) -> _Noisy:
    """Noisy counts summed over groups of cells."""
    numbers, variance = noisy
    return sum_kinds(numbers, along), variance * sum_kinds(np.ones(numbers.shape), along)


def _tables(
    content: ContentOfCells, own: Domain, shared: Mapping[int, Shared], sets: Iterable[Places]
) -> dict[Places, _Noisy]:
    """Counts of a release by common groups of cells, along the axes of another; sets that it cannot answer are left."""
    found = dict[Places, _Noisy]()
    for places in sets:
        shape = tuple(int(shared[place].own.max()) + 1 for place in places)
        if prod(shape) > MOST_LEANT_ON:
            continue
        with suppress(QueryError):  # not measured together, or too large to join
            found[places] = _counted(content, {own.names[place]: shared[place] for place in places}, shape)
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
