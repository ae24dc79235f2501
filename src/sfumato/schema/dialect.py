"""The dialect of a file: delimiter, quotes, encoding, and the spelling of numbers, dates and missing values.

It is about the file and not about what is published, so a release does not carry it. Like all of a schema it is stated
and never guessed from rows; the header line, which is public, is looked at for hints only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import PlainValidator, ValidationError, model_validator

from sfumato.errors import SchemaError
from sfumato.schema.attributes import Declared
from sfumato.schema.attributes.lists import BLANKS, as_text
from sfumato.schema.parts import category_value, column_name, shown

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "xlsx")
THOUSANDS = (",", ".", " ", "'", "’", "_")
# Those in which each byte, or each pair of bytes, is a character by itself, which reading record by record leans on.
_BYTES = ("utf-8", "latin-1", "cp1252", "cp1250", "cp1251", "iso-8859-2", "iso-8859-15", "cp437", "cp850", "koi8-r")
ENCODINGS = (*_BYTES, "mac-roman", "utf-16", "utf-16-le", "utf-16-be")
_SAME = {"utf8": "utf-8", "utf-8-sig": "utf-8", "iso-8859-1": "latin-1", "latin1": "latin-1", "utf16": "utf-16"}
_SAME |= {f"windows-{page}": f"cp{page}" for page in (1250, 1251, 1252)}
_PART = re.compile(r"%(.)", re.DOTALL)
_PARTS = set("YymdbBjaAHIMSfp%")
_AROUND = " \t\u00a0\u202f"  # blanks between a number and its unit
Words = tuple[str, ...] | dict[str, tuple[str, ...]]


def _delimiter(value: object) -> str:
    text = {"tab": "\t", "\\t": "\t", "\t": "\t"}.get(str(value), str(value))
    if not isinstance(value, str) or len(text) != 1 or not text.isascii() or text.isalnum() or text in '\r\n"':
        raise ValueError(f"is {shown(value)}; write the one character between fields, such as ';' or tab")
    return text


def _quote(value: object) -> str:
    if value in ("none", ""):
        return ""
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value.isalnum() or value in "\r\n":
        raise ValueError(f"is {shown(value)}; write the one character around fields, such as '\"', or none")
    return value


def _encoding(value: object) -> str:
    text = str(value).strip().lower().replace("_", "-")
    found = _SAME.get(text, text)
    if found not in ENCODINGS:
        raise ValueError(f"is {shown(value)}; choose one of {', '.join(ENCODINGS)}")
    return found


def _decimal(value: object) -> str:
    if value not in (".", ","):
        raise ValueError(f"is {shown(value)}; it must be '.' or ','")
    return str(value)


def _thousands(value: object) -> str:
    text = {"space": " ", "none": "", "\u00a0": " ", "\u202f": " "}.get(str(value), str(value))
    if text and text not in THOUSANDS:
        raise ValueError(f"is {shown(value)}; choose one of {' '.join(THOUSANDS[:2])} ' ’ _ or space, or leave it out")
    return text


def _date_format(value: object) -> str:
    text = value if isinstance(value, str) else ""
    parts = _PART.findall(text)
    unknown = next((part for part in parts if part not in _PARTS), None)
    if unknown is not None:
        raise ValueError(f"holds %{unknown}; the parts that are read are %{' %'.join(sorted(_PARTS - {'%'}))}")
    found = set(parts)
    if not found & {"Y", "y"} or not ("j" in found or ("d" in found and found & {"m", "b", "B"})):
        raise ValueError(f"is {shown(value)}; write year, month and day, such as %d.%m.%Y or %m/%d/%Y %I:%M %p")
    if text.replace("%%", "").endswith("%") or any(ord(character) < 32 for character in text):
        raise ValueError(f"is {shown(value)}, which ends in the middle; write it such as %d.%m.%Y")
    return text


def _dates(value: object) -> str | dict[str, str]:
    if isinstance(value, Mapping):
        return {column_name(name): _date_format(one) for name, one in value.items()}
    return _date_format(value)


def _words(read: Callable[[object], str], example: str) -> Callable[[object], Words]:
    """Parser of a list of words, for all columns or by column; `read` parses each. example: for messages."""

    def listed(value: object) -> tuple[str, ...]:
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words:
            raise ValueError(f"must be a list with something in it, such as {example}")
        try:
            return tuple(dict.fromkeys(map(read, words)))
        except ValueError as problem:
            raise ValueError(f"holds an entry that {problem}") from None

    def words_of(value: object) -> Words:
        if isinstance(value, Mapping):
            return {column_name(name): listed(one) for name, one in value.items()}
        return listed(value)

    return words_of


def _missing_word(value: object) -> str:
    try:
        word = as_text(category_value(value)).strip(BLANKS)
    except ValueError as problem:
        raise ValueError(str(problem).partition(", or use type: boolean")[0]) from None
    if not word:
        raise ValueError("is empty; delete it, an empty field is always missing")
    return word


def _mark(value: object) -> str:
    word = value.strip(_AROUND) if isinstance(value, str) else ""
    if not word or set(word) & set("0123456789+-.,'\"") or any(ord(character) < 32 for character in word):
        raise ValueError(f"is {shown(value)}; write a currency or unit without digits, signs and points, such as EUR")
    return word


def _columns(value: object) -> tuple[str, ...]:
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise ValueError("must list the columns of the file in order, such as [person_id, age, sex]")
    found = tuple(map(column_name, names))
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"lists {shown(twice)} twice; rename one")
    return found


def same_name(name: str) -> str:
    """Canonical form of a column's name: names may differ in case and outer blanks."""
    return name.strip().lower()


class Dialect(Declared):
    """The format of a file; what is not stated is as in a plain CSV file of UTF-8.

    >>> Dialect(delimiter=";", dates="%d.%m.%Y").date_format("arrived")
    '%d.%m.%Y'
    """

    format: Literal["csv", "tsv", "jsonl", "parquet", "arrow", "xlsx"] | None = None  # where its name does not say
    delimiter: Annotated[str, PlainValidator(_delimiter)] | None = None
    quote: Annotated[str, PlainValidator(_quote)] | None = None
    encoding: Annotated[str, PlainValidator(_encoding)] | None = None
    columns: Annotated[tuple[str, ...], PlainValidator(_columns)] | None = None  # of a file without a header line
    decimal: Annotated[str, PlainValidator(_decimal)] | None = None
    thousands: Annotated[str, PlainValidator(_thousands)] | None = None
    dates: Annotated[str | dict[str, str], PlainValidator(_dates)] | None = None
    missing: Annotated[Words, PlainValidator(_words(_missing_word, "[NA, n/a, '-']"))] | None = None
    strip: Annotated[Words, PlainValidator(_words(_mark, "[EUR, '%']"))] | None = None  # units around numbers
    sheet: Annotated[str, PlainValidator(column_name)] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.thousands and self.thousands == (self.decimal or "."):
            raise ValueError("has one character for decimals and thousands; state the other one too")
        if self.delimiter is not None and self.delimiter == self.quote:
            raise ValueError("has one character between fields and around them; change one")
        if self.columns is not None and self.encoding == "utf-16":
            # For privacy: without a header its first character, which tells the order of bytes, is one row's own.
            raise ValueError("has columns, so no header, and utf-16; write encoding: utf-16-le (or utf-16-be)")
        return self

    def date_format(self, column: str) -> str | None:
        """The format of dates in a column, if it was stated."""
        return self.dates.get(column) if isinstance(self.dates, dict) else self.dates

    def missing_words(self, column: str) -> tuple[str, ...]:
        """Texts that stand for a missing value in a column.

        >>> Dialect(missing={"pay": ["NA", -9]}).missing_words("Pay"), Dialect(missing=["-"]).missing_words("age")
        (('NA', '-9'), ('-',))
        """
        return _of_column(self.missing, column)

    def marks(self, column: str) -> tuple[str, ...]:
        """Currencies and units that may stand before or after the numbers of a column."""
        return _of_column(self.strip, column)

    def without_names(self, used: Collection[str]) -> Dialect:
        """The format of rows alone: without the kind of file and the names of unused columns."""
        known, columns = set(map(same_name, used)), []
        for place, name in enumerate(self.columns or (), 1):
            unnamed = f"column {place}" + "_" * sum(one.startswith(f"column {place}") for one in known)
            columns.append(name if same_name(name) in known else unnamed)
        by_column = {}
        for key in ("dates", "missing", "strip"):
            stated = getattr(self, key)
            if isinstance(stated, dict):
                stated = {name: one for name, one in stated.items() if same_name(name) in known} or None
            by_column[key] = stated
        return self.model_copy(update={"format": None, "sheet": None, "columns": tuple(columns) or None, **by_column})


def _of_column(words: Words | None, column: str) -> tuple[str, ...]:
    if not isinstance(words, dict):
        return words or ()
    return next((some for name, some in words.items() if same_name(name) == same_name(column)), ())


PLAIN = Dialect()


def overridden(dialect: Dialect | None, options: Mapping[str, Any]) -> Dialect | None:
    """A dialect with options of the command line in place of what it states.

    >>> overridden(Dialect(decimal=","), {"delimiter": ";", "quote": None}).decimal
    ','
    """
    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        return dialect
    stated = {} if dialect is None else {key: getattr(dialect, key) for key in Dialect.model_fields}
    try:
        return Dialect(**{key: value for key, value in (stated | given).items() if value is not None})
    except ValidationError as problem:
        error = problem.errors(include_url=False)[0]
        key = f"--{error['loc'][0]}".replace("--format", "--file-format") if error["loc"] else "the way of the file"
        said = error["ctx"]["error"] if error["type"] == "value_error" else f"must be one of {', '.join(FORMATS)}"
        raise SchemaError(f"{key} {said}") from None
