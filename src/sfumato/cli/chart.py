"""A bar chart with error bars, on a terminal and as a picture file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from sfumato.frozen import dataclass
from sfumato.plain_text import align, printable
from sfumato.plain_text import width as width_of


@dataclass(frozen=True)
class Bar:
    """One bar: a label, a value and the interval around it."""

    label: str
    value: float
    low: float
    high: float


def text_bars(bars: Sequence[Bar], width: int = 44) -> list[str]:
    """One line a bar: filled up to the interval, shaded inside it.

    >>> text_bars([Bar("a", 10, 8, 12), Bar("bb", 5, 3, 7)], width=12)
    [' a ████████▒▒▒▒  10', 'bb ███▒▒▒▒  5']
    """
    top = max((bar.high for bar in bars), default=0.0)
    if top <= 0:
        return []
    labels = [printable(bar.label) for bar in bars]
    wide = max(map(width_of, labels))
    lines = []
    for label, bar in zip(labels, bars, strict=True):
        solid = floor(max(bar.low, 0.0) / top * width)
        shaded = max(ceil(max(bar.high, 0.0) / top * width) - solid, 0)
        lines.append(f"{align(label, wide)} {'█' * solid}{'▒' * shaded}  {bar.value:,.0f}")
    return lines


def svg_bars(bars: Sequence[Bar], *, title: str, subtitle: str) -> str:
    """The bars as a self-contained SVG picture, every one with its error bar."""
    left, top, bottom, right = 64, 64, 44, 20
    pitch = max(6, min(36, 900 // max(len(bars), 1)))
    wide, high = left + pitch * len(bars) + right, 360
    peak = max((max(bar.high, bar.value) for bar in bars), default=1.0) or 1.0
    step = _nice(peak / 5)
    scale = (high - top - bottom) / (step * ceil(peak / step))

    def y(value: float) -> float:
        return round(high - bottom - max(value, 0.0) * scale, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{high}" fill="#fdfcf9"/>',
        f'<text x="16" y="26" font-size="16" font-weight="600" fill="#2b2622">{escape(printable(title))}</text>',
        f'<text x="16" y="46" fill="#6d645b">{escape(printable(subtitle))}</text>',
    ]
    for tick in range(ceil(peak / step) + 1):
        at = y(tick * step)
        parts.append(f'<line x1="{left}" x2="{wide - right}" y1="{at}" y2="{at}" stroke="#e4ded5"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4}" text-anchor="end" fill="#6d645b">{tick * step:,.0f}</text>')
    every = max(1, ceil(len(bars) * 36 / max(wide - left - right, 1)))
    for place, bar in enumerate(bars):
        x, middle = left + place * pitch + pitch * 0.12, left + (place + 0.5) * pitch
        tall = round(high - bottom - y(bar.value), 1)
        parts.append(
            f'<rect x="{x:.1f}" y="{y(bar.value)}" width="{pitch * 0.76:.1f}" height="{tall}" fill="#b9a48a"/>'
        )
        line = f'x1="{middle:.1f}" x2="{middle:.1f}" y1="{y(bar.low)}" y2="{y(bar.high)}"'
        parts.append(f'<line {line} stroke="#2b2622" stroke-width="1.4"/>')
        if place % every == 0:
            parts.append(
                f'<text x="{middle:.1f}" y="{high - bottom + 18}" text-anchor="middle" fill="#6d645b">'
                f"{escape(printable(bar.label))}</text>"
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _nice(step: float) -> float:
    """The next larger of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(step)) if step > 0 else 1.0
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= step)
