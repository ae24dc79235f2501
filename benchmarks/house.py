"""How much of the code a reader meets, beside what was asked for. `python benchmarks/house.py [--quick]`

*Files in which a function runs*: files below src/sfumato of which a function, a method, a lambda or a comprehension is
called while something is done, each counted once. What runs because a module is imported does not count: the bodies of
modules and classes, and what these call. Each is measured in a process of its own, so that nothing is kept from before:

- release, query: the command as a user types it, on a table of 300 rows, an age of 10 values and a sex;
- a mechanism alone: from a curator to a content, `MECHANISM.run`;
- interval of one COUNT: from a statement that is compiled to its answer, `content.select`.

*Code of margins alone*: files whose path has the word; the laboratory's mutants of it are one. *Lab and serve*: the
folders of that name. *Import edges*: pairs of modules of which one imports the other anywhere, also inside a function
or for types; `from a import b` where b is no module is one to a; what a registry names as text is none.
*Circles*: sets of more than one module that all import each other, over some way, in that graph. *Judgement constants*:
names in docs/constants.md, but for its last table, whose evidence is judgement. *Start*: CPU of a whole process, the
least of five.

--quick leaves out what runs anything.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sfumato"

LAB = ["lab/"]
SERVE = ["serve/"]

SCHEMA = """
dataset: census
privacy_unit: {column: person_id, contributions: 1}
budget: {epsilon: 3}
attributes:
  age: {type: integer, lower: 0, upper: 9}
  sex: {type: category, values: [F, M]}
"""
TABLE = "person_id,age,sex\n" + "".join(f"{n},{n * n % 10},{'FM'[n % 3 > 0]}\n" for n in range(300))
COUNT = "SELECT COUNT(*) FROM census WHERE age < 4"
ASKED = {  # what, and at most how much of it
    "files of `release`, cells / sfumato": "65 / 95",
    "files of `query`, cells / sfumato": "42 / 52",
    "files of `margins` / `sfumato` run alone": "30 / 38",
    "files of the interval of one COUNT, cells / margins": "14 / 18",
    "code of `margins` alone, files / folders": "15 / 1",
    "modules of src / lines": "480 / 75,000",
    "core without lab and serve, modules / lines": "330 / 52,000",
    "import edges from core into lab, serve": "0",
    "start, `--help` / one query, seconds of CPU": "0.10 / 0.57",
    "judgement constants": "80",
    "circles, type imports included": "0",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only what is read off the source")
    parser.add_argument("--names", action="store_true", help="name edges and circles besides")
    parser.add_argument("--files", metavar="JOURNEY", choices=JOURNEYS, help="which files one journey runs, by name")
    asked = parser.parse_args()
    if asked.files:
        print(*files_of(asked.files), sep="\n")
        return
    found = read_off() if asked.quick else {**journeys(), **read_off(), **start()}
    print(f"{'':52} {'now':>16} {'asked':>14}")
    for name in filter(found.__contains__, ASKED):
        print(f"{name:52} {found[name]:>16} {ASKED[name]:>14}")
    if asked.names:
        graph = import_graph(sources())
        print(*(f"edge: {one} -> {other}" for one, other in outward(graph)), sep="\n")
        print(*(f"circle: {', '.join(circle)}" for circle in circles(graph)), sep="\n")


# -- files in which a function runs


@contextmanager
def watched(files: set[str]) -> Iterator[None]:
    """Note the files of functions that are called, but for those that an import calls."""
    importing, start = 0, str(PACKAGE)

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal importing
        code = frame.f_code
        if event in ("call", "return") and code.co_name == "<module>":
            importing += 1 if event == "call" else -1
        function = event == "call" and not importing and code.co_flags & inspect.CO_OPTIMIZED  # no body of a class
        if function and code.co_filename.startswith(start):
            files.add(code.co_filename.removeprefix(f"{start}/"))

    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


def _command(*words: str) -> Callable[[set[str]], None]:
    """The command line, from its entry on."""

    def run(files: set[str]) -> None:
        from sfumato.cli import command

        sys.argv = ["sfumato", *words]
        with watched(files):
            try:
                command()
            except SystemExit as error:
                if error.code:
                    raise

    return run


def _mechanism(name: str) -> Callable[[set[str]], None]:
    """A mechanism with a curator, which is made before."""

    def run(files: set[str]) -> None:
        import numpy as np

        from sfumato.kernel.budget import Budget
        from sfumato.kernel.given_counts import over_counts
        from sfumato.kernel.sampling.entropy import SystemEntropy
        from sfumato.models import find_mechanism
        from sfumato.schema import Schema

        schema, budget = Schema.of("s.yaml"), Budget.pure(1)
        counts = np.arange(schema.domain.size).reshape(schema.domain.shape) + 5
        curator = over_counts(schema, counts, budget, SystemEntropy(), {})
        mechanism = find_mechanism(name)
        with watched(files):
            mechanism.run(curator, schema, budget, None)

    return run


def _interval(files: set[str]) -> None:
    """From a compiled statement to its answer."""
    import sfumato
    from sfumato.sql import compile_statement

    release = sfumato.open("r.sfumato")
    statement = compile_statement(COUNT, release.schema)
    with watched(files):
        release.content.select(statement, 0.95)  # type: ignore[arg-type]


def _releasing(mechanism: str) -> list[str]:
    return ["release", "t.csv", "--schema", "s.yaml", "--epsilon", "1", "-o", "r.sfumato", "--mechanism", mechanism]


# By name: the mechanism of the release that must be there before, and what is watched.
JOURNEYS: dict[str, tuple[str, Callable[[set[str]], None]]] = {
    "release cells": ("", _command(*_releasing("cells"))),
    "release sfumato": ("", _command(*_releasing("sfumato"))),
    "query cells": ("cells", _command("query", "r.sfumato", COUNT)),
    "query sfumato": ("sfumato", _command("query", "r.sfumato", COUNT)),
    "margins alone": ("", _mechanism("margins")),
    "sfumato alone": ("", _mechanism("sfumato")),
    "interval cells": ("cells", _interval),
    "interval margins": ("margins", _interval),
}
WATCH = """
import sys; sys.path.insert(0, {here!r})
import house
files = set()
house.JOURNEYS[{name!r}][1](files)
print(*sorted(files), sep='\\n', file=open('files.txt', 'w'))
"""


def files_of(name: str) -> list[str]:
    """The files of a journey, which is made in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "s.yaml").write_text(SCHEMA)
        Path(folder, "t.csv").write_text(TABLE)
        if before := JOURNEYS[name][0]:
            _run(folder, "-m", "sfumato", *_releasing(before))
        _run(folder, "-c", WATCH.format(here=str(Path(__file__).parent), name=name))
        return Path(folder, "files.txt").read_text().split()


def _run(folder: str, *words: str) -> None:
    environment = {**os.environ, "SFUMATO_LEDGER": f"{folder}/ledger.sqlite"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(words)[:200]}\n{done.stderr[-2000:]}")


def journeys() -> dict[str, str]:
    """How many files each journey runs, in pairs."""
    count = {name: len(files_of(name)) for name in JOURNEYS}
    rows, names = list(ASKED)[:4], list(JOURNEYS)
    return {row: f"{count[names[2 * n]]} / {count[names[2 * n + 1]]}" for n, row in enumerate(rows)}


# -- what the source says


def read_off() -> dict[str, str]:
    """Sizes, edges, circles and constants."""
    length = {place: text.count("\n") for place, text in sources().items()}
    core, margins = list(filter(is_core, length)), [place for place in length if "margins" in place]
    graph = import_graph(sources())
    return {
        "code of `margins` alone, files / folders": f"{len(margins)} / {len({Path(one).parent for one in margins})}",
        "modules of src / lines": f"{len(length)} / {sum(length.values()):,}",
        "core without lab and serve, modules / lines": f"{len(core)} / {sum(length[one] for one in core):,}",
        "import edges from core into lab, serve": str(len(outward(graph))),
        "judgement constants": str(judgements((ROOT / "docs" / "constants.md").read_text(encoding="utf-8"))),
        "circles, type imports included": str(len(circles(graph))),
    }


def sources() -> dict[str, str]:
    """Every file of the package, by its path."""
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def is_core(place: str) -> bool:
    """Whether a file belongs neither to the laboratory nor to the server."""
    return not place.startswith((*LAB, *SERVE))


def outward(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Who in the core imports what outside."""
    return [(one, other) for one in filter(is_core, graph) for other in sorted(graph[one]) if not is_core(other)]


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Every file, and the files that it imports anywhere, types included."""
    files = {".".join(("sfumato", *_parts(place))): place for place in sources}
    graph: dict[str, set[str]] = {}
    for place, text in sources.items():
        names = set[str]()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {name if name in files else str(node.module) for name in whole}
        graph[place] = {files[name] for name in names if name in files} - {place}
    return graph


def _parts(place: str) -> tuple[str, ...]:
    parts = Path(place).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one file (Tarjan), the largest first."""
    index, low, stack, found = dict[str, int](), dict[str, int](), list[str](), list[list[str]]()

    def visit(one: str) -> None:
        index[one] = low[one] = len(index)
        stack.append(one)
        for other in sorted(graph[one]):
            if other not in index:
                visit(other)
            if other in stack:
                low[one] = min(low[one], low[other])
        if low[one] == index[one]:
            place = stack.index(one)
            found.append(sorted(stack[place:]))
            del stack[place:]

    sys.setrecursionlimit(10_000)
    for one in sorted(graph):
        if one not in index:
            visit(one)
    return sorted((part for part in found if len(part) > 1), key=len, reverse=True)


def judgements(page: str) -> int:
    """Names in all tables but the last of which a line says that they are judgement."""
    found = 0
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:-1]:
        for line in filter(lambda line: line.startswith("| `"), part.splitlines()):
            _, names, _, _, *evidence = line.split("|")
            found += len(re.findall(r"`[\w.]+`", names)) if any("judgement" in cell for cell in evidence) else 0
    return found


# -- start


def start() -> dict[str, str]:
    """CPU seconds of the shortest command and of one query."""
    from measuring import best

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "s.yaml").write_text(SCHEMA)
        Path(folder, "t.csv").write_text(TABLE)
        _run(folder, "-m", "sfumato", *_releasing("cells"))
        helping, asking = (
            best(5, "-m", "sfumato", *words) for words in (["--help"], ["query", f"{folder}/r.sfumato", COUNT])
        )
    return {"start, `--help` / one query, seconds of CPU": f"{helping.cpu:.2f} / {asking.cpu:.2f}"}


if __name__ == "__main__":
    main()
