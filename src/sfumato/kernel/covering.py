"""Which larger margins to count so that many small ones follow from them by adding up. Nothing here is private.

To count a margin of four attributes takes hardly longer than one of two, and six pairs follow from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import prod

MOST_JOINED = 2**16  # cells of a margin that is counted for the sake of others: its counts stay in a processor's cache
AT_ONCE = 5_000  # sets that are looked at together, so that the time taken grows no faster than their number


def covering(
    sets: Sequence[frozenset[str]], sizes: Mapping[str, int], most: int = MOST_JOINED
) -> Iterator[tuple[frozenset[str], list[int]]]:
    """Unions of the sets, each with the places of those that it holds and no union before it did.

    A union is grown greedily, by the attribute that completes the most sets, for as long as it spans few cells.

    >>> pairs = [frozenset("ab"), frozenset("ac"), frozenset("bc"), frozenset("cd")]
    >>> [(sorted(union), places) for union, places in covering(pairs, dict.fromkeys("abcd", 10), most=1000)]
    [(['a', 'b', 'c'], [0, 1, 2]), (['c', 'd'], [3])]
    """
    for first in range(0, len(sets), AT_ONCE):
        places: dict[frozenset[str], list[int]] = defaultdict(list)
        about: dict[str, dict[frozenset[str], None]] = defaultdict(dict)  # an ordered set
        for place, one in enumerate(sets[first : first + AT_ONCE], first):
            places[one].append(place)
            for name in one:
                about[name][one] = None
        while places:
            union = _grown(next(iter(places)), about, sizes, most)
            held = [one for one in _touching(union, about) if one <= union]
            yield union, sorted(place for one in held for place in places.pop(one))
            for one in held:
                for name in one:
                    del about[name][one]


def _grown(
    union: frozenset[str], about: Mapping[str, dict[frozenset[str], None]], sizes: Mapping[str, int], most: int
) -> frozenset[str]:
    cells = prod(sizes[name] for name in union)
    while True:
        missing = (one - union for one in _touching(union, about))
        gains = Counter(name for rest in missing if len(rest) == 1 for name in rest if cells * sizes[name] <= most)
        if not gains:
            return union
        best = min(gains, key=lambda name: (-gains[name], sizes[name], name))
        union, cells = union | {best}, cells * sizes[best]


def _touching(union: frozenset[str], about: Mapping[str, dict[frozenset[str], None]]) -> dict[frozenset[str], None]:
    """The sets that share an attribute with a union; the set of none is in every union."""
    found = {frozenset[str](): None} if not union else {}
    for name in sorted(union):
        found |= about.get(name, {})
    return found
