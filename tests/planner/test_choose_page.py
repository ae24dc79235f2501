"""The page on planning says what the planner does."""

from pathlib import Path

from sfumato.planner import choose, plan, price, simulate
from sfumato.planner import forecast as expect
from sfumato.planner import public_tables as priors
from sfumato.planner import smallest_epsilon as least

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"


def test_its_numbers_are_those_of_the_code():
    text = " ".join(PAGE.read_text().split())
    for words in (
        f"{expect.MOST_WORK:,} of them",
        f"Above {simulate.MOST_SIMULATED:,} cells nothing is simulated",
        f"({priors.ROWS_PER_CELL} a cell if it says nothing)",
        f"of {price.MOST_SAMPLED} looked at",
        f"tried up to {choose.MOST_TRIED:,} cells",
        f"at most {choose.NEXT_TO_BEST} times the noise on a single query",
        f"below {choose.THIN} per cell",
        f"less than {choose.MUCH_BETTER} times the error that `sfumato` has",
        f"more than {expect.MOST_QUERIES:,} queries",
        f"within {round(100 * (choose.ALIKE - 1))} % of it",
    ):
        assert words in text, words
    assert least.TRIALS == 4 and "tried at up to four epsilons" in text
    assert plan.MUCH_MORE == 4 and "beyond four times the smallest epsilon" in text
    assert all(words in text for words in ("even", "smooth", "sparse", "spike", "rough"))
    assert len(priors.SHAPES) == 5
