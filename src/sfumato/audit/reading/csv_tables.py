"""Awkward CSV files: well-formed, malformed, and anything in between, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from sfumato.audit.reading.csv_grammar import Record, records, text
from sfumato.audit.reading.reference import Row
from sfumato.audit.reading.tables import awkward_schema
from sfumato.schema import Schema

FIELDS = {
    "c": ["a", "A", "ä", "1", "true", "x\ny", 'x"y', "a\rb", "a,b", "a\tb", " a", "\0", ""],
    "n": ["1", "-2", "2.5", "1e400", "nan", "inf", " 1", "true", "x", "", "-0"],
    "x": ["0.25", "0.5", "-1", "NaN", "1e-400", "", "0,5"],
    "b": ["true", "F", "yes", "maybe", "0", ""],
    "d": ["2020-02-29", "2020-02-30", "2020-03-01T23:59:59", "9999-12-31", "x", ""],
    "m": ["1", "-7.5", "inf", "nan", "1e308", ""],
    "who": ["p", "P", "q", "e\u0301", "é", "p\nq", "nan", ""],
}
NAMES = {part: part for part in FIELDS}
JUNK = [
    b'"',
    b'""',
    b"\r",
    b"\n",
    b"\r\n",
    b"\xff",
    b"\xc3",
    b"\0",
    b",,,",
    b'x"',
    b'"x"y',
    b"\xef\xbb\xbf",
    b"\\",
    b"#",
    b"'",
]


@dataclass(frozen=True)
class AwkwardFile:
    """A schema and a CSV file that it can be applied to."""

    schema: Schema
    separator: str
    header: bytes
    names: tuple[str, ...]
    body: tuple[bytes, ...]  # the bytes of each record as the grammar cuts them, wherever they came from

    def rows(self, body: Sequence[bytes]) -> list[Row]:
        """What the grammar says that a file of these records holds."""
        found = records(self.header + b"".join(body), ord(self.separator))[1:]
        whole = [record for record in found if len(record.fields) == len(self.names)]
        return [dict(zip(self.names, map(text, record.fields), strict=True)) for record in whole]

    def unit(self, record: bytes) -> str | None:
        """Whom a record is about; None if it is about nobody."""
        found = records(record, ord(self.separator))
        fields = found[0].fields if found else ()
        return text(fields[self.names.index("who")]) if len(fields) == len(self.names) else None


def awkward_file(random: Random, separator: str) -> AwkwardFile:
    """A random schema, and a file of a few records in every spelling."""
    schema, names = awkward_schema(random, NAMES)
    mark, line = separator.encode(), random.choice([b"\n", b"\r\n"])
    people = random.sample(FIELDS["who"], 4)
    body = b""
    for _ in range(random.randint(3, 14)):
        values = [random.choice(people if part == "who" else FIELDS[part]) for part in names]
        body += mark.join(_spelled(random, value, mark) for value in values) + line
        if random.random() < 0.25:
            body += random.choice(JUNK) + random.choice([b"", line, line + line])
    if random.random() < 0.3:
        body = body.removesuffix(line)
    start = b"\xef\xbb\xbf" if random.random() < 0.2 else b""
    header = start + mark.join(_spelled(random, part, mark) for part in names) + line
    found: list[Record] = records(header + body, ord(separator))[1:]
    cut = [0, *(record.stop - len(header) for record in found)]
    pieces = tuple(body[a:b] for a, b in pairwise(cut))
    return AwkwardFile(schema, separator, header, tuple(names), pieces)


def _spelled(random: Random, value: str, mark: bytes) -> bytes:
    """A value as a field, quoted where it must be, and now and then where it need not be, or not where it must."""
    raw = value.encode()
    needs = any(byte in raw for byte in (b'"', b"\n", mark)) or raw.endswith(b"\r")
    if random.random() < (0.95 if needs else 0.3):
        return b'"' + raw.replace(b'"', b'""') + b'"' + (b" " if random.random() < 0.03 else b"")
    return raw
