"""Watch what requests hold that the schema of the model does not express, and let a model grow once there is enough.

The first schema grows in the same way as later ones: that of a service without a model expresses nothing.
"""

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from zoosim.core.blame import one_line
from zoosim.policies.retrieving import RetrievingPolicy
from zoosim.serving.arm_replica import origin_of
from zoosim.serving.endpoints.base import endpoint_class
from zoosim.serving.events import unpack_unexpressed
from zoosim.serving.fresh import FIRST_REQUESTS
from zoosim.serving.grown import grown_model

if TYPE_CHECKING:
    from zoosim.serving.service import Service

MOST_TRACKED = 1_000
"""Columns whose requests are counted; where there are more, the rarer half is forgotten."""

MOST_WANTED = 25_600
"""Further requests that are waited for at most: their number doubles with each look that lets nothing grow."""

REQUESTS = "requests"
"""Name of the count of requests while there is no schema."""

logger = logging.getLogger("zoosim.serving")


class Watch:
    """Counts the requests that the schema does not express, by column; of enough of them a new model grows."""

    def __init__(self, service: "Service", loop: asyncio.AbstractEventLoop) -> None:
        """Look at the log first where there is no schema: requests may be in it from before a restart."""
        self._service = service
        self._loop = loop
        self._counts: Counter[str] = Counter()
        self._due_at: dict[str, int] = {}
        self._complained: set[str] = set()
        self._looked_at = 0
        self._logged = 0
        self._task: asyncio.Task[None] | None = None
        self._begin()
        if service.is_warming_up:
            self._counts[REQUESTS] = FIRST_REQUESTS

    def note(self, packed: bytes) -> None:
        """Count a request that is in the log, by what the schema does not express of it."""
        self._check_model()
        if self._service.is_warming_up:
            self._counts[REQUESTS] += 1
            return
        if not packed:
            return
        self._service.counts["decisions with what the schema does not express"] += 1
        unexpressed = unpack_unexpressed(packed)
        names = {f"visitor: {name}" for visitor in unexpressed.visitors for name in visitor}
        names |= {f"product: {name}" for _, values in unexpressed.candidates for name in values}
        self._counts.update(names)
        if len(self._counts) > MOST_TRACKED:
            self._counts = Counter(dict(self._counts.most_common(MOST_TRACKED // 2)))
            self._due_at = {name: due for name, due in self._due_at.items() if name in self._counts}

    def columns(self) -> dict[str, int]:
        """Return how many requests the schema did not express, by column, the most frequent first."""
        return {name: count for name, count in self._counts.most_common() if name != REQUESTS}

    def grows(self) -> bool:
        """Return whether the model that decides may grow."""
        return not self._reason_against_growth()

    @property
    def is_looking(self) -> bool:
        """True if the log is being looked at."""
        return self._task is not None

    def tick(self) -> None:
        """Start to grow a model where there may be enough requests."""
        if self.is_looking:
            return
        self._check_model()
        due = [name for name, count in self._counts.items() if count >= self._due_at.get(name, self._first)]
        if self._service.is_warming_up and not due:
            # Other services may have logged requests, too: at most as many as there are new rows.
            in_log = self._logged + self._service.current.state - self._looked_at
            due = [REQUESTS] if in_log >= self._due_at.get(REQUESTS, self._first) else []
        if due:
            self._complain(due)
            if self._can_grow:
                self._task = self._loop.create_task(self._grow(due))
            else:
                self._wait_longer(due)

    def _wait_longer(self, due: list[str]) -> None:
        """Look again once there are twice as many requests as there had to be."""
        for name in due:
            threshold = self._due_at.get(name, self._first)
            # Requests went on while the log was looked at, so that one step may not be enough.
            while threshold <= self._counts[name]:
                threshold += min(threshold, MOST_WANTED)
            self._due_at[name] = threshold

    def _check_model(self) -> None:
        """Count anew for another model."""
        if self._service.start.origin != self._parent:
            self._begin()

    def _begin(self) -> None:
        """Begin to count for the model that decides."""
        self._parent = self._service.start.origin
        self._counts.clear()
        self._due_at.clear()
        self._complained.clear()
        self._can_grow = True
        origin = origin_of(self._service.model)
        # What grew often waits for longer: each time its policy learns anew.
        self._first = FIRST_REQUESTS * max(len(origin.ancestors) if origin else 0, 1)

    def _complain(self, due: list[str]) -> None:
        new = [name for name in due if name not in self._complained and name != REQUESTS]
        self._complained.update(new)
        if new:
            columns = ", ".join(f"{name} ({self._counts[name]:,} requests)" for name in new[:10])
            logger.warning("requests hold what the schema does not express: %s", columns)
        reason = self._reason_against_growth()
        if reason and self._can_grow:
            self._can_grow = False
            logger.warning("the schema does not grow: %s", reason)

    def _reason_against_growth(self) -> str:
        """Say why the model that decides never grows; empty where it may."""
        service = self._service
        if service.is_warming_up:
            return ""
        if len(service.current.deciding) > 1:
            return "arms have one schema, so that their decisions stand in one log"
        if not service.settings.grow:
            return "the setting grow is false"
        if not service.model.policy.learns_from_rewards or not endpoint_class(service.model).schema_grows:
            return "the policy learns from logs alone; train another on a new log"
        if isinstance(service.model.policy, RetrievingPolicy):
            return "its policy retrieves, from products that would all have to be encoded anew; train another model"
        return ""

    async def _grow(self, due: list[str]) -> None:
        service = self._service
        parent = self._parent
        self._looked_at = service.current.state
        is_first = service.is_warming_up
        threshold = self._due_at.get(REQUESTS, self._first) if is_first else 1
        if is_first:
            # Before the log is read: requests that come meanwhile count for the next look.
            self._counts[REQUESTS] = 0
        waits_longer = True
        try:
            digest, news, requests = await asyncio.to_thread(self._kept_growth, parent, threshold)
            if is_first and requests < threshold:
                self._logged = requests
                self._counts[REQUESTS] += requests
                waits_longer = False  # for the rest alone
            elif digest:
                await service.switch_model(digest, instead_of=parent)
                # Between the look and the switch any service of the log may have started another model, which this
                # growth knows nothing of.
                if service.start.model == digest:  # else arms, or another model, began meanwhile
                    logger.warning("the schema grew: %s", news or "requests have no columns")
                    waits_longer = False
            elif news:
                logger.warning("the schema does not grow by %s; train another model on a log that has them", news)
        except Exception as error:  # whatever requests hold, the service goes on as it is
            logger.warning("the schema does not grow: %s", one_line(error))
            if is_first:
                self._counts[REQUESTS] += threshold  # those that were read are of no use: more may be
        finally:
            if waits_longer:
                self._wait_longer(due)
            self._task = None

    def _kept_growth(self, parent: str, wanted: int) -> tuple[str, str, int]:
        """Return the digest of the model that grew, which is kept, empty where none did; news and requests as there."""
        growth = grown_model(self._service.address, parent, wanted)
        # The model itself goes here: it may take hundreds of megabytes, and is loaded again to decide.
        new_digest = "" if growth.model is None else self._service.keep(growth.model)
        return new_digest, growth.news, growth.requests
