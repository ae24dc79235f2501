"""Answers from margins: joined along a question's attributes, the same however they are asked for."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.models.margins.content import FINE, MOST_ATTRIBUTES, Margins
from sfumato.models.margins.scales import Scaled, Spreads, halved
from sfumato.models.margins.table import Table, subsets, sum_out
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.artifact import write_artifact
from sfumato.releases.release import Release, contents_of
from sfumato.schema import Schema

SHAPE = (10, 3, 4, 5)
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "sex": {"type": "category", "values": ["F", "M", "X"]},
            "job": {"type": "category", "values": ["a", "b", "c", "d"]},
            "pay": {"type": "number", "lower": 0, "upper": 100, "bins": 5},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)
TRUTH = np.random.default_rng(4).poisson(np.random.default_rng(8).gamma(0.5, 20.0, SHAPE)).astype(float)
SUMS = TRUTH * np.arange(-2.0, 3.0)


def tables_of(truth: np.ndarray, most: int = 2, variance: float = 4.0) -> dict:
    parts = [part for part in subsets(tuple(range(truth.ndim))) if len(part) <= most]
    exact = {part: sum_out(truth, part, range(truth.ndim)) for part in parts}
    return {
        part: Table(part, each, np.full(each.shape, variance), np.zeros(each.shape)) for part, each in exact.items()
    }


def release(unbiased: bool = False, most: int = 2) -> Release:
    tables = {"count": tables_of(TRUTH, most), "m": tables_of(SUMS, most)}
    spreads = {"count": Spreads((0.0, 0.0, 1.5, 2.0), {(0, 1, 2): 3.0}), "m": Spreads((0.0, 9.0))}
    content = Margins(SCHEMA, tables, {} if unbiased else spreads, unbiased=unbiased)
    return Release(content, "toy", describe_guarantee(Budget.pure(1), SCHEMA), True)


def one(made: Release, sql: str):
    ((found,),) = made.query(sql).rows
    return found


@pytest.mark.parametrize("unbiased", [False, True])
def test_what_was_measured_is_answered_as_it_was_measured(unbiased):
    made = release(unbiased)
    assert one(made, "SELECT COUNT(*) FROM t").value == pytest.approx(TRUTH.sum())
    assert one(made, "SELECT COUNT(*) FROM t WHERE age < 4").value == pytest.approx(TRUTH[:4].sum())
    both = "SELECT COUNT(*) FROM t WHERE age = 3 AND job IN ('a', 'c')"
    assert one(made, both).value == pytest.approx(TRUTH[3][:, [0, 2]].sum())
    sums = (SUMS + 50 * TRUTH)[:, 0]
    assert one(made, "SELECT SUM(m) FROM t WHERE sex = 'F'").value == pytest.approx(sums.sum(), rel=1e-4)
    assert one(made, "SELECT AVG(m) FROM t WHERE sex = 'F'").value == pytest.approx(
        sums.sum() / TRUTH[:, 0].sum(), rel=1e-4
    )
    assert one(made, "SELECT COUNT(*) FROM t").stderr == pytest.approx(2.0, rel=1e-3)


def test_an_unbiased_release_says_what_it_does_not_know():
    made = release(unbiased=True)
    three = "SELECT COUNT(*) FROM t WHERE age = 3 AND job = 'a' AND sex = 'F'"
    assert np.isnan(one(made, three).value) or np.isinf(one(made, three).high)
    assert "does not determine" in made.query(three).notes[0]
    known = one(release(unbiased=True, most=3), three)
    assert known.value == pytest.approx(TRUTH[3, 0, 0].sum())


SAME = [
    ("WHERE sex = 'F' AND age < 5 AND job = 'b'", "WHERE NOT (sex <> 'F' OR age >= 5 OR job <> 'b')"),
    ("WHERE sex = 'F' AND job = 'b'", "WHERE sex = 'F' AND job = 'b' AND age BETWEEN 0 AND 9"),
    ("WHERE sex = 'F' AND job = 'b' AND pay < 40", "WHERE sex = 'F' AND job = 'b' AND pay < 40 AND age >= 0"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_one_question_asked_in_two_ways_has_one_answer(first, second):
    made = release()
    a, b = (one(made, f"SELECT COUNT(*) FROM t {where}") for where in (first, second))
    assert (a.value, a.stderr, a.low, a.high) == pytest.approx((b.value, b.stderr, b.low, b.high))


def test_groups_filters_and_marginals_agree():
    made = release()
    grouped = {
        row[0]: row[1]
        for row in made.query("SELECT sex, COUNT(*) FROM t WHERE job = 'c' AND age > 2 GROUP BY sex").rows
    }
    for sex, found in grouped.items():
        alone = one(made, f"SELECT COUNT(*) FROM t WHERE job = 'c' AND age > 2 AND sex = '{sex}'")
        assert alone.value == pytest.approx(found.value) and alone.stderr == pytest.approx(found.stderr)
    table = made.marginal("sex", "job")
    assert table.columns == ("sex", "job", "count") and len(table.rows) == 12
    assert table.rows[5][2].value == pytest.approx(TRUTH[:, 1, 1].sum())


def test_what_joins_margins_has_the_error_of_joining():
    made = release()
    cells = [made.query("SELECT age, sex, job, COUNT(*) FROM t GROUP BY age, sex, job")]
    joined = made.content.joined({place: np.arange(SHAPE[place]) for place in (0, 1, 2)})["count"]
    for row, expected in zip(cells[0].rows, joined.reshape(-1), strict=True):
        assert row[3].value == pytest.approx(expected)
        assert row[3].model == pytest.approx(0.0, abs=1e-9) if expected < 1e-9 else row[3].model > 0
    assert one(made, "SELECT COUNT(*) FROM t WHERE age = 3").model == 0.0


def test_questions_over_many_attributes_join_kinds_of_values_only():
    names = [f"q{place:02d}" for place in range(40)]
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {name: {"type": "integer", "lower": 0, "upper": 49} for name in names},
        }
    )
    assert schema.domain.size == 50**40 and FINE < 50**4
    tables = {(): Table((), np.array(5e4), np.array(9.0), np.array(0.0))}
    for place in range(40):
        tables[place,] = Table((place,), np.full(50, 1e3), np.full(50, 9.0), np.zeros(50))
    for a, b in combinations(range(40), 2):
        tables[a, b] = Table((a, b), np.full((50, 50), 20.0), np.full((50, 50), 9.0), np.zeros((50, 50)))
    content = Margins(schema, {"count": tables}, {"count": Spreads((0.0, 0.0, 1.0))})
    made = Release(content, "toy", describe_guarantee(Budget.pure(1), schema), True)
    asked = " AND ".join(f"{name} < 25" for name in names[:8])
    assert one(made, f"SELECT COUNT(*) FROM t WHERE {asked}").value == pytest.approx(5e4 / 2**8, rel=1e-3)
    grouped, kept = ", ".join(names[:3]), " AND ".join(f"{name} < 25" for name in names[3:9])
    with pytest.raises(QueryError, match=r"tells apart 8e\+06 cells, and 4,194,304 can be joined; leave out"):
        made.query(f"SELECT {grouped}, COUNT(*) FROM t WHERE {kept} GROUP BY {grouped} LIMIT 1")
    many = " AND ".join(f"{name} < 25" for name in names[: MOST_ATTRIBUTES + 1])
    with pytest.raises(QueryError, match=f"is about {MOST_ATTRIBUTES + 1} attributes, and {MOST_ATTRIBUTES} can be"):
        made.query(f"SELECT COUNT(*) FROM t WHERE {many}")


def test_a_file_gives_back_what_was_published(tmp_path):
    made = release()
    opened = Release.load(made.save(tmp_path / "r.sfumato"))
    for sql in ("SELECT COUNT(*) FROM t", "SELECT sex, job, pay, COUNT(*), AVG(m) FROM t GROUP BY sex, job, pay"):
        assert opened.query(sql).records() == made.query(sql).records()
    assert opened.save(tmp_path / "again.sfumato").read_bytes() == (tmp_path / "r.sfumato").read_bytes()


def changed(member: str, column: str, change) -> tuple:
    contents = contents_of(release())
    members = {name: dict(columns) for name, columns in contents.members.items()}
    members[member][column] = change(members[member][column].copy())
    return contents.manifest, members


def put(place: int, value: int):
    def change(numbers: np.ndarray) -> np.ndarray:
        numbers[place] = value
        return numbers

    return change


@pytest.mark.parametrize(
    ("member", "column", "change", "message"),
    [
        ("cells", "parts of estimate", put(0, 1024), "not spelled"),
        ("cells", "noise", put(3, -1), "not spelled"),
        ("cells", "estimate", put(5, -7), "negative counts"),
        ("attributes", "attribute", put(0, 4), "do not go with its schema"),
        ("attributes", "attribute", put(5, 0), "not in order"),
        ("tables", "attributes", put(1, 9), "do not go with its schema"),
        ("tables", "statistic", put(2, 2), "statistics that its schema does not have"),
        ("tables", "spread", put(1, 5), "cells"),
    ],
)
def test_files_that_were_made_up_are_refused(tmp_path, member, column, change, message):
    path = tmp_path / "r.sfumato"
    with pytest.raises(ReleaseFileError, match=message):
        write_artifact(path, *changed(member, column, change))
        Release.load(path)


def test_details_that_do_not_go_with_the_schema_are_refused(tmp_path):
    contents = contents_of(release())
    for details in (
        {"unbiased": False, "noises": [], "spreads": []},
        {"unbiased": 1, "noises": [], "spreads": [[], []]},
        {"unbiased": False, "noises": [], "spreads": [[], []], "guessed": [[10], [1, 2]]},
        {"unbiased": False, "noises": [], "spreads": [[], []], "guessed": [[-1], [0] * 10, [0] * 3, [0] * 4, [0] * 5]},
    ):
        with pytest.raises(ReleaseFileError):
            write_artifact(tmp_path / "r.sfumato", replace(contents.manifest, details=details), contents.members)
            Release.load(tmp_path / "r.sfumato")


def test_cells_are_laid_out_where_they_are_few():
    cells = release().content.cells().reshape(SHAPE)
    assert (cells >= 0).all()
    for pair in combinations(range(4), 2):
        assert np.abs(sum_out(cells, pair, range(4)) - sum_out(TRUTH, pair, range(4))).sum() < 1e-4 * TRUTH.sum()


# -- errors of blocks of cells

SCALED = Spreads(
    (0.0, 0.0, 1.5, 2.0),
    {(0, 1, 2): 3.0},
    {3: Scaled((0.0, 0.0, 0.0), (0.3, 0.7, 1.1))},
    {
        (0, 1): Scaled((0.11, 0.07, 0.03), (2.0, 1.0, 0.6), (0.4, 0.2)),
        (1, 2): Scaled((0.2, 0.1, 0.05), (0.9, 0.5, 0.3), (0.0, 0.1)),
        (0, 1, 2): Scaled((0.0, 0.0, 0.0), (0.4, 0.8, 1.6)),
    },
    {(0, 1, 2): -777.4},
)


def with_blocks(spreads: Spreads = SCALED) -> Release:
    made = release()
    content = Margins(SCHEMA, made.content.tables, {**made.content.spreads, "count": spreads})
    return Release(content, "toy", made.guarantee, True)


ASKED = (
    "SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'F'",
    "SELECT sex, COUNT(*) FROM t WHERE job IN ('a', 'b') GROUP BY sex",
    "SELECT sex, job, pay, COUNT(*), AVG(m) FROM t WHERE age < 5 GROUP BY sex, job, pay",
)


SIXTEENTHS = replace(
    SCALED,
    blocks_by_order={3: Scaled((0.0,) * 4, (0.3, 0.7, 1.1, 1.2))},
    blocks={
        (0, 1): Scaled((0.11, 0.07, 0.03, 0.02), (2.0, 1.0, 0.6, 0.9), (0.4, 0.2)),
        (0, 1, 2): Scaled((0.0,) * 4, (0.4, 0.8, 1.6, 2.0)),
    },
)


@pytest.mark.parametrize("spreads", [SCALED, SIXTEENTHS])  # as files had them at first, and as they have them
def test_a_file_gives_back_errors_of_blocks(spreads, tmp_path):
    made = with_blocks(spreads)
    opened = Release.load(made.save(tmp_path / "r.sfumato"))
    assert contents_of(made).manifest.version == 5 and contents_of(release()).manifest.version == 3
    for sql in ASKED:
        assert opened.query(sql).records() == made.query(sql).records()
    assert opened.content.spreads == made.content.spreads
    assert opened.content.spreads["count"].contrasts == {(0, 1, 2): -777.0}
    assert opened.save(tmp_path / "again.sfumato").read_bytes() == (tmp_path / "r.sfumato").read_bytes()


def test_older_files_keep_the_halves_that_their_errors_were_measured_in():
    """Three levels: axes were halved by rows alone; four: by rows and values alike."""
    for spreads, by_rows in ((SCALED, True), (SIXTEENTHS, False)):
        content = with_blocks(spreads).content
        for place in range(4):
            wanted = halved(content.tables["count"][place,].estimate, by_rows=by_rows)
            found = content.blocks[place]
            assert all(map(np.array_equal, found, wanted)) and len(found) == len(wanted) + 1
    ages = np.array([9000.0, *[10.0] * 9])
    assert [each.tolist() for each in halved(ages, by_rows=True)] != [each.tolist() for each in halved(ages)]


def test_a_file_without_errors_of_blocks_opens_as_it_did(tmp_path):
    opened = Release.load(release().save(tmp_path / "r.sfumato"))
    assert not opened.content.spreads["count"].blocks and not opened.content.spreads["count"].contrasts
    for sql in ASKED:
        assert opened.query(sql).records() == release().query(sql).records()


def test_blocks_add_to_errors_of_ranges_and_contrasts_move_joins():
    """Halves of age and F: spread 2.11 for each row of a block, where cells of the pair claim a variance of 4."""
    plain, scaled = one(release(), ASKED[0]), one(with_blocks(), ASKED[0])
    assert scaled.value == pytest.approx(plain.value) and scaled.stderr > 1.5 * plain.stderr
    total = "SELECT COUNT(*) FROM t WHERE age < 5"  # margins are as sure as before
    assert one(release(), total).stderr == pytest.approx(one(with_blocks(), total).stderr)
    three = "SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'F' AND job IN ('a', 'b')"
    without = with_blocks(replace(SCALED, contrasts={}))
    assert one(with_blocks(), three).value != pytest.approx(one(without, three).value, rel=1e-3)


def first_of(member: str, column: str, value: int):
    def change(members: dict) -> None:
        members[member][column] = put(0, value)(members[member][column].copy())

    return change


def repeated(members: dict) -> None:
    """A second line for the first set."""
    blocks, among = members["blocks"], members["among"]
    here = int(np.flatnonzero(blocks["all"] == 0)[0])
    order = int(blocks["attributes"][here])
    members["blocks"] = {name: np.append(each, each[here]) for name, each in blocks.items()}
    members["among"] = {"attribute": np.append(among["attribute"], among["attribute"][:order])}


def repeated_order(members: dict) -> None:
    here = int(np.flatnonzero(members["blocks"]["all"])[0])
    members["blocks"] = {name: np.append(each, each[here]) for name, each in members["blocks"].items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (repeated, "twice"),
        (repeated_order, "twice"),
        (first_of("blocks", "all", 2), "not spelled"),
        (first_of("blocks", "contrasted", 2), "not spelled"),
        (first_of("blocks", "attributes", 1), "not spelled"),
        (first_of("blocks", "noise 0", -1), "not spelled"),
        (first_of("blocks", "statistic", 2), "statistics that its schema does not have"),
        (first_of("among", "attribute", 4), "do not go with its schema"),
        (first_of("among", "attribute", 1), "not in order"),
        (first_of("blocks", "all", 0), "do not go with its schema"),
    ],
)
def test_blocks_that_were_made_up_are_refused(tmp_path, change, message):
    contents = contents_of(with_blocks())
    members = {name: dict(columns) for name, columns in contents.members.items()}
    change(members)
    with pytest.raises(ReleaseFileError, match=message):
        write_artifact(tmp_path / "r.sfumato", contents.manifest, members)
        Release.load(tmp_path / "r.sfumato")


def test_a_version_goes_with_its_members(tmp_path):
    for made, version in ((with_blocks(), 3), (release(), 5)):
        contents = contents_of(made)
        with pytest.raises(ReleaseFileError, match="its version does not go with its members"):
            write_artifact(tmp_path / "r.sfumato", replace(contents.manifest, version=version), contents.members)
            Release.load(tmp_path / "r.sfumato")


def test_a_question_asked_again_has_the_same_answer_from_the_same_table():
    made = release()
    sql = "SELECT age, job, COUNT(*), SUM(m) FROM t GROUP BY age, job"
    first, kept = made.query(sql).records(), made.content._recent[:]
    assert len(kept) == 1
    assert made.query(sql).records() == first == release().query(sql).records()
    assert [joined for _, joined in made.content._recent] == [joined for _, joined in kept]  # the same value
    with pytest.raises(ValueError, match="read-only"):
        kept[0][1]["count"][0, 0] = 1.0


def test_no_more_joined_tables_are_kept_than_fit(monkeypatch):
    monkeypatch.setattr("sfumato.models.margins.content.FINE", 80)
    made = release()
    for names in combinations(("age", "sex", "job", "pay"), 2):
        made.query(f"SELECT {', '.join(names)}, COUNT(*) FROM t GROUP BY {', '.join(names)}")
        assert sum(joined["count"].size for _, joined in made.content._recent) <= 80
    assert [places for (places, _), _ in made.content._recent][-1] == (2, 3)
