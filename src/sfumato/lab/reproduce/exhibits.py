"""Exhibits of a reproduction: tables and pictures, the paper's figures beside ours, and a sentence on the difference.

A study is written as one self-contained page, and every picture as a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass

Tick = Callable[[str, float], None]  # what is being done, and which share of all is done


@dataclass(frozen=True)
class Picture:
    """A drawing: the name of its file, without its ending, and its SVG text."""

    name: str
    svg: str


@dataclass(frozen=True)
class Exhibit:
    """One table or figure of a paper, or a group that belongs together.

    source: where the paper has it. remark: how ours compares, and why it differs where it does.
    left: the columns of the table that hold words.
    """

    source: str
    title: str
    remark: str
    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: tuple[int, ...] = (0,)
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Study:
    """All exhibits of one paper."""

    paper: str
    title: str
    exhibits: tuple[Exhibit, ...]


def digits(value: float, significant: int = 3) -> str:
    """A number with some significant digits, without exponents where they do not help.

    >>> digits(0.0012345), digits(1234567), digits(5.9), digits(7.6e-7)
    ('0.00123', '1,234,567', '5.9', '7.6e-07')
    """
    if value == 0:
        return "0"
    if abs(value) >= 10**significant:
        return f"{value:,.0f}"
    return f"{value:.{significant}g}"


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2b2622; background: #fdfcf9; max-width: 62rem;
       margin: 2rem auto; padding: 0 1rem }
h1, h2, h3 { line-height: 1.2; font-weight: 600 } h2 { margin-top: 3rem } h3 { margin-top: 2.2rem }
h3 small { color: #6d645b; font-weight: 400 }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #e4ded5 }
th { border-bottom: 1px solid #2b2622; font-weight: 600 } .words { text-align: left }
figure { margin: 1rem 0 } svg { max-width: 100%; height: auto }
p { max-width: 46rem }
"""


def write(studies: Sequence[Study], folder: Path) -> Path:
    """Write index.html and the pictures into a folder; the page holds the pictures itself and needs no network."""
    page = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for study in studies:
            for exhibit in study.exhibits:
                for picture in exhibit.pictures:
                    (folder / f"{study.paper}-{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
        page.write_text(_page(studies), encoding="utf-8")
    except OSError as error:
        raise SfumatoError(
            f"cannot write into {str(folder)!r}: {error.strerror}; name a folder that can be written with -o"
        ) from None
    return page


def _page(studies: Sequence[Study]) -> str:
    body = "\n".join(line for study in studies for line in _study(study))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>sfumato reproduce</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n<h1>The papers, theirs beside ours</h1>\n{body}\n</body></html>\n"
    )


def _study(study: Study) -> Iterator[str]:
    yield f'<h2 id="{escape(study.paper)}">{escape(study.title)}</h2>'
    for exhibit in study.exhibits:
        yield f"<h3>{escape(exhibit.title)} <small>{escape(exhibit.source)}</small></h3>"
        if exhibit.rows:
            yield _table(exhibit)
        for picture in exhibit.pictures:
            yield f"<figure>{picture.svg}</figure>"
        yield f"<p>{escape(exhibit.remark)}</p>"


def _table(exhibit: Exhibit) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="words"' if place in exhibit.left else "" for place in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{k}>{escape(c)}</{tag}>" for c, k in zip(cells, kinds, strict=True)) + "</tr>"

    return "<table>" + line(exhibit.headers, "th") + "".join(line(row, "td") for row in exhibit.rows) + "</table>"
