"""Where a release is to be written, looked at before anything is spent."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import ReleaseFileError, SfumatoError
from sfumato.kernel.cost import Cost
from sfumato.publishing.request import what_is_released
from sfumato.publishing.steps import with_steps_of
from sfumato.releases.release import Release
from sfumato.schema import Schema


def check_place(path: Path) -> None:
    """Refuse a place where no file can be written."""
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"{path} cannot be written; name a file in a folder that exists")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ReleaseFileError(f"the folder of {path} cannot be written to; choose another with -o")


def already_there(path: Path, schema: Schema, cost: Cost, mechanism: str) -> Release | None:
    """The release that is at its place already, so that nothing need be spent; None where nothing is.

    cost: what was asked for, of which a mechanism may not have needed the delta. mechanism: its name, or auto. A file
    that is something else is refused, whatever it is: to go on would spend a budget that nobody meant to spend.
    """
    if not path.exists():
        return None
    away = "move it away, or leave out --if-missing"
    try:
        found = Release.load(path).refuse_unless_private()
    except SfumatoError as problem:
        raise type(problem)(f"{problem}; {away}", kind=problem.kind) from None
    promise = found.guarantee
    for what, same in {
        "schema": what_is_released(found.schema) == what_is_released(with_steps_of(schema, found.schema)),
        "epsilon": promise.epsilon == cost.epsilon,
        "delta": promise.delta in (0, cost.delta),
        "mechanism": mechanism in ("auto", found.mechanism),
    }.items():
        if not same:
            raise ReleaseFileError(f"{path} is a release already, but with another {what}; {away}", kind="input")
    return found
