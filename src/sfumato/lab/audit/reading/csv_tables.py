"""Awkward CSV files, as bytes, and a reference grammar of CSV that reads them byte by byte.

Files are well-formed, malformed, and anything in between. The fast reader must agree with the grammar, wherever it cuts
a file into blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from random import Random

from sfumato.frozen import dataclass
from sfumato.kernel.reading.formats.csv_records import Grammar
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.tables import PLAIN_NAMES, awkward_schema
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN, Dialect


@dataclass(frozen=True)
class Record:
    """One record: its position in the file, and its fields."""

    start: int
    stop: int
    fields: tuple[bytes, ...]


def records(data: bytes, separator: int, quote: int = ord('"'), *, header: bool = True) -> list[Record]:
    """All records of a file, the header first; empty lines are none. quote: -1 for none."""
    found: list[Record] = []
    fields: list[bytes] = []
    field = bytearray()
    state, start, first = "start", 0, 3 if header and data.startswith(b"\xef\xbb\xbf") else 0
    returned = False  # whether the last byte of the field is a carriage return outside quotes

    def end(stop: int) -> None:
        nonlocal field, fields, start, state, returned
        fields.append(bytes(field[:-1] if returned else field))
        if fields != [b""] or data[start:stop].strip(b"\r\n"):
            found.append(Record(start, stop, tuple(fields)))
        field, fields, start, state, returned = bytearray(), [], stop, "start", False

    for at in range(first, len(data)):
        byte = data[at]
        if state == "start" and byte == quote:
            state = "quoted"
        elif state == "quoted":
            if byte == quote:
                state = "closing"
            else:
                field.append(byte)
        elif state == "closing" and byte == quote:
            field.append(byte)
            state = "quoted"
        elif byte == separator:
            fields.append(bytes(field))
            field, state, returned = bytearray(), "start", False
        elif byte == ord("\n"):
            end(at + 1)
        else:
            field.append(byte)
            state, returned = "plain", byte == ord("\r")
    if start < len(data) and (first == 0 or start or len(data) > first):
        end(len(data))
    return found


def text(field: bytes) -> str | None:
    """Text of a field; missing if it is empty or not UTF-8."""
    try:
        return field.decode() or None
    except UnicodeDecodeError:
        return None


FIELDS = {
    "c": ["a", "A", "ä", "1", "true", "x\ny", 'x"y', "a\rb", "a,b", "a\tb", " a", "\0", ""],
    "n": ["1", "-2", "2.5", "1e400", "nan", "inf", " 1", "true", "x", "", "-0", "-€ 2", "1 EUR", "E1E", "%"],
    "x": ["0.25", "0.5", "-1", "NaN", "1e-400", "", "0,5"],
    "b": ["true", "F", "yes", "maybe", "0", ""],
    "d": ["2020-02-29", "2020-02-30", "2020-03-01T23:59:59", "9999-12-31", "x", ""],
    "m": ["1", "-7.5", "inf", "nan", "1e308", "", "EUR\u00a03", " x ", "2%%"],
    "who": ["p", "P", "q", "e\u0301", "é", "p\nq", "nan", ""],
}
JUNK = [b'"', b'""', b"\r", b"\n", b"\r\n", b"\xff", b"\xc3", b"\0", b",,,", b'x"', b'"x"y', b"\xef\xbb\xbf", b"\\",
        b"#", b"'"]  # fmt: skip
# The same for other spellings of numbers and dates, and what may be taken for them.
SPELLED = {
    "n": ["1", "-2", "2,5", "2.5", "1.000", "1.0000", "-1.000,5", "1e2", "1,000", "true", "", "1 000", ",5", "+1"],
    "x": ["0,25", "0.25", "0,5", "-1", "0,2,5", "1.5", "", "0,5e0"],
    "d": ["29.02.2020", "30.02.2020", "1.3.2020", "2020-02-29", "03.01.2020", "x", "", "1.1.20"],
    "m": ["1", "-7,5", "1.000", "1.5", "1,5", "inf", ""],
}


@dataclass(frozen=True)
class AwkwardFile:
    """A schema and a CSV file that it can be applied to.

    header and body are in the file's own encoding; `turned` tells, character by character, what they are in UTF-8.
    """

    schema: Schema
    grammar: Grammar
    dialect: Dialect
    header: bytes
    names: tuple[str, ...]
    body: tuple[bytes, ...]  # the bytes of each record as the grammar cuts them, wherever they came from

    def records(self, data: bytes) -> list[Record]:
        """Parse UTF-8 bytes into records by the reference grammar."""
        quote = ord(self.grammar.quote) if self.grammar.quote else -1
        return records(data, ord(self.grammar.separator), quote, header=self.dialect.columns is None)

    def rows(self, body: Sequence[bytes]) -> list[Row]:
        """Parse the rows of a file of these records by the reference grammar."""
        encoding = self.dialect.encoding
        found = self.records(b"".join(turned(piece, encoding) for piece in (self.header, *body)))
        found = found if self.dialect.columns else found[1:]
        whole = [record for record in found if len(record.fields) == len(self.names)]
        return [self._row(record) for record in whole]

    def _row(self, record: Record) -> Row:
        texts = [text(field) for field in record.fields]
        if self.dialect.columns and texts[0] is not None:
            texts[0] = texts[0].lstrip("\ufeff") or None
        return {name: plainly(name, value, self.dialect) for name, value in zip(self.names, texts, strict=True)}

    def unit(self, record: bytes) -> str | None:
        """Privacy unit of a record; None if it has none."""
        rows = self.rows([record])
        return str(rows[0]["who"]) if rows and rows[0]["who"] is not None else None


def awkward_file(random: Random, separator: str, dialect: Dialect = PLAIN) -> AwkwardFile:
    """Random schema and CSV file of a few records with awkward values and spellings."""
    schema, names = awkward_schema(random, PLAIN_NAMES)
    if dialect.decimal or dialect.dates:  # words for missing values would be taken for what `plainly` makes of others
        schema = schema.model_copy(update={"file": None})
    grammar = Grammar(separator, '"' if dialect.quote is None else dialect.quote)
    line, people = random.choice([b"\n", b"\r\n"]), random.sample(FIELDS["who"], 4)
    pools = FIELDS | (SPELLED if dialect.decimal or dialect.thousands else {}) | {"who": people}
    body = b""
    for _ in range(random.randint(3, 14)):
        if dialect.columns and random.random() < 0.3:
            body += b"\xef\xbb\xbf"  # which, without a header, is no part of any record
        values = [_spelled(random, random.choice(pools[part]), grammar) for part in names]
        body += separator.encode().join(values) + line
        if random.random() < 0.25:
            body += random.choice(JUNK) + random.choice([b"", line, line + line])
    if random.random() < 0.3:
        body = body.removesuffix(line)
    start = b"\xef\xbb\xbf" if random.random() < 0.2 or dialect.encoding == "utf-16" else b""
    header = start + separator.encode().join(_spelled(random, part, grammar) for part in names) + line
    if dialect.columns:
        dialect, header = dialect.model_copy(update={"columns": tuple(names)}), b""
    if dialect.encoding == "cp1252":  # has no byte order mark
        header = header.removeprefix(b"\xef\xbb\xbf")
    empty = AwkwardFile(schema, grammar, dialect, b"", tuple(names), ())
    found = empty.records(header + body)[0 if dialect.columns else 1 :]
    cut = [0, *(record.stop - len(header) for record in found)]
    pieces = tuple(encoded(body[a:b], dialect.encoding) for a, b in pairwise(cut))
    return replace(empty, header=encoded(header, dialect.encoding), body=pieces)


def _spelled(random: Random, value: str, grammar: Grammar) -> bytes:
    """Encode a value as a CSV field, usually quoted where needed, sometimes needlessly, rarely not where needed."""
    raw, quote = value.encode(), grammar.quote.encode()
    needs = any(byte in raw for byte in (quote or b"\n", b"\n", grammar.separator.encode())) or raw.endswith(b"\r")
    if quote and random.random() < (0.95 if needs else 0.3):
        return quote + raw.replace(quote, quote + quote) + quote + (b" " if random.random() < 0.03 else b"")
    return raw


def encoded(piece: bytes, encoding: str | None) -> bytes:
    """Re-encode UTF-8 bytes; characters that the encoding lacks are replaced, invalid bytes stay invalid."""
    if encoding is None:
        return piece
    characters = piece.decode("utf-8", "surrogateescape")
    if encoding.startswith("utf-16"):
        return characters.encode("utf-16-be" if encoding == "utf-16-be" else "utf-16-le", "surrogatepass")
    return b"".join(
        one.encode(encoding, "surrogateescape" if "\udc80" <= one <= "\udcff" else "replace") for one in characters
    )


def turned(piece: bytes, encoding: str | None) -> bytes:
    """Decode bytes of an encoding to UTF-8, byte by byte (pair by pair in UTF-16): the inverse of `encoded`."""
    if encoding is None:
        return piece
    if encoding.startswith("utf-16"):
        order = "utf-16-be" if encoding == "utf-16-be" else "utf-16-le"
        return piece.decode(order, "surrogatepass").encode("utf-8", "surrogatepass")
    page = [bytes([byte]).decode(encoding, "ignore").encode() or bytes([byte]) for byte in range(256)]
    return b"".join(page[byte] for byte in piece)


def plainly(name: str, value: str | None, dialect: Dialect) -> str | None:
    """Respell a number or date of a dialect as in a plain CSV file; an unreadable text if it is misspelled."""
    if value is None or name not in SPELLED:
        return value
    if name == "d":
        return value if dialect.dates is None else _iso(value, str(dialect.dates))
    if value in ("true", "false") or not (dialect.decimal or dialect.thousands):
        return value
    decimal, thousands = dialect.decimal or ".", dialect.thousands or "\0"
    body, mark, power = value.strip(" ").replace("E", "e").partition("e")
    whole, point, rest = body.lstrip("+-").partition(decimal)
    first, *groups = whole.split(thousands)
    right = len(body) - len(body.lstrip("+-")) <= 1 and all(part.isdigit() or not part for part in (rest, first))
    if groups:
        right &= 1 <= len(first) <= 3 and len(groups[-1]) == 3
        right &= all(len(group) in (2, 3) and group.isdigit() for group in groups)
    plain = body[: len(body) - len(body.lstrip("+-"))] + whole.replace(thousands, "") + ("." if point else "") + rest
    return plain + mark + power if right else "nonsense"


def _iso(value: str, written: str) -> str:
    try:
        return datetime.strptime(value.strip(), written).date().isoformat()
    except ValueError:
        return "nonsense"
