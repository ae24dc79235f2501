"""Exhibits of a reproduction: tables and pictures (self-contained SVG), written as one self-contained page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import ceil, floor, isfinite, log10
from pathlib import Path
from struct import pack
from zlib import compress, crc32

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass

COLOURS = ("#8c5a2b", "#2f6f73", "#b23a48", "#5b5f97", "#7d8c2b", "#444444", "#d08c1f")  # told apart in grey as well
INK, PALE, GROUND, RULE = "#2b2622", "#6d645b", "#fdfcf9", "#e4ded5"
LEFT, RIGHT, BOTTOM = 76, 24, 52
WIDTH, HEIGHT = 640, 380


@dataclass(frozen=True)
class Line:
    """Named curve of a plot; `bars`: half lengths of error bars, `marks`: draw its points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    bars: Sequence[float] = ()
    marks: bool = True
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """Curves over a pair of axes; `bound` is a vertical line with a name."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    bound: tuple[float, str] | None = None


@dataclass(frozen=True)
class _Scale:
    """Map from data values to pixel coordinates of one axis."""

    low: float
    high: float
    start: float
    stop: float
    log: bool

    def place(self, value: float) -> float:
        low, high, value = (log10(v) if self.log else v for v in (self.low, self.high, value))
        return round(self.start + (value - low) / (high - low) * (self.stop - self.start), 1)

    def shows(self, value: float) -> bool:
        return isfinite(value) and (value > 0 or not self.log)

    @property
    def ticks(self) -> list[float]:
        if self.log:
            powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            every = ceil(len(powers) / 8)
            factors = (1, 2, 5) if len(powers) <= 4 else (1,)
            all_ticks = [10.0**p * f for p in powers[::every] for f in factors]
            return [tick for tick in all_ticks if self.low * 0.9999 <= tick <= self.high * 1.0001]
        step = _nice((self.high - self.low) / 6)
        return [round(n * step, 12) for n in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]


def draw(plot: Plot) -> str:
    """The plot as SVG text.

    >>> draw(Plot("a line", "x", "y", [Line("y = x", [0, 1], [0, 1])])).count("<polyline")
    1
    """
    xs = [x for line in plot.lines for x in line.x] + ([plot.bound[0]] if plot.bound else [])
    ys = [y for line in plot.lines for y in line.y]
    tops = [y + e for line in plot.lines for y, e in zip(line.y, line.bars, strict=False)]
    x = _scale(xs, LEFT, WIDTH - RIGHT, log=plot.log_x, from_zero=False)
    legend, top = _legend(plot.lines)
    y = _scale(ys + tops, HEIGHT - BOTTOM, top, log=plot.log_y, from_zero=True)
    parts = [*_frame(plot, x, y), *legend]
    if plot.bound:
        at = x.place(plot.bound[0])
        parts.append(f'<line x1="{at}" x2="{at}" y1="{top}" y2="{HEIGHT - BOTTOM}" stroke="{INK}" stroke-width="1.5"/>')
        side = "end" if at > (LEFT + WIDTH) / 2 else "start"
        parts.append(_text(at + (-6 if side == "end" else 6), top + 14, plot.bound[1], anchor=side))
    for place, line in enumerate(plot.lines):
        parts += _curve(line, COLOURS[place % len(COLOURS)], x, y)
    return _svg(parts, WIDTH, HEIGHT)


def draw_grids(title: str, grids: Sequence[tuple[str, NDArray[np.float64]]], side: int = 240) -> str:
    """SVG of several grids side by side on one grey scale, darker for larger counts."""
    top = max(float(grid.max()) for _, grid in grids) or 1.0
    parts = [_text(16, 26, title, size=16, fill=INK)]
    for place, (name, grid) in enumerate(grids):
        left = 16 + place * (side + 20)
        parts.append(_text(left, 50, name))
        shade = np.clip(255 - 225 * np.sqrt(np.clip(grid, 0, None) / top), 0, 255).astype(np.uint8)
        data = b64encode(_png(shade)).decode()
        parts.append(
            f'<image x="{left}" y="60" width="{side}" height="{side}" preserveAspectRatio="none" '
            f'style="image-rendering: pixelated" href="data:image/png;base64,{data}"/>'
        )
    return _svg(parts, 16 + len(grids) * (side + 20), side + 80)


def _scale(values: Sequence[float], start: float, stop: float, *, log: bool, from_zero: bool) -> _Scale:
    shown = [v for v in values if isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(shown), max(shown)
    if log:
        margin = max(1.1, (high / low) ** 0.04)
        return _Scale(low / margin, high * margin, start, stop, log)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0) * 1.05
    return _Scale(low, high if high > low else low + 1.0, start, stop, log)


def _frame(plot: Plot, x: _Scale, y: _Scale) -> list[str]:
    floor_at, parts = HEIGHT - BOTTOM, [_text(16, 26, plot.title, size=16, fill=INK)]
    for tick in y.ticks:
        at = y.place(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" stroke="{RULE}"/>')
        parts.append(_text(LEFT - 8, at + 4, _number(tick), anchor="end"))
    for tick in x.ticks:
        at = x.place(tick)
        parts.append(f'<line x1="{at}" x2="{at}" y1="{floor_at}" y2="{floor_at + 5}" stroke="{PALE}"/>')
        parts.append(_text(at, floor_at + 19, _number(tick), anchor="middle"))
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor_at}" y2="{floor_at}" stroke="{PALE}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, plot.across, anchor="middle"))
    middle = (y.stop + floor_at) / 2
    parts.append(
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle" fill="{PALE}">'
        f"{escape(plot.up)}</text>"
    )
    return parts


def _curve(line: Line, colour: str, x: _Scale, y: _Scale) -> list[str]:
    points = [(x.place(a), y.place(b)) for a, b in zip(line.x, line.y, strict=True) if x.shows(a) and y.shows(b)]
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    path = " ".join(f"{a},{b}" for a, b in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>']
    if line.marks:
        parts += [f'<circle cx="{a}" cy="{b}" r="2.6" fill="{colour}"/>' for a, b in points]
    for a, b, e in zip(line.x, line.y, line.bars, strict=False):
        if x.shows(a) and y.shows(b - e) and e > 0:
            ends = f'y1="{y.place(b - e)}" y2="{y.place(b + e)}"'
            parts.append(f'<line x1="{x.place(a)}" x2="{x.place(a)}" {ends} stroke="{colour}"/>')
    return parts


def _legend(lines: Sequence[Line]) -> tuple[list[str], int]:
    """SVG of the legend, and its height; widths are estimated from the number of letters."""
    parts, at, down = [], float(LEFT), 46
    for place, line in enumerate(lines):
        wide = 42 + 6.3 * len(line.label)
        if at > LEFT and at + wide > WIDTH:
            at, down = float(LEFT), down + 17
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        stroke = f'stroke="{COLOURS[place % len(COLOURS)]}" stroke-width="2.4"{dash}'
        parts.append(f'<line x1="{at:.0f}" x2="{at + 20:.0f}" y1="{down}" y2="{down}" {stroke}/>')
        parts.append(_text(at + 25, down + 4, line.label))
        at += wide
    return parts, down + 20


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, fill: str = PALE) -> str:
    weight = ' font-weight="600"' if size > 12 else ""
    return (
        f'<text x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}" font-size="{size}"{weight} fill="{fill}">'
        f"{escape(words)}</text>"
    )


def _svg(parts: Sequence[str], width: int, height: int) -> str:
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12"><rect width="{width}" height="{height}" fill="{GROUND}"/>'
    )
    return "\n".join([opening, *parts, "</svg>"]) + "\n"


def _number(tick: float) -> str:
    """Format a tick label.

    >>> _number(0.05), _number(20000.0), _number(1e-06), _number(3.0)
    ('0.05', '20,000', '1e-6', '3')
    """
    if tick != 0 and (abs(tick) < 1e-3 or abs(tick) >= 1e6):
        return f"{tick:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{tick:,.0f}" if tick == int(tick) else f"{tick:g}"


def _nice(step: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= step * 0.999)


def _png(shade: NDArray[np.uint8]) -> bytes:
    """A grey picture in the PNG format: header, compressed rows, end."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    rows = np.pad(shade, ((0, 0), (1, 0))).tobytes()  # every row starts with the number of its filter: none
    header = pack(">IIBBBBB", shade.shape[1], shade.shape[0], 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", compress(rows)) + chunk(b"IEND", b"")


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
    """Format a number with some significant digits.

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
