"""Random SQL expressions: constants, expressions of attributes, conditions, arithmetic of aggregates.

Careful ones are well typed, and mean on a release what they mean in SQL; wild ones mix types, and take numbers from
the ends of floating point and texts that nobody lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.schema import Schema

NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "10", "7")
EXTREMES = (
    *("1e308", "-1e308", "5e-324", "-0.0", "1e-400", "9223372036854775807", "-9223372036854775808", "1e400"),
    *("400", "-400", "0.1", "1e16", "123456789012345678901234567890", "1e-9", "2147483648"),
)
TEXTS = ("''", "'NaN'", "'inf'", "'-0'", "'1e5'", "'O''Hara'", "'☃'", "'%'", "'_'", "'2024-02-29'", "'x\u202e'", "' '")
PATTERNS = ("'%'", "'E%'", "'%a%'", "'_a_'", "''", "'%☃'", "'i%''s%'", "'%\\_'")
DATES = ("DATE '2024-02-28'", "DATE '2024-02-29'", "DATE '2024-03-01'", "DATE '2024-01-31' + INTERVAL 1 MONTH")
FAR_DATES = ("DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '1970-01-01'", "DATE '2024-13-45'", "'2024-06-01 12:34'")
LONG_AFTER = ("DATE '9999-12-31' + INTERVAL 99999999 YEAR", "DATE '0001-01-01' - INTERVAL 1 DAY")
PARTS = ("YEAR", "MONTH", "QUARTER", "WEEK", "DAY", "DAYOFWEEK", "DAYOFYEAR")
UNITS = ("year", "quarter", "month", "week", "day")
TYPES = ("INTEGER", "DOUBLE", "VARCHAR", "DATE", "BOOLEAN", "DECIMAL(9, 2)", "BIGINT")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
QUANTILES = ("0", "1", "0.5", "0.25", "0.9", "0.999999", "1e-300")

Option = tuple[float, Callable[[], str]]  # how often, beside the others, and what


@dataclass(frozen=True, eq=False)
class Expressions:
    """Generator of random parts of statements about the columns of a schema."""

    schema: Schema
    random: Random
    careful: bool

    def any(self, *options: str) -> str:
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one_of(self, options: Sequence[Option]) -> str:
        """Draw one of some options, with weights."""
        (chosen,) = self.random.choices([make for _, make in options], [weight for weight, _ in options])
        return chosen()

    def axes(self, *kinds: str) -> list[Axis]:
        return [axis for axis in self.schema.domain if not kinds or axis.kind in kinds]

    def keys(self) -> list[Axis]:
        """Attributes to group by; careful statements leave out bins, whose labels a plain engine lacks."""
        return self.axes("integer", "category", "boolean", "date") if self.careful else self.axes()

    def some_keys(self, most: int) -> list[str]:
        chosen = self.random.sample(self.keys(), min(len(self.keys()), most))
        return [quoted(axis.name) for axis in chosen]

    # constants

    def number(self) -> str:
        return self.any(*NUMBERS) if self.careful or self.chance(0.5) else self.any(*NUMBERS, *EXTREMES)

    def anything(self) -> str:
        """Random constant of any type."""
        return self.any(self.number(), self.number(), *TEXTS, *DATES, *FAR_DATES, *LONG_AFTER, "NULL", "TRUE")

    def constant(self, axis: Axis) -> str:
        """Random constant to compare an attribute with."""
        if not self.careful and self.chance(0.3):
            return self.anything()
        if axis.kind in ("category", "boolean"):
            return literal(self.random.choice(axis.values))
        if axis.kind == "date":
            return self.any(*DATES) if self.careful else self.any(*DATES, *FAR_DATES)
        if axis.kind == "number":  # at an edge, where no bin is cut
            return repr(float(self.random.choice(axis.edges.tolist()[1:-1] or [0.0])))
        return self.number()

    def value(self) -> str:
        """Value of a CASE branch; in careful statements all branches have one type."""
        return self.any("1", "2", "0") if self.careful else self.any("1", "'a'", "NULL", "TRUE", self.number())

    # expressions of attributes

    def scalar(self, depth: int = 2) -> str:
        """Random expression of attributes that GROUP BY accepts."""
        axes = self.keys()
        if not axes or depth == 0:
            return quoted(self.random.choice(axes).name) if axes else self.number()
        if not self.careful and self.chance(0.3):
            return self._wild(depth)
        axis = self.random.choice(axes)
        return self.one_of([*self._of_axis(axis, quoted(axis.name)), (1, self._case), (1, lambda: quoted(axis.name))])

    def _case(self) -> str:
        other = "" if self.chance(0.4) else f" ELSE {self.value()}"
        if self.chance(0.3):
            return f"IF({self.condition(1)}, {self.value()}, {self.value()})"
        return f"CASE WHEN {self.condition(1)} THEN {self.value()}{other} END"

    def _of_axis(self, axis: Axis, name: str) -> list[Option]:
        if axis.kind == "integer":
            return [
                (2, lambda: f"FLOOR({name} / {self.any('2', '3', '7')})"),
                (1, lambda: f"{name} {self.any('+', '-', '*')} {self.number()}"),
                (1, lambda: f"{name} {self.any('//', '%')} {self.any('2', '3')}"),
                (1, lambda: f"ROUND({name} / {self.any('2', '4')}, {self.any('0', '1', '-1')})"),
                (1, lambda: f"{self.any('ABS', 'CEIL')}({name})"),
                (1, lambda: f"{self.any('GREATEST', 'LEAST', 'NULLIF')}({name}, {self.number()})"),
                (1, lambda: f"CAST({name} AS {self.any('INTEGER', 'DOUBLE', 'VARCHAR')})"),
            ]
        if axis.kind == "category":
            return [
                (2, lambda: f"{self.any('LOWER', 'UPPER', 'LENGTH', 'TRIM')}({name})"),
                (1, lambda: f"{self.any('LEFT', 'RIGHT')}({name}, {self.any('1', '2', '0')})"),
                (1, lambda: f"SUBSTRING({name}, {self.any('1', '2')}, {self.any('1', '3')})"),
                (1, lambda: f"{name} || {self.any(*TEXTS)}"),
                (1, lambda: f"CONCAT({name}, '-', {name})"),
                (1, lambda: f"{name} {self.any('LIKE', 'ILIKE')} {self.any(*PATTERNS[:-1])}"),
            ]
        if axis.kind == "date":
            return [
                (1, lambda: f"EXTRACT({self.any(*PARTS)} FROM {name})"),
                (1, lambda: f"{self.any('YEAR', 'MONTH', 'QUARTER', 'DAYOFWEEK')}({name})"),
                (1, lambda: f"DATE_TRUNC('{self.any(*UNITS)}', {name})"),
            ]
        if axis.kind == "boolean" and axis.missing:
            return [(1, lambda: f"COALESCE({name}, {self.any('TRUE', 'FALSE')})"), (1, lambda: f"{name} IS NULL")]
        return []

    def _wild(self, depth: int) -> str:
        """Ill-typed expression: a function or operator on random arguments."""
        one, two = self.scalar(depth - 1), self.any(self.scalar(depth - 1), self.anything())
        return self.any(
            f"({one} {self.any('+', '-', '*', '/', '//', '%', '||')} {two})",
            f"{self.any('GREATEST', 'LEAST', 'COALESCE', 'NULLIF', 'CONCAT')}({one}, {two})",
            f"ROUND({one}, {self.number()})",
            f"{self.any('FLOOR', 'CEIL', 'ABS', 'LOWER', 'LENGTH', 'TRIM', 'YEAR', 'HOUR', 'WEEK')}({one})",
            f"CAST({one} AS {self.any(*TYPES)})",
            f"IF({self.condition(1)}, {one}, {two})",
            f"SUBSTRING({one}, {self.number()}, {self.number()})",
            f"{self.any('LEFT', 'RIGHT')}({one}, {self.number()})",
            f"DATE_TRUNC('{self.any(*UNITS, 'hour')}', {one})",
            f"(- {one})",
            *map(quoted, self.schema.group_columns),
        )

    # conditions

    def condition(self, depth: int = 2) -> str:
        """Random condition of WHERE, FILTER or CASE."""
        axes = self.axes()
        options: list[Option] = [(1, lambda: self.any("TRUE", "1 = 1", "1 > 2"))]
        if axes:
            options += [(12, lambda: self._simple(self.random.choice(axes)))]
        if depth:
            options += [(5, lambda: self._joined(depth))]
        if not self.careful:
            options += [(3, lambda: f"{self.scalar(1)} {self.any(*COMPARISONS)} {self.anything()}"), (1, self._linear)]
        return self.one_of(options)

    def _joined(self, depth: int) -> str:
        both = f"{self.condition(depth - 1)} {self.any('AND', 'OR')} {self.condition(depth - 1)}"
        return f"{self.any('', '', 'NOT ')}({both})"

    def _linear(self) -> str:
        """A condition on a weighted sum of attributes."""
        terms = [f"{self.any('1', '2', '-3', '0.5')} * {quoted(axis.name)}" for axis in self.axes("integer")[:2]]
        return f"{' + '.join(terms or ['1'])} > {self.number()}"

    def _simple(self, axis: Axis) -> str:
        """A condition on one attribute."""
        name, compared = quoted(axis.name), self.any(*COMPARISONS)
        options: list[Option] = []
        if axis.missing:
            options += [(1, lambda: f"{name} IS {self.any('', 'NOT ')}NULL")]
        if axis.kind == "category":
            options += [
                (2, lambda: f"{name} {self.any('=', '<>')} {self.constant(axis)}"),
                (1, lambda: f"{name} {self.any('', 'NOT ')}IN ({self.constant(axis)}, {self.constant(axis)})"),
                (1, lambda: f"{name} {self.any('LIKE', 'NOT LIKE', 'ILIKE')} {self.any(*PATTERNS[:-1])}"),
                (1, lambda: f"LENGTH({name}) {compared} {self.any('0', '3', '4')}"),
            ]
        elif axis.kind == "boolean":
            options += [(2, lambda: self.any(name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE"))]
            options += [(1, lambda: f"{name} = {self.any('TRUE', 'FALSE')}")]
        elif axis.kind == "number" and self.careful:
            options += [(1, lambda: f"{name} {self.any('<', '>=')} {self.constant(axis)}")]
        else:
            options += [
                (2, lambda: f"{name} {compared} {self.constant(axis)}"),
                (1, lambda: f"{self.constant(axis)} {compared} {name}"),
                (1, lambda: f"{name} {self.any('', 'NOT ')}BETWEEN {self.constant(axis)} AND {self.constant(axis)}"),
                (1, lambda: f"{name} IN ({self.constant(axis)}, {self.constant(axis)})"),
            ]
        if axis.kind == "integer":
            options += [(1, lambda: f"{name} {self.any('+', '*', '-')} 2 {compared} {self.number()}")]
        if axis.kind == "date":
            options += [(1, lambda: f"EXTRACT({self.any(*PARTS)} FROM {name}) {compared} {self.any('2', '29', '60')}")]
        return self.one_of(options)

    # aggregates

    def aggregate(self, *, inside: bool = False) -> str:
        """Random aggregate of rows, with or without FILTER. inside: it is an argument of a further expression."""
        kinds = ("integer", "number") if self.careful else ("integer", "number", "boolean")  # SQL adds up no truth
        summed = [quoted(name) for name in (*self.schema.measures, *(axis.name for axis in self.axes(*kinds)))]
        spread = [quoted(axis.name) for axis in self.axes("integer", *([] if self.careful else ["number", "date"]))]
        options: list[Option] = [
            (4, lambda: "COUNT(*)"),
            (1, lambda: f"SUM(CASE WHEN {self.condition(1)} THEN 1 ELSE 0 END)"),
        ]
        if summed:
            options += [(4, lambda: f"{self.any('SUM', 'AVG', 'COUNT')}({self.any(*summed)})")]
            options += [
                (1, lambda: f"{self.any('SUM', 'AVG')}(CASE WHEN {self.condition(0)} THEN {self.any(*summed)} END)")
            ]
        found = self.one_of(options)
        if self.chance(0.2):
            found += f" FILTER (WHERE {self.condition(1)})"
        if spread and self.chance(0.25):
            x = self.any(*spread)
            found = self.any(
                f"{self.any('MIN', 'MAX')}({x})",
                f"QUANTILE_DISC({x}, {self.any(*QUANTILES[:3])})",
                f"{self.any('VAR_POP', 'STDDEV_POP', 'VARIANCE', 'STDDEV')}({x})",
            )
        if not self.careful and self.chance(0.2):
            found = self._wild_aggregate()
        return f"COALESCE({found}, 0)" if self.careful and inside and found.startswith("SUM(") else found

    def _wild_aggregate(self) -> str:
        every = [quoted(name) for name in (*self.schema.measures, *(axis.name for axis in self.schema.domain))]
        x = self.any(*every)
        found = self.any(
            f"{self.any('MEDIAN', 'MIN', 'MAX', 'SUM', 'AVG', 'COUNT', 'STDDEV')}({x})",
            f"{self.any('QUANTILE', 'QUANTILE_CONT')}({x}, {self.any(*QUANTILES, self.number())})",
            f"PERCENTILE_CONT({self.any(*QUANTILES)}) WITHIN GROUP (ORDER BY {x})",
            f"{self.any('SUM', 'AVG', 'MAX')}({self.scalar(1)})",
            "COUNT(DISTINCT person)",
            f"(SELECT {self.any('COUNT(*)', f'AVG({x})', f'MAX({x})')} FROM {quoted(self.schema.dataset)})",
        )
        return f"{found} FILTER (WHERE {self.condition(1)})" if self.chance(0.1) else found

    def amount(self, *, grouped: bool, depth: int = 2, inside: bool = False) -> str:
        """Random arithmetic of aggregates. grouped: in plain GROUP BY, over which windowed totals are allowed."""
        if depth == 0 or self.chance(0.5):
            return self.aggregate(inside=inside)
        one = self.amount(grouped=grouped, depth=depth - 1, inside=True)
        decimals = self.any("1", "-1", "3") if self.careful else self.number()
        other = self.number() if self.careful else self.anything()
        # A variance that is a whole number comes out a little less or more, by the order of sums: it is not rounded.
        rounded = not (self.careful and ("VAR" in one or "STDDEV" in one))
        options: list[Option] = [
            (4, lambda: f"{self.any('ROUND', 'FLOOR', 'CEIL', 'ABS') if rounded else 'ABS'}({one})"),
            (2, lambda: f"ROUND({one}, {decimals})" if rounded else one),
            (2, lambda: f"({one} {self.any('+', '-', '*')} {self.number()})"),
            (1, lambda: f"COALESCE({one}, {other})"),
            (1, lambda: f"{self.any('GREATEST', 'LEAST')}({one}, {other})"),
            (1, lambda: f"CASE WHEN {one} > {self.number()} THEN {self.value()} ELSE {self.value()} END"),
            (1, lambda: f"COUNT(*) / (SELECT COUNT(*) FROM {quoted(self.schema.dataset)})"),
            (2, lambda: f"({one} {self.any('+', '-', '/', '*')} {self.aggregate(inside=True)})"),
        ]
        if grouped:
            options += [(2, lambda: f"{self.any('COUNT(*)', one)} / SUM(COUNT(*)) OVER ()")]
        if not self.careful:
            options += [(1, lambda: f"CAST({one} AS {self.any(*TYPES)})"), (1, lambda: f"(- {one})")]
            options += [(1, lambda: f"CASE WHEN {self.condition(0)} THEN {one} END")]
        return self.one_of(options)


def quoted(name: str) -> str:
    """Quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """SQL literal of a listed value."""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
