"""The law of cost: no construct of the grammar costs more than its length allows, or it is refused by name.

Cost is counted in calls of functions, Python's and C's, so that it is the same on every machine. Each construct is
asked twice, the second time twice as long; its cost may then be what n log n has, and a little more.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from growing import (
    ALLOWED_MEGABYTES,
    ALLOWED_SECONDS,
    ATTACKS,
    HOLDERS,
    NESTED,
    PRODUCTS,
    REPEATED,
    asked_apart,
    nested_in_turn,
    save_release,
)

import sfumato as sf
from sfumato import effort
from sfumato.answers.distinct import MOST_COUNTS
from sfumato.effort import MOST_CHARACTERS, MOST_DIGITS, MOST_ITEMS, MOST_RULES, MOST_SELECTS, MOST_SETS, MOST_TEXT
from sfumato.errors import QueryError, SfumatoError
from sfumato.releases.release import Release
from sfumato.releases.rows.coding import BATCH
from sfumato.schema import Schema
from sfumato.sql import compile_statement
from sfumato.sql.relation.lookups import MOST_ROWS
from sfumato.sql.select_list import MOST_DISTINCT
from sfumato.sql.table.build import MOST_COLUMNS, MOST_LISTED
from sfumato.sql.values.functions import like

SHORT, LONG = 1_500, MOST_CHARACTERS  # characters, in the suite and with --full
GROWTH = 2.7  # of twice the length: 2.2 is n log n at these lengths, 4 a square
ALWAYS = 120_000  # calls that are not held against any statement
MOST_CALLS = 12_000_000  # about two seconds
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def release(file: Path) -> Release:
    found = sf.open(file)
    found.query("SELECT sex, ROUND(COUNT(*)) FROM t WHERE age + 1 > 2 GROUP BY sex")  # what is loaded once
    return found


@pytest.fixture(scope="module")
def attacked(file: Path) -> dict[str, dict[str, Any]]:
    result = asked_apart(file, ATTACKS)
    for _ in range(2):  # a busy machine adds to the time of a run, and nothing takes from it
        slow = {name: ATTACKS[name] for name, found in result.items() if found["seconds"] > ALLOWED_SECONDS}
        for name, found in (asked_apart(file, slow) if slow else {}).items():
            result[name] = min(result[name], found, key=lambda each: each["seconds"])
    return result


def calls(text: str, release: Release) -> tuple[int, str | None]:
    """How many functions are called to answer or refuse a statement, and why it was refused."""
    number, refusal = 0, None

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")
        if number > MOST_CALLS:
            sys.setprofile(None)
            raise AssertionError(f"more than {MOST_CALLS:,} calls for {len(text):,} characters: {text[:200]}")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        release.query(text)
    except SfumatoError as error:
        refusal = str(error)
    finally:
        sys.setprofile(before)
    return number, refusal


def doublings(statement: Any, longest: int) -> Iterator[str]:
    """The statement 2, 4, 8, ... times, as far as it is not too long."""
    n = 2
    while len(text := statement(n)) <= longest and n <= longest:
        yield text
        n *= 2


def check_growth(statement: Any, release: Release, *, full: bool) -> None:
    texts = list(doublings(statement, LONG if full else SHORT))
    first, before, length = calls(statement(1), release)[0], 0, 1
    for text in texts if full else texts[-2:]:
        number, refusal = calls(text, release)
        assert refusal is None or (refusal and "\n" not in refusal)
        if before:
            longer = max(1.0, len(text) / length / 2)  # than twice, of what doubles with each level
            assert number - first <= GROWTH * longer * (before - first) + ALWAYS, (number, before, first, text[:200])
        before, length = max(number, first), len(text)


@pytest.mark.full
@pytest.mark.parametrize("name", [*REPEATED, *NESTED])
def test_the_cost_of_a_construct_grows_with_its_length(name, release, full):
    if name in PRODUCTS:
        calls({**REPEATED, **NESTED}[name](PRODUCTS[name]), release)
    else:
        check_growth({**REPEATED, **NESTED}[name], release, full=full)


@pytest.mark.parametrize("first", HOLDERS)
def test_so_it_does_where_two_constructs_are_nested_in_turn(first, release, full):
    for second in HOLDERS if full else list(HOLDERS)[list(HOLDERS).index(first) % 4 :: 4]:
        check_growth(nested_in_turn(first, second), release, full=full)


@pytest.mark.full
@pytest.mark.parametrize("name", ATTACKS)
def test_what_an_attack_found_is_answered_or_refused_in_two_seconds(name, attacked):
    found = attacked[name]
    assert found["end"] == "answered" or found["end"].startswith("refused: "), found
    assert found["seconds"] <= ALLOWED_SECONDS, found
    assert found["megabytes"] <= ALLOWED_MEGABYTES, found


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (REPEATED["CUBE"](28), f"268,435,456 grouping sets are in GROUP BY, and {MOST_SETS} is the most"),
        (REPEATED["products of CUBE"](90), f"far more grouping sets are in GROUP BY, and {MOST_SETS} is the most"),
        (REPEATED["ROLLUP"](80), f"81 grouping sets are in GROUP BY, and {MOST_SETS} is the most"),
        (REPEATED["ORDER BY places"](2500), f"2,500 keys are in ORDER BY, and {MOST_RULES} is the most"),
        (REPEATED["PARTITION BY"](200), f"200 keys are in a window, and {MOST_RULES} is the most"),
        (REPEATED["select list: aliases"](600), f"600 columns are in a select list, and {MOST_ITEMS} is the most"),
        (NESTED["subqueries of stars"](20), f"columns are in a select list, and {MOST_ITEMS} is the most"),
        (NESTED["WITH, doubling UNION ALL"](24), f"128 SELECTs would .* UNION ALL, and {MOST_SELECTS} is the most"),
        (NESTED["doubling expressions"](20), "would be in a SELECT whose subqueries and aliases are written out, and"),
        (REPEATED["IN of a real"](1500), "an expression of pay takes more than .* steps to work out"),
        (REPEATED["minus"](5000), "nested too deeply, and 100 parentheses or 200 levels are the most"),
        ("SELECT COUNT(*) FROM t" + " " * 20_000, "too long: at most 20,000 characters are read"),
        (NESTED["doubling texts"](12), "a SELECT whose|subquery takes|expression"),
    ],
)
def test_what_is_too_much_is_refused_by_name_with_its_limit(statement, words, release):
    with pytest.raises(QueryError, match=words) as found:
        release.query(statement)
    assert "\n" not in str(found.value)


def test_a_text_that_functions_make_has_an_end(release):
    long = "x" * 6_000
    with pytest.raises(QueryError, match=f"12,001 characters would be in one text, and {MOST_TEXT:,} is the most"):
        release.query(f"SELECT COUNT(*) FROM t WHERE sex || '{long}' || '{long}' = 'F'")
    with pytest.raises(QueryError, match=f"12,000 characters would be in one text, and {MOST_TEXT:,} is the most"):
        release.query(f"SELECT COUNT(*) FROM t WHERE CONCAT('{long}', '{long}') = sex")


def test_a_whole_number_that_arithmetic_makes_has_an_end(release):
    product_of_many = " * ".join(["(age + 1000000)"] * 8)
    with pytest.raises(QueryError, match=f"has more than {MOST_DIGITS} digits"):
        release.query(f"SELECT COUNT(*) FROM t WHERE {product_of_many} > 1")


def test_steps_are_counted_once_for_all_that_a_statement_does():
    with effort.counted(100):
        effort.spend(60)
        with effort.counted(100), pytest.raises(QueryError, match="a thing takes more than"):
            effort.spend(60, "a thing")
    effort.spend(10**12)  # nobody counts


def test_a_long_list_of_values_is_read_in_one_walk(release):
    """An attribute with many values, and many of them named: each is looked up, not searched for."""
    values = [f"v{number}" for number in range(20_000)]
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"town": {"type": "category", "values": values}}}
    )
    listed = ", ".join(f"'v{number}'" for number in range(0, 20_000, 10))
    compile_statement("SELECT COUNT(*) FROM t WHERE town = 'v1'", schema)
    number = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        compile_statement(f"SELECT COUNT(*) FROM t WHERE town IN ({listed})", schema)
    finally:
        sys.setprofile(before)
    assert number < 1_500_000


def _by_regex(text: str, pattern: str) -> bool:
    parts = (".*" if mark == "%" else "." if mark == "_" else re.escape(mark) for mark in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


@pytest.mark.parametrize("length", range(6))
def test_like_matches_what_a_regular_expression_would(length):
    """All patterns of up to five signs on all texts of up to four."""
    patterns = ["".join(signs) for signs in product("ab%_", repeat=length)]
    texts = ["".join(signs) for size in range(5) for signs in product("ab", repeat=size)]
    for pattern in patterns:
        expected = {text for text in texts if _by_regex(text, pattern)}
        assert {text for text in texts if like(text, pattern)} == expected, pattern


def test_ilike_keeps_the_length_of_a_text():
    assert like("\u0130stanbul", "_STANBUL", ignore_case=True)  # whose small letter is two signs in Python
    assert like("STRASSE", "str%e", ignore_case=True) and not like("STRASSE", "str%e")


# Construct, how its cost grows, where it is refused: as docs/sql.md has it.
LAW = (
    ("a statement", "linear", f"{effort.MOST_CHARACTERS:,} characters"),
    ("parentheses within each other, also of functions and subqueries", "linear", f"{effort.DEEPEST} deep"),
    (
        "`NOT`, `-`, `::`, `[...]` and operators other than `AND` and `OR` in a row",
        "linear",
        f"{effort.MOST_LEVELS} levels",
    ),
    ("the select list, with `*` written out", "linear", f"{effort.MOST_ITEMS} columns"),
    ("`ORDER BY`, `GROUP BY`, `PARTITION BY`", "linear", f"{effort.MOST_RULES} keys each"),
    ("`ROLLUP`, `CUBE`, `GROUPING SETS` and their products", "counted by arithmetic", f"{effort.MOST_SETS} sets"),
    (
        "`UNION`, `UNION ALL`, also by `WITH` and subqueries",
        "doubles with each level",
        f"{effort.MOST_SELECTS} `SELECT`s",
    ),
    (
        "`JOIN`",
        "the product of both sides, or of the rows of a key",
        f"{MOST_LISTED:,} rows; {MOST_ROWS:,} in a look-up",
    ),
    (
        "windows, joins and aggregates of groups",
        "the sums that their numbers are made of",
        f"{MOST_COLUMNS:,} sums in an answer",
    ),
    (
        "subqueries, `WITH` and aliases written into the `SELECT` around them",
        "doubles with each level",
        f"{effort.MOST_NODES:,} names, constants and operators in all",
    ),
    ("`LIKE`, `ILIKE`", "length of the text times that of the pattern, 512 places of which are one step", "steps"),
    ("a text that `\\|\\|`, `CONCAT` and the like make", "doubles with each level", f"{effort.MOST_TEXT:,} characters"),
    ("a whole number that arithmetic makes", "doubles with each level", f"{effort.MOST_DIGITS} digits"),
    ("values of a `COUNT(DISTINCT ...)`; these times the groups", "linear", f"{MOST_DISTINCT:,}; {MOST_COUNTS:,}"),
    ("synthetic rows", "linear", f"{BATCH:,}"),
    ("conditions with `OR` and `NOT` across attributes", "at worst the product of both sides", "1,000 boxes"),
    (
        "an expression of attributes",
        "its length times the values of its attributes, or the pieces it makes of a real-valued one",
        "steps",
    ),
    ("`HAVING`, `CASE`, `IN`, ranks and order on the rows of an answer", "their length times the rows", "steps"),
    (
        "steps",
        "counted, not timed",
        f"{effort.MOST_STEPS:,} to read a statement, as many and {effort.STEPS_OF_A_ROW} for each row to work on its "
        "rows",
    ),
)


def test_the_page_has_the_limits_of_the_code():
    head = ["| construct | grows | at most |", "|---|---|---|"]
    table = "\n".join([*head, *(f"| {' | '.join(row)} |" for row in LAW)])
    assert table in (ROOT / "docs" / "sql.md").read_text()
