"""Hints where a header line looks like that of another dialect. The header is public; no row is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import TableError
from sfumato.kernel.reading.formats.unpacking import TextFile
from sfumato.schema.dialect import Dialect

_DELIMITERS = {";": ("semicolon", "';'"), "\t": ("tab", "tab"), "|": ("bar", "'|'"), ",": ("comma", "','")}


def refuse_other_encoding(line: bytes, file: TextFile) -> None:
    """Refuse a first line that is not in the encoding that was stated, and name one that it could be in."""
    if file.encoding == "utf-8" and (line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in line):
        raise TableError(
            f"the header of {file.name} looks like UTF-16; add --encoding utf-16, or encoding to the schema"
        )
    try:
        line.decode()
    except UnicodeDecodeError:
        pass
    else:
        return
    raise TableError(
        f"the header of {file.name} is not {file.encoding.upper()} text; add --encoding cp1252 (Windows), latin-1 or "
        "what it was saved in, or encoding to the schema"
    )


def refuse_other_dialect(names: Sequence[str], file: TextFile, dialect: Dialect, separator: str) -> None:
    """Refuse a header of one name that holds other separators, and one whose names stand in other quotes."""
    if dialect.delimiter is None and len(names) == 1:
        counts = {mark: names[0].count(mark) for mark in _DELIMITERS if mark != separator}
        mark = max(counts, key=lambda one: counts[one])
        if counts[mark]:
            word, spelled = _DELIMITERS[mark]
            many = f"{counts[mark]} {word}" + "s" * (counts[mark] > 1)
            none = _DELIMITERS.get(separator, (repr(separator), ""))[0]
            raise TableError(
                f"the header of {file.name} has no {none}s but {many}: add --delimiter {spelled}, or to the schema "
                f"file: {{delimiter: {spelled}}}"
            )
    if dialect.quote is None and all(len(name) > 2 and name[0] == name[-1] == "'" for name in names):
        raise TableError(
            f'the names in the header of {file.name} stand in single quotes: add --quote "\'", or to the schema '
            'file: {quote: "\'"}'
        )
