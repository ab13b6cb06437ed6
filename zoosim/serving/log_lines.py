"""Log records of a service on its standard error: each a line of JSON, without personal data."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

from zoosim.serving.tracing import trace_fields

LOOP: ContextVar[str] = ContextVar("loop", default="")
"""Name of the loop for which something is done; empty in a service that has one."""


class _JsonFormatter(logging.Formatter):
    """A record as JSON: when, how bad, which process, of which loop, what, and as which part of which trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "process": record.processName,
            **({"loop": loop} if (loop := LOOP.get()) else {}),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
            **trace_fields(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write_json_lines() -> None:
    """Write all log records of this process as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("zoosim.serving").setLevel(logging.INFO)
