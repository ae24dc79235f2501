"""Read public boundaries of areas (GeoJSON) for a column of a release, and match them with its values.

The property that names the areas is found by itself: the one that has most values of the column, or most of the codes
behind their labels. The file is the curator's or anybody's, and holds nothing private.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.public.outlines import Grid, Outline, Shape, simplified
from sfumato.schema import Schema
from sfumato.schema.attributes.lists import OTHER, Category

MOST_BYTES = 2**26  # of a file
MOST_AREAS = 4_096  # of a column that is drawn: more cannot be told apart
FARTHEST = 1e12  # of a coordinate, in degrees, metres or feet
MOST_NAMED = 5  # in notes and refusals

Label = str | int  # of an area, as keys of answers have it


@dataclass(frozen=True, eq=False)
class Feature:
    """One feature of a file. names: its properties and `id` that are texts or whole numbers, as texts."""

    names: Mapping[str, str]
    polygons: Outline


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Simplified areas of a column, each with its value. grid: on which their corners lie.

    without: values that have no area. unknown: features, of `features` in all, that are of no value.
    """

    column: str
    grid: Grid
    areas: Mapping[Label, Shape]
    without: tuple[Label, ...]
    unknown: int
    features: int

    @property
    def note(self) -> str | None:
        """Sentence on values without an area and areas without a value; None where all match."""
        said = []
        if self.without:
            many = f"{len(self.without):,} value{'s' * (len(self.without) > 1)} of {self.column}"
            said.append(f"{many} without boundaries: {_some(self.without)}")
        if self.unknown:
            said.append(f"{self.unknown:,} of {self.features:,} features of the file are no value of {self.column}")
        return "; ".join(said) or None

    def geojson(self) -> dict[str, Any]:
        """GeoJSON of the areas. label: key of the value in answers. aspect: times this, x is in scale with y."""
        features = [
            {
                "type": "Feature",
                "properties": {"label": label},
                "geometry": {"type": "MultiPolygon", "coordinates": self._placed(shape)},
            }
            for label, shape in self.areas.items()
        ]
        about = {"column": self.column, "aspect": round(self.grid.aspect, 6), "note": self.note}
        return {"type": "FeatureCollection", **about, "features": features}

    def _placed(self, shape: Shape) -> list[list[list[tuple[float, float]]]]:
        place = self.grid.place
        return [[[place(corner) for corner in [*ring, ring[0]]] for ring in polygon] for polygon in shape]


def boundaries_of(schema: Schema, column: str, file: str | PathLike[str]) -> Boundaries:
    """Read a file of boundaries for a column."""
    return matched(schema, column, features_of(file), str(file))


def columns_with_areas(schema: Schema) -> dict[str, tuple[dict[str, Label], ...]]:
    """Columns that a map can show: categories, whole numbers one by one, columns of groups.

    Each with ways to find the label of a value by its text: by the label itself, by the code behind it.
    """
    found: dict[str, tuple[dict[str, Label], ...]] = {}
    for name, attribute in schema.attributes.items():
        axis = schema.domain[name]
        if isinstance(attribute, Category):
            listed = axis.values[: len(attribute.values)]  # without `other`
            labels: dict[str, Label] = {str(label): str(label) for label in listed}
            coded = dict(zip(axis.codes, labels.values(), strict=True)) if axis.codes else {}
            found[name] = (labels, coded)
        elif axis.kind == "integer" and axis.places <= MOST_AREAS and bool(np.all(np.diff(axis.edges) == 1.0)):
            found[name] = ({str(int(value)): int(value) for value in axis.edges[:-1]},)
    for name, (_, groups) in schema.group_columns.items():
        found[name] = ({group: group for group in groups if group is not None and group != OTHER},)
    return found


def matched(schema: Schema, column: str, features: Sequence[Feature], file: str) -> Boundaries:
    """Match features with the values of a column, and simplify their outlines."""
    ways = columns_with_areas(schema)
    if column not in ways:
        listed = ", ".join(list(ways)[:20]) or "none"
        raise QueryError(f"there is no column {column!r} that a map can show; columns that have areas: {listed}")
    labels = list(ways[column][0].values())
    if len(labels) > MOST_AREAS:
        raise QueryError(
            f"{column} has {len(labels):,} values and a map shows at most {MOST_AREAS:,}; name a column of groups"
        )
    names = list(dict.fromkeys(name for feature in features for name in feature.names))
    tried = [(name, way) for way in ways[column] for name in names]
    matches = [len({way[t] for feature in features if (t := feature.names.get(name)) in way}) for name, way in tried]
    if not any(matches):
        _refuse(column, labels, features, names, file)
    name, way = tried[matches.index(max(matches))]
    outlines: dict[Label, list[Sequence[Floats]]] = {}
    for feature in features:
        label = way.get(feature.names.get(name, ""))
        if label is not None:
            outlines.setdefault(label, []).extend(feature.polygons)
    there = [label for label in labels if label in outlines]
    grid, shapes = simplified([outlines[label] for label in there])
    unknown = sum(feature.names.get(name, "") not in way for feature in features)
    without = tuple(label for label in labels if label not in outlines)
    return Boundaries(column, grid, dict(zip(there, shapes, strict=True)), without, unknown, len(features))


def _refuse(
    column: str, labels: Sequence[Label], features: Sequence[Feature], names: Sequence[str], file: str
) -> NoReturn:
    examples = {name: next(one.names[name] for one in features if name in one.names) for name in names[:20]}
    there = ", ".join(f"{name} ({example[:40]!r})" for name, example in examples.items()) or "none with names"
    raise QueryError(
        f"no property of {file} has values of {column}, such as {str(labels[0])!r}; add one to the file, "
        f"which has these: {there}"
    )


def _some(labels: Sequence[Label]) -> str:
    return ", ".join(map(str, labels[:MOST_NAMED])) + ", ..." * (len(labels) > MOST_NAMED)


# -- the file


def features_of(file: str | PathLike[str]) -> list[Feature]:
    """Read the polygons of a file of GeoJSON; features of other shapes are left out."""
    content = _content(Path(file))
    if not isinstance(content, dict) or content.get("type") != "FeatureCollection":
        raise _not(file, "is no FeatureCollection of GeoJSON", "export it as one")
    listed = content.get("features")
    if not isinstance(listed, list):
        raise _not(file, "has no list of features", "export it as GeoJSON once more")
    found = []
    for place, feature in enumerate(listed, 1):
        shape = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(shape, dict) or shape.get("type") not in ("Polygon", "MultiPolygon"):
            continue
        try:
            parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
            polygons = [[_ring(ring) for ring in polygon] for polygon in parts if polygon]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _not(
                file, f"has a wrong outline in feature {place:,}", "a ring is a list of four or more [x, y] of numbers"
            ) from None
        if polygons:
            found.append(Feature(dict(_names(feature)), polygons))
    if not found:
        raise _not(file, "has no Polygon or MultiPolygon", "name a file of areas, not of points or lines")
    return found


def _names(feature: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    properties = feature.get("properties")
    for name, value in [*(properties.items() if isinstance(properties, dict) else ()), ("id", feature.get("id"))]:
        if isinstance(value, str):
            yield name, value
        elif type(value) is int or (isinstance(value, float) and value.is_integer()):
            yield name, str(int(value))


def _ring(corners: Any) -> Floats:
    kinds = {type(number) for corner in corners for number in corner[:2]}
    found = np.array([corner[:2] for corner in corners], dtype=np.float64)
    if not kinds <= {int, float} or found.ndim != 2 or found.shape[1] != 2 or len(found) < 4:
        raise ValueError
    if not (np.abs(found) <= FARTHEST).all():
        raise ValueError
    return found


def _content(file: Path) -> Any:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as problem:
        raise _not(file, f"cannot be read ({problem.strerror or 'no access'})", "name a GeoJSON file") from None
    if len(raw) > MOST_BYTES:
        raise _not(file, f"is larger than {MOST_BYTES >> 20} MB", "simplify the boundaries first")
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise _not(file, "is no GeoJSON", "export the boundaries as GeoJSON (RFC 7946)") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _not(file: str | PathLike[str], problem: str, remedy: str) -> QueryError:
    return QueryError(f"boundaries: {file} {problem}; {remedy}", kind="file")
