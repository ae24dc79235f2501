"""Random SELECT statements from the grammar of docs/sql.md, about the columns of a schema.

A careful statement can be asked of a plain engine too, which must give the same. Left out of careful statements,
because docs/sql.md gives them another meaning than SQL has, or because SQL leaves it open:

- keys that are bins, weeks or months, whose labels are ours: bins are summed, averaged and cut at their edges instead;
- continuous quantiles of an even number of rows, which SQL takes between two values and a release at one of them;
- SUM of no rows, 0 here and NULL in SQL: compared as equal, and under COALESCE where more is made of it;
- sums of truth values, the order of texts, LIKE's ESCAPE, fractions as text;
- LIMIT after an order that leaves ties, and the names of columns without an alias;
- totals over groups after HAVING, and aggregates of groups that noise chose, which a release refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from sfumato.frozen import dataclass
from sfumato.lab.audit.statements.expressions import COMPARISONS, Expressions, quoted
from sfumato.schema import Schema

ORDERS = ("", "DESC", "ASC", "NULLS FIRST", "DESC NULLS LAST")
LIMITS = ("0", "1", "5", "9223372036854775807", "1.5", "-1")


@dataclass(frozen=True)
class Statement:
    """SQL text. careful: a plain engine must give the same answer. ordered: by keys that leave no ties."""

    text: str
    careful: bool
    ordered: bool = False


def draw(schema: Schema, random: Random, *, careful: bool) -> Statement:
    """Draw one random statement of moderate size. careful: of SQL that a plain engine must answer alike."""
    grammar = _Grammar(Expressions(schema, random, careful), quoted(schema.dataset))
    if not careful and random.random() < 0.1:
        grammar = replace(grammar, table="release")
    (kind,) = random.choices(
        [grammar.select, grammar.listed, grammar.nested, grammar.union, grammar.described],
        [60, 8, 20, 10, 0 if careful else 2],
    )
    return kind()


@dataclass(frozen=True, eq=False)
class _Grammar:
    """Generator of whole statements from random expressions. table: the name in FROM."""

    of: Expressions
    table: str

    def select(self) -> Statement:
        """One SELECT: groups, aggregates, conditions, ranks, order."""
        of = self.of
        keys = of.some_keys(of.random.choice([0, 1, 1, 2]))
        if of.chance(0.3):
            keys[-1:] = [of.scalar()]
        group = self._grouping(keys)
        sets = group.startswith(("ROLLUP", "CUBE", "GROUPING"))
        plain = bool(keys) and not sets
        numbers = [of.amount(grouped=plain) for _ in range(of.random.choice([1, 1, 2]))]
        columns = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        columns += [f"{number} AS n{place}" for place, number in enumerate(numbers)]
        if plain and of.chance(0.1 if of.careful else 0.02):  # each group is worked out by itself
            windows = [
                f"SUM(COUNT(*)) OVER (PARTITION BY {keys[0]})",
                f"SUM(COUNT(*)) OVER (ORDER BY {', '.join(keys)})",
            ]
            windows.append(f"COUNT(*) - LAG(COUNT(*), 1, 0) OVER (ORDER BY {', '.join(keys)})")
            columns.append(f"{of.any(*windows)} AS t")
        window = any(" OVER " in column for column in columns)
        if sets and of.chance(0.5):
            columns.append(f"GROUPING({keys[0]}) AS g")
        ranked = plain and of.chance(0.15)
        if ranked:
            columns.append(f"{self._rank(keys)} AS r")
        text = f"SELECT {', '.join(columns)} FROM {self.table}"
        text += f" WHERE {of.condition()}" if of.chance(0.45) else ""
        text += f" GROUP BY {group}" if keys else ""
        if keys and not (window and of.careful) and of.chance(0.25):
            text += f" HAVING {of.amount(grouped=False, depth=1, inside=True)} {of.any(*COMPARISONS)} {of.number()}"
        text += f" QUALIFY r <= {of.any('1', '2', of.number())}" if ranked and of.chance(0.5) else ""
        shown = [] if sets else [f"k{place}" for place in range(len(keys))]
        tail = self._tail(shown, "COUNT(*)")
        return Statement(text + tail, of.careful, "ORDER BY" in tail)

    def _rank(self, keys: list[str]) -> str:
        """Window rank of groups; ROW_NUMBER is ordered by keys too, so that there are no ties."""
        of, kind = self.of, self.of.any("RANK", "DENSE_RANK", "ROW_NUMBER")
        rules = [f"COUNT(*) {of.any('', 'DESC')}", *(keys if kind == "ROW_NUMBER" else [])]
        within = f"PARTITION BY {keys[0]} " if of.chance(0.3) else ""
        return f"{kind}() OVER ({within}ORDER BY {', '.join(rules)})"

    def _grouping(self, keys: Sequence[str]) -> str:
        """Random form of GROUP BY over some keys."""
        if not keys:
            return ""
        listed = ", ".join(keys)
        places = ", ".join(str(place) for place in range(1, len(keys) + 1))
        sets = f"GROUPING SETS (({listed}), ({keys[0]}), ())"
        forms = [listed, places, "ALL", f"ROLLUP ({listed})", f"CUBE ({listed})", sets]
        (form,) = self.of.random.choices(forms, [12, 2, 1, 2, 2, 2])
        return form

    def _tail(self, keys: Sequence[str], number: str) -> str:
        """Random ORDER BY and LIMIT clauses."""
        of = self.of
        if of.careful:
            if not keys or of.chance(0.5):
                return ""
            first = [f"{of.any(number, '1')} {of.any('', 'DESC')}"] if of.chance(0.4) else []
            rules = [*first, *(f"{key} {of.any('', 'DESC', 'ASC NULLS FIRST', 'DESC NULLS LAST')}" for key in keys)]
            limit = f" LIMIT {of.any('0', '1', '3')} OFFSET {of.any('0', '2')}" if of.chance(0.4) else ""
            return f" ORDER BY {', '.join(rules)}{limit}"
        text = ""
        if of.chance(0.4):
            by = of.random.sample([*keys, "n0", "1", "9", number, of.amount(grouped=True, depth=1)], 2)
            text = f" ORDER BY {', '.join(f'{one} {of.any(*ORDERS)}' for one in by)}"
        text += f" LIMIT {of.any(*LIMITS)}" if of.chance(0.2) else ""
        return text + (f" OFFSET {of.any('0', '3', '99')}" if of.chance(0.1) else "")

    def listed(self) -> Statement:
        """SELECT [DISTINCT] of attribute values without aggregates."""
        of = self.of
        columns = of.some_keys(2)
        if not columns:
            return self.described()
        shown = ", ".join(f"{one} AS k{place}" for place, one in enumerate(columns))
        where = f" WHERE {of.condition(1)}" if of.chance(0.4) else ""
        tail = self._tail([f"k{place}" for place in range(len(columns))], "k0") if of.careful else ""
        distinct = "DISTINCT " if of.careful or of.chance(0.5) else ""
        return Statement(f"SELECT {distinct}{shown} FROM {self.table}{where}{tail}", of.careful, "ORDER BY" in tail)

    def described(self) -> Statement:
        """DESCRIBE of the table, or synthetic rows."""
        rows = f"SELECT * FROM {self.table} WHERE {self.of.condition(1)} LIMIT {self.of.any('0', '3', '70000')}"
        text = self.of.any("DESCRIBE", f"DESCRIBE {self.table}", rows, "SELECT 1", "")
        return Statement(text, careful=False)

    def nested(self) -> Statement:
        """A SELECT over the groups of another: renamed, filtered, sorted, or added up."""
        of = self.of
        keys = of.some_keys(2)
        shown = "".join(f"{key} AS c{place}, " for place, key in enumerate(keys))
        where = f" WHERE {of.condition(1)}" if of.chance(0.3) else ""
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        inner = f"SELECT {shown}{of.aggregate(inside=True)} AS n, COUNT(*) AS total FROM {self.table}{where}{group}"
        rules = ", ".join(["total DESC", *(f"c{place}" for place in range(len(keys)))])
        made = of.any("n", "n / total", "n - total", "2 * n", "n + 1", "ROUND(n, 1)")
        over = f"{of.any('n', 'total', 'ROUND(total, -1)')} > {of.number()}"
        outers = ["SELECT n, total FROM {}", "SELECT * FROM {} WHERE " + over]
        if not of.careful:  # an engine has no errors
            outers += ["SELECT n, n_low, total_high FROM {}", "SELECT n FROM {} WHERE n_low > 1 ORDER BY total_stderr"]
        if keys:
            outers += ["SELECT c0, SUM(total) AS t FROM {} GROUP BY c0 ORDER BY c0", "SELECT c0, n FROM {}"]
            outers += [f"SELECT c0 AS again, {made} AS m FROM {{}}", f"SELECT c0, n FROM {{}} ORDER BY {rules} LIMIT 4"]
            outers += [f"SELECT total AS c0, c0 AS n FROM {{}} WHERE {over}"]
            outers += self._across([f"c{place}" for place in range(len(keys))])
        outer = of.any(*outers)
        if " JOIN " in outer or of.chance(0.5):
            text = f"WITH w AS ({inner}) {outer.replace('{}', 'w')}"
        else:
            text = outer.replace("{}", f"({inner}) AS s")
        return Statement(text, of.careful, "ORDER BY" in outer)

    def _across(self, keys: Sequence[str]) -> list[str]:
        """SELECTs whose numbers are made of several groups: windows, joins, aggregates of aggregates."""
        of, listed = self.of, ", ".join(keys)
        frame = of.any(
            "", " ROWS 1 PRECEDING", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " RANGE UNBOUNDED PRECEDING"
        )
        kind = of.any("SUM", "AVG", "MAX", "MIN", "COUNT", "FIRST_VALUE", "LAST_VALUE")
        side, number = of.any("", "LEFT ", "FULL "), of.any("n", "total")
        return [
            f"SELECT {listed}, {kind}({number}) OVER (ORDER BY {listed}{frame}) AS w FROM {{}}",
            f"SELECT {listed}, total - {of.any('LAG', 'LEAD')}(total) OVER (ORDER BY {listed}) AS d FROM {{}}",
            f"SELECT {of.any('SUM', 'AVG', 'MAX', 'MIN')}(total) AS a, COUNT(*) AS m FROM {{}} WHERE c0 IS NOT NULL",
            "SELECT c0, MAX(total) - MIN(total) AS d FROM {} GROUP BY c0 ORDER BY c0",
            f"SELECT {', '.join(f'x.{key}' for key in keys)}, x.total - y.total AS d FROM {{}} AS x "
            f"{side}JOIN {{}} AS y USING ({listed})",
            "SELECT c0, total / (SELECT SUM(total) FROM {}) AS share FROM {} AS x JOIN (VALUES (1)) AS v(one) ON TRUE",
        ]

    def union(self) -> Statement:
        """UNION of two SELECTs."""
        of = self.of
        one = f"SELECT {of.any('COUNT(*)', of.aggregate(inside=True))} AS n FROM {self.table} WHERE {of.condition(1)}"
        two = f"SELECT COUNT(*) FROM {self.table} WHERE {of.condition(1)}"
        tail = "" if of.careful else of.any("", " ORDER BY n", " ORDER BY 1 DESC LIMIT 1", " LIMIT 0")
        return Statement(f"{one} UNION ALL {two}{tail}", of.careful)
