"""Places of a row that are not known before all aggregates are: the grouping set, and ranks."""

from __future__ import annotations

from dataclasses import replace

from sfumato.frozen import dataclass
from sfumato.sql.table.plan import Keep, Once, Rank, Rule, Sort, Step
from sfumato.sql.values.tree import Call, Lookup, Ref, Tree

# Stand-ins, far behind any aggregate, while these are still being gathered.
PART = 1_000_000
RANK = 2_000_000


@dataclass(frozen=True)
class Places:
    """Puts the grouping set and the ranks behind the last aggregate; width: of keys and aggregates together."""

    width: int

    def of_tree(self, tree: Tree) -> Tree:
        if isinstance(tree, Call):
            return Call(tree.name, tuple(map(self.of_tree, tree.args)))
        if isinstance(tree, Ref) and tree.place >= RANK:
            return Ref(tree.place - RANK + self.width + 1)
        return replace(tree, place=self.width) if isinstance(tree, Lookup) and tree.place == PART else tree

    def of_step(self, step: Step) -> Step:
        if isinstance(step, Keep):
            return Keep(self.of_tree(step.condition))
        if isinstance(step, Once):
            return Once(tuple(map(self.of_tree, step.by)))
        if isinstance(step, Sort):
            return Sort(tuple(map(self._of_rule, step.rules)))
        if isinstance(step, Rank):
            return Rank(step.kind, tuple(map(self.of_tree, step.within)), tuple(map(self._of_rule, step.rules)))
        return step

    def _of_rule(self, rule: Rule) -> Rule:
        return replace(rule, by=self.of_tree(rule.by))
