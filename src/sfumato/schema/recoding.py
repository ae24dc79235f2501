"""How a table's own spellings become listed values: by folding letters and blanks, and by a map.

Folding is of ASCII alone, letter by letter from a table, so that it depends on no locale, no version of Unicode and no
engine: A to Z become a to z, and blanks (space, tab, line ends) at both ends are dropped. An É stays an É: map it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import ascii_lowercase, ascii_uppercase
from typing import Annotated, Literal

from pydantic import PlainValidator

from sfumato.plain_text import file_safe
from sfumato.schema.values import category_value, decimal, exact, shown

Fold = Literal["case", "spaces"]
Value = str | int | float

UPPER, LOWER = ascii_uppercase, ascii_lowercase
BLANKS = " \t\n\v\f\r"
_FOLDS: tuple[Fold, ...] = ("case", "spaces")
_LETTERS = str.maketrans(UPPER, LOWER)


def folded(text: str, how: tuple[Fold, ...]) -> str:
    """A text without the differences that do not matter.

    >>> folded(" Ünal ", ("case", "spaces")), folded("F ", ("case",))
    ('Ünal', 'f ')
    """
    text = text.strip(BLANKS) if "spaces" in how else text
    return text.translate(_LETTERS) if "case" in how else text


def as_text(value: Value) -> str:
    """A listed value as text; numbers in the one way in which they are shown."""
    return value if isinstance(value, str) else str(decimal(exact(value)))


def as_number(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(exact(text))
    except ValueError:
        return None


def _fold(value: object) -> tuple[Fold, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(word in _FOLDS for word in words):
        raise ValueError(f"is {shown(value)}; choose case, spaces or [case, spaces]")
    return tuple(word for word in _FOLDS if word in words)


def _keyed(read: Callable[[object], Value], example: str) -> Callable[[object], dict[str, Value]]:
    """Read a mapping from a spelling to something."""

    def pairs(value: object) -> dict[str, Value]:
        if not isinstance(value, Mapping) or not value:
            raise ValueError(f"must be pairs, such as {example}")
        try:
            found = [(as_text(category_value(key)), read(entry)) for key, entry in value.items()]
        except ValueError as problem:
            raise ValueError(f"holds an entry that {str(problem).partition(', or use type: boolean')[0]}") from None
        if len(dict(found)) < len(found):
            raise ValueError("has a key twice, once as a number and once as text; keep one")
        return dict(found)

    return pairs


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is {shown(value)}; it must be true or false")
    return value


def _label(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is {shown(value)}; a label must be text, in quotes if YAML reads it otherwise")
    return value


Folds = Annotated[tuple[Fold, ...], PlainValidator(_fold)]
Spellings = Annotated[dict[str, Value], PlainValidator(_keyed(category_value, "{f: F, m: M}"))]
Truths = Annotated[dict[str, bool], PlainValidator(_keyed(_truth, "{ja: true, nein: false}"))]
Labels = Annotated[dict[str, str], PlainValidator(_keyed(_label, "{1: Never married, 2: Married}"))]


def places_of(listed: tuple[str, ...], spelled: Mapping[str, Value], fold: tuple[Fold, ...]) -> dict[str, int]:
    """Every spelling that is known, folded, and the place in the list that it means."""
    places: dict[str, int] = {}
    for place, text in enumerate(listed):
        other = places.setdefault(folded(text, fold), place)
        if other != place:
            raise ValueError(f"lists {shown(listed[other])} and {shown(text)}, which fold takes for one; keep one")
    place_of = {text: place for place, text in enumerate(listed)}
    for spelling, value in spelled.items():
        if as_text(value) not in place_of:
            raise ValueError(f"maps {shown(spelling)} to {shown(value)}, which is not listed; add it to values")
        place = place_of[as_text(value)]
        other = places.setdefault(folded(spelling, fold), place)
        if other != place:
            raise ValueError(
                f"maps {shown(spelling)} to {shown(value)}, but it already means {shown(listed[other])}; drop one"
            )
    for text in (*listed, *spelled):  # as `sample` and Excel write what a spreadsheet would run, or not show
        places.setdefault(folded(file_safe(text), fold), places[folded(text, fold)])
    return places


def truths_of(spelled: Mapping[str, bool], fold: tuple[Fold, ...]) -> dict[str, bool]:
    """Every spelling of a boolean that is told, folded."""
    found: dict[str, bool] = {}
    for spelling, truth in spelled.items():
        if found.setdefault(folded(spelling, fold), truth) != truth:
            raise ValueError(f"maps {shown(spelling)} to true and to false, which fold takes for one; drop one")
    return found


def labels_of(listed: tuple[str, ...], labels: Mapping[str, str]) -> tuple[str, ...]:
    """What is shown for each listed value: its label, or itself."""
    if not labels:
        return listed
    codes = {code: place for place, code in enumerate(listed)}
    unknown = [code for code in labels if code not in codes]
    if unknown:
        raise ValueError(f"labels {shown(unknown[0])}, which is not listed; add it to values, or drop the label")
    found, seen = tuple(labels.get(code, code) for code in listed), set[str]()
    for place, label in enumerate(found):
        if label in seen or codes.get(label, place) != place:
            raise ValueError(f"has the label {shown(label)} for two values; queries could not tell them apart")
        seen.add(label)
    return found
