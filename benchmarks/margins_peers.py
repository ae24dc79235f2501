"""Rows from the models of SmartNoise's MST or AIM, for margins.py to score. Not part of the project, nor needed by it.

    python margins_peers.py {mst,aim} TABLE.csv TABLE-domain.json OUT.npy EPSILON DELTA

Run with the Python of an environment of their own, which margins.py is given by --peers-python. Every attribute has the
values 0 to size - 1 of the domain, not those that happen to be in the table, so that nothing is learned without noise.

A million independent rows are drawn, so that what is scored is the model and hardly the draw. The rows that `sample` of
smartnoise-synth 1.0.8 gives are not used: with mbi 1.1.0 they are rounded in the order of the rows, and attributes that
hang on the same third one come out alike (mean L1 of 3-way margins 0.745 on a survey that independent margins have at
0.259). The mechanisms themselves are as they come; in that version of MST the count of rare values taken together is
scaled down and what it is compared with is not, which costs it some of the rare values.
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

AIM = {"degree": 2, "max_cells": 10_000, "max_model_size": 4, "rounds": 40}  # its own settings take hours
DRAWN = 1_000_000


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
    drawn = peer.synthesizer.synthetic_data(rows=DRAWN, method="sample")
    if name == "mst":
        drawn = peer.undo_compress_fn(drawn)
    np.save(out, drawn.df[[f"col{place}" for place in range(len(sizes))]].to_numpy(np.int32))


if __name__ == "__main__":
    main()
