"""NOT PRIVATE: the steps of the kernel that the audit may replace or read, all named in one place.

A mutant is the kernel with one step replaced, and a recorder looks at what the kernel holds, so both need names that
nobody else may use. These are the names; the audit uses no other, nobody else uses any, and tests hold both to it.
"""

from __future__ import annotations

from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.lab.audit.attacks.recorder import Recorder

HOOKS: dict[type, dict[str, str]] = {
    Curator: {
        "_aggregate": "the private counts, by cell",
        "_dense": "the private counts of one statistic, laid out",
        "_entropy": "the random bits it draws from",
        "_units": "the most that one row changes a cell, by statistic",
        "_noises": "which noise a measurement carries",
        "_missing_noises": "which noise missing values of a measure carry beside its sums",
        "_sift": "which cells reach a threshold",
        "_above_noises": "which noises a sparse vector carries",
        "_margin_noise": "which noise the misfits of margins carry, and what it is charged",
        "_choice_rate": "how strongly a choice follows its scores",
        "_charge_all": "what a choice is charged, in every cell",
        "_loads": "what a measurement is charged, cell by cell",
        "_running_noises": "which noise running totals carry, and what they are charged",
        "_fresh": "the noise that is drawn for one part of a series with running totals",
        "_carried": "the noise of earlier parts of such a series",
        "_held": "what it holds, before it is gathered by cell",
    },
    Lines: {"_counts": "the private rows, by line and cell"},
    Charge: {"_loads": "what each cell has borne so far", "_denominator": "in which parts that is counted"},
    Recorder: {"_Recorder__inner": "the curator that is written down"},
}
