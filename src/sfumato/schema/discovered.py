"""Receipt for keys of a schema that were bought from the private table, and its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import PlainValidator

from sfumato.schema.parts import Count, Declared, Exact, PositiveExact, decimal, shown

CONTRIBUTIONS = "contributions"


def _hexadecimal(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
        raise ValueError(f"is {shown(value)}; it must be as `sfumato discover` wrote it, 32 hexadecimal digits")
    return value


def _paths(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(path, str) for path in value):
        raise ValueError("must list the keys that were bought, as `sfumato discover` wrote them")
    return tuple(value)


_Hex = Annotated[str, PlainValidator(_hexadecimal)]


class Discovered(Declared):
    """Receipt for keys of a schema that were bought from the private table, on the account of its dataset."""

    epsilon: PositiveExact
    delta: Exact = Fraction(0)
    ledger: _Hex
    entry: Count
    nonce: _Hex
    filled: Annotated[tuple[str, ...], PlainValidator(_paths)]


def bought_in_words(receipts: Sequence[Discovered]) -> str:
    """Sentence for a guarantee: the schema keys that were bought and their cost; empty if none were."""
    if not receipts:
        return ""
    kinds = {path.rpartition(".")[2] for one in receipts for path in one.filled}
    words = ["lists of values"] * ("values" in kinds) + ["bounds"] * bool(kinds & {"lower", "upper"})
    words += ["the rows used of each unit"] * (CONTRIBUTIONS in kinds)
    return (
        f"Its {' and '.join(words) or 'schema'} were bought before, with {cost_in_words(receipts)} of the same account."
    )


def cost_in_words(receipts: Sequence[Discovered]) -> str:
    """Total cost of the receipts, in words.

    >>> one = {"ledger": "0" * 32, "entry": 1, "nonce": "1" * 32, "filled": ["attributes.age.lower"]}
    >>> cost_in_words([Discovered(epsilon="0.2", delta="1e-9", **one), Discovered(epsilon="0.1", **one)])
    'epsilon 0.3 and delta 1e-9'
    """
    epsilon, delta = (sum((getattr(one, kind) for one in receipts), Fraction(0)) for kind in ("epsilon", "delta"))
    return f"epsilon {_amount(epsilon)}" + (f" and delta {_amount(delta)}" if delta else "")


def _amount(value: Fraction) -> str:
    """Format an exact amount of privacy, in scientific notation where that is exact: 1e-9."""
    short = f"{float(value):.12g}".replace("e-0", "e-")
    return short if Fraction(short) == value else str(decimal(value))


def as_receipt(one: Discovered) -> dict[str, Any]:
    """A receipt as the schema's file has it."""
    amounts = {"epsilon": _amount(one.epsilon)} | ({"delta": _amount(one.delta)} if one.delta else {})
    told = {"ledger": one.ledger, "entry": one.entry, "nonce": one.nonce, "filled": list(one.filled)}
    return {**amounts, **told}
