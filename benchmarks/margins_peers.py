"""A synthetic table from SmartNoise's MST or AIM, for margins.py to score. Not part of the project, nor needed by it.

    python margins_peers.py {mst,aim} TABLE.csv TABLE-domain.json OUT.csv EPSILON DELTA

Run with the Python of an environment of their own, which margins.py is given by --peers-python. Every attribute has the
values 0 to size - 1 of the domain, not those that happen to be in the table, so that nothing is learned without noise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.transform.label import LabelTransformer
from snsynth.transform.table import TableTransformer

AIM = {"degree": 3, "max_cells": 10_000, "max_model_size": 4, "rounds": 50}  # its defaults take hours


def main() -> None:
    name, table, domain, out, epsilon, delta = sys.argv[1:]
    sizes = json.loads(Path(domain).read_text())
    rows = pd.read_csv(table)[list(sizes)]
    known = []
    for size in sizes.values():
        known.append(LabelTransformer(nullable=False))
        known[-1].fit(list(range(size)))
    stated = {"epsilon": float(epsilon), "delta": float(delta)}
    peer = MSTSynthesizer(**stated) if name == "mst" else AIMSynthesizer(**stated, **AIM)
    peer.fit(rows, transformer=TableTransformer(known))
    drawn = pd.DataFrame(np.asarray(peer.sample(len(rows))), columns=list(sizes))
    drawn.to_csv(out, index=False)


if __name__ == "__main__":
    main()
