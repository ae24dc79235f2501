"""Pictures of answers: every number with its interval, labels shown as they are."""

from __future__ import annotations

from math import inf

import pytest

from sfumato.answers.results import Estimate, Result
from sfumato.errors import QueryError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def number(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, 1.0, low, high, 0.9, 1.0)


@pytest.fixture(autouse=True)
def no_figure_stays():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def error_bars(axes) -> list[tuple[float, float]]:
    """The lower and upper end of every error bar drawn."""
    from matplotlib.collections import LineCollection

    lines = [part for part in axes.collections if isinstance(part, LineCollection)]
    return [(float(segment[0][1]), float(segment[1][1])) for part in lines for segment in part.get_segments()]


def test_bars_with_their_intervals():
    rows = (("F", number(10, 7, 15)), ("M", number(-2, -6, 1)))
    axes = Result(("sex", "n"), rows, 0.9).plot()
    assert [bar.get_height() for bar in axes.patches] == [10, -2]
    assert error_bars(axes) == [(7, 15), (-6, 1)]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["F", "M"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("sex", "n") and "90 % intervals" in axes.get_title(loc="right")


def test_a_second_key_is_told_apart_by_colour_and_many_groups_are_points():
    two = tuple((age, sex, number(age, age - 1, age + 1)) for age in range(3) for sex in "FM")
    axes = Result(("age", "sex", "n"), two, 0.9).plot()
    assert len(axes.patches) == 6 and [text.get_text() for text in axes.get_legend().get_texts()] == ["F", "M"]
    many = Result(("age", "n"), tuple((age, number(age, age - 1, age + 1)) for age in range(100)), 0.9).plot()
    assert not many.patches and len(error_bars(many)) == 100 and len(many.get_xticklabels()) <= 20


def test_what_has_no_bounds_is_not_drawn_as_if_it_were_exact():
    axes = Result(("sex", "n"), (("F", number(1, 0, 2)), ("M", number(1, -inf, inf))), 0.9).plot()
    assert len(axes.patches) == 1 and "1 unknown" in axes.get_title(loc="right")


def test_labels_of_strangers_are_shown_letter_by_letter():
    rows = (("$\\frac{$", number(1, 0, 2)), ("a\u202eb", number(1, 0, 2)))
    axes = Result(("$x", "n"), rows, 0.9).plot()
    axes.figure.canvas.draw()  # a formula that cannot be read would stop it
    assert [label.get_text() for label in axes.get_xticklabels()] == [r"\$\frac{\$", r"a\u202eb"]


def test_a_column_is_chosen_by_name_and_others_are_refused():
    result = Result(("sex", "n", "m"), (("F", number(1, 0, 2), number(5, 4, 6)),), 0.9)
    assert result.plot("m").get_ylabel() == "m"
    with pytest.raises(QueryError, match="those to draw are: n, m"):
        result.plot("sex")
    with pytest.raises(QueryError, match="no rows"):
        Result(("n",), (), 0.9, numbers=frozenset({"n"})).plot()
