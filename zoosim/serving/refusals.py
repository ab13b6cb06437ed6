"""Why a service refuses a request, and what came of one that it took."""

from typing import NamedTuple

from zoosim.core.errors import ZoosimError


class Busy(ZoosimError):
    """More requests wait than the service takes; the same request may succeed in a second."""


class Conflict(ZoosimError):
    """An id that was used for something else."""


class NotFound(ZoosimError):
    """An id of nothing that the service knows."""


class Outcome(NamedTuple):
    """What came of feedback: `accepted`, `duplicate` or `late`."""

    status: str
