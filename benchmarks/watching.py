"""What a command costs together with the servers that work for it: seconds, CPU and peak memory, from /proc.

A server's processes are not children of the command, so they are looked at ten times a second. Memory is what is a
process's own (RssAnon), added up over all at one moment: the pages of a file or of a server's cache that several
processes share are not counted. A process that lives for less than a tenth of a second may be missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from measuring import Cost

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process at one moment. began: with its number it names a process, for numbers come again."""

    number: int
    parent: int
    began: int
    cpu: float
    megabytes: float


def watched(*arguments: str, code: str | None = None, server: int | None = None) -> Cost:
    """Run Python with these arguments, or this code. server: the process whose new children work for it as well."""
    before = {(one.number, one.began): one.cpu for one in processes() if server in (one.number, one.parent)}
    cpu, most, began = dict[tuple[int, int], float](), 0.0, time.perf_counter()
    command = [sys.executable, *(["-c", code] if code else arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None:
            now = of_interest(run.pid, server)
            cpu |= {(one.number, one.began): one.cpu - before.get((one.number, one.began), 0.0) for one in now}
            most = max(most, sum(one.megabytes for one in now))
            time.sleep(0.1)
    if run.returncode:
        raise SystemExit(f"failed: {' '.join(command)[:300]}")
    return Cost(sum(cpu.values()), time.perf_counter() - began, most)


def of_interest(root: int, server: int | None) -> list[Process]:
    """The process, all that descend from it, and the children of the server."""
    found, wanted = processes(), {root}
    while more := {one.number for one in found if one.parent in wanted} - wanted:
        wanted |= more
    return [one for one in found if one.number in wanted or (server is not None and one.parent == server)]


def processes() -> list[Process]:
    """Every process that can be seen."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            after = (folder / "stat").read_text().rpartition(")")[2].split()
            lines = (folder / "status").read_text().splitlines()
        except OSError:  # it is gone
            continue
        own = next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)
        cpu = (int(after[11]) + int(after[12])) / TICKS
        found.append(Process(int(folder.name), int(after[1]), int(after[19]), cpu, own / 1024))
    return found
