"""A content is one file and one line: a toy of another kind is saved, opened, asked, sampled and audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.answers.results import Estimate, Result
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.lab.audit.subjects.registry import shown
from sfumato.measurement import Laplace
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Identity, Total
from sfumato.releases.contents.content import KINDS, About, Content, Written
from sfumato.releases.contents.cube import Cube
from sfumato.releases.file.manifest import Manifest, details_as
from sfumato.releases.file.members import CELLS, Columns, check_columns, check_rows, statistic
from sfumato.releases.file.records import record
from sfumato.releases.release import Release, contents_of
from sfumato.releases.rows.model import Block, volumes
from sfumato.schema import Schema


@record
class Weight:
    """What a toy's manifest says besides."""

    weight: int


@dataclass(frozen=True, eq=False)
class EvenRows:
    """All that a content gives to be sampled: rows by cells, and its own answers about them."""

    schema: Schema
    total: float

    def draw(self, places, random) -> Block:
        codes = {axis.name: (random.uniform(len(places)) * axis.size).astype(np.int64) for axis in self.schema.domain}
        return Block(codes, {name: np.full(len(places), 500.0) for name in self.schema.measures})

    def margin(self, groupings) -> np.ndarray:
        shares = volumes(groupings, dict(zip(self.schema.domain.names, self.schema.domain.shape, strict=True)))
        return shares / shares.sum() * self.total


@dataclass(frozen=True, eq=False)
class OneNumber(Content):
    """A release of nothing but how many rows there are."""

    uses = frozenset({"details"})

    schema: Schema
    rows: int
    noise: Laplace
    weight: int = 7

    def select(self, select, confidence: float) -> Result:
        error = float(np.sqrt(self.noise.variance))
        found = Estimate(float(self.rows), error, self.rows - 2 * error, self.rows + 2 * error, confidence, error)
        return Result(("rows",), ((found,),), confidence, ("this release knows one number",))

    @property
    def row_model(self) -> EvenRows:
        return EvenRows(self.schema, self.rows)

    @property
    def about(self) -> About:
        return About(self.domain.names, "one number", (), "the number carries noise")

    def write(self) -> Written:
        count = statistic("count", self.schema, self.noise)
        members = {CELLS: {count.column: np.array([self.rows])}}
        return Written("one-number", [count], members, {"details": {"weight": self.weight}})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        check_columns(manifest, ())
        check_rows(manifest, {CELLS: 1})
        details_as(Weight, manifest)

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        assert "count" in columns

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> OneNumber:
        (count,) = manifest.statistics
        weight = details_as(Weight, manifest).weight
        return cls(schema, int(member(CELLS)["count"][0]), count.noise.noise, weight)


@pytest.fixture
def toy(census, monkeypatch) -> Release:
    monkeypatch.setitem(KINDS, "one-number", f"{__name__}.OneNumber")
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(OneNumber=OneNumber))
    measured = curator_of(census, np.ones(200)).measure(Total(200), Budget.pure(1))
    content = OneNumber(census, int(measured.answers[0]), measured.noise)
    return Release(content, "toy", describe_guarantee(Budget.pure(1), census), True)


def test_a_new_kind_is_saved_opened_asked_and_sampled_without_another_line(toy, tmp_path):
    path = toy.save(tmp_path / "r.sfumato")
    opened = Release.load(path)
    assert isinstance(opened.content, OneNumber) and opened.content.rows == toy.content.rows
    result = opened.query("SELECT COUNT(*) FROM census")
    assert result.rows[0][0].value == toy.content.rows and result.notes == ("this release knows one number",)
    assert opened.sample(3).num_rows == 3 and "one number" in repr(opened)
    assert opened.sample(3).column_names == ["person_id", "age", "sex", "income"]
    drawn = opened.sample_to(tmp_path / "rows.csv", 20_000)
    assert all(one.mean < 3 * one.mean_by_chance for one in drawn.agreements) and len(drawn.agreements) == 2
    assert opened.save(tmp_path / "again.sfumato").read_bytes() == path.read_bytes()


def test_the_audit_sees_every_number_of_a_new_kind(toy):
    found = shown(contents_of(toy), 200)
    assert found.columns["cells, count"].tolist() == [toy.content.rows]
    assert found.numbers["/details/weight"] == 7


def test_what_a_content_cannot_do_is_refused_in_one_line(toy):
    for ask in (lambda: toy.answer(Identity(200)), toy.content.cells):
        with pytest.raises(QueryError, match="ask it by SQL"):
            ask()


def test_details_that_its_kind_does_not_know_are_refused(toy, tmp_path):
    odd = contents_of(toy)
    from sfumato.releases.file.artifact import write_artifact

    for details in ({"weight": "7"}, {"weight": 7, "more": 1}, {}):
        with pytest.raises(ReleaseFileError, match="details"):
            write_artifact(tmp_path / "r.sfumato", replace(odd.manifest, details=details), odd.members)


def test_a_kind_nobody_knows_says_to_upgrade(toy, tmp_path, monkeypatch):
    path = toy.save(tmp_path / "r.sfumato")
    monkeypatch.delitem(KINDS, "one-number")
    with pytest.raises(ReleaseFileError, match="does not know; upgrade"):
        Release.load(path)


def test_every_kind_says_what_it_knows(census):
    curator = curator_of(census, np.arange(200), epsilon=Fraction(2))
    cube = Cube.of_cells(census, [curator.measure(Identity(200), Budget.pure(1), of=of) for of in ("count", "income")])
    assert cube.about.attributes == ("age", "sex") and cube.about.extent == "200 cells"
    assert [measured.of for measured in cube.about.measured] == ["count", "income"]
    assert "noise of its own" in cube.about.errors
