"""Clients of a simulated day: what visitors ask of services, give up on, and send again; and what they are answered."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

from tests.serving.shop import COUNTRIES, PRODUCTS
from tests.simulation.faults import Fault
from tests.simulation.hosts import OUTSIDE_CONTEXT, Host, World
from zoosim.core.errors import StoreError, ZoosimError
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.events import CHAMPION
from zoosim.serving.refusals import Busy
from zoosim.serving.service import Service

TIMEOUT = 5.0
"""Seconds after which a client gives up."""

SECONDS_TO_AVOID = 10.0
"""Seconds for which clients turn to other services after one has let them wait."""

VISITORS = 200
"""Visitors who may come."""

FEEDBACK_CHANCE = 1.0 / 3.0


class Operation(NamedTuple):
    """What a client asked of a service, and what came of it.

    Attributes:
        kind: What it asked: "decide", "feedback", "values", "activate", "product", "deploy" and the like.
        id: The id of the decision or of the change, or the name of the product.
        body: What it sent.
        host: The name of the service's process.
        start, end: When it asked, and when it had the answer.
        answer: The answer, or the refusal; None where it gave up.
    """

    kind: str
    id: str
    body: Any
    host: str
    start: float
    end: float
    answer: Any


class Clients:
    """All who ask the services of a day.

    Attributes:
        history: What they asked, and what they were answered.
        is_feedback_broken: Whether nobody says what decisions earned.
        click_chances: How likely clicks are on what the champion decided, and on what others did.
        asks_for_new: Whether visitors ask for products that came with requests; arms that began later know none.
    """

    def __init__(self, world: World, hosts: list[Host], wait: float, rng: Random) -> None:
        """Begin with nobody.

        Args:
            world: What all machines share.
            hosts: The machines.
            wait: Seconds that decisions wait for feedback.
            rng: Who comes, and what they do.
        """
        self.history: list[Operation] = []
        self.is_feedback_broken = False
        self.asks_for_new = False
        self.click_chances = (0.5, 0.5)
        self._new_products: set[str] = set()
        self._loop = world.loop
        self._faults = world.faults
        self._violations = world.violations
        self._hosts = hosts
        self._wait = wait
        self._rng = rng
        self._visits = 0
        self._avoided_until: dict[str, float] = {}

    async def visit(self) -> None:
        """Come once: be decided for, and say what it earned."""
        rng = self._rng
        decision_id = f"visit {self._visits}"
        self._visits += 1
        body = self._body(decision_id)
        if body.defer and rng.random() < 0.3:
            self._faults.note(Fault.NEVER_ACTIVATED)
        is_activated = not body.defer or rng.random() < 0.7
        answer = await self._insist_on_decision(body)
        if self._faults.happens(Fault.SAME_ID_ELSEWHERE, 0.03):
            await self._decide(self.host(), body)
        if self._faults.happens(Fault.OTHER_BODY, 0.03):
            await self._decide(self.host(), self._body(decision_id))
        if answer is None or isinstance(answer, Exception):
            return
        if body.defer and is_activated:
            await asyncio.sleep(rng.uniform(0.0, self._wait / 2))
            await self.insist("activate", decision_id, None, lambda service: service.activate(decision_id))
        if rng.random() < FEEDBACK_CHANCE and not self.is_feedback_broken:
            chance = self.click_chances[answer.arm not in ("", CHAMPION)]
            await self._give_feedback(decision_id, [shown.product for shown in answer.shown], chance)

    async def _insist_on_decision(self, body: DecideBody) -> Any:
        if self._faults.happens(Fault.SAME_ID_AT_ONCE, 0.03):
            answers = await asyncio.gather(*(self._decide(host, body) for host in (self.host(), self.host())))
            answer = answers[0]
        else:
            answer = await self._decide(self.host(), body)
        for _ in range(3):
            if not may_be_tried_again(answer):
                break
            await asyncio.sleep(pause_before_a_try(self._rng))
            answer = await self._decide(self.host(), body)
        return answer

    def _body(self, decision_id: str) -> DecideBody:
        rng = self._rng
        candidates: list[Any] = [*rng.sample(PRODUCTS, rng.randrange(3, 6))]
        if self._faults.happens(Fault.PRODUCT_NEW, 0.02):
            product = f"q{rng.randrange(5)}"
            self._new_products.add(product)
            candidates.append({"id": product, "category": f"c{rng.randrange(3)}"})
        elif self.asks_for_new and self._new_products and rng.random() < 0.5:
            candidates = sorted(self._new_products)
        visitor = f"v{rng.randrange(VISITORS)}"
        if self._faults.happens(Fault.HEAVY_VISITOR, 0.1):
            visitor = "heavy"
        return DecideBody(
            visitor={"country": rng.choice(COUNTRIES)},
            candidates=candidates if rng.random() < 0.9 else None,
            count=rng.randrange(1, 3),
            decision_id=decision_id,
            visitor_id=visitor if rng.random() < 0.9 else "",
            defer=rng.random() < 0.15,
        )

    async def _decide(self, host: Host, body: DecideBody) -> Any:
        assert body.decision_id is not None
        return await self.ask(host, "decide", body.decision_id, body, lambda service: service.decide(body))

    async def _give_feedback(self, decision_id: str, shown: list[str], chance: float) -> None:
        rng = self._rng
        seconds = rng.expovariate(4.0 / self._wait)
        if self._faults.happens(Fault.FEEDBACK_LATE, 0.1):
            seconds = self._wait * rng.uniform(0.9, 1.3)
        await asyncio.sleep(seconds)
        if self._faults.happens(Fault.FEEDBACK_UNKNOWN, 0.02):
            decision_id = "unknown"
        if rng.random() < 0.1:
            await self._give_values(decision_id)
            return
        product = rng.choice(shown)
        body = FeedbackBody({"click": float(rng.random() < chance)}, product, "first" if rng.random() < 0.8 else None)
        await self._send_feedback(decision_id, body)
        if self._faults.happens(Fault.FEEDBACK_REPEATED, 0.1):
            await self._send_feedback(decision_id, body)
        if rng.random() < 0.3:
            await asyncio.sleep(rng.expovariate(1.0 / 3.0))
            await self._send_feedback(decision_id, FeedbackBody({"click": float(rng.randrange(2))}, product, "second"))
        if self._faults.happens(Fault.FEEDBACK_CHANGED, 0.05):
            other = FeedbackBody({"click": 1.0 - body.rewards["click"]}, product, "first")
            await self._send_feedback(decision_id, other)

    async def _give_values(self, decision_id: str) -> None:
        values = {0: float(self._rng.randrange(2))}

        async def give(service: Service) -> str:
            await service.give_value(decision_id, values, "values")
            return "done"

        await self.insist("values", decision_id, values, give)

    async def _send_feedback(self, decision_id: str, body: FeedbackBody) -> None:
        await self.insist("feedback", decision_id, body, lambda service: service.give_feedback(decision_id, body))

    async def insist(self, kind: str, name: str, body: Any, operation: Callable[[Service], Awaitable[Any]]) -> Any:
        """Ask for something until it is answered, of whichever service."""
        for _ in range(4):
            answer = await self.ask(self.host(), kind, name, body, operation)
            if not may_be_tried_again(answer):
                return answer
            await asyncio.sleep(pause_before_a_try(self._rng))
        return answer

    async def ask(
        self, host: Host, kind: str, name: str, body: Any, operation: Callable[[Service], Awaitable[Any]]
    ) -> Any:
        """Send a request to a service, and note what comes of it."""
        loop = self._loop
        start = loop.time()
        process = host.process.name
        answered = loop.create_future()
        loop.call_later(loop.delay(), self._receive, host, operation, answered, context=host.context)
        giving_up = loop.call_later(TIMEOUT, succeed, answered, GAVE_UP)
        answer = await answered
        giving_up.cancel()
        if answer is GAVE_UP:
            self._faults.note(Fault.GAVE_UP)
            self._avoided_until[host.name] = loop.time() + SECONDS_TO_AVOID
            answer = None
        self.history.append(Operation(kind, name, body, process, start, loop.time(), answer))
        is_expected = isinstance(answer, ZoosimError) and str(answer) not in ("", "None")
        if isinstance(answer, Exception) and not is_expected:
            self._violations.append(f"{kind} {name} of {process}: {answer!r}")
        return answer

    def _receive(
        self, host: Host, operation: Callable[[Service], Awaitable[Any]], answered: "asyncio.Future[Any]"
    ) -> None:
        task = self._loop.create_task(self._serve(host, operation, answered))
        host.running.add(task)
        task.add_done_callback(host.running.discard)

    async def _serve(
        self, host: Host, operation: Callable[[Service], Awaitable[Any]], answered: "asyncio.Future[Any]"
    ) -> None:
        answer: Any
        if host.service is None or not host.is_ready:
            answer = StoreError("nobody listens")
        else:
            try:
                host.service.check_room()
                answer = await operation(host.service)
            except Exception as error:
                answer = error
        self._loop.call_later(self._loop.delay(), succeed, answered, answer, context=OUTSIDE_CONTEXT)

    def host(self) -> Host:
        """Return a machine that is asked, one that seems to be up if there is one."""
        now = self._loop.time()
        ready = [host for host in self._hosts if host.is_ready and now >= self._avoided_until.get(host.name, 0.0)]
        return self._rng.choice(ready or self._hosts)


GAVE_UP = object()


def pause_before_a_try(rng: Random) -> float:
    """Return for how many seconds a client waits until it tries again."""
    return rng.expovariate(0.5)


def may_be_tried_again(answer: Any) -> bool:
    """Return whether a request may be sent again: nobody answered, or not for now."""
    return answer is None or isinstance(answer, StoreError | Busy)


def succeed(done: "asyncio.Future[Any]", result: Any) -> None:
    """Give a future its result, if it waits for one."""
    if not done.done():
        done.set_result(result)
