"""Fitted cubes in a file: what comes out is what went in, to the last bit, and forgeries are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from curators import curator_of
from fitted import SCHEMA, SIZE, example, release_with
from hypothesis import given
from hypothesis import strategies as st

from sfumato.answers.fit import PARTS, in_parts
from sfumato.errors import ReleaseFileError
from sfumato.kernel.budget import Budget, Cost, rho_for
from sfumato.measurement import Gaussian, Laplace
from sfumato.models.base.measure_and_fit import measure_and_fit
from sfumato.models.linear.fit import LinearFit
from sfumato.models.tree.measure import sfumato
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Haar, Identity, Kron, NominalHaar, Stack, Total, Tree
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube
from sfumato.releases.file.artifact import read_artifact, write_artifact
from sfumato.releases.file.fit_records import from_whole_numbers, in_whole_numbers
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.release import Release
from sfumato.schema import Schema

TREE = Tree(7, 2)
STRATEGIES = {
    "plain": Strategy(Identity(SIZE)),
    "tree": Strategy(Kron(TREE, Identity(2))),
    "levels": Strategy(Kron(TREE, Total(2)), (3, 2, 1, 1), np.asarray(TREE.row_level)),
    "wavelet": Strategy(Kron(Haar(7), NominalHaar(2))),
    "stacked": Strategy(Stack(Identity(SIZE), Total(SIZE))),
}


def made(name: str = "levels", *, gaussian: bool = False) -> Release:
    rho = rho_for(1, "1e-6") if gaussian else None
    curator = curator_of(SCHEMA, np.arange(SIZE) * 7, rho=rho, sums={"charge": np.arange(SIZE) - 5})
    budget = curator.charge.budget
    cube = measure_and_fit(curator, SCHEMA, STRATEGIES[name], budget)
    cost = Cost.stated(1, "1e-6") if gaussian else None
    return Release(cube, "hierarchical", describe_guarantee(budget, SCHEMA, cost), False, {"entry": 1})


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_fitted_cube_comes_back_to_the_last_bit(name, gaussian, tmp_path):
    release = made(name, gaussian=gaussian)
    opened = Release.load(release.save(tmp_path / "r.sfumato"))
    assert opened.guarantee == release.guarantee and opened.mechanism == release.mechanism
    assert opened.receipt == release.receipt and opened.private is False
    columns = np.column_stack([np.ones(SIZE), np.eye(SIZE)[3], np.arange(SIZE) / 8.0])
    for before, after in zip(release.content.fits, opened.content.fits, strict=True):
        assert type(after) is type(before) and after.of == before.of
        assert np.array_equal(after.estimate, before.estimate)
        (was,), (now,) = before.measurements, after.measurements
        assert now.noises == was.noises and np.array_equal(now.answers, was.answers)
        assert (now.which is None) == (was.which is None) and np.array_equal(now.queries.dense(), was.queries.dense())
        errors, errors_before = after.errors(columns), before.errors(columns)
        assert np.array_equal(errors.weights, errors_before.weights)
        assert np.array_equal(errors.model, errors_before.model)
        assert np.array_equal(errors.unknown, errors_before.unknown)
        assert np.array_equal(errors.design.variances, errors_before.design.variances)
        assert isinstance(now.noises[0], Gaussian if gaussian else Laplace)


def test_shared_queries_are_written_once_and_the_same_release_gives_the_same_bytes(tmp_path):
    release = made("tree")
    one, other = (release.save(tmp_path / name) for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
    manifest = read_artifact(one).manifest
    assert len(manifest.queries) == 1 and [fit.measurements[0].queries for fit in manifest.fits] == [0, 0]
    assert manifest.kind == "fitted-cube" and manifest.version == 4
    assert list(manifest.members) == ["numbers"]  # what follows from the measurements is not kept


@pytest.mark.parametrize("kind", ["even", "shape", "tree", "nested", "leaves"])
def test_a_fit_that_leans_on_a_model_comes_back_to_the_last_bit(kind, tmp_path):
    release = release_with(example(kind))
    opened = Release.load(release.save(tmp_path / "r.sfumato"))
    before, after = release.content.fits[0], opened.content.fits[0]
    assert type(after) is type(before) and np.array_equal(after.estimate, before.estimate)
    for was, now in zip(before.measurements, after.measurements, strict=True):
        assert (now.of, now.noises, repr(now.queries)) == (was.of, was.noises, repr(was.queries))
        assert np.array_equal(now.answers, was.answers)
        assert np.array_equal(now.design.variances, was.design.variances)
    columns = np.column_stack([np.ones(SIZE), np.eye(SIZE)[3], np.arange(SIZE) / 8.0])
    errors, errors_before = after.errors(columns), before.errors(columns)
    for part in ("weights", "model", "unknown"):
        assert np.array_equal(getattr(errors, part), getattr(errors_before, part))
    assert np.array_equal(errors.design.variances, errors_before.design.variances)
    sql = "SELECT sex, COUNT(*) AS n, SUM(charge) AS s FROM census WHERE age < 4 GROUP BY sex"
    assert opened.query(sql).records() == release.query(sql).records()


ONE_ATTRIBUTE = Schema.from_dict(
    {"dataset": "census", "privacy_unit": "row", "attributes": {"age": {"type": "integer", "lower": 0, "upper": 12}}}
)


def descended(schema: Schema) -> Release:
    """A release as sfumato makes it."""
    curator = curator_of(schema, np.arange(schema.domain.size) ** 3)
    cube = sfumato(curator, schema, curator.charge.budget)
    return Release(cube, "sfumato", describe_guarantee(curator.charge.budget, schema, None), False, {"entry": 1})


@pytest.mark.parametrize("schema", [ONE_ATTRIBUTE, SCHEMA])
def test_a_descent_comes_back_to_the_last_bit(schema, tmp_path):
    release = descended(schema)
    opened = Release.load(release.save(tmp_path / "r.sfumato"))
    before, after = release.content.fits[0], opened.content.fits[0]
    for name in ("estimate", "slopes", "deviations", "leanings"):
        assert np.array_equal(getattr(before.inner, name), getattr(after.inner, name))
    for name, array in before.scales.record().items():
        assert np.array_equal(array, after.scales.record()[name])
    assert len(after.inner.leanings) == (0 if schema is ONE_ATTRIBUTE else len(after.inner.slopes))
    columns = np.column_stack([np.ones(schema.domain.size), np.arange(schema.domain.size) % 2])
    assert np.array_equal(before.errors(columns).model, after.errors(columns).model)
    sql = "SELECT age, COUNT(*) AS n FROM census GROUP BY age"
    assert opened.query(sql).records() == release.query(sql).records()


def resized(change, *names: str):
    """A forgery of the length of arrays that a fit keeps."""

    def forged(manifest, members):
        ends = np.cumsum(manifest.arrays)
        parts = np.split(members["numbers"]["value"], ends[:-1])
        for name in names:
            place = manifest.fits[0].arrays[name]
            parts[place] = change(parts[place])
        members["numbers"]["value"] = np.concatenate(parts)
        return replace(manifest, arrays=[len(part) for part in parts])

    return forged


def array_of(name: str, change):
    """A forgery of one of the arrays that a regional fit keeps."""

    def forged(manifest, members):
        place = manifest.fits[0].arrays[name]
        start = sum(manifest.arrays[:place])
        values = members["numbers"]["value"].copy()
        part = slice(start, start + manifest.arrays[place])
        values[part] = change(values[part])
        members["numbers"]["value"] = values

    return forged


def regional_fit(change):
    return lambda manifest, members: replace(manifest, fits=[change(manifest.fits[0]), *manifest.fits[1:]])


REGIONAL_FORGERIES = {
    "a label far away": array_of("labels", lambda labels: np.where(labels == 2, 2**62, labels)),
    "a negative label": array_of("labels", lambda labels: labels - 1),
    "an empty region": array_of("labels", lambda labels: np.where(labels == 2, 1, labels)),
    "other totals": array_of("totals", lambda totals: totals + 1),
    "parts": array_of("spread_parts", lambda parts: parts + PARTS),
    "no parts": regional_fit(
        lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k != "spread_parts"})
    ),
    "no labels": regional_fit(lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k != "labels"})),
    "no totals": regional_fit(
        lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k[:6] != "totals"})
    ),
    "another array": regional_fit(lambda fit: replace(fit, arrays={**fit.arrays, "more": fit.measurements[0].answers})),
    "fewer measurements": regional_fit(lambda fit: replace(fit, measurements=fit.measurements[:1])),
    "no measurement": regional_fit(lambda fit: replace(fit, measurements=[])),
    "swapped measurements": regional_fit(lambda fit: replace(fit, measurements=fit.measurements[::-1])),
    "other columns": regional_fit(
        lambda fit: replace(fit, measurements=[replace(m, columns=2**40) for m in fit.measurements])
    ),
    "another kind": regional_fit(lambda fit: replace(fit, family="linear")),
}


@pytest.mark.parametrize("name", REGIONAL_FORGERIES)
def test_forged_regions_are_refused(name, tmp_path):
    with pytest.raises(ReleaseFileError) as caught:
        Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("even")), REGIONAL_FORGERIES[name]))
    assert str(caught.value).isprintable()


def more_arrays(**more):
    """A file of which a fit keeps more arrays than its kind has."""

    def forged(manifest, members):
        first, known = manifest.fits[0], len(manifest.arrays)
        arrays = first.arrays | {name: known + place for place, name in enumerate(more)}
        members["numbers"]["value"] = np.concatenate([members["numbers"]["value"], *more.values()])
        lengths = [*manifest.arrays, *map(len, more.values())]
        return replace(manifest, arrays=lengths, fits=[replace(first, arrays=arrays), *manifest.fits[1:]])

    return forged


@pytest.mark.parametrize(
    "more",
    [
        {"mass": np.ones(SIZE, dtype=np.int64)},
        {name: np.zeros(3, dtype=np.int64) for name in ("keep", "keep_parts", "lean", "lean_parts")},
    ],
)
def test_regions_have_no_mass_and_keep_no_cells(more, tmp_path):
    """Arrays that would change nothing are refused by their names, and without them the file opens."""
    with pytest.raises(ReleaseFileError, match="arrays that do not go with its kind"):
        Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("even")), more_arrays(**more)))
    Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("even")), more_arrays()))


TREE_FORGERIES = {
    "slopes far away": array_of("slopes", lambda slopes: slopes + 2**40),
    "deviations below nothing": array_of("deviations", lambda deviations: deviations - 2**40),
    "a label far away": array_of("labels", lambda labels: np.where(labels == 2, 2**62, labels)),
    "no slopes": regional_fit(lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k != "slopes"})),
    "no deviations": regional_fit(
        lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k[:10] != "deviations"})
    ),
}


@pytest.mark.parametrize("name", TREE_FORGERIES)
def test_forged_trees_are_refused(name, tmp_path):
    with pytest.raises(ReleaseFileError) as caught:
        Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("tree")), TREE_FORGERIES[name]))
    assert str(caught.value).isprintable()


def other_queries(manifest, members):
    """One total in place of the ranges."""
    asked = {"family": "total", "columns": SIZE}
    return replace(manifest, queries=[asked if one["family"] == "ranges" else one for one in manifest.queries])


LEANING = ("leanings", "leanings_parts")
LEAF_FORGERIES = {
    "fewer leanings": resized(lambda leanings: leanings[:-1], *LEANING),
    "more leanings": resized(lambda leanings: np.append(leanings, 0), *LEANING),
    "no leaning": resized(lambda leanings: leanings[:0], *LEANING),
    "leanings without parts": resized(lambda parts: parts[:-1], "leanings_parts"),
    "negative parts of leanings": array_of("leanings_parts", lambda parts: parts - 1),
    "parts of leanings beyond a whole": array_of("leanings_parts", lambda parts: parts + PARTS),
    "no leanings": regional_fit(
        lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k != "leanings"})
    ),
    "slopes far away": array_of("slopes", lambda slopes: slopes + 2**40),
    "deviations below nothing": array_of("deviations", lambda deviations: deviations - 2**40),
    "parts": array_of("deviations_parts", lambda parts: parts - PARTS),
    "no slopes": regional_fit(lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k != "slopes"})),
    "no deviations": regional_fit(lambda fit: replace(fit, arrays={"slopes": fit.arrays["slopes"]})),
    "slopes for deviations": regional_fit(
        lambda fit: replace(fit, arrays={**fit.arrays, "slopes": fit.arrays["deviations"]})
    ),
    "an order": regional_fit(lambda fit: replace(fit, arrays={**fit.arrays, "order": fit.measurements[0].answers})),
    "two measurements": regional_fit(lambda fit: replace(fit, measurements=fit.measurements * 2)),
    "other columns": regional_fit(
        lambda fit: replace(fit, measurements=[replace(m, columns=2**40) for m in fit.measurements])
    ),
    "another kind": regional_fit(lambda fit: replace(fit, family="regional")),
    "linear": regional_fit(lambda fit: replace(fit, family="linear")),
    "other queries": other_queries,
}


@pytest.mark.parametrize("name", LEAF_FORGERIES)
def test_forged_trees_of_cells_are_refused(name, tmp_path):
    with pytest.raises(ReleaseFileError) as caught:
        Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("leaves")), LEAF_FORGERIES[name]))
    assert str(caught.value).isprintable()


def test_leanings_in_a_tree_of_one_attribute_are_refused(tmp_path):
    """Also as many as there are regions: nothing leans together where every node is a slice of its own."""
    release = descended(ONE_ATTRIBUTE)
    count = len(release.content.fits[0].inner.slopes)
    for change in (lambda leanings: np.zeros(count), lambda leanings: np.ones(1)):
        forged = resized(lambda leanings, change=change: change(leanings).astype(np.int64), *LEANING)
        with pytest.raises(ReleaseFileError, match="contradicts itself"):
            Release.load(rewritten(tmp_path / "r.sfumato", release, forged))
    Release.load(rewritten(tmp_path / "r.sfumato", release, resized(lambda leanings: leanings, *LEANING)))


def test_a_tree_measured_by_something_else_or_with_too_many_leaves_is_refused(monkeypatch, tmp_path):
    release = release_with(example("leaves"))
    tree, *others = release.content.fits
    cells = LinearFit.of_answers(curator_of(SCHEMA, np.arange(SIZE)).measure(Identity(SIZE), Budget.pure("1/2")))
    odd = replace(
        release, content=replace(release.content, fits=(replace(tree, measurement=cells.measurement), *others))
    )
    with pytest.raises(ReleaseFileError, match="ranges"):
        Release.load(odd.save(tmp_path / "odd.sfumato"))
    monkeypatch.setattr("sfumato.models.tree.fit.MOST_LEAVES", SIZE - 1)
    with pytest.raises(ReleaseFileError, match="more cells than"):
        Release.load(release.save(tmp_path / "large.sfumato"))


def test_a_tree_in_another_order_is_not_written(tmp_path):
    release = release_with(example("leaves"))
    tree, *others = release.content.fits
    for order in (np.arange(SIZE), tree.tree.order[::-1]):
        moved = replace(tree, tree=replace(tree.tree, order=order))
        changed = replace(release, content=replace(release.content, fits=(moved, *others)))
        with pytest.raises(ReleaseFileError, match="cut as that domain is cut"):
            changed.save(tmp_path / "r.sfumato")


NESTED_FORGERIES = {
    "no order": regional_fit(lambda fit: replace(fit, arrays={k: v for k, v in fit.arrays.items() if k != "order"})),
    "labels for an order": regional_fit(lambda fit: replace(fit, arrays={**fit.arrays, "order": fit.arrays["labels"]})),
    "swapped measurements": regional_fit(lambda fit: replace(fit, measurements=fit.measurements[::-1])),
    "one measurement": regional_fit(lambda fit: replace(fit, measurements=fit.measurements[:1])),
    "lean for keep": regional_fit(
        lambda fit: replace(fit, arrays={**fit.arrays, "keep": fit.arrays["lean"], "lean": fit.arrays["keep"]})
    ),
    "another kind": regional_fit(lambda fit: replace(fit, family="regional")),
}


@pytest.mark.parametrize("name", NESTED_FORGERIES)
def test_halved_regions_that_do_not_go_together_are_refused(name, tmp_path):
    with pytest.raises(ReleaseFileError):
        Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("nested")), NESTED_FORGERIES[name]))


SHAPE_FORGERIES = {
    "mass": array_of("mass", lambda mass: np.full(len(mass), 2**60)),
    "negative mass": array_of("mass", lambda mass: -mass),
    "no mass": array_of("mass", lambda mass: mass * 0),
    "other mass": array_of("mass", lambda mass: mass[::-1]),
    "total": array_of("total", lambda total: total + 100),
    "nothing": regional_fit(lambda fit: replace(fit, arrays={})),
    "measurements": regional_fit(lambda fit: replace(fit, measurements=fit.measurements[1:])),
    "another kind": regional_fit(lambda fit: replace(fit, family="regional")),
}


@pytest.mark.parametrize("name", SHAPE_FORGERIES)
def test_forged_shapes_are_refused(name, tmp_path):
    with pytest.raises(ReleaseFileError) as caught:
        Release.load(rewritten(tmp_path / "r.sfumato", release_with(example("shape")), SHAPE_FORGERIES[name]))
    assert str(caught.value).isprintable()


@given(st.lists(st.floats(-(2.0**62), 2.0**62), min_size=1, max_size=20))
def test_estimates_are_exact_in_whole_numbers_and_parts(values):
    estimate = in_parts(np.array(values))
    whole, parts = in_whole_numbers(estimate)
    assert ((parts >= 0) & (parts < PARTS)).all()
    assert np.array_equal(from_whole_numbers(whole, parts), estimate)


def rewritten(path: Path, release: Release, change) -> Path:
    """The file again, with a manifest and columns that someone changed, every digest made to fit."""
    release.save(path)
    artifact = read_artifact(path)
    members = {name: dict(artifact.read(name)) for name in artifact.manifest.members}
    manifest = change(artifact.manifest, members) or artifact.manifest
    write_artifact(path, replace(manifest, members={}), members)
    return path


def fit(manifest: Manifest, **changes) -> Manifest:
    first = manifest.fits[0]
    measured = replace(first.measurements[0], **changes)
    return replace(manifest, fits=[replace(first, measurements=[measured]), *manifest.fits[1:]])


def short_of_a_number(manifest, members):
    members["numbers"]["value"] = members["numbers"]["value"][:-1]


def wild_places(manifest, members):
    start = sum(manifest.arrays[: manifest.fits[0].measurements[0].which])
    values = members["numbers"]["value"].copy()
    values[start] = 4
    members["numbers"]["value"] = values


def parts_beyond_a_whole(manifest, members):
    members["cells"]["parts of count"] = np.full(SIZE, PARTS)


def fewer_cells(manifest, members):
    members["cells"] = {name: values[:-1] for name, values in members["cells"].items()}


FORGERIES = {
    "short": short_of_a_number,
    "wild places": wild_places,
    "parts": parts_beyond_a_whole,
    "fewer cells": fewer_cells,
    "no fits": lambda manifest, members: replace(manifest, fits=[]),
    "other order": lambda manifest, members: replace(manifest, fits=manifest.fits[::-1]),
    "another kind": lambda manifest, members: replace(manifest, kind="cube"),
    "threshold": lambda manifest, members: replace(manifest, threshold=3),
    "no queries": lambda manifest, members: replace(manifest, queries=[]),
    "queries too many": lambda manifest, members: replace(manifest, queries=manifest.queries * 2),
    "other queries": lambda manifest, members: replace(manifest, queries=[{"family": "total", "columns": SIZE}]),
    "no such queries": lambda manifest, members: fit(manifest, queries=7),
    "no such array": lambda manifest, members: fit(manifest, answers=70),
    "array twice": lambda manifest, members: fit(manifest, which=manifest.fits[0].measurements[0].answers),
    "which missing": lambda manifest, members: fit(manifest, which=None),
    "noise missing": lambda manifest, members: fit(manifest, noises=manifest.fits[0].measurements[0].noises[:1]),
    "other statistic": lambda manifest, members: fit(manifest, of="charge"),
    "arrays": lambda manifest, members: replace(manifest, arrays=[*manifest.arrays, 2**40]),
    "arrays cut": lambda manifest, members: replace(manifest, arrays=[n - 1 for n in manifest.arrays]),
    "array of nothing": lambda manifest, members: replace(manifest, arrays=[*manifest.arrays, 0]),
    "two measurements": lambda manifest, members: replace(
        manifest, fits=[replace(manifest.fits[0], measurements=manifest.fits[0].measurements * 2), manifest.fits[1]]
    ),
    "named array": lambda manifest, members: replace(
        manifest, fits=[replace(manifest.fits[0], arrays={"labels": 0}), manifest.fits[1]]
    ),
    "noise on a cell": lambda manifest, members: replace(
        manifest,
        statistics=[
            replace(statistic, noise=manifest.fits[0].measurements[0].noises[0]) for statistic in manifest.statistics
        ],
    ),
    "step": lambda manifest, members: replace(
        manifest, statistics=[manifest.statistics[0], replace(manifest.statistics[1], step=Fraction(1, 3))]
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused_and_nothing_else_happens(name, tmp_path):
    with pytest.raises(ReleaseFileError) as caught:
        Release.load(rewritten(tmp_path / "r.sfumato", made(), FORGERIES[name]))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400


def test_estimates_of_other_cells_than_those_of_the_schema_are_refused(tmp_path):
    """All goes together but for the schema: two cells, of which the totals were measured, kept with the arrays."""

    def forged(manifest, members):
        two = np.array([3, 4])
        columns = [
            name for statistic in manifest.statistics for name in (statistic.column, f"parts of {statistic.column}")
        ]
        members.clear()
        members["numbers"] = {"value": two} | dict.fromkeys(columns, two)
        fits = []
        for place, fit in enumerate(manifest.fits):
            measured = replace(fit.measurements[0], columns=2, queries=0, answers=place)
            fits.append(replace(fit, measurements=[measured]))
        statistics = [replace(statistic, member="numbers") for statistic in manifest.statistics]
        queries = [{"family": "total", "columns": 2}]
        return replace(manifest, fits=fits, statistics=statistics, queries=queries, arrays=[1, 1])

    with pytest.raises(ReleaseFileError, match="for each cell of its schema"):
        Release.load(rewritten(tmp_path / "r.sfumato", made("levels"), forged))


def with_cells(manifest, members):
    """Estimates beside those that are left to be solved for."""
    members["cells"] = {name: np.zeros(SIZE, dtype=np.int64) for name in ("count", "parts of count")}


def undetermined(manifest, members):
    """Totals along one attribute in place of its cells: a tenth of the answers."""
    parts = manifest.queries[0]["parts"]
    rows = TREE.rows
    members["numbers"]["value"] = members["numbers"]["value"][: -4 * rows + 2 * rows]
    queries = [{**manifest.queries[0], "parts": [parts[0], {"family": "total", "columns": 2}]}]
    lengths = [rows if length == 2 * rows else length for length in manifest.arrays]
    return replace(manifest, queries=queries, arrays=lengths)


def in_place(**changes):
    return lambda manifest, members: replace(
        manifest, statistics=[replace(one, **changes) for one in manifest.statistics]
    )


SOLVED_FORGERIES = {
    "an earlier version": lambda manifest, members: replace(manifest, version=2),
    "kept all the same": with_cells,
    "said to be kept": in_place(member="cells", column="count"),
    "another column": in_place(column="values"),
    "too little": undetermined,
    "kept by its family": lambda manifest, members: replace(
        manifest, fits=[replace(fit, family="linear") for fit in manifest.fits], version=2
    ),
    "an array": lambda manifest, members: replace(
        manifest, fits=[replace(manifest.fits[0], arrays={"labels": 0}), *manifest.fits[1:]]
    ),
}


@pytest.mark.parametrize("name", SOLVED_FORGERIES)
def test_forged_fits_without_estimates_are_refused(name, tmp_path):
    with pytest.raises(ReleaseFileError) as caught:
        Release.load(rewritten(tmp_path / "r.sfumato", made("tree"), SOLVED_FORGERIES[name]))
    assert str(caught.value).isprintable()
    Release.load(rewritten(tmp_path / "r.sfumato", made("tree"), lambda manifest, members: None))


def test_a_version_without_estimates_has_such_fits(tmp_path):
    with pytest.raises(ReleaseFileError, match="do not go with its version"):
        Release.load(rewritten(tmp_path / "r.sfumato", made("levels"), lambda m, members: replace(m, version=4)))


def test_an_answer_from_the_file_is_the_answer_before_it_was_saved(tmp_path):
    for name in STRATEGIES:
        release = made(name)
        opened = Release.load(release.save(tmp_path / f"{name}.sfumato"))
        for sql in (
            "SELECT COUNT(*) AS n, SUM(charge) AS s FROM census",
            "SELECT sex, COUNT(*) AS n FROM census WHERE age < 4 GROUP BY sex",
            "SELECT age, sex, COUNT(*) AS n FROM census GROUP BY age, sex",
        ):
            assert repr(opened.query(sql).records()) == repr(release.query(sql).records())


def test_a_forger_who_changes_nothing_is_let_in(tmp_path):
    Release.load(rewritten(tmp_path / "r.sfumato", made(), lambda manifest, members: None))


@pytest.mark.parametrize(
    "change", [{"epsilon": Fraction(99, 100)}, {"delta": Fraction(1, 10**7)}, {"rho": Fraction(1)}]
)
def test_a_guarantee_that_does_not_follow_from_its_rho_is_refused(change, tmp_path):
    def forged(manifest, members):
        return replace(manifest, guarantee=replace(manifest.guarantee, **change))

    with pytest.raises(ReleaseFileError, match="does not follow from its rho"):
        rewritten(tmp_path / "r.sfumato", made(gaussian=True), forged)


def test_gaussian_cells_can_be_kept_as_well(tmp_path):
    curator = curator_of(SCHEMA, np.arange(SIZE), rho=Fraction(1, 8))
    measured = tuple(curator.measure(Identity(SIZE), Budget.zcdp("1/16"), of=of) for of in curator.statistics)
    release = made()
    path = replace(release, content=Cube.of_cells(SCHEMA, measured)).save(tmp_path / "r.sfumato")
    assert list(Release.load(path).content.noises.values()) == [m.noise for m in measured]


def test_a_fit_of_an_unknown_kind_is_not_written(tmp_path):
    class Guess(LinearFit):
        pass

    release = made()
    first, *others = release.content.fits
    guessed = replace(
        release, content=replace(release.content, fits=(Guess(first.measurement, first.estimate), *others))
    )
    with pytest.raises(ReleaseFileError, match="Guess"):
        guessed.save(tmp_path / "r.sfumato")
