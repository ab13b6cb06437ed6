"""The shop as a Gymnasium environment: a visitor comes, one product is shown, a click or none.

env = gymnasium.make("zoosim/Recommendation-v0", config={"n_products": 100})
context, info = env.reset(seed=7)
context, reward, terminated, truncated, info = env.step(policy.select_action(context))
context, info = env.reset()  # the next visitor
"""

import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces

from zoosim.core.config import EnvConfig, build
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.core.types import BoolArray, Context, FloatArray, frozen
from zoosim.worlds.recommendation.world import NOISE_SD, build_world, resolve_shocks
from zoosim.worlds.truth import GroundTruth
from zoosim.worlds.world import Offer, Visits, World, earn

CHUNK = 1_000
NOISE_BOUND = 20 * NOISE_SD
"""No draw of a normal in double precision lies 20 standard deviations out."""


class RecommendationEnv(gymnasium.Env[dict[str, Any], SupportsIndex]):
    """Show each visitor of a shop one of K products; the reward is 1.0 for a click, else 0.0.

    One visit is one episode: `reset()` brings the next visitor, and `step` ends the visit with its own context. Visits
    never run out; shocks count them from 0. An observation is a `zoosim.Context`, read-only and a copy of its own:
    `user_id`, `user (d_u,)`, `product_ids (K,)`, `products (K, d_p)`, `available (K,)`. An action is an index into
    `product_ids` where `available` is true; `action_space.sample(mask=context.available.astype("int8"))` draws one.
    """

    def __init__(self, config: EnvConfig | Mapping[str, Any] | None = None, steps: int = 40_000) -> None:
        """Prepare the shop that `config` describes, by default 50 products without shocks; raises `ConfigError`.

        `steps` is the horizon over which `random_shocks` are spread; nothing else depends on it.
        """
        self._config = read_config(config, steps)
        self.observation_space, self.action_space = make_spaces(self._config)
        self._stream: VisitStream | None = None
        self._waiting = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Context, dict[str, Any]]:
        """Bring the next visitor; with a `seed`, the first visitor of that seed's world.

        The very first call without a seed draws one, which `np_random_seed` then tells. A visitor still waiting for a
        choice leaves without one. `info` holds `step`, the number of the visit; `options` are not used.
        """
        if seed is None and self._stream is None:
            seed = draw_seed()
        super().reset(seed=seed)
        if seed is not None:
            self._stream = VisitStream(build_world(self._config, seed=seed))
        stream = self._started()
        stream.advance()
        self._waiting = True
        return stream.context(), {"step": stream.step}

    def step(self, action: SupportsIndex) -> tuple[Context, float, bool, bool, dict[str, Any]]:
        """Show the waiting visitor product `action`; raises `OrderError` or `ActionError`, which change nothing.

        `info` holds `step` and, in `feedback`, what a shop would log: `shown (1,)` product ids and `clicks (1,)`.
        """
        stream = self._started()
        if not self._waiting:
            raise OrderError("step: this visitor has had a product already; call reset() for the next one")
        chosen = check_action(action, stream.available)
        reward = stream.click(chosen)
        self._waiting = False
        feedback = {"shown": stream.world.offered(stream.step).ids[[chosen]], "clicks": np.array([reward > 0])}
        return stream.context(), reward, True, False, {"step": stream.step, "feedback": feedback}

    @property
    def world(self) -> World:
        """Return the world behind the scenes, for analysis; raises `OrderError` before the first reset."""
        return self._started().world

    @property
    def ground_truth(self) -> GroundTruth:
        """Return the truth about the current visit, for regret and tests; raises `OrderError` before the first reset.

        Take it anew at each visit: it does not move on with the environment.
        """
        return GroundTruth(self.world, self._started().step)

    def _started(self) -> "VisitStream":
        if self._stream is None:
            raise OrderError("the shop is not open yet; call reset() first")
        return self._stream


class VisitStream:
    """The visits of a world, one after another without end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.step = -1
        self._visits: Visits = world.visits(0, 0)

    def advance(self) -> bool:
        """Go to the next visit; tell whether a new chunk of visits, so perhaps another availability, begins with it."""
        self.step += 1
        fresh = self.step >= self._visits.start + len(self._visits.visitors)
        if fresh:
            later = [stretch.start for stretch in self.world.stretches if stretch.start > self.step]
            self._visits = self.world.visits(self.step, min([self.step + CHUNK, *later]))
        return fresh

    @property
    def user_id(self) -> int:
        """Return who comes."""
        return int(self._visits.visitors[self.step - self._visits.start])

    @property
    def user(self) -> FloatArray:
        """Return the features `(d_u,)` of who comes."""
        features: FloatArray = self.world.users[self.user_id]
        return features

    @property
    def offer(self) -> Offer:
        """Return the candidates of this visit."""
        return self.world.offered(self.step)

    @property
    def available(self) -> BoolArray:
        """Return which products may be shown, `(K,)`."""
        return self._visits.available

    def click(self, action: int) -> float:
        """Settle whether the visitor clicks `action`: 1.0 or 0.0."""
        return earn(self._visits, self.step - self._visits.start, action)

    def context(self) -> Context:
        """Return what the shop knows, in arrays of its own, as Gymnasium asks of observations."""
        offer = self.offer
        return Context(
            user_id=self.user_id,
            user=frozen(self.user.copy()),
            product_ids=frozen(offer.ids.copy()),
            products=frozen(offer.products.copy()),
            available=frozen(self.available.copy()),
        )


def read_config(config: EnvConfig | Mapping[str, Any] | None, steps: int) -> EnvConfig:
    """Check a configuration and settle its random shocks for `steps` visits; raises `ConfigError`."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ConfigError(f"steps: got {steps!r}, expected a whole number of at least 1")
    if config is None or isinstance(config, Mapping):
        config = build(EnvConfig, config or {}, "env")
    if not isinstance(config, EnvConfig):
        raise ConfigError(f"config: got {config!r}, expected an EnvConfig or a mapping such as {{'n_products': 9}}")
    return resolve_shocks(config, steps)


def make_spaces(config: EnvConfig) -> tuple[spaces.Dict, spaces.Discrete]:
    """Return the observation and the action space of every world that `config` describes; raises `ConfigError`."""
    example = build_world(config.model_copy(update={"n_users": 1}), seed=0)
    count = config.n_products
    fields: dict[str, spaces.Space[Any]] = {
        "user_id": spaces.Discrete(config.n_users),
        "user": _features((), len(config.personas), config.noise_features.user),
        "product_ids": spaces.Box(0, max(count - 1, 1), (count,), np.int64),
        "products": _features((count,), len(config.categories), config.noise_features.product),
        "available": spaces.Box(0, 1, (count,), np.bool_),
    }
    assert fields["products"].shape == example.products.shape
    return spaces.Dict(fields), spaces.Discrete(count)


def _features(rows: tuple[int, ...], labels: int, noise: int) -> spaces.Box:
    """Return the space of feature rows: a one-hot label, then noise."""
    low, high = np.repeat([0, -NOISE_BOUND], [labels, noise]), np.repeat([1, NOISE_BOUND], [labels, noise])
    shape = (*rows, labels + noise)
    return spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), dtype=np.float64)


def draw_seed() -> int:
    """Draw a seed from the system's entropy."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def check_action(action: Any, available: BoolArray) -> int:
    """Return `action` as the index of an available product, or raise `ActionError`."""
    last = len(available) - 1
    try:
        index = -1 if isinstance(action, bool | np.bool_) else operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index <= last:
        raise ActionError(f"step: got action {action!r}, expected a whole number from 0 to {last}")
    if not available[index]:
        raise ActionError(f"step: product {index} is not available; choose one where context.available is true")
    return index
