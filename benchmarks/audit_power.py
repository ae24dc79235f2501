"""How much the sampling audit sees: the bound it reaches, and whether it notices noise that is 2 % short.

    python benchmarks/audit_power.py [TRIALS] [RUNS]

A million runs on each input, confidence 1 - 1e-6, a count of 0 or 1 with Laplace noise at epsilon 1.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.audit.attacks.sampling import audit
from sfumato.lab.audit.subjects.subject import plain_laplace


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    began = time.perf_counter()
    for name, scale in (("right noise", None), ("noise 2 % short", Fraction(98, 100))):
        found = [audit(plain_laplace(scale=scale), runs, SystemEntropy()) for _ in range(trials)]
        flagged = sum(finding.violated for finding in found)
        bounds = [finding.bound for finding in found]
        print(f"{name:16}: lower bound {min(bounds):.4f} to {max(bounds):.4f}, flagged {flagged} of {trials} times")
    print(f"{runs:,} runs on each input; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
