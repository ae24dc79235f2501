"""YAML files, read without the traps that would change a schema silently."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from sfumato.errors import SchemaError

MOST_BYTES = 1_000_000


class _Loader(yaml.SafeLoader):
    """YAML without the traps that would change a schema silently."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # a few nested aliases expand to gigabytes
            raise _at(self.current_event, "aliases (*name) are not read; write the value out")
        return super().compose_node(parent, index)

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


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.timestamp)


def _at(place: yaml.Node | yaml.Event, problem: str) -> SchemaError:
    return SchemaError(f"line {place.start_mark.line + 1 if place.start_mark else 1}: {problem}")


def read_yaml(path: Path) -> object:
    """What a YAML file holds; nothing in it is executed, and what YAML would silently change is refused."""
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
    try:
        text = content.decode("utf-8-sig")
        parsed = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except UnicodeDecodeError:
        raise SchemaError("the file is not UTF-8 text; check the path, or save it as UTF-8") from None
    except yaml.constructor.ConstructorError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise SchemaError(f"line {line}: this value has a meaning of its own in YAML; put it in quotes") from None
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise SchemaError(f"line {line}: this is not valid YAML ({problem.problem}); mend that line") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise SchemaError("the file is not valid YAML; check the path") from None
    if parsed is None:
        raise SchemaError("the file is empty; `sfumato init TABLE` drafts a schema")
    return parsed
