"""WD: workload division (Li et al.), its worked example and figures 3 to 6, with true identity added."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Picture, Study, Tick, digits
from sfumato.lab.reproduce.plot import Line, Plot, draw
from sfumato.lab.reproduce.released import Recipe, released
from sfumato.lab.reproduce.synthetic import WD_TABLE_1, Described, like
from sfumato.lab.reproduce.wd import example
from sfumato.lab.reproduce.wd import hot_workloads as hot
from sfumato.models.partition.dawa import dawa
from sfumato.models.weights.mwem import mwem
from sfumato.queries import Workload

FIGURES = {3: 0.9, 4: 0.6, 5: 0.2}  # the chance that the hot cell is queried, by figure
SOME = hot.EPSILONS[::2]  # where mechanisms whose error depends on the data are simulated
WAYS = ("Laplace", "WD's algorithm", "division", "true identity")
SIMULATED: list[tuple[Recipe, Described]] = [
    (mechanism, data) for mechanism in (dawa, mwem) for data in (WD_TABLE_1[0], WD_TABLE_1[2])
]


def study(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """The worked example and figures 3 to 6."""
    tick("worked example", 0.0)
    exhibits = [_example(), _error_by_epsilon(entropy, tick, quick=quick)]
    tick("figure 6", 0.9)
    return Study("wd", "WD: a workload division algorithm for linear computations", (*exhibits, _gain_by_chance(quick)))


def _example() -> Exhibit:
    two, parts = example.best_two_parts()
    answers = " ".join(str(n) for n in (example.W @ example.X).tolist())
    rows = (
        ("answers W x", " ".join(str(n) for n in example.PRINTED_ANSWERS.tolist()), answers),
        ("error undivided", "4", digits(example.error((tuple(range(8)),), (1.0,)))),
        (
            "error of the printed parts, budgets 0.58 and 0.42",
            f"{example.PRINTED_ERROR}",
            digits(example.error(example.PRINTED_PARTS, example.PRINTED_SHARES)),
        ),
        ("best two parts, budgets that add up", "", digits(two)),
        ("our division, budgets by cell", "", digits(example.our_division())),
        ("true identity", "", digits(example.cell_noise())),
    )
    named = " and ".join("{" + ", ".join(str(q + 1) for q in part) + "}" for part in parts)
    return Exhibit(
        "Figures 1 and 2, section 4",
        "The worked example at epsilon 1",
        "The printed product is not W x, and the printed error does not follow from the printed parts: they are "
        f"worse than no division. The best two parts are the queries {named}. Budgets of parts need to add up only "
        "in cells that both parts touch, which gains more; noise on the cells gains most.",
        ("", "paper", "ours"),
        rows,
        left=(0, 1, 2),
    )


def _errors(workload: Workload, epsilons: Sequence[float]) -> dict[float, tuple[float, ...]]:
    """For every epsilon the error of each way."""
    scales = (hot.laplace_scales(workload), hot.paper_scales(workload), hot.division_scales(workload))
    return {e: (*(hot.mean_noise(s, e) for s in scales), hot.identity_error(workload, e)) for e in epsilons}


def _error_by_epsilon(entropy: Entropy, tick: Tick, *, quick: bool) -> Exhibit:
    rows, pictures = [], []
    for done, (figure, chance) in enumerate(FIGURES.items()):
        tick(f"figure {figure}", 0.1 + 0.25 * done)
        workload = hot.hot_workload(chance)
        exact = _errors(workload, hot.EPSILONS)
        found = {way: {e: exact[e][place] for e in hot.EPSILONS} for place, way in enumerate(WAYS)}
        for mechanism, data in () if quick else SIMULATED:
            errors = [_simulated(mechanism, data, workload, epsilon, entropy) for epsilon in SOME]
            found[f"{mechanism.__name__}, {data.name}-like"] = dict(zip(SOME, errors, strict=True))
        lines = [Line(way, list(errors), list(errors.values()), dashed="WD" in way) for way, errors in found.items()]
        title = f"Figure {figure}: the hot cell is queried with chance {chance:g}"
        plot = Plot(title, "epsilon", "mean absolute error per query", lines, log_x=True, log_y=True)
        pictures.append(Picture(f"figure-{figure}", draw(plot)))
        for way, by_epsilon in found.items():
            figures = (digits(by_epsilon[e]) if e in by_epsilon else "" for e in hot.EPSILONS)
            rows.append((f"{chance:g}", way, *figures))
    return Exhibit(
        "Figures 3 to 5",
        "Mean absolute error per query: 2,000 queries over 4,096 cells, one of them hot",
        "The paper shows curves only: its division below its Identity, and MWEM and DAWA above it on large tables. "
        "What it calls Identity is Laplace noise on the queries. WD's algorithm stands here with its hot cell taken "
        "from the workload, line 8 mended and the halved budgets reckoned with. True identity, noise on the cells, "
        "has an error 30 to 600 times smaller than any of these, which the paper does not show. The first four "
        "lines of each p are exact expectations and do not depend on the data; the others are one run each, in the "
        "full form only. Our DAWA has far less error than Laplace noise on the queries where the paper's has more; "
        "MWEM has more on large tables, as the paper says.",
        ("p", "", *(f"epsilon {e:g}" for e in hot.EPSILONS)),
        tuple(rows),
        left=(0, 1),
        pictures=tuple(pictures),
    )


def _simulated(mechanism: Recipe, data: Described, workload: Workload, epsilon: float, entropy: Entropy) -> float:
    counts = like(data)
    published = released(mechanism, counts, Fraction(str(epsilon)), entropy, workload)
    return float(np.abs(workload.queries @ published - workload.queries @ counts).mean())


def _gain_by_chance(quick: bool) -> Exhibit:
    chances = (0.2, 0.6, 0.9) if quick else hot.CHANCES
    found = [_errors(hot.hot_workload(chance), [1.0])[1.0] for chance in chances]
    gains = [[1 - errors[place] / errors[0] for errors in found] for place in (1, 2)]
    rows = tuple(
        (f"{chance:g}", {0.2: "over 40 %"}.get(chance, ""), f"{a:.0%}", f"{b:.0%}", f"{e[0] / e[3]:,.0f}")
        for chance, a, b, e in zip(chances, *gains, found, strict=True)
    )
    plot = Plot(
        "Figure 6: how much less error than Laplace noise on the queries",
        "chance that the hot cell is queried",
        "share of the error that is saved",
        [Line("WD's algorithm", chances, gains[0], dashed=True), Line("division", chances, gains[1])],
    )
    return Exhibit(
        "Figure 6",
        "The gain from dividing, by how hot the cell is",
        "The gain is real when one cell is hot and most queries do not touch it, and vanishes as all of them do: "
        "the shape of the paper's figure. The last column says how many times less error true identity has, which "
        "no division comes near on these workloads.",
        ("p", "paper", "WD's algorithm", "our division", "identity, times better"),
        rows,
        left=(),
        pictures=(Picture("figure-6", draw(plot)),),
    )
