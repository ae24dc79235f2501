"""NOT PRIVATE: registry of the mutants, deliberately broken variants by name, and the run of the audit on all of them.

All must be caught, for one that the audit misses is a hole in the audit. None of them touches the kernel: they are
functions, curators, charges and ledgers of their own. Beside each stands its control, the same thing done right, which
must never be flagged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from inspect import getdoc
from typing import Any

from sfumato.answers.results import Result
from sfumato.frozen import dataclass
from sfumato.kernel.curator import Curator
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.audit.attacks.replay import Run as Recipe
from sfumato.lab.audit.attacks.sampling import audit
from sfumato.lab.audit.mutants import choices, curators, fits, intervals, ledgers, margins, mldp, noise, outputs, verbs
from sfumato.lab.audit.mutants import choices as blr
from sfumato.lab.audit.mutants import choices as pac
from sfumato.lab.audit.mutants import curators as descents
from sfumato.lab.audit.mutants import margins as fourier
from sfumato.lab.audit.mutants import readers as reading
from sfumato.lab.audit.mutants import survey as conjunctions
from sfumato.lab.audit.mutants import survey as halfspace
from sfumato.lab.audit.mutants import survey as sq
from sfumato.lab.audit.mutants import tr_2010_003 as parity
from sfumato.lab.audit.mutants import tr_2010_003 as quantiles
from sfumato.lab.audit.mutants.curators import replaying, sifted
from sfumato.lab.audit.mutants.noise import Run, honest
from sfumato.lab.audit.mutants.reader_checks import checks as reader_checks
from sfumato.lab.audit.mutants.readers import Check, sum_moves
from sfumato.lab.audit.subjects.subject import Subject
from sfumato.lab.papers.pac.measure import pac as pac_release
from sfumato.lab.papers.parity.measure import parity as parity_release
from sfumato.releases.file.artifact import read_artifact

MANY, MOST = 100_000, 1_000_000  # runs: most leaks are plain to see, some are not


@dataclass(frozen=True)
class Mutant:
    """A broken variant and its control, the same thing done right.

    subject, control: for the sampling audit, at `runs` runs. check, sound: for what sampling cannot see.
    """

    name: str
    broken: str  # what is wrong with it, in words
    runs: int = 0
    subject: Subject | None = None
    control: Subject | None = None
    check: Check | None = None
    sound: Check | None = None
    checked_by: str = "replay"  # the audit that `check` belongs to


def _sampled(
    name: str, made: object, run: Run, control: Run, runs: int = MANY, epsilon: Fraction = Fraction(1)
) -> Mutant:
    subject, right = Subject(name, epsilon, run), Subject(f"control of {name}", epsilon, control)
    return Mutant(name, _what_is_wrong(made), runs, subject, right)


def _checked(name: str, made: object, check: Check, sound: Check, by: str = "replay") -> Mutant:
    return Mutant(name, _what_is_wrong(made), check=check, sound=sound, checked_by=by)


def _keeping(name: str, kind: type[Ledger], tempts: Callable[[type[Ledger]], Check]) -> Mutant:
    return _checked(name, kind, tempts(kind), tempts(Ledger), "ledger")


def _shown(name: str, complaint: Callable[[Any], Check], broken: object, real: object) -> Mutant:
    return _checked(name, broken, complaint(broken), complaint(real), "outputs")


def _replayed(name: str, kind: type[Curator], run: Recipe, control: Recipe | None = None) -> Mutant:
    return _checked(name, kind, replaying(run, kind), replaying(control or run))


def _along_margins(name: str, kind: type[Curator], run: Recipe) -> Mutant:
    return _checked(name, kind, margins.replaying_margins(run, kind), margins.replaying_margins(run))


def _learning(name: str, kind: type[Curator], run: Recipe) -> Mutant:
    return _checked(name, kind, mldp.replaying_model(run, kind), mldp.replaying_model(run))


def _descending(name: str, made: object, run: Recipe) -> Mutant:
    return _checked(name, made, descents.replaying_descent(run), descents.replaying_descent(descents.descending()))


def _quantile(
    name: str, rate_of: Callable[[Fraction], Fraction], quantile: Fraction, tables: tuple[list[int], list[int]]
) -> Mutant:
    """Few outcomes: computed exactly, and sampled on two tables that show it well."""
    rate, right = rate_of(quantile), choices.honest_rate(quantile)
    mutant = _sampled(
        name, rate_of, choices.choosing(quantile, tables, rate), choices.choosing(quantile, tables, right)
    )
    check, sound = (choices.exactly(choices.quantile_law(quantile, each)) for each in (rate, right))
    return replace(mutant, check=check, sound=sound, checked_by="exact")


def _what_is_wrong(made: object) -> str:
    return (getdoc(made) or "").splitlines()[0].removeprefix("NOT PRIVATE: ").removeprefix("NOT GUARANTEED: ")


def _plain(name: str, run: Run, control: Run, runs: int = MANY, epsilon: Fraction = Fraction(1)) -> Mutant:
    return _sampled(name, run, run, control, runs, epsilon)


def _made(name: str, make: Callable[[], Run], control: Run, runs: int = MANY) -> Mutant:
    return _sampled(name, make, make(), control, runs)


def _sifting(name: str, kind: type[Curator], tables: tuple[list[int], list[int]]) -> Mutant:
    return _sampled(name, kind, sifted(tables, kind), sifted(tables))


_REAL_SUM = sum_moves(reading.real_steps)
_COUNT = honest([3], [1])
_SPARSE_VECTOR = choices.honest_sparse_vector()
_EVEN_CUT = verbs.cut(verbs.EVEN, verbs.ONE, verbs.TWO)
_STEEP_CUT = verbs.cut(verbs.STEEP, verbs.ONE, verbs.TWO, prices=verbs.CHEAP)

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        _plain("halved scale", noise.halved_scale, _COUNT),
        _plain("scale 2 % short", noise.short_scale, _COUNT, 2 * MOST),
        _plain("two rows as one", noise.two_rows_as_one, honest([3], [2], Fraction(2))),
        _plain("rounding as protection", noise.rounded_counts, honest([14], [1])),
        _plain("sensitivity from the data", noise.scale_from_data, honest([2], [20], Fraction(20))),
        _plain("noise clipped at 8 scales", noise.clipped_noise, _COUNT, 3 * MOST),
        _plain("noise redrawn", noise.redrawn_noise, _COUNT),
        _plain("one-sided noise", noise.one_sided_noise, _COUNT),
        _plain("even noise", noise.even_noise, honest([3], [1], Fraction(8))),
        _plain("float noise", noise.float_noise, noise.snapped_float_noise, MANY, Fraction(1, 2)),
        _plain("coarse uniform", noise.coarse_uniform, _COUNT, MOST),
        _plain("noise reused", noise.reused_noise, honest([5, 5], [0, 1], Fraction(2))),
        _plain("same noise on all cells", noise.same_noise_on_all_cells, honest([4, 7, 4], [0, 0, 1])),
        _plain("fixed seed", noise.fixed_seed, _COUNT),
        _plain("seed from the data", noise.seeded_by_data, _COUNT),
        _plain("zeros left alone", noise.zeros_left_alone, honest([0], [1])),
        _plain("exact number of rows", noise.exact_rows, honest([3, 4], [0, 1])),
        _plain("clipped to the data", noise.clipped_to_data, _COUNT),
        _plain("threshold without noise", noise.noiseless_threshold, noise.honest_threshold),
        _plain("order by true count", noise.ordered_by_count, noise.honestly_ordered),
        _quantile("no factor 2 in select", choices.rate_without_two, choices.MEDIAN, choices.MEDIAN_TABLES),
        _quantile("rank understated", choices.rate_understated, choices.UPPER, choices.UPPER_TABLES),
        _checked(
            "limited domain",
            choices.limited_domain,
            choices.limited_domain,
            choices.exactly(choices.quantile_law(Fraction(1), choices.honest_rate(Fraction(1)))),
            "exact",
        ),
        _made("sparse vector, positives not paid", choices.positives_not_paid, _SPARSE_VECTOR, MANY // 5),
        _made("sparse vector, positives not counted", choices.positives_not_counted, _SPARSE_VECTOR, MANY // 5),
        _plain("sparse vector, exact queries", choices.queries_without_noise, choices.queries_with_noise),
        _made("misfits summed as one", verbs.summed_as_one, verbs.summed_misfits(Fraction(verbs.ROWS))),
        _made("first above, one way only", verbs.one_way_misfits, verbs.first_misfit(verbs.TWO, verbs.FOUR), 3 * MANY),
        replace(
            _made("partition, exact single cells", verbs.singles_without_noise, _EVEN_CUT, 5 * MANY),
            check=verbs.exact_cut(None),
            sound=verbs.exact_cut(verbs.ONE),
            checked_by="exact",
        ),
        _made("partition, costs clipped", verbs.costs_clipped, _STEEP_CUT, 5 * MANY),
        _sifting("empty cells never published", curators.NoEmptyCellsCurator, ([3, 0], [3, 1])),
        _sifting("published cells by true count", curators.ByCountCurator, ([4, 4], [4, 5])),
        _sampled(
            "estimate from the table",
            fits.fitted_to_the_table,
            fits.released(fits.fitted_to_the_table),
            fits.released(fits.fitted_evenly),
            MANY // 250,
        ),
        _checked(
            "estimate put beside the fit",
            fits.told_beside_the_fit,
            replaying(fits.told_beside_the_fit),
            replaying(fits.fitted_evenly),
        ),
        _replayed("double spend", curators.ForgetfulCurator, curators.until_refused),
        _replayed("composition by maximum", curators.LargestCurator, curators.until_refused),
        _replayed(
            "budget split forgotten",
            curators.UnsplitCurator,
            curators.with_whole_budgets,
            control=curators.with_even_shares,
        ),
        _replayed("overlapping partition", curators.OverlappingCurator, curators.totals_of_groups),
        _along_margins("margins charged as one", margins.MarginsAsOneCurator, margins.misfits_in_one_sum),
        _along_margins("parts that overlap", margins.PartsOverlapCurator, margins.misfits_in_parts),
        _along_margins("margins not added up", margins.MarginsApartCurator, margins.margins_until_refused),
        _learning("training queries one by one", mldp.EachQueryAloneCurator, mldp.trained_on),
        _learning("answers kept aside for free", mldp.AsideForFreeCurator, mldp.asked_until_full),
        _along_margins("a choice twice as sharp", margins.SharpChoiceCurator, margins.a_chosen_margin),
        _along_margins("a choice for nothing", margins.FreeChoiceCurator, margins.a_chosen_margin),
        _along_margins("sums charged as one", sq.SumsAsOneCurator, sq.round_of_a_perceptron),
        _checked(
            "tree split by the table",
            sq.split_by_the_table,
            margins.replaying_margins(sq.split_by_the_table),
            margins.replaying_margins(sq.split_by_noisy_counts),
        ),
        _along_margins("directions not added up", halfspace.DirectionsApartCurator, halfspace.directions_until_refused),
        _along_margins("halfspaces charged as bins", halfspace.HalfspacesAsBinsCurator, halfspace.nested_halfspaces),
        _replayed("missing values, half the noise", curators.MissingBySumsCurator, curators.with_even_shares),
        _replayed("missing values in both", curators.MissingInBothCurator, curators.with_even_shares),
        _replayed("scale from the data", curators.ScaleFromDataCurator, curators.with_even_shares),
        _descending("descent, leaves paid twice", descents.paid_twice, descents.descending(descents.paid_twice)),
        _descending("descent by true counts", descents.steered_by_the_table, descents.steered_by_the_table),
        *(
            _sampled(name, run, parity.released(run, before), parity.released(parity_release, before), MANY // 250)
            for name, run, before in (
                ("parity, label from the table", parity.label_from_the_table, parity.EVEN),
                ("parity, contradictions left empty", parity.contradictions_left_empty, parity.CLEAR),
            )
        ),
        _checked("pac, saving taken twice", pac.saved_twice, pac.saved_twice, pac.saved_once, "exact"),
        _sampled(
            "pac, error not hidden",
            pac.counted_exactly,
            pac.released(pac.counted_exactly),
            pac.released(pac_release),
            MANY // 250,
        ),
        _checked("blr, saving for counts", blr.saved_as_counts, blr.saved_as_counts, blr.saved_nothing, "exact"),
        _checked(
            "blr, scaled by the table",
            blr.scaled_by_the_table,
            replaying(blr.scaled_by_the_table),
            replaying(blr.scaled_by_noise),
        ),
        *(
            _checked(name, kind, quantiles.replaying_lines(run, kind), quantiles.replaying_lines(run))
            for name, kind, run in (
                ("quantiles, lines for nothing", quantiles.FreeLinesCurator, quantiles.lines_until_refused),
                ("quantiles, rows dealt in shares", quantiles.ReshuffledCurator, quantiles.below_the_median),
            )
        ),
        _checked(
            "sum without clipping", reading.unclipped_steps, sum_moves(reading.unclipped_steps), _REAL_SUM, "reading"
        ),
        _checked(
            "NaN through clip", reading.nan_through_clip, sum_moves(reading.nan_through_clip), _REAL_SUM, "reading"
        ),
        *(_checked(name, made, check, sound, "reading") for name, (made, check, sound) in reader_checks().items()),
        _checked(
            "coefficients charged as one",
            fourier.CoefficientsAsOneCurator,
            fourier.replaying_coefficients(fourier.scale_by_sets, fourier.CoefficientsAsOneCurator),
            fourier.replaying_coefficients(fourier.honest),
        ),
        _checked(
            "table behind coefficients from the truth",
            fourier.fitted_to_the_truth,
            fourier.replaying_coefficients(fourier.fitted_to_the_truth),
            fourier.replaying_coefficients(fourier.honest),
        ),
        _checked(
            "subsets not added up",
            conjunctions.SubsetsApartCurator,
            conjunctions.replaying_subsets(conjunctions.each_subset_in_full, conjunctions.SubsetsApartCurator),
            conjunctions.replaying_subsets(conjunctions.honest),
        ),
        _checked(
            "subsets by rank",
            conjunctions.SubsetsByRankCurator,
            conjunctions.replaying_subsets(conjunctions.honest, conjunctions.SubsetsByRankCurator),
            conjunctions.replaying_subsets(conjunctions.honest),
        ),
        _checked(
            "ends that noise chose",
            intervals.largest_first,
            intervals.breaking(intervals.first_believed, intervals.largest_first),
            intervals.breaking(intervals.first_believed),
            "intervals",
        ),
        _checked(
            "half of the noise",
            intervals.half_the_noise,
            intervals.breaking(intervals.half_the_noise),
            intervals.breaking(intervals.first_believed),
            "intervals",
        ),
        _checked(
            "a confidence for each of several bounds",
            intervals.none_split,
            intervals.breaking(intervals.none_split, search=intervals.MANY_BOUNDS),
            intervals.breaking(intervals.all_split, search=intervals.MANY_BOUNDS),
            "intervals",
        ),
        _keeping("a ledger for each release", ledgers.FreshLedger, ledgers.spends_twice),
        _keeping("a budget for each spelling", ledgers.LiteralLedger, ledgers.tells_spellings_apart),
        _keeping("rows and people added up", ledgers.UnitBlindLedger, ledgers.adds_two_promises),
        _keeping("a lost ledger made anew", ledgers.SilentLedger, ledgers.starts_afresh),
        _shown("labels that steer a terminal", outputs.steers, outputs.raw_table, repr),
        _shown("labels that run as formulas", outputs.runs, outputs.raw_csv, Result.to_csv),
        _shown("a file without a bound", outputs.takes_all_memory, outputs.open_unbounded, read_artifact),
        _shown("the engine's words kept", outputs.keeps_words, outputs.silenced_from_none, outputs.real_silence),
        _shown("an interrupt as damage", outputs.mistakes_interrupt, outputs.silenced_by_kind, outputs.real_silence),
    )
}


Progress = Callable[[int, int], None]  # (mutants done, mutants in all)


@dataclass(frozen=True)
class Caught:
    """Result of the audits on a mutant: the audit that caught it, and its words; by: None if none did."""

    by: str | None
    detail: str


def catch(mutant: Mutant, entropy: Entropy) -> Caught:
    """Try the audits on a mutant, the quick ones first."""
    if mutant.check is not None:
        complaint = mutant.check()
        if complaint is not None:
            return Caught(mutant.checked_by, complaint)
    if mutant.subject is None:
        return Caught(None, "no check complained")
    finding = audit(mutant.subject, mutant.runs, entropy)
    detail = f"epsilon {float(finding.claimed):g} claimed, at least {finding.bound:.3f} measured: {finding.event}"
    return Caught("sampling" if finding.violated else None, detail)


def mutant_report(entropy: Entropy, progress: Progress | None = None) -> list[tuple[str, str | None, str]]:
    """Every mutant by name, which audit caught it (None: it survived), and what the audit said."""
    report = []
    for done, mutant in enumerate(MUTANTS.values(), 1):
        caught = catch(mutant, entropy)
        report.append((mutant.name, caught.by, caught.detail))
        if progress is not None:
            progress(done, len(MUTANTS))
    return report
