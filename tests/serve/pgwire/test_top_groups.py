"""Joins of a table with its own largest groups: the groups that noise chose, and intervals that know of the choice."""

from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.serve.pgwire.asking import Answer, Asked, answer
from sfumato.serve.pgwire.catalogue.tables import Who
from sfumato.serve.pgwire.protocol import Failure
from sfumato.serve.web.questions import Query
from sfumato.serve.web.requests import Refusal

TOP = "(SELECT region AS region__, COUNT(*) AS m FROM survey GROUP BY region ORDER BY m DESC LIMIT 2) AS top"
BY_SEX = "SELECT sex, region, COUNT(*) AS n FROM survey {} GROUP BY sex, region ORDER BY sex, region"
NAMED = "region IN ('North', 'South')"


def ask(shelf, text, **how):
    return Answer.unpacked(answer(shelf, None, Asked(text, Who("me", "db"), Query(sql="-", **how))))


def test_groups_become_a_condition_and_intervals_allow_for_the_choice(shelf):
    """Two of four groups are shown: intervals at 0.95 are those at 1 - 2/4 * 0.05 of groups that are named."""
    found = ask(shelf, BY_SEX.format(f"JOIN {TOP} ON region = region__"))
    named = ask(shelf, BY_SEX.format(f"WHERE {NAMED}"), confidence=0.975)
    assert found.rows == named.rows and found.count == 4
    assert found.notes[0].startswith("note: the 2 rows shown were chosen among 4 because their noisy values came out")
    plain = ask(shelf, BY_SEX.format(f"WHERE {NAMED}"))
    unaware = ask(shelf, BY_SEX.format(f"JOIN {TOP} ON region = region__"), selected=False)
    assert unaware.rows == plain.rows != found.rows and "may hold less often" in unaware.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        BY_SEX.format(f"INNER JOIN {TOP} ON survey.region = top.region__"),
        BY_SEX.format(f"AS s JOIN {TOP} ON top.region__ = s.region WHERE s.age >= 0"),
        BY_SEX.format(f"JOIN {TOP} ON region = region__").replace("survey", 'public."survey"'),
    ],
)
def test_it_is_read_in_every_spelling(shelf, text):
    named = ask(shelf, BY_SEX.format(f"WHERE {NAMED} AND age >= 0"), confidence=0.975)
    assert ask(shelf, text).rows == named.rows


def test_groups_of_two_columns_and_groups_that_keys_chose(shelf):
    two = "(SELECT sex AS s, region AS r, COUNT(*) AS m FROM survey GROUP BY sex, region ORDER BY m DESC LIMIT 2) AS t"
    found = ask(shelf, BY_SEX.format(f"JOIN {two} ON sex = s AND region = r"))
    assert found.count == 2 and "chosen among 8" in found.notes[0]
    first = TOP.replace("ORDER BY m DESC", "ORDER BY region")
    by_key = ask(shelf, BY_SEX.format(f"JOIN {first} ON region = region__"))
    named = ask(shelf, BY_SEX.format("WHERE region IN ('North', 'South')"))
    assert not any("chosen" in note for note in by_key.notes) and by_key.rows == named.rows


@pytest.mark.parametrize(
    "join",
    [
        f"LEFT JOIN {TOP} ON region = region__",
        f"JOIN {TOP} ON region <> region__",
        f"JOIN {TOP} ON region = region__ AND m > 5",
        f"JOIN {TOP.replace('survey', 'harm')} ON region = region__",
        f"JOIN {TOP} ON region = region__ JOIN {TOP.replace('region', 'sex').replace('top', 'other')} ON sex = sex__",
    ],
)
def test_other_joins_are_left_to_the_parser(shelf, join):
    """Which answers them, or refuses them by name; never are they read as something else."""
    try:
        found = ask(shelf, BY_SEX.format(join))
    except (SfumatoError, Failure, Refusal) as error:
        assert "JOIN" in str(error).upper() or "one table" in str(error)
    else:
        assert found.rows != ask(shelf, BY_SEX.format(f"WHERE {NAMED}"), confidence=0.975).rows
