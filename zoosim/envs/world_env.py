"""Gymnasium environments as views of worlds: an episode is what happens to one visitor."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from zoosim.core.errors import ConfigError, OrderError
from zoosim.core.types import Context, FloatArray, frozen
from zoosim.worlds.base import Outcome, Truth, World

FLAT = np.float32
"""The type of flat observations, which Stable-Baselines3 and most other learners expect."""


class WorldEnv(gymnasium.Env[Any, Any]):
    """The visitors of a world: `reset()` brings the next one, and `step` serves who is waiting.

    A visitor who has gone ends the episode with the context of the last decision; in most worlds that is the only one.
    With `flat` an observation is the visitor's features alone, a vector `(d_u,)` of float32, from which libraries for
    reinforcement learning can learn; otherwise it is the whole `zoosim.Context`.
    """

    def __init__(
        self, context_space: spaces.Dict, action_space: spaces.Space[Any], user_field: str, flat: bool
    ) -> None:
        """Prepare an environment without a world.

        Args:
            context_space: Space of contexts.
            action_space: Space of actions.
            user_field: Field of a context that holds the visitor's features.
            flat: Whether an observation is these features alone.
        """
        user_space = context_space[user_field]
        assert isinstance(user_space, spaces.Box)
        self.observation_space = flat_space(user_space) if flat else context_space
        self.action_space = action_space
        self._user_field = user_field
        self._flat = flat
        self._world: World | None = None
        self._visit: Any = None
        self._step = -1
        self._waiting = False

    @abstractmethod
    def build(self, seed: int) -> World:
        """Return the world of a seed."""

    @abstractmethod
    def serve(self, world: Any, visit: Any, action: Any) -> tuple[Outcome, dict[str, Any]]:
        """Return what came of an action and the `info` of this step; raises `ActionError` for no action."""

    def observe(self, world: Any, visit: Any) -> Context:
        """Return the context of a visit in arrays of its own, as Gymnasium asks of observations."""
        context: Context = world.context(visit)
        return Context((name, frozen(value.copy()) if name != "user_id" else value) for name, value in context.items())

    def before(self, world: Any, visit: Any) -> dict[str, Any]:
        """Return the `info` of a visitor who has just come."""
        return {"step": visit.step}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Bring the next visitor; with a `seed`, the first visitor of that seed's world.

        The very first call without a seed draws one, which `np_random_seed` then tells. A visitor still waiting leaves
        without a choice. `options` are not used.
        """
        if seed is None and self._world is None:
            seed = draw_seed()
        super().reset(seed=seed)
        if seed is not None:
            self._world = self.build(seed)
            self._step = -1
        world = self.world
        self._step += 1
        self._visit = world.arrive(self._step)
        self._waiting = True
        return self.observation(world, self._visit), self.before(world, self._visit)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Serve the waiting visitor; raises `OrderError` or `ActionError`, which change nothing."""
        world = self.world
        if not self._waiting:
            raise OrderError("step: this visitor has been served already; call reset() for the next one")
        outcome, info = self.serve(world, self._visit, action)
        # Only now: an action that was refused leaves the visitor waiting.
        if outcome.next is not None:
            self._visit = outcome.next.visit
        self._waiting = not (outcome.ended or outcome.censored)
        return self.observation(world, self._visit), outcome.reward, outcome.ended, outcome.censored, info

    @property
    def world(self) -> Any:
        """The world behind the scenes, for analysis; raises `OrderError` before the first reset."""
        if self._world is None:
            raise OrderError("the shop is not open yet; call reset() first")
        return self._world

    @property
    def visit(self) -> Any:
        """The waiting visit behind the scenes, for analysis; raises `OrderError` where nobody waits."""
        if not self._waiting:
            raise OrderError("visit: nobody is waiting; call reset() first")
        return self._visit

    @property
    def ground_truth(self) -> Truth:
        """The truth about the current visit, for regret and tests; raises `OrderError` before a reset."""
        truth: Truth = self.world.truth(self._visit)
        return truth

    def observation(self, world: Any, visit: Any) -> Any:
        """Return what is observed of a visit: its context, or if `flat` the visitor's features."""
        if self._flat:
            return flattened(world.context(visit)[self._user_field])
        return self.observe(world, visit)


def flat_space(user_space: spaces.Box) -> spaces.Box:
    """Return the space of visitors' features as float32."""
    low: Any = user_space.low.astype(FLAT)
    high: Any = user_space.high.astype(FLAT)
    return spaces.Box(low, high, dtype=FLAT)


def flattened(features: FloatArray) -> Any:
    """Return visitors' features `(d_u,)` or `(N, d_u)` as float32."""
    return features.astype(FLAT)


def draw_seed() -> int:
    """Draw a seed from the system's entropy."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def checked_seeds(seed: int | Sequence[int | None] | None, n: int, *, fresh: bool) -> list[int | None]:
    """Return one checked seed for each of n environments, as `reset` of a vector environment takes them.

    Args:
        seed: The first of n seeds in a row, or one seed each; None goes on in the world that is there.
        n: The number of environments.
        fresh: Whether there are no worlds yet, so that seeds that are not given are drawn.

    Raises:
        ConfigError: there are not as many seeds as environments.
    """
    seeds: list[int | None]
    if seed is None:
        seeds = [None] * n
    else:
        seeds = [int(seed) + i for i in range(n)] if isinstance(seed, int | np.integer) else list(seed)
    if len(seeds) != n:
        raise ConfigError(f"seed: got {len(seeds)} seeds, expected {n}, one for each environment")
    for given in seeds:
        seeding.np_random(given)  # refuses what is no seed
    return [draw_seed() if given is None and fresh else given for given in seeds]
