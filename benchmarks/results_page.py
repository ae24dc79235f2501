"""RESULTS.md from figures: where a peer is better comes first, then every case with all of its peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, isnan, nan

SURE = 2.0  # standard errors beyond which a difference is called one
BEHIND, NEAR, AHEAD = "behind", "within noise", "ahead"


@dataclass(frozen=True)
class Peer:
    """What somebody else's algorithm reaches. source: package and version or publication, and when it was run.

    error: standard error over its runs, where there were several.
    """

    name: str
    figure: float
    source: str
    cpu: float = nan
    error: float = nan


@dataclass(frozen=True)
class Case:
    """Our figure in a case of a yardstick, and those of peers.

    error: standard error of ours over runs. perfect: the figure without any error, from which distances are compared.
    """

    yardstick: str
    name: str
    figure: float
    error: float
    runs: int
    cpu: float
    peers: tuple[Peer, ...]
    perfect: float = 0.0

    @property
    def best(self) -> Peer:
        return min(self.peers, key=lambda peer: abs(peer.figure - self.perfect))

    @property
    def ratio(self) -> float:
        """Our distance from perfect over that of the best peer."""
        return abs(self.figure - self.perfect) / abs(self.best.figure - self.perfect)

    @property
    def standing(self) -> str:
        unsure = SURE * hypot(*(0.0 if isnan(error) else error for error in (self.error, self.best.error)))
        apart = abs(self.figure - self.perfect) - abs(self.best.figure - self.perfect)
        return NEAR if abs(apart) <= unsure else BEHIND if apart > 0 else AHEAD


@dataclass(frozen=True)
class Yardstick:
    """What is measured and in which unit, the command that shows more of it, and what a reader has to know."""

    title: str
    unit: str
    command: str
    remark: str = ""


def page(made: str, yardsticks: Sequence[Yardstick], cases: Sequence[Case], left_out: Sequence[str]) -> str:
    """The whole page as Markdown."""
    lines = ["# Yardsticks", "", made, "", *standings(cases)]
    for yardstick in yardsticks:
        mine = [case for case in cases if case.yardstick == yardstick.title]
        if mine:
            lines += ["", f"## {yardstick.title}", "", *about(yardstick), *rows(mine)]
    if left_out:
        lines += ["", "## Left out", "", *(f"- {each}" for each in left_out)]
    return "\n".join(lines) + "\n"


def standings(cases: Sequence[Case]) -> list[str]:
    """Cases by how we stand to the best peer, those behind first and the worst of them at the top."""
    lines = ["## Where we are behind", ""]
    behind = sorted((case for case in cases if case.standing == BEHIND), key=lambda case: -case.ratio)
    if behind:
        lines += ["| yardstick | case | ours | best peer | ours over it |", "|---|---|---|---|---|"]
        lines += [
            f"| {case.yardstick} | {case.name} | {with_error(case)} | {case.best.name} {short(case.best.figure)} "
            f"| **{case.ratio:.2f}** |"
            for case in behind
        ]
    else:
        lines += ["In no case of this run."]
    near = sum(case.standing == NEAR for case in cases)
    ahead = sum(case.standing == AHEAD for case in cases)
    worse = [f"{case.name} ({case.ratio:.2f})" for case in cases if case.standing == NEAR and case.ratio > 1]
    if worse:
        lines += ["", f"Within noise, with our mean the worse one: {'; '.join(worse)}."]
    lines += [
        "",
        f"Of {len(cases)} cases {len(behind)} are behind, {near} within noise, {ahead} ahead. *Within noise*: means "
        f"differ by less than {SURE:g} standard errors, of ours and of the peer's where it was run several times; the "
        "noise of other figures is not known.",
    ]
    return lines


def about(yardstick: Yardstick) -> list[str]:
    remark = f" {yardstick.remark}" if yardstick.remark else ""
    return [f"{yardstick.unit}{remark} More: `{yardstick.command}`.", ""]


def rows(cases: Sequence[Case]) -> list[str]:
    heads = ["case", "ours", "runs", "CPU s", "peers, the best first", "ours over the best", ""]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in cases:
        peers = sorted(case.peers, key=lambda peer: abs(peer.figure - case.perfect))
        told = "; ".join(f"{peer.name} **{with_error(peer)}** ({source(peer)})" for peer in peers)
        cpu = "" if isnan(case.cpu) else short(case.cpu)
        lines.append(
            f"| {case.name} | {with_error(case)} | {case.runs} | {cpu} | {told} | {case.ratio:.2f} | {case.standing} |"
        )
    return lines


def with_error(of: Case | Peer) -> str:
    return short(of.figure) + ("" if isnan(of.error) else f" ± {short(of.error)}")


def source(peer: Peer) -> str:
    return peer.source if isnan(peer.cpu) else f"{peer.source}; {short(peer.cpu)} s of CPU"


def short(number: float) -> str:
    """Three digits, or four where there is one behind the point."""
    return (
        f"{number:.3g}" if number < 100 else f"{number:,.1f}".removesuffix(".0") if number < 1000 else f"{number:,.0f}"
    )
