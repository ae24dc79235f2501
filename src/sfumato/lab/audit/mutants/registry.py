"""NOT PRIVATE: registry of the mutants, deliberately broken variants by name, and the run of the audit on all of them.

All must be caught, for one that the audit misses is a hole in the audit. None of them touches the kernel: they are
functions, curators, charges and ledgers of their own. Beside each stands its control, the same thing done right, which
must never be flagged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from inspect import getdoc
from typing import Any, NamedTuple

from sfumato.answers.results import Result
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.discovering import Held, find_values, open_looks
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.past_noise import PastNoise
from sfumato.kernel.ledger.register import Register
from sfumato.kernel.reading.engines import silenced
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.attacks import moving_people
from sfumato.lab.audit.attacks.exact import Law
from sfumato.lab.audit.attacks.exact_counts import tells_more
from sfumato.lab.audit.attacks.exact_values import Kept, deals_too_much, finds_too_much, tells_too_much
from sfumato.lab.audit.attacks.replay import Run as Recipe
from sfumato.lab.audit.attacks.replay import first_fault
from sfumato.lab.audit.attacks.sampling import audit
from sfumato.lab.audit.mutants import choices, curators, ledgers, noise, outputs, readers, views
from sfumato.lab.audit.mutants.noise import Run, honest
from sfumato.lab.audit.mutants.reader_checks import Check
from sfumato.lab.audit.mutants.reader_checks import checks as reader_checks
from sfumato.lab.audit.subjects.registry import EMPTY_CELL
from sfumato.lab.audit.subjects.subject import Counts, Subject, small_schema, square_schema
from sfumato.lab.papers.conjunctions.measure import EXAMPLE as CONJUNCTIONS_EXAMPLE
from sfumato.lab.papers.fourier.measure import EXAMPLE as FOURIER_EXAMPLE
from sfumato.lab.papers.fourier.measure import fourier
from sfumato.lab.papers.mldp.measure import EXAMPLE as MLDP_EXAMPLE
from sfumato.lab.papers.mldp.measure import mldp
from sfumato.lab.papers.pac.measure import EXAMPLE as PAC_EXAMPLE
from sfumato.lab.papers.pac.measure import pac
from sfumato.lab.papers.parity.measure import EXAMPLE as PARITY_EXAMPLE
from sfumato.lab.papers.parity.measure import parity
from sfumato.releases.file.artifact import read_artifact
from sfumato.schema import Schema

MANY, MOST = 100_000, 1_000_000  # runs: most leaks are plain to see, some are not
WHOLE = Budget.pure(1)
LINE = small_schema(4, 1, measured=True)
WEIGHED = small_schema(2, 1, measured=True, weighed=True)


@dataclass(frozen=True)
class Mutant:
    """A broken variant and its control, the same thing done right.

    subject, control: for the sampling audit, at `runs` runs. check, sound: complaint about the broken variant and about
    the control, where sampling cannot see the fault.
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


def _checked(
    name: str, made: Any, check: Callable[..., str | None], real: Any, by: str, broken: object = None
) -> Mutant:
    """Mutant that a check catches; the control is the same check of `real`.

    made: the broken class or function, whose docstring says what is wrong. broken: what the check is given, if it is
    not `made` itself. by: name of the test that checks it.
    """
    check, sound = partial(check, made if broken is None else broken), partial(check, real)
    return Mutant(name, _what_is_wrong(made), check=check, sound=sound, checked_by=by)


def _replayed(
    name: str,
    made: Any,
    run: Recipe | None = None,
    control: Recipe | None = None,
    schema: Schema = LINE,
    budget: Budget = WHOLE,
) -> Mutant:
    """Mutant for the replay audit: a recipe run with the broken curator `made`, or `made` as the broken recipe."""
    kind, run = (Curator, made) if run is None else (made, run)
    sides = partial(first_fault, run, schema, budget, kind), partial(first_fault, control or run, schema, budget)
    return Mutant(name, _what_is_wrong(made), 0, None, None, *sides)


def _published(name: str, **made: type) -> Mutant:
    """Mutant for the replay audit of a series: one of the classes that it is published with is broken."""
    (broken,), check = made.values(), partial(moving_people.first_fault, **made)
    return Mutant(name, _what_is_wrong(broken), check=check, sound=moving_people.first_fault)


def _released(
    name: str, run: Any, control: Any, example: Callable[[int], Schema] | None = None, before: Counts = EMPTY_CELL
) -> Mutant:
    """Mutant for the sampling audit of whole release files, with the real mechanism as control."""
    return _sampled(
        name, run, outputs.released(run, example, before), outputs.released(control, example, before), MANY // 250
    )


def _quantile(
    name: str, rate_of: Callable[[Fraction], Fraction], quantile: Fraction, tables: tuple[list[int], list[int]]
) -> Mutant:
    """Mutant of the exponential mechanism on ranks: audited exactly, and by sampling on two tables."""
    rates = rate_of(quantile), choices.honest_rate(quantile)
    broken, right = (choices.choosing(quantile, tables, rate) for rate in rates)
    laws = [choices.choice_law(Rank(quantile), rate) for rate in rates]
    return _also_exact(_sampled(name, rate_of, broken, right), choices.exactly, *laws)


def _also_exact(mutant: Mutant, check: Callable[[Any], str | None], broken: object, right: object) -> Mutant:
    return replace(mutant, check=partial(check, broken), sound=partial(check, right), checked_by="exact")


def _exactly(name: str, check: Check, right: Law) -> Mutant:
    return Mutant(name, _what_is_wrong(check), check=check, sound=partial(choices.exactly, right), checked_by="exact")


def _what_is_wrong(made: object) -> str:
    return (getdoc(made) or "").splitlines()[0].removeprefix("NOT PRIVATE: ").removeprefix("NOT GUARANTEED: ")


def _plain(name: str, run: Run, control: Run, runs: int = MANY, epsilon: Fraction = Fraction(1)) -> Mutant:
    return _sampled(name, run, run, control, runs, epsilon)


def _made(name: str, make: Callable[[], Run], control: Run, runs: int = MANY) -> Mutant:
    return _sampled(name, make, make(), control, runs)


def _sifting(name: str, kind: type[Curator], tables: tuple[list[int], list[int]]) -> Mutant:
    return _sampled(name, kind, curators.sifted(tables, kind), curators.sifted(tables))


_on_square = partial(_replayed, schema=square_schema(1))
_on_lines = partial(_replayed, schema=small_schema(4, 1, measured=False), budget=Budget.pure(4))
_descending = partial(_checked, check=curators.descent_fault, real=curators.descending(), by="replay")
_kept = partial(_checked, real=Ledger, by="ledger")
_registered = partial(_checked, check=ledgers.counts_too_often, real=Register, by="ledger")
_reserved = partial(_checked, check=ledgers.looks_for_less, real=open_looks, by="ledger")
_RUNNING = (Curator, PastNoise)
_running = partial(_checked, check=tells_too_much, real=_RUNNING, by="exact")
_looked = partial(_checked, check=finds_too_much, real=find_values, by="exact")
_read_for_values = partial(_checked, check=partial(finds_too_much, find_values), real=Kept, by="exact")
_dealt = partial(_checked, check=deals_too_much, real=Held.weights, by="exact")
_bounding = partial(_checked, check=outputs.broken, real=outputs.first_believed, by="intervals")
_shown = partial(_checked, by="outputs")
_summed = partial(_checked, check=readers.sum_moves, real=readers.real_steps, by="reading")
_of_fourier = partial(_replayed, control=fourier, schema=FOURIER_EXAMPLE(1))
_of_conjunctions = partial(_replayed, control=views.honest, schema=CONJUNCTIONS_EXAMPLE(1))
_of_mldp = partial(_replayed, schema=MLDP_EXAMPLE(1))
_parity = partial(_released, control=parity, example=PARITY_EXAMPLE)
_COUNT = honest([3], [1])
_SPARSE_VECTOR = choices.honest_sparse_vector()
_EVEN_CUT = noise.cut(noise.EVEN, noise.ONE, noise.TWO)
_EXACT_SINGLES = _made("partition, exact single cells", noise.singles_without_noise, _EVEN_CUT, 5 * MANY)
_STEEP_CUT = noise.cut(noise.STEEP, noise.ONE, noise.TWO, prices=noise.CHEAP)

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
        _exactly(
            "limited domain",
            choices.limited_domain,
            choices.choice_law(Rank(Fraction(1)), choices.honest_rate(Fraction(1))),
        ),
        _looked("values, threshold too low by one", choices.found_from_one_less),
        _looked("values, ordered by their people", choices.found_by_people),
        _read_for_values("values, no cap", choices.Uncapped),
        _read_for_values("values, rows for people", choices.RowsForPeople),
        _dealt("values, dealt in full", choices.dealt_in_full),
        _dealt("values, dealt a little too much", choices.dealt_rounded_up),
        _made("sparse vector, positives not paid", choices.positives_not_paid, _SPARSE_VECTOR, MANY // 5),
        _made("sparse vector, positives not counted", choices.positives_not_counted, _SPARSE_VECTOR, MANY // 5),
        _plain("sparse vector, exact queries", choices.queries_without_noise, choices.queries_with_noise),
        _made("misfits summed as one", noise.summed_as_one, noise.summed_misfits(Fraction(noise.ROWS))),
        _made("first above, one way only", noise.one_way_misfits, noise.first_misfit(noise.TWO, noise.FOUR), 3 * MANY),
        _also_exact(_EXACT_SINGLES, noise.exact_cut, None, noise.ONE),
        _made("partition, costs clipped", noise.costs_clipped, _STEEP_CUT, 5 * MANY),
        _sifting("empty cells never published", curators.NoEmptyCellsCurator, ([3, 0], [3, 1])),
        _sifting("published cells by true count", curators.ByCountCurator, ([4, 4], [4, 5])),
        _released("estimate from the table", outputs.fitted_to_the_table, outputs.fitted_evenly),
        _replayed("estimate put beside the fit", outputs.told_beside_the_fit, control=outputs.fitted_evenly),
        _replayed("double spend", curators.ForgetfulCurator, curators.until_refused),
        _replayed("composition by maximum", curators.LargestCurator, curators.until_refused),
        _replayed(
            "budget split forgotten", curators.UnsplitCurator, curators.with_whole_budgets, curators.with_even_shares
        ),
        _replayed("weights charged as one row", curators.WeightlessCurator, curators.with_even_shares, schema=WEIGHED),
        _replayed("overlapping partition", curators.OverlappingCurator, curators.totals_of_groups),
        _on_square("margins charged as one", views.MarginsAsOneCurator, views.misfits_in_one_sum),
        _on_square("margins at once charged as one", views.FullestMarginCurator, views.margins_at_once),
        _on_square("parts that overlap", views.PartsOverlapCurator, views.misfits_in_parts),
        _on_square("margins not added up", curators.ViewsApartCurator, views.margins_until_refused),
        _on_square("recoded tables not added up", curators.ViewsApartCurator, views.recoded_until_refused),
        _of_mldp("training queries one by one", views.EachQueryAloneCurator, mldp),
        _of_mldp("answers kept aside for free", curators.ViewsApartCurator, views.asked_until_full),
        _on_square("a choice twice as sharp", views.SharpChoiceCurator, views.a_chosen_margin),
        _on_square("a choice for nothing", views.FreeChoiceCurator, views.a_chosen_margin),
        _on_square("sums charged as one", views.SumsAsOneCurator, views.round_of_a_perceptron),
        _on_square("tree split by the table", views.split_by_the_table, control=views.split_by_noisy_counts),
        _on_square("directions not added up", curators.ViewsApartCurator, views.directions_until_refused),
        _on_square("halfspaces charged as bins", views.HalfspacesAsBinsCurator, views.nested_halfspaces),
        _replayed("missing values, half the noise", curators.MissingBySumsCurator, curators.with_even_shares),
        _replayed("missing values in both", curators.MissingInBothCurator, curators.with_even_shares),
        _replayed("scale from the data", curators.ScaleFromDataCurator, curators.with_even_shares),
        _descending("descent, leaves paid twice", curators.paid_twice, broken=curators.descending(curators.paid_twice)),
        _descending("descent by true counts", curators.steered_by_the_table),
        _parity("parity, label from the table", choices.label_from_the_table, before=choices.EVEN),
        _parity("parity, contradictions left empty", choices.contradictions_left_empty, before=choices.CLEAR),
        _exactly("pac, saving taken twice", choices.saved_twice, choices.choice_law(choices.RULES, Fraction(1))),
        _released("pac, error not hidden", choices.counted_exactly, pac, PAC_EXAMPLE),
        _exactly("blr, saving for counts", choices.saved_as_counts, choices.choice_law(choices.TABLES, Fraction(1, 2))),
        _replayed("blr, scaled by the table", choices.scaled_by_the_table, control=choices.scaled_by_noise),
        _on_lines("quantiles, lines for nothing", choices.FreeLinesCurator, choices.lines_until_refused),
        _on_lines("quantiles, rows dealt in shares", choices.ReshuffledCurator, choices.below_the_median),
        _summed("sum without clipping", readers.unclipped_steps),
        _summed("NaN through clip", readers.nan_through_clip),
        *(
            Mutant(name, _what_is_wrong(made), check=check, sound=sound, checked_by="reading")
            for name, (made, check, sound) in reader_checks().items()
        ),
        _of_fourier("coefficients charged as one", views.CoefficientsAsOneCurator, views.scale_by_sets),
        _of_fourier("table behind coefficients from the truth", views.fitted_to_the_truth),
        _of_conjunctions("subsets not added up", curators.ViewsApartCurator, views.each_subset_in_full),
        _of_conjunctions("subsets by rank", views.SubsetsByRankCurator, views.honest),
        _checked(
            "ends that noise chose",
            outputs.largest_first,
            partial(outputs.broken, outputs.first_believed),
            outputs.as_asked,
            "intervals",
        ),
        _bounding("half of the noise", outputs.half_the_noise),
        _checked(
            "a confidence for each of several bounds",
            outputs.none_split,
            partial(outputs.broken, search=outputs.MANY_BOUNDS),
            outputs.all_split,
            "intervals",
        ),
        _kept("a ledger for each release", ledgers.FreshLedger, ledgers.spends_twice),
        _kept("a budget for each spelling", ledgers.LiteralLedger, ledgers.tells_spellings_apart),
        _kept("rows and people added up", ledgers.UnitBlindLedger, ledgers.adds_two_promises),
        _kept("a lost ledger made anew", ledgers.SilentLedger, ledgers.starts_afresh),
        _kept("months that do not add up", ledgers.MonthlyLedger, ledgers.adds_too_few_periods),
        _kept("exact counts that no entry names", ledgers.ForgetfulLedger, ledgers.forgets_exact_counts),
        _checked("exact counts for the asking", curators.DisclosingCurator, tells_more, Curator, "exact"),
        _checked("exact counts of finer tables", curators.FinerCurator, tells_more, Curator, "exact"),
        _registered("a register unheeded", ledgers.UnheededRegister),
        _registered("a register one period late", ledgers.OneMoreRegister),
        _registered("a register without names", ledgers.NamelessRegister),
        _registered("a register written afterwards", ledgers.LateRegister),
        _registered("a lost register made anew", ledgers.NewRegister, check=ledgers.loses_people),
        *(
            _reserved(name, made, broken=ledgers.looking(made))
            for name, made in {
                "looks, all for each": ledgers.ForgetfulLooks,
                "looks, unpaid": ledgers.UnpaidLooks,
            }.items()
        ),
        _reserved("looks, unrecorded", ledgers.unrecorded),
        _reserved("looks, half reserved", ledgers.half_reserved),
        _reserved("looks, a kind receipt", ledgers.kind_receipt),
        _published("months that do not add up, of people who move", ledger=ledgers.MonthlyLedger),
        _published("a correction for nothing", ledger=ledgers.FreeCorrections),
        _published("a register unheeded, of people who move", register=ledgers.UnheededRegister),
        _published("all months in each part", table=ledgers.EveryMonth),
        _running(
            "running totals, noise in whole rows",
            curators.CoarseNoiseCurator,
            broken=(curators.CoarseNoiseCurator, PastNoise),
        ),
        _running(
            "running totals, noise for one period",
            curators.OnePeriodCurator,
            broken=(curators.OnePeriodCurator, PastNoise),
        ),
        _running(
            "running totals, one period of several",
            curators.OneColumnCurator,
            broken=(curators.OneColumnCurator, PastNoise),
        ),
        _running("running totals, past noise forked", ledgers.ForkedNoise, broken=(Curator, ledgers.ForkedNoise)),
        _running(
            "running totals, corrected in vain", ledgers.UncorrectedNoise, broken=(Curator, ledgers.UncorrectedNoise)
        ),
        _shown("labels that steer a terminal", outputs.raw_table, outputs.steers, repr),
        _shown("labels that run as formulas", outputs.raw_csv, outputs.runs, Result.to_csv),
        _shown("a file without a bound", outputs.open_unbounded, outputs.takes_all_memory, read_artifact),
        _shown("the engine's words kept", outputs.silenced_from_none, outputs.keeps_words, silenced),
        _shown("an interrupt as damage", outputs.silenced_by_kind, outputs.mistakes_interrupt, silenced),
    )
}


Progress = Callable[[int, int], None]  # (mutants done, mutants in all)


class Caught(NamedTuple):
    """Result of the audits on a mutant: the audit that caught it, None if none did, and its words."""

    by: str | None
    detail: str


def catch(mutant: Mutant, entropy: Entropy) -> Caught:
    """Run the audits on a mutant, quick ones first, until one catches it."""
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
    """Results for all mutants: name, audit that caught it (None: it survived), and the audit's words."""
    report = []
    for done, mutant in enumerate(MUTANTS.values(), 1):
        report.append((mutant.name, *catch(mutant, entropy)))
        if progress is not None:
            progress(done, len(MUTANTS))
    return report
