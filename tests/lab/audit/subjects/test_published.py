"""The audit sees whatever a file shows: every number of every member, and everything that a manifest says."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.subjects.registry import (
    CELLS,
    EMPTY_CELL,
    Layout,
    Shown,
    audit_schema,
    in_order_of_size,
    numbers_and_words,
    shown,
)
from sfumato.lab.audit.subjects.subject import BUDGET, HIDDEN, aggregate_of, curator_of
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.artifact import read_artifact
from sfumato.releases.file.manifest import content_of
from sfumato.releases.release import Release, contents_of

SCHEMA = audit_schema(1)


def released(name: str, seed: int = 0) -> Release:
    half = SCHEMA.measures["m"].half_units
    curator = curator_of(SCHEMA.domain, aggregate_of(EMPTY_CELL, (0,) * CELLS), TestingEntropy(seed), 1, half)
    cube = MECHANISMS[name].run(curator, SCHEMA, BUDGET, None)
    return Release(cube, name, describe_guarantee(BUDGET, SCHEMA), private=False)


def layout_of(name: str) -> Layout:
    return Layout.of(shown(contents_of(released(name, seed)), CELLS) for seed in range(1, 9))


def row(layout: Layout, contents) -> bytes:
    return layout.row(shown(contents, CELLS)).tobytes()


def with_entry(contents, member: str, column: str, place: int, value: int):
    values = contents.members[member][column].copy()
    values[place] = value
    return replace(contents, members={**contents.members, member: {**contents.members[member], column: values}})


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_number_changed_in_any_member_changes_the_row(name):
    """Every entry of every column, by one, by a lot, and to the least there is but one."""
    layout, contents = layout_of(name), contents_of(released(name))
    before, changed = row(layout, contents), 0
    for member, columns in contents.members.items():
        for column, values in columns.items():
            for place, value in enumerate(values.tolist()):
                for other in (value + 1, value - 1, value + 2**40, HIDDEN + 1):
                    assert row(layout, with_entry(contents, member, column, place, other)) != before, (member, column)
                    changed += 1
    assert changed == 4 * sum(len(v) for columns in contents.members.values() for v in columns.values()) >= 8


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_member_that_is_shorter_or_longer_or_gone_changes_the_row(name):
    layout, contents = layout_of(name), contents_of(released(name))
    before = row(layout, contents)
    for member, columns in contents.members.items():
        shorter = {column: values[:-1] for column, values in columns.items()}
        longer = {column: np.append(values, values[-1:] + 1) for column, values in columns.items()}
        for other in (shorter, longer, {**columns, "another": next(iter(columns.values()))}):
            assert row(layout, replace(contents, members={**contents.members, member: other})) != before
        without = {key: each for key, each in contents.members.items() if key != member}
        assert row(layout, replace(contents, members=without)) != before


def altered(value: object):
    """The same value with one thing in it changed, for each thing that is in it."""
    if is_dataclass(value):
        for part in fields(value):
            for other in altered(getattr(value, part.name)):
                with suppress(ValueError):  # a guarantee that contradicts itself cannot be made, let alone written
                    yield replace(value, **{part.name: other})
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: other} for other in altered(inner))
            yield {other: value[other] for other in value if other != key}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from ([*value[:place], other, *value[place + 1 :]] for other in altered(inner))
        yield [*value, *(value[-1:] or [1])]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | Fraction):
        yield from (value + 1, value - 1)
    elif isinstance(value, float):
        yield from (value + 0.5, -value)
    elif isinstance(value, str):
        yield value + "x"
    elif value is None:
        yield 7
    else:
        raise TypeError(f"a manifest holds {type(value).__name__}, which this test does not know how to change")


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # some of it could not be written, and all is seen
def test_anything_changed_in_a_manifest_changes_the_row(name):
    layout, contents = layout_of(name), contents_of(released(name))
    before, changed = row(layout, contents), 0
    for manifest in altered(contents.manifest):
        assert row(layout, replace(contents, manifest=manifest)) != before, manifest
        changed += 1
    assert changed > 60


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_file_holds_exactly_the_contents(name, tmp_path):
    """What is written besides follows from them: how long members are, and their digests."""
    release = released(name)
    contents = contents_of(release)
    release.save(tmp_path / "one.sfumato")
    artifact = read_artifact(tmp_path / "one.sfumato")
    assert content_of(replace(artifact.manifest, members={})) == content_of(contents.manifest)
    assert set(artifact.manifest.members) == set(contents.members)
    for member, columns in contents.members.items():
        found = artifact.read(member)
        assert list(found) == list(columns)
        assert all(np.array_equal(found[column], values) for column, values in columns.items())


def test_nothing_is_written_but_the_contents(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr("sfumato.releases.release.write_artifact", lambda *what: given.append(what) or "digest")
    release = released("cells")
    monkeypatch.setattr("sfumato.releases.release.contents_of", lambda of: contents if of is release else None)
    contents = contents_of(released("laplace"))
    release.save(tmp_path / "one.sfumato")
    assert given == [(tmp_path / "one.sfumato", contents.manifest, contents.members)]


def test_arrays_that_change_in_length_do_not_move_those_behind_them():
    """A partition has as many regions as the noise shows; the answers of the measure come after and stay in place."""
    releases = [released("kdtree", seed) for seed in range(20)]
    found = [shown(contents_of(release), CELLS) for release in releases]
    layout = Layout.of(found)
    lengths = {tuple(map(len, one.columns.values())) for one in found}
    assert len(lengths) > 1
    last = [name for name in found[0].columns if name.startswith("numbers, ")][-1]
    start, room = layout.columns[last]
    for one, release in zip(found, releases, strict=True):
        assert room == CELLS and (layout.row(one)[start + 1 : start + 1 + room] == one.columns[last]).all()
        assert (one.columns[last] == release.content.fits[-1].measurements[0].answers).all()


def test_cells_that_are_numbered_are_laid_out_by_their_numbers():
    release = released("sparse-cells")
    found = shown(contents_of(release), CELLS)
    cells, answers = release.content.measurements[0].cells, release.content.measurements[0].answers
    assert 0 < len(cells) < CELLS and found.numbers["cells, rows"] == len(cells)
    assert (found.columns["cells, count"][cells] == answers).all()
    assert np.count_nonzero(found.columns["cells, count"] == HIDDEN) == CELLS - len(cells)


def test_estimates_are_laid_out_in_parts_too():
    release = released("mwem")
    found = shown(contents_of(release), CELLS).columns
    estimate = release.content.fits[0].estimate
    assert (found["cells, count in parts"] == estimate * 1024).all()
    assert (found["cells, count"] == np.floor(estimate)).all()


def test_what_the_first_runs_did_not_show_is_told_by_the_first_number():
    seen = Shown({"a": 1}, {"x": np.array([1, 2])}, b"words")
    layout = Layout.of([seen])
    longer = replace(seen, columns={"x": np.array([1, 2, 3])})
    unknown = replace(seen, columns={**seen.columns, "y": np.array([], dtype=np.int64)})
    rows = [layout.row(one) for one in (seen, longer, unknown, replace(seen, numbers={"a": 1, "b": 0}))]
    assert rows[0].tolist()[1:] == [1, 2, 1, 2] and rows[1].tolist()[1:] == [1, 3, 1, 2]
    assert len({int(each[0]) for each in rows}) == 4
    assert layout.row(Shown({}, {}, b"words")).tolist()[1:] == [HIDDEN] * 4


def test_numbers_of_any_kind_in_a_manifest_have_a_place_and_words_have_none():
    numbers, words = numbers_and_words(json.dumps({"a": 3, "b": [1, True, None, "x"], "c": {"d": -0.5}, "e": 2**70}))
    assert numbers == {"/a": 3, "/b length": 4, "/b/0": 1, "/c/d": in_order_of_size(-0.5)}
    assert all(each in words.decode() for each in ("/b/1: True", "/b/2: None", "/b/3: 'x'", f"/e: {2**70}"))


def test_floating_point_numbers_keep_their_order():
    sizes = [-1e300, -2.0, -1.0, -1e-300, -0.0, 0.0, 1e-300, 1.0, 1.5, 1e300]
    found = [in_order_of_size(size) for size in sizes]
    assert found == sorted(set(found)) and max(map(abs, found)) < 2**63
