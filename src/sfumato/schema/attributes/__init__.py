"""The kinds of attribute a schema can declare, and the cells each of them gives."""

from typing import Annotated

from pydantic import Field

from sfumato.schema.attributes.lists import Boolean, Category
from sfumato.schema.attributes.numbers_and_dates import Date, Integer, Number
from sfumato.schema.parts import Column, Declared

__all__ = ["KINDS", "Attribute", "Boolean", "Category", "Column", "Date", "Declared", "Integer", "Number"]

Attribute = Annotated[Integer | Number | Category | Boolean | Date, Field(discriminator="type")]
KINDS: dict[str, type[Column]] = {
    "integer": Integer,
    "number": Number,
    "category": Category,
    "boolean": Boolean,
    "date": Date,
}
