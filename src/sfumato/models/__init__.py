"""Registry of mechanisms by name, the plainest first. A file is one paper and ends with its `Mechanism` value.

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
    "sparse-cells": "sfumato.models.cells.sparse_cells",
    "sfumato": "sfumato.models.tree.measure",
    "margins": "sfumato.models.margins.measure",
    "residual": "sfumato.models.linear.residual",
    "hierarchical": "sfumato.models.linear.hierarchical",
    "wavelet": "sfumato.models.linear.wavelet",
    "matrix": "sfumato.models.linear.matrix",
    "kdtree": "sfumato.models.partition.kdtree",
    "ispe": "sfumato.models.partition.ispe",
    "dawa": "sfumato.models.partition.dawa",
    "mwem": "sfumato.models.weights.mwem",
    "pmw": "sfumato.models.weights.pmw",
    "division": "sfumato.models.linear.division",
    "laplace": "sfumato.models.linear.laplace",
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
    {"sparse-cells", "residual", "wavelet", "kdtree", "ispe", "dawa", "mwem", "pmw", "division", "laplace"}
)


class _Mechanisms(Mapping[str, "Mechanism"]):
    """Lazy mapping from name to `Mechanism`, of the general-purpose mechanisms; a module is imported on lookup."""

    def __getitem__(self, name: str) -> Mechanism:
        return _found_in(MODULES[name])

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
    return _found_in({**MODULES, **SPECIAL}[name])


def _found_in(module: str) -> Mechanism:
    return cast("Mechanism", import_module(module).MECHANISM)


def considered() -> Iterator[Mechanism]:
    """Candidate mechanisms of `auto` for domains small enough to lay out every cell."""
    return (MECHANISMS[name] for name in MODULES if name not in BY_NAME_ONLY)


def sparse_mechanism() -> Mechanism:
    """Mechanism for domains too large to lay out: it publishes only cells above a threshold."""
    return next(one for one in MECHANISMS.values() if one.holds.sparse)
