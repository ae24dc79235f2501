"""Refusals as JSON: the reason, the remedy, and a keyword that programs can tell apart. Never a traceback."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import SfumatoError
from sfumato.plain_text import printable

STATUS = {
    "malformed": 400,
    "not_found": 404,
    "method": 405,
    "too_long": 413,
    "media_type": 415,
    "wrong_host": 421,
    "invalid": 422,
    "unanswerable": 422,
    "too_large": 422,
    "internal": 500,
    "busy": 503,
    "too_slow": 503,
}
_OTHERWISE = "read /api/openapi.json, which says what can be asked"
_BY_STATUS = {
    404: ("not_found", "there is nothing at this address", "GET /api/releases lists what there is"),
    405: ("method", "this address takes no such request", "use a method that the header Allow lists"),
    500: ("internal", "this went wrong on the server's side", "ask another way, and report it"),
}


class Refusal(Exception):
    """A question that is not answered. kind: one of STATUS."""

    def __init__(self, kind: str, error: str, what_to_do: str = _OTHERWISE) -> None:
        super().__init__(error)
        self.kind, self.error, self.what_to_do = kind, error, what_to_do

    @classmethod
    def of(cls, error: SfumatoError) -> Refusal:
        """Make a refusal of a release's error, its remedy split off where it names one.

        >>> Refusal.of(SfumatoError("no column 'x'; there are a, b")).what_to_do
        'there are a, b'
        """
        what, _, remedy = str(error).partition("; ")
        return cls("unanswerable", what, remedy or "see which columns there are, and ask another way")

    def response(self, **headers: str) -> Response:
        """The refusal as it goes to the client."""
        if self.kind in ("busy", "too_slow"):
            headers.setdefault("Retry-After", "5")
        said = {"error": printable(self.error), "kind": self.kind, "what_to_do": printable(self.what_to_do)}
        return Response(as_json(said), STATUS[self.kind], headers, "application/json")


def as_json(value: Any) -> bytes:
    """Strict JSON in ASCII, so that nothing in it steers a terminal."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


async def refuse(request: Request, error: Exception) -> Response:
    """Answer with a refusal."""
    if isinstance(error, SfumatoError):
        error = Refusal.of(error)
    if isinstance(error, Refusal):
        return error.response()
    status = error.status_code if isinstance(error, HTTPException) else 500
    kind, what, remedy = _BY_STATUS.get(status, ("malformed", "this request makes no sense here", _OTHERWISE))
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return Refusal(kind, what, remedy).response(**headers)
