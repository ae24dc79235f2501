"""How a file keeps halfspaces: the parameters of the net, from which it is made again, and the noisy counts.

counts  the rows of every bin, direction by direction and projection by projection
tested  the noisy sum of misfits, where there was a test
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter

from sfumato.measurement import Measurement
from sfumato.queries import Identity
from sfumato.releases.contents.content import Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, noise_record, record
from sfumato.releases.file.strict_json import refusal
from sfumato.schema import Schema
from sfumato.strategies.halfspace_net import Net

if TYPE_CHECKING:
    from sfumato.releases.contents.halfspaces import Halfspaces

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
    noise_of_misfit: NoiseRecord | None


def written(content: Halfspaces) -> Written:
    """All that a file keeps."""
    net, misfit = content.net, content.misfit
    answers = np.concatenate([each.answers for each in content.measured])
    tested = np.zeros(0, dtype=np.int64) if misfit is None else misfit.answers
    dump = TypeAdapter(NoiseRecord).dump_python
    details: dict[str, Any] = {
        "over": list(content.over),
        **{name: getattr(net, name) for name in ("projections", "dimensions", "directions", "offsets", "seed")},
        "tests": content.tests,
        "noise": dump(noise_record(content.measured[0].noise), mode="json"),
        "noise_of_misfit": None if misfit is None else dump(noise_record(misfit.noise), mode="json"),
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
    if (tested, about.noise_of_misfit is None) not in ((0, True), (1, False)) or (about.tests > 0) != (tested > 0):
        raise refusal("its test does not go with its manifest")
    projections = 1 if about.dimensions >= len(about.over) else about.projections
    directions = 1 if min(about.dimensions, len(about.over)) == 1 else about.directions
    if manifest.members["counts"].rows != projections * directions * about.offsets:
        raise refusal("it does not have a count for each bin of its directions")


def parts(
    manifest: Manifest, schema: Schema, member: Callable[[str], Columns]
) -> tuple[Net, tuple[Measurement, ...], Measurement | None, int]:
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
    misfit = None
    if about.noise_of_misfit is not None:
        misfit = Measurement("misfit", Identity(1), tested, (about.noise_of_misfit.noise,))
    return net, measured, misfit, about.tests


def _statistics() -> list[Statistic]:
    return [Statistic("count", "counts", "count", None)]
