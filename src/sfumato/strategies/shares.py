"""How to divide a budget over parts of a strategy that share their eigenspaces.

Levels of a tree, tables of a cube: the Gram matrices of the parts commute, so that the squared error is the sum over
spaces m of asked[m] / spread[m], where the spread of a space is the sum over parts k of spans[m, k] shares[k]^2. A cell
bears the sum of the shares (pure epsilon) or of their squares (zCDP). At the best shares each part bears in proportion
to what it contributes; the rule below steps there. With one part per space its first step is the answer: the cube-root
rule of Cormode, Procopiuc, Shen, Srivastava and Yu (ICDE 2012) for pure epsilon, the fourth-root rule for zCDP.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.arrays import Floats

ROUNDS = 200
CLOSE = 1e-7  # relative change of the error at which the steps end

Linear = Callable[[Floats], Floats]


def best_shares(asked: Floats, spread_of: Linear, back: Linear, start: Floats, pure: bool) -> tuple[Floats, Floats]:
    """Shares that sum to one, and the squared error with them; leading axes are separate problems.

    spread_of: squares of shares to spreads (spans applied); back: its transpose. start: positive where a share may be.

    >>> same = lambda x: x
    >>> best_shares(np.array([8.0, 1.0]), same, same, np.ones(2), True)[0].round(4).tolist()
    [0.6667, 0.3333]
    """
    shares, before = start / start.sum(axis=-1, keepdims=True), np.inf
    for _ in range(ROUNDS):
        each, error = _errors(asked, spread_of(shares**2))
        gain = shares**2 * back(np.divide(each, spread_of(shares**2), out=np.zeros_like(each), where=each > 0))
        due = gain / gain.sum(axis=-1, keepdims=True)
        borne = shares if pure else shares**2 / (shares**2).sum(axis=-1, keepdims=True)
        ratio = np.divide(due, borne, out=np.ones_like(due), where=borne > 0)
        shares = shares * ratio ** (1 / 3 if pure else 1 / 4)
        shares /= shares.sum(axis=-1, keepdims=True)
        total = float((error * _load(shares, pure)).sum())
        if abs(before - total) <= CLOSE * total:
            break
        before = total
    return shares, squared_error(asked, spread_of, shares, pure)


def squared_error(asked: Floats, spread_of: Linear, shares: Floats, pure: bool) -> Floats:
    """The squared error at noise of variance 1 for a cell that bears 1."""
    return np.asarray(_errors(asked, spread_of(shares**2))[1] * _load(shares, pure))


def _errors(asked: Floats, spread: Floats) -> tuple[Floats, Floats]:
    tiny = 1e-250
    each = np.divide(asked, np.maximum(spread, tiny), out=np.zeros_like(asked), where=asked > 0)
    return each, each.sum(axis=-1)


def _load(shares: Floats, pure: bool) -> Floats:
    return np.asarray(shares.sum(axis=-1) ** 2 if pure else (shares**2).sum(axis=-1))


def whole_shares(shares: Floats, bits: int) -> list[int]:
    """Shares as whole numbers of so many bits; 0 where a share is lost in rounding or not worth its part.

    >>> whole_shares(np.array([0.5, 0.25, 1e-9]), 3)
    [8, 4, 0]
    """
    scaled = shares / shares.max() * 2**bits
    return [0 if share < NOT_WORTH * 2**bits else max(1, round(share)) for share in scaled.tolist()]


NOT_WORTH = 2e-3  # of the largest share: such a part is left out, its budget does more elsewhere
