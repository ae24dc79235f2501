"""The grammar of one kind of CSV: which byte parts fields, which byte quotes them, and what follows from it."""

from __future__ import annotations

import re
from functools import cached_property

from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Grammar:
    """What parts fields and what stands around them, one ASCII character each; with quote "" there are no quotes."""

    separator: str = ","
    quote: str = '"'

    @property
    def mark(self) -> int:
        """The separator's byte."""
        return ord(self.separator)

    @property
    def around(self) -> int:
        """The quote's byte; a number that no byte has where there are no quotes."""
        return ord(self.quote) if self.quote else 256

    @cached_property
    def field(self) -> re.Pattern[bytes]:
        """One field: quoted with what stands behind it, quoted and not yet closed, or plain."""
        plain = rb"[^%s\n]*+" % re.escape(self.separator.encode())
        if not self.quote:
            return re.compile(plain)
        return re.compile(rb"%s(?:%s%s|\Z)|%s" % (self._opened, self._escaped, plain, plain))

    @cached_property
    def quoted(self) -> re.Pattern[bytes]:
        """A field that begins with a quote: what stands inside, the closing quote if there is one, what follows it."""
        return re.compile(rb"%s(?:(%s)(.*))?" % (self._opened, self._escaped), re.DOTALL)

    @property
    def _escaped(self) -> bytes:
        return re.escape(self.quote.encode())

    @property
    def _opened(self) -> bytes:
        """A quote, and all that stands inside up to the closing one."""
        q = self._escaped
        return rb"%s([^%s]*+(?:%s%s[^%s]*+)*+)" % (q, q, q, q, q)

    def unquoted(self, field: bytes) -> bytes:
        """What a field says: quotes around it taken off, doubled ones inside made single.

        >>> plain = Grammar()
        >>> plain.unquoted(b'"a ""b"" c"'), plain.unquoted(b'"a"b"'), plain.unquoted(b'5" pipe')
        (b'a "b" c', b'ab"', b'5" pipe')
        """
        found = self.quoted.fullmatch(field) if self.quote else None
        if found is None:
            return field
        quote = self.quote.encode()
        return bytes(found[1].replace(quote + quote, quote) + (found[3] or b""))

    def state(self, data: bytes) -> bytes:
        """A short field that leaves the automaton where these bytes, of one record, leave it."""
        at = 0
        while True:
            found = self.field.match(data, at)
            end = found.end() if found else len(data)
            if end >= len(data):
                break
            at = end + 1
        last, quote = data[at:], self.quote.encode()
        if not quote or not last.startswith(quote):
            return b"x" if last else self.separator.encode()
        inner = self.quoted.fullmatch(last)
        if inner is None or not inner[2]:
            return quote
        return b"x" if inner[3] else quote + quote


CSV = Grammar()
