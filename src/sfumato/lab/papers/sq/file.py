"""File format of a classifier: the measurements, one after the other, and the nodes of its tree.

measured  for each measurement: its noise and its number of answers. First the counts by target and each feature,
          then what else was learnt from, then the test, if there was one
answers   the noisy answers of all measurements
nodes     of a tree: the feature of each (-1: a leaf), its cut, the nodes below it, its label
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.lab.papers.sq.classifiers import GAPS, ODDS, Node, Tree, coordinates, vectors
from sfumato.measurement import Measurement
from sfumato.queries import Identity
from sfumato.releases.contents.content import Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.lab.papers.sq.content import Classifier, Learner

COLUMNS = {"measured": ["noise", "answers"], "answers": ["answer"], "nodes": ["feature", "cut", "low", "high", "label"]}
LARGEST = 2**56  # of an answer: sums of a few hundred of them stay exact
Parts = tuple[
    "Learner", str, tuple[str, ...], tuple[Measurement, ...], tuple[Measurement, ...], Tree | None, Measurement | None
]


@record
class ClassifierRecord:
    """Manifest of a classifier."""

    learner: str
    target: str
    features: list[str]
    tested: bool
    noises: list[NoiseRecord]


def written(content: Classifier) -> Written:
    """All that a file keeps."""
    tested = [] if content.tested is None else [content.tested]
    every = [*content.tables, *content.further, *tested]
    noises = list(dict.fromkeys(one.noise for one in every))
    nodes = () if content.tree is None else content.tree.nodes
    columns: dict[str, list[Any]] = {
        "measured": [[noises.index(one.noise) for one in every], [len(one.answers) for one in every]],
        "answers": [np.concatenate([one.answers for one in every])],
        "nodes": [[getattr(node, name) for node in nodes] for name in COLUMNS["nodes"]],
    }
    kept = {
        name: {column: np.asarray(values, dtype=np.int64) for column, values in zip(COLUMNS[name], each, strict=True)}
        for name, each in columns.items()
    }
    details: dict[str, Any] = {
        "learner": content.learner,
        "target": content.target,
        "features": list(content.features),
        "tested": content.tested is not None,
        "noises": [noise_as_json(noise) for noise in noises],
    }
    return Written("classifier", _statistics(), kept, {"details": details})


def check(manifest: Manifest, schema: Schema) -> None:
    """Refuse a manifest whose parts are not those of a classifier."""
    about = details_as(ClassifierRecord, manifest)
    if {name: member.columns for name, member in manifest.members.items()} != COLUMNS:
        raise refusal("its members are not those of a classifier")
    if manifest.statistics != _statistics():
        raise refusal("its statistics are not those of a classifier")
    names = [about.target, *about.features]
    if about.learner not in ("naive-bayes", "id3", "perceptron") or not about.features:
        raise refusal("it has a learner that this Sfumato does not know, or nothing to learn from")
    if any(name not in schema.domain for name in names) or len({*names}) < len(names):
        raise refusal("its target or features are not attributes of its schema, each once")


def parts(manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Parts:
    """Content of a file that nobody has vouched for."""
    about = details_as(ClassifierRecord, manifest)
    every = _measurements(about, member)
    domain, classes = schema.domain, schema.domain[about.target].size
    shapes = [classes * domain[name].size for name in about.features] if about.learner != "perceptron" else []
    if [len(one.answers) for one in every[: len(shapes)]] != shapes:
        raise refusal("its counts are not those of its target and features")
    ordered = tuple(domain[name].ordered for name in about.features)
    sizes = [domain[name].size for name in about.features]
    tree = _tree(member("nodes"), ordered, sizes, classes) if about.learner == "id3" else None
    if tree is None and len(member("nodes")["feature"]):
        raise refusal("it has nodes of a tree, and none was learnt")
    strata = len(tree.leaves) if tree else classes * ((len(GAPS) if not shapes else len(ODDS)) + 1)
    tested = every.pop() if about.tested and len(every) > len(shapes) else None
    if about.tested and (tested is None or len(tested.answers) != strata * classes):
        raise refusal("its test does not go with its classifier")
    further = every[len(shapes) :]
    width = vectors(classes) * (sum(coordinates(domain[name]).shape[1] for name in about.features) + 1)
    if about.learner == "perceptron" and any(len(one.answers) != width for one in further):
        raise refusal("its sums are not those of a perceptron over its features")
    if about.learner == "naive-bayes" and further:
        raise refusal("it has measurements that naive Bayes does not make")
    tables = tuple(every[: len(shapes)])
    return about.learner, about.target, tuple(about.features), tables, tuple(further), tree, tested  # type: ignore[return-value]


def _measurements(about: ClassifierRecord, member: Callable[[str], Columns]) -> list[Measurement]:
    listed, answers = member("measured"), member("answers")["answer"]
    sizes, noises = listed["answers"], listed["noise"]
    if (sizes < 1).any() or (noises < 0).any() or (noises >= len(about.noises)).any() or sizes.sum() != len(answers):
        raise refusal("its measurements do not go with their noises or answers")
    if len(answers) and (answers.min() < -LARGEST or answers.max() > LARGEST):
        raise refusal("it has answers that no table has")
    ends = np.cumsum(sizes).tolist()
    return [
        Measurement("count", Identity(size), answers[end - size : end], (about.noises[noise].noise,))
        for size, noise, end in zip(sizes.tolist(), noises.tolist(), ends, strict=True)
    ]


def _tree(columns: Columns, ordered: tuple[bool, ...], sizes: list[int], classes: int) -> Tree:
    rows: list[tuple[int, ...]] = list(zip(*(columns[name].tolist() for name in COLUMNS["nodes"]), strict=True))
    nodes = tuple(Node(*row) for row in rows)
    below = [place for node in nodes if node.feature >= 0 for place in (node.low, node.high)]
    later = all(min(node.low, node.high) > place for place, node in enumerate(nodes) if node.feature >= 0)
    if not nodes or sorted(below) != list(range(1, len(nodes))) or not later:
        raise refusal("its nodes do not make a tree")
    for node in nodes:
        inner = 0 <= node.feature < len(sizes) and 0 <= node.cut < sizes[node.feature] and node.label == 0
        leaf = node.feature == -1 and node.cut == node.low == node.high == 0 and 0 <= node.label < classes
        if not inner and not leaf:
            raise refusal("its tree has a node that looks at nothing in its schema")
    return Tree(nodes, ordered)


def _statistics() -> list[Statistic]:
    return [Statistic("count", "answers", "answer", None)]
