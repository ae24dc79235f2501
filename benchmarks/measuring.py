"""Run a process and say what it cost, as it would cost where Sfumato is installed: with its bytecode at hand."""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import sfumato


@dataclass(frozen=True)
class Cost:
    """What a process cost: CPU and wall-clock seconds, peak memory in megabytes."""

    cpu: float
    wall: float
    megabytes: float


def _with_bytecode() -> None:
    """An installer compiles a package; a working copy may be run where nothing is compiled or kept."""
    compileall.compile_dir(Path(sfumato.__file__).parent, quiet=2)


_with_bytecode()


def run(*arguments: str, code: str | None = None) -> Cost:
    """Run Python with these arguments (or this code) and measure the whole process, start-up included."""
    command = [sys.executable, *(["-c", code] if code else arguments)]
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.execv(command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)[:300]}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024)


def best(times: int, *arguments: str, code: str | None = None) -> Cost:
    """The cheapest of several runs, so that a busy machine does not count."""
    return min((run(*arguments, code=code) for _ in range(times)), key=lambda cost: cost.cpu)


__all__ = ["Cost", "best", "resource", "run", "subprocess"]
