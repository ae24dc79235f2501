"""Language of the report: English stands in the code, each other language in one file of messages under lang/.

What other parts of Sfumato say (rules, errors, guarantees) is translated by the form of its sentences. A sentence that
has no such form stays English and is marked so; what the schema says is nobody's to translate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from importlib.resources import files

from sfumato.errors import QueryError
from sfumato.frozen import dataclass

MARKS = {"en": (",", "."), "de": (".", ","), "fr": ("\u202f", ",")}  # between thousands, and before a fraction
_NUMBER = re.compile(r"(?<![\w.])[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![\w.])|(?<![\w.])[0-9]+\.[0-9]+(?![\w.]*\.)")
NESTED = 4  # sentences inside each other: of a series, a part that leans, its groups, its tables
_BOUNDS = re.compile(r"(.+) from (\S+) to (\S+)")
_DATES = (  # as labels of dates are written (`Axis.label`), the form as messages have it, and how many parts it has
    ("{0}-{1}-{2}T{3}", re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2})")),
    ("{0}-{1}-{2}", re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")),
    ("{0}-{1}", re.compile(r"([0-9]{4})-([0-9]{2})")),
    ("{0}-W{1}", re.compile(r"([0-9]{4})-W([0-9]{2})")),
    ("{0}-Q{1}", re.compile(r"([0-9]{4})-Q([1-4])")),
)


@dataclass(frozen=True, eq=False)
class Tongue:
    """Language of a page.

    page: messages by English text. told: those of sentences from elsewhere, by their form. names: of the schema, which
    are never translated. english: sentences that had no form, in the order met.
    """

    code: str = "en"
    page: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[re.Pattern[str], str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    english: list[str] = field(default_factory=list)


_SPOKEN: ContextVar[Tongue] = ContextVar("tongue", default=Tongue())  # noqa: B039 (nothing is added to English)


@contextmanager
def speaking(language: str) -> Iterator[Tongue]:
    """Write all texts of a block of code in a language: en, de or fr."""
    if language not in MARKS:
        raise QueryError(f"reports are written in {', '.join(MARKS)}; {language[:20]!r} is none of these")
    messages = {} if language == "en" else read_messages(language)
    told = {_as_pattern(form): own for form, own in messages.get("told", {}).items()}
    spoken = Tongue(language, messages.get("page", {}), told)
    before = _SPOKEN.set(spoken)
    try:
        yield spoken
    finally:
        _SPOKEN.reset(before)


def read_messages(language: str) -> dict[str, dict[str, str]]:
    """Messages of a language: page (by English text) and told (sentences from elsewhere, by their form)."""
    found: dict[str, dict[str, str]] = json.loads(
        files("sfumato.public.report").joinpath("lang", f"{language}.json").read_text(encoding="utf-8")
    )
    return found


def tongue() -> Tongue:
    """Language that is spoken now."""
    return _SPOKEN.get()


def template(text: str) -> str:
    """Message for an English text, its places {0}, {1} not filled in."""
    return tongue().page.get(text, text)


def t(text: str, *parts: object) -> str:
    """Text in the language of the page; {0}, {1} are filled in."""
    return re.sub(r"\{(\d)\}", lambda found: str(parts[int(found[1])]), template(text)) if parts else template(text)


def many(number: int, one: str, more: str) -> str:
    """Text for one thing, or for several with their number at {0}."""
    return t(one if number == 1 else more, figure(number))


def figure(number: float, form: str = ",.0f") -> str:
    """Number as the language writes it. form: of Python.

    >>> with speaking("de"):
    ...     figure(12345.67, ",.1f")
    '12.345,7'
    """
    return _marked(format(number, form))


def share(part: float) -> str:
    """Share as a percentage, to six digits."""
    return f"{figure(part * 100, '.6g')} %"


def figures(text: str) -> str:
    """Text with its numbers as the language writes them."""
    return text if tongue().code == "en" else _NUMBER.sub(lambda found: _marked(found[0]), text)


def date_of(label: str) -> str:
    """Date, month, quarter or week as the language writes it; any other text as it is.

    >>> with speaking("de"):
    ...     date_of("2024-12-31"), date_of("2024-W05"), date_of("A-1")
    ('31.12.2024', 'KW 05/2024', 'A-1')
    """
    matches = ((form, pattern.fullmatch(label)) for form, pattern in _DATES)
    return next((t(form, *found.groups()) for form, found in matches if found is not None), label)


def retold(text: str, nested: int = NESTED) -> str | None:
    """Sentence from elsewhere in the language of the page; None where it has no form there.

    In a form {0} is a name or a list of names, {0#} a number, and {0!} a sentence that has a form itself, so many
    times.
    """
    spoken = tongue()
    if spoken.code == "en":
        return text
    for form, own in spoken.told.items():
        if (match := form.fullmatch(text)) is not None:
            parts = {name[1:]: _part(name[0], part, nested - 1) for name, part in match.groupdict().items()}
            if None not in parts.values():
                return re.sub(r"\{(\d)\}", lambda found, parts=parts: parts[found[1]], own)  # type: ignore[misc]
    return None


def _part(kind: str, text: str, nested: int) -> str | None:
    """Part of a sentence: a number (n), a sentence (s), or text."""
    if kind == "n":
        return _marked(text)
    if kind == "t":
        return _names(text)
    return retold(text, nested) if nested else None


def _names(text: str) -> str:
    """Translate the text around schema names (bounds, commas, "and"), which stay; any other text as `date_of` does."""
    names = tongue().names
    pieces = [text] if text in names else re.split(r"(, | and | or )", text)
    items = [_item(piece) for piece in pieces[::2]]
    if not any(item is None for item in items):
        between = [piece if piece == ", " else f" {t(piece.strip())} " for piece in pieces[1::2]]
        return "".join(str(part) for pair in zip(items, [*between, ""], strict=True) for part in pair)
    return date_of(text)


def _item(text: str) -> str | None:
    if text in tongue().names:
        return text
    if (bounds := _BOUNDS.fullmatch(text)) is not None and bounds[1] in tongue().names:
        return t("{0} from {1} to {2}", bounds[1], *(date_of(figures(end)) for end in bounds.groups()[1:]))
    return retold(text, 1)


def _marked(number: str) -> str:
    thousands, point = MARKS[tongue().code]
    return number.translate({ord(","): thousands, ord("."): point})


def _as_pattern(form: str) -> re.Pattern[str]:
    """Regular expression of a form. A part ends at the first match of the words after it, without backtracking, as
    names are whatever a stranger wrote.
    """
    kinds = {"": ("t", ".+?"), "#": ("n", r"[0-9][0-9.,]*(?:e[+-]?[0-9]+)?"), "!": ("s", ".+?")}
    pieces = re.split(r"\{(\d)([#!]?)\}", form)
    found = re.escape(pieces[0])
    for place, kind, fixed in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        name, what = kinds[kind]
        found += f"(?>(?P<{name}{place}>{what}){re.escape(fixed)})" if fixed else f"(?P<{name}{place}>{what})"
    return re.compile(found, re.DOTALL)
