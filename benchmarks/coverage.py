"""Coverage by mechanism, table and kind of question. `python benchmarks/coverage.py --tables [--runs 40]`

The tables, the questions and the pooling are those of the contract tests and of `sfumato audit`; here every release is
asked every question. Last come the complaints, which take what docs/known-limits.md lists into account.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.audit.calibration.calibrate import Answered, calibrate, complaints, pool_alpha, pooled, unlisted
from sfumato.lab.audit.calibration.tables import KINDS, cases
from sfumato.models import MECHANISMS


def print_tables(names: list[str], runs: int, tables: list[str], tell: Callable[[str], None]) -> None:
    """A block for each mechanism: tables down, kinds of question across, in per cent."""
    chosen = [case for case in cases() if not tables or case.name in tables]
    most = max(len(case.questions) for case in chosen)
    tell(f"{runs} releases of each table, all questions; nominal 95 %; bounds are wrong with a chance of 5 %")
    for name in names:
        answers = calibrate(name, chosen, lambda case: runs, SystemEntropy(), asked=most)
        for line in as_lines(name, answers):
            tell(line)
        known = MECHANISMS[name].lab.known_limits
        pool = pooled(unlisted(answers, known))
        power = pool.power(pool_alpha())
        tell(f"{'':13}hits on one release are alike by {pool.alike:.2f}; 85 % is found with a chance of {power:.3f}")
        for complaint in complaints(name, answers, known):
            tell(f"{'':13}TOO SELDOM or not as listed: {complaint}")


def as_lines(mechanism: str, answers: Sequence[Answered], alpha: float = 0.025) -> list[str]:
    """Coverage by table and kind of question, in per cent, with bounds of the pool: a line for each table, one for all.

    alpha: the chance that one of the bounds is wrong.
    """
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in answers)]
    lines = [f"{mechanism:13}{'':18}{'releases':>8}{'all':>7}{'between':>12}" + "".join(f"{k:>9}" for k in kinds)]
    for case in (*dict.fromkeys(one.case for one in answers), "all tables"):
        here = [one for one in answers if case in (one.case, "all tables")]
        whole, by_kind = pooled(here), [pooled(one for one in here if one.kind == kind) for kind in kinds]
        low, high = (f"{100 * bound:.0f}" for bound in whole.within(alpha))
        shown = "".join(f"{100 * pool.covered:9.1f}" if len(pool.shares) else f"{'':9}" for pool in by_kind)
        lines.append(f"{'':13}{case:18}{len(whole.shares):8}{100 * whole.covered:7.1f}{f'{low}-{high}':>12}{shown}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mechanism", nargs="*", default=list(MECHANISMS))
    parser.add_argument("--tables", nargs="*", default=[], help="by name; all by default")
    given = parser.parse_args()
    print_tables(given.mechanism, given.runs, given.tables, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
