"""Cells of a relation: public values, and forms, which are sums, ratios and statistics of rows yet without numbers.

Arithmetic of forms is arithmetic of what they stand for (column_arithmetic.py). Counts of disjoint sets of rows, added,
become the count of their union: a running sum over months is the count of an interval of months.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations, pairwise
from typing import Any, TypeGuard

from sfumato.domain.predicates import Box, Predicate
from sfumato.effort import at_most, spend
from sfumato.errors import UnsupportedSQL
from sfumato.sql.column_arithmetic import Amounts, Largest, Mixed, Ratio, Single, Value, over, plus, sums_in, times
from sfumato.sql.plan import Amount, Distinct
from sfumato.sql.scope import together, unsupported
from sfumato.sql.table.build import MOST_COLUMNS
from sfumato.sql.values import functions
from sfumato.sql.values.functions import not_together

Form = Ratio | Single | Mixed | Largest
Cell = Any  # a public value, or a form

OF_A_BOX = 20  # steps to put a box where it belongs
FEW_BOXES = 32  # that are compared with each other


class Deferred(Exception):
    """Raised for an expression that depends on noisy values, which are known only when the statement is answered."""


def is_form(cell: Cell) -> TypeGuard[Form]:
    return isinstance(cell, Ratio | Single | Mixed | Largest)


def is_linear(form: Form) -> bool:
    """Whether a form is a weighted sum of rows."""
    return isinstance(form, Ratio) and form.bottom is None


def call(name: str, args: Sequence[Cell]) -> Cell:
    """Apply an SQL function to public values and forms; `Deferred` where it needs the published numbers."""
    if not any(map(is_form, args)):
        return functions.call(name, args)
    if name == "case":
        return _case(args)
    if name in ("coalesce", "nullif", "is_null", "to_number") and is_form(args[0]):
        known = is_linear(args[0]) or name == "to_number"
        if known and (name != "nullif" or args[1] == 0):  # what would be divided by a noisy zero is unknown anyway
            return False if name == "is_null" else args[0]
    if name == "coalesce" and args[0] is None:
        return call(name, args[1:]) if len(args) > 2 else args[1]
    if name not in _ARITHMETIC:
        raise Deferred
    if None in args:
        return None
    try:
        return _bounded(_ARITHMETIC[name](*map(_operand, args)))
    except UnsupportedSQL:
        raise Deferred from None


def _bounded(cell: Cell) -> Cell:
    """Return a value or form; refuse a form of too many sums."""
    if is_form(cell):
        at_most(sums_in(cell), MOST_COLUMNS, "sums are in one number", "add up fewer groups at a time")
        spend(sums_in(cell), "arithmetic of counts")
    return cell


def _case(args: Sequence[Cell]) -> Cell:
    """CASE of (condition, value, ..., otherwise): value of the first condition that holds; these must be public."""
    for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
        if is_form(condition):
            raise Deferred
        if condition is not None and condition:
            return value
    return args[-1]


def _operand(cell: Cell) -> Value:
    if is_form(cell):
        return cell
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        raise not_together([cell, 1])
    return float(cell)


def _plus(left: Value, right: Value) -> Value:
    for one, other in ((left, right), (right, left)):
        if one == 0.0:
            return other
    return added([left, right]) if is_form(left) and is_form(right) else plus(left, right)


def _less(left: Value, right: Value) -> Value:
    """Difference of two values; 0.0 of an average (or a statistic) and itself, which no ratio of sums expresses."""
    if left == right and is_form(left) and not is_linear(left):
        return 0.0
    return _plus(left, times(right, -1.0))


def _over(left: Value, right: Value) -> Value | None:
    return None if right == 0.0 else over(left, right)


_ARITHMETIC: dict[str, Callable[..., Cell]] = {
    "add": _plus,
    "sub": _less,
    "mul": lambda left, right: 0 if 0.0 in (left, right) else times(left, right),
    "div": _over,
    "neg": lambda value: times(value, -1.0),
}


def added(forms: Sequence[Form]) -> Form:
    """Sum of forms; one weighted sum of rows (`merged`) if all of them are."""
    if all(map(is_linear, forms)):
        return Ratio(merged([amount for form in forms for amount in form.top]))  # type: ignore[union-attr]
    found: Value = forms[0]
    for form in forms[1:]:
        found = plus(found, form)
    assert not isinstance(found, float)  # noqa: S101 (for the type checker)
    return found


def total(cells: Iterable[Cell]) -> Cell:
    """SUM of cells, which passes over NULL and is NULL of nothing."""
    known = [cell for cell in cells if cell is not None]
    forms = [cell for cell in known if is_form(cell)]
    others = [cell for cell in known if not is_form(cell)]
    constant = reduce(lambda left, right: functions.call("add", [left, right]), others, 0) if others else None
    if not forms:
        return constant
    return added(forms) if not constant else call("add", [added(forms), constant])


def average(cells: Sequence[Cell]) -> Cell:
    """AVG of cells, which passes over NULL."""
    known = [cell for cell in cells if cell is not None]
    return call("div", [total(known), len(known)]) if known else None


def extreme(cells: Iterable[Cell], greatest: bool) -> Cell:
    """MAX or MIN of cells, which passes over NULL."""
    known = list(dict.fromkeys(cell for cell in cells if cell is not None))
    forms = [cell for cell in known if is_form(cell)]
    if not forms:
        return functions.call("greatest" if greatest else "least", known) if known else None
    if len(forms) < len(known):
        raise unsupported("MAX or MIN of counts and constants together", "leave the constants out with WHERE")
    return forms[0] if len(forms) == 1 else _bounded(Largest(tuple(forms), greatest))


def within(value: Value, rows: Predicate, every: Predicate) -> Value:
    """Restrict a value from the predicate `every` to `rows`; totals that GROUP BY does not split stay as they are."""
    if isinstance(value, Ratio):
        bottom = None if value.bottom is None else _amounts_within(value.bottom, rows, every)
        return Ratio(_amounts_within(value.top, rows, every), bottom)
    if isinstance(value, Single):
        rule = value.rule
        if not rule.grouped:
            return value
        if isinstance(rule, Distinct):
            inside = tuple(found for each in rule.predicates if (found := each & rows))
            return replace(value, rule=replace(rule, predicates=inside))
        return replace(value, rule=replace(rule, predicate=rule.predicate & rows))
    if isinstance(value, Mixed):
        return replace(value, left=within(value.left, rows, every), right=within(value.right, rows, every))
    return value


def _amounts_within(amounts: Amounts, rows: Predicate, every: Predicate) -> Amounts:
    return tuple(
        replace(one, predicate=rows if one.predicate is every else one.predicate & rows) if one.grouped else one
        for one in amounts
    )


def merged(amounts: Sequence[Amount]) -> Amounts:
    """Amounts with the same total, united where possible; one over no rows if all cancel out.

    Among amounts that differ in predicate and factor only, factors of equal predicates are added, and disjoint
    predicates of equal factors are united.
    """
    kinds: dict[tuple[str | None, bool, str | None], tuple[Amount, dict[Predicate, float]]] = {}
    for amount in amounts:
        _, factors = kinds.setdefault((amount.of, amount.grouped, amount.present), (amount, {}))
        factors[amount.predicate] = factors.get(amount.predicate, 0.0) + amount.factor
    found: list[Amount] = []
    for kind, factors in kinds.values():
        by_factor: dict[float, list[Predicate]] = {}
        for predicate, factor in factors.items():
            if predicate and factor:
                by_factor.setdefault(factor, []).append(predicate)
        for factor, predicates in by_factor.items():
            found += [replace(kind, predicate=each, factor=factor) for each in _unions(predicates)]
    return tuple(found) or tuple(replace(amount, predicate=_NOTHING) for amount in amounts[:1])


_NOTHING = Predicate.nothing()


def _unions(predicates: list[Predicate]) -> list[Predicate]:
    """Predicates, fewer where possible, that together count every row as often as the given ones do."""
    if len(predicates) == 1:
        return predicates
    boxes = _joined([box for predicate in predicates for box in predicate.boxes])
    if len(boxes) <= FEW_BOXES and not any(one & other for one, other in combinations(boxes, 2)):
        return [Predicate(tuple(boxes))]
    many = sum(len(predicate.boxes) for predicate in predicates)
    return predicates if len(boxes) == many else [Predicate((box,)) for box in boxes]


def _joined(boxes: list[Box]) -> list[Box]:
    before = len(boxes) + 1
    while 1 < len(boxes) < before:
        before = len(boxes)
        for name in sorted({name for box in boxes for name, _ in box.sets}):
            spend(OF_A_BOX * len(boxes), "a sum over rows of the answer")
            boxes = _joined_along(name, boxes)
    return boxes


def _joined_along(name: str, boxes: list[Box]) -> list[Box]:
    """Disjoint boxes that differ in one attribute only, joined."""
    alike: dict[Any, list[Box]] = {}
    for box in boxes:
        alike.setdefault(tuple(pair for pair in box.sets if pair[0] != name), []).append(box)
    found: list[Box] = []
    for group in alike.values():
        spans = sorted(span for box in group for span in box[name].spans)
        if len(group) > 1 and all(first[1] <= second[0] for first, second in pairwise(spans)):
            found.append(group[0].replaced(name, together(spans)))
        else:
            found += group
    return found
