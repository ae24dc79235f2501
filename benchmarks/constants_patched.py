"""Import Sfumato with one constant set to another value, and note whether the code that runs then reads it.

The assignment in the source is replaced before it is compiled, so that copies of the value (imported names, defaults of
parameters and fields, numbers made of it) follow. In functions, reads of the name are noted; fields of settings note
theirs by themselves. Only for a process in which no module of Sfumato is loaded yet.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent / "src" / "sfumato"
NOTE = "_constant_was_read"  # a function among the builtins


class Patched:
    """A constant by its name in docs/constants.md, and whether it was read since `patch` returned."""

    def __init__(self, name: str, text: str | None) -> None:
        """text: the new value as an expression in the constant's module; None for the value that is there."""
        parts = name.split(".")
        modules = next(
            count for count in range(len(parts), 0, -1) if PACKAGE.joinpath(*parts[:count]).with_suffix(".py").exists()
        )
        self.module, self.path, self.text = ".".join(["sfumato", *parts[:modules]]), parts[modules:], text
        self.reads, self.replaced = 0, text is None

    @property
    def bare(self) -> str:
        return self.path[-1]

    def patch(self) -> None:
        """Install it, load the constant's module, and begin to note reads."""
        if any(name.startswith("sfumato.") for name in sys.modules):
            raise RuntimeError("Sfumato is loaded already")
        setattr(builtins, NOTE, self._noted)
        sys.meta_path.insert(0, _Finder(self))
        module = importlib.import_module(self.module)
        if not self.replaced:
            raise LookupError(f"{self.module} assigns no {'.'.join(self.path)}")
        if len(self.path) == 2:
            self._note_field(getattr(module, self.path[0]))
        self.reads = 0

    def _noted(self, value: Any = None) -> Any:
        self.reads += 1
        return value

    def _note_field(self, kind: type) -> None:
        """Have a class of settings note reads of the field."""
        before, field = kind.__getattribute__, self.bare

        def reading(instance: Any, name: str) -> Any:
            if name == field:
                self.reads += 1
            return before(instance, name)

        kind.__getattribute__ = reading  # type: ignore[method-assign, assignment]


class _Finder(MetaPathFinder):
    def __init__(self, patched: Patched) -> None:
        self.patched = patched

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("sfumato."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        if self.patched.bare in Path(spec.loader.path).read_text(encoding="utf-8"):
            spec.loader = _Loader(fullname, spec.loader.path, self.patched)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, patched: Patched) -> None:
        super().__init__(fullname, path)
        self.patched = patched

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.get_data(self.path))
        own = fullname == self.patched.module
        if own and self.patched.text is not None:
            _replace(tree.body, self.patched)
        if len(self.patched.path) == 1:
            names = {self.patched.bare} if own else _imported(tree, self.patched)
            _NoteReads(names | _made_of(tree, names)).visit(tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


def _replace(body: list[ast.stmt], patched: Patched) -> None:
    """Put the new expression in the place of the old one, also as one of several targets or a field of a class."""
    *classes, name = patched.path
    for node in body:
        if classes and isinstance(node, ast.ClassDef) and node.name == classes[0]:
            body, classes = node.body, []
            break
    new = ast.parse(str(patched.text), mode="eval").body
    for node in body:
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if _assigns(node) else None
        if isinstance(target, ast.Name) and target.id == name:
            node.value, patched.replaced = new, True
        elif isinstance(target, ast.Tuple) and name in (names := [getattr(one, "id", "") for one in target.elts]):
            node.value.elts[names.index(name)], patched.replaced = new, True


def _assigns(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign)


def _imported(tree: ast.Module, patched: Patched) -> set[str]:
    """The names by which a module knows the constant."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == patched.module
        for alias in node.names
        if alias.name == patched.bare
    }


def _made_of(tree: ast.Module, names: set[str]) -> set[str]:
    """Names of a module's own numbers that are made of the constant."""
    made: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id in names | made for one in ast.walk(node.value)
        ):
            made |= {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return made


class _NoteReads(ast.NodeTransformer):
    """Note each read of a name inside a function, and each call of a function that has it as a default."""

    def __init__(self, names: set[str]) -> None:
        self.names, self.inside = names, 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        default = any(isinstance(one, ast.Name) and one.id in self.names for part in defaults for one in ast.walk(part))
        self.inside += 1
        node.body = [self.visit(one) for one in node.body]
        self.inside -= 1
        if default:
            note = ast.parse(f"{NOTE}()").body
            node.body = [node.body[0], *note, *node.body[1:]] if ast.get_docstring(node) else [*note, *node.body]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.inside += 1
        self.generic_visit(node)
        self.inside -= 1
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not self.inside or node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        return ast.Call(ast.Name(NOTE, ast.Load()), [node], [])
