"""Errors of sums over the parts of a series, which were measured one after the other with independent noise.

Noise: every part has its own, so the noises of a sum are those of its parts. What a model does not know is another
matter: a model that misses a connection misses it every month, so its errors add up as numbers and not as squares.
How far is unknown, so the larger error of two cases is taken: the parts' model errors are independent, or one and the
same pattern of errors, scaled. A difference of two months is wider in the first case, a sum of a year in the second.
For several sums at once (a ratio) the least covariance that is above both is taken.

Guaranteed bounds of a sum are the sums of the parts' bounds, each with its share of the tail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.along_time import AlongTime, Joint, OfPart, Run, ends_of_run
from sfumato.answers.distinct import ByValue
from sfumato.answers.evaluate import ENDS, NoiseSource, Sign, Sum, Terms, View
from sfumato.answers.fieller import NORMAL, NormalErrors, Term, normal_terms
from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.noise_sum import Ends
from sfumato.answers.question import OF_A_SUM, ByStatistic, Gathered, Groups, WeightRange, Weights, total
from sfumato.answers.spreads import EVERY_ROW
from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Noise
from sfumato.sql import Amount

KEPT = 1e-9  # of the largest eigenvalue
ALIKE = 1e-9  # of the largest weight: weights that differ by less are the same
MOST_KEPT = 2**12  # weights of one part by which its noise terms are found again
RECURS = 0.5  # of a part's model error beyond noise, what other parts have too (variance); chosen on tables of our own
MOST_COMPARED = 2**24  # weights of all parts that are compared with each other


@dataclass(frozen=True, eq=False)
class PartView:
    """View of one part. code: of its period. start: index of its first cell among the cells of all parts.

    codes: of its cells on the axes of the series. old: of the values of an axis of the series on the part's own axis,
    -1 for none, where the schema has grown since, with the part's number of values. units: of measures whose step or
    centre differs, the factors by which the part's statistics add up to steps of the series.
    """

    code: int
    view: View
    start: int
    codes: Mapping[str, Codes]
    old: Mapping[str, tuple[Codes, int]]
    units: Mapping[str, Mapping[str, float]]

    @property
    def values(self) -> dict[str, Floats]:
        """Estimate of each cell by statistic, in the series' steps of its measures."""
        own = self.cells.values
        return {
            of: np.asarray(sum(factor * own[part] for part, factor in self.units[of].items()))
            if of in self.units
            else each
            for of, each in own.items()
        }

    @property
    def cells(self) -> Gathered:
        return self.view.cells

    @property
    def mine(self) -> slice:
        """Index range of its cells among the cells of all parts."""
        return slice(self.start, self.start + self.cells.size)

    def side(self, side: Sum) -> Sum:
        """Restrict the weights of a sum to this part's cells."""
        return Sum(self._weights(side.split), self._weights(side.whole), {}, side.unseen)

    def _weights(self, by_statistic: ByStatistic) -> ByStatistic:
        found = total(self._in_own_units(of, self._both_ends(each)) for of, each in by_statistic.items())
        return {of: each for of, each in found.items() if each.low.any() or each.high.any() or each.value.any()}

    def _in_own_units(self, of: str, weights: Weights) -> ByStatistic:
        units = self.units.get(of)
        return {of: weights} if units is None else {part: weights.times(factor) for part, factor in units.items()}

    def range_of(self, query: WeightRange) -> WeightRange:
        """Restrict the least and greatest weights of a sum to this part's cells."""

        def cut(weights: Mapping[str, Floats]) -> dict[str, Floats]:
            mine = total(self._in_own_units(of, Weights.exactly(each[self.mine])) for of, each in weights.items())
            return {of: each.value for of, each in mine.items() if of in self.cells.values}

        low = cut(query.low)
        return WeightRange(low, low if query.high is query.low else cut(query.high), query.unseen)

    def _both_ends(self, weights: Weights) -> Weights:
        if weights.exact:
            return Weights.exactly(weights.value[self.mine])
        return Weights(weights.value[self.mine], weights.low[self.mine], weights.high[self.mine])


def cells_of_parts(parts: Sequence[PartView], along: str, names: Sequence[str]) -> Gathered:
    """Concatenate the cells of several parts. along: name of the period's attribute, if it is in `names`."""
    every = [part.values for part in parts]
    statistics = dict.fromkeys(of for values in every for of in values)
    values = {
        of: np.concatenate([own.get(of, np.zeros(part.cells.size)) for part, own in zip(parts, every, strict=True)])
        for of in statistics
    }
    codes = {
        name: np.concatenate([np.full(p.cells.size, p.code) if name == along else p.codes[name] for p in parts])
        for name in names
    }
    return Gathered(codes, values, 1)


@dataclass(frozen=True, eq=False)
class _Errors:
    """Errors of sums over one part of a series, by group within it; cached, as running totals repeat them."""

    part: PartView
    sides: Sequence[Sum]
    groups: Groups

    @cached_property
    def terms(self) -> Sequence[Terms]:
        return self.part.view.noises.terms(self.sides, self.part.cells, self.groups)

    @cached_property
    def first(self) -> Terms:
        return self.terms[0]

    @cached_property
    def recurring(self) -> Floats | None:
        return self.part.view.noises.recurring(self.sides, self.part.cells, self.groups)

    @cached_property
    def drawn(self) -> Floats | None:
        return self.part.view.noises.drawn(self.sides, self.part.cells, self.groups)


@dataclass(frozen=True, eq=False)
class _Share:
    """Error contribution of one part to the sums of some groups. at: indices of the groups among those present.

    everywhere: the sums are over the whole table, so that all of these groups have the same errors.
    """

    errors: _Errors
    at: Codes
    everywhere: bool

    def terms_of(self, index: int) -> Terms:
        return self.errors.first if self.everywhere else self.errors.terms[index]

    def model_of(self, index: int) -> PartModel:
        """Model errors of the sums of one group."""
        columns = 3 * len(self.errors.sides)
        whole = np.zeros((columns, columns))
        for term in self.terms_of(index) or ():
            if term.model:
                whole += term.noise.variance * term.multiplicity * np.outer(term.weights, term.weights)
        found, own, part = self.errors.recurring, 0 if self.everywhere else index, self.errors.part
        if found is not None:
            return PartModel(whole, found[own], True, part.code, part.view.noises.lags)
        drawn = self.errors.drawn
        return PartModel(whole, RECURS * (whole if drawn is None else whole - drawn[own]), False, part.code)


@dataclass(frozen=True, eq=False)
class PartModel:
    """Covariance of a part's model errors, and of their share that other parts have too, (ends, ends) each.

    known: whether the shared covariance is estimated, or assumed. code: of the part's period. lags: `NoiseSource.lags`.
    """

    covariance: Floats
    recurs: Floats
    known: bool
    code: int
    lags: Floats | None = None


@dataclass(frozen=True, eq=False)
class NoiseOfParts(NoiseSource):
    """Noise source of parts with independent noise. along: name of the period's attribute."""

    parts: tuple[PartView, ...]
    along: str

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        shares = [share for part in self.parts for share in self._shares(part, sides, groups)]
        many = len(groups.present)
        by_group: list[list[tuple[_Share, int]]] = [[] for _ in range(many)]
        for share in shares:
            for index, group in enumerate(share.at.tolist()):
                by_group[group].append((share, index))
        joined = _Joined(shares)
        if many > 1 and joined.one_run and all(len(share.at) == many for share in shares):
            return joined.places[0][0].of_every_group()
        errors = [share.errors.terms for share in shares if not share.everywhere]
        normal = [each for each in errors if isinstance(each, NormalErrors)]
        if many > 1 and normal and len(normal) == len(shares) and all(len(each) == 1 for each in by_group):
            order = np.argsort(np.concatenate([share.at for share in shares]))
            noise, model, unknown = (
                np.concatenate([getattr(one, name) for one in normal])[order] for name in ("noise", "model", "unknown")
            )
            return NormalErrors(noise, model, unknown, normal[0].back)
        known: dict[tuple[int, ...], Terms] = {}  # groups with the same noises get them as the same value
        patterns = _Patterns([share.errors.sides for share in shares], 3 * len(sides))
        numbers = {id(share): number for number, share in enumerate(shares)}
        found = [joined.of_group([(numbers[id(share)], index) for share, index in each]) for each in by_group]
        result = []
        for each in found:
            same = tuple(part for terms, number, _ in each for part in (id(terms), number))
            if same not in known:
                known[same] = _together(each, shares, patterns, self._noises)
            result.append(known[same])
        self._kept.append(found)  # so that the numbers by which terms are known stay their own
        return result

    @cached_property
    def _kept(self) -> list[object]:
        return []

    @cached_property
    def _noises(self) -> _Distinct:
        return _Distinct()

    def _shares(self, part: PartView, sides: Sequence[Sum], groups: Groups) -> list[_Share]:
        """Error contributions of one part: to groups of its period, and to every group's sums over the whole table."""
        mine = [part.side(side) for side in sides]
        inside, at = self._inside(part, groups)
        shares = []
        if len(at) and any(side.split or side.whole for side in mine):
            own = [Sum(side.split, side.whole, {}, np.zeros(inside.number)) for side in mine]
            shares.append(_Share(self._errors(part, own, inside), at, everywhere=False))
        if len(at) < len(groups.present) and any(side.whole for side in mine):
            others = np.setdiff1d(np.arange(len(groups.present)), at)
            whole = [Sum({}, side.whole, {}, np.zeros(1)) for side in mine]
            shares.append(_Share(self._errors(part, whole, EVERY_ROW), others, everywhere=True))
        return shares

    def _errors(self, part: PartView, sides: Sequence[Sum], groups: Groups) -> _Errors:
        """Errors of a part's sums; those of sums with the same weights are kept."""
        weights = [(of, each) for side in sides for kind in (side.split, side.whole) for of, each in kind.items()]
        if isinstance(groups, ByValue) or len(weights) * part.cells.size > MOST_KEPT:
            return _Errors(part, sides, groups)
        shapes = tuple((len(side.split), len(side.whole), side.exact) for side in sides)
        values = tuple((of, *(getattr(each, end).tobytes() for end in ENDS)) for of, each in weights)
        key = part.start, shapes, values, groups.names, groups.present.tobytes()
        return self._known.setdefault(key, _Errors(part, sides, groups))

    @cached_property
    def _known(self) -> dict[tuple[object, ...], _Errors]:
        return {}

    def _inside(self, part: PartView, groups: Groups) -> tuple[Groups, Codes]:
        """Groups of a query within one part, and the indices of these groups among all present ones."""
        if isinstance(groups, ByValue):
            base, at = self._inside(part, groups.base)
            values = np.arange(groups.shape[1] - 1)
            present = (base.present[:, None] * groups.shape[1] + values).ravel()
            by_value = ByValue((), (base.number, groups.shape[1]), present, base, groups.value[part.mine])
            return by_value, (at[:, None] * len(values) + values).ravel()
        here = np.ones(len(groups.present), dtype=bool)
        if any(name != self.along and name not in part.cells.codes for name in groups.names):
            return EVERY_ROW, np.zeros(0, dtype=np.int64)  # it has not the columns of these groups, and is in none
        if self.along not in groups.names and not any(name in part.old for name in groups.names):
            return groups, np.flatnonzero(here)
        codes = dict(zip(groups.names, np.unravel_index(groups.present, groups.shape), strict=True))
        sizes = dict(zip(groups.names, groups.shape, strict=True))
        if self.along in codes:
            here &= codes.pop(self.along) == part.code
        for name in part.old.keys() & codes.keys():
            old, sizes[name] = part.old[name]
            codes[name] = old[codes[name]]
            here &= codes[name] >= 0
        shape = tuple(sizes[name] for name in codes)
        at = np.flatnonzero(here)
        numbers = np.ravel_multi_index([each[at] for each in codes.values()], shape) if codes else np.zeros(len(at))
        return Groups(tuple(codes), shape, np.asarray(numbers, dtype=np.int64)), at

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        """Test statistics for rows in sets of cells: precision-weighted sums of the parts, added."""
        signs = [Sign(0.0, 0.0, ()) for _ in range(within.shape[1])]
        for part in self.parts:
            inside = within[part.mine]
            if not inside.any():
                continue
            mine = part.view.noises.signs_of_rows(inside, part.cells)
            if mine is None:
                return None
            signs = [
                Sign(one.value + other.value, one.variance + other.variance, one.terms + other.terms)
                if inside[:, place].any()
                else one
                for place, (one, other) in enumerate(zip(signs, mine, strict=True))
            ]
        return signs

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """Attributes that contribute most of the model error in the newest part with cells of the sum."""
        names = tuple(name for name in groups.names if name != self.along)
        shape = tuple(size for name, size in zip(groups.names, groups.shape, strict=True) if name != self.along)
        for part in reversed(self.parts):
            mine = part.side(side)
            if (mine.split or mine.whole) and all(name in part.cells.codes for name in names):
                inside = Groups(names, shape, np.arange(prod(shape)))
                return part.view.noises.largest_model_part(mine, inside)
        return None


class _Joined:
    """Noise terms by part of a series; parts with correlated noise (along_time.py) are merged."""

    def __init__(self, shares: Sequence[_Share]) -> None:
        self.shares, self.places = shares, dict[int, tuple[Joint, int]]()
        runs: dict[Run, list[int]] = {}
        parts: dict[int, OfPart] = {}
        for number, share in enumerate(shares):
            noises = share.errors.part.view.noises
            if isinstance(noises, AlongTime):
                parts[number] = OfPart(noises, share.errors.sides, share.errors.part.cells, share.errors.groups)
                runs.setdefault(parts[number].run, []).append(number)
        for numbers in runs.values():
            if len(numbers) > 1:
                joint = Joint([parts[number] for number in numbers])
                self.places |= {number: (joint, place) for place, number in enumerate(numbers)}

    @property
    def one_run(self) -> bool:
        """Whether all contributions are of parts that share noise, with the same groups."""
        return len({id(joint) for joint, _ in self.places.values()}) == 1 and len(self.places) == len(self.shares)

    def of_group(self, members: Sequence[tuple[int, int]]) -> list[tuple[Terms, int, int]]:
        """Noise terms of a group: of each contribution, with its index and the group's index within it."""
        result: list[tuple[Terms, int, int]] = []
        by_run: dict[int, list[tuple[int, int]]] = {}
        for number, index in members:
            if number in self.places and len(members) > 1:
                by_run.setdefault(id(self.places[number][0]), []).append((number, index))
            else:
                result.append((self.shares[number].terms_of(index), number, index))
        for together in by_run.values():
            joint = self.places[together[0][0]][0]
            groups = [(self.places[number][1], self._group(number, index)) for number, index in together]
            result.append((joint.terms(groups), *together[0]))
        return result

    def _group(self, number: int, index: int) -> int:
        """Index of a group in its part. number: of the contribution; index: of the group in the contribution."""
        share = self.shares[number]
        return int(share.errors.groups.present[0 if share.everywhere else index])


class _Distinct:
    """Intern equal noises as one object, so that millions of terms are compared by identity."""

    def __init__(self) -> None:
        self._by_value: dict[Noise, Noise] = {NORMAL: NORMAL}
        self._by_id: dict[int, tuple[Noise, Noise]] = {}

    def of(self, noise: Noise) -> Noise:
        if id(noise) not in self._by_id:
            self._by_id[id(noise)] = noise, self._by_value.setdefault(noise, noise)
        return self._by_id[id(noise)][1]


class _Patterns:
    """Distinct directions, up to sign, of the weight vectors of sums in several parts, with the cosines between them.

    shares: the sums of each `_Share`. columns: number of vectors of each, value, low and high of every sum in turn.
    """

    def __init__(self, shares: Sequence[Sequence[Sum]], columns: int) -> None:
        self.number = np.zeros((len(shares), columns), dtype=np.int64)  # of the pattern, by part and column
        self.sign = np.zeros((len(shares), columns))
        known: dict[bytes, int] = {}
        vectors: list[Floats] = []
        sizes: set[int] = set()
        for part, sides in enumerate(shares):
            for place, side in enumerate(sides):
                for end, name in enumerate(("value", "low", "high")):
                    if end and side.exact:
                        self.number[part, 3 * place + end] = self.number[part, 3 * place]
                        self.sign[part, 3 * place + end] = self.sign[part, 3 * place]
                        continue
                    vector = _direction(side, name)
                    if vector is None:
                        continue
                    first = float(vector[np.flatnonzero(np.abs(vector) > ALIKE)[0]])
                    turned = vector if first > 0.0 else -vector
                    key = np.rint(turned / ALIKE).tobytes()
                    if key not in known:
                        known[key] = len(vectors)
                        vectors.append(turned)
                        sizes.add(len(turned))
                    self.number[part, 3 * place + end] = known[key]
                    self.sign[part, 3 * place + end] = 1.0 if first > 0.0 else -1.0
        self.many = max(1, len(vectors))
        few = len(sizes) == 1 and len(vectors) * next(iter(sizes)) <= MOST_COMPARED
        # Parts whose cells cannot be compared are taken to err alike: the larger error for sums.
        self.cosines = np.stack(vectors) @ np.stack(vectors).T if few else np.ones((self.many, self.many))


def _direction(side: Sum, end: str) -> Floats | None:
    """Weights of a sum on the cells of a part, all statistics in a row, of length 1; None of no weights."""
    parts: dict[str, Floats] = {}
    for kind in (side.split, side.whole):
        for of, weights in kind.items():
            parts[of] = parts.get(of, 0.0) + getattr(weights, end)
    if not parts:
        return None
    vector = np.concatenate([parts[of] for of in sorted(parts)])
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0.0 else None


def _together(
    members: Sequence[tuple[Terms, int, int]], shares: Sequence[_Share], patterns: _Patterns, distinct: _Distinct
) -> Terms:
    """Noise terms of a sum over parts: noises concatenated, model errors combined (`joined_models`).

    members: terms, number of the share that they come from, index of the group there.
    """
    if any(terms is None for terms, *_ in members):
        return None
    if len(members) == 1:
        return members[0][0]
    noises: dict[tuple[int, tuple[float, ...]], tuple[Noise, int]] = {}
    columns = patterns.number.shape[1]
    normal, models = np.zeros((columns, columns)), list[tuple[PartModel, int]]()
    for terms, number, index in members:
        for term in terms or ():
            noise = distinct.of(term.noise)
            if noise is NORMAL and not term.model:
                normal += term.noise.variance * term.multiplicity * np.outer(term.weights, term.weights)
            elif not term.model:
                key = id(noise), term.weights
                noises[key] = noise, noises.get(key, (noise, 0))[1] + term.multiplicity
        if any(term.model for term in terms or ()):
            models.append((shares[number].model_of(index), number))
    drawn = [Term.of(noise, many, *weights) for (_, weights), (noise, many) in noises.items()]
    back = np.arange(columns)
    return (
        *drawn,
        *normal_terms(normal, back, model=False),
        *normal_terms(joined_models(models, patterns), back, model=True),
    )


def joined_models(models: Sequence[tuple[PartModel, int]], patterns: _Patterns) -> Floats:
    """Covariance of the sum of several parts' model errors, partly common. models: with their rows of `patterns`.

    Where the share is unknown: the least covariance above both cases, no common error and the largest possible one.
    """
    columns = patterns.number.shape[1]
    if not models:
        return np.zeros((columns, columns))
    if len(models) == 1:
        return models[0][0].covariance
    cases = []
    for some in ([each for each in models if each[0].known], models):
        left = np.sum([model.covariance for model, _ in models], axis=0) - sum(model.recurs for model, _ in some)
        numbers = [number for _, number in some]
        found = np.array([np.diag(model.recurs) for model, _ in some]).reshape(-1, columns)
        deviations = np.sqrt(np.maximum(found, 0.0)) * patterns.sign[numbers]  # (parts, columns)
        if (together := _by_lag([model for model, _ in some])) is None:
            scaled = np.zeros((columns, patterns.many))  # deviations of all parts, along the patterns
            np.add.at(scaled, (np.arange(columns), patterns.number[numbers]), deviations)
            cases.append(left + scaled @ patterns.cosines @ scaled.T)
            continue
        of = patterns.number[numbers].reshape(-1)
        both = patterns.cosines[np.ix_(of, of)] * np.outer(deviations, deviations)
        cases.append(left + np.einsum("icjd,ij->cd", both.reshape(*deviations.shape, *deviations.shape), together))
    return cases[1] if all(model.known for model, _ in models) else above_both(*cases)


def _by_lag(models: Sequence[PartModel]) -> Floats | None:
    """Covariance of the common errors of two parts over its mean, by lag, (parts, parts); None where all are 1.

    Differences from 1 are as large as the parts' own variances leave room for.
    """
    lags = [model.lags for model in models if model.lags is not None]
    if not lags or len(lags) < len(models):
        return None
    by_lag = np.mean([each[: min(map(len, lags))] for each in lags], axis=0)
    whole, recurs = (np.array([np.diag(getattr(m, name)) for m in models]) for name in ("covariance", "recurs"))
    room = float((whole / np.maximum(recurs, KEPT * whole.max()))[recurs > 0.0].min(initial=by_lag[0]))
    believed = min(max(room - 1.0, 0.0) / max(float(by_lag[0]) - 1.0, KEPT), 1.0)
    codes = np.array([model.code for model in models])
    apart = np.minimum(np.abs(codes[:, None] - codes), len(by_lag) - 1)
    return np.where(apart == 0, 1.0, 1.0 + believed * (by_lag[apart] - 1.0))


def above_both(one: Floats, other: Floats) -> Floats:
    """Least covariance that is at least each of two, for every weighted sum; both are (sums, sums).

    >>> above_both(np.array([[1.0]]), np.array([[4.0]])).tolist()
    [[4.0]]
    """
    values, vectors = np.linalg.eigh(one)
    kept = values > KEPT * max(float(values.max()), 0.0)
    if not kept.any():
        return one
    root, inverse = vectors[:, kept] * np.sqrt(values[kept]), vectors[:, kept] / np.sqrt(values[kept])
    ratios, turned = np.linalg.eigh(inverse.T @ other @ inverse)
    larger = root @ turned * np.sqrt(np.maximum(ratios, 1.0))
    return np.asarray(larger @ larger.T)


@dataclass(frozen=True, eq=False)
class SourceOfParts(Source):
    """Guaranteed bounds of sums over parts. sources: of each part, in the order of the view's cells."""

    parts: tuple[PartView, ...]
    sources: tuple[Source, ...]

    @property
    def signed(self) -> bool:
        return all(source.signed for source in self.sources)

    @cached_property
    def work(self) -> int:
        return sum(OF_A_SUM + source.work for source in self.sources)

    def refuse(self, amounts: Sequence[Amount]) -> None:
        for source in self.sources:
            source.refuse(amounts)

    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        """Bounds of a sum: the sum of the bounds of its parts or runs, each with an equal share of the tail."""
        asked = [(part, source, part.range_of(query)) for part, source in zip(self.parts, self.sources, strict=True)]
        asked = [one for one in asked if one[2].statistics]
        if query.unseen and len(asked) != 1:
            raise QueryError(
                "guaranteed intervals of sums over parts with a threshold are not known; ask for one period at a time"
            )
        low = high = 0.0
        runs: dict[Run, list[tuple[OfPart, WeightRange]]] = {}
        alone = []
        for part, source, mine in asked:
            noises = part.view.noises
            if isinstance(noises, AlongTime):
                of_part = OfPart(noises, (), part.cells, EVERY_ROW)
                runs.setdefault(of_part.run, []).append((of_part, mine))
            else:
                alone.append((part, source, mine))
        share = tail / max(1, len(alone) + len(runs))
        for part, source, mine in alone:
            ends = source.ends(mine, part.cells, share)
            low, high = low + ends.low, high + ends.high
        for together in runs.values():
            ends = ends_of_run(together, share)
            low, high = low + ends.low, high + ends.high
        return Ends(low, high)
