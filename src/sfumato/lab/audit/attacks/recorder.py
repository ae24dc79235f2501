"""Recording curator: keeps a transcript of queries, noise drawn, charges and answers without noise.

On the first of two neighbouring tables a recorder hands out what the curator publishes. On the second it hands out the
same again, so that everything published so far is identical, and whatever the mechanism does differently then can come
from nothing but the private table.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.domain import Axis, Domain, Partition
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.measuring import Guess
from sfumato.kernel.verbs.scores import Misfit, Score
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.tape import Call, Chosen, Drawn, Kind, LinesRecorder, Sifted, Tape, Watched
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Queries
from sfumato.schema import Schema

T = TypeVar("T")
MOST_WRITTEN_OUT = 2**16  # entries of a query matrix that are compared one by one; above, its description is


class Recorder:
    """Proxy of a curator that records every call on a tape; the curator's entropy must be `Watched`."""

    def __init__(self, inner: Curator, entropy: Watched, tape: Tape) -> None:
        self.__inner, self.__entropy, self.__tape = inner, entropy, tape
        self.domain, self.statistics, self.private = inner.domain, inner.statistics, inner.private

    @property
    def charge(self) -> Charge:
        """Charge of the recorded curator."""
        return self.__inner.charge

    def __getattr__(self, name: str) -> object:
        self.__tape.faults.append(f"the mechanism reached for {name}, past the verbs of the curator")
        return getattr(self.__inner, name)

    def measure(
        self,
        queries: Queries,
        budget: Budget | None = None,
        *,
        of: str = "count",
        scales: Fraction | Sequence[Fraction] | None = None,
        which: Codes | None = None,
        above: int | None = None,
    ) -> Measurement:
        """Forward `Curator.measure` and record the call."""
        self.__begin()
        made = self.__inner.measure(queries, budget, of=of, scales=scales, which=which, above=above)
        truth = queries.apply_wrapping(self.__inner._dense(of))
        which = np.zeros(len(truth), dtype=np.int64) if made.which is None else np.asarray(made.which)
        noises = tuple(made.noises[kind] for kind in which)
        if above is not None:
            self.__compare_sifted(made, truth, above)
        elif made.missing is None:
            self.__compare((made, truth))
        else:  # drawn first, and afresh, for the rows in which the measure is missing
            missing = queries.apply_wrapping(self.__inner._dense(made.missing.of))
            self.__compare((made.missing, missing), (made, truth))
            noises = (*(made.missing.noises[kind] for kind in which), *noises)
            truth = np.append(missing, truth)
        asked = ("measure", _matrix(queries), of, noises, fingerprint(made.which), above)
        return self.__told(made, asked, truth.tolist(), noises)

    def measure_margins(self, asked: Sequence[tuple[Sequence[str], Queries]], budget: Budget) -> Measurement:
        """Forward `Curator.measure_margins` and record the call."""
        self.__begin()
        listed = [(tuple(names), queries) for names, queries in asked]
        made = self.__inner.measure_margins(listed, budget)
        counts = self.__inner._dense("count").tolist()
        truths = [
            queries.apply_wrapping(np.array(twins.margin(self.domain, names, counts), dtype=np.int64))
            for names, queries in listed
        ]
        truth = np.concatenate(truths)
        self.__compare((made, truth))
        what = ("measure_margins", tuple((names, _matrix(queries)) for names, queries in listed), made.noises)
        return self.__told(made, what, truth.tolist(), made.noises * len(truth))

    def select(self, score: Score, budget: Budget) -> int:
        """Forward `Curator.select` and record the call."""
        self.__begin()
        made = self.__inner.select(score, budget)
        scores = score.scores(self.__inner._dense("count")).tolist()
        rate = self.__rate(made, scores)
        return self.__told(made, ("select", fingerprint(score), rate), scores, (), "choice", rate)

    def measure_misfit(self, misfit: Misfit, budget: Budget, groups: Codes | None = None) -> Measurement:
        """Forward `Curator.measure_misfit` and record the call."""
        self.__begin()
        made = self.__inner.measure_misfit(misfit, budget, groups)
        labels = [0] * misfit.queries.rows if groups is None else np.asarray(groups).tolist()
        truth = twins.sums_by_group(self.__misfits(misfit), labels)
        self.__compare((made, np.array(truth, dtype=np.int64)))
        asked = ("measure_misfit", _matrix(misfit.queries), fingerprint(misfit.targets), tuple(labels), made.noises)
        return self.__told(made, asked, truth, made.noises * len(truth))

    def measure_margin_misfits(
        self, guesses: Sequence[Guess], budget: Budget, groups: Codes | None = None
    ) -> Measurement:
        """Forward `Curator.measure_margin_misfits` and record the call."""
        self.__begin()
        asked = [_taken_down(*guess) for guess in guesses]
        made = self.__inner.measure_margin_misfits(asked, budget, groups)
        labels = list(range(len(asked))) if groups is None else np.asarray(groups).tolist()
        counts = self.__inner._dense("count").tolist()
        misfits = [
            twins.margin_misfit(self.domain, names, guess.tolist(), counts, None if parts is None else parts.tolist())
            for names, guess, parts in asked
        ]
        truth = twins.sums_by_group(misfits, labels)
        self.__compare((made, np.array(truth, dtype=np.int64)))
        what = ("measure_margin_misfits", fingerprint(asked), tuple(labels), made.noises)
        return self.__told(made, what, truth, made.noises * len(truth))

    def select_margin(
        self, guesses: Sequence[tuple[Sequence[str], Codes]], penalties: Sequence[int], budget: Budget
    ) -> int:
        """Forward `Curator.select_margin` and record the call."""
        self.__begin()
        asked = [(tuple(names), np.array(guess)) for names, guess in guesses]
        made = self.__inner.select_margin(asked, penalties, budget)
        counts = self.__inner._dense("count").tolist()
        misfits = [twins.margin_misfit(self.domain, names, guess.tolist(), counts) for names, guess in asked]
        scores = [misfit - fine for misfit, fine in zip(misfits, penalties, strict=True)]
        rate = self.__rate(made, scores)
        return self.__told(
            made, ("select_margin", fingerprint(asked), tuple(penalties), rate), scores, (), "choice", rate
        )

    def first_above(self, misfit: Misfit, threshold: int, budget: Budget, *, start: int = 0) -> int | None:
        """Forward `Curator.first_above` and record the call."""
        self.__begin()
        made = self.__inner.first_above(misfit, threshold, budget, start=start)
        truth = self.__misfits(misfit)[start:]
        noises: tuple[Noise, ...] = ()
        match self.__entropy.log:
            case [Drawn(of_rows, rows), Drawn(of_threshold, level)] if (len(rows), len(level)) == (len(truth), 1):
                noises = of_threshold, of_rows
                noisy = [value + int(own) for value, own in zip(truth, rows, strict=True)]
                place = twins.first_above(noisy, threshold + int(level[0]))
                if made != (None if place is None else start + place):
                    self.__tape.faults.append("it is not the first whose misfit exceeds the threshold that is named")
            case _:
                self.__tape.faults.append("the noise drawn is not fresh for the threshold and for every row")
        asked = ("first_above", _matrix(misfit.queries), fingerprint(misfit.targets), threshold, start, noises)
        return self.__told(made, asked, truth, noises, "first")

    def best_partition(
        self, budget: Budget, *, order: Codes, price: Fraction | Sequence[Fraction], longest: int | None = None
    ) -> Codes:
        """Forward `Curator.best_partition` and record the call."""
        self.__begin()
        made = self.__inner.best_partition(budget, order=order, price=price, longest=longest)
        truth = self.__inner._dense("count")[order].tolist()
        lengths = twins.bucket_lengths(len(truth), longest)
        prices = [price] * len(lengths) if isinstance(price, Fraction | int) else list(price)
        noises: tuple[Noise, ...] = ()
        match self.__entropy.log:
            case [Drawn(of_single, single), Drawn(of_longer, longer)] if len(single) == len(truth) and len(
                single
            ) + len(longer) == len(twins.buckets(len(truth), longest)):
                noises = of_single, of_longer
                labels = twins.cheapest_labels(truth, prices, [*single.tolist(), *longer.tolist()], longest)
                if made[order].tolist() != labels:
                    self.__tape.faults.append(
                        "it is not the cheapest partition, by deviations with noise, that is named"
                    )
            case _:
                self.__tape.faults.append("the noise drawn is not fresh for every bucket")
        asked = ("best_partition", fingerprint(order), tuple(prices), longest, noises)
        return self.__told(made, asked, truth, noises, "partition")

    def reduce(self, partition: Partition) -> Recorder:
        """Recorder of `Curator.reduce`, on the same tape."""
        return self.__before(self.__inner.reduce(partition))

    def subset(self, seed: int, number: int) -> Recorder:
        """Recorder of `Curator.subset`, on the same tape."""
        return self.__before(self.__inner.subset(seed, number))

    def margin(self, names: Sequence[str]) -> Recorder:
        """Recorder of `Curator.margin`, on the same tape."""
        return self.__before(self.__inner.margin(names))

    def recode(self, axes: Mapping[str, tuple[Axis, Codes]]) -> Recorder:
        """Recorder of `Curator.recode`, on the same tape."""
        return self.__before(self.__inner.recode(axes))

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> LinesRecorder:
        """Record the charge of `Curator.lines`; return a recorder of these lines on the same tape."""
        self.__begin()
        made = self.__inner.lines(names, budget, pieces=pieces)
        if made.budget != budget or made.contributions != self.charge.contributions:
            self.__tape.faults.append("lines may spend something else than was charged for them")
        self.__told(None, ("lines", tuple(names), budget, pieces), (), ())
        return LinesRecorder(made, self.__entropy, self.__tape)

    # -- inside

    def __before(self, inner: Curator) -> Recorder:
        return Recorder(inner, self.__entropy, self.__tape)

    def __misfits(self, misfit: Misfit) -> list[int]:
        return twins.misfits(misfit.queries, misfit.targets.tolist(), self.__inner._dense("count").tolist())

    def __rate(self, made: int, scores: list[int]) -> Fraction:
        """Check that one exponential mechanism on these scores made the choice; return its rate."""
        chosen = [call for call in self.__entropy.log if isinstance(call, Chosen)]
        if len(chosen) != 1 or chosen[0].candidate != made or chosen[0].scores.tolist() != scores:
            self.__tape.faults.append("the choice was not made by one exponential mechanism on the scores")
        return chosen[0].rate if chosen else Fraction(0)

    def __told(
        self,
        made: T,
        asked: Hashable,
        answers: Sequence[int],
        noises: tuple[Noise, ...],
        kind: Kind = "answers",
        rate: Fraction | None = None,
    ) -> T:
        """Record a call; return its result, or in a replay the first run's result of the same call."""
        call = Call(asked, self.__end(), tuple(answers), noises, rate, made, kind)  # type: ignore[arg-type]
        return cast(T, self.__tape.add(call).result)

    def __begin(self) -> None:
        self.__entropy.log.clear()
        before, now = self.__tape.borne.get(id(self.charge)), _borne(self.charge)
        self.__tape.borne[id(self.charge)] = now
        if before not in (None, now):
            self.__tape.faults.append("the charge was changed between two calls")

    def __end(self) -> tuple[Fraction, ...]:
        if self.__entropy.loose:
            self.__tape.faults.append("random bits were taken past the exact samplers")
        before, now = self.__tape.borne[id(self.charge)], _borne(self.charge)
        self.__tape.borne[id(self.charge)] = now
        return tuple(b - a for a, b in zip(before, now, strict=True))

    def __compare(self, *pairs: tuple[Measurement, NDArray[np.int64]]) -> None:
        """Check that every answer has its own noise, of the kind that the measurement states, in the order drawn."""
        log = [call for call in self.__entropy.log if isinstance(call, Drawn)]
        parts = [(made, truth, rows, noise) for made, truth in pairs for rows, noise in _rows_by_noise(made)]
        stated = [(noise, len(rows)) for _, _, rows, noise in parts]
        if [(call.noise, len(call.values)) for call in log] != stated or len(log) != len(self.__entropy.log):
            self.__tape.faults.append("the noise drawn is not the noise stated, afresh for every answer")
            return
        for (made, truth, rows, _), call in zip(parts, log, strict=True):
            if not np.array_equal(made.answers[rows], truth[rows] + call.values):
                self.__tape.faults.append("the answers are not what the queries ask for plus the noise drawn")
                return

    def __compare_sifted(self, made: Measurement, truth: NDArray[np.int64], above: int) -> None:
        """Check that exactly the cells are published whose count, with noise of their own, reaches the threshold."""
        held, (stated,) = np.flatnonzero(truth), made.noises
        match self.__entropy.log:
            case [Sifted(size, threshold, noise, hits, values), Drawn(own_noise, own)] if (
                size,
                threshold,
                noise,
                own_noise,
                len(own),
            ) == (len(truth), above, stated, stated, len(held)):
                noisy = dict(zip(hits.tolist(), values.tolist(), strict=True))
                noisy |= dict(zip(held.tolist(), (truth[held] + own).tolist(), strict=True))
                seen = sorted((cell, answer) for cell, answer in noisy.items() if answer >= above)
                assert made.cells is not None  # noqa: S101 (measured above a threshold)
                if seen != list(zip(made.cells.tolist(), made.answers.tolist(), strict=True)):
                    self.__tape.faults.append("other cells are published than those that reach the threshold")
            case _:
                self.__tape.faults.append("the noise drawn is not the noise stated, afresh for every cell")


@cache
def _parts_of(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind))


def fingerprint(value: object) -> Hashable:
    """Hashable form of a published value, equal only for equal values."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(fingerprint(getattr(value, name)) for name in _parts_of(type(value)))
    if isinstance(value, Schema | Domain):
        return type(value).__name__  # public
    if isinstance(value, dict):
        return tuple((fingerprint(key), fingerprint(one)) for key, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(fingerprint(one) for one in value)
    return repr(value)  # what has no telling repr shows its address, and so stands out rather than slips through


def _taken_down(
    names: Sequence[str], guess: Codes, parts: Codes | None = None
) -> tuple[tuple[str, ...], Codes, Codes | None]:
    return tuple(names), np.array(guess), None if parts is None else np.array(parts)


def _rows_by_noise(made: Measurement) -> list[tuple[Codes, Noise]]:
    """Row numbers of a measurement by the noise that they carry."""
    which = np.zeros(len(made.answers), dtype=np.int64) if made.which is None else np.asarray(made.which)
    return [(np.flatnonzero(which == kind), noise) for kind, noise in enumerate(made.noises)]


def _matrix(queries: Queries) -> Hashable:
    return fingerprint(queries.dense() if queries.rows * queries.columns <= MOST_WRITTEN_OUT else queries)


def _borne(charge: Charge) -> tuple[Fraction, ...]:
    """Privacy loss charged so far to each cell, or the one bound for all cells."""
    loads = charge._loads
    amounts = [loads] * (charge.cells if charge.tracked else 1) if isinstance(loads, int) else loads.tolist()
    return tuple(Fraction(int(amount), charge._denominator) for amount in amounts)
