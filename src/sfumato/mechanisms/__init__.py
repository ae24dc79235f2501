"""The mechanisms by name, the plainest first: one paper, one file, which ends with its value, and one line here.

Nothing is imported before it is asked for, so that whoever needs the names alone does not wait for the mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from sfumato.errors import MechanismError

if TYPE_CHECKING:
    from sfumato.mechanisms.mechanism import Mechanism

MODULES = {
    "cells": "sfumato.mechanisms.cells",
    "sparse-cells": "sfumato.mechanisms.sparse_cells",
    "sfumato": "sfumato.mechanisms.sfumato",
    "margins": "sfumato.mechanisms.margins",
    "residual": "sfumato.mechanisms.residual",
    "hierarchical": "sfumato.mechanisms.hierarchical",
    "wavelet": "sfumato.mechanisms.wavelet",
    "matrix": "sfumato.mechanisms.matrix",
    "kdtree": "sfumato.mechanisms.kdtree",
    "ispe": "sfumato.mechanisms.ispe",
    "dawa": "sfumato.mechanisms.dawa",
    "mwem": "sfumato.mechanisms.mwem",
    "pmw": "sfumato.mechanisms.pmw",
    "division": "sfumato.mechanisms.division",
    "laplace": "sfumato.mechanisms.laplace",
}

# For one purpose each: asked for by name, tried and attacked on tables of their own, never taken by `auto`.
SPECIAL: dict[str, str] = {
    "quantiles": "sfumato.mechanisms.special.quantiles",
    "bayes": "sfumato.mechanisms.special.bayes",
    "parity": "sfumato.mechanisms.special.parity",
    "pac": "sfumato.mechanisms.special.pac",
    "blr": "sfumato.mechanisms.special.blr",
    "fourier": "sfumato.mechanisms.special.fourier",
    "conjunctions": "sfumato.mechanisms.special.conjunctions",
    "sq": "sfumato.mechanisms.special.sq",
    "halfspace": "sfumato.mechanisms.special.halfspace",
    "mldp": "sfumato.mechanisms.special.mldp",
}

# What `auto` never takes where cells are laid out, by what each says of itself: a choice need not load these.
BY_NAME_ONLY = frozenset(
    {"sparse-cells", "residual", "wavelet", "kdtree", "ispe", "dawa", "mwem", "pmw", "division", "laplace"}
)


class _Mechanisms(Mapping[str, "Mechanism"]):
    """The value at the end of each module that publishes tables of any schema, imported when it is looked up."""

    def __getitem__(self, name: str) -> Mechanism:
        return _found_in(MODULES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


MECHANISMS = _Mechanisms()


def every_name() -> tuple[str, ...]:
    """Those that publish tables of any schema, then those for one purpose each."""
    return (*MODULES, *SPECIAL)


def find_mechanism(name: str) -> Mechanism:
    """The mechanism of that name.

    >>> find_mechanism("hierarchical").gaussian
    True
    """
    if name not in every_name():
        raise MechanismError(f"no mechanism {name!r}; there are auto, {', '.join(every_name())}")
    return _found_in({**MODULES, **SPECIAL}[name])


def _found_in(module: str) -> Mechanism:
    return cast("Mechanism", import_module(module).MECHANISM)


def considered() -> Iterator[Mechanism]:
    """Those that `auto` chooses from where cells are laid out."""
    return (MECHANISMS[name] for name in MODULES if name not in BY_NAME_ONLY)


def sparse_mechanism() -> Mechanism:
    """The one for domains that are too large to lay out."""
    return next(one for one in MECHANISMS.values() if one.sparse)
