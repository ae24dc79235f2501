"""Studies by name: the papers that can be reproduced, and the exhibits of each.

ispe: adaptive release and query estimation (Xiao, Xiong, Yuan, TR-2011-005), its example and section 5.
mldp: query learning (Zhu, Xiong, Li, Zhou, Yu 2017), its figures 2 to 5 and its claims.
survey: Dwork's survey (TAMC 2008), the promises of its sections beside what their mechanisms do.
tr-2010-003: cell-wise release for distributive queries (Xiao, Xiong, Yuan 2010), its section 8.
wd: workload division (Li et al.), in wd.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Study, Tick
from sfumato.lab.reproduce.ispe.comparison import comparison, hierarchy
from sfumato.lab.reproduce.ispe.posterior import worked_example
from sfumato.lab.reproduce.ispe.release import smoothing, tuning
from sfumato.lab.reproduce.mldp import figures
from sfumato.lab.reproduce.survey import learning, publishing
from sfumato.lab.reproduce.tr_2010_003 import intervals
from sfumato.lab.reproduce.tr_2010_003.intervals import ALPHA, DELTA, ERROR
from sfumato.lab.reproduce.tr_2010_003.parity_and_largest import largest_exhibit, parity_exhibit
from sfumato.lab.reproduce.wd import study as wd
from sfumato.planner.usefulness import every_query_error, paper_rows


def ispe(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """Study of ISPE: the worked example and figures 7 to 29."""
    tick("worked example", 0.0)
    exhibits = [
        worked_example(entropy, quick=quick),
        smoothing(entropy),
        *tuning(entropy, tick, quick=quick),
        *comparison(entropy, tick, quick=quick),
        hierarchy(entropy, tick, quick=quick),
    ]
    return Study("ispe", "ISPE: adaptive differentially private data release and query estimation", tuple(exhibits))


def _study(name: str, title: str, tick: Tick, parts: Mapping[str, Callable[[], Exhibit]]) -> Study:
    """Study of a paper: compute its exhibits one after the other, reporting progress."""
    exhibits = []
    for place, (what, part) in enumerate(parts.items()):
        tick(what, place / len(parts))
        exhibits.append(part())
    return Study(name, title, tuple(exhibits))


def mldp(entropy: Entropy, tick: Tick, *, quick: bool, data: Path | None = None) -> Study:
    """Study of every figure of MLDP, and of its claims that fail. data: a folder with the real tables, if any."""
    found = figures.tables(data)
    parts = {
        "figure 2": lambda: figures.figure_2(found, entropy, quick=quick),
        "similarities": lambda: figures.figure_2b(entropy, quick=quick),
        "figure 3": lambda: figures.figure_3(found, entropy, quick=quick),
        "figure 4": lambda: figures.figure_4(found, entropy, quick=quick),
        "figure 5": lambda: figures.figure_5(found, entropy, quick=quick),
        "subsets": lambda: figures.subsets(entropy, quick=quick),
        "lemma 4.3": lambda: figures.lemma_4_3(entropy, quick=quick),
        "theorem 4.4": lambda: figures.theorem_4_4(entropy, quick=quick),
    }
    title = "MLDP: differentially private query learning, from data publishing to model publishing"
    return _study("mldp", title, tick, parts)


def survey(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """Study of Dwork's survey: inference (4.1), contingency tables (4.2), halfspaces (4.3), learning (5.1 to 5.3)."""
    parts = {
        "data inference": lambda: publishing.inference_exhibit(entropy, quick=quick),
        "data inference, rows needed": publishing.sample_exhibit,
        "contingency tables": lambda: publishing.bound_exhibit(entropy, quick=quick),
        "contingency tables, large k": lambda: publishing.raise_exhibit(entropy, quick=quick),
        "halfspaces, the theorem": publishing.theorem_exhibit,
        "halfspaces": lambda: publishing.halfspace_exhibit(entropy, quick=quick),
        "statistical queries": lambda: learning.oracle_exhibit(entropy, quick=quick),
        "learners": lambda: learning.learners_exhibit(entropy, quick=quick),
        "a rule of a class": lambda: learning.pac_exhibit(entropy, quick=quick),
        "small tables": learning.tables_exhibit,
        "a synthetic table": lambda: learning.error_exhibit(entropy, quick=quick),
    }
    return _study("survey", "Survey: differential privacy, a survey of results", tick, parts)


def tr_2010_003(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """Study of TR-2010-003: every table and figure of section 8, and Table 1."""
    parts = {
        "intervals": lambda: intervals.one_dimension(entropy),
        "Table 2": lambda: intervals.table_2(entropy),
        "rectangles": lambda: intervals.two_dimensions(entropy, quick=quick),
        "bounds": usefulness,
        "Blum, Ligett and Roth": lambda: intervals.table_1(entropy, quick=quick),
        "parity": lambda: parity_exhibit(entropy, quick=quick),
        "the largest value": lambda: largest_exhibit(quick=quick),
    }
    return _study("tr-2010-003", "TR-2010-003: non-interactive release for distributive queries", tick, parts)


def usefulness() -> Exhibit:
    """Exhibit: rows that theorem 5.2 requires, and rows that suffice."""
    rows = []
    for cells, alpha, error, printed in ((100, ALPHA, ERROR, "7.6e+05"), (8000, ALPHA, Fraction(1, 100), "1.92e+08")):
        promised = paper_rows(cells, alpha, float(error), 1 - DELTA)
        needed = every_query_error(cells, alpha, 1 - DELTA) / float(error)
        rows.append((f"{cells:,}", f"{float(error):g}", printed, f"{promised:.3g}", f"{needed:.3g}"))
    return Exhibit(
        "Theorem 5.2 as used in 8.1.1 and 8.1.2",
        "Rows needed for every query to be within the error, with probability 0.95",
        "The paper's bound reproduces. The last column is exact: the noise is known, so the worst union of cells "
        "can be worked out instead of adding up a bound for every cell. (Section 8.1.2 counts 80 ages where its "
        "data has 79.)",
        ("cells", "error", "paper", "its formula, again", "exact"),
        tuple(rows),
        left=(),
    )


class Reproduction(Protocol):
    """Function that repeats the experiments of one paper."""

    def __call__(self, entropy: Entropy, tick: Tick, *, quick: bool) -> Study: ...


PAPERS: dict[str, Reproduction] = {"tr-2010-003": tr_2010_003, "ispe": ispe, "mldp": mldp, "survey": survey, "wd": wd}
WITH_DATA = {"mldp": mldp}  # whose real tables may lie in a folder


def reproduce(
    names: Sequence[str], entropy: Entropy, tick: Tick, *, quick: bool, data: Path | None = None
) -> list[Study]:
    """The studies of the named papers, all of them where none is named. data: a folder with tables of the papers."""
    chosen = list(names) or list(PAPERS)
    for name in chosen:
        if name not in PAPERS:
            raise QueryError(f"no paper {name!r} to reproduce; there are {', '.join(PAPERS)}")
    studies = []
    for place, name in enumerate(chosen):

        def onward(what: str, share: float, place: int = place, name: str = name) -> None:
            tick(f"{name}, {what}", (place + share) / len(chosen))

        if data is not None and name in WITH_DATA:
            studies.append(WITH_DATA[name](entropy, onward, quick=quick, data=data))
        else:
            studies.append(PAPERS[name](entropy, onward, quick=quick))
    return studies
