"""Balanced samples: rows exchanged for spare ones until counts by every attribute are the expected ones, rounded.

Rows and spare rows come from one distribution, so that an exchange is as likely a sample as any (rejective sampling,
Hajek 1964; Deville and Tille 2004 for the aim). In each sweep random pairs of a row and a spare row are compared by

    sum over attributes and values of  max(|expected - held| - 1, 0)^2 / (expected + 1)

and pairs that lower it are exchanged with probability proportional to the gain, by the factor at which all exchanges
together lower it most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.releases.rows.model import Block, RandomNumbers

SWEEPS = 40  # at most: counts are then off by a few rows, of which a sample of thousands is off by dozens
PAIRS = 2**13  # that are compared in one sweep
FEW = 2**14  # rows


def balanced(rows: Codes, many: int, wanted: Sequence[Floats], random: RandomNumbers) -> Codes:
    """Indices of `many` of the rows, of which the first ones are exchanged for later ones where this helps.

    rows: codes (attributes, rows). wanted: shares of each attribute's values, (values,) each.

    >>> codes = np.repeat([[0, 1]], 50, axis=1)
    >>> int(codes[0, balanced(codes, 40, [np.array([0.5, 0.5])], RandomNumbers(1))].sum()) in (19, 20, 21)
    True
    """
    chosen, spare = np.arange(many), np.arange(many, rows.shape[1])
    pairs = min(len(chosen), len(spare), PAIRS)
    expected = [many * share / share.sum() for share in wanted]
    off = [each - np.bincount(codes[chosen], minlength=len(each)) for each, codes in zip(expected, rows, strict=True)]
    for _ in range(SWEEPS if pairs else 0):
        if max(float(np.abs(each).max()) for each in off) <= 1.0:
            break
        out, into = _some(len(chosen), pairs, random), _some(len(spare), pairs, random)
        out, into = out[: len(into)], into[: len(out)]
        gain = np.zeros(len(out))
        for codes, wants, lacks in zip(rows, expected, off, strict=True):
            now = _beyond(lacks) ** 2
            coming, going = ((now - _beyond(lacks + by) ** 2) / (wants + 1.0) for by in (-1.0, 1.0))
            old, new = codes[chosen[out]], codes[spare[into]]
            gain += np.where(old != new, coming[new] + going[old], 0.0)
        better = np.flatnonzero(gain > 0)
        out, into, gain = out[better], into[better], gain[better]
        slope = bend = 0.0
        for codes, wants, lacks in zip(rows, expected, off, strict=True):
            change = _entering(codes, chosen[out], spare[into], len(lacks), gain)
            slope += float(change / (wants + 1.0) @ _beyond(lacks))
            bend += float(change / (wants + 1.0) @ change)
        done = random.uniform(len(better)) < gain * (max(slope, 0.0) / bend if bend > 0 else 1.0)
        out, into = out[done], into[done]
        for codes, lacks in zip(rows, off, strict=True):
            np.subtract(lacks, _entering(codes, chosen[out], spare[into], len(lacks)), out=lacks)
        chosen[out], spare[into] = spare[into], chosen[out]
    return chosen


def _some(many: int, few: int, random: RandomNumbers) -> Codes:
    """About `few` of the numbers 0 .. many - 1, each once, in random order."""
    if few * 4 > many:
        return random.order(many)[:few]
    found = np.unique((random.uniform(few) * many).astype(np.int64))
    return found[random.order(len(found))]


def _beyond(off: Floats) -> Floats:
    """Residuals beyond one row: a value that expects a twentieth of one may have it, or rare ones would have none."""
    return np.asarray(np.sign(off) * np.maximum(np.abs(off) - 1.0, 0.0))


def draw_balanced(
    draw: Callable[[Floats, RandomNumbers], Block], places: Floats, shares: Mapping[str, Floats], random: RandomNumbers
) -> Block:
    """Draw rows at some places, exchanged for others where counts by attribute then fit better, if rows are few.

    shares: of each attribute's values, (values,) each.
    """
    block = draw(places, random)
    if len(places) >= FEW:  # stratified places alone are near enough
        return block
    both = Block.joined([block, draw(np.sort(random.uniform(FEW)), random)])
    codes = np.array([both.codes[name] for name in shares])
    return both[balanced(codes, len(places), list(shares.values()), random)]


def _entering(codes: Codes, old: Codes, new: Codes, values: int, weights: Floats | None = None) -> Floats:
    """Change of the rows of each value if some rows are exchanged for others, by weights if given, (values,)."""
    into = np.bincount(codes[new], weights, minlength=values)
    return np.asarray(into - np.bincount(codes[old], weights, minlength=values), dtype=np.float64)
