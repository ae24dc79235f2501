"""SQL on a release: a SELECT becomes a plan that needs no data.

One difference from SQL engines is on purpose: division is always real division, never of whole numbers, because
noisy counts are not whole.
"""

from sfumato.sql.compile import Statement, compile_select, compile_statement, selects_of
from sfumato.sql.plan import Amount, Column, Cut, Formula, Key, Order, Select, strict_check
from sfumato.sql.reading import read_workload
from sfumato.sql.synthetic import SyntheticRows, compile_where

__all__ = [
    "Amount",
    "Column",
    "Cut",
    "Formula",
    "Key",
    "Order",
    "Select",
    "Statement",
    "SyntheticRows",
    "compile_select",
    "compile_statement",
    "compile_where",
    "read_workload",
    "selects_of",
    "strict_check",
]
