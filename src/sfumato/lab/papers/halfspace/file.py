"""How a file keeps halfspaces: the parameters of the net, from which it is made again, and the noisy counts.

counts  the rows of every bin, direction by direction and projection by projection
tested  the noisy sums of misfits, of some test questions each
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from sfumato.lab.papers.halfspace.net import Net
from sfumato.measurement import Measurement
from sfumato.queries import Identity
from sfumato.releases.contents.content import Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.lab.papers.halfspace.content import Halfspaces

COLUMNS = {"counts": ["count"], "tested": ["misfit"]}
MOST_DIRECTIONS = 4096
MOST_OFFSETS = 4096
MOST_PROJECTIONS = 64
MOST_ATTRIBUTES = 16
MOST_TESTS = 1024
MOST_SEED = 2**53
LARGEST = 2**56  # of an answer: sums of a few hundred of them stay exact


@record
class HalfspacesRecord:
    """What a manifest says of halfspaces."""

    over: Annotated[list[str], Field(min_length=1, max_length=MOST_ATTRIBUTES)]
    projections: Annotated[int, Field(ge=1, le=MOST_PROJECTIONS)]
    dimensions: Annotated[int, Field(ge=1, le=MOST_ATTRIBUTES)]
    directions: Annotated[int, Field(ge=1, le=MOST_DIRECTIONS)]
    offsets: Annotated[int, Field(ge=2, le=MOST_OFFSETS)]
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)]
    tests: Annotated[int, Field(ge=0, le=MOST_TESTS)]
    noise: NoiseRecord
    noises_of_misfits: Annotated[list[NoiseRecord], Field(max_length=MOST_TESTS)]


def written(content: Halfspaces) -> Written:
    """All that a file keeps."""
    net = content.net
    answers = np.concatenate([each.answers for each in content.measured])
    tested = np.array([int(each.answers[0]) for each in content.misfits], dtype=np.int64)
    details: dict[str, Any] = {
        "over": list(content.over),
        **{name: getattr(net, name) for name in ("projections", "dimensions", "directions", "offsets", "seed")},
        "tests": content.tests,
        "noise": noise_as_json(content.measured[0].noise),
        "noises_of_misfits": [noise_as_json(each.noise) for each in content.misfits],
    }
    return Written(
        "halfspaces", _statistics(), {"counts": {"count": answers}, "tested": {"misfit": tested}}, {"details": details}
    )


def check(manifest: Manifest, schema: Schema) -> None:
    """Refuse a manifest whose parts are not those of halfspaces."""
    about = details_as(HalfspacesRecord, manifest)
    if {name: member.columns for name, member in manifest.members.items()} != COLUMNS:
        raise refusal("its members are not those of halfspaces")
    if manifest.statistics != _statistics():
        raise refusal("its statistics are not those of halfspaces")
    known = [name for name in about.over if name in schema.domain and schema.domain[name].kind in ("integer", "number")]
    if known != about.over or len({*known}) < len(known) or any(schema.domain[name].places < 2 for name in known):
        raise refusal("its attributes are not numbers of its schema, each once")
    tested = manifest.members["tested"].rows
    if tested != len(about.noises_of_misfits) or (about.tests > 0) != (tested > 0) or tested > about.tests:
        raise refusal("its test does not go with its manifest")
    projections = 1 if about.dimensions >= len(about.over) else about.projections
    directions = 1 if min(about.dimensions, len(about.over)) == 1 else about.directions
    if manifest.members["counts"].rows != projections * directions * about.offsets:
        raise refusal("it does not have a count for each bin of its directions")


def parts(
    manifest: Manifest, schema: Schema, member: Callable[[str], Columns]
) -> tuple[Net, tuple[Measurement, ...], tuple[Measurement, ...], int]:
    """What a file nobody has vouched for holds."""
    about = details_as(HalfspacesRecord, manifest)
    axes = tuple(schema.domain[name] for name in about.over)
    net = Net(axes, about.projections, about.dimensions, about.directions, about.offsets, about.seed)
    counts, tested = member("counts")["count"], member("tested")["misfit"]
    for each in (counts, tested):
        if len(each) and (each.min() < -LARGEST or each.max() > LARGEST):
            raise refusal("it has counts that no table has")
    bins = Identity(about.offsets)
    measured = tuple(
        Measurement("count", bins, each, (about.noise.noise,)) for each in counts.reshape(-1, about.offsets)
    )
    noises = zip(range(len(tested)), about.noises_of_misfits, strict=True)
    misfits = tuple(Measurement("misfit", Identity(1), tested[n : n + 1], (one.noise,)) for n, one in noises)
    return net, measured, misfits, about.tests


def _statistics() -> list[Statistic]:
    return [Statistic("count", "counts", "count", None)]
