"""Watch the first requests of a service without a model, and let a policy grow once there are enough of them."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoosim.policies.model import ID
from zoosim.serving.bodies import DecideBody, SlotBody
from zoosim.serving.events import RawRequest, pack_raw
from zoosim.serving.fresh import FIRST_REQUESTS, first_requests, grown_model
from zoosim.serving.ids import check_columns, product_id
from zoosim.serving.store.address import Address, open_store

if TYPE_CHECKING:
    from zoosim.serving.service import Service

logger = logging.getLogger("zoosim.serving")


class Growth:
    """Counts the first requests of a service; from enough of them it infers a schema, and switches to a new policy."""

    def __init__(self, service: "Service", loop: asyncio.AbstractEventLoop) -> None:
        """Look at the log first: requests may be in it from before a restart."""
        self._service = service
        self._loop = loop
        self._wanted = self._requests = FIRST_REQUESTS
        self._logged = 0
        self._looked_at = 0
        self._task: asyncio.Task[None] | None = None

    def note_request(self) -> None:
        """Count one of the first requests, which is in the log."""
        self._requests += 1

    def tick(self) -> None:
        """Grow a policy where there may be enough requests."""
        if self._task is not None or not self._service.is_warming_up:
            return
        # Other services may have logged requests, too: at most as many as there are new rows.
        in_log = self._logged + self._service.current.state - self._looked_at
        if max(self._requests, in_log) >= self._wanted:
            self._task = self._loop.create_task(self._grow())

    async def _grow(self) -> None:
        service = self._service
        warm_up = service.start.model
        self._requests = 0
        self._looked_at = service.current.state
        try:
            requests = await asyncio.to_thread(_logged_requests, service.address, warm_up, self._wanted)
            self._logged = len(requests)
            self._requests += len(requests)
            if len(requests) == self._wanted:
                grown = await asyncio.to_thread(lambda: service.keep(grown_model(requests, warm_up)))
                await service.switch_model(grown, instead_of=warm_up)
        except Exception as error:  # whatever requests hold, the service goes on as it is
            if self._requests >= self._wanted:  # they were read, and are of no use: more may be
                self._wanted *= 2
            logger.warning("no schema from the first requests: %s; the next try takes %d", error, self._wanted)
        finally:
            self._task = None


def packed_request(body: DecideBody, slots: Sequence[SlotBody]) -> bytes:
    """Return a request as it came, packed: its schema comes later. Raises `PolicyError` for what is not to be kept."""
    visitors = [{**body.visitor, **slot.visitor} for slot in slots] or [body.visitor]
    for visitor in visitors:
        check_columns(visitor.keys(), visitor.values())
    candidates = []
    for candidate in body.candidates or []:
        columns = candidate if isinstance(candidate, dict) else {}
        check_columns(columns.keys(), columns.values())
        candidates.append((product_id(candidate), {name: value for name, value in columns.items() if name != ID}))
    return pack_raw(RawRequest(visitors, candidates))


def _logged_requests(address: Address, model: str, most: int) -> list[RawRequest]:
    store = open_store(address, read_only=True)
    try:
        return first_requests(store, model, most)
    finally:
        store.close()
