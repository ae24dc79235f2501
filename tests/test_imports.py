"""Modules depend on each other in one direction: no circle, not even one that an import inside a function hides.

A circle means that none of its files can be read, tested or replaced without the others. Imports for type checkers
alone do not count, as no code runs by them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
Graph = dict[str, set[str]]


def import_graph(source: Path) -> Graph:
    """Every module below a folder, packages included, and the modules below it that it imports anywhere."""
    files = {_name(path, source): path for path in source.rglob("*.py")}
    graph: Graph = {}
    for module, path in files.items():
        asked = {_nearest(name, files) for name in _imported(path, module)} - {None}
        # Who imports a module runs the packages around it first. Those around the importer run already; they count
        # only if it asks them for something, or every package that gathers names from its modules were a circle.
        around = {package for name in asked for package in _packages(name)} - set(_packages(module)) - {module}
        graph[module] = asked | around
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """The shortest circle through each module that lies on one; each circle once, from its first name on."""
    found = {tuple(_turned(way)) for module in graph if (way := _way_back(graph, module))}
    return sorted(map(list, found), key=lambda way: (len(way), way))


def _name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, module: str) -> Iterator[str]:
    """What a file imports, down to the name: `from a import b` is a.b, as b may be a module."""
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}: write imports out in full"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _nearest(name: str, files: dict[str, Path]) -> str | None:
    """The module that a name is, or lies in."""
    return next((part for part in [name, *reversed(_packages(name))] if part in files), None)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a tree but what stands under `if TYPE_CHECKING:`."""
    yield node
    for name, children in ast.iter_fields(node):
        if not (name == "body" and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")):
            for child in children if isinstance(children, list) else [children]:
                if isinstance(child, ast.AST):
                    yield from _running(child)


def _packages(name: str) -> list[str]:
    """What a module or a name lies in, from the outside in."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _way_back(graph: Graph, start: str) -> list[str] | None:
    """The shortest way from a module to itself, by a search in widening rings."""
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:
        for following in sorted(graph[way[-1]]):
            if following == start:
                return way
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return None


def _turned(way: list[str]) -> list[str]:
    first = way.index(min(way))
    return way[first:] + way[:first]


def test_no_module_imports_itself_by_way_of_others():
    graph = import_graph(SOURCE)
    assert "sfumato.queries.base" in graph["sfumato.queries"] and len(graph) > 200  # it has looked
    found = {" -> ".join([*way, way[0]]) for way in circles(graph)}
    assert not found, "import circles: " + "; ".join(sorted(found))


MADE_UP = {
    "plain/__init__.py": "from plain.here import a",  # gathers names: no circle, though `here` lies in it
    "plain/here.py": "from plain import there",
    "plain/there.py": "import json",
    "hidden/__init__.py": "",
    "hidden/one.py": "def f():\n    from hidden.two import b",
    "hidden/two.py": "class C:\n    def g(self):\n        import hidden.three as three",
    "hidden/three.py": "try:\n    from hidden import one\nexcept ImportError:\n    pass",
    "typed/__init__.py": "",
    "typed/one.py": "from typed.two import b",
    "typed/two.py": "if TYPE_CHECKING:\n    from typed.one import a\nelse:\n    import hidden.one",
    "asking/__init__.py": "from asking.inside import a",
    "asking/inside.py": "from asking import a",  # what the package itself has only from here
    "around/__init__.py": "from around.inside import a",
    "around/inside.py": "import outside",
    "around/empty.py": "",
    "outside.py": "from around.empty import a",  # runs around/__init__.py before around/empty.py
}


def test_a_circle_is_found_and_named_wherever_it_hides(tmp_path):
    for name, text in MADE_UP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = import_graph(tmp_path)
    assert graph["typed.two"] == {"hidden", "hidden.one"}
    assert circles(graph) == [
        ["asking", "asking.inside"],
        ["around", "around.inside", "outside"],
        ["hidden.one", "hidden.two", "hidden.three"],
    ]
