"""The kernel's statement in words that Spark takes: the same meaning, whatever the settings and the Java beneath.

Nothing is added to what the statement says. Where Spark's word for something is another, or means more than elsewhere
(a text `1d` is a number to it), that word is put in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.kernel.source.engines import Column

SQL = exp.Expression
_BLANKS = r"[ \t\n\x0B\f\r]*"
_NUMBER = rf"(?i)^{_BLANKS}[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|inf|infinity){_BLANKS}$"
_WORD = "^[A-Za-z0-9]+$"
_TYPES = exp.DataType.Type
_SMALLEST, _LARGEST = 1e-4, 1e16  # doubles between are written in plain digits
_PLAIN = "DECIMAL(38, 21)"  # 17 digits before the point and 17 after three zeros, which is all that they need


def in_sparks_words(statement: SQL, columns: Sequence[Column]) -> SQL:
    """The statement, rewritten. columns: those of the source, whose types say what a cast starts from."""
    kinds = {column.reference: exp.DataType.build(column.type or "string", dialect="spark").this for column in columns}

    statement = statement.copy()
    for node in reversed(list(statement.walk())):  # from the inside out: what is replaced is not looked at again
        if isinstance(node, exp.Extract) and node.name.upper() == "ISODOW":
            node.set("this", exp.var("DAYOFWEEK_ISO"))
        elif isinstance(node, exp.Cast):
            node.replace(_cast(node, kinds))
    return statement


def _cast(node: exp.Cast, kinds: Mapping[str, exp.DType]) -> SQL:
    value, to = node.this, node.to.this
    kind = kinds.get(value.name) if isinstance(value, exp.Column) and not value.table else None
    if to in exp.DataType.TEXT_TYPES:  # which never fails
        return _text_of(value) if kind in exp.DataType.FLOAT_TYPES else exp.Cast(this=value, to=node.to)
    if isinstance(value, exp.Literal) or to == _TYPES.BINARY:
        return exp.Cast(this=value, to=node.to)
    safe = _try_cast(value, node.to)  # for privacy: no value may stop a reading, in ANSI mode or not
    if kind in exp.DataType.TEXT_TYPES and to in (_TYPES.DOUBLE, _TYPES.BOOLEAN):
        return _where(_like(value, _NUMBER if to == _TYPES.DOUBLE else _WORD), safe)
    return safe


def _text_of(value: SQL) -> SQL:
    """A float as the shortest text that reads back to it: 0.0005, 1e-05, 1e+308, inf; not as Java writes it."""
    java = exp.Cast(this=value.copy(), to=_type("STRING"))
    size = exp.Abs(this=exp.Cast(this=value.copy(), to=_type("DOUBLE")))
    digits = exp.Cast(this=_try_cast(java.copy(), _type(_PLAIN)), to=_type("STRING"))
    plain = _replaced(digits, "0+$", "")
    scientific: SQL = exp.Lower(this=_replaced(java, "[.]0E", "E"))
    for pattern, instead in (("^(-?)infinity$", "$1inf"), ("e([0-9])", "e+$1"), ("e-([0-9])$", "e-0$1")):
        scientific = _replaced(scientific, pattern, instead)
    between = exp.and_(size >= _double(_SMALLEST), size.copy() < _double(_LARGEST))
    return exp.Case(ifs=[exp.If(this=between, true=plain)], default=scientific)


def _replaced(text: SQL, pattern: str, instead: str) -> SQL:
    parts = [text, exp.Literal.string(pattern), exp.Literal.string(instead)]
    return exp.Anonymous(this="regexp_replace", expressions=parts)


def _like(text: SQL, pattern: str) -> SQL:
    return exp.RegexpLike(this=text.copy(), expression=exp.Literal.string(pattern))


def _try_cast(value: SQL, to: exp.DataType) -> SQL:
    return exp.TryCast(this=value, to=to, safe=True)  # safe: or sqlglot writes CAST


def _where(test: SQL, value: SQL) -> SQL:
    return exp.Case(ifs=[exp.If(this=test, true=value)])


def _double(value: float) -> SQL:
    return exp.Cast(this=exp.Literal.string(repr(value)), to=_type("DOUBLE"))


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")
