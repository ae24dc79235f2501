"""Replay audit: run a mechanism on two neighbouring tables with the noise frozen, and compare every call.

As long as everything published is the same, the next call must be the same too: queries, scales, thresholds, charges,
and at the end the value that the mechanism returns and the file it would write. That is the premise of theorem 2 in
docs/privacy.md. Its conclusion is then computed from the answers themselves: an answer that moves by d under Laplace
noise of scale b changes the probability of any outcome by a factor of at most exp(|d| / b), and each such sum must be
covered by the charge of its call and, over all calls, by the claim. Reading rows into counts is not audited here.

Descents down a tree have nothing to adapt to on the few cells of the other audits: the tree is looked at once. They are
replayed on 128 cells with enough rows that the first answers change the later queries and their shares of the budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from math import inf
from random import Random
from typing import cast

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.lab.audit.attacks.exact import TOLERANCE, exact_loss, exponential
from sfumato.lab.audit.attacks.recorder import Recorder, fingerprint
from sfumato.lab.audit.attacks.tape import Apart, Call, Tape, Watched, watching
from sfumato.lab.audit.subjects.subject import Row, Table, difference, neighbouring_tables, small_schema, square_schema
from sfumato.lab.audit.subjects.subject import curator_of_table as curator_of
from sfumato.measurement import Laplace, Measurement
from sfumato.models import MECHANISMS, SPECIAL, find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.contents.content import Content
from sfumato.releases.file.manifest import content_of
from sfumato.releases.release import Release, contents_of
from sfumato.schema import Schema

Run = Callable[[Curator, Schema, Budget], object]
FEW_CELLS = 8  # of a mechanism's own example, on which tables of three rows are tried
DRAWS = 8  # runs from which a transcript is taken
MOST_COMPLAINTS = 20  # a broken mechanism is broken on most pairs


@dataclass(frozen=True)
class Complaint:
    """Fault on a pair of neighbouring tables. call: index of the call that it is about, if any."""

    what: str
    call: int | None
    one: tuple[Row, ...]
    other: tuple[Row, ...]


@dataclass(frozen=True)
class Replay:
    """Result of one replay. loss: bound on |log P(y) - log P'(y)| of the whole output, in rho for zCDP budgets."""

    loss: float
    complaints: list[Complaint]


@dataclass(frozen=True)
class ReplayFinding:
    """Result of replays: largest loss over so many pairs of neighbouring tables, and the first complaints."""

    name: str
    claimed: Fraction
    loss: float
    pairs: int
    complaints: list[Complaint]

    @property
    def sound(self) -> bool:
        """Whether the replays found no fault and no loss beyond the claim."""
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
    curator: the class to run it with. Views are made by that class itself, in `reduce`.
    """
    budget = budget or Budget.pure(1)
    person = difference(one, other, schema.privacy_unit.contributions)
    first = _taped(run, schema, one, budget, curator, seed)
    second = _taped(run, schema, other, budget, curator, seed, first.tape)
    loss, faults = compared(first, second, person, budget, schema.privacy_unit.contributions, _weights(schema)[-1])
    return Replay(loss, [Complaint(what, call, tuple(one), tuple(other)) for what, call in faults])


def first_fault(run: Run, schema: Schema, budget: Budget | None = None, curator: type[Curator] = Curator) -> str | None:
    """First complaint of replays of a small mechanism on all tables of up to 2 rows; measures at a bound or missing."""
    half = next((measure.half_units for measure in schema.measures.values()), None)
    levels: Sequence[tuple[int | None, ...]] = ((),) if half is None else ((half,), (None,))
    for one, other in neighbouring_tables(schema.domain.size, 2, 1, levels, _weights(schema)):
        for complaint in replay(run, schema, one, other, budget, curator=curator).complaints:
            return complaint.what
    return None


def replay_findings(
    name: str, run: Run | None = None, *, budget: Budget | None = None, curator: type[Curator] = Curator, seed: int = 0
) -> list[ReplayFinding]:
    """Replay a mechanism on all small tables, such as 4 rows on 4 cells, or 3 rows on 3 cells with a measure.

    Other shapes are a square of two attributes, rows with weights, and a special mechanism's own example (`_shapes`).
    run: by default the mechanism of that name. A row's measure is at either bound, between, or missing. budget: by
    default epsilon 8, so that a few rows pass a threshold and the steps after it are audited too. seed: of the noise,
    and of the tables on which transcripts are drawn.
    """
    budget, findings = budget or Budget.pure(8), []
    for words, schema, rows in _shapes(name):
        if run is None:
            mechanism = find_mechanism(name)
            run = cast(Run, mechanism.with_options(mechanism.lab.tried_with).run)  # the default workload
        contributions = schema.privacy_unit.contributions
        pairs, worst, complaints = 0, 0.0, list[Complaint]()
        for most in range(rows, 0, -1):
            drawn_on = _drawn_table(schema, most, seed, crowded=most == rows)
            heard = _Transcript(run, schema, budget, curator, seed + most, drawn_on)
            kinds = _levels(schema), _weights(schema)
            found = heard.complaints(neighbouring_tables(schema.domain.size, most, contributions, *kinds))
            pairs, worst = max(pairs, found.pairs), max(worst, found.loss)
            complaints += found.complaints
            if len(complaints) >= MOST_COMPLAINTS:
                break
        shape = f"{contributions} row{'s' * (contributions > 1)} per person{words}"
        findings.append(ReplayFinding(f"{name}, {shape}", budget.amount, worst, pairs, complaints))
    return findings


@dataclass(frozen=True, eq=False)
class Recorded:
    """One recorded run: its tape, its fingerprint (None if it ended early), and the faults that ended it."""

    tape: Tape
    output: Hashable
    faults: tuple[tuple[str, int | None], ...] = ()


def _taped(
    run: Run, schema: Schema, table: Table, budget: Budget, curator: type[Curator], seed: int, heard: Tape | None = None
) -> Recorded:
    """Run a mechanism on a table and record it; with `heard`, the recorded results of that run are replayed to it."""
    entropy = Watched(seed)
    return taped_on(curator_of(schema, table, budget, curator, entropy), run, schema, budget, entropy, Tape(heard))


def taped_on(curator: Curator, run: Run, schema: Schema, budget: Budget, entropy: Watched, tape: Tape) -> Recorded:
    """Run a mechanism on a curator whose random bits are `Watched`, and record it on a tape."""
    with watching(type(curator), Lines):
        recorder = Recorder(curator, entropy, tape)
        try:
            made = run(cast(Curator, recorder), schema, budget)
            return Recorded(tape, (fingerprint(made), _file(made, schema, budget)))
        except Apart as apart:
            return Recorded(tape, None, ((str(apart), len(tape.calls) - 1),))
        except SfumatoError as error:
            return Recorded(tape, None, ((f"the mechanism was refused: {error}", len(tape.calls)),))
        except Exception as error:
            # Whatever it is: a mechanism that fails on some tables tells them from the others.
            return Recorded(tape, None, ((f"the mechanism failed: {type(error).__name__}", len(tape.calls)),))


def compared(
    one: Recorded, other: Recorded, person: list[Row], budget: Budget, contributions: int, each: int = 1
) -> tuple[float, list[tuple[str, int | None]]]:
    """Bound on the privacy loss between two runs with equal published answers, and the faults found.

    The tables differ by a person's rows. each: the largest weight of a row.
    """
    faults = [*one.faults, *other.faults]
    if not faults and len(one.tape.calls) != len(other.tape.calls):
        calls = min(len(one.tape.calls), len(other.tape.calls))
        faults.append(("there are more calls on one table than on the other", calls))
    elif not faults and one.output != other.output:
        faults.append(("what is made of the answers depends on the table", None))
    faults += [(fault, None) for fault in dict.fromkeys(one.tape.faults + other.tape.faults)]

    total: Fraction | float = Fraction(0)
    for place, (mine, its) in enumerate(zip(one.tape.calls, other.tape.calls, strict=False)):
        if mine.asked != its.asked:
            break
        loss = _loss(mine, its, pure=budget.is_pure)
        if loss > _charged(mine, person, budget, contributions, each) + TOLERANCE:
            faults.append(("the answers move by more than what was charged", place))
        total += loss
    if total > budget.amount + TOLERANCE:
        faults.append(("the answers move by more than what was claimed", None))
    return float(total), faults


@dataclass(frozen=True, eq=False)
class _Transcript:
    """Published answers of one run, replayed to runs on other tables.

    With the same answers all tables must be asked the same, whichever table the answers were drawn on; so every table
    is run once for a transcript, and is then compared with all of its neighbours. The noise is each run's own.
    """

    run: Run
    schema: Schema
    budget: Budget
    curator: type[Curator]
    seed: int
    drawn_on: Table

    @cached_property
    def first(self) -> Recorded:
        """Run that publishes most, of some with different noise: a count below a threshold can end a run early."""
        named = self.run, self.schema, self.drawn_on, self.budget, self.curator
        return max((_taped(*named, self.seed + draw) for draw in range(DRAWS)), key=_published)

    @cached_property
    def runs(self) -> dict[Hashable, Recorded]:
        return {_alike(self.drawn_on): self.first}

    def on(self, table: Table) -> Recorded:
        """Replay of the transcript on a table, cached by table."""
        alike = _alike(table)
        if alike not in self.runs:
            seed, heard = self.seed + len(self.runs), self.first.tape
            self.runs[alike] = _taped(self.run, self.schema, table, self.budget, self.curator, seed, heard)
        return self.runs[alike]

    def complaints(self, tables: Iterable[tuple[Table, Table]]) -> ReplayFinding:
        """Compare the replays on all pairs of neighbouring tables, until there are enough complaints."""
        pairs, worst, complaints, contributions = 0, 0.0, list[Complaint](), self.schema.privacy_unit.contributions
        each = _weights(self.schema)[-1]
        for one, other in tables:
            person = difference(one, other, contributions)
            loss, faults = compared(self.on(one), self.on(other), person, self.budget, contributions, each)
            pairs, worst = pairs + 1, max(worst, loss)
            complaints += [Complaint(what, call, tuple(one), tuple(other)) for what, call in faults]
            if len(complaints) >= MOST_COMPLAINTS:
                break
        return ReplayFinding("", self.budget.amount, worst, pairs, complaints)


def _published(run: Recorded) -> int:
    made = [call.result for call in run.tape.calls]
    return len(made) + sum(len(one.answers) for one in made if isinstance(one, Measurement))


def _alike(table: Table) -> Hashable:
    """Hashable form of a table, equal for equal counts and sums; owners of rows are left out."""
    return tuple(sorted((row.cell, row.weight, *((step is None, step or 0) for step in row.steps)) for row in table))


def _levels(schema: Schema) -> Sequence[tuple[int | None, ...]]:
    """Steps of the measure that rows of small tables take: either bound, one between, or None for missing."""
    half = next((measure.half_units for measure in schema.measures.values()), None)
    return ((),) if half is None else ((-half,), (1,), (half,), (None,))


def _weights(schema: Schema) -> tuple[int, ...]:
    """Steps that rows of small tables weigh: one, and the most."""
    return (1,) if schema.weight is None else (1, schema.weight.most)


def _drawn_table(schema: Schema, rows: int, seed: int, *, crowded: bool) -> Table:
    """Random table of `rows` people for a transcript, uniform over cells and levels.

    crowded: all in one cell, so that one passes thresholds and what is then done with it is audited.
    """
    chance, cells, levels = Random(f"{seed} {rows}"), schema.domain.size, _levels(schema)  # noqa: S311 (not noise)
    crowd, weights = chance.randrange(cells), _weights(schema)
    return [
        Row(
            person,
            crowd if crowded else chance.randrange(cells),
            chance.choice(levels),
            chance.choice(weights) if len(weights) > 1 else 1,
        )
        for person in range(1, rows + 1)
    ]


def _shapes(name: str) -> list[tuple[str, Schema, int]]:
    """Name, schema and number of rows of the tables to replay: general ones, or a mechanism's own example."""
    if name in SPECIAL and (example := find_mechanism(name).lab.example) is not None:
        return [("", example(k), 3 if example(k).domain.size <= FEW_CELLS else 2) for k in (1, 2)]
    plain = [("", small_schema(4, k, measured=False), 4) for k in (1, 2)]
    summed = [(", with a measure", small_schema(3, k, measured=True), 3) for k in (1, 2)]
    weighed = [(", with weights", small_schema(3, k, measured=k == 1, weighed=True), 2) for k in (1, 2)]
    fits = name not in MECHANISMS or MECHANISMS[name].why_not(weighed[0][1]) is None
    square = (", two attributes", square_schema(1), 3)
    return [plain[0], summed[0], plain[1], summed[1], square, *(weighed if fits else [])]


def _file(made: object, schema: Schema, budget: Budget) -> Hashable:
    """What a release file would hold, to be checked to follow from the published answers alone; None if no content."""
    if not isinstance(made, Content):
        return None
    contents = contents_of(Release(made, "replay", describe_guarantee(budget, schema), private=False))
    members = contents.members.items()
    values = [(name, column, kept.tobytes()) for name, columns in members for column, kept in columns.items()]
    return json.dumps(content_of(contents.manifest)), tuple(values)


def _loss(one: Call, other: Call, *, pure: bool) -> Fraction | float:
    """Bound on the privacy loss of one call between the two tables, all earlier outcomes being equal."""
    moves = [abs(mine - its) for mine, its in zip(one.answers, other.answers, strict=True)]
    if one.rate is not None:
        return _loss_of_choice(one, other, one.rate, pure=pure) if any(moves) else Fraction(0)
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


def _loss_of_choice(one: Call, other: Call, rate: Fraction, *, pure: bool) -> Fraction | float:
    if pure:
        return exact_loss([_chances(one.answers, rate)], [_chances(other.answers, rate)])
    most = max(abs(mine - its) for mine, its in zip(one.answers, other.answers, strict=True))
    return (2 * rate * most) ** 2 / 8  # choosing with epsilon costs epsilon^2 / 8 (Bun and Steinke 2016)


_chances = lru_cache(maxsize=2**13)(exponential)  # of one table's choices, with which all its neighbours are compared


def _charged(call: Call, person: list[Row], budget: Budget, contributions: int, each: int) -> Fraction:
    """Privacy loss about this person that was charged for a call."""
    if not budget.is_pure:
        return (contributions * each) ** 2 * max(call.loads)
    return each * sum((call.loads[row.cell if len(call.loads) > 1 else 0] for row in person), Fraction(0))


CELLS = 128
# Nobody, two crowds, people all over.
CROWDS = ((), ((1, 60), (64, 9)), tuple((cell, 3) for cell in range(0, CELLS, 2)))
OWN = (0, 1, 64, CELLS - 1)  # the cell of the person who comes and goes
SEEDS = 4


def crowded_tables() -> Iterator[tuple[Table, Table]]:
    """Neighbouring tables of many rows on 128 cells, with and without one person."""
    for crowd, cell in product(CROWDS, OWN):
        cells = [place for place, rows in crowd for _ in range(rows)]
        others = [Row(person, place) for person, place in enumerate(cells, 1)]
        yield [*others, Row(0, cell)], others


def descent_finding(
    name: str, budget: Budget, run: Run | None = None, *, curator: type[Curator] = Curator
) -> ReplayFinding:
    """Replay a tree descent on all crowded tables with several seeds; by default the mechanism of that name."""
    run = run or cast(Run, find_mechanism(name).run)  # the default workload
    schema = small_schema(CELLS, 1, measured=False)
    worst, complaints = 0.0, list[Complaint]()
    cases = list(product(range(SEEDS), crowded_tables()))
    for seed, (one, other) in cases:
        found = replay(run, schema, one, other, budget, curator=curator, seed=seed)
        worst = max(worst, found.loss)
        complaints += found.complaints
    what = f"{name}, a descent over {CELLS} cells, {budget}"
    return ReplayFinding(what, budget.amount, worst, len(cases), complaints)
