"""Which other values each constant is set to, and by which trials (constants_trials.py) that is told.

Half and double where that makes sense. A share or a probability near 1 has its odds halved and doubled, a factor near 1
its distance from 1; a grid is shifted, or has entries left out and further ones put in; a limit on size that no small
table comes near is lowered until the trial's tables lie beyond it, which is more than half. Expressions are those of
the constant's module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """Two other values as expressions, and the trials that read the constant."""

    lower: str
    higher: str
    trials: tuple[str, ...]


def values_of(name: str) -> tuple[str, str]:
    return TRIED[name].lower, TRIED[name].higher


TRIED: dict[str, Tried] = {
    "models.tree.split_prior.NEARLY": Tried(
        "(1/256, 1/64, 1/16, 1/4)", "(1/64, 1/16, 1/4, 0.99)", ("tree line", "tree plane")
    ),
    "models.tree.split_prior.AROUND": Tried("0.3", "1.2", ("tree line", "tree plane")),
    "models.tree.split_prior.PRIOR_COUNT": Tried("0.5", "2.0", ("tree line", "tree plane")),
    "models.tree.split_prior.LIKE_ALL": Tried("2.0", "8.0", ("tree line", "tree plane")),
    "models.tree.split_prior.PRIOR_FEW": Tried("1.0", "4.0", ("tree line", "tree plane")),
    "models.tree.split_prior.FULL": Tried("0.667", "0.889", ("tree line", "tree plane")),
    "models.tree.split_prior.BELIEF": Tried("0.5", "2.0", ("tree line", "tree plane")),
    "models.tree.split_prior.CLASSES": Tried("6", "24", ("tree full line",)),
    "models.tree.messages.LEAST_SHARE": Tried("5e-4", "2e-3", ("tree line", "tree plane")),
    "models.tree.observation.FAR_BETTER": Tried("2.0", "8.0", ("tree line", "tree plane")),
    "models.tree.descent.WIDEST": Tried("4", "16", ("tree long line",)),
    "models.calibration.model_error.SEEN": Tried("4.0", "16.0", ("dawa grid", "tree plane")),
    "models.calibration.model_error.CLEAR": Tried("0.75", "3.0", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.WORTH": Tried("0.05", "0.2", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.MOST_PART": Tried("0.005", "0.02", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.HIDING": Tried("1.5", "6", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.GROUPS": Tried("1", "6", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.CLEAR": Tried("0.75", "3.0", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.NO_ROW": Tried("0.25", "1.0", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.FINER": Tried("0.3", "0.75", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.COARSER": Tried("0.15", "0.6", ("dawa grid", "tree plane")),
    "models.calibration.misfits_by_kind.LARGER": Tried("4", "16", ("dawa grid", "tree plane")),
    "models.calibration.first_stage.FEWEST_RUNS": Tried("2", "6", ("dawa grid",)),
    "models.calibration.first_stage.MOST_CUT": Tried("1", "6", ("dawa grid",)),
    "models.calibration.first_stage.OF_CELLS": Tried("8", "32", ("dawa grid",)),
    "models.calibration.first_stage.FOR_ALL": Tried("Fraction(1, 40)", "Fraction(1, 10)", ("kdtree large plane",)),
    "models.calibration.block_counts.MOST_BLOCKS": Tried("128", "512", ("dawa large grid",)),
    "models.partition.buckets.POOLED": Tried("1.0", "4.0", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.buckets.EVEN": Tried("1/7", "0.4", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.buckets.EVEN_IN_EVEN": Tried("9/11", "18/19", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.buckets.EVEN_IN_UNEVEN": Tried("0.01", "0.04", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.buckets.CAUTION": Tried("0.25", "1.0", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.buckets.UNSEEN": Tried("0.25", "1.0", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.buckets.GENERATIONS": Tried("2", "8", ("dawa line", "dawa plane", "kdtree plane")),
    "models.partition.search.UNCERTAIN": Tried("0.35", "1.4", ("kdtree plane",)),
    "models.partition.dawa.Settings.shares": Tried(
        "(Fraction(1, 8), Fraction(33, 40), Fraction(1, 50))",
        "(Fraction(2, 5), Fraction(11, 20), Fraction(1, 50))",
        ("dawa line", "dawa plane"),
    ),
    "models.partition.dawa.Settings.levels_apart": Tried("2", "8", ("dawa line", "dawa plane")),
    "models.partition.search.Boxes.first": Tried("Fraction(3, 5)", "Fraction(6, 7)", ("kdtree plane",)),
    "models.partition.ispe.Settings.first": Tried("Fraction(3, 5)", "Fraction(6, 7)", ("ispe plane",)),
    "models.partition.ispe.Settings.apart": Tried("1.5", "6.0", ("ispe plane",)),
    "models.weights.measure.Learning.shares": Tried(
        "(1, 4, 1)", "(1, 16, 1)", ("mwem line", "mwem plane", "pmw line", "pmw plane")
    ),
    "models.weights.measure.Learning.passes": Tried("2", "8", ("mwem line", "mwem plane", "pmw line", "pmw plane")),
    "models.weights.measure.Candidates.most_candidates": Tried("2**10", "2**17", ("mwem line", "mwem plane")),
    "models.weights.measure.Stream.most_queries": Tried("2**11", "2**13", ("pmw line", "pmw plane")),
    "models.weights.measure.Stream.patience": Tried("2", "8", ("pmw line", "pmw plane")),
    "models.cells.cells.Settings.empty": Tried("0.005", "0.02", ("sparse cells",)),
    "models.cells.cells.Settings.shares": Tried("(1, 18)", "(2, 9)", ("sparse cells",)),
    "models.margins.joining.ROUGH": Tried("0.005", "0.02", ("margins long",)),
    "models.margins.joining.SPIKE": Tried("1.75", "7.0", ("margins long",)),
    "models.margins.joining.TOGETHER": Tried("0.54", "0.82", ("margins long",)),
    "models.margins.joining.TILTS": Tried("4", "16", ("margins long", "margins ten")),
    "models.margins.joining.MOST_TILT": Tried("0.25", "1.0", ("margins long", "margins ten")),
    "models.margins.rows.MOST_GIVEN": Tried("1", "6", ("rows",)),
    "models.margins.rows.FITS": Tried("0.025", "0.1", ("rows",)),
    "models.margins.rows.ANYWHERE": Tried("0.15", "0.6", ("rows",)),
    "models.margins.rows.FEWEST": Tried("2**12", "2**14", ("rows",)),
    "models.margins.rows.ROUNDING": Tried("25.0", "100.0", ("rows",)),
    "models.margins.shrinkage.SOME_MEAN": Tried("0.25", "1.0", ("margins survey", "margins long")),
    "models.margins.shrinkage.SOME_SPREAD": Tried("0.05", "0.2", ("margins survey", "margins long")),
    "models.margins.shrinkage.TAILS": Tried(
        "np.exp(0.75 * np.arange(-3.0, 4.0))", "np.exp(3.0 * np.arange(-3.0, 4.0))", ("margins survey", "margins long")
    ),
    "models.margins.shrinkage.TAIL_SHARES": Tried(
        "np.array([0.01, 0.02, 0.05, 0.84, 0.05, 0.02, 0.01])",
        "np.array([0.04, 0.08, 0.20, 0.36, 0.20, 0.08, 0.04])",
        ("margins survey", "margins long"),
    ),
    "models.margins.calibration.NEARLY_ALL": Tried("2/3", "8/9", ("margins survey", "margins long")),
    "models.margins.calibration.LOOKS": Tried(
        "{2: {(4, 4): 2, (4, 0): 2, (0, 4): 2, (2, 2): 2}, 3: {(4, 4, 4): 2, (1, 1, 1): 2}, 4: {(4, 4, 4, 4): 1}}",
        "{2: {(4, 4): 8, (4, 0): 2, (0, 4): 2, (2, 2): 2}, 3: {(4, 4, 4): 6, (1, 1, 1): 2}, 4: {(4, 4, 4, 4): 2}}",
        ("margins survey", "margins long"),
    ),
    "models.margins.calibration.CONTRASTS": Tried("3", "12", ("margins survey", "margins long")),
    "models.margins.calibration.ALIKE": Tried("0.25", "1.0", ("margins survey", "margins long")),
    "models.margins.calibration.CLEAR": Tried("0.125", "0.5", ("margins survey", "margins long")),
    "models.margins.calibration.LEAST": Tried("0.05", "0.2", ("margins survey", "margins long")),
    "models.margins.calibration.MOST": Tried("5e3", "2e4", ("margins survey", "margins long")),
    "models.margins.calibration.ROUGHLY": Tried("5e-5", "2e-4", ("margins survey", "margins long")),
    "models.margins.calibration.MOST_SETS": Tried(
        "{2: 500, 3: 60, 4: 24}", "{2: 2000, 3: 480, 4: 96}", ("margins ten",)
    ),
    "models.margins.calibration.MOST_TRIPLES": Tried("60", "2000", ("margins ten",)),
    "models.margins.calibration.MOST_CELLS": Tried("2**15", "2**17", ("margins broad",)),
    "models.margins.calibration.MOST_CELLS_OF_TRIPLES": Tried("2**19", "2**21", ("margins broad",)),
    "models.margins.scales.FALL": Tried("1.0", "4.0", ("margins survey", "margins long")),
    "models.margins.scales.FINER": Tried("4.0", "16.0", ("margins survey", "margins long")),
    "models.calibration.model_error.SOME": Tried("0.05", "0.2", ("margins survey", "margins long")),
    "models.calibration.model_error.WIDER": Tried("0.7", "2.8", ("margins survey", "margins long")),
    "models.margins.measure.Settings.check": Tried("Fraction(25, 1000)", "Fraction(10, 100)", ("margins survey",)),
    "models.margins.measure.Settings.pairs": Tried("Fraction(1, 5)", "Fraction(1, 2)", ("margins survey",)),
    "models.margins.measure.Settings.contrasts": Tried("Fraction(75, 1000)", "Fraction(30, 100)", ("margins long",)),
    "models.margins.measure.Settings.most_cells": Tried("2**9", "2**19", ("margins long",)),
    "models.margins.measure.Settings.most_cells_of_sums": Tried("2**9", "2**11", ("margins broad sums",)),
    "models.margins.measure.Settings.most_searched": Tried("9", "40", ("margins ten",)),
    "models.margins.views.MOST_IN_THREES": Tried("9", "40", ("margins ten",)),
    "models.margins.views.SPREAD": Tried("0.15", "0.6", ("plans of margins",)),
    "models.margins.views.FOR_TABLES": Tried("0.74", "0.92", ("plans of margins",)),
    "models.margins.views.USUAL_ROWS": Tried("10_000", "40_000", ("plans of margins",)),
    "models.margins.views.COUNT": Tried("1", "6", ("margins survey",)),
    "lab.papers.mldp.training.WIDTHS": Tried("(0.25, 0.5, 1.0)", "(1.0, 2.0, 4.0)", ("gaussian",)),
    "lab.papers.mldp.training.SPREADS": Tried(
        "np.logspace(-6.0, 10.0, 33)", "np.logspace(-6.0, 10.0, 129)", ("gaussian",)
    ),
    "lab.papers.mldp.training.FOLDS": Tried("3", "10", ("auto",)),
    "lab.papers.mldp.training.Settings.neurons": Tried("4", "16", ("network",)),
    "lab.papers.mldp.training.Settings.steps": Tried("50", "200", ("network",)),
    "lab.papers.mldp.training.Settings.decay": Tried("0.05", "0.2", ("network",)),
    "lab.papers.mldp.training.Settings.trees": Tried("8", "32", ("bagging",)),
    "lab.papers.mldp.training.Settings.depth": Tried("2", "8", ("bagging",)),
    "lab.papers.mldp.training.Settings.rounds": Tried("20", "80", ("boosting",)),
    "lab.papers.mldp.training.Settings.shallow": Tried("2", "6", ("boosting",)),
    "lab.papers.mldp.training.Settings.rate": Tried("0.1", "0.4", ("boosting",)),
    "lab.papers.mldp.training_queries.BRANCHING": Tried("2", "8", ("ridge", "gaussian")),
    "lab.papers.mldp.training_queries.FURTHER_LAYERS": Tried("4", "16", ("more queries", "subsets")),
    "lab.papers.bayes.measure.ROUNDS": Tried("25", "100", ("bayes",)),
    "lab.papers.bayes.measure.LITTLE": Tried("5e-10", "2e-9", ("bayes",)),
    "lab.papers.bayes.measure.Settings.shares": Tried(
        "(Fraction(10, 100), Fraction(15, 100), Fraction(70, 100), Fraction(5, 100))",
        "(Fraction(10, 100), Fraction(50, 100), Fraction(35, 100), Fraction(5, 100))",
        ("bayes",),
    ),
    "lab.papers.bayes.measure.Settings.rows": Tried("(2**14, 2**17)", "(2**16, 2**19)", ("bayes",)),
    "lab.papers.bayes.measure.Settings.per_cell": Tried("2**9", "2**11", ("bayes",)),
    "lab.papers.bayes.measure.Settings.most_choices": Tried("4", "800", ("bayes",)),
    "lab.papers.bayes.measure.Settings.most_cells": Tried("2**3", "2**19", ("bayes",)),
    "lab.papers.sq.classifiers.TOWARDS_ALL": Tried("0.5", "2.0", ("naive Bayes",)),
    "lab.papers.sq.classifiers.ODDS": Tried("(1.25, 2.0, 5.0)", "(2.0, 5.0, 17.0)", ("naive Bayes",)),
    "lab.papers.sq.classifiers.LEAST_ROWS": Tried("2.0", "8.0", ("id3",)),
    "lab.papers.sq.classifiers.GAPS": Tried("(1 / 32, 1 / 16, 1 / 8)", "(1 / 8, 1 / 4, 1 / 2)", ("perceptron",)),
    "lab.papers.sq.measure.FOR_TEST": Tried("Fraction(1, 20)", "Fraction(1, 5)", ("naive Bayes", "id3", "perceptron")),
    "lab.papers.sq.measure.FOR_LEAVES": Tried("Fraction(1, 10)", "Fraction(4, 10)", ("id3",)),
    "lab.papers.quantiles.quantile_line.UNEVEN": Tried("4.0", "16.0", ("quantiles",)),
    "lab.papers.quantiles.quantile_line.CLEAR": Tried("1.5", "6.0", ("quantiles",)),
    "lab.papers.quantiles.quantile_line.GROWTH": Tried("2", "8", ("quantiles",)),
    "lab.papers.halfspace.measure.FOR_TEST": Tried("Fraction(1, 20)", "Fraction(1, 5)", ("halfspaces",)),
    "lab.papers.halfspace.measure.TESTS": Tried("24", "96", ("halfspaces",)),
    "lab.papers.halfspace.measure.PER_DIMENSION": Tried("8", "32", ("halfspaces",)),
    "models.linear.strategies.hierarchies.TILTS": Tried(
        "(0.7, 1.0, 1.4)", "(0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)", ("trees", "matrices")
    ),
    "models.linear.strategies.hierarchies.WEIGHTS": Tried(
        "((1, 2), (1, 1), (2, 1))", "((1, 4), (1, 2), (1, 1), (3, 2), (2, 1), (4, 1), (8, 1), (16, 1))", ("trees",)
    ),
    "models.linear.strategies.hierarchies.MOST_VALUES": Tried("512", "2048", ("trees",)),
    "models.linear.strategies.hierarchies.BRANCHINGS": Tried(
        "(2, 4, 8, 16, 32)", "(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)", ("matrices",)
    ),
    "models.linear.strategies.hierarchies.DIVISIONS": Tried(
        "np.linspace(0.0, 0.95, 48)[:, None]", "np.linspace(0.0, 0.95, 192)[:, None]", ("matrices",)
    ),
    "models.linear.strategies.hierarchies.SURELY_WORTH": Tried("2**11", "2**13", ("wavelets",)),
    "models.linear.strategies.budget_allocation.NOT_WORTH": Tried("1e-3", "4e-3", ("matrices", "trees")),
    "models.linear.measure.LEAST_GAIN": Tried("0.0025", "0.01", ("divisions",)),
    "models.linear.strategies.hdmm.LEAST_FOR_CELLS": Tried("1 / 64", "1 / 16", ("matrices",)),
    "models.linear.strategies.hdmm.MOST_CELLS_BESIDE_OTHERS": Tried("2**9", "2**11", ("matrices beside others",)),
    "models.linear.strategies.hierarchies.SWEEPS": Tried("1", "6", ("trees", "wavelets")),
    "models.linear.strategies.residual_basis.ORDERS": Tried("2", "4", ("residual survey",)),
    "models.linear.strategies.residual_basis.MOST_CELLS": Tried("2**5", "2**15", ("residual survey",)),
    "models.linear.strategies.hdmm.FEW_CELLS": Tried("128", "512", ("matrices",)),
    "models.linear.strategies.hdmm.LARGEST": Tried("4.0", "16.0", ("matrices",)),
    "models.linear.strategies.hdmm.MOST_CELLS": Tried("2048", "8192", ("matrices of long lines",)),
    "models.linear.measure.HELPS": Tried("0.905", "0.974", ("plans",)),
    "models.linear.measure.HOT": Tried("1.0", "4.0", ("plans",)),
    "models.linear.measure.FAR": Tried("1.5", "6.0", ("plans",)),
    "planner.simulate.ROWS_PER_CELL": Tried("5", "20", ("plans",)),
    "planner.simulate.MOST_ROWS": Tried("1000", "4000", ("plans",)),
    "planner.simulate.MOST_SIMULATED": Tried("2**3", "2**15", ("plans",)),
    "planner.choose.ALIKE": Tried("1.005", "1.02", ("plans",)),
    "planner.choose.NEXT_TO_BEST": Tried("1", "4", ("plans",)),
    "planner.choose.MANY_CELLS": Tried("2**19", "2**21", ("large plans",)),
    "planner.choose.WORTH_A_LARGE_FILE": Tried("1.25", "2.0", ("large plans",)),
    "planner.choose.WORTH_IT": Tried("0.905", "0.974", ("plans",)),
    "planner.other_plans.HINTED": Tried("Fraction(1, 2 * 10**9)", "Fraction(2, 10**9)", ("plans",)),
    "planner.plan.NO_GAIN": Tried("0.905", "0.974", ("plans",)),
    "planner.plan.MUCH_MORE": Tried("2.0", "8.0", ("plans for an error",)),
    "planner.marginal_errors.PRICED": Tried("6", "24", ("errors by kind",)),
    "planner.marginal_errors.ASKED": Tried("1", "6", ("errors by kind",)),
    "planner.usefulness.CLOSE": Tried("1.15", "1.6", ("plans for an error",)),
    "planner.usefulness.TRIALS": Tried("2", "8", ("plans for an error",)),
    "planner.questions.MOST_PAIRS": Tried("3", "12", ("plans by name",)),
    "planner.questions.MOST_SAMPLED": Tried("16", "64", ("plans by name",)),
    "planner.forecast.MOST_OPTIMISED": Tried("2**3", "2**11", ("plans",)),
    "planner.forecast.MOST_COMBINED": Tried("2**3", "2**21", ("plans",)),
    "planner.forecast.MOST_KINDS": Tried("2", "512", ("plans",)),
    "planner.forecast.MOST_ANSWERED": Tried("2**8", "2**23", ("plans",)),
    "planner.forecast.MOST_QUERIES": Tried("2**5", "2**13", ("plans",)),
}
