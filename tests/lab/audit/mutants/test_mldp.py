"""Broken learned models are caught, each for what is wrong with it."""

from __future__ import annotations

import pytest

from sfumato.kernel.curator import Curator
from sfumato.lab.audit.mutants import mldp

CASES = {
    "one by one": (mldp.trained_on, mldp.EachQueryAloneCurator),
    "aside": (mldp.asked_until_full, mldp.AsideForFreeCurator),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_broken_is_told_and_what_is_right_is_not(case):
    run, kind = CASES[case]
    complaint = mldp.replaying_model(run, kind)()
    assert complaint is not None
    assert mldp.replaying_model(run, Curator)() is None
