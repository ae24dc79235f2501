"""MLDP: query learning (Zhu, Xiong, Li, Zhou, Yu 2017), its figures 2 to 5 and its claims again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Study, Tick
from sfumato.lab.reproduce.mldp import claims, figures
from sfumato.lab.reproduce.mldp.ratings import figure_2b
from sfumato.lab.reproduce.mldp.tables import tables

TITLE = "MLDP: differentially private query learning, from data publishing to model publishing"


def study(entropy: Entropy, tick: Tick, *, quick: bool, data: Path | None = None) -> Study:
    """Every figure, and what does not hold. data: a folder with the real tables, where there is one."""
    found = tables(data)
    parts: tuple[tuple[str, Callable[[], Exhibit]], ...] = (
        ("figure 2", lambda: figures.figure_2(found, entropy, quick=quick)),
        ("similarities", lambda: figure_2b(entropy, quick=quick)),
        ("figure 3", lambda: figures.figure_3(found, entropy, quick=quick)),
        ("figure 4", lambda: figures.figure_4(found, entropy, quick=quick)),
        ("figure 5", lambda: figures.figure_5(found, entropy, quick=quick)),
        ("subsets", lambda: figures.subsets(entropy, quick=quick)),
        ("lemma 4.3", lambda: claims.lemma_4_3(entropy, quick=quick)),
        ("theorem 4.4", lambda: claims.theorem_4_4(entropy, quick=quick)),
    )
    exhibits = []
    for place, (name, part) in enumerate(parts):
        tick(name, place / len(parts))
        exhibits.append(part())
    return Study("mldp", TITLE, tuple(exhibits))
