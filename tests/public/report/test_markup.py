"""Text is text: nothing that a stranger wrote becomes markup."""

from __future__ import annotations

from sfumato.public.report.markup import Markup, code, joined, name_of, shortened, tag, text

EVIL = "</svg><script>alert('x')</script>\" onload=\"x\u202e"


def test_everything_but_markup_is_escaped_wherever_it_stands():
    for made in (
        tag("p", EVIL),
        tag("p", title=EVIL),
        joined([EVIL, (EVIL,)]),
        name_of(EVIL),
        code([EVIL]),
        text(EVIL),
    ):
        assert "<script" not in made and '" onload' not in made and "\u202e" not in made and r"\u202e" in made


def test_markup_is_not_escaped_twice_and_zero_is_a_value():
    assert tag("p", tag("b", "&")) == "<p><b>&amp;</b></p>"
    assert tag("rect", x=0, y=0.50001, fill_opacity=1, title=None) == '<rect x="0" y="0.5" fill-opacity="1"></rect>'
    assert tag("meta", name="a") == '<meta name="a">' and isinstance(tag("b"), Markup)


def test_lines_stay_lines_and_a_break_inside_one_is_spelled_out():
    assert code(["a", "b\nc"]) == "<pre><code>a\nb\\x0ac</code></pre>"


def test_a_long_label_is_cut():
    assert shortened("a long label", 7) == "a long…" and shortened("short", 7) == "short"
