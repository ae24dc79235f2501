"""`dataclass`: frozen classes as `dataclasses` makes them, defined in a tenth of the time.

Python compiles six functions for every frozen class, 0.7 ms on a small machine, and a query loads a hundred and eighty
such classes. Here the constructor alone is compiled, when the first value is made; comparing, printing and refusing to
change are functions that all classes share. Fields, `replace` and inheritance are those of `dataclasses`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # to a type checker it is the same
    from dataclasses import dataclass as dataclass  # noqa: PLC0414
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, **settings: bool) -> Any:
        """`dataclasses.dataclass`; frozen classes with a dictionary share their methods."""
        if slots or not frozen:
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, **settings)
        return _frozen(**settings) if cls is None else _frozen()(cls)


def _frozen(*, eq: bool = True, repr: bool = True) -> Callable[[type], type]:  # noqa: A002
    def made(cls: type) -> type:
        own = vars(cls).keys()
        shared: dict[str, Any] = {"__setattr__": _set_once, "__delattr__": _never_deleted}
        if repr:
            shared["__repr__"] = _repr
        if eq:
            shared |= {"__eq__": _equal, "__hash__": _hash}
        for name, method in shared.items():
            if name not in own or (name == "__hash__" and vars(cls)[name] is None):
                setattr(cls, name, method)
        lazily = "__init__" not in own
        dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
        if lazily:
            setattr(cls, "__init__", _compiled_when_called(cls))  # noqa: B010 (a type checker takes it for unsound)
        return cls

    return made


def _compiled_when_called(cls: type) -> Callable[..., None]:
    def compile_and_call(self: Any, /, *given: Any, **named: Any) -> None:
        compiled = _constructor(cls)
        setattr(cls, "__init__", compiled)  # noqa: B010
        compiled(self, *given, **named)

    return compile_and_call


def _constructor(cls: type) -> Callable[..., None]:
    """Compile the constructor of a class: it fills the dictionary of a value, then calls `__post_init__`."""
    parameters, lines, known = ["self"], ["_values = self.__dict__"], {"_unset": object()}
    for each in dataclasses.fields(cls):
        name, made = each.name, each.default_factory is not dataclasses.MISSING
        known[f"_default_{name}"] = each.default_factory if made else each.default
        optional = made or each.default is not dataclasses.MISSING
        if each.init:
            default = "_unset" if made else f"_default_{name}"
            parameters.append(f"{name}={default}" if optional else name)
            value = f"_default_{name}() if {name} is _unset else {name}" if made else name
        elif optional:
            value = f"_default_{name}()" if made else f"_default_{name}"
        else:
            continue
        lines.append(f"_values[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines)
    exec(text, known)  # noqa: S102 (as `dataclasses` does; names are those of fields)
    found: Any = known["__init__"]
    found.__qualname__ = f"{cls.__qualname__}.__init__"
    return found  # type: ignore[no-any-return]


def _set_once(self: Any, name: str, value: object) -> None:
    """Set a field in the constructor; nothing may set it later."""
    if name not in type(self).__dataclass_fields__ or name in self.__dict__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    self.__dict__[name] = value


def _never_deleted(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equal(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _compared(self) == _compared(other)


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _compared(value: Any) -> tuple[object, ...]:
    kind = type(value)
    if kind not in _COMPARED_NAMES:
        _COMPARED_NAMES[kind] = tuple(each.name for each in dataclasses.fields(value) if each.compare)
    return tuple([getattr(value, name) for name in _COMPARED_NAMES[kind]])


_COMPARED_NAMES: dict[type, tuple[str, ...]] = {}  # of each class, found once: large plans are hashed often
