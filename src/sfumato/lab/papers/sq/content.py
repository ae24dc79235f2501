"""Release of a classifier: noisy counts, from which the model is made again whenever a file is opened.

A prediction comes with the share of the table's rows that have that label, among those which the model cannot tell from
the row in question (a stratum: a leaf of the tree, or a label and how clearly it won), measured with noise of its own.
The noisy counts also answer queries: rows by the target, by one of the features, or by both.

File format of a classifier: the measurements, one after the other, and the nodes of its tree.

measured  for each measurement: its noise and its number of answers. First the counts by target and each feature,
          then what else was learnt from, then the test, if there was one
answers   the noisy answers of all measurements
nodes     of a tree: the feature of each (-1: a leaf), its cut, the nodes below it, its label
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from sfumato.answers.evaluate import CountedNoise, NoiseSource, Sum, View
from sfumato.answers.fieller import Interval, Term
from sfumato.answers.noise_sum import check_confidence
from sfumato.answers.question import Gathered, Groups, gather
from sfumato.arrays import Codes, Floats, Whole
from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.lab.papers.forms import Share, check_form, in_sql, noisy_share, share_of, with_predictions
from sfumato.lab.papers.sq.classifiers import (
    GAPS,
    ODDS,
    Additive,
    Node,
    Tree,
    coordinates,
    learnt,
    naive_bayes,
    posterior,
    vectors,
)
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, ContentOfCells, Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.releases.rows.coding import codes_in
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.answers.question import Kinds, Manner
    from sfumato.answers.results import Result
    from sfumato.sql import Select

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


# -- content

CONFIDENCE = 0.95
MOST_NAMED = 3  # attributes that are named as those that tell most
NAMES = {"naive-bayes": "naive Bayes", "id3": "a decision tree (ID3)", "perceptron": "a perceptron"}


def condition(axis: Axis, cut: int) -> tuple[str, str]:
    """Conditions of the two sides of a split, in words."""
    if not axis.ordered:
        label = "missing" if cut == axis.places else axis.label(cut)
        return f"{axis.name} is {label}", f"{axis.name} is not {label}"
    if cut >= axis.places:
        return f"{axis.name} is there", f"{axis.name} is missing"
    edge = axis.label(cut) if axis.kind == "date" else f"{axis.edges[cut]:.15g}"
    return f"{axis.name} < {edge}", f"{axis.name} >= {edge}" + (" or missing" if axis.missing else "")


def _percents(share: Interval) -> tuple[str, str]:
    """Texts of a share and of its interval."""
    return f"{100 * share.value:.1f} %", f"{100 * share.low:.1f} % to {100 * share.high:.1f} %"


Learner = Literal["naive-bayes", "id3", "perceptron"]


@dataclass(frozen=True, eq=False)
class Classifier(ContentOfCells):
    """Classifier of `target` from the features, as the noisy measurements that it is learnt from.

    tables: counts by class and one feature, in the order of the features; none for a perceptron. further: deeper levels
    of a tree and its leaves, or the sums of perceptron updates, round by round. tree: of ID3.
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
        """Fitted classifier, which sorts rows into strata."""
        if self.tree is not None:
            return self.tree
        if self.learner == "perceptron":
            return learnt([each.answers for each in self.further], self.axes, self.classes)
        return naive_bayes(*self._counted)

    @property
    def _counted(self) -> tuple[list[Floats], list[float]]:
        """Tables (values, classes), and the standard error of a cell of each."""
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
        """Append to rows the predicted class, its probability, and an interval where it was tested."""
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
        """Accuracy within some strata: share of their rows whose class is the label, with interval."""
        right = [(stratum, int(self.model.labels[stratum])) for stratum in strata]
        return self.share_of(right, strata, confidence)

    def share_of(self, wanted: Sequence[tuple[int, int]], strata: Sequence[int], confidence: float) -> Interval:
        """Share of some (stratum, class) cells in the rows of some strata, with an interval from the exact noise."""
        counts, tested = self.by_stratum, self.tested
        assert counts is not None and tested is not None  # noqa: S101 (asked for where there was a test)
        top, bottom = float(sum(counts[cell] for cell in wanted)), float(counts[list(strata)].sum())
        others = len(strata) * self.classes - len(wanted)
        return noisy_share(tested.noise, (top, len(wanted)), (bottom - top, others), confidence)

    # -- SQL

    def select_as(self, select: Select, confidence: float, manner: Manner) -> Result:
        sums = {each.of or each.present for each in select.amounts} & {*self.schema.measures}
        if sums:
            raise QueryError(f"this release holds a classifier and counts, no sums of {min(sums, key=str)}; count rows")
        return super().select_as(select, confidence, manner)

    def view(self, kinds: Kinds) -> View:
        """Counts along some attributes: inverse-variance mean over all tables that contain them."""
        names = tuple(kinds)
        parts = [(gather(domain, {"count": values}, names), noise) for domain, values, noise in self._tables(names)]
        if not parts:
            known = f"{self.target}, alone or by one of {', '.join(self.features)}" if self.tables else self.target
            said = f"this classifier was learnt from counts by {known}; it has none by {', '.join(names)}"
            raise QueryError(f"{said}; release margins")
        trust = np.array([1.0 / (part.merged * noise.continuous_variance) for part, noise in parts])
        weights = trust / trust.sum()
        averaged = Averaged(tuple((*part, float(weight)) for part, weight in zip(parts, weights, strict=True)))
        values: Floats = np.sum([weight * part.values["count"] for part, _, weight in averaged.parts], axis=0)
        first = parts[0][0]
        return View(self.schema, Gathered(first.codes, {"count": values}, first.merged), averaged)

    def _tables(self, names: tuple[str, ...]) -> Iterator[tuple[Domain, Floats, Noise]]:
        """Measured tables that contain all these attributes: domain, counts and noise."""
        for feature, measured in zip(self.features if self.tables else (), self.tables, strict=True):
            if {*names} <= {feature, self.target}:
                along = self.domain.along([self.target, feature])
                yield along, measured.answers.astype(np.float64), measured.noise
        if self.tested is not None and self.by_stratum is not None and {*names} <= {self.target}:
            stratum = Axis(f"stratum of {self.target}", "integer", np.arange(len(self.by_stratum) + 1.0))
            counts = self.by_stratum.astype(np.float64).reshape(-1)
            yield Domain((stratum, self.domain[self.target])), counts, self.tested.noise

    # -- what it says of itself

    @property
    def about(self) -> About:
        strata = "" if self.tested is None else f", tested on {len(self.model.labels):,} kinds of rows"
        tested = () if self.tested is None else (self.tested,)
        return About(
            self.domain.names,
            f"a classifier of {self.target} by {len(self.features):,} attributes{strata}",
            (*self.tables, *self.further, *tested),
            "counts carry noise, whose size is known exactly; the classifier was made of them alone",
            (self._quality(), *self._learnt()),
            tuple(self._examples()),
        )

    def _quality(self) -> str:
        what = f"{NAMES[self.learner]} tells {self.target} from {len(self.features):,} attributes"
        if self.tested is None or self.by_stratum is None:
            return f"{what}; how often it is right was not measured, for its attributes span too many cells; name fewer"
        strata = range(len(self.model.labels))
        right = self.right_in(strata, CONFIDENCE)
        if not np.isfinite(right.value):
            return f"{what}; there is too much noise to say how often it is right"
        common = int(self.by_stratum.sum(axis=0).argmax())
        always = self.share_of([(stratum, common) for stratum in strata], strata, CONFIDENCE)
        return (
            f"{what} and is right for {_percents(right)[0]} of the table's rows ({_percents(right)[1]}); "
            f"saying {self.domain[self.target].label(common)} of everyone is for {_percents(always)[0]}"
        )

    def _learnt(self) -> list[str]:
        """Description of the model: the rules of a tree, leaf by leaf, or the most influential attributes."""
        tree = self.model
        if not isinstance(tree, Tree):
            first = sorted(range(len(tree.spreads)), key=lambda place: -tree.spreads[place])[:MOST_NAMED]
            return [f"what moves its score most: {', '.join(self.features[place] for place in first)}"]
        found: list[str] = []

        def walk(place: int, conditions: list[str]) -> None:
            node = tree.nodes[place]
            if node.feature < 0:
                found.append(f"{' and '.join(conditions) or 'always'}: {self._rule(tree.leaves.index(place))}")
                return
            low, high = condition(self.axes[node.feature], node.cut)
            walk(node.low, [*conditions, low])
            walk(node.high, [*conditions, high])

        walk(0, [])
        return found

    def _rule(self, leaf: int) -> str:
        said = f"{self.target} is {self.domain[self.target].label(int(self.model.labels[leaf]))}"
        if self.tested is None or not np.isfinite((share := self.right_in([leaf], CONFIDENCE)).value):
            return said
        return f"{said} (right for {', '.join(_percents(share))})"

    def _examples(self) -> Iterator[str]:
        """Example queries: rows by target, and by target and one attribute."""
        name, table = in_sql(self.target), in_sql(self.schema.dataset)
        if self.tables or self.tested is not None:
            yield f"SELECT {name}, COUNT(*) AS n FROM {table} GROUP BY {name}"
        if self.tables:
            other = in_sql(min(self.axes, key=lambda axis: axis.size).name)
            yield f"SELECT {name}, {other}, COUNT(*) AS n FROM {table} GROUP BY {name}, {other}"

    # -- its file

    def write(self) -> Written:
        every = [*self.tables, *self.further, *([] if self.tested is None else [self.tested])]
        noises = list(dict.fromkeys(one.noise for one in every))
        nodes = () if self.tree is None else self.tree.nodes
        columns: dict[str, list[Any]] = {
            "measured": [[noises.index(one.noise) for one in every], [len(one.answers) for one in every]],
            "answers": [np.concatenate([one.answers for one in every])],
            "nodes": [[getattr(node, name) for node in nodes] for name in COLUMNS["nodes"]],
        }
        kept = {
            name: {column: np.asarray(row, dtype=np.int64) for column, row in zip(COLUMNS[name], rows, strict=True)}
            for name, rows in columns.items()
        }
        details: dict[str, Any] = {
            "learner": self.learner,
            "target": self.target,
            "features": list(self.features),
            "tested": self.tested is not None,
            "noises": [noise_as_json(noise) for noise in noises],
        }
        return Written("classifier", STATISTICS, kept, {"details": details})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        about = details_as(ClassifierRecord, manifest)
        check_form(manifest, COLUMNS, STATISTICS, "a classifier")
        names = [about.target, *about.features]
        if about.learner not in NAMES or not about.features:
            raise refusal("it has a learner that this Sfumato does not know, or nothing to learn from")
        if any(name not in schema.domain for name in names) or len({*names}) < len(names):
            raise refusal("its target or features are not attributes of its schema, each once")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Accept any integers; their meaning is checked on reading."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Classifier:
        about = details_as(ClassifierRecord, manifest)
        every = measurements(about, member)
        axes, classes = [schema.domain[name] for name in about.features], schema.domain[about.target].size
        shapes = [classes * axis.size for axis in axes] if about.learner != "perceptron" else []
        if [len(one.answers) for one in every[: len(shapes)]] != shapes:
            raise refusal("its counts are not those of its target and features")
        tree = tree_of(member("nodes"), axes, classes) if about.learner == "id3" else None
        if tree is None and len(member("nodes")["feature"]):
            raise refusal("it has nodes of a tree, and none was learnt")
        strata = len(tree.leaves) if tree else classes * ((len(GAPS) if not shapes else len(ODDS)) + 1)
        tested = every.pop() if about.tested and len(every) > len(shapes) else None
        if about.tested and (tested is None or len(tested.answers) != strata * classes):
            raise refusal("its test does not go with its classifier")
        tables, further = tuple(every[: len(shapes)]), tuple(every[len(shapes) :])
        width = vectors(classes) * (sum(coordinates(axis).shape[1] for axis in axes) + 1)
        if about.learner == "perceptron" and any(len(one.answers) != width for one in further):
            raise refusal("its sums are not those of a perceptron over its features")
        if about.learner == "naive-bayes" and further:
            raise refusal("it has measurements that naive Bayes does not make")
        learner = cast(Learner, about.learner)
        return cls(schema, learner, about.target, tuple(about.features), tables, further, tree, tested)


def cells_by(domain: Domain, features: Sequence[str]) -> list[Codes]:
    """Code of every cell of a domain along each of some attributes; -1 along one that the domain does not have."""
    cells = np.arange(domain.size, dtype=np.int64)
    nowhere = np.full(1, -1, dtype=np.int64)
    return [
        domain.codes_along(name, cells) if name in domain else np.broadcast_to(nowhere, cells.shape)
        for name in features
    ]


@dataclass(frozen=True, eq=False)
class Averaged(NoiseSource):
    """Noise of cells that are weighted means of cells of several tables. parts: cells, noise and weight of each."""

    parts: tuple[tuple[Gathered, Noise, float], ...]

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[tuple[Term, ...]]:
        every = []
        for part, noise, weight in self.parts:
            found = CountedNoise({"count": noise}).terms(sides, part, groups)
            every.append([[_weighed(term, weight) for term in terms] for terms in found])
        return [tuple(term for terms in group for term in terms) for group in zip(*every, strict=True)]


def _weighed(term: Term, weight: float) -> Term:
    return Term.of(term.noise, term.multiplicity, *(weight * each for each in term.weights))
