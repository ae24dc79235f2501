"""Set the audit on every mutant: all must be caught, and no control may be flagged."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.audit.attacks.sampling import audit
from sfumato.lab.audit.mutants.registry import MUTANTS, Mutant

Progress = Callable[[int, int], None]  # (mutants done, mutants in all)


@dataclass(frozen=True)
class Caught:
    """Which audit caught something, and what it said; nothing was caught if `by` is None."""

    by: str | None
    detail: str


def catch(mutant: Mutant, entropy: Entropy) -> Caught:
    """Try the audits on a mutant, the quick ones first."""
    if mutant.check is not None:
        complaint = mutant.check()
        if complaint is not None:
            return Caught(mutant.checked_by, complaint)
    if mutant.subject is None:
        return Caught(None, "no check complained")
    finding = audit(mutant.subject, mutant.runs, entropy)
    detail = f"epsilon {float(finding.claimed):g} claimed, at least {finding.bound:.3f} measured: {finding.event}"
    return Caught("sampling" if finding.violated else None, detail)


def mutant_report(entropy: Entropy, progress: Progress | None = None) -> list[tuple[str, str | None, str]]:
    """Every mutant by name, which audit caught it (None: it survived), and what the audit said."""
    report = []
    for done, mutant in enumerate(MUTANTS.values(), 1):
        caught = catch(mutant, entropy)
        report.append((mutant.name, caught.by, caught.detail))
        if progress is not None:
            progress(done, len(MUTANTS))
    return report
