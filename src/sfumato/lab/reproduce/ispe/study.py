"""ISPE: adaptive release and query estimation (Xiao, Xiong, Yuan, TR-2011-005), its example and section 5 again."""

from __future__ import annotations

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.reproduce.exhibits import Study, Tick
from sfumato.lab.reproduce.ispe.comparison import comparison
from sfumato.lab.reproduce.ispe.example import worked_example
from sfumato.lab.reproduce.ispe.hierarchy import hierarchy
from sfumato.lab.reproduce.ispe.smoothing import smoothing
from sfumato.lab.reproduce.ispe.tuning import tuning


def study(entropy: Entropy, tick: Tick, *, quick: bool) -> Study:
    """The worked example and figures 7 to 29."""
    tick("worked example", 0.0)
    exhibits = [
        worked_example(entropy, quick=quick),
        smoothing(entropy),
        *tuning(entropy, tick, quick=quick),
        *comparison(entropy, tick, quick=quick),
        hierarchy(entropy, tick, quick=quick),
    ]
    return Study("ispe", "ISPE: adaptive differentially private data release and query estimation", tuple(exhibits))
