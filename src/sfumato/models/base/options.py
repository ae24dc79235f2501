"""What a user may state about a mechanism besides schema and budget: `--with name=value`, read by the types it says.

Options are public: they are written into the release, and into what the ledger knows a request by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from sfumato.errors import MechanismError


def stated_options(given: Sequence[str]) -> dict[str, object]:
    """`name=value` texts by name; `name=@file` is what a file holds.

    >>> stated_options(["of=age", "quantiles=0.1,0.9"])
    {'of': 'age', 'quantiles': '0.1,0.9'}
    """
    found: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise MechanismError(f"--with takes name=value, such as --with target=income, not {text!r}")
        if name.strip() in found:
            raise MechanismError(f"--with states {name.strip()} twice; state it once")
        found[name.strip()] = _held(value.strip()[1:]) if value.strip().startswith("@") else value.strip()
    return found


def _held(path: str) -> str:
    """The text of a file: what it says is stated, so that a request is known again by it and not by its name."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise MechanismError(f"--with cannot read the file {path!r}; after name=@ stands the path of a text") from None


def read_options(mechanism: str, options: type[Any] | None, stated: Mapping[str, object]) -> Any:
    """The options of a mechanism as it says them; lists are texts with commas between."""
    known = {} if options is None else get_type_hints(options)
    values = {}
    for name, value in stated.items():
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "it takes none"
            raise MechanismError(f"{mechanism} has no option {name!r}; {there}")
        values[name] = _read(f"{mechanism}'s option {name}", known[name], value)
    assert options is not None  # noqa: S101 (nothing would have been known)
    return options(**values)


def as_texts(options: Any) -> dict[str, str]:
    """What was stated and what stands where nothing was, as it is written down; what is left open is left out."""
    every = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: _text(value) for name, value in every.items() if value is not None and value != ()}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str, kind: Any, value: object) -> object:
    from pydantic import ValidationError

    many = "tuple" in str(kind)
    try:
        if isinstance(value, str) and many:
            value = [part.strip() for part in value.split(",") if part.strip()]
        if "Fraction" in str(kind):
            value = [Fraction(str(each)) for each in value] if many else Fraction(str(value))  # type: ignore[attr-defined]
        return _checker(kind).validate_python(value)
    except (ValidationError, ValueError, TypeError, ZeroDivisionError):
        raise MechanismError(f"{name} cannot be {_said(value)}; it takes {_words(kind)}") from None


@cache
def _checker(kind: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))


def _said(value: object) -> str:
    return repr(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _words(kind: Any) -> str:
    text = str(kind)
    if "Literal" in text:
        return "one of " + text.partition("[")[2].partition("]")[0].replace("'", "")
    one = "a number" if "Fraction" in text or "float" in text else "a whole number" if "int" in text else "a text"
    one = "true or false" if "bool" in text else one
    return f"a list of these, with commas: {one}" if "tuple" in text else one
