from dataclasses import replace
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from curators import CENSUS, curator_of
from placed_rows import boxes, rows_of

from sfumato.domain import Axis, Partition
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.subjects.subject import most_rows
from sfumato.measurement import Gaussian, Laplace
from sfumato.queries import Cells, Identity, Prefix, Scaled, Stack, Total, Weighted
from sfumato.schema import Schema

SMALL = Schema.from_dict(
    {
        "dataset": "small",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 5}},
        "measures": {"cost": {"lower": -10, "upper": 10, "step": 1, "missing": "drop"}},
    }
)
COUNTS = [5, 0, 2, 0, 0, 9]


def split(curator: Curator, partition: Partition) -> list[Curator]:
    """One curator for each group of cells, over the cells of that group."""
    parts = []
    for group in range(partition.size):
        cells = np.flatnonzero(partition.labels == group)
        labels = np.full(curator.domain.size, -1)
        labels[cells] = np.arange(len(cells))
        parts.append(curator.reduce(Partition(curator.domain, labels)))
    return parts


def test_a_measurement_spends_what_it_was_given_and_says_its_noise():
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    found = curator.measure(Identity(6), Budget.pure("0.25"))
    assert found.noise == Laplace(Fraction(8))  # 2 rows a person, a quarter of epsilon
    assert curator.charge.fullest == Fraction(1, 8)  # per row
    curator.measure(Prefix(6), Budget.pure("0.75"))
    with pytest.raises(PrivacyError):
        curator.measure(Total(6), Budget.pure("1e-9"))


def test_a_measure_is_scaled_by_its_bounds():
    found = curator_of(SMALL, COUNTS).measure(Total(6), Budget.pure(1), of="cost")
    assert found.noise == Laplace(Fraction(20))  # 2 rows, each moves the sum by at most 10 steps


def test_noise_is_added_to_the_exact_answers():
    frozen = [curator_of(SMALL, counts, entropy=TestingEntropy(7)) for counts in (COUNTS, [5, 0, 3, 0, 0, 9])]
    queries = Stack(Identity(6), Prefix(6))
    one, other = (curator.measure(queries, Budget.pure(1)).answers for curator in frozen)
    assert np.array_equal(other - one, queries.dense()[:, 2])


def test_scales_for_single_rows_are_charged_cell_by_cell():
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    found = curator.measure(Identity(6), scales=[Fraction(2)] * 3 + [Fraction(4)] * 3)
    assert found.noises == (Laplace(Fraction(2)), Laplace(Fraction(4)))
    assert found.which is not None and found.which.tolist() == [0, 0, 0, 1, 1, 1]
    curator.measure(Cells(6, np.array([3, 4, 5])), scales=Fraction(4))  # these have room left
    with pytest.raises(PrivacyError):
        curator.measure(Cells(6, np.array([0])), scales=Fraction(1000))


def test_zcdp_uses_gaussian_noise_and_squares():
    curator = curator_of(SMALL, COUNTS, rho=Fraction(1, 2))
    found = curator.measure(Prefix(6), Budget.zcdp(Fraction(1, 2)))
    assert found.noise == Gaussian(Fraction(2**2 * 6, 1))  # k^2 l2^2 / (2 rho)
    with pytest.raises(PrivacyError):
        curator.measure(Total(6), Budget.zcdp(Fraction(1, 10**6)))
    with pytest.raises(QueryError, match="in rho"):
        curator_of(SMALL, COUNTS).measure(Total(6), Budget.zcdp(1))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"queries": Identity(7), "budget": Budget.pure(1)}, QueryError),
        ({"queries": Weighted(np.full((1, 6), 0.5)), "budget": Budget.pure(1)}, QueryError),
        ({"queries": Scaled(Identity(6), np.zeros(6, dtype=int)), "budget": Budget.pure(1)}, QueryError),
        ({"queries": Identity(6)}, QueryError),
        ({"queries": Identity(6), "budget": Budget.pure(1), "scales": Fraction(9)}, QueryError),
        ({"queries": Identity(6), "scales": [Fraction(9)] * 5}, QueryError),
        ({"queries": Identity(6), "scales": Fraction(-9)}, PrivacyError),
        ({"queries": Identity(6), "budget": Budget.pure(1), "of": "income"}, QueryError),
        ({"queries": Prefix(6), "budget": Budget.pure(1), "above": 3}, QueryError),
        ({"queries": Identity(6), "budget": Budget.pure(1), "above": 0}, QueryError),
    ],
)
def test_what_does_not_fit_is_refused_and_costs_nothing(arguments, error):
    curator = curator_of(SMALL, COUNTS)
    queries = arguments.pop("queries")
    with pytest.raises(error):
        curator.measure(queries, **arguments)
    assert curator.charge.fullest == 0


def test_queries_from_outside_the_package_are_refused():
    class Lying(Identity):
        """Claims that a row of data moves nothing."""

        l1 = 0

    with pytest.raises(PrivacyError, match=r"sfumato\.queries"):
        curator_of(SMALL, COUNTS).measure(Lying(6), Budget.pure(1))
    with pytest.raises(PrivacyError, match=r"sfumato\.queries"):
        curator_of(SMALL, COUNTS).measure(Stack(Identity(6), Lying(6)), Budget.pure(1))


def test_disjoint_groups_are_parallel_and_what_they_share_is_not_free():
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    halves = Partition(curator.domain, np.array([0, 0, 0, 1, 1, -1]))
    for half, size in zip(split(curator, halves), (3, 2), strict=True):
        assert half.domain.size == size
        half.measure(Identity(size), Budget.pure(1))
    assert curator.charge.fullest == curator.charge.limit
    with pytest.raises(PrivacyError):
        curator.reduce(halves).measure(Total(2), Budget.pure("0.1"))
    # The cell outside both halves has borne nothing.
    rest = Partition(curator.domain, np.array([-1, -1, -1, -1, -1, 0]))
    curator.reduce(rest).measure(Total(1), Budget.pure(1))


def test_a_view_of_a_view_charges_the_cells_of_the_table():
    curator = curator_of(SMALL, COUNTS, epsilon=1, entropy=TestingEntropy(3))
    outer = curator.reduce(Partition(curator.domain, np.array([0, 1, 1, 2, 2, -1])))
    inner = outer.reduce(Partition(outer.domain, np.array([-1, 0, 0])))
    noisy = inner.measure(Total(1), scales=Fraction(2)).answers[0]
    twin = curator_of(SMALL, [0, 0, 2, 0, 0, 0], epsilon=1, entropy=TestingEntropy(3))
    assert noisy == twin.measure(Total(6), scales=Fraction(2)).answers[0]
    curator.measure(Cells(6, np.array([0, 5])), scales=Fraction(2))
    with pytest.raises(PrivacyError):
        curator.measure(Cells(6, np.array([1])), scales=Fraction(2000))


@pytest.mark.full
def test_select_charges_every_cell_it_looks_at_and_follows_its_law():
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    curator.select(most_rows(6), Budget.pure(1))
    with pytest.raises(PrivacyError):
        curator.measure(Cells(6, np.array([1])), Budget.pure("0.001"))
    # 8,000 choices against the exact law: chi-square with 5 degrees of freedom exceeds 36.9 with chance 6e-7.
    entropy, runs = TestingEntropy(11), 8_000
    curator = curator_of(SMALL, COUNTS, epsilon=runs, entropy=entropy)
    seen = np.bincount([curator.select(most_rows(6), Budget.pure(1)) for _ in range(runs)], minlength=6)
    law = np.array([exp(count / 4) for count in COUNTS])  # epsilon / (2 * k * sensitivity) = 1/4
    law *= runs / law.sum()
    assert ((seen - law) ** 2 / law).sum() < 36.9


def test_select_refuses_scores_from_outside():
    class Anything(Rank):
        sensitivity = 0

    with pytest.raises(PrivacyError, match="sensitivity is proved"):
        curator_of(SMALL, COUNTS).select(Anything(Fraction(1, 2)), Budget.pure(1))


def test_the_median_is_found_at_a_large_budget():
    curator = curator_of(SMALL, COUNTS, epsilon=1000)
    assert curator.select(Rank(Fraction(1, 2)), Budget.pure(1000)) == 5
    curator = curator_of(SMALL, COUNTS, rho=Fraction(1000))
    assert curator.select(Rank(Fraction(1, 4)), Budget.zcdp(1000)) == 0


def test_cells_above_a_threshold_agree_with_all_cells_filtered():
    """Published cells and their values, sparse against dense: 2,000 runs each, compared cell by cell.

    Whether a cell is published is a coin each time; a difference of 6 standard errors in any of 6 cells, or in a mean
    value, has a chance below 1e-7.
    """
    runs, above, entropy = 2000, 6, TestingEntropy(5)
    schema = Schema.from_dict({**SMALL.to_dict(), "privacy_unit": "row", "measures": {}})
    curator = curator_of(schema, COUNTS, epsilon=2 * runs, entropy=entropy)
    sparse, dense = np.zeros((2, 6)), np.zeros((2, 6))
    for _ in range(runs):
        found = curator.measure(Identity(6), Budget.pure("0.5"), above=above)
        assert found.cells is not None and (np.diff(found.cells) > 0).all() and (found.answers >= above).all()
        sparse[0, found.cells] += 1
        sparse[1, found.cells] += found.answers
        full = curator.measure(Identity(6), Budget.pure("0.5")).answers
        dense[0] += full >= above
        dense[1] += np.where(full >= above, full, 0)
    rate = (sparse[0] + dense[0]) / (2 * runs)
    assert (rate > 0.02).all()
    assert (np.abs(sparse[0] - dense[0]) < 6 * np.sqrt(2 * runs * rate * (1 - rate))).all()
    means = sparse[1] / sparse[0] - dense[1] / dense[0]
    assert (np.abs(means) < 6 * np.sqrt(8) * np.sqrt(1 / sparse[0] + 1 / dense[0])).all()


def test_pinq_verbs_fall_out():
    schema = Schema.from_dict(
        {**CENSUS, "measures": {"income": {"lower": 0, "upper": 1000, "step": 1, "missing": "drop"}}}
    )
    counts, sums = np.zeros((100, 2), dtype=int), np.zeros((100, 2), dtype=int)
    counts[30, 0], counts[40, 1] = 7, 5
    sums[30, 0] = 900  # 7 people, centred on 500
    curator = curator_of(schema, counts, sums={"income": sums}, epsilon=3 * 10**5)
    size, plenty = schema.domain.size, Budget.pure(10**5)
    assert curator.measure(Total(size), plenty).answers.tolist() == [12]
    assert curator.measure(Total(size), plenty, of="income").answers.tolist() == [900]
    women, men = split(curator, Partition.by(schema.domain, ["sex"]))
    assert women.measure(Total(100), plenty).answers.tolist() == [7]
    assert men.measure(Total(100), plenty).answers.tolist() == [5]


def test_private_counts_do_not_show_in_a_repr():
    curator = curator_of(SMALL, [123456789, 0, 0, 0, 0, 0])
    assert "123456789" not in repr(curator) + repr(curator._aggregate) + str(vars(curator))


# -- margins

CUBE = Schema.from_dict(
    {
        "dataset": "cube",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {
            name: {"type": "integer", "lower": 0, "upper": size - 1}
            for name, size in zip("abc", (2, 3, 4), strict=True)
        },
        "measures": {"cost": {"lower": -10, "upper": 10, "step": 1, "missing": "drop"}},
    }
)
IN_CUBE = np.arange(24).reshape(2, 3, 4) % 5


def test_a_margin_adds_up_rows_and_sums_over_the_other_attributes():
    curator = curator_of(CUBE, IN_CUBE, epsilon=10**6, sums={"cost": (IN_CUBE - 2) * (IN_CUBE > 0)})
    for names, away in ((["a"], (1, 2)), (["c", "a"], (1,)), ([], (0, 1, 2)), (["a", "b", "c"], ())):
        margin = curator.margin(names)
        assert margin.domain == curator.domain.along(names) and margin.statistics == ("count", "cost")
        for of, whole in (("count", IN_CUBE), ("cost", (IN_CUBE - 2) * (IN_CUBE > 0))):
            found = margin.measure(Identity(margin.domain.size), Budget.pure(10**5), of=of)
            assert np.array_equal(found.answers, whole.sum(axis=away).reshape(-1))


def test_margins_are_charged_everywhere_and_add_up():
    curator = curator_of(CUBE, IN_CUBE, epsilon=1)
    found = curator.margin(["a"]).measure(Identity(2), Budget.pure("0.25"))
    assert found.noise == Laplace(Fraction(8)) and curator.charge.fullest == Fraction(1, 8)
    assert curator.margin(["b"]).measure(Total(3), Budget.pure("0.25"), of="cost").noise == Laplace(Fraction(80))
    assert curator.charge.fullest == Fraction(1, 4)
    curator.margin(["c"]).select(most_rows(4), Budget.pure("0.25"))
    with pytest.raises(PrivacyError):
        curator.margin(["a"]).measure(Cells(2, np.array([1])), Budget.pure("0.26"))
    curator.measure(Identity(24), Budget.pure("0.25"))
    with pytest.raises(PrivacyError):
        curator.margin([]).measure(Identity(1), Budget.pure("1e-9"))


def test_parts_of_a_margin_are_charged_as_the_whole_of_it():
    """Cells of a margin are no cells of the table, so disjoint parts of it are not told apart."""
    curator = curator_of(CUBE, IN_CUBE, epsilon=1)
    margin = curator.margin(["b"])
    one, other = split(margin, Partition(margin.domain, np.array([0, 1, 1])))
    one.measure(Identity(1), Budget.pure("0.5"))
    assert curator.charge.fullest == Fraction(1, 4)
    group = other.reduce(Partition(other.domain, np.array([0, 0])))
    assert group.domain.size == 1
    group.measure(Identity(1), Budget.pure("0.5"))
    assert curator.charge.fullest == Fraction(1, 2)  # all there is for one of 2 rows
    with pytest.raises(PrivacyError):
        one.margin(["group"]).measure(Identity(1), Budget.pure("1e-9"))


def test_a_margin_of_some_cells_is_charged_to_all():
    curator = curator_of(CUBE, IN_CUBE, epsilon=1)
    (part, _) = split(curator, Partition(curator.domain, np.arange(24) // 12))
    found = part.margin([]).measure(Identity(1), Budget.pure(1))
    assert abs(found.answers[0] - IN_CUBE[0].sum()) < 60  # scale 2: 30 of them
    with pytest.raises(PrivacyError):
        curator.measure(Cells(24, np.array([23])), Budget.pure("1e-9"))


def test_gaussian_margins_add_up_in_rho():
    curator = curator_of(CUBE, IN_CUBE, rho=Fraction(1, 2))
    found = curator.margin(["a"]).measure(Identity(2), Budget.zcdp(Fraction(1, 4)))
    assert found.noise == Gaussian(Fraction(8))  # k^2 / (2 rho)
    curator.margin(["b", "c"]).measure(Identity(12), Budget.zcdp(Fraction(1, 4)))
    assert curator.charge.fullest == curator.charge.limit == Fraction(1, 8)


def test_a_table_whose_cells_have_no_number_is_seen_along_margins_only():
    """A hundred attributes of ten values: what asks for all cells is refused and costs nothing."""
    domain = boxes([10] * 100)
    codes = np.random.default_rng(3).integers(0, 10, (500, 100))
    charge = Charge(Budget.pure(10**6), 1, domain.size)
    curator = Curator(domain, rows_of(domain, codes), {"count": 1}, charge, TestingEntropy(1))
    for ask in (
        lambda: curator.measure(Identity(2**62), Budget.pure(1)),
        lambda: curator.measure(Total(2**62), Budget.pure(1)),
        lambda: curator.measure(Identity(2**62), Budget.pure(1), above=2),
        lambda: curator.measure(Cells(2**62, np.array([0])), Budget.pure(1)),
        lambda: curator.margin(domain.names[:9]),
        lambda: curator.select(Rank(Fraction(1, 2)), Budget.pure(1)),
        lambda: curator.best_partition(Budget.pure(1), order=np.arange(4), price=Fraction(1)),
    ):
        with pytest.raises(QueryError):
            ask()
    assert curator.charge.fullest == 0
    found = curator.margin(["a40", "a3"]).measure(Identity(100), Budget.pure(10**5)).answers
    assert found.tolist() == np.histogram2d(codes[:, 3], codes[:, 40], [range(11)] * 2)[0].reshape(-1).tolist()
    assert curator.margin([]).measure(Identity(1), Budget.pure(10**5)).answers.tolist() == [500]


def test_rows_are_gathered_for_the_verbs_that_need_cells():
    domain = boxes([300, 300, 400])  # too many to lay out, few enough to number
    codes = np.array([[1, 2, 3], [299, 299, 399], [1, 2, 3]])
    charge = Charge(Budget.pure(10**6), 1, domain.size)
    curator = Curator(domain, rows_of(domain, codes), {"count": 1}, charge, TestingEntropy(1))
    cells = np.array([1 * 120_000 + 2 * 400 + 3, 5, domain.size - 1])
    assert curator.measure(Cells(domain.size, cells), Budget.pure(10**5)).answers.tolist() == [2, 0, 1]
    assert curator.measure(Total(domain.size), Budget.pure(10**5)).answers.tolist() == [3]
    found = curator.measure(Identity(domain.size), Budget.pure(10**5), above=1)
    assert found.cells.tolist() == cells[[0, 2]].tolist() and found.answers.tolist() == [2, 1]


HALVES = {"c": (Axis("c", "integer", np.arange(3.0)), np.array([0, 1, 1, 0]))}


@pytest.mark.parametrize("seed", range(8))
def test_margins_measured_at_once_are_those_of_the_rows(seed):
    """With 4 * 10^5 of rho noise is 0 but for a chance below 1e-6: its variance is below 10^-3."""
    random = np.random.default_rng(seed)
    domain, codes = boxes([3, 4, 2, 5]), random.integers(0, [3, 4, 2, 5], (40, 4))
    charge, rows = Charge(Budget.zcdp(10**6), 1, domain.size), rows_of(domain, codes)
    kinds = {axis.name: random.permutation(np.arange(axis.size) % 2) for axis in domain}
    two = np.arange(3.0)
    for held, spent in ((rows, Budget.zcdp(4 * 10**5)), (rows.gathered, Budget.zcdp(4 * 10**5))):
        curator = Curator(domain, held, {"count": 1}, charge, TestingEntropy(seed))
        coded = curator.recode({name: (Axis(name, "integer", two), kind) for name, kind in kinds.items()})
        asked = [
            (names, Weighted(random.integers(-2, 3, (3, 2 ** len(names))))) for names in (("a0", "a2"), ("a3",), ())
        ]
        found = coded.measure_margins([*asked, asked[0]], spent)
        table = np.zeros((2, 2, 2, 2), dtype=np.int64)
        np.add.at(table, tuple(kinds[f"a{place}"][codes[:, place]] for place in range(4)), 1)
        sums = [table.sum(axis=(1, 3)), table.sum(axis=(0, 1, 2)), table.sum()]
        answers = [queries @ each.reshape(-1) for (_, queries), each in zip(asked, sums, strict=True)]
        assert found.answers.tolist() == np.concatenate([*answers, answers[0]]).tolist()
        l2_squared = sum(int((each.matrix**2).sum(axis=0).max()) for each in (asked[0][1], *(q for _, q in asked)))
        assert found.noise == Gaussian(l2_squared / (2 * spent.amount)) and not found.answers.flags.writeable
    assert charge.fullest == 8 * 10**5  # twice what was given


def test_margins_that_cannot_be_measured_at_once():
    curator, first, size = curator_of(CUBE, IN_CUBE, epsilon=1), "a", 2
    for asked, why in (
        ([], "touch no cell"),
        ([([first], Weighted(np.zeros((1, size), dtype=np.int64)))], "touch no cell"),
        ([([first], Identity(size + 1))], f"the domain has {size}"),
        ([([first], Scaled(Identity(size), np.full(size, 0.5)))], "whole-number weights"),
        ([(first, Identity(size))], "takes a list"),
    ):
        with pytest.raises(QueryError, match=why):
            curator.measure_margins(asked, Budget.pure(1))
    with pytest.raises(QueryError, match="spent in epsilon"):
        curator.measure_margins([([first], Identity(size))], Budget.zcdp(1))
    assert not curator.charge.fullest
    with pytest.raises(PrivacyError):
        curator.measure_margins([([first], Identity(size))], Budget.pure(2))


def test_a_recoded_table_adds_up_rows_and_sums_of_the_cells_that_become_one():
    sums = (IN_CUBE - 2) * (IN_CUBE > 0)
    wanted = {of: whole[..., [0, 1]] + whole[..., [3, 2]] for of, whole in (("count", IN_CUBE), ("cost", sums))}
    curator = curator_of(CUBE, IN_CUBE, epsilon=10**6, sums={"cost": sums})
    seen = curator.recode(HALVES)
    assert seen.domain.shape == (2, 3, 2) and seen.domain.names == curator.domain.names
    for of, whole in wanted.items():
        for names, away in ((["a", "b", "c"], ()), (["c"], (0, 1)), (["c", "a"], (1,))):
            margin = seen.margin(names)
            found = margin.measure(Identity(margin.domain.size), Budget.pure(10**4), of=of)
            assert np.array_equal(found.answers, whole.sum(axis=away).reshape(-1))
    domain = boxes([10, 7, 9])
    codes = np.random.default_rng(3).integers(0, [10, 7, 9], (500, 3))
    charge = Charge(Budget.pure(10**6), 1, domain.size)
    rows = Curator(domain, rows_of(domain, codes), {"count": 1}, charge, TestingEntropy(1))
    name, to = domain.names[1], np.array([0, 0, 2, 1, 1, 2, 2])
    seen = rows.recode({name: (Axis(name, "integer", np.arange(4.0)), to)})
    found = seen.margin(domain.names[:2]).measure(Identity(30), Budget.pure(10**5))
    assert np.array_equal(found.answers, np.bincount(codes[:, 0] * 3 + to[codes[:, 1]], minlength=30))


def test_recoded_tables_are_charged_everywhere_and_add_up():
    curator = curator_of(CUBE, IN_CUBE, epsilon=1)
    found = curator.recode(HALVES).measure(Identity(12), Budget.pure("0.25"))
    assert found.noise == Laplace(Fraction(8)) and curator.charge.fullest == Fraction(1, 8)
    curator.recode(HALVES).margin(["c"]).measure(Identity(2), Budget.pure("0.5"))
    curator.margin(["c"]).measure(Identity(4), Budget.pure("0.25"))
    with pytest.raises(PrivacyError):
        curator.recode(HALVES).margin([]).measure(Identity(1), Budget.pure("1e-9"))


def test_a_recoding_that_is_no_function_of_the_cells_is_refused():
    curator, axis = curator_of(CUBE, IN_CUBE, epsilon=1), Axis("c", "integer", np.arange(3.0))
    for made in ((axis, np.array([0, 1, 1])), (axis, np.array([0, 1, 2, 0])), (axis, np.array([0, 1, -1, 0]))):
        with pytest.raises(QueryError, match="recoding c"):
            curator.recode({"c": made})
    with pytest.raises(QueryError, match="recoding c"):
        curator.recode({"c": (replace(axis, name="d"), np.array([0, 1, 1, 0]))})
