"""How large a question is, found from its plan before anything is laid out for it."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from sfumato.answers.alike import kinds_asked
from sfumato.answers.groups import Groups
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.release import Release
from sfumato.serve.web.bounds import MOST_CELLS, MOST_NUMBERS, MOST_SURE_NUMBERS
from sfumato.serve.web.refusals import Refusal
from sfumato.sql import Select, compile_statement, selects_of


@dataclass(frozen=True)
class Size:
    """cells: that are looked at, those of every number added up. numbers: that need an interval each."""

    cells: int
    numbers: int

    def refuse_if_too_large(self, *, slow: bool) -> None:
        """slow: whether intervals are of a kind that takes longer."""
        most = MOST_SURE_NUMBERS if slow else MOST_NUMBERS
        remedy = "group by fewer attributes, narrow it by WHERE, or ask `sfumato query` on a machine of your own"
        if self.cells > MOST_CELLS:
            raise Refusal("too_large", f"the question is about {self.cells:.3g} cells, 10^9 is the most", remedy)
        if self.numbers > most:
            raise Refusal(
                "too_large", f"the answer has {self.numbers:,} numbers, {most:,} is the most of this kind", remedy
            )


@lru_cache(maxsize=128)  # a slider asks the same statement again and again; texts may be long
def size_of(sql: str, release: Release) -> Size:
    """The size of a statement; nothing for what is no statement of ours, which is refused when it is asked."""
    try:
        selects = selects_of(compile_statement(sql, release.schema))
    except QueryError:
        return Size(0, 0)
    sizes = [_of_select(select, release) for select in selects]
    return Size(sum(size.cells for size in sizes), sum(size.numbers for size in sizes))


def _of_select(select: Select, release: Release) -> Size:
    domain, aggregates = release.domain, max(1, len(set(select.aggregates)))
    whole = prod(domain[name].size for name in select.group_by)
    if whole > MOST_CELLS:  # before it is looked up which groups a WHERE leaves
        return Size(whole, 0)
    told_apart = prod(int(kinds.max(initial=0)) + 1 for kinds in kinds_asked(select, release.schema).values())
    laid_out = domain.size if release.content.answers_linear else 0
    return Size(aggregates * max(told_apart, laid_out), aggregates * len(Groups.of(select, domain).present))
