"""The house itself: layers, documents that run, nothing that ties us to one machine."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sfumato"
README = (ROOT / "README.md").read_text()
ALL_MECHANISMS = (ROOT / "docs" / "mechanisms.md").read_text()
MODEL_PAGES = sorted((ROOT / "src" / "sfumato" / "models").glob("*/README.md"))


def test_the_readme_works_as_written(tmp_path, monkeypatch):
    """Its commands and its Python, in order, in one folder, with a table like the one it talks about."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{n},{n % 100},{'FM'[n % 2]},{n * 13 % 90000}\n" for n in range(500))
    Path("people.csv").write_text("person_id,age,sex,income\n" + rows)
    yaml, python = (re.search(rf"```{kind}\n(.*?)```", README, re.S).group(1) for kind in ("yaml", "python"))
    commands = [line.strip() for line in README.splitlines() if line.startswith("    sfumato ")]
    assert len(commands) == 15
    like_adult()
    for command in commands:
        run = subprocess.run(
            f"{sys.executable} -m {command}", shell=True, capture_output=True, text=True, timeout=900, check=False
        )
        assert run.returncode == 0, (command, run.stderr)
        if command.startswith("sfumato init"):
            Path("people.yaml").write_text(yaml)
    Path("people.yaml").write_text(yaml.replace("epsilon: 3.0", "epsilon: 4"))
    subprocess.run([sys.executable, "-m", "sfumato", "ledger", "set", "people", "--epsilon", "4"], check=True)
    run = subprocess.run([sys.executable, "-W", "error", "-c", python], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def like_adult() -> None:
    """A table and a schema with 14 columns and as many cells as the one that the README talks about; rows made up."""
    import numpy as np

    sizes = {
        "age": 74,
        "hours": 99,
        "weight": 100,
        "gain": 100,
        "loss": 99,
        "sex": 2,
        "race": 5,
        "work": 9,
        "class": 15,
    }
    sizes |= {"class": 15, "education": 16, "years": 16, "marital": 7, "relation": 6, "income": 2}
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 4, 3000)
    columns = [np.minimum((kind + 1) * rng.random(3000) * size / 4, size - 1).astype(int) for size in sizes.values()]
    lines = [",".join(sizes), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
    Path("adult.csv").write_text("\n".join(lines) + "\n")
    listed = "".join(
        f"  {name}: {{type: integer, lower: 0, upper: {size - 1}}}\n"
        if size > 16
        else f"  {name}: {{type: category, values: [{', '.join(map(str, range(size)))}]}}\n"
        for name, size in sizes.items()
    )
    Path("adult.yaml").write_text(f"dataset: adult\nprivacy_unit: row\nbudget: {{epsilon: 3}}\nattributes:\n{listed}")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_the_examples_of_every_page_are_true(page):
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert found.failed == 0 and (found.attempted > 0) == (">>> " in page.read_text())


def test_links_between_documents_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md"), *MODEL_PAGES]
    for page in pages:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def test_what_the_pages_say_of_mechanisms_is_what_these_say_of_themselves():
    """Name, page, summary and paper on the page of all, in order; who takes a delta; who depends on the data."""
    from sfumato.models import MECHANISMS

    every, index = list(MECHANISMS.values()), (ROOT / "docs" / "README.md").read_text()
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\((\S+)\) \| (.*?) \| .*? \| (.*?) \|$", ALL_MECHANISMS, re.M)
    assert rows == [(one.name, one.docs, one.summary, one.paper) for one in every]
    (delta,) = re.findall(r"With `--delta 1e-6`, (.*?) may use Gaussian noise", " ".join(ALL_MECHANISMS.split()))
    assert re.findall(r"`([a-z-]+)`", delta) == [one.name for one in every if one.gaussian]
    for words, exact in (("the noise alone", True), ("the data too", False)):
        (pages,) = re.findall(rf"^\| {words}.*? \| (.*) \|$", index, re.M)
        listed = [(one.name, one.docs) for one in every if (one.error == "exact") is exact]
        assert re.findall(r"\[([a-z-]+)\]\((\S+)\)", pages) == listed


def test_the_readme_lists_the_mechanisms_that_auto_takes():
    """In the words of the page of all mechanisms; how many there are is said where they are linked to."""
    from sfumato.models import MECHANISMS, considered, every_name, sparse_mechanism

    taken = {one.name for one in considered()} | {sparse_mechanism().name}
    rows = re.findall(r"^\| \[`([a-z-]+)`\].*\|$", README, re.M)
    assert rows == [name for name in MECHANISMS if name in taken]
    assert all(row.replace("(docs/", "(") in ALL_MECHANISMS for row in re.findall(r"^\| \[`.*$", README, re.M))
    assert f"There are {len(every_name())};" in README and f"all {len(every_name())}," in ALL_MECHANISMS


def test_mechanisms_of_one_purpose_are_listed_by_what_a_user_wants():
    """Name, page and paper in the second table of the page of all, and on the index, in the order of the registry."""
    from sfumato.models import SPECIAL, find_mechanism

    every, index = [find_mechanism(name) for name in SPECIAL], (ROOT / "docs" / "README.md").read_text()
    rows = re.findall(r"^\| [a-z].*? \| \[`([a-z-]+)`\]\((\S+)\) \| (.*?) \|$", ALL_MECHANISMS, re.M)
    assert rows == [(one.name, one.docs, one.paper) for one in every]
    (pages,) = re.findall(r"^\| one purpose.*? \| (.*) \|$", index, re.M)
    assert re.findall(r"\[([a-z-]+)\]\((\S+)\)", pages) == [(one.name, one.docs) for one in every]


def test_every_model_has_its_page():
    """One page in each folder of models/ but the common one, and it names every file of its folder."""
    for folder in (ROOT / "src" / "sfumato" / "models").iterdir():
        if (folder / "__init__.py").exists() and folder.name != "base":
            page = (folder / "README.md").read_text(encoding="utf-8")
            files = [path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if path.stem != "__init__"]
            assert [name for name in files if f"`{name}`" not in page] == [], folder.name


def test_schema_examples_in_the_documents_are_schemas():
    from sfumato.schema import Schema

    for page in (ROOT / "README.md", ROOT / "docs" / "schema.md"):
        import yaml

        for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S):
            assert Schema.from_dict(yaml.safe_load(text)).domain.size > 1


def test_no_file_names_a_package_index():
    hosts = re.compile("|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "index" + "-url", "npm" + r"js\.org"]))
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in listed or [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")]:
        content = (ROOT / name).read_bytes().decode("utf-8", "ignore")
        assert not hosts.search(content), name


@pytest.mark.parametrize("word", ["numpy.random", "np.random", "import random", "import pickle", "default_rng"])
def test_no_other_randomness_and_no_pickles_in_the_package(word):
    for path in (ROOT / "src").rglob("*.py"):
        assert word not in path.read_text(), path


def test_the_public_names_exist_and_are_what_they_say():
    import sfumato as sf
    import sfumato.releases.release  # a module of a similar name must not shadow the function

    assert callable(sf.release) and callable(sf.open) and callable(sf.plan)
    assert sf.Release is sfumato.releases.release.Release
    assert set(sf.__all__) <= set(dir(sf)) and all(hasattr(sf, name) for name in sf._PUBLIC)
    assert {name for name in dir(sf) if not name.startswith("__")} <= set(sf.__all__)
    with pytest.raises(AttributeError):
        sf.nothing  # noqa: B018


def test_names_complete_before_anything_is_loaded():
    code = "import sys, sfumato as sf; print(*dir(sf)); assert not {'numpy', 'pydantic', 'sqlglot'} & set(sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and {"open", "release", "connect", "Schema"} <= set(run.stdout.split()), run.stderr


def test_the_proof_names_all_trusted_code():
    """The list on the page is the kernel, what it imports and the line to a release, with lines right within 5 %."""
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    trusted = page[page.index("## What is trusted") :]
    rows = re.findall(r"^\| `([\w/]+\.py)` \| ([\d,]+) \| (.+) \|$", trusted, re.M)
    stated = {name: int(lines.replace(",", "")) for name, lines, _ in rows}
    true = {path.relative_to(SOURCE).as_posix(): _lines(path) for path in _trusted_files()}
    assert len(stated) == len(rows), "docs/privacy.md lists a file twice; strike one"
    wrong = [f"say what is trusted about `{name}`, {true[name]} lines" for name in sorted(true.keys() - stated.keys())]
    wrong += [f"strike `{name}`, which the kernel does not use" for name in sorted(stated.keys() - true.keys())]
    for name in sorted(true.keys() & stated.keys()):
        if abs(true[name] - stated[name]) > max(1, true[name] / 20):
            wrong.append(f"`{name}` has {true[name]} lines, not {stated[name]}")
    assert not wrong, "set right in docs/privacy.md, What is trusted: " + "; ".join(wrong)
    reading = {name for name in stated if name.startswith("kernel/reading/")}
    kernel = {name for name in stated if name.startswith("kernel/")} - reading
    parts = {"The kernel": kernel, "Reading": reading, "Outside of the kernel": stated.keys() - kernel - reading}
    features = set(
        re.findall(r"`([\w/]+\.py)` \|", trusted[trusted.index("**Single features.**") : trusted.index("### Reading")])
    )
    parts["of it the core, which every release loads"] = core = kernel - features
    loaded = {one.relative_to(SOURCE).as_posix() for name in core for one in _imported_at_once(SOURCE / name)}
    assert not loaded & features, "a file of the kernel's core loads what only single features need; import it there"
    for part, names in {**parts, "all that is trusted": stated.keys()}.items():
        line = f"| {part} | {len(names)} | {sum(stated[name] for name in names):,} |"
        assert line in trusted, f"the numbers of the list add up to another line in docs/privacy.md: {line}"


def _trusted_files() -> set[Path]:
    """Files that define something: all of the kernel, what these import, and three of `publishing/`."""
    found: set[Path] = set()
    wanted = list((SOURCE / "kernel").rglob("*.py"))
    while wanted:
        path = wanted.pop()
        if path not in found:
            found.add(path)
            wanted.extend(_imported(ast.parse(path.read_text(encoding="utf-8"))))
    found |= {SOURCE / "publishing" / name for name in ("publish.py", "prepare.py", "discover.py", "linked.py")}
    return {path for path in found if path.name != "__init__.py" or _defines(path)}


def _imported(node: ast.AST) -> Iterator[Path]:
    """Files of the package that a piece of code imports when it runs, wherever in it that is."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    for parts in (name.split(".")[1:] for name in names if name.startswith("sfumato.")):
        path = SOURCE.joinpath(*parts)
        yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())
    for inner in ast.iter_child_nodes(node):
        yield from _imported(inner)


def _imported_at_once(path: Path) -> Iterator[Path]:
    """Files of the package that a module imports when it is imported, and not later inside a function."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)


def _defines(path: Path) -> bool:
    kinds = ast.FunctionDef | ast.ClassDef
    return any(isinstance(node, kinds) for node in ast.parse(path.read_text(encoding="utf-8")).body)


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_page_on_architecture_has_every_folder():
    page, source = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), ROOT / "src" / "sfumato"
    for folder in source.iterdir():
        assert not (folder / "__init__.py").exists() or f"- **`{folder.name}/`**" in page, folder.name


def test_tests_are_where_what_they_test_is():
    """tests/a/b/test_c.py is about the folder src/sfumato/a/b; what concerns the house is on top."""
    tests, source = ROOT / "tests", ROOT / "src" / "sfumato"
    for path in tests.rglob("test_*.py"):
        folder = path.parent.relative_to(tests)
        assert folder.parts[:1] in ((), ("fire",)) or (source / folder / "__init__.py").exists(), path
