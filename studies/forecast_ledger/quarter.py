"""A quarter of a simulated shop: a service in simulated time, without HTTP, and forecasts of the models it tries."""

import asyncio
import heapq
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from zoosim.api.logs import evaluate
from zoosim.api.models import train
from zoosim.api.recommend import recommend
from zoosim.core.durations import DAY, HOUR, MICROSECONDS
from zoosim.playground.clock import SharedTime
from zoosim.playground.visitors import PER_DAY as OF_ALL
from zoosim.playground.visitors import RATE, Visitors, draw_visitors
from zoosim.playground.world import COUNTRIES, PRODUCTS, SmallShop, small_shop, teach
from zoosim.policies.model import model_digest
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody
from zoosim.serving.clock import Clock
from zoosim.serving.forecasts.kept import forecasts_of_file
from zoosim.serving.forecasts.report import scores_in
from zoosim.serving.forecasts.scores import Score
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Handler, Machine
from zoosim.serving.publishing import decode
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings

DAYS = 90
PER_DAY = 250
"""Visitors of a day; each comes once."""


class Attempt(NamedTuple):
    """A launch of a quarter: its number, and the policy of its model."""

    number: int
    policy: str


BAD = "bad"
LAUNCHES = {14: Attempt(0, "linucb"), 32: Attempt(1, "adaptive"), 56: Attempt(2, "linear"), 74: Attempt(3, BAD)}
"""On which days a new model is trained by the log so far, judged by it, and launched: in every other one by
`recommend`, which rehearses it, too. The last one is a mistake."""


CHAMPION_POLICY = "product-lin-ts"
PLAN = {
    "steps": [0.2, 0.5],
    "hours": 24.0,
    "most_days": 14.0,
    "metrics": [{"role": "success", "lift": 0.3}, {"role": "guardrail", "drop": 0.3}],
}
"""By which each is launched: with so few visitors nothing smaller can be told in two weeks."""

SHOCK = 42
"""The day on which visitors change their minds, in shops that are shocked."""

APPEAL = (0.5, 7.5)
"""How many times as much as 5% countries click on products."""

SETTINGS: dict[str, Any] = {"exploration": 0.2, "wait": 600.0, "snapshot": 86_400.0, "keep_days": 0}
LOOK = 6 * HOUR
"""Between two looks of the service at what is over, and at its launch."""

REHEARSAL: dict[str, Any] = {"seeds": 6, "horizon": 1_000, "jobs": 1, "progress": None}
FIRST = 1_800_000_000 * MICROSECONDS


class _Inline:
    """A worker that works at once: one thread is enough for a study."""

    def __init__(self, name: str, handle: Handler) -> None:
        self._handle = handle

    def put(self, item: Any) -> None:
        self._handle([item])

    def close(self) -> None:
        return None


class _Told:
    """A service that is told at once what its learner says."""

    wants_whole = False

    def __init__(self, service: Service) -> None:
        self._service = service

    def send(self, content: bytes) -> None:
        self._service.current.take(decode(content))

    def wants_stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        return None


class Quarter:
    """One shop, its service, and what happens on each day."""

    def __init__(self, seed: int, days: int, is_shocked: bool, folder: Path) -> None:
        """Draw the shop, and train the champion on a log of visitors who saw products at random.

        Args:
            seed: The shop.
            days: Days for which it is open.
            is_shocked: Whether visitors change their minds on day `SHOCK`.
            folder: Where everything is kept.
        """
        rng = np.random.default_rng((seed, 4))
        appeal = rng.uniform(*APPEAL, (len(COUNTRIES), len(PRODUCTS)))
        self._world: SmallShop = small_shop(_fewer(draw_visitors(seed, days)), appeal, seed)
        self._days = days
        self._seed = seed
        self._is_shocked = is_shocked
        self._folder = folder
        self._champion = teach(RATE * appeal, folder / "champion.zoosim", CHAMPION_POLICY, seed=seed)
        self._time = SharedTime(folder / "time")
        self._time.move_to(FIRST)
        self._clicks: list[tuple[int, str]] = []

    def scores(self) -> list[Score]:
        """Let the quarter pass, and return what was forecast and what came."""
        return asyncio.run(self._pass())

    async def _pass(self) -> list[Score]:
        clock = Clock(wall=self._time.now, steady=self._time.now)
        machine = Machine(clock=clock, start_worker=_Inline, random_bytes=np.random.default_rng((self._seed, 5)).bytes)
        settings = Settings(**{**SETTINGS, "store": f"sqlite:{self._folder / 'service'}"})
        service = Service(settings, self._champion, asyncio.get_running_loop(), machine)
        try:
            learner = LogLearner(LearnerJob(service.address, 1e9), _Told(service), machine)
            learner.begin()
            await self._look(service, learner)
            await self._open(service, learner)
            return scores_in(service.address)
        finally:
            service.close()

    async def _open(self, service: Service, learner: LogLearner) -> None:
        """Let visitors come, day by day."""
        arrivals = FIRST + np.round(self._world.visitors.hour * HOUR).astype(np.int64)
        number = 0
        for day in range(self._days):
            if self._is_shocked and day == SHOCK:
                self._world = self._world.shocked()
            if day in LAUNCHES:
                await self._launch(service, day, LAUNCHES[day])
            for look in range(FIRST + day * DAY, FIRST + (day + 1) * DAY, LOOK):
                while number < len(arrivals) and arrivals[number] < look + LOOK:
                    await self._click_until(service, int(arrivals[number]))
                    await self._serve(service, number, int(arrivals[number]))
                    number += 1
                await self._click_until(service, look + LOOK)
                self._time.move_to(look + LOOK)
                await self._look(service, learner)

    async def _look(self, service: Service, learner: LogLearner) -> None:
        """Let the service close what is over, the learner learn it, and the service go by what that says."""
        await service.tick()
        learner.step()
        await service.tick()

    async def _serve(self, service: Service, number: int, arrival: int) -> None:
        self._time.move_to(arrival)
        answer = await service.decide(
            DecideBody({**self._world.columns(number)}, decision_id=f"d{number}", visitor_id=f"v{number}")
        )
        if self._world.clicks(number, answer.shown[0].product):
            delay = round(self._world.delay[number] * MICROSECONDS)
            heapq.heappush(self._clicks, (arrival + delay, f"d{number}"))

    async def _click_until(self, service: Service, time: int) -> None:
        while self._clicks and self._clicks[0][0] <= time:
            moment, decision_id = heapq.heappop(self._clicks)
            self._time.move_to(moment)
            await service.give_feedback(decision_id, FeedbackBody({"click": 1.0}))

    async def _launch(self, service: Service, day: int, attempt: Attempt) -> None:
        """Launch a model with what is forecast of it, as its engineer would."""
        model = self._bad_model() if attempt.policy == BAD else self._forecast_model(str(service.folder), day, attempt)
        forecasts = forecasts_of_file(model, model_digest(model)) if attempt.policy != BAD else []
        body = DeploymentBody("launch", f"new{day}", service.keep_model(model), plan=PLAN, who="study")
        body.forecasts = [each.plain for each in forecasts]
        await service.deploy(body)

    def _forecast_model(self, log: str, day: int, attempt: Attempt) -> Path:
        """Return a model that was trained by the log so far, and judged by it."""
        model = self._folder / f"{day}.zoosim"
        if (attempt.number + self._seed) % 2:
            train(log, [attempt.policy], model, seed=self._seed, progress=None)
            evaluate(log, [str(model)], seed=self._seed, progress=None)
            return model
        # It judges what it trains, too.
        advice = recommend(log, policies=[attempt.policy], out=self._folder / f"advice-{day}", **REHEARSAL)
        return next(path for name, path in advice.models.items() if name.startswith(attempt.policy))

    def _bad_model(self) -> Path:
        """Return a model that learned what other countries like."""
        return teach(RATE * np.roll(self._world.appeal, 1, axis=0), self._folder / "bad.zoosim", seed=self._seed)


def _fewer(visitors: Visitors) -> Visitors:
    """Return so many of the visitors as come in small shops."""
    chosen = slice(None, None, OF_ALL // PER_DAY)
    return Visitors(*(each[chosen] for each in visitors))


def quarter_of(seed: int, days: int, is_shocked: bool) -> list[Score]:
    """Return what was forecast in a quarter, and what came.

    Args:
        seed: The shop.
        days: Its days.
        is_shocked: Whether visitors change their minds in it.
    """
    with TemporaryDirectory(prefix="zoosim-quarter-") as name:
        return Quarter(seed, days, is_shocked, Path(name)).scores()
