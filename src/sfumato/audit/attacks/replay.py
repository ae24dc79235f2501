"""The replay audit: run a mechanism on two neighbouring tables with the noise frozen, and compare every call.

As long as all that was published is the same, the next call must be the same too: queries, scales, thresholds, charges,
and in the end what is made of the answers: the value that the mechanism returns, and what its file would hold. That is
the premise of theorem 2 in docs/privacy.md. Its conclusion is then computed from the answers themselves: an answer that
moves by d under Laplace noise of scale b changes the probability of any outcome by a factor of at most exp(|d| / b),
and each such sum must be covered by what was charged and, over all calls, by what was claimed. How rows are read into
counts is not audited here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from fractions import Fraction
from math import inf
from typing import cast

from sfumato.audit.attacks.exact import TOLERANCE, exact_loss, exponential
from sfumato.audit.attacks.recorder import Recorder, fingerprint
from sfumato.audit.attacks.tape import Apart, Call, Tape
from sfumato.audit.attacks.watching import Watched, watching
from sfumato.audit.subjects.small_tables import (
    Row,
    Table,
    curator_of,
    difference,
    neighbouring_tables,
    small_schema,
    square_schema,
)
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.measurement import Laplace
from sfumato.mechanisms import SPECIAL, find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.contents.content import Content
from sfumato.releases.file.manifest import content_of
from sfumato.releases.file.store import contents_of
from sfumato.releases.release import Release
from sfumato.schema import Schema

Run = Callable[[Curator, Schema, Budget], object]
FEW_CELLS = 8  # of a mechanism's own example, on which tables of three rows are tried
MOST_COMPLAINTS = 20  # a broken mechanism is broken on most pairs


@dataclass(frozen=True)
class Complaint:
    """What went wrong on which two neighbouring tables. call: its place among the calls, if it is about one of them."""

    what: str
    call: int | None
    one: tuple[Row, ...]
    other: tuple[Row, ...]


@dataclass(frozen=True)
class Replay:
    """loss: a bound on |log P(y) - log P'(y)| for whatever is published; in rho where the budget is."""

    loss: float
    complaints: list[Complaint]


@dataclass(frozen=True)
class ReplayFinding:
    """The largest loss over so many neighbouring tables, and the first complaints."""

    name: str
    claimed: Fraction
    loss: float
    pairs: int
    complaints: list[Complaint]

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.complaints


def replay(
    run: Run,
    schema: Schema,
    one: Table,
    other: Table,
    budget: Budget | None = None,
    *,
    curator: type[Curator] = Curator,
    seed: int = 0,
) -> Replay:
    """Run a mechanism on two neighbouring tables, feeding the second run what the first one published.

    budget: what the mechanism is given and claims; epsilon 1 if not said.
    curator: the class to run it with. Views are made by that class itself, in `reduce` and `split`.
    """
    budget = budget or Budget.pure(1)
    person = difference(one, other, schema.privacy_unit.contributions)
    first = Tape()
    second = Tape(first)
    faults: list[tuple[str, int | None]] = []
    outputs = []
    with watching(curator, Lines):
        for table, tape in ((one, first), (other, second)):
            entropy = Watched(seed)
            recorder = Recorder(curator_of(schema, table, budget, curator, entropy), entropy, tape)
            try:
                made = run(cast(Curator, recorder), schema, budget)
                outputs.append((fingerprint(made), _file(made, schema, budget)))
            except Apart as apart:
                faults.append((str(apart), len(tape.calls) - 1))
            except SfumatoError as error:
                faults.append((f"the mechanism was refused: {error}", len(tape.calls)))
            except Exception as error:
                # Whatever it is: a mechanism that fails on some tables tells them from the others.
                faults.append((f"the mechanism failed: {type(error).__name__}", len(tape.calls)))
    if not faults and len(first.calls) != len(second.calls):
        faults.append(("there are more calls on one table than on the other", len(second.calls)))
    elif not faults and outputs[0] != outputs[1]:
        faults.append(("what is made of the answers depends on the table", None))
    faults += [(fault, None) for fault in dict.fromkeys(first.faults + second.faults)]

    total: Fraction | float = Fraction(0)
    for place, (mine, its) in enumerate(zip(first.calls, second.calls, strict=False)):
        if mine.asked != its.asked:
            break
        loss = _loss(mine, its, pure=budget.is_pure)
        if loss > _charged(mine, person, budget, schema.privacy_unit.contributions) + TOLERANCE:
            faults.append(("the answers move by more than what was charged", place))
        total += loss
    if total > budget.amount + TOLERANCE:
        faults.append(("the answers move by more than what was claimed", None))
    return Replay(float(total), [Complaint(what, call, tuple(one), tuple(other)) for what, call in faults])


def replay_findings(
    name: str, run: Run | None = None, *, budget: Budget | None = None, curator: type[Curator] = Curator
) -> list[ReplayFinding]:
    """A mechanism on all tables of up to 4 rows on 4 cells, and of up to 3 rows on 3 cells with a measure.

    And on those of up to 3 rows on a square of two attributes, which have margins.
    run: what to run; the mechanism of that name if not said. A row's measure is at either bound, between, or missing.
    budget: epsilon 8 if not said, under which a few rows pass a threshold and what is then done with them is audited.
    """
    budget, findings = budget or Budget.pure(8), []
    for words, schema, rows in _shapes(name):
        if run is None:
            mechanism = find_mechanism(name)
            run = cast(Run, mechanism.with_options(mechanism.tried_with).run)  # the default workload
        half = next((measure.half_units for measure in schema.measures.values()), None)
        pairs, worst, complaints = 0, 0.0, list[Complaint]()
        levels: tuple[tuple[int | None, ...], ...] = ((),) if half is None else ((-half,), (1,), (half,), (None,))
        contributions = schema.privacy_unit.contributions
        for pairs, (one, other) in enumerate(neighbouring_tables(schema.domain.size, rows, contributions, levels), 1):
            found = replay(run, schema, one, other, budget, curator=curator, seed=pairs)
            worst = max(worst, found.loss)
            complaints += found.complaints
            if len(complaints) >= MOST_COMPLAINTS:
                break
        shape = f"{contributions} row{'s' * (contributions > 1)} per person{words}"
        findings.append(ReplayFinding(f"{name}, {shape}", budget.amount, worst, pairs, complaints))
    return findings


def _shapes(name: str) -> list[tuple[str, Schema, int]]:
    """Schemas on which all tables of so many rows are tried: those of any table, or a mechanism's own example."""
    if name in SPECIAL and (example := find_mechanism(name).example) is not None:
        return [("", example(k), 3 if example(k).domain.size <= FEW_CELLS else 2) for k in (1, 2)]
    plain = [("", small_schema(4, k, measured=False), 4) for k in (1, 2)]
    summed = [(", with a measure", small_schema(3, k, measured=True), 3) for k in (1, 2)]
    return [plain[0], summed[0], plain[1], summed[1], (", two attributes", square_schema(1), 3)]


def _file(made: object, schema: Schema, budget: Budget) -> Hashable:
    """What a file would hold of a cube: with equal answers it must be the same, for all else is made of them alone."""
    if not isinstance(made, Content):
        return None
    contents = contents_of(Release(made, "replay", describe_guarantee(budget, schema), private=False))
    members = contents.members.items()
    values = [(name, column, kept.tobytes()) for name, columns in members for column, kept in columns.items()]
    return json.dumps(content_of(contents.manifest)), tuple(values)


def _loss(one: Call, other: Call, *, pure: bool) -> Fraction | float:
    """A bound on what a call tells the two tables apart by, all earlier outcomes being equal."""
    moves = [abs(mine - its) for mine, its in zip(one.answers, other.answers, strict=True)]
    if one.rate is not None and pure:
        return exact_loss([exponential(one.answers, one.rate)], [exponential(other.answers, one.rate)])
    if one.rate is not None:  # choosing with epsilon costs epsilon^2 / 8 (Bun and Steinke 2016)
        return (2 * one.rate * max(moves)) ** 2 / 8
    if one.kind in ("first", "partition"):
        scales = [noise.scale for noise in one.noises if isinstance(noise, Laplace)]
        if not pure or len(scales) != 2:
            return inf  # what is proved of these needs Laplace noise of two kinds
        if one.kind == "first":  # the threshold is shifted by as much as any value moves, and one value by twice that
            return max(moves, default=0) * (1 / scales[0] + 2 / scales[1])
        # For each row of data one bucket's noise is shifted: by 1 if it is a single cell, by 2 if it is longer.
        return sum(moves) * max(1 / scales[0], 2 / scales[1])
    return sum(
        (
            move / noise.scale if isinstance(noise, Laplace) else move**2 / (2 * noise.sigma_squared)
            for move, noise in zip(moves, one.noises, strict=True)
        ),
        Fraction(0),
    )


def _charged(call: Call, person: list[Row], budget: Budget, contributions: int) -> Fraction:
    """What the charge says that a call may tell of this person."""
    if not budget.is_pure:
        return contributions**2 * max(call.loads)
    return sum((call.loads[row.cell if len(call.loads) > 1 else 0] for row in person), Fraction(0))
