"""The charge of a line: every piece by itself, exactly, however many there are."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import PrivacyError
from sfumato.kernel.lines import StretchCharge

LENGTH = 12
LOADS = st.tuples(st.integers(0, 1), st.integers(0, LENGTH - 1), st.integers(1, LENGTH), st.integers(0, 3))


@given(st.lists(LOADS, max_size=12))
def test_it_keeps_what_a_list_of_pieces_keeps(loads):
    charge, kept = StretchCharge(Fraction(2), 2, LENGTH), [[Fraction(0)] * LENGTH for _ in range(2)]
    for line, first, end, thirds in loads:
        load = Fraction(thirds, 3)
        after = [borne + load * (first <= piece < end) for piece, borne in enumerate(kept[line])]
        if first >= end or max(after) > 2:
            with pytest.raises(PrivacyError):
                charge.admit(line, first, end, load)
        else:
            charge.admit(line, first, end, load)
            kept[line] = after
        assert [[charge.borne(n, piece) for piece in range(LENGTH)] for n in range(2)] == kept
        assert charge.fullest == max(map(max, kept))


def test_a_negative_load_is_refused():
    with pytest.raises(PrivacyError):
        StretchCharge(Fraction(1), 1, 2**40).admit(0, 0, 2**40, Fraction(-1))
