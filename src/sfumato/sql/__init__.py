"""SQL on a release: a SELECT becomes a plan that needs no data.

One difference from SQL engines is on purpose: division is always real division, never of whole numbers, because
noisy counts are not whole.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.sql.plan import Amount, Column, Cut, Formula, Key, Order, Select, strict_check

if TYPE_CHECKING:
    from sfumato.sql.compile import Statement, compile_select, compile_statement, selects_of
    from sfumato.sql.reading import read_workload
    from sfumato.sql.rows import SyntheticRows, compile_where

# The compiler is loaded when a text is compiled: a plan's values serve releases and planners that read no SQL.
_COMPILER = dict.fromkeys(("Statement", "compile_select", "compile_statement", "selects_of"), "compile")
_COMPILER |= {"read_workload": "reading", "SyntheticRows": "rows", "compile_where": "rows"}

__all__ = ["Amount", "Column", "Cut", "Formula", "Key", "Order", "Select", "Statement", "SyntheticRows"]
__all__ += ["compile_select", "compile_statement", "compile_where", "read_workload", "selects_of", "strict_check"]


def __getattr__(name: str) -> Any:
    if name in _COMPILER:
        return getattr(import_module(f"sfumato.sql.{_COMPILER[name]}"), name)
    raise AttributeError(f"module 'sfumato.sql' has no attribute {name!r}")
