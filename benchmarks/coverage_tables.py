"""Coverage by mechanism, table and kind of question. `python benchmarks/coverage.py --tables [--runs 40]`

The tables, the questions and the pooling are those of the contract tests and of `sfumato audit`; here every release is
asked every question. Last come the complaints, which take what docs/known-limits.md lists into account.
"""

from __future__ import annotations

from collections.abc import Callable

from sfumato.audit.calibration.calibrate import as_lines, calibrate, pooled
from sfumato.audit.calibration.known_coverage import complaints, pool_alpha, unlisted
from sfumato.audit.calibration.tables import cases
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.mechanisms import MECHANISMS


def print_tables(names: list[str], runs: int, tables: list[str], tell: Callable[[str], None]) -> None:
    """A block for each mechanism: tables down, kinds of question across, in per cent."""
    chosen = [case for case in cases() if not tables or case.name in tables]
    most = max(len(case.questions) for case in chosen)
    tell(f"{runs} releases of each table, all questions; nominal 95 %; bounds are wrong with a chance of 5 %")
    for name in names:
        answers = calibrate(name, chosen, lambda case: runs, SystemEntropy(), asked=most)
        for line in as_lines(name, answers):
            tell(line)
        known = MECHANISMS[name].known_limits
        pool = pooled(unlisted(answers, known))
        power = pool.power(pool_alpha())
        tell(f"{'':13}hits on one release are alike by {pool.alike:.2f}; 85 % is found with a chance of {power:.3f}")
        for complaint in complaints(name, answers, known):
            tell(f"{'':13}TOO SELDOM or not as listed: {complaint}")
