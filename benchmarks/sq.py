"""Classifiers by statistical queries beside those trained on synthetic rows. `python benchmarks/sq.py [FOLDER]`

Two thirds of the rows of a table are released, the last third is for trying: the share of rows labelled rightly. Beside
each learner the same without noise (epsilon 10^5), and naive Bayes and boosted trees (where scikit-learn is there) on
rows drawn from a release of `margins` at the same epsilon. FOLDER: adult.csv, a table of codes, and adult-domain.json;
without it the synthetic tables alone. No constant was chosen on Adult.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Rows, short, words_of
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import find_mechanism
from sfumato.releases.rows.coding import draw_blocks
from sfumato.releases.rows.model import RandomNumbers
from sfumato.schema import Schema

NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
FEW = ("age", "education-num", "marital-status", "sex")  # a perceptron looks at every cell
LEARNERS = ("naive-bayes", "id3", "perceptron")
NO_NOISE = 10**5


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("--runs", type=int, default=3)
    asked = options.parse_args()
    for name, (table, sizes, ordered) in tables(asked.folder).items():
        rows = table[np.random.default_rng(1).permutation(len(table))]
        part = 2 * len(rows) // 3
        common = np.bincount(rows[:, -1]).max() / len(rows)
        print(f"\n{name}: {len(rows):,} rows, {len(sizes)} attributes; the commonest label is right for {common:.3f}")
        print(f"{'':34s} epsilon 0.1      1     10  no noise")
        for learner in LEARNERS:
            found = [tried(learner, rows[:part], rows[part:], sizes, ordered, e, asked.runs) for e in EPSILONS]
            print(f"{learner:34s}" + "".join(f"{each:9.3f}" for each in found), flush=True)
        for words, score in (
            ("naive Bayes on rows of margins", by_naive_bayes),
            ("boosted trees on rows of margins", by_trees),
        ):
            found = []
            for epsilon in EPSILONS[:-1]:
                drawn = [synthetic(rows[:part], sizes, ordered, epsilon) for _ in range(asked.runs)]
                found.append(np.mean([score(one, rows[part:], sizes, ordered) for one in drawn]))
            found.append(score(rows[:part], rows[part:], sizes, ordered))
            print(f"{words:34s}" + "".join(f"{each:9.3f}" for each in found), flush=True)


EPSILONS = ("0.1", "1", "10", NO_NOISE)
Sizes = dict[str, int]


def tables(folder: Path | None) -> dict[str, tuple[np.ndarray, Sizes, tuple[str, ...]]]:
    """Rows of codes, the label last; how many values each attribute has; which have an order."""
    rng, found = np.random.default_rng(7), {}
    x = rng.integers(0, 20, (30_000, 4))
    sizes = {**{f"x{n}": 20 for n in range(4)}, "y": 2}
    names = tuple(f"x{n}" for n in range(4))
    line = (x[:, 0] + x[:, 1] - x[:, 2] + rng.normal(0, 3, len(x)) > 10).astype(int)
    found["a noisy halfspace"] = np.column_stack([x, line]), sizes, names
    box = (((x[:, 0] > 12) & (x[:, 1] < 10)) | (rng.random(len(x)) < 0.05)).astype(int)
    found["a box"] = np.column_stack([x, box]), sizes, names
    kinds = rng.integers(0, 3, 30_000)
    alike = np.column_stack([(kinds + (rng.random(30_000) < 0.5) * rng.integers(0, 3, 30_000)) % 3 for _ in range(8)])
    found["three clusters of categories"] = (
        np.column_stack([alike, kinds]),
        {f"c{n}": 3 for n in range(8)} | {"y": 3},
        (),
    )
    if folder is not None:
        listed = json.loads((folder / "adult-domain.json").read_text())
        found["adult"] = np.loadtxt(folder / "adult.csv", delimiter=",", skiprows=1, dtype=np.int64), listed, NUMBERS
    return found


def schema_of(sizes: Sizes, ordered: tuple[str, ...]) -> Schema:
    attributes = {
        name: {"type": "integer", "lower": 0, "upper": size - 1}
        if name in ordered
        else {"type": "category", "values": [str(code) for code in range(size)]}
        for name, size in sizes.items()
    }
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def made(mechanism: str, rows: np.ndarray, schema: Schema, epsilon: object, options: dict[str, object]) -> object:
    words = []
    for run in words_of(schema.domain):
        sizes = [schema.domain.shape[place] for place in run]
        words.append(short(np.ravel_multi_index([rows[:, place] for place in run], sizes), int(np.prod(sizes))))
    budget = Budget.pure(epsilon)
    curator = curator_of(schema, Rows(schema.domain, tuple(words), {}), budget, SystemEntropy())
    return find_mechanism(mechanism).with_options(options).run(curator, schema, budget, None)


def learnt(learner: str, rows: np.ndarray, sizes: Sizes, ordered: tuple[str, ...], epsilon: object) -> object:
    told: dict[str, object] = {"learner": learner}
    if learner == "perceptron" and len(sizes) > 10:
        told["features"] = FEW
    return made("sq", rows, schema_of(sizes, ordered), epsilon, told)


def right(model: object, rows: np.ndarray, sizes: Sizes) -> float:
    codes = [rows[:, list(sizes).index(name)] for name in model.features]
    return float((model.model.labels[model.model.strata(codes)] == rows[:, -1]).mean())


def tried(
    learner: str, rows: np.ndarray, held: np.ndarray, sizes: Sizes, ordered: tuple[str, ...], epsilon: object, runs: int
) -> float:
    runs = 1 if epsilon == NO_NOISE else runs
    return float(np.mean([right(learnt(learner, rows, sizes, ordered, epsilon), held, sizes) for _ in range(runs)]))


def synthetic(rows: np.ndarray, sizes: Sizes, ordered: tuple[str, ...], epsilon: object) -> np.ndarray:
    content = made("margins", rows, schema_of(sizes, ordered), epsilon, {})
    blocks = draw_blocks(content.row_model, len(rows), RandomNumbers())
    return np.concatenate([np.stack([block.codes[name] for name in sizes], axis=1) for block in blocks])


def by_naive_bayes(rows: np.ndarray, held: np.ndarray, sizes: Sizes, ordered: tuple[str, ...]) -> float:
    return right(learnt("naive-bayes", rows, sizes, ordered, NO_NOISE), held, sizes)


def by_trees(rows: np.ndarray, held: np.ndarray, sizes: Sizes, ordered: tuple[str, ...]) -> float:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        return float("nan")
    model = HistGradientBoostingClassifier(random_state=0).fit(rows[:, :-1], rows[:, -1])
    return float((model.predict(held[:, :-1]) == held[:, -1]).mean())


if __name__ == "__main__":
    main()
