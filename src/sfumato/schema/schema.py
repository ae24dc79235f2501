"""`Schema`: the public description of a table, from YAML or Python, checked as a whole; and its rules in sentences.

How often a rule applied to a row or value is private and said nowhere; that it may have is public, and readers of an
answer should know (`what_is_counted`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from fractions import Fraction
from functools import cache, cached_property
from math import ceil
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from sfumato.arrays import Flags
from sfumato.domain import Domain, refuse_too_many_values
from sfumato.domain.structural import Structure
from sfumato.errors import OldWordWarning, SchemaError
from sfumato.plain_text import html_block, printable, unit_in_words
from sfumato.schema.attributes import Attribute, Boolean, Category, Column, Declared
from sfumato.schema.dialect import PLAIN, Dialect, same_name
from sfumato.schema.discovered import Discovered, bought_in_words
from sfumato.schema.facts import Fact, Lines, facts_of
from sfumato.schema.invariants import ExactSets, Invariants, check_invariants, counted_facts, sets_of, tables_in_words
from sfumato.schema.parts import (
    MOST_UNITS,
    OLD_SHARE,
    ROWS,
    Budget,
    Count,
    Measure,
    PrivacyUnit,
    Weight,
    WeightInRows,
    blanks,
    bounds_of,
    column_name,
    decimal,
    field_of,
    keys_of,
    refuse_lone_surrogates,
    shown,
)
from sfumato.schema.per_person import PersonRule, checked_text, rule_of, with_one_row
from sfumato.schema.remedies import REMEDIES, UNIT_FORMS, blanks_of, counted, in_plain_words, path_of
from sfumato.schema.row_rules import LookUps, Recodes, Rule, in_words, rules_of
from sfumato.schema.rules import Combinations, Functions, rules_in_words, structure_of
from sfumato.schema.series import IN_A_YEAR, MOST_PERIODS, PERIOD, Series


def _privacy_unit(value: object) -> object:
    if value == "row":
        return PrivacyUnit(column=None, contributions=1)
    if not isinstance(value, Mapping | PrivacyUnit):
        raise ValueError(f"must say whose presence is hidden: {UNIT_FORMS}")
    return value


def _refuse_blanks(data: Mapping[Any, object]) -> None:
    if next(blanks(data), None) is not None:
        mistakes = blanks_of(data)
        raise SchemaError(counted(mistakes[0][1], len(mistakes)))


def _dataset(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError(
            f"is {shown(value)}; it must be a word that SQL can use after FROM: letters, digits and underscores, "
            "not starting with a digit, such as census_2024"
        )
    return value


def _ledger(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
        raise ValueError(
            f"is {shown(value)}; it must be the ledger's identity, 32 hexadecimal digits in quotes; "
            "`sfumato ledger show` prints it"
        )
    return value


_C = TypeVar("_C", bound=Column)


def missing_of(measure: str) -> str:
    """The name of the statistic that counts the rows in which a measure is missing."""
    return f"missing {measure}"


class Schema(Declared):
    """The public description of a table.

    >>> census = Schema(dataset="census", privacy_unit="row", attributes={"married": {"type": "boolean"}})
    >>> census.domain.shape
    (2,)
    """

    dataset: Annotated[str, PlainValidator(_dataset)]
    privacy_unit: Annotated[PrivacyUnit, BeforeValidator(_privacy_unit)]
    budget: Budget | None = None
    ledger: Annotated[str, PlainValidator(_ledger)] | None = None
    attributes: dict[str, Attribute]
    measures: dict[str, Measure] = Field(default_factory=dict)
    weight: Weight | None = None
    impossible: Combinations | None = None
    follows: Functions | None = None
    facts: Lines | None = None
    invariants: Invariants | None = None  # tables of exact counts, which nothing protects
    series: Series | None = None
    per_person: Annotated[str, PlainValidator(checked_text)] | None = None  # SQL that makes a person's rows one
    expected_rows: Count | None = None
    population: Count | None = None  # number of those that the rows were drawn from
    file: Dialect | None = None  # how the table's file is written, and synthetic rows are
    discovered: tuple[Discovered, ...] | None = None  # receipts for keys that were bought from the table
    recode: Recodes | None = None
    with_: LookUps | None = None  # `with` in the file

    def __init__(self, /, **data: Any) -> None:
        """Keys as in the YAML file; a SchemaError names the key that is wrong and what to do."""
        data = {key: part for key, part in data.items() if part is not None or key in ("attributes", "privacy_unit")}
        _refuse_blanks(data)
        refuse_lone_surrogates(data)
        data = with_one_row(data) if data.get("per_person") else data
        data = {"with_" if key == "with" else key: part for key, part in data.items()}
        try:
            super().__init__(**data)
        except ValidationError as problem:
            # An unknown key comes first: "lowr" explains why "lower" is missing.
            errors = sorted(problem.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden")
            mistakes = tuple((path_of(error), in_plain_words(error, keys_of(Schema))) for error in errors)
            refusal = SchemaError(counted(mistakes[0][1], len(mistakes)))
            refusal.mistakes = mistakes
            raise refusal from None
        self._refuse_what_is_not_weighed()
        _ = self.domain  # refuses attributes that are too long
        _ = self.people  # refuses one that does not go with the attributes or the unit
        self._refuse_names_that_are_taken()
        self._refuse_words_that_are_listed()
        self._refuse_a_unit_that_is_made()
        _ = self.structure  # refuses rules that do not go with the attributes
        if self.invariants is not None:
            check_invariants(self)
        _ = self.known  # refuses facts that do not

    @classmethod
    def load(cls, path: str | PathLike[str], mapping: object = None) -> Schema:
        """Read a schema from a YAML file. mapping: what is in it, if that is known."""
        from sfumato.schema.file import read_yaml, with_values_from_files

        try:
            mapping = read_yaml(Path(path)) if mapping is None else mapping
            mapping = with_values_from_files(mapping, Path(path).parent)
            found = cls.from_dict(mapping)
        except SchemaError as problem:
            raise SchemaError(f"{path}: {problem}", kind=problem.kind) from None
        if old := [name for name in found.measures if OLD_SHARE in mapping["measures"][name]]:  # type: ignore[index]
            warnings.warn(
                f"{path}: measures.{old[0]} says {OLD_SHARE}, which is called budget_share now, since surveys mean "
                "another thing by a weight; rename it",
                OldWordWarning,
                stacklevel=2,
            )
        return found

    @classmethod
    def from_dict(cls, mapping: object) -> Schema:
        """The schema that a mapping with the keys of the YAML file describes."""
        if not isinstance(mapping, Mapping):
            raise SchemaError("a schema is made of keys: dataset, privacy_unit and attributes; this holds none")
        if "tables" in mapping:
            raise SchemaError(
                "it describes linked tables, and one table is asked for; give it to release, check or plan with the "
                "folder or the database of its tables (docs/linked.md)"
            )
        _refuse_blanks(mapping)
        return cls(**mapping)

    @classmethod
    def of(cls, schema: Schema | str | PathLike[str] | Mapping[str, Any]) -> Schema:
        """The schema itself, or that of a mapping or of the YAML file that a path names."""
        if isinstance(schema, Mapping):
            return cls.from_dict(schema)
        return schema if isinstance(schema, Schema) else cls.load(schema)

    def to_dict(self) -> dict[str, Any]:
        """The mapping that `from_dict` reads back to an equal schema, of types that JSON knows."""
        whole: dict[str, Any] = _as_json(self)
        if self.privacy_unit.column is None:
            whole["privacy_unit"] = "row"
        for name, part in [*whole["attributes"].items(), *whole["measures"].items()]:
            if part["column"] == name:
                del part["column"]
            if part.get("budget_share") == 1:
                del part["budget_share"]
        return whole

    def published(self) -> Schema:
        """The schema as a release carries it: `file` keeps the format of rows, without names of unused columns."""
        if self.file is None:
            return self
        file = self.file.without_names(self.columns_read)
        return self.model_copy(update={"file": None if file == PLAIN else file})

    @property
    def epsilon(self) -> Fraction | None:
        """The total budget, if the schema states one."""
        return self.budget.epsilon if self.budget else None

    @property
    def delta(self) -> Fraction | None:
        """The total delta, if the schema states one."""
        return self.budget.delta if self.budget else None

    @property
    def required_ledger(self) -> str | None:
        """The ledger that must pay: the one that the schema names, or that has paid for what was bought."""
        return self.ledger or next((one.ledger for one in self.discovered or ()), None)

    @property
    def whom(self) -> str:
        """The privacy unit as a guarantee names it."""
        unit = self.privacy_unit
        return unit_in_words(unit.column, unit.contributions, as_one=self.per_person is not None)

    @property
    def bought(self) -> str:
        """Sentence on values and bounds that `sfumato discover` bought; empty where there are none."""
        return bought_in_words(self.discovered) if self.discovered else ""

    @property
    def running(self) -> bool:
        """Whether it is of a series whose noise is spread over its parts, for running totals.

        Not where one person may be in all planned periods: noise drawn anew then serves totals best.
        """
        series = self.series
        if series is None or not series.running or series.periods is None:
            return False
        return self.together == 1 or self.together < series.periods

    @property
    def together(self) -> int:
        """Number of planned periods in which two neighbouring series of tables may differ."""
        series = self.series
        if series is None or (series.promise.alone and self.per is None):
            return 1
        most = IN_A_YEAR.get(series.period, 1) if series.promise.alone else series.promise.most
        return min(most or MOST_PERIODS, series.periods or MOST_PERIODS)

    @property
    def per(self) -> str | None:
        """The span whose periods spend at most the budget together, if the schema states one."""
        return self.budget.per if self.budget else None

    @property
    def rho(self) -> Fraction | None:
        """The total budget in rho, if the schema states one."""
        return self.budget.rho if self.budget else None

    @cached_property
    def domain(self) -> Domain:
        """The axes and cells that the attributes span."""
        refuse_too_many_values([attribute.size for attribute in self.attributes.values()])
        return Domain(tuple(attribute.axis(name) for name, attribute in self.attributes.items()))

    @cached_property
    def structure(self) -> Structure | None:
        """Combinations of cells that no row can have, as `impossible` and `follows` state; None where neither does."""
        return structure_of(self) if self.impossible or self.follows else None

    @property
    def possible(self) -> Flags | None:
        """Flags of the cells that rows can be in, (cells,), to be laid out; None where no rule leaves any out."""
        return None if self.structure is None else self.structure.whole

    @property
    def possible_cells(self) -> int:
        """Number of cells that rows can be in; of all cells, where rules are about too many to count."""
        return self.domain.size if self.structure is None else self.structure.cells

    @cached_property
    def known(self) -> tuple[Fact, ...]:
        """Public counts that `facts` states, or those of `invariants` once they were counted."""
        if self.invariants:
            return counted_facts(self)
        if self.facts and (self.series is not None or self.structure is not None):
            beside = "series" if self.series is not None else "impossible and follows"
            raise SchemaError(f"facts do not go with {beside}; leave one of them out")
        return facts_of(self) if self.facts else ()

    @property
    def exact_sets(self) -> ExactSets:
        """Attributes of each table whose counts a release publishes exactly, () for all rows."""
        return sets_of(self.invariants) if self.invariants else ()

    @property
    def exact_counts(self) -> str:
        """Description of the tables that `invariants` names; empty where there are none."""
        return tables_in_words(self.exact_sets) if self.invariants else ""

    @cached_property
    def made(self) -> dict[str, Rule]:
        """Rules of the columns computed by `recode` and `with`, in dependency order."""
        return rules_of(self) if self.recode or self.with_ else {}

    @property
    def columns_read(self) -> set[str]:
        """Columns of the table that are read."""
        parts = (*self.attributes.values(), *self.measures.values())
        used = {part.column for part in parts} if self.people is None else {name for _, _, name in self.people.reads}
        used |= {self.weight.column} if self.weight is not None and self.people is None else set()
        used |= {column for rule in self.made.values() for column in rule.columns}
        return used | {self.privacy_unit.column or ""}

    @cached_property
    def people(self) -> PersonRule | None:
        """Parsed `per_person`, the rule that makes a person's rows one; None where it is not stated."""
        return None if self.per_person is None else rule_of(self)

    @property
    def units(self) -> dict[str, int]:
        """The most that one row adds to a cell of each statistic, in its steps; counts of missing values included.

        With weights, this is per step of the weight: a row counts as often as it has steps (`most_of_a_unit`).
        """
        found = {"count": 1}
        for name, measure in self.summed.items():
            found[name] = measure.half_units
            if measure.missing == "keep":
                found[missing_of(name)] = 1
        return found

    def reach(self, of: str) -> int:
        """Largest ratio of a statistic to the count, in steps: largest amount of a row; of `ROWS`, largest weight."""
        return ceil(self.weight.most) if self.weight is not None and of == ROWS else self.units[of]

    @property
    def summed(self) -> dict[str, Measure]:
        """The measures and, if rows are weighted but counted unweighted too, that unweighted count."""
        beside = self.weight is not None and self.weight.unweighted_share > 0
        return self.measures | ({ROWS: self.weight.rows} if self.weight is not None and beside else {})

    @property
    def most_of_a_unit(self) -> int:
        """The most that all rows of one unit are counted for: as many as are kept, or the steps of their weights."""
        return self.privacy_unit.contributions * (1 if self.weight is None else self.weight.most)

    @property
    def counts_alone(self) -> Schema:
        """The schema without measures and without the unweighted count beside a weighted one."""
        weight = self.weight and self.weight.model_copy(update={"unweighted_share": Fraction(0)})
        return self.model_copy(update={"measures": {}, "weight": weight})

    @property
    def in_rows(self) -> Schema:
        """The schema for plans alone: where rows are weighed, with counts in rows and not in steps of the weight."""
        weight = self.weight
        if weight is None or weight.step == 1 or isinstance(weight, WeightInRows):
            return self
        fields = {name: getattr(weight, name) for name in Weight.model_fields}
        made = WeightInRows.model_construct(**fields | {"step": Fraction(1)}, reaches=weight.most * weight.step)
        return self.model_copy(update={"weight": made})

    @property
    def usual_weight(self) -> float:
        """A guess at what a row counts for, for plans: the mean, if it is stated, or else half of the largest."""
        if self.weight is None:
            return 1.0
        return float(self.weight.mean if self.weight.mean is not None else self.weight.most * self.weight.step / 2)

    @property
    def count_step(self) -> float:
        """Rows per unit of a count: 1, or the step of the weight."""
        return 1.0 if self.weight is None else float(self.weight.step)

    @property
    def weights(self) -> dict[str, Fraction]:
        """The shares by which a budget is split: 1 for the count, its own for each measure.

        Rows in which a measure is missing are counted beside its sums and cost nothing more.
        """
        return {"count": Fraction(1)} | {name: measure.budget_share for name, measure in self.summed.items()}

    def _repr_html_(self) -> str:
        from sfumato.schema.columns import columns_as_html

        return html_block(columns_as_html(self))

    @field_validator("attributes", "measures", mode="after")
    @classmethod
    def _named(cls, parts: dict[str, _C], info: ValidationInfo) -> dict[str, _C]:
        spelled: dict[str, str] = {}
        for name in parts:
            try:
                column_name(name)
            except ValueError as problem:
                raise ValueError(f"holds a name that {problem}") from None
            if info.field_name == "measures" and name.lower() == "count":
                raise ValueError(
                    "has a measure called 'count', which is what COUNT(*) is called; rename it, with `column`"
                )
            if info.field_name == "measures" and name in map(missing_of, parts):
                raise ValueError(
                    f"has a measure called {name!r}, as the count of missing values is called; rename it, with `column`"
                )
            twin = spelled.setdefault(name.lower(), name)
            if twin != name:
                raise ValueError(f"has {twin!r} and {name!r}, which SQL does not tell apart; rename one, with `column`")
        return {name: part if part.column else part.model_copy(update={"column": name}) for name, part in parts.items()}

    def check_span(self) -> None:
        """Refuse `budget.per` unless a series protects each of its dated periods by itself."""
        if self.per is not None and not (self.series and self.series.promise.alone and self.series.period != "name"):
            raise SchemaError(
                f"budget.per is {self.per}, which is for a series whose unit is a person within a dated period; write "
                "series: {period: month, unit: person in a month}, or leave per out"
            )

    def _refuse_names_that_are_taken(self) -> None:
        taken = {name.lower() for name in (*self.attributes, *self.measures)}
        if self.series is not None:
            if PERIOD in taken:
                raise SchemaError(f"the series has a column called {PERIOD!r} of its own; rename yours, with `column`")
            if self.series.unit.startswith("row") and self.privacy_unit.column:
                raise SchemaError(
                    f"series.unit is {self.series.unit}, but privacy_unit is {self.privacy_unit.column}, whose rows "
                    f"are hidden together; write unit: {self.series.promise.words}, or privacy_unit: row"
                )
            if self.series.promise.most is not None and not self.series.promise.alone and not self.privacy_unit.column:
                raise SchemaError(
                    f"series.unit is {self.series.unit}, so the table must say whose row it is; name the column in "
                    "privacy_unit, or write person in a month or person for ever"
                )
            taken.add(PERIOD)
        if self.series is not None or PERIOD not in taken:  # of an open series, whose periods are a column
            self.check_span()
        for name, attribute in self.attributes.items():
            for column in (attribute.groups or ()) if isinstance(attribute, Category) else ():
                if column.lower() in taken:
                    raise SchemaError(f"attributes.{name}.groups has {column!r}, a name that is taken; rename it")
                taken.add(column.lower())

    def _refuse_words_that_are_listed(self) -> None:
        """Refuse missing-value texts of `file` that are listed values too, and columns there that nothing reads."""
        file = self.file
        if file is None:
            return
        used = set(map(same_name, self.columns_read))
        for key in ("missing", "strip"):
            words = getattr(file, key)
            odd = [name for name in words if same_name(name) not in used] if isinstance(words, dict) else []
            if odd:
                raise SchemaError(
                    f"file.{key} names the column {odd[0]!r}, which nothing here reads; mend or delete it"
                )
        for name, attribute in self.attributes.items():
            if not isinstance(attribute, Category | Boolean):
                continue
            for word in file.missing_words(attribute.column):
                if attribute.knows(word):
                    raise SchemaError(
                        f"attributes.{name} lists {word!r}, which file.missing says is no value; drop one, or state "
                        "missing by column, such as {age: [NA]}"
                    )

    def _refuse_a_unit_that_is_made(self) -> None:
        unit, made = self.privacy_unit.column, self.made  # which refuses rules that do not go together
        if unit is not None and same_name(unit) in map(same_name, made):
            raise SchemaError(
                f"privacy_unit names the column {unit!r}, which a rule makes; name a column of the table itself, as "
                "the promise is about whoever it names"
            )

    def _refuse_what_is_not_weighed(self) -> None:
        """Refuse weights with a series or facts; make default steps coarser, and refuse stated ones beyond 64 bits."""
        if self.weight is None:
            return
        if self.series is not None:
            raise SchemaError("weight is for one table; take series out, and release each period by itself")
        if self.facts is not None:
            raise SchemaError("facts are about rows that count once each; leave out facts, or weight")
        if ROWS in self.measures:
            raise SchemaError(
                f"measures has {ROWS!r}, as the count without weights is called; rename it, with `column`"
            )
        for name, measure in self.measures.items():
            if "step" not in measure.model_fields_set:
                self.measures[name] = measure.coarser(self.weight.most)
            elif measure.half_units * self.weight.most > MOST_UNITS:
                least = float((measure.upper - measure.lower) * self.weight.most / MOST_UNITS)
                raise SchemaError(
                    f"measures.{name} has steps too small to be multiplied by weights of {self.weight.most:,} steps; "
                    f"write step: {least:.2g} or more there"
                )

    @cached_property
    def group_columns(self) -> dict[str, tuple[str, tuple[str | None, ...]]]:
        """The columns that follow from others: for each the attribute behind it, and the group of each of its cells."""
        return {
            column: (name, groups)
            for name, attribute in self.attributes.items()
            if isinstance(attribute, Category)
            for column, groups in attribute.group_columns.items()
        }

    @field_validator("attributes", mode="before")
    @classmethod
    def _some(cls, attributes: object) -> object:
        if attributes == {}:
            raise ValueError(f"is empty: {REMEDIES['attributes']}")
        return attributes


@cache
def _attribute() -> TypeAdapter[Attribute]:
    return TypeAdapter(Attribute)


def axis_sizes(mapping: Mapping[str, Any]) -> list[int]:
    """The number of cells of each attribute of a mapping, without laying out any.

    What is no attribute is left out here: `Schema.from_dict` says what is wrong with it.
    """
    attributes = mapping.get("attributes")
    sizes = []
    for part in attributes.values() if isinstance(attributes, Mapping) else ():
        if isinstance(part, Mapping) and isinstance(values := part.get("values"), list):
            sizes.append(len(values) + (part.get("other") is True) + (part.get("missing") == "keep"))
            continue  # a long list is read once, and refused then if it is none
        with suppress(ValidationError, ValueError, TypeError, ArithmeticError, RecursionError):
            sizes.append(_attribute().validate_python(part).size)
    return sizes


def _as_json(value: object) -> Any:
    if isinstance(value, Declared):
        every = ((key, getattr(value, field_of(type(value), key))) for key in keys_of(type(value)))
        return {key: _as_json(part) for key, part in every if part is not None}
    if isinstance(value, dict):
        return {key: _as_json(part) for key, part in value.items()}
    if isinstance(value, tuple) and {*map(type, value)} <= {str, int}:
        return list(value)
    if isinstance(value, tuple):
        return [_as_json(part) for part in value]
    if isinstance(value, Fraction):
        return decimal(value)
    return value.isoformat() if isinstance(value, date) else value


MOST_IN_SHORT, MOST_NAMED = 4, 12  # columns that are named; more are numbered


def what_is_counted(schema: Schema) -> tuple[str, ...]:
    """The rules by which rows and values entered, one sentence each.

    >>> age = {"type": "integer", "lower": 0, "upper": 9}
    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"age": age})
    >>> print(*what_is_counted(schema), sep="\\n")
    rows with a missing or unreadable age are left out
    values beyond the bounds count at the bound: age from 0 to 9
    """
    unit, (unread, unlisted) = schema.privacy_unit, _left_out(schema)
    rules = in_words(schema)[:MOST_NAMED] if schema.made else []
    if schema.per_person is not None:
        whole = " ".join(schema.per_person.split())
        rules.append(f"each {printable(unit.column or '')} is one row, of all its rows: {printable(whole)}")
    elif unit.column is not None:
        verb = "is" if unit.contributions == 1 else "are"
        rules.append(f"at most {_rows(unit.contributions)} of each {printable(unit.column)} {verb} counted")
    if schema.weight is not None:
        rules.append(_weighed(schema.weight))
    if unread:
        rules.append(f"rows with a missing or unreadable {_listed(unread, 'or', MOST_NAMED)} are left out")
    for keeps, what in ((False, "a missing or"), (True, "an")):
        if odd := [name for name in unlisted if schema.attributes[name].keeps_missing is keeps]:
            rules.append(f"rows with {what} unlisted {_listed(odd, 'or', MOST_NAMED)} are left out")
    if schema.structure is not None:
        rules.append(f"rows that cannot be are left out: {_listed(rules_in_words(schema), 'or', MOST_NAMED)}")
    if clipped := _clipped(schema):
        bounds = (f"{name} from {lower} to {upper}" for name, (lower, upper) in clipped.items())
        rules.append(f"values beyond the bounds count at the bound: {_listed(bounds, most=MOST_NAMED)}")
    if kept := [name for name, measure in schema.measures.items() if measure.missing == "keep"]:
        rules.append(f"sums and averages of {_listed(kept, 'and', MOST_NAMED)} are over rows that have a value")
    if middle := [name for name, measure in schema.measures.items() if measure.missing == "middle"]:
        names = _listed(middle, "or", MOST_NAMED)
        rules.append(f"a missing or unreadable {names} counts as the middle of its bounds")
    return tuple(rules)


def counted_in_short(schema: Schema) -> str:
    """The rules of `what_is_counted` in one line, to stand after "counted:" under an answer.

    >>> counted_in_short(Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}}))
    'no row whose ill is missing or unreadable'
    """
    unit = schema.privacy_unit
    rules = [] if unit.column is None else [f"at most {_rows(unit.contributions)} of each {printable(unit.column)}"]
    if schema.per_person is not None:
        rules = [f"each {printable(unit.column or '')} once, by all its rows"]
    series = schema.series
    if series is not None and series.promise.most is not None and not series.promise.alone:
        many = "1 period" if series.promise.most == 1 else f"{series.promise.most} periods"
        rules.append(f"each {printable(unit.column or '')} in at most {many}, the first ones")
    if schema.weight is not None:
        rules.append(f"each row as often as its {printable(schema.weight.column)} says, {schema.weight.top} at most")
    unread, unlisted = _left_out(schema)
    if unread or unlisted:
        kept = not unread and all(schema.attributes[name].keeps_missing for name in unlisted)
        odd = [] if kept else ["missing"]
        odd += [*(["unreadable"] if unread else []), *(["unlisted"] if unlisted else [])]
        rules.append(f"no row whose {_listed([*unread, *unlisted], 'or', MOST_IN_SHORT)} is {_listed(odd, 'or')}")
    if schema.structure is not None:
        rules.append("no row that contradicts what the schema calls impossible")
    if _clipped(schema):
        rules.append("values beyond the bounds as the bound")
    return "; ".join(rules)


def _weighed(weight: Weight) -> str:
    column, (lower, upper) = printable(weight.column), bounds_of(weight) or ("", "")
    moved = f", then moved {decimal(100 * weight.shrink)} % of the way to {decimal(weight.mean)}" if weight.mean else ""
    return f"every row counts as often as {column} says, clipped to {lower} and {upper}{moved}, in steps of " + str(
        decimal(weight.step)
    )


def _rows(most: int) -> str:
    return "1 row" if most == 1 else f"{most:,} rows"


def _left_out(schema: Schema) -> tuple[list[str], list[str]]:
    """The columns whose rows fall out: where they are missing or cannot be read, and where they are not listed."""
    every = schema.attributes.items()
    unread = [name for name, part in every if not isinstance(part, Category) and not part.keeps_missing]
    unlisted = [name for name, part in every if isinstance(part, Category) and not part.other]
    unread += [name for name, measure in schema.measures.items() if measure.missing == "drop" and name not in unread]
    unread += [schema.weight.column] if schema.weight is not None and schema.weight.column not in unread else []
    whose = schema.privacy_unit.column
    return [*unread, *([] if whose is None or whose in unread else [whose])], unlisted


def _clipped(schema: Schema) -> dict[str, tuple[str, str]]:
    """Columns whose values are moved to a bound, and their bounds."""
    every: list[tuple[str, Column]] = [*schema.attributes.items(), *schema.measures.items()]
    return {name: bounds for name, part in every if (bounds := bounds_of(part)) is not None}


def _listed(names: Iterable[str], last: str = "and", most: int | None = None) -> str:
    """Names as a sentence lists them, those that are too many as a number."""
    shown = [printable(name) for name in names]
    if most is not None and len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"
