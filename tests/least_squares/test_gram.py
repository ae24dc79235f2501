"""Gram matrices in short form beside the same written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sfumato.least_squares.gram import added, gram_of
from sfumato.queries import AllRanges, Identity, Prefix, Ranges, Total


def test_grams_add_up():
    parts = [AllRanges(9), Prefix(9), Total(9), Identity(9), Ranges(9, [2], [7])]
    gram = added([gram_of(part) * (k + 1.0) for k, part in enumerate(parts)])
    V = sum((k + 1.0) * part.gram() for k, part in enumerate(parts))
    assert gram.dense == pytest.approx(V)
    assert gram.diagonal == pytest.approx(np.diag(V))
    assert gram.grand == pytest.approx(V.sum())
    v, cuts = np.linspace(-1, 2, 9) ** 2, np.array([0, 2, 3, 9])
    wanted = [v[a:b] @ V[a:b, a:b] @ v[a:b] for a, b in pairwise(cuts.tolist())]
    assert gram.squares(v, cuts) == pytest.approx(wanted)
    again = added([gram_of(part) * (k + 1.0) for k, part in enumerate(parts)])
    assert gram == again and hash(gram) == hash(again) and gram != gram_of(Identity(9))


@pytest.mark.parametrize("width", [1, 3, 8, 20, 33, 60, 120])
def test_roughness_is_what_nodes_leave(width):
    gram = added([gram_of(AllRanges(120)) * 0.01, gram_of(Prefix(120)), gram_of(Total(120)), gram_of(Identity(120))])
    V, cuts = gram.dense, np.arange(width + 1) * 120 // width
    left = sum(np.trace(V[a:b, a:b]) - V[a:b, a:b].sum() / (b - a) for a, b in pairwise(cuts.tolist()))
    assert gram.roughness(width) == pytest.approx(left, rel=0.02, abs=1e-6)  # some pairs stand for all
