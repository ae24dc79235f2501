"""What margins.py compares: our mechanisms by a whole `sfumato release`, independent margins, and peers elsewhere.

Each gives estimates of any margin, and says what its process cost: CPU seconds and peak memory, start-up included.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml

import sfumato as sf
from margins_tables import Estimate, Places, Table
from sfumato.kernel.budget import Cost as Price
from sfumato.kernel.opening import curator_of
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.queries import Identity

# A small process starts the one that is measured: a child's peak is never below what its parent holds.
LAUNCHER = """
import json, resource, subprocess, sys
seconds, most = int(sys.argv[1]), int(float(sys.argv[2]) * 2**30)
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
done = subprocess.run(sys.argv[3:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
why = (done.stderr.strip().splitlines() or [""])[-1]
print(json.dumps([done.returncode, why, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
PEERS = Path(__file__).with_name("margins_peers.py")


class NotDoneError(Exception):
    """A run that came to nothing, and why."""


@dataclass(frozen=True)
class Run:
    """Estimates of margins, and what they cost (None where it was not a process of its own)."""

    estimate: Estimate
    cpu: float | None = None
    megabytes: float | None = None


@dataclass(frozen=True)
class Runs:
    """How tables are released. folder: for files on the way. seconds, gigabytes: limits of a process."""

    folder: Path
    peers_python: str | None = None
    seconds: int = 600
    gigabytes: float = 8.0
    ledger: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ledger", self.folder / "ledger.db")

    def ours(self, table: Table, mechanism: str, epsilon: str, delta: str | None, *, cut: bool = False) -> Run:
        """cut: estimates of each margin become the nearest that are nowhere negative and sum to the same total."""
        schema, out = self.folder / "t.yaml", self.folder / "t.sfumato"
        schema.write_text(yaml.safe_dump(table.schema(), sort_keys=False))
        stated = ["--epsilon", epsilon, *(["--delta", delta] if delta else []), "--mechanism", mechanism]
        where = ["--schema", str(schema), "--ledger", str(self.ledger), "-o", str(out), "--another-unit", "--again"]
        out.unlink(missing_ok=True)
        cpu, megabytes = self._measured(
            sys.executable, "-m", "sfumato", "release", str(table.path), *stated, *where, "--even-if-useless"
        )
        content, names = sf.open(out).content, list(table.sizes)

        def estimate(places: Places) -> np.ndarray:
            shape = table.shape(places)
            kinds = {names[place]: np.arange(size) for place, size in zip(places, shape, strict=True)}
            found = content.view(kinds).cells.values["count"].reshape(shape)
            return non_negative(found, max(float(found.sum()), 0.0)) if cut else found

        return Run(estimate, cpu, megabytes)

    def independent(self, table: Table, epsilon: str, delta: str | None) -> Run:
        """One-way margins with equal shares of the budget, none of them negative, multiplied."""
        schema, budget = sf.Schema.from_dict(table.schema()), Price.stated(epsilon, delta).budget
        curator = curator_of(schema, open_table(table.path).read(schema, key=1), budget, SystemEntropy())
        noisy = []
        for name, share in zip(schema.domain.names, budget.evenly(len(table.sizes)), strict=True):
            seen = curator.margin([name])
            noisy.append(seen.measure(Identity(seen.domain.size), share).answers.astype(np.float64))
        total = max(float(np.mean([each.sum() for each in noisy])), 1.0)
        shares = [non_negative(each, total) / total for each in noisy]

        def estimate(places: Places) -> np.ndarray:
            found = np.array(total)
            for place in places:
                found = np.multiply.outer(found, shares[place])
            return found

        return Run(estimate)

    def peer(self, table: Table, name: str, epsilon: str, delta: str) -> Run:
        """By rows drawn from its model, in an environment of its own."""
        domain, out = self.folder / "domain.json", self.folder / "drawn.npy"
        domain.write_text(json.dumps(table.sizes))
        out.unlink(missing_ok=True)
        given = [str(PEERS), name, str(table.path), str(domain), str(out), epsilon, delta]
        cpu, megabytes = self._measured(str(self.peers_python), *given)
        drawn = np.load(out)
        share = len(table.codes) / len(drawn)
        return Run(lambda places: share * table.margin(places, drawn), cpu, megabytes)

    def _measured(self, *command: str) -> tuple[float, float]:
        launched = [sys.executable, "-c", LAUNCHER, str(self.seconds), str(self.gigabytes), *command]
        told = subprocess.run(launched, stdout=subprocess.PIPE, text=True, check=True).stdout
        status, why, cpu, megabytes = json.loads(told)
        if status:
            over = f"stopped after {self.seconds} CPU seconds" if status == -signal.SIGXCPU else why
            raise NotDoneError(f"{over[:110] or f'ended with status {status}'} ({cpu:.0f} s, {megabytes:,.0f} MB)")
        return cpu, megabytes


def non_negative(noisy: np.ndarray, total: float) -> np.ndarray:
    """The nearest numbers that are not negative and sum to a total."""
    down = np.sort(noisy, axis=None)[::-1]
    above = (np.cumsum(down) - total) / np.arange(1, len(down) + 1)
    return np.maximum(noisy - above[np.flatnonzero(down >= above)[-1]], 0.0)
