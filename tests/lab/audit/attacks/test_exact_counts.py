"""The exact audit of exact counts: tables that agree lose d epsilon, no more and no less; others are told apart."""

from __future__ import annotations

from math import inf

import pytest

from sfumato.lab.audit.attacks.exact import exact_loss
from sfumato.lab.audit.attacks.exact_counts import (
    DECLARED,
    EPSILON,
    agreeing_pairs,
    exact_count_findings,
    loss_per_row,
    released,
    tells_more,
)
from sfumato.lab.audit.mutants.curators import DisclosingCurator, FinerCurator


def test_tables_that_agree_lose_epsilon_a_row_and_no_more() -> None:
    findings = exact_count_findings()
    assert len(findings) == len(DECLARED)
    assert all(one.sound and one.claimed == EPSILON for one in findings)
    assert all(one.loss == pytest.approx(float(EPSILON), abs=1e-12) for one in findings)  # the bound is reached


@pytest.mark.parametrize("declared", DECLARED)
def test_pairs_are_two_rows_apart_at_least_and_no_pair_is_left_out(declared) -> None:
    pairs = set(agreeing_pairs(declared))
    apart = [sum(abs(a - b) for a, b in zip(one, other, strict=True)) for one, other in pairs]
    swapped = declared == (("a",), ("b",))  # then only two rows that swap their values of b agree with what was
    assert min(apart) == (4 if swapped else 2) and all(each % 2 == 0 for each in apart)
    assert (((2, 0, 0, 0), (1, 1, 0, 0)) in pairs) == (declared in (((),), (("a",),)))  # that other value of b
    assert not any({one, other} == {(1, 0, 0, 0), (2, 0, 0, 0)} for one, other in pairs)  # one row more


def test_a_row_replaced_costs_twice_epsilon_and_one_more_is_seen() -> None:
    one, replaced, more = (released(counts, ((), ("a",))) for counts in ((2, 0, 1, 0), (1, 1, 1, 0), (3, 0, 1, 0)))
    assert one.exact == replaced.exact == {(): (3,), ("a",): (2, 1)}
    assert exact_loss(one.noisy, replaced.noisy) == pytest.approx(2 * float(EPSILON), abs=1e-12)
    assert more.exact != one.exact


def test_what_is_not_named_is_found_out() -> None:
    for broken in (DisclosingCurator, FinerCurator):
        assert loss_per_row(((),), broken)[0] == inf
        assert "tables that agree on them lose inf" in (tells_more(broken) or "")
