"""What regret.py measured, as tables a person can read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isnan, prod

import numpy as np

from dpbench_data import GRIDS, LINES, TARGETS

LEAST = 1.0  # rows: nobody gains from a smaller error, so it counts as this when errors are compared
OURS = "sfumato"


@dataclass(frozen=True)
class Row:
    """One mechanism on one table at one epsilon.

    rmse: mean over runs of the root mean square error over the boxes; spread: its standard error. ranges, totals,
    cells, filled: the part of 95 % intervals that hold the truth; filled are cells that are not empty.
    """

    suite: str
    data: str
    epsilon: Fraction
    mechanism: str
    runs: int
    rmse: float
    spread: float
    ranges: float
    totals: float
    cells: float
    filled: float
    seconds: float


Key = tuple[str, Fraction]  # a table at an epsilon


def print_tables(rows: list[Row], skipped: dict[tuple[str, str], str], names: list[str], mechanisms: list[str]) -> None:
    """Every case by itself, then what follows from all of them."""
    by_case: dict[Key, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (names.index(row.data), row.epsilon, row.rmse)):
        by_case.setdefault((row.data, row.epsilon), []).append(row)
    regrets = {key: _regrets(found) for key, found in by_case.items()}
    for key, found in by_case.items():
        _print_case(key, found, regrets[key])
    shown = [name for name in mechanisms if any(row.mechanism == name for row in rows)]
    for suite in dict.fromkeys(row.suite for row in rows):
        of_suite = {key: regrets[key] for key, found in by_case.items() if found[0].suite == suite}
        _print_regrets(suite, of_suite, shown)
        _print_summary(suite, of_suite, [row for row in rows if row.suite == suite], shown)
    _print_targets({(row.data, row.epsilon): row for row in rows if row.mechanism == OURS})
    _print_skipped(skipped)


def _regrets(rows: list[Row]) -> dict[str, float]:
    least = min(max(row.rmse, LEAST) for row in rows)
    return {row.mechanism: max(row.rmse, LEAST) / least for row in rows}


def _print_case(key: Key, rows: list[Row], regrets: dict[str, float]) -> None:
    print(f"\n{key[0]}, epsilon {float(key[1]):g}, {rows[0].runs} runs")
    print(f"  {'':13}{'rmse':>9} {'+-':>7}{'regret':>8}   held: {'ranges':>6}{'totals':>8}{'cells':>7}{'filled':>8}"
          f"{'seconds':>10}")  # fmt: skip
    for row in rows:
        print(
            f"  {row.mechanism:13}{_rows(row.rmse):>9} {_rows(row.spread):>7}{regrets[row.mechanism]:8.2f}   "
            f"{_percent(row.ranges):>12}{_percent(row.totals):>8}{_percent(row.cells):>7}{_percent(row.filled):>8}"
            f"{row.seconds:10.3f}"
        )


def _print_regrets(suite: str, regrets: dict[Key, dict[str, float]], mechanisms: list[str]) -> None:
    """A line for each table, a column for each mechanism."""
    print(f"\nRegret, {suite}: error over that of the best mechanism of the line")
    wide = max(len(data) for data, _ in regrets)
    widths = {name: max(9, len(name) + 2) for name in mechanisms}
    print(f"  {'':{wide}} {'epsilon':>7} " + "".join(f"{name:>{w}}" for name, w in widths.items()))
    for (data, epsilon), found in regrets.items():
        cells = "".join(f"{found[name]:{w}.2f}" if name in found else " " * w for name, w in widths.items())
        print(f"  {data:{wide}} {float(epsilon):7g} {cells}")


def _print_summary(suite: str, regrets: dict[Key, dict[str, float]], rows: list[Row], mechanisms: list[str]) -> None:
    print(f"\nIn all, {suite}: regret, and the part of 95 % intervals that hold the truth")
    print(f"  {'':13}{'cases':>6}{'mean':>7}{'worst':>8}   {'on':24}{'ranges':>7}{'totals':>8}{'cells':>7}{'filled':>8}"
          f"   least held of ranges")  # fmt: skip
    for name in mechanisms:
        mine = {key: found[name] for key, found in regrets.items() if name in found}
        if not mine:
            continue
        (data, epsilon), worst = max(mine.items(), key=lambda item: item[1])
        own = [row for row in rows if row.mechanism == name]
        held = [_percent(_mean(getattr(row, kind) for row in own)) for kind in ("ranges", "totals", "cells", "filled")]
        least = min(own, key=lambda row: row.ranges)
        print(
            f"  {name:13}{len(mine):6}{geometric_mean(mine.values()):7.2f}{worst:8.2f}   "
            f"{f'{data}, {float(epsilon):g}':24}{held[0]:>7}{held[1]:>8}{held[2]:>7}{held[3]:>8}"
            f"   {_percent(least.ranges)} ({least.data}, {float(least.epsilon):g})"
        )
    print(f"  Mean: geometric. Errors under {LEAST:g} row count as {LEAST:g}.")


def _print_targets(ours: dict[Key, Row]) -> None:
    """How `sfumato` stands to what it is to reach, where there is a target."""
    aimed = {key: row for key, row in ours.items() if key in TARGETS and row.suite == "DPBench"}
    if not aimed:
        return
    print(f"\n{OURS} beside its targets\n  {'':12}{'epsilon':>8}{'rmse':>9} {'+-':>7}{'reach':>8}{'':9}"
          f"{'best peer':>10}{'over peer':>11}")  # fmt: skip
    for (data, epsilon), row in aimed.items():
        target = TARGETS[data, epsilon]
        met = "reached" if row.rmse <= target.reach else f"{100 * (row.rmse / target.reach - 1):+.0f} %"
        print(
            f"  {data:12}{float(epsilon):8g}{_rows(row.rmse):>9} {_rows(row.spread):>7}{target.reach:8g}{met:>9}"
            f"{target.peer:10g}{row.rmse / target.peer:11.2f}"
        )
    for title, members in (("one attribute", LINES), ("two attributes", GRIDS)):
        over = [row.rmse / TARGETS[key].peer for key, row in aimed.items() if key[0] in members]
        if over:
            print(
                f"  {title}: geometric mean over the best peer {geometric_mean(over):.3f}, "
                f"worst {max(over):.2f}, {len(over)} cases"
            )


def _print_skipped(skipped: dict[tuple[str, str], str]) -> None:
    """What was left out, one line for each mechanism and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for (mechanism, data), why in skipped.items():
        reasons.setdefault((mechanism, why), []).append(data)
    if reasons:
        print("\nLeft out")
    for (mechanism, why), data in reasons.items():
        where = ", ".join(data) if len(data) < 5 else f"{len(data)} tables, from {data[0]} to {data[-1]}"
        print(f"  {mechanism:13}{why} ({where})")


def geometric_mean(values: Iterable[float]) -> float:
    """The middle of numbers that differ by factors."""
    found = list(values)
    return prod(value ** (1 / len(found)) for value in found)


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _percent(part: float) -> str:
    return "-" if isnan(part) else f"{100 * part:.1f}"


def _rows(error: float) -> str:
    if isnan(error):
        return "-"
    return f"{error:,.0f}" if error >= 1000 else f"{error:.3g}"
