"""Read a schema from YAML, with lists of values from files beside it.

YAML is read without the traps that would change a schema silently. A list of values is read once, when the schema is,
and published as part of it. It must be public by itself, such as a register of municipalities: one made from the
private table would publish who is in it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import yaml

from sfumato.errors import SchemaError
from sfumato.schema.parts import refuse_lone_surrogates, shown

MOST_BYTES = 1_000_000
MOST_LISTED_BYTES = 2**26  # of a file of values; whether a release file has room for them is checked with the schema


class _Values(yaml.constructor.SafeConstructor):
    """Values of YAML without the traps that would change a schema silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[object, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag.endswith(":merge"):
                raise _at(key_node, "a key must be a plain word; put it in quotes if it is a name")
            key = self.construct_object(key_node)
            if key in lines:  # YAML itself would keep the last and drop the others
                raise _at(key_node, f"the key {key!r} was already given on line {lines[key]}; keep one of them")
            lines[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def number(self, node: yaml.ScalarNode) -> object:
        if ":" in node.value or re.match(r"[+-]?0[0-9]", node.value):
            raise _at(node, f"YAML would read {node.value} as another number; put it in quotes if it is a code or time")
        integer = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if integer else self.construct_yaml_float(node)

    def timestamp(self, node: yaml.ScalarNode) -> object:
        try:
            return self.construct_yaml_timestamp(node)
        except ValueError:
            raise _at(node, f"{node.value} is a day that is not in the calendar") from None

    yaml_constructors: ClassVar = {
        **yaml.constructor.SafeConstructor.yaml_constructors,
        "tag:yaml.org,2002:int": number,
        "tag:yaml.org,2002:float": number,
        "tag:yaml.org,2002:timestamp": timestamp,
    }


class _Nodes(yaml.composer.Composer):
    """Nodes of YAML without aliases."""

    check_event: Callable[..., bool]
    peek_event: Callable[[], yaml.Event]

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # a few nested aliases expand to gigabytes
            raise _at(self.peek_event(), "aliases (*name) are not read; write the value out")
        return super().compose_node(parent, index)


class _Loader(_Nodes, _Values, yaml.SafeLoader):
    """Loader in pure Python; used again for the error message where the fast one fails."""

    def __init__(self, stream: str) -> None:
        yaml.SafeLoader.__init__(self, stream)


if yaml.__with_libyaml__:

    class _FastLoader(_Nodes, _Values, yaml.CSafeLoader):
        """Loader with libyaml's parser, but not its composer, which crashes on deep nesting."""

        def __init__(self, stream: str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            yaml.composer.Composer.__init__(self)


_APART = re.compile(r"[?!\t\ufeff]|[|>][-+0-9]*#")  # the parsers differ about these: tests/schema/test_file.py


def _at(place: yaml.Node | yaml.Event, problem: str) -> SchemaError:
    return _on_line(place.start_mark, problem)


def _on_line(mark: Any, problem: str) -> SchemaError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    refusal = SchemaError(f"line {line}: {problem}")
    refusal.mark = line, column
    return refusal


def read_yaml(path: Path) -> object:
    """Read a YAML file; nothing in it is executed, and what YAML would silently change is refused."""
    return _parsed(_content(path))


def read_yaml_with_places(path: Path) -> tuple[object, dict[tuple[str, ...], Place]]:
    """Read a YAML file, and where each of its keys and values stands, by the keys that lead to it."""
    content = _content(path)
    parsed = _parsed(content)
    return parsed, places_in(content.decode("utf-8-sig"))


def parsed_text(text: str) -> object:
    """Read YAML from a text, by the rules of a file."""
    return _parsed(text.encode())


def places_in(text: str) -> dict[tuple[str, ...], Place]:
    """Where each key and value of a YAML text stands, by the keys that lead to it."""
    return dict(_places(yaml.compose(text, _Loader), ()))


def text_of(path: Path) -> str:
    """The text of a YAML file that can be read."""
    content = _content(path)
    _parsed(content)
    return content.decode("utf-8-sig")


Place = tuple[tuple[int, int], tuple[int, int]]  # line and column of a key, and of its value


def _places(node: yaml.Node | None, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Place]]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        own = (*path, str(key.value))
        marks = [(mark.line + 1, mark.column + 1) for mark in (key.start_mark, value.start_mark)]
        yield own, (marks[0], marks[1])
        yield from _places(value, own)
        for number, item in enumerate(value.value if isinstance(value, yaml.SequenceNode) else (), 1):
            if isinstance(item, yaml.MappingNode):  # a combination that is impossible
                mark = item.start_mark.line + 1, item.start_mark.column + 1
                yield (*own, str(number)), (mark, mark)
                yield from _places(item, (*own, str(number)))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise SchemaError("there is no such file; `sfumato init TABLE` drafts a schema", kind="file") from None
    except OSError as problem:
        raise SchemaError(
            f"the file cannot be read ({problem.strerror}); check the path and its permissions", kind="file"
        ) from None
    if len(content) > MOST_BYTES:
        raise SchemaError("the file is larger than 1 MB, which no schema is; check the path")
    return content


def _loaded(text: str) -> object:
    if yaml.__with_libyaml__ and not _APART.search(text):
        with suppress(yaml.YAMLError, SchemaError, RecursionError, ValueError):  # all said better below
            return yaml.load(text, _FastLoader)  # noqa: S506 - a SafeLoader
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader


def _parsed(content: bytes) -> object:
    try:
        parsed = _loaded(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SchemaError("the file is not UTF-8 text; check the path, or save it as UTF-8") from None
    except yaml.constructor.ConstructorError as problem:
        said = "this value has a meaning of its own in YAML; put it in quotes"
        raise _on_line(problem.problem_mark, said) from None
    except yaml.MarkedYAMLError as problem:
        said = f"this is not valid YAML ({problem.problem}); mend that line"
        raise _on_line(problem.problem_mark, said) from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise SchemaError("the file is not valid YAML; check the path") from None
    if parsed is None:
        raise SchemaError("the file is empty; `sfumato init TABLE` drafts a schema")
    refuse_lone_surrogates(parsed)
    return parsed


_KEYS = ("file", "column", "labels", "groups")
RANGE = re.compile(r"(-?[0-9]{1,15})\s*\.\.\s*(-?[0-9]{1,15})")
_FORM = "write values: [F, M], values: 0..41, values: list.txt, or values: {file: list.csv, column: code}"


def with_values_from_files(mapping: object, folder: Path) -> object:
    """Replace the names of files in a schema by the lists that they hold; files are looked for in a folder."""
    if isinstance(mapping, Mapping) and "with" in mapping:
        given = mapping["with"]
        tables = [_looked_up(one, folder) for one in (given if isinstance(given, list) else [given])]
        mapping = {**mapping, "with": tables}
    if isinstance(mapping, Mapping) and isinstance(mapping.get("recode"), Mapping):
        rules = {name: _with_areas(f"recode.{name}", rule, folder) for name, rule in mapping["recode"].items()}
        mapping = {**mapping, "recode": rules}
    if not isinstance(mapping, Mapping) or not isinstance(mapping.get("attributes"), Mapping):
        return mapping
    attributes = {
        name: _filled(f"attributes.{name}.values", part, folder) if isinstance(part, Mapping) else part
        for name, part in mapping["attributes"].items()
    }
    return {**mapping, "attributes": attributes}


def _filled(where: str, attribute: Mapping[Any, Any], folder: Path) -> Mapping[Any, Any]:
    values = attribute.get("values")
    if isinstance(values, str) and (span := RANGE.fullmatch(values.strip())):
        return {**attribute, "values": _spelled_out(where, *span.groups())}
    if isinstance(values, str):
        return {**attribute, "values": _lines(_text(where, folder, values))}
    if not isinstance(values, Mapping):
        return attribute
    unknown = [key for key in values if key not in _KEYS]
    if unknown or not all(isinstance(values.get(key), str) for key in ("file", "column")):
        raise SchemaError(f"{where} must name a file and one of its columns; {_FORM}")
    header, rows = _table(where, _text(where, folder, values["file"]))
    codes = _column(where, header, rows, values["column"])
    found: dict[str, Any] = {"values": list(dict.fromkeys(codes))}
    if "labels" in values:
        labels = _column(where, header, rows, values["labels"])
        found["labels"] = {code: label for code, label in zip(codes, labels, strict=True) if label}
    groups = values.get("groups", [])
    columns = {name: _column(where, header, rows, name) for name in (groups if isinstance(groups, list) else [groups])}
    if columns and (runs := _in_runs(found["values"], columns)) is not None:
        found |= runs
        columns = {}
    for column, named in columns.items():
        level: dict[str, list[str]] = {}
        for code, group in zip(codes, named, strict=True):
            level.setdefault(group, []).append(code)
        found.setdefault("groups", {})[column] = {group: list(dict.fromkeys(some)) for group, some in level.items()}
    twice = [key for key in found if key != "values" and key in attribute]
    if twice:
        raise SchemaError(f"{where} takes {twice[0]} from a file, and they are written out too; keep one")
    return {**attribute, **found}


def _in_runs(values: list[str], columns: Mapping[str, list[str]]) -> dict[str, Any] | None:
    """Values in an order in which each group's stand together, and the groups with their numbers of values.

    The order is that in which a category has them. None where groups cut through each other, or a value stands twice.
    """
    if any(len(groups) != len(values) for groups in columns.values()):
        return None
    ranks = {name: {group: rank for rank, group in enumerate(dict.fromkeys(some))} for name, some in columns.items()}
    codes = {name: np.array([ranks[name][group] for group in some]) for name, some in columns.items()}
    coarse_first = sorted(columns, key=lambda name: len(ranks[name]))
    order = np.lexsort([codes[name] for name in reversed(coarse_first)])
    found: dict[str, dict[str, int]] = {}
    for name, groups in columns.items():
        ordered = codes[name][order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        if len(starts) > len(ranks[name]):
            return None
        sizes = np.diff(starts, append=len(ordered)).tolist()
        found[name] = dict(zip((groups[place] for place in order[starts].tolist()), sizes, strict=True))
    return {"values": [values[place] for place in order.tolist()], "groups": found}


def read_columns(path: Path) -> dict[str, list[str]]:
    """The columns of a public CSV file by name."""
    header, rows = _table(str(path), _text(str(path), path.parent, path.name))
    return {name: _column(str(path), header, rows, name) for name in header}


def _looked_up(given: object, folder: Path) -> object:
    """A look-up table of `with` with the columns of its file written out."""
    if not isinstance(given, Mapping) or "file" not in given:
        return given
    form = (
        "with must name a file, its key, and columns if not all are wanted; write {file: postcodes.csv, key: postcode}"
    )
    columns = given.get("columns")
    if {*given} - {"file", "key", "column", "columns"} or not all(
        isinstance(given.get(k), str) for k in ("file", "key")
    ):
        raise SchemaError(form)
    if columns is not None and not isinstance(columns, list):
        raise SchemaError(form)
    header, rows = _table("with", _text("with", folder, given["file"]))
    names = list(dict.fromkeys((given["key"], *(header if columns is None else columns))))
    table = {name: _column("with", header, rows, name) for name in names}
    return {"key": given["key"], **({"column": given["column"]} if "column" in given else {}), "table": table}


def _with_areas(where: str, rule: object, folder: Path) -> object:
    """A rule of a point with the polygons of its GeoJSON file written out: areas of one name are one area."""
    if not isinstance(rule, Mapping) or "geojson" not in rule:
        return rule
    given = rule["geojson"]
    if "polygons" in rule or not isinstance(given, Mapping) or {*given} != {"file", "name"}:
        raise SchemaError(
            f"{where} must name a file and a property; write geojson: {{file: areas.geojson, name: title}}"
        )
    areas: dict[str, list[object]] = {}
    try:
        for feature in json.loads(_text(where, folder, str(given["file"])))["features"]:
            name, shape = feature["properties"].get(given["name"]), feature["geometry"]
            if name is None or shape["type"] not in ("Polygon", "MultiPolygon"):
                continue
            parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
            areas.setdefault(str(name), []).extend(
                [[*corner[:2]] for corner in ring[:-1]] for one in parts for ring in one
            )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SchemaError(f"{where} names a file that is no FeatureCollection of GeoJSON; export it as one") from None
    if not areas:
        raise SchemaError(
            f"{where} names a file without a polygon that has {shown(given['name'])}; name a property it has"
        )
    return {key: part for key, part in rule.items() if key != "geojson"} | {"polygons": areas}


def _spelled_out(where: str, first: str, last: str) -> list[int] | list[str]:
    """All whole numbers of a range; texts of one length, if the first has zeros before it: 01..42."""
    low, high = int(first), int(last)
    if low > high:
        raise SchemaError(f"{where} runs from {first} down to {last}; write the smaller number first")
    if high - low >= MOST_BYTES:  # as many as a list in a file could have
        raise SchemaError(f"{where} has more than {MOST_BYTES:,} values; use type: integer with lower and upper")
    padded = len(first) > 1 and first.startswith("0")
    return [str(code).zfill(len(first)) for code in range(low, high + 1)] if padded else list(range(low, high + 1))


def _text(where: str, folder: Path, name: str) -> str:
    try:
        with (folder / name).open("rb") as file:
            content = file.read(MOST_LISTED_BYTES + 1)
    except OSError as problem:
        reason = problem.strerror or "no access"
        raise SchemaError(f"{where} names the file {shown(name)}, which cannot be read ({reason}); {_FORM}") from None
    if len(content) > MOST_LISTED_BYTES:
        raise SchemaError(f"{where} names a file larger than {MOST_LISTED_BYTES:,} bytes; list fewer values")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{where} names a file that is not UTF-8 text; save it as UTF-8") from None


def _lines(text: str) -> list[str]:
    """The lines that are not blank, without blanks around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _table(where: str, text: str) -> tuple[list[str], list[list[str]]]:
    first = text.splitlines()[0] if text.strip() else ""
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=";" if ";" in first else ",") if any(row)]
    if len(rows) < 2:
        raise SchemaError(f"{where} names a file without rows; its first line must name the columns")
    return [name.strip() for name in rows[0]], rows[1:]


def _column(where: str, header: list[str], rows: list[list[str]], name: object) -> list[str]:
    if name not in header:
        raise SchemaError(
            f"{where} asks for the column {shown(name)}, which the file lacks; it has {', '.join(header)}"
        )
    place = header.index(str(name))
    if any(len(row) <= place for row in rows):
        raise SchemaError(f"{where} names a file with a row that ends before the column {shown(name)}; mend the file")
    return [row[place].strip() for row in rows]
