"""Frozen values: what `dataclasses` promises of them holds."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from pathlib import Path

import pytest

import sfumato
from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Point:
    """Two numbers, a note that is not compared, and a list that is not shown."""

    x: int
    y: int = 2
    note: str = field(default="", compare=False)
    kept: tuple[int, ...] = field(default=(), repr=False)

    @cached_property
    def far(self) -> int:
        return self.x + self.y


@dataclass(frozen=True)
class Named(Point):
    name: str = "p"


@dataclass(frozen=True, eq=False)
class Alone:
    x: int


@dataclass(frozen=True, repr=False)
class Silent:
    secret: int


@dataclass(frozen=True)
class Spoken:
    x: int

    def __repr__(self) -> str:
        return "spoken"


def test_what_was_made_cannot_be_changed() -> None:
    point = Point(1)
    for name in ("x", "note", "new"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(point, name, 3)
    with pytest.raises(FrozenInstanceError, match="x"):
        del point.x  # type: ignore[misc]
    assert (point.x, point.far, point.far) == (1, 3, 3)


def test_values_are_compared_by_what_they_hold_and_their_class() -> None:
    assert Point(1, note="a") == Point(1, note="b") != Point(2)
    assert hash(Point(1, note="a")) == hash(Point(1, note="b"))
    assert Point(1) != Named(1)
    assert Point(1) != (1, 2, "", ())
    one = Alone(1)
    assert one == one != Alone(1)
    assert len({one, Alone(1)}) == 2


def test_they_are_shown_unless_they_must_not_be() -> None:
    assert repr(Named(1, kept=(5,))) == "Named(x=1, y=2, note='', name='p')"
    assert "7" not in repr(Silent(7)).split(" at ")[0]
    assert repr(Spoken(1)) == "spoken"


def test_the_tools_of_dataclasses_know_them() -> None:
    point = Named(1, name="q")
    assert replace(point, y=5) == Named(1, 5, name="q")
    assert [each.name for each in fields(point)] == ["x", "y", "note", "kept", "name"]
    assert asdict(point) == {"x": 1, "y": 2, "note": "", "kept": (), "name": "q"}
    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_a_class_that_may_change_is_a_plain_dataclass() -> None:
    @dataclass
    class Loose:
        x: int

    loose = Loose(1)
    loose.x = 2
    assert loose == Loose(2)


def test_all_of_the_project_uses_them() -> None:
    """One way: a class that inherits from a frozen one must be made by the same decorator."""
    folder = Path(sfumato.__file__).parent
    found = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("from dataclasses import")
        and "dataclass" in line.split("import")[1].replace(",", " ").split()
    ]
    assert found == []


def test_defining_them_is_cheaper() -> None:
    """By the number of functions that are compiled, which does not depend on how busy a machine is."""
    count = (
        "import builtins, dataclasses\n"
        "made, compiled = [], builtins.exec\n"
        "def counting(*given): made.append(1); return compiled(*given)\n"
        "dataclasses.exec = counting\n"
        "from {} import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Point:\n"
        "    '''A point.'''\n"
        "    x: int\n"
        "print(len(made))\n"
    )
    ours, theirs = (
        int(subprocess.run([sys.executable, "-c", count.format(module)], capture_output=True, check=True).stdout)
        for module in ("sfumato.frozen", "dataclasses")
    )
    assert ours <= theirs / 3
