"""Release of a classifier: noisy counts, from which the model is made again whenever a file is opened.

A prediction comes with the share of the table's rows that have that label, among those which the model cannot tell from
the row in question (a stratum: a leaf of the tree, or a label and how clearly it won). These shares were measured with
noise of their own after the model was made, so they say how good it is without leaning on its assumptions.

The noisy counts also answer queries: rows by the target, by one of the features, or by both. Every table has the
target, so counts by the target alone are averaged over all tables, weighted by their noise. The findings describe the
accuracy on its own table, the attributes that matter most, and the rules, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sfumato.answers.evaluate import CountedNoise, Sum, View
from sfumato.answers.fieller import Term
from sfumato.answers.question import Gathered, Groups, gather
from sfumato.arrays import Codes, Floats, Whole
from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.sq.classifiers import Additive, Tree, learnt, naive_bayes, posterior
from sfumato.measurement import Measurement, Noise
from sfumato.plain_text import printable
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.members import Columns
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.answers.evaluate import View
    from sfumato.answers.fieller import Interval
    from sfumato.answers.question import Kinds, Manner
    from sfumato.answers.results import Result
    from sfumato.sql import Select


CONFIDENCE = 0.95
MOST_NAMED = 3  # attributes that are named as those that tell most
NAMES = {"naive-bayes": "naive Bayes", "id3": "a decision tree (ID3)", "perceptron": "a perceptron"}


def findings_of(content: Classifier) -> tuple[str, ...]:
    """Findings of the classifier, a sentence each."""
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


Learner = Literal["naive-bayes", "id3", "perceptron"]


@dataclass(frozen=True, eq=False)
class Classifier(ContentOfCells):
    """target: what is predicted, from the features.

    tables: the counts by class and one feature, in the order of the features; none for a perceptron. further: what else
    was measured to learn from: deeper levels of a tree and its leaves, or sums of pulls, round by round. tree: of ID3.
    tested: the rows of each stratum and class; None where there are too many cells to put rows into strata.
    """

    answers_counts: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    learner: Learner
    target: str
    features: tuple[str, ...]
    tables: tuple[Measurement, ...]
    further: tuple[Measurement, ...] = ()
    tree: Tree | None = None
    tested: Measurement | None = None

    @property
    def axes(self) -> list[Axis]:
        return [self.domain[name] for name in self.features]

    @property
    def classes(self) -> int:
        return self.domain[self.target].size

    @cached_property
    def model(self) -> Additive | Tree:
        """The classifier, which sorts rows into strata."""
        if self.tree is not None:
            return self.tree
        if self.learner == "perceptron":
            return learnt([each.answers for each in self.further], self.axes, self.classes)
        return naive_bayes(*self._counted)

    @property
    def _counted(self) -> tuple[list[Floats], list[float]]:
        """The tables by value and class, and the standard errors of their cells."""
        laid_out = [self.by_value(*pair) for pair in zip(self.features, self.tables, strict=True)]
        return laid_out, [float(np.sqrt(each.noise.continuous_variance)) for each in self.tables]

    def by_value(self, feature: str, measured: Measurement) -> Floats:
        """Counts by value (rows) and class of one table, which a file keeps in the order of the schema."""
        pair = self.domain.along([self.target, feature])
        table = measured.answers.reshape(pair.shape).astype(np.float64)
        return table if pair.names[0] == feature else np.ascontiguousarray(table.T)

    @cached_property
    def by_stratum(self) -> Whole | None:
        """Noisy rows of each stratum (rows) and class."""
        return None if self.tested is None else self.tested.answers.reshape(len(self.model.labels), self.classes)

    # -- predictions

    def predict(self, rows: pa.Table, confidence: float) -> pa.Table:
        """The rows with what is predicted, its probability, and an interval where it was tested."""
        from sfumato.answers.answer import check_confidence
        from sfumato.lab.papers.predictions import Share, share_of, with_predictions
        from sfumato.releases.rows.encode import codes_in

        check_confidence(confidence)
        coded = codes_in(rows, self.schema, self.features)
        codes = [coded[name] for name in self.features]
        strata = self.model.strata(codes)
        labels, named = self.model.labels[strata], self.domain[self.target].labels()
        shares: list[Share | None]
        if self.tested is None:
            shares = [(chance, None, None) for chance in self._posterior(codes, labels)]
        else:
            seen = {int(each): share_of(self.right_in([int(each)], confidence)) for each in np.unique(strata)}
            shares = [seen[each] for each in strata.tolist()]
        return with_predictions(rows, [named[label] for label in labels.tolist()], shares)

    def _posterior(self, codes: Sequence[Codes], labels: Codes) -> list[float | None]:
        model = self.model
        if not isinstance(model, Additive) or self.learner != "naive-bayes":
            return [None] * len(labels)
        return [*map(float, posterior(model.scores(codes))[np.arange(len(labels)), labels])]

    def right_in(self, strata: Sequence[int], confidence: float) -> Interval:
        """The share of the table's rows in some strata that have the label which the model gives them."""
        return self.share_of(self._right(strata), strata, confidence)

    def share_of(self, wanted: Sequence[tuple[int, int]], strata: Sequence[int], confidence: float) -> Interval:
        """The share of some (stratum, class) cells in the rows of some strata, by the exact noise."""
        from sfumato.answers.fieller import Functional, Term, ratio_interval

        counts, tested = self.by_stratum, self.tested
        assert counts is not None and tested is not None  # noqa: S101 (asked for where there was a test)
        top, bottom = float(sum(counts[cell] for cell in wanted)), float(counts[list(strata)].sum())
        others = len(strata) * self.classes - len(wanted)
        terms = [
            Term.of(tested.noise, number, inside, inside, inside, 1.0, 1.0, 1.0)
            for number, inside in ((len(wanted), 1.0), (others, 0.0))
            if number
        ]
        return ratio_interval(Functional(top, top, top), Functional(bottom, bottom, bottom), terms, confidence, (0, 1))

    def _right(self, strata: Sequence[int]) -> list[tuple[int, int]]:
        return [(stratum, int(self.model.labels[stratum])) for stratum in strata]

    # -- SQL

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        sums = {each.of or each.present for each in select.amounts} & {*self.schema.measures}
        if sums:
            raise QueryError(f"this release holds a classifier and counts, no sums of {min(sums, key=str)}; count rows")
        return super().select_as(select, confidence, manner)

    def view(self, kinds: Kinds) -> View:

        return view_of_counts(self, tuple(kinds))

    # -- what it says of itself, and its file

    @property
    def about(self) -> About:

        strata = "" if self.tested is None else f", tested on {len(self.model.labels):,} kinds of rows"
        tested = () if self.tested is None else (self.tested,)
        return About(
            self.domain.names,
            f"a classifier of {self.target} by {len(self.features):,} attributes{strata}",
            (*self.tables, *self.further, *tested),
            "counts carry noise, whose size is known exactly; the classifier was made of them alone",
            findings_of(self),
            examples_of(self),
        )

    def write(self) -> Written:
        from sfumato.lab.papers.sq import file as classifier_file

        return classifier_file.written(self)

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        from sfumato.lab.papers.sq import file as classifier_file

        classifier_file.check(manifest, schema)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """What the numbers mean is seen when they are read."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Classifier:
        from sfumato.lab.papers.sq import file as classifier_file

        return cls(schema, *classifier_file.parts(manifest, schema, member))


def cells_by(domain: Domain, features: Sequence[str]) -> list[Codes]:
    """Code of every cell of a domain along each of some attributes; -1 along one that the domain does not have."""
    cells = np.arange(domain.size, dtype=np.int64)
    nowhere = np.full(1, -1, dtype=np.int64)
    return [
        domain.codes_along(name, cells) if name in domain else np.broadcast_to(nowhere, cells.shape)
        for name in features
    ]


@dataclass(frozen=True, eq=False)
class Averaged:
    """The noises of cells that are averages of several tables' cells; parts: their cells, noises and weights."""

    parts: tuple[tuple[Gathered, Noise, float], ...]

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[tuple[Term, ...]]:
        every = []
        for part, noise, weight in self.parts:
            found = CountedNoise({"count": noise}).terms(sides, part, groups)
            every.append([[_weighed(term, weight) for term in terms] for terms in found])
        return [tuple(term for terms in group for term in terms) for group in zip(*every, strict=True)]

    def largest_model_part(self, side: object, groups: object) -> None:
        """Not told here."""

    def signs_of_rows(self, within: object, cells: Gathered) -> None:
        return None


def _weighed(term: Term, weight: float) -> Term:
    return Term.of(term.noise, term.multiplicity, *(weight * each for each in term.weights))


def view_of_counts(content: Classifier, names: tuple[str, ...]) -> View:
    """Counts along some attributes, or a refusal that says along which there are some."""
    parts = [_gathered(domain, values, names, noise) for domain, values, noise in _tables(content, names)]
    if not parts:
        raise QueryError(_why_not(content, names))
    trust = np.array([1.0 / (part.merged * noise.continuous_variance) for part, noise in parts])
    weights = trust / trust.sum()
    values: Floats = np.sum(
        [weight * part.values["count"] for (part, _), weight in zip(parts, weights, strict=True)], axis=0
    )
    cells = Gathered(parts[0][0].codes, {"count": values}, parts[0][0].merged)
    averaged = Averaged(tuple((*part, float(weight)) for part, weight in zip(parts, weights, strict=True)))
    return View(content.schema, cells, averaged)


def _tables(content: Classifier, names: tuple[str, ...]) -> list[tuple[Domain, Floats, Noise]]:
    """The tables that have all the attributes."""
    found, features = [], content.features if content.tables else ()
    for feature, measured in zip(features, content.tables, strict=True):
        if {*names} <= {feature, content.target}:
            along = content.domain.along([content.target, feature])
            found.append((along, measured.answers.astype(np.float64), measured.noise))
    if content.tested is not None and content.by_stratum is not None and {*names} <= {content.target}:
        stratum = _stratum(content.domain, content.target, len(content.by_stratum))
        found.append((stratum, content.by_stratum.astype(np.float64).reshape(-1), content.tested.noise))
    return found


def _stratum(domain: Domain, target: str, strata: int) -> Domain:
    """The strata and the classes, as a domain of its own."""
    from sfumato.domain import Axis

    return Domain((Axis(f"stratum of {target}", "integer", np.arange(strata + 1.0)), domain[target]))


def _gathered(domain: Domain, values: Floats, names: tuple[str, ...], noise: Noise) -> tuple[Gathered, Noise]:
    by: Mapping[str, Floats] = {"count": values}
    return gather(domain, by, names), noise


def _why_not(content: Classifier, names: tuple[str, ...]) -> str:
    known = f"{content.target}, alone or by one of {', '.join(content.features)}" if content.tables else content.target
    return f"this classifier was learnt from counts by {known}; it has none by {', '.join(names)}; release margins"
