"""The public schema: everything that may be known about a table before anything is released from it.

It is written by the curator, as YAML or in Python, and never read from the private table: a bound that was the largest
income in the table would publish that income. What is missing is refused, never guessed.
"""

from sfumato.schema.attributes import Attribute
from sfumato.schema.parts import Budget, Measure, PrivacyUnit
from sfumato.schema.schema import Schema

__all__ = ["Attribute", "Budget", "Measure", "PrivacyUnit", "Schema"]
