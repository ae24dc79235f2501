"""Unions that hold many sets: every set in one of them, none too large."""

from collections import Counter
from itertools import combinations
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain.grid import AT_ONCE, covering

NAMES = "abcdefgh"


@given(st.lists(st.frozensets(st.sampled_from(NAMES), max_size=4), max_size=40), st.data())
def test_every_set_is_in_one_union_that_holds_it(sets, data):
    sizes = {name: data.draw(st.integers(1, 50)) for name in NAMES}
    seen: Counter = Counter()
    for union, places in covering(sets, sizes, most=1000):
        assert places and all(sets[place] <= union for place in places)
        assert union in sets or prod(sizes[name] for name in union) <= 1000
        seen.update(places)
    assert seen == Counter(range(len(sets)))


def test_pairs_of_small_attributes_come_several_at_a_time():
    names = [f"a{place}" for place in range(30)]
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    unions = list(covering(pairs, dict.fromkeys(names, 10)))
    assert len(unions) < len(pairs) / 4  # six in each at best
    assert len(list(covering(pairs, dict.fromkeys(names, 1000)))) == len(pairs)  # nothing to be joined


def test_many_sets_are_taken_a_part_at_a_time():
    sets = [frozenset("ab")] * (AT_ONCE + 1)
    assert [len(places) for _, places in covering(sets, {"a": 2, "b": 2})] == [AT_ONCE, 1]
