"""Answers of the API in JSON, and those to what is refused."""

import math
from typing import Any

import msgspec
from starlette.responses import Response

from zoosim.core.blame import one_line
from zoosim.core.errors import StoreError, ZoosimError
from zoosim.serving.access import Refused, TooMany
from zoosim.serving.bodies import ErrorAnswer
from zoosim.serving.refusals import Busy, Conflict, NotFound
from zoosim.serving.requests import TooLarge

STATUS = {
    NotFound: 404,
    Conflict: 409,
    Refused: 401,
    Busy: 429,
    TooMany: 429,
    StoreError: 503,
}
"""The status of an answer to what was refused; 400 where the kind of error is not named."""

_encode = msgspec.json.Encoder().encode


def json_answer(answer: Any, status: int = 200) -> Response:
    """Return an answer as JSON."""
    return Response(_encode(answer), status, media_type="application/json")


def refusal(error: Exception) -> Response:
    """Return the answer to what was refused: one line, and when to come again where that helps."""
    if not isinstance(error, ZoosimError):
        return json_answer(ErrorAnswer(f"body: {one_line(error)}"), 400)
    status = 413 if isinstance(error, TooLarge) else STATUS.get(type(error), 400)
    response = json_answer(ErrorAnswer(str(error)), status)
    if status in (429, 503):
        response.headers["Retry-After"] = str(math.ceil(getattr(error, "seconds", 1.0)))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
