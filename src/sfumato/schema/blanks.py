"""Blanks of a draft that the private table may be asked for, and the draft's text filled with what was bought.

What is public and what was bought stay visible: every bought key is marked in the text, and `discovered` lists them
with the receipt of the ledger that paid for them. Here is no data: `sfumato.publishing.discover` asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

import yaml

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.codebooks import flow
from sfumato.schema.discovered import CONTRIBUTIONS, Discovered, as_receipt, cost_in_words
from sfumato.schema.file import parsed_text, places_in
from sfumato.schema.remedies import blanks_of

_NEED_VALUES = ("map", "fold", "labels", "groups")
_FLAT = ("weekday", "hour_of_day")  # dates without bounds


@dataclass(frozen=True)
class Blank:
    """Blank of a draft: the missing values or bounds of a column, or the missing number of rows per person.

    name: as shares and messages name it. kind: values, bounds or contributions. type: of the attribute, or number for a
    measure. places: the parts of the schema that lack it, as keys that lead there; an attribute and a measure of one
    column are filled by one private query. wanted: the keys that are filled.
    """

    name: str
    kind: str
    column: str
    type: str
    places: tuple[tuple[str, ...], ...]
    wanted: tuple[tuple[str, ...], ...]

    @property
    def paths(self) -> list[str]:
        """Keys that are filled, as messages write them."""
        return [".".join(path) for path in self.wanted]


def blanks_to_buy(draft: Mapping[str, Any]) -> list[Blank]:
    """Blanks of a draft that a private query can fill; any other blank is refused, with what to write."""
    found: dict[tuple[str, str], Blank] = {}
    if draft.get("tables") is not None:
        raise SchemaError(
            "the draft is of linked tables, and looks fill the schema of one; discover with a schema of each table "
            "that has blanks, of the same dataset and unit, and copy what was found with its receipt"
        )
    unit = draft.get("privacy_unit")
    one_row = draft.get("per_person") is not None  # of each person, by rule
    if isinstance(unit, Mapping) and unit.get("column") and unit.get(CONTRIBUTIONS) is None and not one_row:
        path = ("privacy_unit", CONTRIBUTIONS)
        found[path] = Blank(CONTRIBUTIONS, CONTRIBUTIONS, str(unit["column"]), "integer", (path[:1],), (path,))
    for room in ("attributes", "measures"):
        parts = draft.get(room)
        for name, part in parts.items() if isinstance(parts, Mapping) else ():
            one = _blank_of(room, str(name), part)
            if one is None:
                continue
            same = found.get((one.kind, one.column))
            if same is not None and "date" not in (one.type, same.type):
                one = replace(same, places=same.places + one.places, wanted=same.wanted + one.wanted)
            found[one.kind, one.column] = one
    _refuse_others(draft, list(found.values()))
    if not found:
        raise SchemaError(
            "the draft has no blank that a private look could fill: values of a category, lower and upper of a number "
            "or date, contributions of a privacy unit; leave empty what is to be found"
        )
    return list(found.values())


def _blank_of(room: str, name: str, part: object) -> Blank | None:
    if not isinstance(part, Mapping):
        return None
    kind = "number" if room == "measures" else part.get("type")
    path, column = (room, name), str(part.get("column") or name)
    if kind == "category" and part.get("values") is None:
        if stated := [key for key in _NEED_VALUES if part.get(key) is not None]:
            raise SchemaError(
                f"attributes.{name} has {stated[0]}, which is about values that are not listed yet; take it out, "
                "discover the values, and put it back then"
            )
        return Blank(name, "values", column, kind, (path,), ((*path, "values"),))
    bounded = kind in ("integer", "number") or (kind == "date" and part.get("by") not in _FLAT)
    lacking = tuple((*path, key) for key in ("lower", "upper") if part.get(key) is None)
    return Blank(name, "bounds", column, str(kind), (path,), lacking) if bounded and lacking else None


def _refuse_others(draft: Mapping[str, Any], bought: Sequence[Blank]) -> None:
    """Refuse blanks that no private query fills, before anything is spent."""
    filled = {path for one in bought for path in one.wanted}
    filled |= {(*place, "bins") for one in bought if one.kind == "bounds" for place in one.places}
    for path, said in blanks_of(draft):
        if path not in filled:
            hint = "; or delete the column" if path[-1] == "type" and path[0] == "attributes" else ""
            raise SchemaError(f"{said} (a private look does not tell it{hint})")
    if draft.get("series") is not None:
        raise SchemaError(
            "the draft states a series, whose losses add up by period; discover with a schema of one table, and add "
            "`series` to another dataset's schema that states the values found"
        )


Found = Mapping[tuple[str, ...], Any]  # what was bought, by the keys that lead to it


def with_found(draft: Mapping[str, Any], found: Found) -> dict[str, Any]:
    """Insert values into a draft at their keys."""
    whole = dict(draft)
    for path, value in found.items():
        at = whole
        for key in path[:-1]:
            at[key] = dict(at[key])
            at = at[key]
        at[path[-1]] = value
    return whole


def trial_of(
    draft: Mapping[str, Any], bought: Sequence[Blank], trials: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Complete schema to check names and types: the draft with public placeholders for blanks.

    trials: by type, the keys that an attribute of it is tried with.
    """
    whole = {key: part for key, part in draft.items() if key not in ("impossible", "follows", "facts", "discovered")}
    lacking = {place for one in bought for place in one.places}
    if ("privacy_unit",) in lacking:
        whole["privacy_unit"] = {**draft["privacy_unit"], CONTRIBUTIONS: 1}
    for room in ("attributes", "measures"):
        parts = dict(whole.get(room) or {})
        for name in (name for name in parts if (room, name) in lacking):
            part = parts[name]
            kept = {key: part[key] for key in ("type", "column", "missing", "by") if part.get(key) is not None}
            parts[name] = {**kept, **trials[part["type"] if room == "attributes" else "measure"]}
        if parts:
            whole[room] = parts
    return whole


_HEAD = re.compile(r"# Draft of a public schema.*?\n(?!#)", re.DOTALL)
_EXAMPLE = "# an example; in place of this block"
_LAST_BRACE = re.compile(r"(\})\s*(#[^\n]*)?$")
_MARKS = {"other": "# for all values that were not found", "bins": "# of a round width"}


def filled_text(text: str, draft: Mapping[str, Any], found: Found, receipts: Sequence[Discovered]) -> str:
    """The text of a draft with what was bought, each key marked; comments stay where they were.

    Where the text is laid out so that it cannot be done line by line, the schema is written anew.
    """
    listed = [as_receipt(one) for one in receipts]
    whole = {**with_found(draft, found), "discovered": listed}
    head = (
        "# Public schema, filled in part by `sfumato discover`: what is marked bought was told by the private table,\n"
        f"# with noise, for {cost_in_words(receipts)} of the dataset's budget. All else is as the draft had it.\n"
    )
    lines = [line for one in listed for line in _lines_of(one)]
    edited = _edited(text, found, draft)
    if edited is not None:
        body = _HEAD.sub("", edited, count=1) if _HEAD.search(edited) else edited
        first, *rest = body.split("\n", 1)
        start = f"{first}\n{head}" if first.startswith("# yaml-language-server") else f"{head}{first}\n"
        new = f"{start}{''.join(rest).rstrip()}\n\ndiscovered:  # receipts; keep them\n" + "\n".join(lines) + "\n"
        if _reads_as(new, whole):
            return new
    for unicode in (True, False):  # letters as they are, unless YAML would read one of them as a break
        written: str = yaml.safe_dump(_plain(whole), sort_keys=False, allow_unicode=unicode, width=110)
        if _reads_as(written, whole):
            break
    return head + written


def _reads_as(text: str, whole: Mapping[str, Any]) -> bool:
    try:
        return bool(parsed_text(text) == _plain(whole))
    except SchemaError:
        return False


def _lines_of(receipt: Mapping[str, Any]) -> list[str]:
    lines = [f"    {key}: {_wrapped(part, 6)}" for key, part in receipt.items()]
    return [f"  -{lines[0][3:]}", *lines[1:]]


def _plain(value: Any) -> Any:
    """Convert a value to types that YAML writes: fractions to numbers, tuples to lists."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def _edited(text: str, found: Found, draft: Mapping[str, Any]) -> str | None:
    """Fill the blanks of a text line by line; None where a key is not on a line of its own."""
    places, lines = places_in(text), text.split("\n")
    added: dict[int, list[str]] = {}
    inside: dict[int, dict[str, str]] = {}  # keys in braces, by their lines; those that the draft has are "" here
    for path in sorted(
        found, key=lambda path: places.get(path, ((0, 0),))[0], reverse=True
    ):  # so that marks stay right
        value = found[path]
        place = places.get(path)
        if place is None:  # a key that the draft has not: after the first of its brothers, in the same column
            beside = [other for other in places if other[:-1] == path[:-1]]
            if not beside:
                return None
            line, column = places[beside[0]][0]
            if lines[line - 1][: column - 1].strip():  # in braces
                inside.setdefault(line, {})[path[-1]] = _wrapped(_plain(value), len(lines[line - 1][: column - 1]))
            else:
                added.setdefault(line, []).append(
                    f"{' ' * (column - 1)}{path[-1]}: {_scalar(_plain(value))}  {_mark(path)}"
                )
            continue
        line, column = place[0]
        before, rest = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        if before.strip():
            stands = re.compile(rf"^{path[-1]}\s*:[^,}}]*")
            filled = f"{path[-1]}: {_wrapped(_plain(value), len(before))}"
            lines[line - 1] = before + stands.sub(lambda _, filled=filled: filled, rest, count=1)  # type: ignore[misc]
            inside.setdefault(line, {})[path[-1]] = ""
        else:
            lines[line - 1] = f"{before}{path[-1]}: {_wrapped(_plain(value), len(before) + 2)}  {_mark(path)}"
    for line, keys in inside.items():
        lines[line - 1] = _in_braces(lines[line - 1], keys)
    for line in sorted(added, reverse=True):
        lines[line:line] = added[line]
    if (old := places.get(("discovered",))) is not None:
        start = old[0][0] - 1
        later = [place[0][0] - 1 for path, place in places.items() if len(path) == 1 and place[0][0] - 1 > start]
        del lines[start : min(later, default=len(lines))]
    names = {path[1] for path in found if path[0] == "attributes"}
    kept = [line for line in lines if not (line.endswith(_EXAMPLE) and _name_of(line) in names)]
    return "\n".join(kept)


def _in_braces(line: str, keys: Mapping[str, str]) -> str:
    """A line with keys added before its last brace, and a mark behind it. keys: "" for those that it has."""
    new = "".join(f", {key}: {written}" for key, written in keys.items() if written)
    bought = f"bought: {', '.join(sorted(key for key in keys if key not in _MARKS))}"

    def filled(end: re.Match[str]) -> str:
        comment = f"{end[2].rstrip()} ({bought})" if end[2] else f"# {bought}"
        return f"{new}{end[1]}  {comment}"

    return _LAST_BRACE.sub(filled, line, count=1)


def _mark(path: tuple[str, ...]) -> str:
    return _MARKS.get(path[-1], "# bought")


def _name_of(line: str) -> str:
    """Name of the attribute in a commented example of a draft; empty where the line is no such example."""
    try:
        parsed = yaml.safe_load(line.strip().removeprefix("#").removesuffix(_EXAMPLE))
    except yaml.YAMLError:
        return ""
    return str(next(iter(parsed))) if isinstance(parsed, dict) else ""


def _scalar(value: Any) -> str:
    """A value on one line of YAML."""
    return value.isoformat() if isinstance(value, date) else flow({"x": value})[len("{x: ") : -1]


def _wrapped(value: Any, indent: int) -> str:
    """A value in YAML, a list that is too long for a line on several."""
    one_line = _scalar(value)
    if len(one_line) <= 90 or not isinstance(value, list):
        return one_line
    lines = ["["]
    for place, part in enumerate(value):
        item = flow([part])[1:-1] + ("," if place < len(value) - 1 else "]")
        if len(lines[-1]) + len(item) > 110:
            lines.append(" " * indent)
        lines[-1] += f"{item} "
    return "\n".join(line.rstrip() for line in lines)
