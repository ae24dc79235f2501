"""The papers that can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Study, Tick
from sfumato.lab.reproduce.ispe.study import study as ispe
from sfumato.lab.reproduce.mldp.study import study as mldp
from sfumato.lab.reproduce.survey.study import study as survey
from sfumato.lab.reproduce.tr_2010_003.study import study as tr_2010_003
from sfumato.lab.reproduce.wd.study import study as wd


class Reproduction(Protocol):
    """Runs the experiments of one paper again."""

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
