"""A classifier in words: how often it is right on its own table, what it looks at, and how it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.domain import Axis
from sfumato.lab.papers.sq.classifiers import Tree
from sfumato.plain_text import printable

if TYPE_CHECKING:
    from sfumato.lab.papers.sq.content import Classifier

CONFIDENCE = 0.95
MOST_NAMED = 3  # attributes that are named as those that tell most
NAMES = {"naive-bayes": "naive Bayes", "id3": "a decision tree (ID3)", "perceptron": "a perceptron"}


def findings_of(content: Classifier) -> tuple[str, ...]:
    """What was learnt, a sentence each."""
    return (_quality(content), *(_rules(content) if isinstance(content.model, Tree) else (_telling(content),)))


def examples_of(content: Classifier) -> tuple[str, ...]:
    """SQL that it answers: rows by target, and by target and one attribute."""
    name, table = _quoted(content.target), _quoted(content.schema.dataset)
    if not content.tables and content.tested is None:
        return ()
    found = [f"SELECT {name}, COUNT(*) AS n FROM {table} GROUP BY {name}"]
    if content.tables:
        other = _quoted(min(content.axes, key=lambda axis: axis.size).name)
        found.append(f"SELECT {name}, {other}, COUNT(*) AS n FROM {table} GROUP BY {name}, {other}")
    return tuple(found)


def _quality(content: Classifier) -> str:
    what = f"{NAMES[content.learner]} tells {content.target} from {len(content.features):,} attributes"
    if content.tested is None or content.by_stratum is None:
        return f"{what}; how often it is right was not measured, for its attributes span too many cells; name fewer"
    strata = range(len(content.model.labels))
    right = content.right_in(strata, CONFIDENCE)
    if not np.isfinite(right.value):
        return f"{what}; there is too much noise to say how often it is right"
    common = int(content.by_stratum.sum(axis=0).argmax())
    always = content.share_of([(stratum, common) for stratum in strata], strata, CONFIDENCE)
    label = content.domain[content.target].label(common)
    return (
        f"{what} and is right for {_percent(right.value)} of the table's rows "
        f"({_percent(right.low)} to {_percent(right.high)}); saying {label} of everyone is for {_percent(always.value)}"
    )


def _telling(content: Classifier) -> str:
    spreads = content.model.spreads  # type: ignore[union-attr]
    first = sorted(range(len(spreads)), key=lambda place: -spreads[place])[:MOST_NAMED]
    return f"what moves its score most: {', '.join(content.features[place] for place in first)}"


def _rules(content: Classifier) -> list[str]:
    """Every leaf as a rule, in the order of the tree."""
    tree = content.model
    assert isinstance(tree, Tree)  # noqa: S101 (asked for where there is one)
    found: list[str] = []

    def walk(place: int, conditions: list[str]) -> None:
        node = tree.nodes[place]
        if node.feature < 0:
            found.append(_rule(content, tree.leaves.index(place), conditions))
            return
        low, high = condition(content.axes[node.feature], node.cut)
        walk(node.low, [*conditions, low])
        walk(node.high, [*conditions, high])

    walk(0, [])
    return found


def _rule(content: Classifier, leaf: int, conditions: list[str]) -> str:
    label = content.domain[content.target].label(int(content.model.labels[leaf]))
    told = ""
    if content.tested is not None:
        share = content.right_in([leaf], CONFIDENCE)
        if np.isfinite(share.value):
            told = f" (right for {_percent(share.value)}, {_percent(share.low)} to {_percent(share.high)})"
    where = " and ".join(conditions) or "always"
    return f"{where}: {content.target} is {label}{told}"


def condition(axis: Axis, cut: int) -> tuple[str, str]:
    """The two sides of a split, in words."""
    if not axis.ordered:
        label = "missing" if cut == axis.places else axis.label(cut)
        return f"{axis.name} is {label}", f"{axis.name} is not {label}"
    if cut >= axis.places:
        return f"{axis.name} is there", f"{axis.name} is missing"
    edge = axis.label(cut) if axis.kind == "date" else f"{axis.edges[cut]:.15g}"
    return f"{axis.name} < {edge}", f"{axis.name} >= {edge}" + (" or missing" if axis.missing else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.isascii() and printable(name) == name
    return name if plain else '"' + name.replace('"', '""') + '"'
