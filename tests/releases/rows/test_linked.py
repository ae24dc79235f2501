"""Synthetic rows of linked tables have keys that match, their parents' values, and numbers of children that fit."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from hospital import LINKS, linked_once

from sfumato.releases.rows.from_parts import draw_linked

LINKED = (
    "SELECT COUNT(*), SUM((p.age = v.age AND p.region = v.region AND p.household_id = v.household_id)::INT) "
    "FROM visits v JOIN persons p USING (person_id)"
)


def asked(tables, sql):
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        return database.execute(sql).fetchall()


@pytest.mark.parametrize("mechanism", ["cells", "sfumato", "margins"])
def test_children_agree_with_their_parents(mechanism):
    whole = linked_once(mechanism)
    tables = whole.sample_tables(seed=1)
    visits = tables["visits"].num_rows
    assert asked(tables, LINKED) == [(visits, visits)]
    assert asked(tables, "SELECT COUNT(DISTINCT person_id) = COUNT(*) FROM persons") == [(True,)]
    fits = "SELECT DISTINCT fits FROM (SELECT p.person_id, p.visits = COUNT(v.person_id) AS fits FROM persons p LEFT "
    assert asked(tables, fits + "JOIN visits v USING (person_id) GROUP BY p.person_id, p.visits)") == [(True,)]
    for name, one in whole.sample_tables(seed=1).items():
        assert one.equals(tables[name])
    assert not whole.sample_tables(seed=2)["visits"].equals(tables["visits"])


def test_without_a_count_children_are_dealt_by_the_release():
    """Numbers of visits by region are the release's own; no person has more than the link allows."""
    whole = linked_once()
    links = [replace(LINKS[0], counts={}), LINKS[1]]
    drawn = draw_linked(whole.tables, links, seed=3)
    tables = {name: one.rows for name, one in drawn.items()}
    ((most,),) = asked(tables, "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY person_id)")
    assert most <= 6
    rows = dict(asked(tables, "SELECT region, COUNT(*) FROM visits GROUP BY region"))
    for region, count in whole.query("SELECT region, COUNT(*) AS n FROM visits GROUP BY region").rows:
        assert abs(rows[region] - count.value) <= 20  # rounded in 5 groups of ages, some of which are noise below zero
    visits = tables["visits"].num_rows
    assert asked(tables, LINKED) == [(visits, visits)]


def test_tables_that_carry_nothing_and_grandchildren():
    whole = linked_once()
    links = [
        replace(LINKS[0], counts={}),
        replace(LINKS[1], carried=[], key="visit_id"),
        replace(LINKS[1], name="bills", belongs_to="visits", by="visit_id", at_most=2, limit=48, carried=["ill"]),
    ]
    tables = {**whole.tables, "bills": whole.tables["visits"]}
    drawn = draw_linked(tables, links, rows=500, seed=4)
    assert drawn["persons"].rows.num_rows == 500
    keys = drawn["visits"].rows.column("visit_id").to_numpy()
    whose = drawn["bills"].rows.column("visit_id").to_numpy()
    assert np.isin(whose, keys).all() and np.bincount(whose).max() <= 2
    share = drawn["visits"].rows.num_rows / 500
    truth = whole.tables["visits"].content.row_model.total / whole.tables["persons"].content.row_model.total
    assert abs(share - truth) < 0.1
