"""The pictures of docs/intervals.md and docs/choosing-epsilon.md. `python docs/pictures/intervals.py [NAME ...]` writes
them anew, the same every time.

Releases are made with a testing generator, so the noise is the same, too. Colours read on light and on dark paper.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from math import exp
from pathlib import Path

import numpy as np

from sfumato.answers.results import Estimate
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.releases.group_privacy import belief_after
from sfumato.schema import Schema

HERE = Path(__file__).parent
HELD, MISSED, PAPER_INK, FAINT = "#3b82c4", "#d9480f", "#7a7a7a", "#9a9a9a"
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#555}.big{font-weight:600}.value{fill:#3b82c4}"
    "@media(prefers-color-scheme:dark){text{fill:#c9c9c9}}"
)
RELEASES, SIDE = 40, 12
GRID = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {name: {"type": "integer", "lower": 0, "upper": SIDE - 1} for name in ("x", "y")},
    }
)
CHECKERBOARD = np.indices((SIDE, SIDE)).sum(axis=0) % 2 * 12
ODD = np.where(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) == 7 * SIDE + 4, 40, 12)  # one cell unlike all others
KINDS = {
    "one cell": "x = 7 AND y = 4",
    "a row of 12 cells": "x = 7",
    "a box of 6 by 6": "x < 6 AND y < 6",
    "all 144 cells": "x >= 0",
}


def answers(mechanism: str, where: str, releases: int, table: np.ndarray = CHECKERBOARD) -> list[Estimate]:
    """The same question, asked of several releases of a table."""
    found = []
    for seed in range(releases):
        made = release_of(mechanism, (table.reshape(-1), None), Fraction(1), TestingEntropy(1000 + seed), GRID)
        ((one,),) = made.query(f"SELECT COUNT(*) FROM t WHERE {where}", interval="both").rows
        found.append(one)
    return found


def forty_releases() -> str:
    """Typical and guaranteed intervals of one question, by release: which hold the truth."""
    truth, found = float(ODD[7, 4]), answers("dawa", KINDS["one cell"], RELEASES, ODD)
    most = max(max(one.high, one.sure[1]) for one in found if one.sure)
    scale = _Scale(min(one.low for one in found), float(most), 60, 700)
    parts = []
    for row, (name, ends) in enumerate(
        (("typical", [(one.low, one.high) for one in found]), ("guaranteed", [one.sure for one in found if one.sure]))
    ):
        top = 60 + row * 330
        held = sum(low <= truth <= high for low, high in ends)
        parts.append(_text(60, top - 16, f"{name}: {held} of {len(ends)} hold the truth, {truth:g} rows", "big"))
        for place, (low, high) in enumerate(ends):
            colour = HELD if low <= truth <= high else MISSED
            y = top + place * 6.6
            parts.append(_line(scale.at(low), y, max(scale.at(high), scale.at(low) + 2), y, colour, 3))
        parts.append(_line(scale.at(truth), top - 6, scale.at(truth), top + len(ends) * 6.6, PAPER_INK, 1.5, "4 3"))
        parts += scale.axis(top + len(ends) * 6.6 + 6)
    parts.append(_legend(470, 40))
    return _svg(760, 690, parts, "Forty releases of one table: typical and guaranteed intervals of the same count")


def widths() -> str:
    """Mean widths of both kinds, by kind of question and mechanism."""
    parts, y = (
        [_text(20, 28, "mean width of 95 % intervals, rows: a checkerboard of 144 cells, epsilon 1", "big")],
        56.0,
    )
    rows = [
        (mechanism, kind, where) for mechanism in ("hierarchical", "dawa", "sfumato") for kind, where in KINDS.items()
    ]
    means = []
    for mechanism, _, where in rows:
        found = answers(mechanism, where, 8)
        both = [(one.high - one.low, one.sure[1] - one.sure[0]) for one in found if one.sure]
        means.append(np.mean(both, axis=0))
    scale = _Scale(0.0, float(np.max(means)), 260, 660)
    for (mechanism, kind, _), (typical, sure) in zip(rows, means, strict=True):
        if kind == next(iter(KINDS)):
            y += 10
            parts.append(_text(20, y + 14, mechanism, "big"))
        parts.append(_text(130, y + 14, kind))
        for offset, width, colour in ((3, typical, HELD), (12, sure, FAINT)):
            end = max(scale.at(float(width)), 262)
            parts.append(f'<rect x="260" y="{y + offset:g}" width="{end - 260:.1f}" height="7" fill="{colour}"/>')
            parts.append(_text(end + 6, y + offset + 8, f"{width:.0f}", size=10))
        y += 28
    key = f'<rect x="260" y="{y + 14:g}" width="14" height="7" fill="{HELD}"/>' + _text(280, y + 22, "typical")
    key += f'<rect x="350" y="{y + 14:g}" width="14" height="7" fill="{FAINT}"/>' + _text(370, y + 22, "guaranteed")
    return _svg(760, round(y + 44), [*parts, key], "Widths of typical and guaranteed intervals by kind of question")


def possible() -> str:
    """A count of 3 with a half-width of 8, as it is and within what is possible."""
    scale, parts = _Scale(-6.0, 12.0, 190, 700), []
    for row, (name, low) in enumerate((("as it is: -5 to 11", -5.0), ("--possible: 0 to 11", 0.0))):
        y = 50 + 50 * row
        parts.append(_text(20, y + 4, name, "big"))
        parts.append(_line(scale.at(low), y, scale.at(11.0), y, HELD, 5))
        parts.append(f'<circle cx="{scale.at(3.0):.1f}" cy="{y}" r="7" fill="{HELD}"/>')
    parts.append(_line(scale.at(0.0), 26, scale.at(0.0), 122, PAPER_INK, 1.5, "4 3"))
    parts.append(_text(scale.at(0.0) + 6, 32, "no table has fewer rows than none", size=11))
    parts.append(_text(scale.at(3.0) - 60, 78, "the value stays at 3, unbiased", size=11))
    return _svg(760, 160, [*parts, *scale.axis(126)], "A count of 3 plus or minus 8, clipped at what is possible")


def beliefs() -> str:
    """Largest belief after a release by the belief before it, a curve for each epsilon."""
    across, up = _Scale(0.0, 100.0, 70, 470), _Scale(0.0, 100.0, 440, 40)
    parts = [_line(across.at(0), up.at(0), across.at(100), up.at(100), PAPER_INK, 1.5, "4 3")]
    for shade, epsilon in enumerate((0.1, 0.5, 1.0, 2.0, 4.0, 8.0)):
        ends = [(each / 200, belief_after(each / 200, epsilon)) for each in range(201)]
        points = " ".join(f"{across.at(100 * before):.1f},{up.at(100 * after):.1f}" for before, after in ends)
        colour = MISSED if epsilon > 4 else HELD
        thin = f'stroke="{colour}" stroke-width="2" stroke-opacity="{0.4 + 0.12 * shade:g}"'
        parts.append(f'<polyline points="{points}" fill="none" {thin}/>')
        crossing = 1.0 / (1.0 + exp(epsilon / 2.0))
        parts.append(_text(across.at(100 * crossing) + 5, up.at(100 - 100 * crossing) + 13, f"{epsilon:g}", size=11))
    for tick in range(0, 101, 25):
        parts.append(_text(across.at(tick), up.at(0) + 20, f"{tick} %", anchor="middle", size=11))
        parts.append(_text(across.at(0) - 8, up.at(tick) + 4, f"{tick} %", anchor="end", size=11))
    parts += [_line(across.at(0), up.at(0), across.at(100), up.at(0), PAPER_INK, 1)]
    parts += [_line(across.at(0), up.at(0), across.at(0), up.at(100), PAPER_INK, 1)]
    parts.append(_text(20, 22, "belief after, at most, that somebody is in the table; a curve for each epsilon", "big"))
    parts.append(_text(across.at(50), up.at(0) + 42, "belief before", anchor="middle"))
    parts.append(_text(across.at(100) + 14, up.at(100) + 4, "dashed: nothing was learnt", size=11))
    return _svg(660, 500, parts, "Belief before a release and the largest belief after it, by epsilon")


class _Scale:
    """From numbers to places on the paper."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self.low, self.high, self.left, self.right = low, high, left, right

    def at(self, number: float) -> float:
        return self.left + (number - self.low) / (self.high - self.low) * (self.right - self.left)

    def axis(self, y: float) -> list[str]:
        step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if (self.high - self.low) / s <= 12)
        ticks = [t for t in range(-10 * step, 400 * step, step) if self.low <= t <= self.high]
        texts = [_text(self.at(tick), y + 18, f"{tick:,}", anchor="middle", size=11) for tick in ticks]
        marks = [_line(self.at(tick), y, self.at(tick), y + 5, PAPER_INK, 1) for tick in ticks]
        return [_line(self.left, y, self.right, y, PAPER_INK, 1), *marks, *texts]


def _legend(x: float, y: float) -> str:
    held = _line(x, y, x + 24, y, HELD, 3) + _text(x + 30, y + 4, "holds it")
    return held + _line(x + 110, y, x + 134, y, MISSED, 3) + _text(x + 140, y + 4, "misses it")


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start", size: int = 13) -> str:
    named = f' class="{kind}"' if kind else ""
    sized = f' style="font-size:{size}px"' if size != 13 else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}{sized}>{text}</text>'


def _svg(width: int, height: int, parts: Sequence[str], title: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    return f'{head} role="img">\n<title>{title}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n'


DRAWN = {"intervals-40": forty_releases, "intervals-widths": widths, "intervals-possible": possible, "beliefs": beliefs}

if __name__ == "__main__":
    for each in sys.argv[1:] or DRAWN:
        (HERE / f"{each}.svg").write_text(DRAWN[each](), encoding="utf-8")
