"""What is audited: something that claims an epsilon and can be run on two neighbouring inputs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy

Outputs = NDArray[np.int64]  # one row for each run, one column for each published number

HIDDEN = np.iinfo(np.int64).min  # stands for a number that a run did not publish


@dataclass(frozen=True)
class Subject:
    """Something that claims to be private.

    run: outputs of many independent runs on one of two neighbouring inputs, numbered 0 and 1. Every run must give the
    same columns; what a run leaves out is HIDDEN. Whatever an observer sees, such as the order or the number of
    published cells, has to be among the columns.
    """

    name: str
    epsilon: Fraction
    run: Callable[[int, int, Entropy], Outputs]  # (which input, how many runs, random bits)
