"""Domains of boxes, and rows placed in them."""

import numpy as np

from sfumato.domain import Axis, Domain
from sfumato.kernel.counts import Rows, short, words_of


def boxes(sizes) -> Domain:
    return Domain(tuple(Axis(f"a{place}", "integer", np.arange(size + 1.0)) for place, size in enumerate(sizes)))


def rows_of(domain: Domain, codes: np.ndarray, steps=None) -> Rows:
    words = []
    for run in words_of(domain):
        sizes = domain.shape[run.start : run.stop]
        flat = np.ravel_multi_index([codes[:, place] for place in run], sizes) if len(codes) else np.zeros(0, int)
        words.append(short(flat, int(np.prod(sizes))))
    return Rows(domain, tuple(words), steps or {})
