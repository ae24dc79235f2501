"""Names in the documents are names of things that exist: files, tests, folders, modules, commands, flags, extras.

Only what is written as code is looked at: between backticks, in fenced blocks and in indented lines.
"""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sfumato"
PLACES = "README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md"
PAGES = [*(ROOT / name for name in PLACES), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((SOURCE / "models").glob("*/README.md"))
ROOMS = "src", "tests", "benchmarks", "docs"
MADE_UP = {"yours.py", "mechanisms/yours.py"}  # what a reader is told to write


@cache
def files() -> tuple[str, ...]:
    """Every file of the repository that a document may name, from its root."""
    inside = [path for room in ROOMS for path in (ROOT / room).rglob("*") if "__pycache__" not in path.parts]
    return tuple(path.relative_to(ROOT).as_posix() for path in [*inside, *ROOT.glob("*")] if path.is_file())


@cache
def folders() -> tuple[str, ...]:
    return tuple({f"/{parent.as_posix()}/" for name in files() for parent in Path(name).parents})


@cache
def names_of_tests() -> frozenset[str]:
    texts = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in files()
        if name.startswith("tests/") and name[-3:] == ".py"
    )
    return frozenset(name for text in texts for name in re.findall(r"^ *def (test_\w+)", text, re.M))


@cache
def commands() -> dict[str, frozenset[str]]:
    """The flags of every command, by its name; of those under a command too ("ledger show")."""
    from sfumato.cli import application

    found: dict[str, frozenset[str]] = {}

    def walk(command: typer.core.TyperCommand | typer.core.TyperGroup, name: str) -> None:
        flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-")}
        found[name] = frozenset(flags | {"--help", "-h"})
        for inner, each in getattr(command, "commands", {}).items():
            walk(each, f"{name} {inner}".strip())

    walk(typer.main.get_command(application()), "")
    return found


@cache
def extras() -> frozenset[str]:
    return frozenset(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )


def code_in(text: str) -> Iterator[str]:
    """What a page writes as code: spans, and the lines of blocks."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for block in blocks:
        yield from block.replace("\\\n", " ").splitlines()
    for line in rest.splitlines():
        if line.startswith("    "):
            yield line.strip()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"\n(?!\n)", " ", rest))


# -- one kind of name each: what is wrong with a piece of code


def unknown_files(code: str) -> Iterator[str]:
    for path, test in re.findall(
        r"(?<![\w./<>*{-])((?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|cff))\b(?:::(\w+))?(?![\w*/(])", code
    ):
        known = [name for name in files() if f"/{name}".endswith(f"/{path}")]
        if not known and path not in MADE_UP:
            yield path
        if known and test and not any(f"def {test}(" in (ROOT / name).read_text(encoding="utf-8") for name in known):
            yield f"{path}::{test}"


def unknown_tests(code: str) -> Iterator[str]:
    if (
        re.fullmatch(r"test_\w+", code)
        and code not in names_of_tests()
        and not any(f"/{code}." in name for name in files())
    ):
        yield code


def unknown_folders(code: str) -> Iterator[str]:
    if re.fullmatch(r"(?:[a-z_]+/)+", code) and not any(one.endswith(f"/{code}") for one in folders()):
        yield code


def unknown_modules(code: str) -> Iterator[str]:
    for dotted in re.findall(r"(?<![\w./:@-])sfumato(?:\.[A-Za-z_]\w*)+(?!\w)(?!\.(?:yaml|csv))", code):
        names, depth = dotted.split("."), 1
        while depth < len(names) and (
            (SOURCE / Path(*names[1 : depth + 1])).is_dir()
            or (SOURCE / Path(*names[1 : depth + 1])).with_suffix(".py").is_file()
        ):
            depth += 1
        found: object = importlib.import_module(".".join(names[:depth]))
        for name in names[depth:]:
            if not hasattr(found, name) and not any(f'"{dotted}"' in text for text in sources()):  # a setting, say
                yield dotted
                break
            found = getattr(found, name, None)


def unknown_flags(code: str) -> Iterator[str]:
    """In a command of ours those that it does not have; alone, those that nothing of ours has."""
    if re.match(r"--[a-z]", code):
        flag = re.match(r"--[a-z-]+", code)[0]
        ours = {flag for flags in commands().values() for flag in flags}
        if flag not in ours and not any(f'"{flag}"' in text for text in scripts()):
            yield flag
    if script := re.match(r"(?:\S*python3? )?(benchmarks/\w+\.py)(.*)", code):
        text = (ROOT / script[1]).read_text(encoding="utf-8") if (ROOT / script[1]).is_file() else ""
        yield from (
            f"{script[1]} {flag}" for flag in re.findall(r"(?<!\S)--[a-z-]+", script[2]) if f'"{flag}"' not in text
        )
    for words in our_commands(code):
        name = next((n for n in (" ".join(words[:2]), words[0] if words else "", "") if n in commands()), "")
        if words and re.fullmatch(r"[a-z]+", words[0]) and not name:
            yield f"sfumato {words[0]}"
        known = commands()[name] | commands()[""]
        yield from (
            f"sfumato {name} {word}"
            for word in words
            if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known
        )


def our_commands(code: str) -> Iterator[list[str]]:
    """The words after each `sfumato` that begins a command."""
    for part in re.split(r"\s*(?:\||&&|;|\$\()\s*", code.removeprefix("$ ")):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        while words and (re.fullmatch(r"[A-Z_]+=.*", words[0]) or words[0] in ("uvx", "time", "python", "-m")):
            words = words[1:]
        if words and words[0].rsplit("/", 1)[-1] == "sfumato":
            yield words[1:]


@cache
def scripts() -> tuple[str, ...]:
    """Programs with flags of their own: benchmarks, and the suite."""
    named = [
        *(ROOT / "benchmarks").rglob("*.py"),
        ROOT / "tests" / "conftest.py",
        ROOT / "mkdocs.yml",
        ROOT / "Makefile",
    ]
    return tuple(path.read_text(encoding="utf-8") for path in named)


def unknown_targets(code: str) -> Iterator[str]:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1].split()
    for named in re.findall(r"^make ((?:[a-z][a-z-]* ?)+)$", code):
        yield from (f"make {one}" for one in named.split() if one not in targets)


def unknown_mechanisms(code: str) -> Iterator[str]:
    from sfumato.models import every_name

    named = re.findall(r"""--mechanism[ =]([a-z][a-z-]*)|\bmechanism=["']([a-z][a-z-]*)["']""", code)
    after = [word for words in our_commands(code) if words[:1] == ["audit"] for word in words[1:]]
    asked = [word for word in after if re.fullmatch(r"[a-z][a-z-]*", word)]  # no flags, and no numbers of theirs
    yield from (one for one in [*(a or b for a, b in named), *asked] if one not in (*every_name(), "auto", "yours"))


def unknown_extras(code: str) -> Iterator[str]:
    for listed in re.findall(r"(?:\bsfumato|[ '\"]\.)\[([a-z, -]+)\]", code):
        yield from (f"[{one}]" for one in re.split(r", *", listed) if one not in extras())


def unknown_variables(code: str) -> Iterator[str]:
    for name in re.findall(r"\bSFUMATO_[A-Z_]+\b", code):
        if not any(name in text for text in sources()):
            yield name


@cache
def sources() -> tuple[str, ...]:
    return tuple(
        (ROOT / name).read_text(encoding="utf-8")
        for name in files()
        if name.endswith(".py") and "test_names" not in name
    )


KINDS: tuple[Callable[[str], Iterator[str]], ...] = (
    unknown_files,
    unknown_tests,
    unknown_folders,
    unknown_modules,
    unknown_flags,
    unknown_targets,
    unknown_mechanisms,
    unknown_extras,
    unknown_variables,
)


def unknown(code: str) -> list[str]:
    return [name for kind in KINDS for name in kind(code)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_whatever_a_page_names_exists(page):
    found = [name for code in code_in(page.read_text(encoding="utf-8")) for name in unknown(code)]
    assert found == [], f"{page.name} names what is not there: {', '.join(dict.fromkeys(found))}"


def test_what_the_page_of_words_points_to_is_there():
    """In each row of its tables: a file, and classes or functions that this file defines."""
    page = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \| ([^|]*) \| [^|]* \|$", page, re.M)
    assert len(rows) > 60
    for place, names in rows:
        text = (SOURCE / place).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(?:def |class )?{name}\b[ (:=\[]", text, re.M), f"{place} has no {name}"


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_")
)
def test_files_that_the_code_names_in_its_comments_exist(folder):
    """Pages, tests and modules in docstrings and comments, where they have a slash or are pages."""
    named = re.compile(r"(?<![\w./<>*{-])((?:[\w.-]+/)+[\w-]+\.(?:py|md)|[a-z-]+\.md)\b")
    for path in (SOURCE / folder).rglob("*.py"):
        for name in named.findall(path.read_text(encoding="utf-8")):
            assert not list(unknown_files(name)), f"{path.relative_to(ROOT)} names {name}"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("test_reading_attack.py", "test_reading_attack.py"),
        ("pytest tests/lab/audit/test_nothing.py -k x", "tests/lab/audit/test_nothing.py"),
        ("tests/test_names.py::test_nothing", "tests/test_names.py::test_nothing"),
        ("test_nobody_is_called_anything", "test_nobody_is_called_anything"),
        ("kernel/spells/", "kernel/spells/"),
        ("sfumato.lab.audit.spells", "sfumato.lab.audit.spells"),
        ("sfumato audit --mechanism yours", "sfumato audit --mechanism"),
        ("sfumato ledger show --epsilon 3", "sfumato ledger show --epsilon"),
        ("SFUMATO_LEDGER=x sfumato query r 'SELECT 1' --spell | cat", "sfumato query --spell"),
        ("sfumato conjure", "sfumato conjure"),
        ("--conjure", "--conjure"),
        ("python benchmarks/speed.py --conjure", "benchmarks/speed.py --conjure"),
        ("make magic", "make magic"),
        ("sfumato release t.csv --mechanism magic", "magic"),
        ("pip install 'sfumato[magic]'", "[magic]"),
        ("SFUMATO_MAGIC", "SFUMATO_MAGIC"),
    ],
)
def test_what_is_not_there_is_found(code, name):
    assert name in unknown(code)


def test_what_is_there_is_not_complained_about():
    for code in (
        "tests/test_names.py::test_what_is_not_there_is_found",
        "answers/evaluate.py",
        "sfumato.models.cells.cells",
        "sfumato ledger set people --epsilon 4",
        "pytest tests/fire/test_noise.py --full -s",
        "make test",
        "sfumato[explorer]",
        "kernel/ledger/",
    ):
        assert unknown(code) == [], code
