"""Registry of mechanisms by name, the plainest first. A file ends with its `MECHANISM`; where it holds several, each
has its name in capitals.

Nothing is imported before it is asked for, so that whoever needs the names alone does not wait for the mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from sfumato.errors import MechanismError

if TYPE_CHECKING:
    from sfumato.models.base.mechanism import Mechanism

MODULES = {
    "cells": "sfumato.models.cells.cells",
    "sparse-cells": "sfumato.models.cells.cells",
    "sfumato": "sfumato.models.tree.measure",
    "margins": "sfumato.models.margins.measure",
    "residual": "sfumato.models.linear.residual",
    "hierarchical": "sfumato.models.linear.measure",
    "spine": "sfumato.models.linear.spine",
    "wavelet": "sfumato.models.linear.measure",
    "matrix": "sfumato.models.linear.measure",
    "kdtree": "sfumato.models.partition.search",
    "ispe": "sfumato.models.partition.ispe",
    "dawa": "sfumato.models.partition.dawa",
    "mwem": "sfumato.models.weights.measure",
    "pmw": "sfumato.models.weights.measure",
    "division": "sfumato.models.linear.measure",
    "laplace": "sfumato.models.linear.measure",
}

# For one purpose each: asked for by name, tried and attacked on tables of their own, never taken by `auto`.
SPECIAL: dict[str, str] = {
    "quantiles": "sfumato.lab.papers.quantiles.measure",
    "bayes": "sfumato.lab.papers.bayes.measure",
    "parity": "sfumato.lab.papers.parity.measure",
    "pac": "sfumato.lab.papers.pac.measure",
    "blr": "sfumato.lab.papers.blr.measure",
    "fourier": "sfumato.lab.papers.fourier.measure",
    "conjunctions": "sfumato.lab.papers.conjunctions.measure",
    "sq": "sfumato.lab.papers.sq.measure",
    "halfspace": "sfumato.lab.papers.halfspace.measure",
    "mldp": "sfumato.lab.papers.mldp.measure",
}

# What `auto` never takes where cells are laid out, by what each says of itself: a choice need not load these.
BY_NAME_ONLY = frozenset(
    {"sparse-cells", "residual", "wavelet", "kdtree", "ispe", "dawa", "mwem", "pmw", "division", "laplace", "spine"}
)


class _Mechanisms(Mapping[str, "Mechanism"]):
    """Lazy mapping from name to `Mechanism`, of the general-purpose mechanisms; a module is imported on lookup."""

    def __getitem__(self, name: str) -> Mechanism:
        return _found_in(MODULES[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


MECHANISMS = _Mechanisms()


def every_name() -> tuple[str, ...]:
    """Names of all mechanisms: general-purpose ones, then single-purpose ones."""
    return (*MODULES, *SPECIAL)


def find_mechanism(name: str) -> Mechanism:
    """Look up a mechanism, general-purpose or single-purpose, by its name.

    >>> find_mechanism("hierarchical").gaussian
    True
    """
    if name not in every_name():
        raise MechanismError(f"no mechanism {name!r}; there are auto, {', '.join(every_name())}")
    return _found_in({**MODULES, **SPECIAL}[name], name)


def _found_in(module: str, name: str) -> Mechanism:
    values = vars(import_module(module))
    return cast("Mechanism", values.get("MECHANISM") or values[name.upper().replace("-", "_")])


def considered() -> Iterator[Mechanism]:
    """Candidate mechanisms of `auto` for domains small enough to lay out every cell."""
    return (MECHANISMS[name] for name in MODULES if name not in BY_NAME_ONLY)


def sparse_mechanism() -> Mechanism:
    """Mechanism for domains too large to lay out: it publishes only cells above a threshold."""
    return next(one for one in MECHANISMS.values() if one.holds.sparse)
