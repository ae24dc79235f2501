"""Dwork's survey (TAMC 2008): what its sections promise, beside what their mechanisms do."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Exhibit, Study, Tick
from sfumato.lab.reproduce.survey.blr import error_exhibit, tables_exhibit
from sfumato.lab.reproduce.survey.contingency import bound_exhibit, raise_exhibit
from sfumato.lab.reproduce.survey.data_inference import inference_exhibit, sample_exhibit
from sfumato.lab.reproduce.survey.halfspace import halfspace_exhibit, theorem_exhibit
from sfumato.lab.reproduce.survey.pac import pac_exhibit
from sfumato.lab.reproduce.survey.sq import learners_exhibit, oracle_exhibit


def study(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """Data inference (4.1), contingency tables (4.2), halfspaces (4.3), learners (5.1, 5.2), synthetic tables (5.3)."""
    parts: tuple[tuple[str, Callable[[], Exhibit]], ...] = (
        ("data inference", lambda: inference_exhibit(entropy, quick=quick)),
        ("data inference, rows needed", sample_exhibit),
        ("contingency tables", lambda: bound_exhibit(entropy, quick=quick)),
        ("contingency tables, large k", lambda: raise_exhibit(entropy, quick=quick)),
        ("halfspaces, the theorem", theorem_exhibit),
        ("halfspaces", lambda: halfspace_exhibit(entropy, quick=quick)),
        ("statistical queries", lambda: oracle_exhibit(entropy, quick=quick)),
        ("learners", lambda: learners_exhibit(entropy, quick=quick)),
        ("a rule of a class", lambda: pac_exhibit(entropy, quick=quick)),
        ("small tables", tables_exhibit),
        ("a synthetic table", lambda: error_exhibit(entropy, quick=quick)),
    )
    exhibits = []
    for place, (name, part) in enumerate(parts):
        tick(name, place / len(parts))
        exhibits.append(part())
    return Study("survey", "Survey: differential privacy, a survey of results", tuple(exhibits))
