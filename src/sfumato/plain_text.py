"""Make strangers' text safe to print, to open in a spreadsheet and to show in a page; align and format it.

Labels, names and notes of a release are whatever the maker of the file wrote. A terminal obeys some characters in them
(it moves the cursor, hides text, opens links, turns lines around), and a spreadsheet runs cells that begin like a
formula. Everything that is printed, or written for people to open, goes through here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal, Inexact
from fractions import Fraction
from functools import lru_cache
from html import escape
from unicodedata import category, combining, east_asian_width, normalize

# They have a letter's category and no shape: text that differs by one of these looks the same.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_JOINERS = frozenset("\u200c\u200d")  # ordinary in Persian or Hindi, between letters; elsewhere they only hide
_FORMULA = frozenset("=+-@")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)

SHORT = 24  # characters of a text that is not broken over lines
# Colours are those of the page, or grey that is seen on light and on dark; notebooks' own rules are less specific.
_STYLE = (
    "div.sfumato{overflow-x:auto;line-height:1.45;color:inherit}"
    "div.sfumato table{border-collapse:collapse;border:0;margin:.5em 0;font-size:inherit;color:inherit}"
    "div.sfumato th,div.sfumato td{padding:.28em .8em;border:0;color:inherit;background:none;vertical-align:top}"
    "div.sfumato thead th{font-weight:600;white-space:nowrap;border-bottom:1px solid rgba(128,128,128,.6)}"
    "div.sfumato tbody tr{background:none}"
    "div.sfumato tbody tr+tr td{border-top:1px solid rgba(128,128,128,.22)}"
    "div.sfumato .l{text-align:left}"
    "div.sfumato .r{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "div.sfumato .s{white-space:nowrap}"
    "div.sfumato .a{opacity:.7}"
    "div.sfumato p,div.sfumato ul{margin:.35em 0;max-width:60em}"
)


def printable(text: str) -> str:
    r"""Replace every invisible character of a text by its escape sequence.

    >>> printable("north\x1b[2J\n"), printable("Zürich 東京")
    ('north\\x1b[2J\\x0a', 'Zürich 東京')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(letter) if _hidden(text, at) else letter for at, letter in enumerate(text))


def escaped_json(text: str) -> str:
    r"""Replace every invisible character of a JSON text by JSON's own escape, so that it still means the same.

    >>> print(escaped_json('"a\u202eb"'))
    "a\u202eb"
    """
    return "".join(_json_escape(letter) if _hidden(text, at) else letter for at, letter in enumerate(text))


def spreadsheet_safe(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula; numbers stay numbers.

    Where the list separator is a semicolon, a spreadsheet splits lines of a CSV file at it: so text after each
    semicolon is checked as well.

    >>> [spreadsheet_safe(text) for text in ("=1+1", " @SUM(A1)", "-5", "+1.5e3", "18-25", "a;=b")]
    ["'=1+1", "' @SUM(A1)", '-5', '+1.5e3', '18-25', "a;'=b"]
    """
    if text[:1].isalnum() and text.isascii() and ";" not in text:  # most listed values
        return text
    first, *others = text.split(";")
    if _runs(text, first):
        first = f"'{first}"
    return ";".join([first, *(f"'{other}" if _runs(other, other) else other for other in others)])


def file_safe(text: str) -> str:
    r"""Escape a text for a file that a spreadsheet may open: `printable`, then `spreadsheet_safe`.

    >>> file_safe("=north\x1b")
    "'=north\\x1b"
    """
    return spreadsheet_safe(printable(text))


def all_file_safe(texts: Sequence[str]) -> bool:
    """Whether `file_safe` surely leaves all of many texts as they are.

    >>> all_file_safe(["item 1", "B-7"]), all_file_safe(["item 1", "=B7"])
    (True, False)
    """
    letters = "".join(texts)
    plain = letters.isascii() and letters.isprintable() and ";" not in letters
    return plain and "".join([text[:1] for text in texts]).isalnum()


def width(text: str) -> int:
    """Width of a text in a terminal's columns: two for East Asian letters, none for combining marks.

    >>> width("north"), width("東京"), width("e\u0301")
    (5, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


def align(text: str, columns: int, *, left: bool = False) -> str:
    """The text, filled up with blanks to so many columns of a terminal."""
    blanks = " " * (columns - width(text))
    return text + blanks if left else blanks + text


def aligned(lines: Sequence[Sequence[str]], left: Collection[int] = ()) -> list[str]:
    """Lines of cells, made printable, under each other; columns are right-aligned but for those in `left`.

    >>> aligned([["sex", "n"], ["F", "12"]], left=[0])
    ['sex   n', 'F    12']
    """
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(width, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(
            align(cell, columns, left=place in left)
            for place, (cell, columns) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in shown
    ]


def off_on_average(rows: float, hidden: float | None = None) -> str:
    """The mean error of answers in words; or an upper bound of it, where noise hides it.

    >>> off_on_average(12.3), off_on_average(0.52)
    ('off by 12 rows on average, measured', 'off by 0.52 rows on average, measured')
    >>> off_on_average(0, hidden=3.14), off_on_average(0, hidden=0)
    ('off by less than the measurement can see (3.1 rows)', 'off by less than the measurement can see')
    """
    if hidden is not None:
        return "off by less than the measurement can see" + (f" ({_some_rows(hidden)} rows)" if hidden > 0 else "")
    return f"off by {_some_rows(rows)} rows on average, measured"


def _some_rows(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


def counted(number: int, what: str, plural: str = "s") -> str:
    """A number of things in words.

    >>> counted(1, "measure"), counted(4096, "cell")
    ('1 measure', '4,096 cells')
    """
    return f"{number:,} {what}{plural * (number != 1)}"


def write_fraction(amount: Fraction) -> str:
    """A fraction as ledgers and receipts have it.

    >>> write_fraction(Fraction(3))
    '3/1'
    """
    return f"{amount.numerator}/{amount.denominator}"


def readable(amount: Fraction) -> str:
    """Format an exact amount as decimal number or ratio.

    >>> readable(Fraction(3, 10)), readable(Fraction(1, 3)), readable(Fraction(20))
    ('0.3', '1/3', '20')
    """
    try:
        exact = Context(prec=40, traps=[Inexact]).divide(Decimal(amount.numerator), Decimal(amount.denominator))
    except Inexact:
        ratio = str(amount)
        return ratio if len(ratio) <= 40 else f"about {float(amount):.6g}"
    return f"{exact:f}" if exact == 0 or abs(exact) >= Decimal("1e-6") else str(exact).lower()


def in_short(amount: Fraction) -> str:
    """Format an amount that was spent: exactly where that is short, else rounded up to four digits.

    >>> in_short(Fraction(3, 4)), in_short(Fraction(345866351, 10**8))
    ('0.75', '3.459')
    """
    exact, up = readable(amount), Context(prec=4, rounding=ROUND_CEILING)
    return exact if len(exact) <= 8 else readable(Fraction(up.divide(Decimal(amount.numerator), amount.denominator)))


def unit_in_words(column: str | None, *contributions: int, as_one: bool = False) -> str:
    """A privacy unit as a promise names it.

    column: None where every row is a unit. contributions: rows of each unit, of one release or of several. as_one: they
    are the one row that is made of all of a unit's rows (`per_person`).
    """
    if column is None:
        return "any one row"
    most = sorted(set(contributions))
    rows = "1 row" if most == [1] else f"{' or '.join(map(str, most))} rows"
    return f"the rows of any one {column} ({'all of them, as one row' if as_one else f'at most {rows} each'})"


def html_block(*parts: str) -> str:
    """HTML for a notebook: some parts with a style sheet of their own, for light and dark themes."""
    return f'<div class="sfumato"><style>{_STYLE}</style>{"".join(parts)}</div>'


def html_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (), aside: Collection[int] = ()
) -> str:
    """Format texts as an HTML table; columns are right-aligned but for those in `left`, and paler if in `aside`.

    >>> html_table(["n"], [["<1"]])
    '<table><thead><tr><th class="r">n</th></tr></thead><tbody><tr><td class="r">&lt;1</td></tr></tbody></table>'
    """
    listed = [*rows]
    widest = [max(map(len, column)) for column in zip(headers, *listed, strict=True)]
    kinds = [("l" if many > SHORT else "l s") if place in left else "r" for place, many in enumerate(widest)]
    kinds = [f"{kind} a" if place in aside else kind for place, kind in enumerate(kinds)]

    def line(tag: str, cells: Sequence[str]) -> str:
        each = zip(kinds, cells, strict=True)
        return "<tr>" + "".join(f'<{tag} class="{kind}">{html_text(cell)}</{tag}>' for kind, cell in each) + "</tr>"

    body = "".join(line("td", row) for row in listed)
    return f"<table><thead>{line('th', headers)}</thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    """Escape a stranger's text for HTML, invisible characters replaced as by `printable`."""
    return escape(printable(text))


def as_rows(error: float) -> str:
    """A number of rows to three digits, a large one to the whole row.

    >>> as_rows(12.3456), as_rows(12345.6)
    ('12.3', '12,346')
    """
    return f"{error:,.3g}" if error < 1000 else f"{error:,.0f}"


def _runs(whole: str, start: str) -> bool:
    """Whether a spreadsheet would run a cell that begins so."""
    begins = next((place for place, letter in enumerate(start) if not _skipped(letter)), None)
    if whole[:1] in ("\t", "\r"):
        return True
    if begins is None or normalize("NFKC", start[begins])[:1] not in _FORMULA:  # NFKC: full-width forms run as well
        return False
    return _NUMBER.fullmatch(whole.strip(" ")) is None


def _skipped(letter: str) -> bool:
    return letter.isspace() or category(letter) in ("Cf", "Cc")


def _hidden(text: str, at: int) -> bool:
    letter = text[at]
    if letter in _JOINERS:
        return not (0 < at < len(text) - 1 and _joins(text[at - 1]) and _joins(text[at + 1]))
    return _shapeless(letter)


def _joins(letter: str) -> bool:
    return category(letter) in ("Lo", "Mn", "Mc") and not _shapeless(letter)


@lru_cache(maxsize=4096)
def _shapeless(letter: str) -> bool:
    """Whether a character is invisible (control, format, unassigned, line separator, blank letter, ...), no space."""
    return letter in _BLANK_LETTERS or not (letter.isprintable() or category(letter) == "Zs")


def _spelled(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(letter: str) -> str:
    pair = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pair[at]:02x}{pair[at + 1]:02x}" for at in range(0, len(pair), 2))


@lru_cache(maxsize=4096)
def _columns(letter: str) -> int:
    if combining(letter) or category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in ("W", "F") else 1
