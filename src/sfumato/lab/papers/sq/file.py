"""File format of a classifier: the measurements, one after the other, and the nodes of its tree.

measured  for each measurement: its noise and its number of answers. First the counts by target and each feature,
          then what else was learnt from, then the test, if there was one
answers   the noisy answers of all measurements
nodes     of a tree: the feature of each (-1: a leaf), its cut, the nodes below it, its label
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sfumato.domain import Axis
from sfumato.lab.papers.sq.classifiers import Node, Tree
from sfumato.measurement import Measurement
from sfumato.queries import Identity
from sfumato.releases.file.manifest import Statistic
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, record, refusal

COLUMNS = {"measured": ["noise", "answers"], "answers": ["answer"], "nodes": ["feature", "cut", "low", "high", "label"]}
LARGEST = 2**56  # of an answer: sums of a few hundred of them stay exact
STATISTICS = [Statistic("count", "answers", "answer", None)]


@record
class ClassifierRecord:
    """Manifest of a classifier."""

    learner: str
    target: str
    features: list[str]
    tested: bool
    noises: list[NoiseRecord]


def measurements(about: ClassifierRecord, member: Callable[[str], Columns]) -> list[Measurement]:
    """Decode the measurements of a file, in order."""
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


def tree_of(columns: Columns, axes: Sequence[Axis], classes: int) -> Tree:
    """Decode a decision tree from its columns."""
    rows: list[tuple[int, ...]] = list(zip(*(columns[name].tolist() for name in COLUMNS["nodes"]), strict=True))
    nodes = tuple(Node(*row) for row in rows)
    below = [place for node in nodes if node.feature >= 0 for place in (node.low, node.high)]
    later = all(min(node.low, node.high) > place for place, node in enumerate(nodes) if node.feature >= 0)
    if not nodes or sorted(below) != list(range(1, len(nodes))) or not later:
        raise refusal("its nodes do not make a tree")
    for node in nodes:
        inner = 0 <= node.feature < len(axes) and 0 <= node.cut < axes[node.feature].size and node.label == 0
        leaf = node.feature == -1 and node.cut == node.low == node.high == 0 and 0 <= node.label < classes
        if not inner and not leaf:
            raise refusal("its tree has a node that looks at nothing in its schema")
    return Tree(nodes, tuple(axis.ordered for axis in axes))
