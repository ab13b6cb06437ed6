"""Many shops at once: one world a row, all advancing one visit a step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from zoosim.core.config import EnvConfig
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, frozen
from zoosim.envs.recommendation_env import VisitStream, draw_seed, make_spaces, read_config
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.truth import GroundTruth
from zoosim.worlds.world import World


class RecommendationVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """N recommendation worlds side by side; row n is what `RecommendationEnv` with that row's seed gives.

    Every visit ends its episode, so every step resets in the same step (`AutoresetMode.SAME_STEP`): what comes back is
    already the next visitor's context, and `info["final_obs"]`, `info["final_info"]` hold the visit that ended.
    Observations are batched: `user_id (N,)`, `user (N, d_u)`, `product_ids (N, K)`, `products (N, K, d_p)`,
    `available (N, K)`; they are read-only, and arrays that did not change are shared from one step to the next.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 (as in VectorEnv)

    def __init__(
        self, num_envs: int = 1, config: EnvConfig | Mapping[str, Any] | None = None, steps: int = 40_000
    ) -> None:
        """Prepare `num_envs` shops of one `config`; raises `ConfigError`. See `RecommendationEnv`."""
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ConfigError(f"num_envs: got {num_envs!r}, expected a whole number of at least 1")
        self.num_envs = num_envs
        self._config = read_config(config, steps)
        self.single_observation_space, self.single_action_space = make_spaces(self._config)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._streams: list[VisitStream] = []
        self._context = Context()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Context, dict[str, Any]]:
        """Bring the next N visitors. A `seed` s starts worlds s to s + N - 1 again; a list, each row's own.

        A row whose seed is None goes on to its next visitor; its very first reset draws a seed (see `worlds`).
        `options` are not used.
        """
        seeds = self._seeds(seed)
        self._streams = [
            self._streams[n] if given is None else VisitStream(build_world(self._config, seed=given))
            for n, given in enumerate(seeds)
        ]
        for stream in self._streams:
            stream.advance()
        self._context = Context(
            **self._visitors(),
            product_ids=self._stack([stream.offer.ids for stream in self._streams]),
            products=self._stack([stream.offer.products for stream in self._streams]),
            available=self._stack([stream.available for stream in self._streams]),
        )
        return self._context, self._info(step=self._steps())

    def step(self, actions: Any) -> tuple[Context, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Show visitor n product `actions[n]`, then bring the next N; raises `OrderError` or `ActionError`.

        `actions (N,)` -> context, rewards `(N,)`, terminated `(N,)` all true, truncated `(N,)` all false, info with
        `final_obs (N,)` contexts, `final_info` (`step (N,)`, `feedback`: `shown (N, 1)`, `clicks (N, 1)`), `step (N,)`.
        An error in one row changes none.
        """
        chosen = self._check(actions)
        rewards = np.array([stream.click(int(action)) for stream, action in zip(self._streams, chosen, strict=True)])
        feedback = {"shown": chosen[:, None], "clicks": rewards[:, None] > 0}
        final_info = self._info(step=self._steps(), feedback=self._info(**feedback))
        final_obs = self._rows()
        self._advance()
        info = self._info(final_obs=final_obs, final_info=final_info, step=self._steps())
        return self._context, rewards, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool), info

    @property
    def worlds(self) -> tuple[World, ...]:
        """Return the N worlds behind the scenes, for analysis; `world.seed` tells a row's seed."""
        return tuple(stream.world for stream in self._started())

    @property
    def ground_truths(self) -> tuple[GroundTruth, ...]:
        """Return the truth about each row's waiting visitor, for regret and tests."""
        return tuple(GroundTruth(stream.world, stream.step) for stream in self._started())

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """Return one checked seed a row; None where the row's world goes on."""
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        else:
            seeds = [int(seed) + n for n in range(self.num_envs)] if isinstance(seed, int | np.integer) else list(seed)
        if len(seeds) != self.num_envs:
            raise ConfigError(f"seed: got {len(seeds)} seeds, expected {self.num_envs}, one for each environment")
        for given in seeds:
            seeding.np_random(given)  # refuses what is no seed
        return seeds if self._streams else [draw_seed() if given is None else given for given in seeds]

    def _check(self, actions: Any) -> IntArray:
        """Return `actions` as available indices `(N,)`, or raise `OrderError` or `ActionError`."""
        self._started()
        chosen, available = np.asarray(actions), self._context.available
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise ActionError(f"step: got actions {actions!r}, expected {self.num_envs} whole numbers")
        outside = np.flatnonzero((chosen < 0) | (chosen >= available.shape[1]))
        if len(outside):
            n = outside[0]
            raise ActionError(f"step: got action {chosen[n]} in row {n}, expected 0 to {available.shape[1] - 1}")
        gone = np.flatnonzero(~available[np.arange(self.num_envs), chosen])
        if len(gone):
            n = gone[0]
            raise ActionError(f"step: product {chosen[n]} of row {n} is not available (see context.available)")
        return chosen.astype(np.int64)

    def _advance(self) -> None:
        """Bring each row's next visitor; product arrays and masks stay the same objects while they can."""
        changed = [stream.advance() for stream in self._streams]
        fields: dict[str, Any] = {**self._context, **self._visitors()}
        if any(changed):
            fields["available"] = self._stack([stream.available for stream in self._streams])
            fields["product_ids"] = self._stack([stream.offer.ids for stream in self._streams])
            fields["products"] = self._stack([stream.offer.products for stream in self._streams])
        self._context = Context(**fields)

    def _visitors(self) -> dict[str, Any]:
        return {
            "user_id": frozen(np.array([stream.user_id for stream in self._streams])),
            "user": self._stack([stream.user for stream in self._streams]),
        }

    def _rows(self) -> np.ndarray:
        """Return the current contexts one by one, as an object array `(N,)` of views."""
        rows, arrays = np.empty(self.num_envs, object), list(self._context.values())
        user_ids = arrays[0].tolist()
        for n, values in enumerate(zip(user_ids, *arrays[1:], strict=True)):
            rows[n] = Context(zip(self._context, values, strict=True))
        return rows

    def _steps(self) -> IntArray:
        return np.array([stream.step for stream in self._streams])

    def _info(self, **values: Any) -> dict[str, Any]:
        """Put beside each value the mask `_name` of the rows that have it, as Gymnasium does: all of them."""
        masks = {f"_{name}": np.ones(self.num_envs, bool) for name in values}
        return {**values, **masks}

    def _started(self) -> list[VisitStream]:
        if not self._streams:
            raise OrderError("the shops are not open yet; call reset() first")
        return self._streams

    @staticmethod
    def _stack(arrays: list[Any]) -> Any:
        return frozen(np.stack(arrays))
