"""Annotations: what happened to a shop, as somebody tells its service, such as a campaign or an outage."""

from collections.abc import Callable
from datetime import datetime

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.serving.bodies import AnnotationBody
from zoosim.serving.clock import Clock
from zoosim.serving.events import Annotation, Kind, NewRow, annotation_key, pack
from zoosim.serving.refusals import Acknowledgement
from zoosim.serving.writer import Writer

EARLY = 60.0
"""Seconds by which the clock of who annotates may be ahead."""


class Annotations:
    """Logs what happened; the console marks it."""

    def __init__(self, clock: Clock, writer: Writer, random_id: Callable[[], str]) -> None:
        """Log nothing yet; `random_id` returns a new id for what comes without one."""
        self._clock = clock
        self._writer = writer
        self._random_id = random_id

    async def add(self, body: AnnotationBody) -> Acknowledgement:
        """Log what happened; "duplicate" where its id is logged already.

        Raises:
            ConfigError: its time is none, or has yet to come.
            StoreError: the log cannot be written.
        """
        now = self._clock.now()
        time = _time_of(body.time, now) if body.time else now
        key = annotation_key(body.annotation_id or self._random_id())
        row = NewRow(now, Kind.ANNOTATION, key, pack(Annotation(time, body.what, body.who, body.why)))
        (position,) = await self._writer.append([row], durable=True)
        return Acknowledgement("duplicate" if position is None else "accepted")


def _time_of(text: str, now: int) -> int:
    """Return a time in microseconds since 1970; raises `ConfigError` for what is none."""
    expected = "a time that has come, with its zone, such as 2026-11-29T14:05:00+00:00"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigError(f"time: got {shown(text)}, expected {expected}")
    time = round(moment.timestamp() * MICROSECONDS)
    if not 0 <= time <= now + EARLY * MICROSECONDS:
        raise ConfigError(f"time: got {shown(text)}, expected {expected}")
    return time
