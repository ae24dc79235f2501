"""Rows of every mechanism have the one-way and two-way shares that the release itself answers.

What is compared: for every attribute and every two of them, the release's answers to COUNT(*) ... GROUP BY, and sixteen
boxes of two ordered attributes.

- Where no answer is negative, the rows follow them up to sampling: Pearson's chi-square over 20,000 rows, groups of
  less than five expected rows taken together. Places are stratified, so that its law is below the chi-square of
  independent rows; the limit has a false-alarm rate of 1e-6 over all comparisons of a release.
- Where some answer is negative no rows can have them all. Then every share is within REACH standard errors of the
  answer (a negative one taken as zero), its own and those of the one-way answers that it is part of, and five of
  sampling.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from curators import curator_of
from scipy.stats import chi2

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.releases.rows.coding import draw_blocks
from sfumato.releases.rows.model import Block, RandomNumbers
from sfumato.releases.rows.raking import ends_of, without_negatives
from sfumato.schema import Schema

ROWS = 20_000
FALSE_ALARMS = 1e-6
REACH = 5.0


def schema_of(**attributes: object) -> Schema:
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def whole(size: int) -> dict[str, object]:
    return {"type": "integer", "lower": 0, "upper": size - 1}


def listed(values: str) -> dict[str, object]:
    return {"type": "category", "values": list(values)}


def line() -> tuple[Schema, np.ndarray]:
    x = np.arange(32)
    return schema_of(x=whole(32)), np.where(x % 16 < 2, 600, 0)


def diagonal() -> tuple[Schema, np.ndarray]:
    x = np.arange(12)
    return schema_of(x=whole(12), y=whole(12)), np.where(abs(x[:, None] - x) <= 1, 60, 0)


def mostly_empty() -> tuple[Schema, np.ndarray]:
    """512 cells, 85 % of the rows of kind a, 10 % b, and hardly any row with a later kind."""
    schema = schema_of(age=whole(16), kind=listed("abcdefgh"), sex=listed("FM"), urgent={"type": "boolean"})
    at = np.random.default_rng(5)
    counts = np.zeros(schema.domain.shape, dtype=np.int64)
    counts[:12, 0] = at.multinomial(1700, np.ones(48) / 48).reshape(12, 2, 2)
    counts[:4, 1, 0] = at.multinomial(200, np.ones(8) / 8).reshape(4, 2)
    counts[5, 2:, 1, 0] = 16
    return schema, counts


TABLES = {"line": line, "diagonal": diagonal, "mostly empty": mostly_empty}


def released(mechanism: str, table: str) -> Release:
    schema, counts = TABLES[table]()
    curator = curator_of(schema, counts, epsilon=1, entropy=TestingEntropy(3))
    content = MECHANISMS[mechanism].run(curator, schema, Budget.pure(1), None)
    return Release(content, mechanism, describe_guarantee(Budget.pure(1), schema), False)


def answers(release: Release, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard errors, by all cells of some attributes."""
    by = ", ".join(names)
    found = [row[-1] for row in release.query(f"SELECT {by}, COUNT(*) FROM t GROUP BY {by} ORDER BY {by}").rows]
    shape = [release.domain[name].size for name in names]
    both = np.array([[each.value, each.stderr] for each in found])
    return both[:, 0].reshape(shape), both[:, 1].reshape(shape)


def drawn_codes(release: Release, model=None) -> dict[str, np.ndarray]:
    blocks = list(draw_blocks(model or release.content.row_model, ROWS, RandomNumbers()))
    return {name: np.concatenate([block.codes[name] for block in blocks]) for name in release.domain.names}


def far_off(drawn: np.ndarray, value: np.ndarray, stderr: np.ndarray, total: float) -> bool:
    """Whether some share of the rows is further from its answer than its error and sampling allow."""
    share = np.clip(value / total, 0.0, 1.0)
    sampling = np.sqrt(share * (1 - share) / ROWS) * total
    return bool((np.abs(drawn / ROWS * total - np.maximum(value, 0.0)) > 5 * sampling + REACH * stderr + 1).any())


def unlike(drawn: np.ndarray, value: np.ndarray, false_alarms: float) -> bool:
    """Whether a chi-square test tells rows from answers, none of which is negative."""
    expected = value / value.sum() * ROWS
    few = expected < 5
    seen, wanted = np.append(drawn[~few], drawn[few].sum()), np.append(expected[~few], expected[few].sum())
    if wanted[-1] < 5:  # so few in all that they go with the largest group
        largest = int(np.argmax(wanted))
        seen[largest], wanted[largest] = seen[largest] + seen[-1], wanted[largest] + wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    return bool(((seen - wanted) ** 2 / wanted).sum() > chi2.isf(false_alarms, max(1, len(wanted) - 1)))


def disagreements(release: Release, model=None) -> list[tuple[str, ...]]:
    """By which attributes rows are further from the release's answers than they may be."""
    codes, found = drawn_codes(release, model), []
    total = release.query("SELECT COUNT(*) FROM t").rows[0][0].value
    asked = [names for ways in (1, 2) for names in combinations(release.domain.names, ways)]
    for names in asked:
        value, stderr = answers(release, names)
        drawn = np.zeros(value.shape)
        np.add.at(drawn, tuple(codes[name] for name in names), 1)
        if value.min() < -1e-6:
            if len(names) == 2:
                sides = [answers(release, (name,))[1] for name in names]
                stderr = np.sqrt(stderr**2 + sides[0][:, None] ** 2 + sides[1] ** 2)
            found += [names] if far_off(drawn, value, stderr, total) else []
        else:
            found += [names] if unlike(drawn.reshape(-1), value.reshape(-1), FALSE_ALARMS / len(asked)) else []
    return found


@pytest.mark.full
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rows_have_the_shares_that_the_release_answers(mechanism, table):
    try:
        release = released(mechanism, table)
    except MechanismError:
        pytest.skip("it does not fit this schema")
    assert disagreements(release) == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_so_do_ranges_whose_cells_are_mostly_noise(mechanism):
    """Quarters of both axes of a diagonal, with the errors that the release gives these boxes."""
    try:
        release = released(mechanism, "diagonal")
    except MechanismError:
        pytest.skip("it does not fit this schema")
    codes = drawn_codes(release)
    total = release.query("SELECT COUNT(*) FROM t").rows[0][0].value
    for x in range(0, 12, 3):
        for y in range(0, 12, 3):
            box = f"x BETWEEN {x} AND {x + 2} AND y BETWEEN {y} AND {y + 2}"
            asked = release.query(f"SELECT COUNT(*) FROM t WHERE {box}").rows[0][0]
            drawn = ((codes["x"] // 3 == x // 3) & (codes["y"] // 3 == y // 3)).sum()
            assert not far_off(np.array([drawn]), np.array([asked.value]), np.array([asked.stderr]), total), box


class ByCells:
    """How rows were drawn once: the nearest cells without negatives, whatever becomes of their sums."""

    def __init__(self, release: Release) -> None:
        self.domain, self.cells = release.domain, release.content.cells()
        self.total = float(self.cells.sum())

    def draw(self, places, random) -> Block:
        found = np.searchsorted(ends_of(without_negatives(self.cells)), places, side="right")
        return Block({name: self.domain.codes_along(name, found) for name in self.domain.names}, {})


@pytest.mark.parametrize("mechanism", ["cells", "hierarchical", "wavelet", "matrix"])
def test_the_comparison_finds_rows_that_only_mind_their_cells(mechanism):
    release = released(mechanism, "mostly empty")
    assert ("kind",) in disagreements(release, ByCells(release))
