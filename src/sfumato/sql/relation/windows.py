"""Window functions over rows of cells: running sums, moving averages, LAG, LEAD and first or last values of a frame.

Partitions, order and frames go by public values, so each result is arithmetic of the forms of known rows. A sum over a
frame that only grows is built up from the one before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from sfumato.effort import MOST_RULES, at_most, spend
from sfumato.errors import QueryError
from sfumato.sql.relation.forms import Cell, call, extreme, total
from sfumato.sql.relation.rows import CHOSEN, RowReader
from sfumato.sql.scope import bare, number, quoted, unsupported
from sfumato.sql.table.flatten import holds, ordered, partitions, sort_key
from sfumato.sql.table.plan import Rule
from sfumato.sql.values.dates import as_date, moved, step_name
from sfumato.sql.values.tree import Tree

_KNOWN = "windows are SUM, AVG, COUNT, MIN, MAX, LAG, LEAD, FIRST_VALUE, LAST_VALUE and ranks"
_BY_KEYS = "order and partition by keys, whose values are public; RANK orders by noisy values"
_FRAMES = "write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW, or UNBOUNDED PRECEDING"
_DAYS = {"day": 1, "days": 1, "week": 7, "weeks": 7}
_MONTHS = ("month", "months", "quarter", "quarters", "year", "years")
OF_A_CELL = 10  # steps to take a cell into a frame

Frames = list[
    tuple[int, int]
]  # of each row of a partition in order: the first row of its frame, and the first after it


def window_cells(node: Any, reader: RowReader) -> Sequence[Cell]:
    """Values of a window function, one for each row."""
    if reader.chosen:
        raise unsupported(f"{quoted(node)} after groups were left out", CHOSEN)
    extras = [key for key, value in node.args.items() if value and key not in _PARTS]
    if extras:
        raise unsupported(f"{quoted(node)} of this form", _KNOWN)
    parted, order = node.args.get("partition_by") or [], node.args.get("order")
    rules = order.expressions if order else []
    at_most(max(len(parted), len(rules)), MOST_RULES, "keys are in a window", "name each key once")
    within = tuple(_public(part, node, reader) for part in parted)
    by = tuple(
        Rule(_public(rule.this, node, reader), bool(rule.args.get("desc")), bool(rule.args.get("nulls_first")))
        for rule in rules
    )
    function = _Function(node, reader)
    cells: list[Cell] = [None] * reader.rows
    spend(reader.rows * (len(within) + 2 * len(by) + 1), "a window")
    for part in partitions(range(reader.rows), within, reader.value):
        rows = ordered(part, by, reader.orders, reader.value)
        for row, cell in zip(rows, function.over(rows, by), strict=True):
            cells[row] = cell
    return cells


_PARTS = ("this", "over", "partition_by", "order", "spec", "first")


def _public(node: Any, window: Any, reader: RowReader) -> Tree:
    tree = reader.read(node, "a window")
    if not reader.public(tree):
        raise unsupported(f"{quoted(window)}, which goes by noisy values,", _BY_KEYS)
    return tree


class _Function:
    """Window function with evaluated arguments."""

    def __init__(self, node: Any, reader: RowReader) -> None:
        self.node, self.reader, self.spec = node, reader, node.args.get("spec")
        inner, self.skips = node.this, node.this.key == "ignorenulls"
        inner = inner.this if inner.key in ("ignorenulls", "respectnulls") else inner
        self.kept: list[Cell] | None = None
        if inner.key == "filter":
            self.kept, inner = reader.cells(inner.expression.this, "FILTER"), inner.this
        self.kind = inner.key
        if self.kind not in (*_AGGREGATES, *_OF_FRAMES, "lag", "lead", "count") or (
            self.skips and self.kind in _AGGREGATES
        ):
            raise unsupported(f"{quoted(node)}", _KNOWN)
        argument = inner.this
        counts_rows = self.kind == "count" and (argument is None or argument.key == "star")
        if (argument is None and not counts_rows) or (argument is not None and argument.key == "distinct"):
            raise unsupported(f"{quoted(node)}", _KNOWN)
        self.cells = [1] * reader.rows if counts_rows else reader.cells(bare(argument), "a window")
        self.offset = self._whole(inner.args.get("offset"))
        default = inner.args.get("default")
        self.default = [None] * reader.rows if default is None else reader.cells(default, "a window")

    def _whole(self, node: Any) -> int:
        value = 1.0 if node is None else number(node)
        if value is None or not value.is_integer():
            raise QueryError(f"{quoted(self.node)} needs a whole number of rows")
        return int(value)

    def over(self, rows: list[int], rules: tuple[Rule, ...]) -> list[Cell]:
        """Values for the rows of one partition. rows: their indices, sorted."""
        if self.kind in ("lag", "lead"):
            return self._shifted(rows, self.offset if self.kind == "lead" else -self.offset)
        frames = _Frames(self.node, self.spec, self.reader, rows, rules).frames()
        values = [None if self.kept and not holds(self.kept[row]) else self.cells[row] for row in rows]
        if self.kind in _OF_FRAMES:
            return [self._one_of(values[start:end]) for start, end in frames]
        if self.kind == "count":
            known = [0]
            for value in values:
                known.append(known[-1] + (value is not None))
            return [known[max(start, end)] - known[start] for start, end in frames]
        if self.kind in ("sum", "avg"):
            return self._sums(values, frames)
        spend(OF_A_CELL * sum(max(0, end - start) for start, end in frames), "a window")
        return [extreme(values[start:end], self.kind == "max") for start, end in frames]

    def _shifted(self, rows: list[int], by: int) -> list[Cell]:
        if self.skips:
            raise unsupported(f"{quoted(self.node)}", "leave IGNORE NULLS out: counts of groups are never missing")
        places = [place + by for place in range(len(rows))]
        return [
            self.cells[rows[at]] if 0 <= at < len(rows) else self.default[row]
            for row, at in zip(rows, places, strict=True)
        ]

    def _one_of(self, values: list[Cell]) -> Cell:
        known = [value for value in values if value is not None] if self.skips else values
        place = {"firstvalue": 0, "lastvalue": len(known) - 1}.get(self.kind, self.offset - 1)
        return known[place] if 0 <= place < len(known) else None

    def _sums(self, values: list[Cell], frames: Frames) -> list[Cell]:
        """Sums over frames, updated from the frame before where only one of its ends moves."""
        found: list[Cell] = [None] * len(frames)
        grows_back = len(frames) > 1 and frames[0][1] == frames[-1][1] and frames[0][0] < frames[-1][0]
        before, running = (0, 0), None
        for place in range(len(frames) - 1, -1, -1) if grows_back else range(len(frames)):
            start, end = frames[place]
            new: list[Cell] | None = None
            if before[0] < before[1] and start <= before[0] and end >= before[1]:
                new = [running, *values[start : before[0]], *values[before[1] : end]]
            new = values[start:end] if new is None else new
            spend(OF_A_CELL * len(new), "a window")
            running, before = total(new), (start, end)
            number_of_them = sum(value is not None for value in values[start:end]) if self.kind == "avg" else 1
            found[place] = running if self.kind == "sum" else _divided(running, number_of_them)
        return found


def _divided(cell: Cell, by: int) -> Cell:
    return call("div", [cell, by]) if by else None


_AGGREGATES = ("sum", "avg", "min", "max")
_OF_FRAMES = ("firstvalue", "lastvalue", "nthvalue")


class _Frames:
    """Frames of the sorted rows of one partition."""

    def __init__(self, node: Any, spec: Any, reader: RowReader, rows: list[int], rules: tuple[Rule, ...]) -> None:
        self.node, self.spec, self.reader, self.rows, self.rules = node, spec, reader, rows, rules

    def frames(self) -> Frames:
        """RANGE from the first row to the last peer, unless told otherwise; all rows where there is no order."""
        kind = "RANGE" if self.spec is None else str(self.spec.args.get("kind") or "RANGE").upper()
        start, end = (self._bound(which) for which in ("start", "end"))
        if self.spec is not None and self.spec.args.get("exclude"):
            raise unsupported(f"EXCLUDE in {quoted(self.node)}", _FRAMES)
        if kind == "ROWS":
            starts = [self._row(place, start) for place in range(len(self.rows))]
            ends = [self._row(place, end) + 1 for place in range(len(self.rows))]
        elif kind == "RANGE":
            starts, ends = self._range(start, 0), self._range(end, 1)
        else:
            raise unsupported(f"{kind} in a window", _FRAMES)
        size = len(self.rows)
        clipped = [(min(max(one, 0), size), min(max(other, 0), size)) for one, other in zip(starts, ends, strict=True)]
        return [(one, max(one, other)) for one, other in clipped]

    def _bound(self, which: str) -> tuple[Any, int]:
        """Bound of the frame: offset (None: unbounded) and direction (-1, 1; 0: current row)."""
        if self.spec is None or not self.spec.args.get(which):
            return (None, -1) if which == "start" else (0, 0)
        value, side = self.spec.args[which], str(self.spec.args.get(f"{which}_side") or "")
        if value == "CURRENT ROW":
            return 0, 0
        direction = -1 if side == "PRECEDING" else 1
        return (None if value == "UNBOUNDED" else value), direction

    def _row(self, place: int, bound: tuple[Any, int]) -> int:
        far, direction = bound
        if far is None:
            return direction * len(self.rows)
        if direction == 0:
            return place
        value = number(far)
        if value is None or value < 0 or not value.is_integer():
            raise unsupported(f"a frame in {quoted(self.node)} that is not of whole rows", _FRAMES)
        return place + direction * int(value)

    def _range(self, bound: tuple[Any, int], last: int) -> list[int]:
        """Frame bound of each row: index of the first row within the bound, or (last) of the first beyond it."""
        far, direction = bound
        size = len(self.rows)
        if far is None or not self.rules:
            return [size if last else 0] * size if not self.rules or direction * (1 if last else -1) > 0 else [0] * size
        if direction == 0:
            orders, value = self.reader.orders, self.reader.value
            keys = [[sort_key(rule, row, orders, value) for rule in self.rules] for row in self.rows]  # type: ignore[arg-type]
            return _peers(keys, last)
        if len(self.rules) > 1 or self.rules[0].descending:
            raise unsupported(f"RANGE in {quoted(self.node)} by more than one ascending key", _FRAMES)
        keys = [self.reader.value(self.rules[0].by, row) for row in self.rows]
        return self._distant(keys, self._distance(far, direction), last)

    def _distant(self, keys: list[Any], onward: Callable[[Any], Any], last: int) -> list[int]:
        known = [key for key in keys if key is not None]
        try:
            comparable = [onward(key)[0] for key in known]
            targets = [onward(key)[1] for key in known]
            found = [(bisect_right if last else bisect_left)(comparable, target) for target in targets]
        except (TypeError, ValueError):
            raise unsupported(f"RANGE in {quoted(self.node)} by a key that is no number or day", _FRAMES) from None
        return found + [len(keys) if last else len(known)] * (len(keys) - len(known))

    def _distance(self, far: Any, direction: int) -> Callable[[Any], Any]:
        """Function from a key to (key, bound of its frame), both as numbers or both as days."""
        if far.key != "interval":
            value = number(far)
            if value is None:
                raise unsupported(f"RANGE of this form in {quoted(self.node)}", _FRAMES)
            return lambda key: (float(key), float(key) + direction * value)
        unit = far.args["unit"].name.lower() if far.args.get("unit") else ""
        many = str(far.this.name)
        if not many.isdecimal() or len(many) > 6 or (unit not in _DAYS and unit not in _MONTHS):
            raise unsupported(f"RANGE of this form in {quoted(self.node)}", _FRAMES)

        def onward(key: Any) -> tuple[date, date]:
            day = as_date(key)
            if unit in _DAYS:
                return day, day + timedelta(days=direction * int(many) * _DAYS[unit])
            return day, moved(step_name(unit) or unit, day, direction * int(many))

        return onward


def _peers(keys: list[Any], last: int) -> list[int]:
    """For each sorted row, index of the first with the same key, or (last) of the first with a later one."""
    found = [0] * len(keys)
    if last:
        for place in range(len(keys) - 1, -1, -1):
            same = place + 1 < len(keys) and keys[place] == keys[place + 1]
            found[place] = found[place + 1] if same else place + 1
        return found
    for place in range(1, len(keys)):
        found[place] = found[place - 1] if keys[place] == keys[place - 1] else place
    return found
