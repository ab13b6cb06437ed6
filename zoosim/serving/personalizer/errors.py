"""Errors as the clients of Personalizer read them: a status, a code that programs know, and a message for people."""

import math

import msgspec
from starlette.responses import Response

from zoosim.core.errors import ConfigError, DataError, StoreError, ZoosimError
from zoosim.serving.access import Refused, TooMany
from zoosim.serving.refusals import Busy, Conflict, NotFound
from zoosim.serving.requests import TooLarge

ACCESS_DENIED = "Access denied due to invalid subscription key. Make sure to provide a valid key for this service."
TOO_MANY = "429"
"""The code of what is refused for now. Overload is never 503, which some clients repeat for two minutes."""


class PersonalizerError(ZoosimError):
    """Refusal of a request: its code, message and status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def missing(what: str, code: str = "ResourceNotFound") -> PersonalizerError:
    """Return the error for what is not there."""
    return PersonalizerError(code, what, 404)


def refusal(error: Exception, code: str) -> Response:
    """Return the answer to what went wrong.

    Args:
        error: What went wrong.
        code: The code of what the request asks for that is not right.
    """
    if isinstance(error, PersonalizerError):
        return error_response(error.status, error.code, str(error))
    if isinstance(error, Refused):
        return error_response(401, "401", ACCESS_DENIED)
    if isinstance(error, Busy | TooMany | StoreError):
        response = error_response(429, TOO_MANY, str(error))
        response.headers["Retry-After"] = str(math.ceil(getattr(error, "seconds", 1.0)))
        return response
    if isinstance(error, Conflict):
        return error_response(409, "ModelRankingError", str(error))
    if isinstance(error, NotFound):
        return error_response(404, "ResourceNotFound", str(error))
    if isinstance(error, TooLarge):
        return error_response(400, "PayloadSizeExceeded", str(error))
    if isinstance(error, msgspec.ValidationError | ConfigError | DataError | ZoosimError):
        return error_response(400, code, str(error))
    if isinstance(error, msgspec.MsgspecError | RecursionError | UnicodeDecodeError):
        return error_response(400, "BadRequest", f"body: {error}")
    return error_response(500, "InternalServerError", "The service failed; its log says why.")


def error_response(status: int, code: str, message: str) -> Response:
    """Return an answer with an error body."""
    return json_response({"error": {"code": code, "message": message}}, status)


def json_response(content: object, status: int = 200) -> Response:
    """Return an answer with a JSON body."""
    return Response(msgspec.json.encode(content), status, media_type="application/json; charset=utf-8")
