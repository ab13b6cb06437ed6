"""The visitors of a simulated shop, who come to a running service over HTTP and click some time later."""

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import uvloop

from zoosim.core.durations import MICROSECONDS
from zoosim.playground.clock import SharedTime
from zoosim.playground.connection import Connection
from zoosim.playground.world import SmallShop
from zoosim.serving.client import ServiceError
from zoosim.serving.events import CHAMPION

CONNECTIONS = 16
"""Requests that are on their way at once."""

HOUR = 3_600 * MICROSECONDS


class Visit(NamedTuple):
    """What became of a visitor: their number, when they came, which arm decided, what it showed, and the click."""

    visitor: int
    time: int
    arm: str
    product: str
    is_clicked: bool


class _Arrival(NamedTuple):
    """A visitor on the way: when they come, and their number."""

    time: int
    visitor: int


class _Click(NamedTuple):
    """A click on its way: when it comes, and the decision that it is for."""

    time: int
    decision_id: str


# All that happens is one stream in the order of its time: visitors as the world has them, and their clicks as they fall
# due. Whoever has a free connection takes the next event and moves the service's time to it. So time waits for
# visitors, never the other way round, and an hour has as many of them as the world says, however busy the machine is.
class Shop:
    """A shop that is open; a program, or a person, does to it what happens to shops.

    Attributes:
        world: Its visitors and what pleases them.
        traffic: How many times as many visitors come as the world has in an hour.
        visits: What became of visitors, in the order of the answers.
        refused: How often each reason kept a visitor from an answer.
    """

    def __init__(
        self,
        world: SmallShop,
        url: str,
        now: SharedTime,
        *,
        first: int = 0,
        speed: float = math.inf,
        connections: int = CONNECTIONS,
    ) -> None:
        """Get ready to open at the time that the service has.

        Args:
            world: Its visitors and what pleases them.
            url: Where the service answers.
            now: The time of the service.
            first: The number of the first visitor; a service that has met visitors knows them by their numbers.
            speed: How many simulated seconds may pass in one of the world's; by default as many as can be served.
            connections: Requests that may be on their way at once.
        """
        self.world = world
        self.traffic = 1.0
        self.visits: list[Visit] = []
        self.refused: Counter[str] = Counter()
        self._url = url
        self._now = now
        self._speed = speed
        self._connections = connections
        self._opened_at = now.now()
        self._number = first
        self._hour = float(world.visitors.hour[first - 1]) if first else 0.0
        self._arrival = self._opened_at
        self._clicks: list[_Click] = []
        self._is_broken = False
        self._is_open = False

    @property
    def hours(self) -> float:
        """The simulated hours since it was opened first."""
        return (self._now.now() - self._opened_at) / HOUR

    @property
    def clicks_on_their_way(self) -> int:
        """The clicks of which the service was not told yet."""
        return len(self._clicks)

    def shock(self) -> None:
        """Let visitors change their minds about products."""
        self.world = self.world.shocked()

    def break_pixel(self) -> None:
        """Lose all clicks from now on."""
        self._is_broken = True

    def mend_pixel(self) -> None:
        """Tell the service of clicks again."""
        self._is_broken = False

    def close(self) -> None:
        """Let nobody in any more."""
        self._is_open = False

    def visit(self, is_over: Callable[["Shop"], bool] = lambda shop: False) -> None:
        """Let visitors come, in an event loop of its own; see `open`."""
        uvloop.run(self.open(is_over))

    async def open(self, is_over: Callable[["Shop"], bool] = lambda shop: False) -> None:
        """Let visitors come until the shop is closed, the world has no more of them, or something has happened.

        Args:
            is_over: Asked before each visitor whether no further one is let in.
        """
        self._is_open = True
        connections = [Connection(self._url) for _ in range(self._connections)]
        try:
            await asyncio.gather(*(self._work(connection, is_over) for connection in connections))
        finally:
            for connection in connections:
                await connection.close()

    async def _work(self, connection: Connection, is_over: Callable[["Shop"], bool]) -> None:
        while self._is_open:
            event = None if is_over(self) else self._next_event()
            if event is None:
                self.close()
                return
            await self._pass_time(event.time)
            try:
                if isinstance(event, _Click):
                    await self._click(connection, event)
                else:
                    await self._serve(connection, event)
            except ServiceError as error:
                self.refused[str(error)] += 1

    def _next_event(self) -> _Arrival | _Click | None:
        """Return the next visitor or click, whichever comes first; None after the last one."""
        hours = self.world.visitors.hour
        if self._number == len(hours):
            return heapq.heappop(self._clicks) if self._clicks else None
        arrival = self._arrival + round((hours[self._number] - self._hour) * HOUR / self.traffic)
        if self._clicks and self._clicks[0].time <= arrival:
            return heapq.heappop(self._clicks)
        number = self._number
        self._number += 1
        self._hour = float(hours[number])
        self._arrival = arrival
        return _Arrival(arrival, number)

    async def _pass_time(self, until: int) -> None:
        """Let time pass up to an event, no faster than it may."""
        if math.isfinite(self._speed):
            await asyncio.sleep((until - self._now.now()) / MICROSECONDS / self._speed)
        self._now.move_to(until)

    async def _serve(self, connection: Connection, arrival: _Arrival) -> None:
        number = arrival.visitor
        request = {"visitor": self.world.columns(number), "decision_id": f"d{number}", "visitor_id": f"v{number}"}
        answer = await connection.post("/v1/decisions", request)
        product = answer["shown"][0]["product"]
        is_clicked = self.world.clicks(number, product)
        self.visits.append(Visit(number, arrival.time, answer.get("arm", CHAMPION), product, is_clicked))
        if is_clicked and not self._is_broken:
            delay = round(self.world.delay[number] * MICROSECONDS)
            heapq.heappush(self._clicks, _Click(arrival.time + delay, answer["decision_id"]))

    async def _click(self, connection: Connection, click: _Click) -> None:
        if not self._is_broken:
            feedback = {"rewards": {"click": 1.0}, "feedback_id": f"click {click.decision_id}"}
            await connection.post(f"/v1/decisions/{click.decision_id}/feedback", feedback)
