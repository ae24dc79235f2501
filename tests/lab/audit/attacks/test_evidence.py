"""Columns that only repeat others do not crowd out the rest."""

import numpy as np

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.events import MOST_PAIRED, build_events, distinct_columns, telling_columns
from sfumato.lab.audit.subjects.subject import HIDDEN


def drawn(runs: int, columns: int, seed: int) -> np.ndarray:
    words = TestingEntropy(seed).words(runs * columns) % np.uint64(101)
    return words.astype(np.int64).reshape(runs, columns) - 50


def test_columns_in_proportion_are_taken_once_and_all_others_are_kept():
    zero, one = drawn(50, 1, 1)[:, 0], drawn(50, 1, 2)[:, 0]
    copies = [np.stack([x, 1024 * x, -x, x + which, 7 * x], axis=1) for which, x in enumerate((zero, one))]
    assert distinct_columns(*copies, [4, 0, 1, 2, 3]) == [4, 2, 3]


def test_a_number_that_is_hidden_now_and_then_is_no_copy():
    x = drawn(50, 1, 1)[:, 0]
    hidden = np.where(np.arange(50) == 3, HIDDEN, x)
    outputs = np.stack([x, hidden, 2 * x], axis=1)
    assert distinct_columns(outputs, outputs, [0, 1, 2]) == [0, 1]


def test_pairs_are_looked_at_although_every_number_is_published_three_times():
    """Noise that is used twice shows in no number alone, and only the difference of the last two shows it."""
    shape = 400, MOST_PAIRED - 2
    zero, one = (np.concatenate([drawn(*shape, seed), drawn(400, 2, seed + 10)], axis=1) for seed in (1, 2))
    one[:, -1] = one[:, -2]
    thrice = [np.repeat(outputs, 3, axis=1) * np.tile([1, 1024, 5], MOST_PAIRED) for outputs in (zero, one)]
    assert len(telling_columns(*thrice)) == 3 * MOST_PAIRED
    telling = [
        event for event in build_events(*thrice) if event.holds(thrice[1]).all() and event.holds(thrice[0]).mean() < 0.1
    ]
    assert any(event.name == "== 0" for event in telling)
