"""Broken learned models are caught, each for what is wrong with it."""

from __future__ import annotations

import pytest

from sfumato.lab.audit.mutants.registry import MUTANTS


@pytest.mark.parametrize("name", ["training queries one by one", "answers kept aside for free"])
def test_what_is_broken_is_told_and_what_is_right_is_not(name):
    assert MUTANTS[name].check() is not None
    assert MUTANTS[name].sound() is None
