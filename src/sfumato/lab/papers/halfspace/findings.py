"""What is promised for the halfspaces in use: the survey's guarantee, as far as there is one, and what was measured."""

from __future__ import annotations

from math import degrees, exp, sin
from typing import TYPE_CHECKING

import numpy as np

from sfumato.lab.papers.halfspace.net import Net
from sfumato.measurement import Noise
from sfumato.models.calibration.model_error import NORMAL_END
from sfumato.plain_text import off_on_average, printable

if TYPE_CHECKING:
    from sfumato.lab.papers.halfspace.content import Halfspaces

DELTA = 0.05


def findings_of(content: Halfspaces) -> tuple[str, ...]:
    """The net, the guarantee, and how far answers were found to be off."""
    return (_noise(content), guarantee(content.net), *_measured(content))


def examples_of(content: Halfspaces) -> tuple[str, ...]:
    """SQL that it answers."""
    names = [_quoted(name) for name in content.over]
    table = _quoted(content.schema.dataset)
    middles = [float((axis.edges[0] + axis.edges[-1]) / 2) for axis in content.net.axes]
    found = [
        f"SELECT COUNT(*) AS n FROM {table}",
        f"SELECT COUNT(*) AS n FROM {table} WHERE {names[0]} > {middles[0]:g}",
    ]
    if len(names) > 1:
        found.append(f"SELECT COUNT(*) AS n FROM {table} WHERE {names[0]} + {names[1]} > {sum(middles[:2]):g}")
    return tuple(found)


def every_bound(net: Net, noise: Noise, delta: float = DELTA) -> float:
    """What the noise of no canonical halfspace exceeds, in rows, with probability 1 - delta: a union bound over all."""
    from sfumato.answers.intervals.noise_sum import upper_quantile

    level = 1.0 - delta / (2.0 * net.halfspaces)
    # Brought to one total, half of the bins or fewer carry noise beyond what the total has.
    return float(upper_quantile([(1.0, noise, max(1, net.offsets // 2))], level))


def changed_by(dimensions: int, gamma: float) -> float:
    """Theorem 5: the chance, at most, that projecting changes the cosine of an angle by gamma / 4.

    >>> round(changed_by(20_000, 0.5), 4)
    0.0176
    """
    part = gamma / 16.0
    return min(1.0, 2.0 * exp(-(part**2 - part**3) * dimensions / 4.0))


def dimensions_needed(gamma: float, share: float) -> int:
    """The dimensions that theorem 5 asks for, so that at most a share / 4 of points change their angle by gamma / 4.

    >>> dimensions_needed(0.5, 0.1)
    18528
    """
    part = gamma / 16.0
    return int(np.ceil(4.0 * np.log(8.0 / share) / (part**2 - part**3)))


def _noise(content: Halfspaces) -> str:
    net = content.net
    return (
        f"{net.halfspaces:,} canonical halfspaces; with probability {100 * (1 - DELTA):g} % the noise of each is "
        f"within {every_bound(net, content.measured[0].noise):,.0f} of {content.rows:,.0f} rows"
    )


def guarantee(net: Net) -> str:
    """What may be said of a halfspace that is none of the canonical ones."""
    gamma = sin(net.angle)
    if net.plain:
        return (
            f"nothing is projected: another halfspace answers, whose direction is within "
            f"{degrees(net.angle):.1f} degrees (gamma {gamma:.2f}), rows near its line may be counted or not"
        )
    return (
        f"{net.projections} projections to {net.dimensions} dimensions: the survey's theorem promises nothing for so "
        f"few (chance {changed_by(net.dimensions, 0.5):.2f} of changing an angle by 1/8; it needs "
        f"{dimensions_needed(0.5, 0.1):,} dimensions, and there are {len(net.axes)} attributes)"
    )


def _measured(content: Halfspaces) -> tuple[str, ...]:
    if not content.misfits:
        return ()
    mean, error = (each / content.tests for each in content.misfit)
    if mean <= error:  # as in `mean_error` of models/calibration/misfits_by_kind.py
        off = off_on_average(0.0, hidden=max(mean, 0.0) + NORMAL_END * error)
        return (f"on {content.tests} halfspaces at random, answers were {off}",)
    return (
        f"on {content.tests} halfspaces at random, answers were {off_on_average(mean)} "
        f"(± {error:,.0f}, noise of this figure)",
    )


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.isascii() and printable(name) == name
    return name if plain else '"' + name.replace('"', '""') + '"'
