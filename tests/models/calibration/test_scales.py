"""The factor of a question: its kind's, without jumps along its size."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.models.calibration.fit import EMPTY, FILLED, ONE_WAY, TILES, TWO_RANGES, TWO_WAY, Questions, Scales

SCALES = Scales(
    np.array([EMPTY, FILLED, FILLED, TILES, ONE_WAY, TWO_WAY]),
    np.array([1.0, 5.0, 50.0, 4.0, 9.0, 6.0]),
    np.array([3.0, 1.0, 2.0, 4.0, 0.5, 8.0]),
    np.array([0.1, 1.5, 3.0, 12.0, 40.0, 3.14159]),
)


def asked(restricted, cells, rows) -> tuple[list[float], list[float]]:
    arrays = np.atleast_1d(restricted), np.atleast_1d(cells).astype(float), np.atleast_1d(rows).astype(float)
    factors, hidden = SCALES.of(Questions(*np.broadcast_arrays(*arrays)), 4)
    return factors.tolist(), hidden.tolist()


def test_every_kind_has_its_own():
    assert asked([4, 4, 4], [1, 1, 1], [3.0, 30.0, 900.0])[0] == [1.0, 2.0, 2.0]
    assert asked([0, 1, 2], [512, 100, 64], [9.0] * 3)[0] == [0.5, 0.5, 8.0]
    assert asked(4, [16, 4, 32, 64, 512], 3.0)[0] == pytest.approx([4.0, 2.0, 32**0.5, 8.0, 8.0])


def test_ranges_of_two_attributes_lie_between_pairs_of_values_and_tiles():
    """Pairs are sums of 4 cells, tiles of 64: a range of 16 lies in the middle, one of 512 is as a tile."""
    kinds, ends, factors = [FILLED, TILES, TWO_WAY], [50.0, 6.0, 2.0], [1.0, 2.0, 0.5]
    scales = Scales(np.array(kinds), np.array(ends), np.array(factors), np.zeros(3))
    sizes = np.array([1.0, 4.0, 16.0, 64.0, 512.0])
    found, _ = scales.of(Questions(np.full(5, 2), sizes, np.full(5, 9.0)), 3)
    assert found == pytest.approx([0.5, 0.5, 1.0, 2.0, 2.0])


def test_ranges_that_were_looked_at_have_their_own_factor_whatever_tiles_have():
    """Pairs are sums of 4 cells, ranges of 256: one of 32 lies in the middle. Three attributes lie beside them."""
    kinds, ends, factors = [FILLED, TILES, TWO_WAY, TWO_RANGES], [50.0, 6.0, 2.0, 8.0], [1.0, 2.0, 0.5, 8.0]
    scales = Scales(np.array(kinds), np.array(ends), np.array(factors), np.zeros(4))
    sizes = np.array([4.0, 32.0, 256.0, 2048.0])
    assert scales.of(Questions(np.full(4, 2), sizes, np.full(4, 9.0)), 4)[0] == pytest.approx([0.5, 2.0, 8.0, 8.0])
    of_three = scales.of(Questions(np.full(3, 3), np.array([64.0, 128.0, 512.0]), np.full(3, 9.0)), 4)[0]
    assert of_three == pytest.approx([2.0, 4.0, 8.0])
    assert scales.words[3] == "ranges of two attributes, of about 256 cells: off by less than the measurement can see"


def test_hidden_rows_count_in_small_questions_about_cells_that_are_nearly_empty():
    assert asked(4, [1, 4, 16], 0.2)[1] == pytest.approx([9.0, 4.5, 0.0])
    assert asked([4, 1], [1, 1], [2.0, 0.2])[1] == [0.0, 0.0]


def test_hidden_rows_have_a_size_for_each_group_of_cells():
    two = Scales(*(np.array(each) for each in ([EMPTY, EMPTY, FILLED], [1.0, 4.0, 50.0], [3.0, 10.0, 1.0], [0.0] * 3)))
    hidden = two.of(Questions(np.full(4, 3), np.ones(4), np.array([0.2, 1.0, 3.9, 4.0])), 3)[1]
    assert hidden.tolist() == [9.0, 100.0, 100.0, 0.0]


def test_nothing_measured_changes_nothing():
    none = Scales(*(np.zeros(0) for _ in range(4)))
    factors, hidden = none.of(Questions(np.array([1, 3]), np.array([9.0, 1.0]), np.zeros(2)), 3)
    assert factors.tolist() == [1.0, 1.0] and hidden.tolist() == [0.0, 0.0] and none.words == ()


def test_it_says_what_was_found():
    assert SCALES.words[1] == "single cells estimated to hold up to 5 rows: off by 1.5 rows on average, measured"
    assert SCALES.words[3] == "tiles of about 16 cells: off by 12 rows on average, measured"
    assert SCALES.words[5] == "pairs of values of two attributes: off by 3.1 rows on average, measured"


def test_what_noise_hides_is_said_to_be_less_than_can_be_seen():
    """Files from before kept 0 there, and no size of the noise."""
    hidden = Scales(SCALES.kinds, SCALES.ends, SCALES.factors, -SCALES.errors)
    assert hidden.words[3] == "tiles of about 16 cells: off by less than the measurement can see (12 rows)"
    before = Scales(SCALES.kinds, SCALES.ends, SCALES.factors, 0 * SCALES.errors)
    assert before.words[3] == "tiles of about 16 cells: off by less than the measurement can see"


@pytest.mark.parametrize(
    "change", [{"kinds": [5] * 6}, {"factors": [-1.0] * 6}, {"ends": [9.0, 6.0, 5.0, 4.0, 9.0, 6.0]}]
)
def test_what_is_no_measured_error_is_refused(change):
    arrays = SCALES.record() | {name: np.array(value) for name, value in change.items()}
    with pytest.raises(QueryError):
        Scales(*arrays.values())
    with pytest.raises(QueryError):
        Scales(SCALES.kinds[:-1], SCALES.ends, SCALES.factors, SCALES.errors)
