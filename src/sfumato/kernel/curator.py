"""The curator: holds the private counts (`holding.py`) and is the only one who adds noise to them.

Nine verbs spend: `measure`, `measure_running`, `measure_margins`, `measure_misfit`, `measure_margin_misfits`, `select`,
`select_margin`, `first_above` and `best_partition`; four restrict: `reduce`, `margin`, `recode` and `subset`; `lines`
does both; `disclose` hides nobody. The budget is stated once: the noise scale is derived from the charge, or the charge
from the noise scale; callers never state both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_DENSE, MOST_MEASURED, ByAxis, Codes, Which, Whole
from sfumato.domain import Axis, Domain, Partition
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Load, load_of
from sfumato.kernel.counts import Aggregate, Rows, recoded
from sfumato.kernel.holding import SUBSETS_AT_ONCE, Holding, View, checked_map, checked_subset, subset_of, thinned
from sfumato.kernel.sampling.noise import draw
from sfumato.kernel.verbs import measuring
from sfumato.kernel.verbs.exponential import choose
from sfumato.kernel.verbs.measuring import Guess, PartsMisfit, check_kind, group_sums, pure_epsilon
from sfumato.kernel.verbs.scores import SCORES, LargestMisfit, Misfit, RowsRight, Score
from sfumato.measurement import Measurement, Noise, Trail
from sfumato.queries import Cells, Identity, Queries, Total
from sfumato.queries.arrays import is_frozen
from sfumato.queries.ranges import GRID
from sfumato.schema.schema import missing_of

if TYPE_CHECKING:
    from sfumato.kernel.lines import Lines


DRAWN_AT_ONCE = 2**22  # noises: 32 MB of them beside the answers


class Curator(Holding):
    """Holder of a private table, bound to one charge.

    A mechanism receives a curator and cannot reach the counts behind it except through its verbs.
    """

    # -- verbs that spend

    def measure(
        self,
        queries: Queries,
        budget: Budget | None = None,
        *,
        of: str = "count",
        scales: Fraction | Sequence[Fraction] | None = None,
        which: Which = None,
        above: int | None = None,
    ) -> Measurement:
        """Answer queries with exact noise, charged to every cell they touch.

        Give either a `budget`, and every row gets the same noise, as little as the budget allows, or `scales`, the
        noise of each row (Laplace: the scale; Gaussian: sigma squared), and the charge follows from it.
        which: for each row the place of its scale in `scales`, where many rows share few scales; of a product of
        queries over all attributes, also by axis.
        above: publish only the cells whose noisy count reaches this threshold (for `Identity` only). The time taken
        follows the cells that hold rows and those that are published, not the size of the domain.

        Rows in which a measure is missing are counted beside its sums, by the same queries, with noise in proportion to
        what one row can add, for the one charge: a row has a value or lacks it.
        """
        unit = self._unit(of)
        self._check(queries)
        noises, which = self._noises(queries, unit, budget, scales, which)
        if above is not None and (type(queries) is not Identity or of != "count" or above < 1 or len(noises) > 1):
            raise QueryError("only the cells' own counts, with one noise for all, are published above a threshold")
        if above is None and type(queries) not in (Total, Cells):
            self._check_size(MOST_MEASURED if isinstance(which, ByAxis) else MOST_DENSE)
        # Charged before anything is drawn: an exception from here on can only over-count.
        self.charge.admit(self._loads(queries, unit, noises, which))
        if above is not None:
            cells, answers = self._sift(above, noises[0])
            return Measurement(of, queries, answers, noises, above=above, cells=cells)
        missing = None
        if missing_of(of) in self._units:
            missing = self._noisy(queries, missing_of(of), self._missing_noises(noises, unit), which)
        return replace(self._noisy(queries, of, noises, which), missing=missing)

    def _noisy(self, queries: Queries, of: str, noises: tuple[Noise, ...], which: Which) -> Measurement:
        """True answers plus noise that was already charged, as a measurement."""
        answers = self._answers(queries, of)
        kinds = np.zeros(len(answers), dtype=np.uint8) if which is None else np.asarray(which)
        for start in range(0, len(answers), DRAWN_AT_ONCE):  # blocks are public, and so is what noise a row carries
            block = slice(start, start + DRAWN_AT_ONCE)
            for kind, noise in enumerate(noises):
                mine = kinds[block] == kind
                rows = block if mine.all() else start + np.flatnonzero(mine)
                answers[rows] += draw(noise, int(mine.sum()), self._entropy)
        answers.setflags(write=False)
        return Measurement(of, queries, answers, noises, which)

    def measure_running(self, budget: Budget, weights: Sequence[int | Fraction]) -> tuple[list[Measurement], Trail]:
        """Measure every cell with noise that partly cancels that of earlier parts in sums over parts of the series.

        weights: by which the budget is split over the statistics. The answers are in GRID-ths of a row (or a step). The
        noise of each measurement is the fresh noise of this part; the trail has the weights of all fresh noises in its
        errors. What later parts will tell of these rows is charged now (docs/privacy.md, theorems 13 and 14).
        """
        carried = self._carried
        if carried is None:
            raise QueryError("running totals are measured of the whole table of a series that has running: true")
        self._check_size()
        shares = dict(zip(self.statistics, budget.split(*weights), strict=True))
        noises, loads = self._running_noises(shares, carried.planned, carried.together)
        self.charge.admit(loads)
        size = self.domain.size
        # On disk before a count is looked at: no other part can have these errors, whatever becomes of this one.
        trail, errors = carried.errors(
            [*noises.values()], lambda: np.concatenate([self._fresh(noise) for noise in noises.values()])
        )
        measured = []
        for (of, noise), error in zip(noises.items(), errors.reshape(len(noises), size), strict=True):
            answers = GRID * self._dense(of) + error  # modulo 2^64, like all sums here
            answers.setflags(write=False)
            measured.append(Measurement(of, Identity(size), answers, (noise,)))
        return measured, trail

    def measure_margins(self, asked: Sequence[tuple[Sequence[str], Queries]], budget: Budget) -> Measurement:
        """Answer queries about several margins, all with the same noise, charged to every cell.

        asked: the attributes of each margin, and the queries about its cells. The answers come margin by margin. Costs
        what `margin` and `measure` do one after the other with this noise.
        """
        check_kind(budget, self.charge)
        listed = [(self._margins.domain_along(names), queries) for names, queries in asked]
        for domain, queries in listed:
            self._check(queries, domain)
        noise, load = self._noise_of_queries([queries for _, queries in listed], budget)
        self.charge.admit([load])
        answers: list[Whole] = [np.zeros(0, dtype=np.int64)] * len(listed)
        for place, counts in self._margins.counts([domain for domain, _ in listed]):
            answers[place] = listed[place][1].apply_wrapping(counts)
        return self._noised("count", np.concatenate(answers), noise)

    def select(self, score: Score, budget: Budget) -> int:
        """Choose a candidate by the exponential mechanism on its score; charged to every cell the score reads."""
        if type(score) not in SCORES:
            raise PrivacyError("select takes a score of sfumato.kernel.verbs.scores, whose sensitivity is proved")
        check_kind(budget, self.charge)
        self._check_size()
        if isinstance(score, Misfit):
            self._check_misfit(score)
        elif isinstance(score, RowsRight | LargestMisfit):
            self._check_candidates(score)
        self._charge_all(budget)
        return choose(score.scores(self._dense("count")), self._choice_rate(budget, score.spread), self._entropy)

    def select_margin(self, guesses: Sequence[Guess], penalties: Sequence[int], budget: Budget) -> int:
        """Choose the margin farthest from its public guess, less a public penalty; return its index.

        guesses: as `measure_margin_misfits` takes them. By the exponential mechanism, charged to every cell: one row
        moves each margin's distance by at most 1, up or down (docs/privacy.md, theorem 7).
        """
        check_kind(budget, self.charge)
        domains, misfits = self._asked_of_margins(guesses)
        fines = measuring.checked_penalties(penalties, len(domains))
        self._charge_all(budget)
        scores = np.zeros(len(domains), dtype=np.int64)
        for place, counts in self._margins.counts(domains):
            apart = measuring.distance(misfits[place].held(counts), misfits[place].misfit.targets)
            scores[place] = apart - fines[place]
        return choose(scores, self._choice_rate(budget, 2), self._entropy)

    def measure_misfit(self, misfit: Misfit, budget: Budget, groups: Codes | None = None) -> Measurement:
        """Measure the distance of the counts from public targets: noisy sums of |A[j] x - targets[j]| by group of rows.

        groups: the group of every row, numbered from 0; one group of all rows if not given. The answers are one for
        each group, and the queries of the measurement are its groups. Costs what measuring the rows themselves does.
        """
        self._check_misfit(misfit)
        self._check_size()
        check_kind(budget, self.charge)
        labels, count = measuring.labels_of(misfit, groups)
        noise = measuring.misfit_noise(misfit, budget, self.charge.contributions)
        sums = self._per_cell(misfit.queries, squared=False)
        self.charge.admit([self._spread(load_of(noise, sums, sums**2))])
        return self._noised("misfit", group_sums(misfit.scores(self._dense("count")), labels, count), noise)

    def measure_margin_misfits(
        self, guesses: Sequence[Guess], budget: Budget, groups: Codes | None = None
    ) -> Measurement:
        """Measure the L1 distance of margins from public guesses: the noisy sum over all cells of |count - guess|.

        guesses: the attributes of each margin and a whole number for each of its cells, in the order of cells; or, as
        a third, the part of every cell, numbered from 0, and a number for each part: the sum is then over parts.
        groups: the group of every margin, numbered from 0, whose sums are published; each by itself if not given.
        """
        check_kind(budget, self.charge)
        domains, misfits = self._asked_of_margins(guesses)
        labels, number = measuring.labels_of_margins(len(domains), groups)
        noise, load = self._margin_noise(labels, number, budget)
        self.charge.admit([load])
        sums = np.zeros(len(domains), dtype=np.int64)
        for place, counts in self._margins.counts(domains):
            sums[place] = misfits[place].total(counts)  # modulo 2^64, like all sums here
        return self._noised("misfit", group_sums(sums, labels, number), noise)

    def first_above(self, misfit: Misfit, threshold: int, budget: Budget, *, start: int = 0) -> int | None:
        """Sparse vector: index of the first noisy misfit from `start` on that exceeds a noisy threshold, or None.

        The sparse vector technique, pure epsilon, one answer: the budget is spent whatever comes of it.
        """
        from sfumato.kernel.verbs import thresholds

        self._check_misfit(misfit)
        self._check_size()
        epsilon = pure_epsilon(budget, self.charge, "first_above")
        level, first = thresholds.checked_threshold(threshold, start, misfit.queries.rows)
        of_threshold, of_rows = self._above_noises(epsilon, misfit)
        self._charge_all(budget)
        misfits = misfit.scores(self._dense("count"))[first:]
        noise = draw(of_rows, len(misfits), self._entropy)
        place = thresholds.first_exceeding(misfits, level, noise, draw(of_threshold, 1, self._entropy))
        return None if place is None else first + place

    def best_partition(
        self, budget: Budget, *, order: Codes, price: Fraction | Sequence[Fraction], longest: int | None = None
    ) -> Codes:
        """Bucket of every cell in a private partition into runs of nearly equal counts; labels rise along `order`.

        order: all cells, in the public order in which they are cut. Runs hold 1, 2, 4, ... cells, `longest` at most;
        those of 8 or more start at quarters of their length. price: what a run costs besides its deviation from the
        median; one for all, or one for each length. Noise of one sign and of scale 2 k / epsilon makes runs cheaper,
        single cells by half of it; a low price mostly buys noise.
        """
        from sfumato.kernel.verbs.partitioning import cheapest, checked_order, cutting, line_up

        epsilon = pure_epsilon(budget, self.charge, "best_partition")
        plan = cutting(self.domain.size, price, longest, epsilon, self.charge.contributions)
        places = checked_order(order, self.domain.size)
        self._charge_all(budget)
        single, longer = plan.candidates
        noise = draw(plan.single, single, self._entropy), draw(plan.longer, longer, self._entropy)
        labels = np.empty(self.domain.size, dtype=np.int64)
        labels[places] = cheapest(line_up(self._dense("count"), places, plan), plan, *noise)
        return labels

    def disclose(self, names: Sequence[str]) -> Whole:
        """Hand out the exact counts of a table, without noise: one that the ledger's entry names, and no other."""
        if tuple(names) not in self._exact:
            raise PrivacyError("no exact counts are handed out but those that the ledger's entry names")
        ((_, counts),) = self._margins.counts([self._margins.domain_along(names)])
        return counts.copy()

    # -- verbs that restrict

    def reduce(self, partition: Partition) -> Curator:
        """Curator over groups of cells, on the same charge; rows in cells labelled -1 are left out."""
        if partition.domain != self.domain:
            raise QueryError("a partition must be made for the domain it is used on")
        if partition.size == 0:
            raise QueryError("a partition needs at least one group")
        label = np.empty(self.domain.size, dtype=np.int64)
        label[:] = partition.labels  # for privacy a copy: what is charged for and what is seen are the same cells
        kept = np.flatnonzero(label >= 0)
        groups = Domain((Axis("group", "integer", np.arange(partition.size + 1.0)),))
        view = View(kept, label[kept]) if self._view is None else self._view.within(label)
        return self._over(groups, self._aggregate.regroup(label), view=view, everywhere=self._everywhere)

    def margin(self, names: Sequence[str]) -> Curator:
        """Curator over the marginal table of some attributes, charged at its fullest cell to all cells of the table."""
        return self._over(*self._margins.along(names))

    def recode(self, axes: Mapping[str, tuple[Axis, Codes]]) -> Curator:
        """Curator over the table with attributes replaced by public functions of themselves, on the same charge.

        axes: for each such attribute its new axis, of the same name, and the new cell of each of its cells. Charged
        like a margin (docs/privacy.md, section 9).
        """
        maps = {name: checked_map(name, self.domain[name].size, axis, map_) for name, (axis, map_) in axes.items()}
        domain = Domain(tuple(axes[axis.name][0] if axis.name in axes else axis for axis in self.domain))
        return self._over(domain, recoded(self._held, self.domain, domain, maps))

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        """Private lines of rows along an ordered attribute, with a charge of their own (kernel/lines.py).

        names: the last one is ordered, and its cells lie next to each other, one line for each combination of values of
        the others; rows in which it is missing are not seen. pieces: a power of two; the rows of a cell are dealt out
        to its pieces (`verbs/partitioning.py`).
        The whole budget is charged here, to every cell, and their own charge is held to it.
        """
        from sfumato.kernel.lines import Lines
        from sfumato.kernel.verbs.partitioning import check_lines, in_lines

        pure_epsilon(budget, self.charge, "lines")
        check_lines(self._margins.domain_along(names), names, pieces)
        self._charge_all(budget)
        domain, aggregate = self._margins.along(names)
        return Lines(in_lines(domain, names, aggregate), pieces, budget, self.charge.contributions, self._entropy)

    def subset(self, seed: int, number: int) -> Curator:
        """Curator over the half of the rows that a public seed selects, charged like the whole table (section 9)."""
        word, bit = divmod(checked_subset(seed, number), SUBSETS_AT_ONCE)
        if self._thinned is None or self._thinned[0] != (seed, word):  # many subsets come from one pass
            self._thinned = (seed, word), thinned(self._aggregate, seed, word)
        held = subset_of(self._aggregate, self._thinned[1][bit])
        return self._over(self.domain, held, ("count",), view=self._view, everywhere=self._everywhere)

    # -- inside

    def _over(
        self,
        domain: Domain,
        held: Aggregate | Rows,
        statistics: Iterable[str] | None = None,
        *,
        view: View | None = None,
        everywhere: bool = True,
    ) -> Curator:
        """Curator over other counts of the same rows, on the same charge."""
        units = self._units if statistics is None else {of: self._units[of] for of in statistics}
        return Curator(domain, held, units, self.charge, self._entropy, view=view, everywhere=everywhere)

    def _noised(self, of: str, answers: Whole, noise: Noise) -> Measurement:
        """Measurement of private numbers, each with noise that was already charged."""
        answers = answers + draw(noise, len(answers), self._entropy)  # modulo 2^64, like all sums here
        answers.setflags(write=False)
        return Measurement(of, Identity(len(answers)), answers, (noise,))

    def _choice_rate(self, budget: Budget, spread: int) -> Fraction:
        """Rate of the exponential mechanism, epsilon / (k * spread): k rows move two scores no further apart."""
        return measuring.epsilon_to_choose(budget) / (self.charge.contributions * spread)

    def _asked_of_margins(self, guesses: Sequence[Guess]) -> tuple[list[Domain], list[PartsMisfit]]:
        """Copy the margins and guesses once, so that the charged ones are the measured ones."""
        asked = [(self._margins.domain_along(names), how) for names, *how in guesses]
        return [domain for domain, _ in asked], [PartsMisfit.of(domain.size, *how) for domain, how in asked]

    def _check_misfit(self, misfit: Misfit) -> None:
        if type(misfit) is not Misfit:
            raise PrivacyError("a misfit is a Misfit of sfumato.kernel.verbs.scores, whose sensitivity is proved")
        self._check(misfit.queries)
        if not is_frozen(misfit.targets):
            raise PrivacyError("a misfit must be made afresh, not copied: its targets could change while it is used")
        if not misfit.sensitivity:
            raise QueryError("these queries touch no cell")

    def _check_candidates(self, score: RowsRight | LargestMisfit) -> None:
        if isinstance(score, LargestMisfit):
            self._check(score.queries)
        if score.columns != self.domain.size:
            raise QueryError(f"the candidates span {score.columns} cells, the domain has {self.domain.size}")
        if not all(map(is_frozen, score.arrays)):
            raise PrivacyError("a score must be made afresh, not copied: what it holds could change while it is used")
        if not score.sensitivity:
            raise QueryError("these queries touch no cell")

    def _above_noises(self, epsilon: Fraction, misfit: Misfit) -> tuple[Noise, Noise]:
        from sfumato.kernel.verbs.thresholds import above_noises

        return above_noises(epsilon, self.charge.contributions * misfit.sensitivity)

    def _margin_noise(self, labels: Codes, groups: int, budget: Budget) -> tuple[Noise, Load]:
        return measuring.noise_of_margins(labels, groups, budget, self.charge.contributions)

    def _noise_of_queries(self, asked: Sequence[Queries], budget: Budget) -> tuple[Noise, Load]:
        return measuring.noise_of_queries(asked, budget, self.charge.contributions)

    def _running_noises(
        self, shares: Mapping[str, Budget], periods: int, together: int
    ) -> tuple[dict[str, Noise], list[Load]]:
        return measuring.running_noises(self._units, shares, periods, self.charge, together)

    def _fresh(self, noise: Noise) -> Whole:
        """Noise of every cell, in whole GRID-ths of a row."""
        return draw(noise, self.domain.size, self._entropy)

    def _noises(
        self,
        queries: Queries,
        unit: int,
        budget: Budget | None,
        scales: Fraction | Sequence[Fraction] | None,
        which: Which,
    ) -> tuple[tuple[Noise, ...], Which]:
        return measuring.noises_of(queries, unit, budget, scales, which, self.charge)

    def _missing_noises(self, noises: tuple[Noise, ...], unit: int) -> tuple[Noise, ...]:
        return tuple(measuring.in_proportion(noise, unit) for noise in noises)

    def _sift(self, above: int, noise: Noise) -> tuple[Codes, NDArray[np.int64]]:
        """Cells whose noisy count reaches a threshold, and these counts."""
        from sfumato.kernel.verbs.thresholds import sift

        return sift(self._aggregate, self.domain.size, above, noise, self._entropy)
