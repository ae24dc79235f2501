"""NOT PRIVATE: lines with a step of their proof left out, so that the replay audit can be seen to catch them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.lab.audit.attacks.replay import replay
from sfumato.lab.audit.mutants.reading import Check
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables, small_schema
from sfumato.schema import Schema

WHOLE = Budget.pure(4)
MEDIAN, QUARTILE = Fraction(1, 2), Fraction(1, 4)


def below_the_median(curator: Curator, schema: Schema, budget: Budget) -> list[int]:
    """The median with half of the budget, then a quartile among what lies up to it, with the other half."""
    lines = curator.lines(schema.domain.names[:1], budget, pieces=2)
    half, rest = budget.evenly(2)
    first = lines.cut(0, MEDIAN, half, first=0, end=lines.length)
    return [first, lines.cut(0, QUARTILE, rest, first=0, end=first + 1)]


def lines_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[int]:
    """The median of the same line with the whole budget again and again, three times at most."""
    found: list[int] = []
    for _ in range(3):
        try:
            lines = curator.lines(schema.domain.names[:1], budget)
            found.append(lines.cut(0, MEDIAN, budget, first=0, end=lines.length))
        except PrivacyError:
            break
    return found


class FreeLinesCurator(Curator):
    """NOT PRIVATE: lines have a charge of their own, and nothing is charged for them where they come from."""

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        held, self.charge = self.charge, Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        made = super().lines(names, budget, pieces=pieces)
        self.charge = held
        return made


class ReshuffledCurator(Curator):
    """NOT PRIVATE: rows are dealt out in shares of a cell's pieces, so that one more row moves many of them."""

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        made = super().lines(names, budget, pieces=pieces)
        made._counts = made._counts * made._counts.sum()
        return made


def replaying_lines(run: object, kind: type[Curator] = Curator) -> Check:
    """The replay audit on all tables of up to 2 rows in 4 cells."""

    def check() -> str | None:
        schema = small_schema(4, 1, measured=False)
        for one, other in neighbouring_tables(4, 2, 1, ((),)):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:  # type: ignore[arg-type]
                return complaint.what
        return None

    return check
