"""The exact audit of margins: sound as shipped, all that is claimed is spent, and what is broken is told."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.exact import largest_loss
from sfumato.lab.audit.attacks.exact_verbs import (
    SQUARE,
    margin_findings,
    measuring_margins,
    measuring_margins_at_once,
    summing_margins,
)
from sfumato.lab.audit.attacks.replay import replay
from sfumato.lab.audit.mutants.curators import ViewsApartCurator
from sfumato.lab.audit.mutants.views import (
    FullestMarginCurator,
    MarginsAsOneCurator,
    PartsOverlapCurator,
    margins_at_once,
    margins_until_refused,
    misfits_in_parts,
)
from sfumato.lab.audit.subjects.subject import Row, square_schema

ONE = Fraction(1)


def test_nothing_shipped_exceeds_its_claim_and_all_of_it_is_used():
    findings = margin_findings()
    assert len(findings) == 20 and all(finding.sound for finding in findings)
    measured = [finding.loss for finding in findings if "choice" not in finding.name]
    chosen = [finding.loss for finding in findings if "choice" in finding.name]
    assert measured == pytest.approx([4] * 18, abs=1e-9) and 3.8 < min(chosen) <= max(chosen) <= 4


@pytest.mark.parametrize(("labels", "lost"), [((0, 0, 0), 3), ((0, 1, 1), 1.5), ((0, 1, 2), 1)])
def test_a_group_charged_as_one_margin_is_found(labels, lost):
    """Noise for as many margins as there are groups, where each row moves all three."""
    law = summing_margins(labels, ONE, 1, kind=MarginsAsOneCurator)
    assert largest_loss(law, (4,), 3, 1)[0] == pytest.approx(lost, abs=1e-9)


def test_a_row_in_two_parts_of_a_margin_is_found():
    """The sum moves by 2 where a row may move it by 1, with the noise of 1."""
    found = replay(misfits_in_parts, square_schema(1), [Row(0, 3)], [], curator=PartsOverlapCurator)
    assert found.complaints
    sound = replay(misfits_in_parts, square_schema(1), [Row(0, 3)], [])
    assert sound.loss == pytest.approx(1) and not sound.complaints


def test_margins_that_are_not_added_up_lose_twice_the_budget():
    found = replay(margins_until_refused, square_schema(1), [Row(0, 3)], [], curator=ViewsApartCurator)
    assert found.loss == pytest.approx(2)
    assert "the answers move by more than what was claimed" in {one.what for one in found.complaints}
    sound = replay(margins_until_refused, square_schema(1), [Row(0, 3)], [])
    assert sound.loss == pytest.approx(1) and not sound.complaints


@pytest.mark.parametrize(("kind", "lost"), [(Curator, 1), (FullestMarginCurator, 3)])
def test_margins_measured_at_once_are_charged_together(kind, lost):
    """Charged as the fullest of three margins, in each of which a row is counted, they lose three times the budget."""
    asked = [(("a",), np.eye(2, dtype=int)), (("b",), np.eye(2, dtype=int)), ((), [[1]])]
    law = measuring_margins_at_once(asked, ONE, 1, kind=kind)
    assert largest_loss(law, (4,), 3, 1)[0] == pytest.approx(lost, abs=1e-9)
    found = replay(margins_at_once, square_schema(1), [Row(0, 3)], [], curator=kind)
    assert found.loss == pytest.approx(lost) and bool(found.complaints) == (kind is not Curator)


def test_each_margin_takes_its_share():
    assert largest_loss(measuring_margins([["a"], ["b"], ["a", "b"]], ONE, 1), (4,), 3, 1)[0] == pytest.approx(1)


def test_margins_of_a_small_table_by_hand():
    counts = (1, 2, 3, 4)
    assert twins.margin(SQUARE, ["a"], counts) == [3, 7] and twins.margin(SQUARE, ["b"], counts) == [4, 6]
    assert twins.margin(SQUARE, [], counts) == [10] and twins.margin(SQUARE, ["a", "b"], counts) == [1, 2, 3, 4]
    assert twins.margin_misfit(SQUARE, ["b"], (5, 5), counts) == 2
    assert twins.margin_misfit(SQUARE, ["a", "b"], (5, 1), counts, (0, 1, 1, 0)) == 4
