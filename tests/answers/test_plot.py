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


def by_region(ages: int, regions: int) -> Result:
    rows = [(age, f"r{region}", number(age, age - 1, age + 1)) for age in range(ages) for region in range(regions)]
    return Result(("age", "region", "n"), tuple(rows), 0.9)


def drawn(axes) -> list:
    return [one for one in axes.figure.axes if one.has_data()]


def test_series_that_would_lie_on_each_other_have_a_panel_each_on_one_scale():
    axes = by_region(50, 7).plot()
    panels = drawn(axes)
    assert [one.get_title(loc="left") for one in panels] == [f"r{region}" for region in range(7)]
    assert all(len(error_bars(one)) == 50 for one in panels) and len({one.get_ylim() for one in panels}) == 1
    assert axes.get_legend() is None and "a panel for each region; error bars: 90 %" in axes.figure.get_suptitle()
    assert (axes.figure.get_supxlabel(), axes.figure.get_supylabel()) == ("age", "n")
    assert len(drawn(by_region(50, 2).plot())) == 1 and len(drawn(by_region(3, 7).plot())) == 1


def test_panels_are_by_the_key_that_is_named_and_colours_by_the_others():
    rows = tuple((age, sex, place, number(age, 0, 9)) for age in range(3) for sex in "FM" for place in "abcd")
    answer = Result(("age", "sex", "place", "n"), rows, 0.9)
    panels = drawn(answer.plot(panels="sex"))
    assert [one.get_title(loc="left") for one in panels] == ["F", "M"]
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == list("abcd")
    assert [len(one.patches) for one in panels] == [12, 12]
    unbidden = Result(("age", "sex", "place", "n"), tuple(row for row in rows for _ in range(2)), 0.9).plot()
    assert len(drawn(unbidden)) == 1  # eight colours fit


def test_panels_that_cannot_be_are_refused_in_words():
    import matplotlib.pyplot as plt

    with pytest.raises(QueryError, match="no panels by town: choose of region"):
        by_region(3, 2).plot(panels="town")
    with pytest.raises(QueryError, match="no panels by age: choose of region"):
        by_region(3, 2).plot(panels="age")
    with pytest.raises(QueryError, match="leave ax out"):
        by_region(3, 2).plot(panels="region", ax=plt.subplots()[1])
    with pytest.raises(QueryError, match="11 series are too many"):
        by_region(3, 11).plot(ax=plt.subplots()[1])
    with pytest.raises(QueryError, match="60 series are too many"):
        by_region(3, 60).plot()
