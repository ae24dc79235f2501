"""A classifier trained on synthetic rows, tried on real ones. `python benchmarks/classifier.py FOLDER`

FOLDER has adult.csv, a table of codes, and adult-domain.json, the number of values of each column; the last column is
foretold from all others. Two thirds of the rows are released (epsilon 1, delta 1e-9) and synthetic rows are drawn from
the release; the last third is for trying. scikit-learn is needed, which the project itself does without.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from sfumato.kernel.budget import Cost
from sfumato.kernel.counts import Rows, short, words_of
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models.margins.content import Margins
from sfumato.models.margins.measure import MECHANISM
from sfumato.releases.rows.coding import draw_blocks
from sfumato.releases.rows.model import RandomNumbers
from sfumato.schema import Schema

try:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
except ImportError:
    sys.exit("this benchmark needs scikit-learn, which is no part of the project; pip install scikit-learn")

NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--rows", type=int, default=48_000)
    options.add_argument("--runs", type=int, default=3)
    asked = options.parse_args()
    domain = json.loads((asked.folder / "adult-domain.json").read_text())
    table = np.loadtxt(asked.folder / "adult.csv", delimiter=",", skiprows=1, dtype=np.int64)
    table = table[np.random.default_rng(1).permutation(len(table))]
    released, held_out = table[: 2 * len(table) // 3], table[2 * len(table) // 3 :]
    print(f"{len(table):,} rows, {len(domain)} columns, released {len(released):,}, tried on {len(held_out):,}")
    print(f"{'AUC of':34s} boosted trees   logistic regression")
    report("real rows", released, held_out, domain)
    for run in range(asked.runs):
        began = time.process_time()
        content = release(released, domain)
        ended = time.process_time()
        blocks = draw_blocks(content.row_model, asked.rows, RandomNumbers())
        rows = np.concatenate([np.stack([block.codes[name] for name in domain], axis=1) for block in blocks])
        report(f"{len(rows):,} synthetic rows, run {run + 1}", rows, held_out, domain)
        print(f"    release {ended - began:.1f} s, drawing {time.process_time() - ended:.1f} s of CPU")


def release(rows: np.ndarray, domain: dict[str, int]) -> Margins:
    attributes = {
        name: {"type": "integer", "lower": 0, "upper": size - 1}
        if name in NUMBERS
        else {"type": "category", "values": [str(code) for code in range(size)]}
        for name, size in domain.items()
    }
    schema, words = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes}), []
    for run in words_of(schema.domain):
        sizes = [schema.domain.shape[place] for place in run]
        word = np.ravel_multi_index([rows[:, place] for place in run], sizes)
        words.append(short(word, int(np.prod(sizes))))
    budget = Cost.stated("1", "1e-9").budget
    curator = curator_of(schema, Rows(schema.domain, tuple(words), {}), budget, SystemEntropy())
    return MECHANISM.run(curator, schema, budget, None)


def report(words: str, rows: np.ndarray, held_out: np.ndarray, domain: dict[str, int]) -> None:
    every = [list(range(size)) for size in list(domain.values())[:-1]]
    trees = HistGradientBoostingClassifier(random_state=0)
    line = make_pipeline(OneHotEncoder(categories=every), LogisticRegression(max_iter=300))
    found = []
    for model in (trees, line):
        model.fit(rows[:, :-1], rows[:, -1])
        found.append(roc_auc_score(held_out[:, -1], model.predict_proba(held_out[:, :-1])[:, 1]))
    print(f"{words:34s} {found[0]:.4f}          {found[1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
