"""Refusals of requests, and the outcome of those that a service takes."""

from typing import NamedTuple

from zoosim.core.errors import ZoosimError


class Busy(ZoosimError):
    """More requests wait than the service takes; the same request may succeed in a second."""


class Conflict(ZoosimError):
    """An id that was used for something else."""


class NotFound(ZoosimError):
    """An id of nothing that the service knows."""


class Acknowledgement(NamedTuple):
    """Outcome of feedback or of an activation: `accepted`, `duplicate` or `late`."""

    status: str
