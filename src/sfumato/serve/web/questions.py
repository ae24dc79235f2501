"""Request bodies of the JSON API as Pydantic models, and the OpenAPI 3.1 document made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.json_schema import models_json_schema

from sfumato.serve.web.requests import Refusal
from sfumato.version import __version__

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Label = str | int | bool | None
Interval = Literal["typical", "guaranteed", "both"]
Amount = Literal["count", "share", "sum", "average", "median"]
PLAIN: tuple[Amount, ...] = ("count", "share")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Manner(_Body):
    """How sure an answer is to be."""

    confidence: float = Field(0.95, ge=0.01, le=0.99999, description="How sure the intervals are.")
    interval: Interval = Field("typical", description="typical: right on average over questions; guaranteed: always.")
    possible: bool = Field(False, description="End intervals where no table can go further.")
    simultaneous: bool = Field(False, description="Intervals that hold for all rows of the answer together.")
    selected: bool = Field(True, description="Intervals that allow for rows chosen by noisy values, as by LIMIT.")
    unbiased: bool = Field(False, description="Counts and sums as measured, without what a model made of them.")

    @property
    def slow(self) -> bool:
        """Whether its intervals take much longer than usual ones."""
        return self.interval != "typical" or self.simultaneous


class Query(Manner):
    """A statement in SQL."""

    sql: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    strict: bool = Field(False, description="Refuse answers that depend on how rows are spread inside a bin.")
    errors: bool = Field(True, description="Standard errors and interval ends beside every number.")


class Filter(_Body):
    """Rows with some values of one attribute: those that are listed, or all cells from `first` to `last`."""

    attribute: Name
    labels: Annotated[list[Label], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Values or bins, as the description of the release lists them."
    )
    first: Label = Field(None, description="A value or bin of an ordered attribute; none: from its beginning.")
    last: Label = Field(None, description="A value or bin, which is included; none: to its end.")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.labels is not None and (self.first is not None or self.last is not None):
            raise Refusal("invalid", "a filter has labels or first and last, not both", "leave one of them out")
        return self


Filters = Annotated[list[Filter], Field(max_length=50)]


class Chart(Manner):
    """A number for every value of up to two attributes."""

    by: Annotated[list[Name], Field(max_length=2)] = Field(default=[], description="Up to two attributes.")
    amount: Amount = "count"
    of: Name | None = Field(None, description="Which column is summed or averaged.")
    where: Filters = Field(default=[])


class Compare(Manner):
    """One number in two groups, and what can be said of their difference."""

    first: Filters
    second: Filters
    amount: Amount = "count"
    of: Name | None = Field(None, description="Which column is summed or averaged.")
    having: Filters = Field(default=[], description="Of a share: whose share in each group.")


_ASKED: dict[str, tuple[type[BaseModel], str]] = {
    "query": (Query, "Answer a statement in SQL, every number with its error."),
    "csv": (Query, "The same as comma-separated values."),
    "chart": (Chart, "A number for every value of up to two attributes."),
    "compare": (Compare, "One number in two groups, and whether they differ by more than noise."),
}
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_NUMBERS = {"type": "array", "items": {"type": ["number", "string", "null"]}}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_KNOWN = ("release", "sql", "confidence", "interval", "notes", "decisive", "counted")
_SHARED: dict[str, Any] = {
    "release": {"type": "string"},
    "sql": {"type": "string", "description": "The statement that this is the answer of."},
    "confidence": {"type": "number"},
    "interval": {"enum": ["typical", "guaranteed", "both"]},
    "notes": _TEXTS,
    "decisive": _TEXTS | {"description": "Notes that change what one may conclude, the weightiest first."},
    "counted": {"type": "string", "description": "What is counted by rule."},
}
_ROWS: dict[str, Any] = {"rows": {"type": "array", "items": {"type": "object"}}, "columns": _TEXTS}
_ANSWERS: dict[str, dict[str, Any]] = {
    "query": _ROWS,
    "chart": {
        "by": _TEXTS,
        "amount": {"type": "string"},
        "of": {"type": ["string", "null"]},
        "keys": {"type": "array", "items": {"type": "array"}},
        **dict.fromkeys(("values", "stderr", "low", "high"), _NUMBERS),
        **{name: {"type": "boolean", "description": "Whether one group surely is."} for name in ("highest", "lowest")},
        "cut_short": {
            "type": "object",
            "description": "By attribute: labels of end groups that are shorter than others, and their part.",
        },
    },
    "compare": _ROWS | {"real": {"type": ["boolean", "null"]}, "statement": {"type": "string"}},
}
_WHAT = {
    "400": "The body is not JSON.",
    "404": "There is no such release, or no such map of one.",
    "405": "The address takes another method.",
    "413": "The body is longer than 64 KiB.",
    "415": "The body is not sent as application/json.",
    "421": "The server was called by another host's name.",
    "422": "A field is wrong, or the release cannot answer this, or not so much of it.",
    "500": "An error of the server's own.",
    "503": "Too many questions at once, or one that takes too long.",
}


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    _, schemas = models_json_schema(
        [(model, "validation") for model, _ in _ASKED.values()], ref_template="#/components/schemas/{model}"
    )
    defined = schemas["$defs"] | {"Refusal": _refusal(), **{f"{n}_answer": _object(a) for n, a in _ANSWERS.items()}}
    paths: dict[str, Any] = {
        "/api/openapi.json": {"get": _get("This document.")},
        "/api/releases": {"get": _get("The releases that are served.")},
        "/api/releases/{name}": {
            "get": _get("What a release holds, promises and cannot answer.", "404", "500", "503")
            | {"parameters": [_NAME]}
        },
        "/api/releases/{name}/map/{column}": {"get": _map()},
    }
    for kind, (model, words) in _ASKED.items():
        paths[f"/api/releases/{{name}}/{kind}"] = {"post": _post(kind, model, words)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato explorer",
            "version": __version__,
            "description": "Releases with error bars. Public files only: no login, nothing is written.",
        },
        "paths": paths,
        "components": {"schemas": defined},
    }


def _post(kind: str, model: type[BaseModel], words: str) -> dict[str, Any]:
    answer: dict[str, Any] = (
        {"text/csv": {"schema": {"type": "string"}}}
        if kind == "csv"
        else {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}_answer"}}}
    )
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {
        "summary": words,
        "operationId": kind,
        "parameters": [_NAME],
        "requestBody": {"required": True, "content": body},
        "responses": {"200": {"description": words, "content": answer}} | _refused(*_WHAT),
    }


def _get(words: str, *refused: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {
        "summary": words,
        "responses": {"200": {"description": words, "content": content}} | _refused("405", "421", *refused),
    }


def _map() -> dict[str, Any]:
    point = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    ring = {"type": "array", "items": point, "minItems": 4}
    polygons = {"type": "array", "items": {"type": "array", "items": ring}}
    shape = _object({"type": {"const": "MultiPolygon"}, "coordinates": polygons}, known=())
    label = {"type": ["string", "integer"], "description": "As keys of a chart's answer have it."}
    parts = {"type": {"const": "Feature"}, "properties": _object({"label": label}, known=()), "geometry": shape}
    fields: dict[str, Any] = {
        "type": {"const": "FeatureCollection"},
        "column": {"type": "string"},
        "aspect": {"type": "number", "description": "Times this, x is to scale with y."},
        "note": {"type": ["string", "null"], "description": "Values without an area, and areas of no value."},
        "features": {"type": "array", "items": _object(parts, known=())},
    }
    words = "Simplified boundaries of the values of a column that `maps` of the description lists."
    found = {"description": words, "content": {"application/geo+json": {"schema": _object(fields, known=())}}}
    parameters = [_NAME, _NAME | {"name": "column"}]
    return _get(words, "404") | {"parameters": parameters, "responses": {"200": found} | _refused("404", "405", "421")}


def _refused(*codes: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    return {code: {"description": _WHAT[code], "content": content} for code in codes}


def _refusal() -> dict[str, Any]:
    return _object({name: {"type": "string"} for name in ("error", "kind", "what_to_do")}, known=())


def _object(fields: dict[str, Any], known: tuple[str, ...] = _KNOWN) -> dict[str, Any]:
    whole = fields | {name: _SHARED[name] for name in known}
    return {"type": "object", "properties": whole, "required": list(whole)}
