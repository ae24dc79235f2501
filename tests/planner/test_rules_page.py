"""The page on planning says what the planner does."""

import re
from pathlib import Path

from sfumato.models import MECHANISMS
from sfumato.planner import choose, plan, questions, simulate
from sfumato.planner import forecast as expect
from sfumato.planner import simulate as priors
from sfumato.planner import usefulness as least

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"


def test_its_numbers_are_those_of_the_code():
    text = " ".join(PAGE.read_text().split())
    for words in (
        f"{expect.MOST_WORK:,} of them",
        f"Above {simulate.MOST_SIMULATED:,} cells nothing is simulated",
        f"({priors.ROWS_PER_CELL} a cell if it says nothing)",
        f"of {questions.MOST_SAMPLED} looked at",
        f"tried up to {expect.MOST_TRIED:,} cells",
        f"more than {expect.MOST_QUERIES:,} queries",
        f"within {round(100 * (choose.ALIKE - 1))} % of it",
    ):
        assert words in text, words
    kind = " are of this kind"
    exact = [f"`{one.name}`" for one in MECHANISMS.values() if one.error == "exact"]
    assert f"{', '.join(exact[:-1])} and {exact[-1]}{kind}" in text
    assert least.TRIALS == 4 and "tried at up to four epsilons" in text
    assert plan.MUCH_MORE == 4 and "beyond four times the smallest epsilon" in text
    for gains in (expect.GAINS_OF_FEW, expect.GAINS_OF_MANY):
        assert f"| {' | '.join(f'{share:g}' for share in gains)} |" in text
    assert all(words in text for words in ("even", "smooth", "sparse", "spike", "rough"))
    assert len(priors.SHAPES) == 5


def test_its_table_is_the_rules_in_their_order_and_words():
    (table,) = re.findall(r"\| if \| `auto` takes \|\n\|---\|---\|\n((?:\|.*\|\n)+)", PAGE.read_text())
    assert table == "".join(f"| {rule.when} | {rule.takes} |\n" for rule in choose.RULES)
