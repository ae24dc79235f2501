"""How often the audit flags what is done right."""

from __future__ import annotations

from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.lab.audit.attacks.sampling import audit
from sfumato.lab.audit.mutants.registry import MUTANTS

CONTROL_RUNS = 4_000  # on each input, after the first round


def false_alarms(rounds: int, entropy: Entropy | None = None) -> int:
    """How often a control was flagged in so many rounds.

    In the first round a control runs as often as its mutant does, later fewer times: a false alarm is as unlikely then.
    Checks draw nothing at random: once is enough for them, and test_checks_do_not_complain_about_the_real_thing it is.
    """
    entropy = entropy or SystemEntropy()
    controls = [(mutant.control, mutant.runs) for mutant in MUTANTS.values() if mutant.control is not None]
    alarms = 0
    for done in range(rounds):
        for control, runs in controls:
            alarms += audit(control, min(runs, CONTROL_RUNS) if done else runs, entropy).violated
    return alarms
