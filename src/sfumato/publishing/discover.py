"""Fill a draft's blanks by private looks at the table: values, bounds and rows of each person.

All looks are paid for by one reservation, made before the first. Each blank has its share of the epsilon, and lists of
values share the delta. What is filled, and every word about it, follows from noisy numbers. Types come from the draft,
which has them from what is public.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from sfumato.errors import BudgetError, SchemaError, TableError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, Cost
from sfumato.kernel.curator import Curator
from sfumato.kernel.discovering import Looks, open_looks, rehearse_looks
from sfumato.kernel.ledger.ledger import Account, Ledger, Receipt
from sfumato.kernel.opening import Step, Terms
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.publishing.noisy_bounds import (
    Bounds,
    Settings,
    best_cap,
    bounds_of_dates,
    bounds_of_numbers,
    rows_of_people,
    trial,
)
from sfumato.publishing.prepare import IN_MEMORY, name_of_table, telling_what_stays
from sfumato.schema import Schema
from sfumato.schema.blanks import Blank, blanks_to_buy, filled_text, trial_of, with_found
from sfumato.schema.discovered import CONTRIBUTIONS, Discovered, as_receipt
from sfumato.schema.file import parsed_text, text_of, with_values_from_files
from sfumato.schema.parts import day, exact, shown

MECHANISM = "discover"
MOST_VALUES = 200
ROWS, QUOTE = "rows_of_a_person", '"'
_SEEN = {"integer": " up to 8e15", **dict.fromkeys(("number", "measure"), " between 0.000001 and 8e15, of either sign")}


@dataclass(frozen=True, eq=False)
class Wish:
    """Public request of a curator to fill a draft: everything but the private table and the randomness.

    draft: the mapping of a schema with blanks. text: as it was written. columns: the blanks to fill, all of them if
    there are none named. shares: of the epsilon, by the names of blanks; 1 for all others. most: values of a category.
    folder: of the draft, and of lists of values that it names.
    """

    draft: Mapping[str, Any]
    text: str
    epsilon: Amount
    delta: Amount | None = None
    columns: Sequence[str] = ()
    shares: Mapping[str, Fraction] = field(default_factory=dict)
    most: int = MOST_VALUES
    table_name: str | None = None
    dialect: str | None = None
    allow_views: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    another_unit: bool = False
    again: bool = False
    folder: Path = field(default_factory=Path)

    @property
    def every_blank(self) -> list[Blank]:
        """The blanks that looks can fill; what no look can fill is refused."""
        return blanks_to_buy(self.draft)

    @property
    def blanks(self) -> list[Blank]:
        """The blanks that are to be filled."""
        result = self.every_blank
        for name in (*self.columns, *self.shares):
            if all(one.name != name for one in result):
                names = ", ".join(one.name for one in result)
                raise SchemaError(f"there is no blank called {shown(name)}; the draft lacks {names}")
        return [one for one in result if not self.columns or one.name in self.columns]

    @property
    def cost(self) -> Cost:
        """Epsilon and delta; lists of values need a delta, and nothing else does."""
        listed = any(one.kind == "values" for one in self.blanks)
        if listed and self.delta is None:
            raise BudgetError(
                "lists of values are found by a threshold, which needs a delta: the chance that it lets a value of one "
                "person through; give --delta, such as 1e-9"
            )
        return Cost.stated(self.epsilon, self.delta if listed else None)

    @property
    def parts(self) -> list[tuple[Blank, Fraction, Fraction]]:
        """Each blank with its epsilon and its delta; together they are the cost."""
        cost, blanks = self.cost, self.blanks
        weights = [self.shares.get(one.name, Fraction(1)) for one in blanks]
        if any(weight <= 0 for weight in weights):
            raise BudgetError("a share of the epsilon must be more than 0; name what is to be left out in no --column")
        of_values = sum(weight for one, weight in zip(blanks, weights, strict=True) if one.kind == "values")
        return [
            (
                one,
                cost.epsilon * weight / sum(weights),
                cost.delta * weight / of_values if one.kind == "values" else Fraction(0),
            )
            for one, weight in zip(blanks, weights, strict=True)
        ]

    @property
    def trials(self) -> list[tuple[Schema, Cost | None]]:
        """Trial schemas of all looks, to check names and types; for values, with the cost of the look."""
        result = list[tuple[Schema, Cost | None]]()
        for one, epsilon, delta in self.parts:
            kind = "category" if one.kind == "values" else one.type
            schema = self.look(one, {"type": kind, **trial(kind)})
            result.append((schema, Cost(epsilon, delta) if one.kind == "values" else None))
        return result

    def look(self, blank: Blank, attribute: Mapping[str, Any]) -> Schema:
        """Schema of one look: the attribute alone, with the rules and privacy unit of the whole schema.

        It uses one row of each person; a look for values states its own limit. To cap rows, `per_person` counts them.
        """
        whole, unit, column = self.schema.to_dict(), self.schema.privacy_unit.column, blank.column
        keys = {key: whole[key] for key in ("dataset", "recode", "with", "per_person") if whole.get(key)}
        if blank.kind == CONTRIBUTIONS:
            person, column = f'"{column.replace(QUOTE, 2 * QUOTE)}"', ROWS
            keys["per_person"] = f"SELECT {person}, COUNT(*) AS {ROWS} FROM {keys['dataset']} GROUP BY {person}"
        keys["privacy_unit"] = "row" if unit is None else {"column": unit, "contributions": 1}
        schema = Schema.from_dict({**keys, "attributes": {"value": {**attribute, "column": column}}})
        return schema.model_copy(update={"file": self.schema.file})

    @cached_property
    def schema(self) -> Schema:
        """Complete schema by which the looks read: the draft with public placeholders for its blanks."""
        kinds = ("integer", "number", "date", "category", "measure")
        whole = trial_of(self.draft, self.every_blank, {kind: trial(kind) for kind in kinds})
        return Schema.from_dict(with_values_from_files(whole, self.folder))

    def terms(self, table: Any) -> Terms:
        """Terms of the one reservation."""
        facts = {
            "table": name_of_table(table) or IN_MEMORY,
            "name": self.table_name,
            "draft": json.loads(json.dumps(self.draft, default=str)),
            "looks": [(one.paths, str(epsilon), str(delta)) for one, epsilon, delta in self.parts],
            "most": self.most,
        }
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return Terms(self.schema, self.cost, MECHANISM, digest, self.another_unit, self.again, by_sums=True)

    def opened(self, table: Any) -> Table:
        """The private table, opened anew: names and types."""
        if isinstance(table, str) and table == "-":
            raise TableError("discover reads the table several times, and standard input only once; give a file")
        name, spoken, views = self.table_name, self.dialect, self.allow_views
        return open_table(table, name=name, allow_views=views, schema=self.schema, dialect=spoken)


def read_draft(draft: str | PathLike[str] | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A draft as a mapping and as text, from its file or from a mapping."""
    if isinstance(draft, Mapping):
        whole = dict(draft)
        return whole, yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)
    try:
        text = text_of(Path(draft))
        result = parsed_text(text)
        if not isinstance(result, dict):
            raise SchemaError("a draft is made of keys: dataset, privacy_unit and attributes; this holds none")
    except SchemaError as problem:
        raise SchemaError(f"{draft}: {problem}", kind=problem.kind) from None
    return result, text


@dataclass(frozen=True)
class Finding:
    """Result of a look for one blank. found: values by the keys that they fill; empty without a result."""

    blank: Blank
    found: Mapping[tuple[str, ...], Any]
    words: str

    @property
    def numbers(self) -> tuple[int, int] | None:
        """Least and greatest of the values found, if there are several and all are whole numbers in digits."""
        values = next((found for path, found in self.found.items() if path[-1] == "values"), ())
        digits = [str(value) for value in values]
        if len(digits) < 2 or not all(re.fullmatch(r"0|-?[1-9][0-9]{0,14}", text) for text in digits):
            return None
        return min(map(int, digits)), max(map(int, digits))


@dataclass(frozen=True)
class Discovery:
    """A draft filled by private looks. text: of the schema's file. left: blanks that could not be filled."""

    findings: tuple[Finding, ...]
    mapping: Mapping[str, Any]
    text: str
    cost: Cost
    receipt: Receipt

    @property
    def left(self) -> list[str]:
        """Keys that are still blank."""
        return [one.paths[0] for one in blanks_to_buy(self.mapping)] if self._lacks else []

    @property
    def _lacks(self) -> bool:
        from sfumato.schema.remedies import blanks_of

        return bool(blanks_of(self.mapping))

    def schema(self, folder: Path | None = None) -> Schema:
        """The filled schema; refused where a blank is left."""
        return Schema.from_dict(with_values_from_files(self.mapping, folder or Path()))


def discover(
    table: Any,
    draft: str | PathLike[str] | Mapping[str, Any],
    epsilon: Amount,
    *,
    delta: Amount | None = None,
    shares: Mapping[str, Amount] | None = None,
    most: int = MOST_VALUES,
    ledger: Ledger | str | Path | None = None,
    table_name: str | None = None,
    dialect: str | None = None,
    allow_views: bool = False,
    another_unit: bool = False,
    again: bool = False,
    step: Step = lambda name: None,
) -> Schema:
    """Fill the blanks of a draft by private looks at the table, paid for from the ledger; return the schema.

    draft: a mapping with the keys of a schema, or the path of its YAML file; None, or a key that is not there, is a
    blank: `values` of a category, `lower` and `upper` of numbers and dates, `contributions` of a privacy unit.
    epsilon: for all looks together, split evenly, or by `shares`. delta: for lists of values, which need one.
    most: the most values of a category. All else as `sfumato.release` has it.
    """
    mapping, text = read_draft(draft)
    wish = Wish(
        mapping,
        text,
        epsilon,
        delta,
        shares={name: Fraction(str(share)) for name, share in (shares or {}).items()},
        most=most,
        table_name=table_name,
        dialect=dialect,
        allow_views=allow_views,
        ledger=ledger if isinstance(ledger, Ledger) else Ledger(ledger),
        another_unit=another_unit,
        again=again,
        folder=Path() if isinstance(draft, Mapping) else Path(draft).parent,
    )
    done = fill(table, wish, step=step)
    if lacking := [f"{one.blank.name} ({one.words})" for one in done.findings if not one.found]:
        raise SchemaError(
            f"the looks were paid for, but noise left blank {', '.join(lacking)}; state it, or look again with more "
            "epsilon; `sfumato discover` writes down what the other looks found"
        )
    return done.schema(wish.folder)


def rehearse_fill(table: Any, wish: Wish) -> Account:
    """Make every check that `fill` makes before it spends; return the account as it stands."""
    return rehearse_looks(lambda: wish.opened(table), wish.terms(table), wish.trials, ledger=wish.ledger)


def fill(table: Any, wish: Wish, *, step: Step, entropy: Entropy | None = None) -> Discovery:
    """Reserve the cost, look at the table for each blank, and fill the draft."""
    source, book = entropy or SystemEntropy(), wish.ledger
    nonce = source.bytes(16).hex()
    terms = wish.terms(table)
    with telling_what_stays(book, terms.schema.dataset, nonce):
        looks = open_looks(
            lambda: wish.opened(table), terms, wish.trials, ledger=book, entropy=source, step=step, nonce=nonce
        )
        step("read")
        findings = _findings(looks, wish)
        done = _filled(wish, findings, looks.receipt)
        step("publish")
        book.publish(looks.receipt, hashlib.sha256(done.text.encode()).hexdigest())
    return done


def _findings(looks: Looks, wish: Wish) -> list[Finding]:
    from sfumato.kernel.discovering import MOST_A_PERSON

    rows, settings, result = wish.schema.privacy_unit.contributions, Settings(), list[Finding]()
    for blank, epsilon, delta in sorted(wish.parts, key=lambda part: part[0].kind != CONTRIBUTIONS):
        try:
            if blank.kind == CONTRIBUTIONS:
                one = _contributions(looks, blank, epsilon, wish, settings)
                rows = one.found.get(blank.wanted[0], 1)
            elif blank.kind == "values":
                one = _values(looks, blank, (epsilon, delta), min(rows, MOST_A_PERSON), wish)
            else:
                one = _bounds(looks, blank, epsilon, wish, settings)
        except (SchemaError, TableError) as problem:  # what the other looks found is paid for, and kept
            one = Finding(blank, {}, str(problem))
        result.append(one)
    return result


def _contributions(looks: Looks, blank: Blank, epsilon: Fraction, wish: Wish, settings: Settings) -> Finding:
    people = looks.curator(wish.look(blank, rows_of_people()), epsilon)
    cap = best_cap(people, epsilon, wish.schema.epsilon or wish.cost.epsilon, settings)
    if cap is None:
        return Finding(blank, {}, "too few people for this epsilon")
    words = f"{cap.above} of people have more rows; {cap.dropped} of rows are left out then"
    words += f", if nobody has more than {cap.most:,}"
    return Finding(blank, {blank.wanted[0]: cap.rows}, words)


def _values(looks: Looks, blank: Blank, cost: tuple[Fraction, Fraction], rows: int, wish: Wish) -> Finding:
    schema = wish.look(blank, {"type": "category", **trial("category")})
    listed = looks.values(schema, *cost, most=wish.most, values_a_person=rows)
    missing = () if schema.file is None else schema.file.missing_words(blank.column)
    values = [one.value for one in listed if one.value not in ("other", *missing)]
    if not values:
        return Finding(blank, {}, "no value that enough people have for this epsilon")
    path = blank.wanted[0]
    ordered = sorted(values)  # by their text: people look a value up in a list
    words = f"{len(values)} value{'s' * (len(values) > 1)}, and other for all that fewer people have"
    return Finding(blank, {path: ordered, (*path[:-1], "other"): True}, words)


def _bounds(looks: Looks, blank: Blank, epsilon: Fraction, wish: Wish, settings: Settings) -> Finding:
    def look(attribute: dict[str, Any], share: Fraction) -> Curator:
        return looks.curator(wish.look(blank, attribute), share)

    if blank.type == "date":
        result = bounds_of_dates(look, epsilon, settings)
    else:
        result = bounds_of_numbers(blank.type, look, epsilon, settings)
    if result is None:
        return Finding(blank, {}, f"too few rows with a readable value{_SEEN.get(blank.type, '')}, for this epsilon")
    keys = _bounded(blank, result, wish.draft, settings)
    if not keys:
        return Finding(blank, {}, f"found {result.lower} to {result.upper}, which contradicts the bound that is stated")
    return Finding(blank, keys, f"{result.inside} of rows lie inside")


def _bounded(blank: Blank, found: Bounds, draft: Mapping[str, Any], settings: Settings) -> dict[tuple[str, ...], Any]:
    """The keys that bounds fill: lower and upper where they are blank, and bins where numbers need cells.

    Empty where a bound that was found contradicts one that is stated.
    """
    keys: dict[tuple[str, ...], Any] = {}
    for room, name in blank.places:
        part = draft[room][name]
        read: Callable[[object], Any] = day if blank.type == "date" else exact
        both = {key: getattr(found, key) if part.get(key) is None else read(part[key]) for key in ("lower", "upper")}
        if not both["lower"] < both["upper"]:
            return {}
        keys |= {(room, name, key): both[key] for key in both if part.get(key) is None}
        ruled = any(part.get(key) is not None for key in ("bins", "width", "cuts"))
        if room == "measures" or blank.type == "date" or ruled:
            continue
        if blank.type == "number" or both["upper"] - both["lower"] >= settings.single:
            keys[room, name, "bins"] = found.cells
    return keys


def _filled(wish: Wish, findings: Sequence[Finding], receipt: Receipt) -> Discovery:
    found = {path: value for one in findings for path, value in one.found.items()}
    bought = [".".join(path) for path in found if path[-1] not in ("other", "bins")]
    mapping, text = dict(wish.draft), wish.text
    receipts = [Discovered(**one) for one in mapping.get("discovered") or ()]
    if bought:
        receipts.append(
            Discovered(
                epsilon=receipt.epsilon,
                delta=receipt.delta,
                ledger=receipt.ledger,
                entry=receipt.entry,
                nonce=receipt.nonce,
                filled=tuple(bought),
            )
        )
        text = filled_text(text, mapping, found, receipts)
        mapping = with_found(mapping, found)
        mapping["discovered"] = [as_receipt(one) for one in receipts]
    return Discovery(tuple(findings), mapping, text, wish.cost, receipt)
