"""Many shops at once: one world a row, all advancing one visit a step."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from zoosim.core.config import EnvConfig
from zoosim.core.errors import ActionError
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, frozen
from zoosim.envs.recommendation_env import make_spaces, read_config
from zoosim.envs.world_env import flat_space, flattened
from zoosim.envs.world_vector import WorldVectorEnv
from zoosim.worlds.base import Truth
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld, earn


class RecommendationVectorEnv(WorldVectorEnv):
    """N recommendation worlds side by side; row n is what `RecommendationEnv` with that row's seed gives.

    Every visit ends its episode, so every step resets in the same step (`AutoresetMode.SAME_STEP`): what comes back is
    already the next visitor's context, and `info["final_obs"]`, `info["final_info"]` hold the visit that ended.
    Observations are batched: `user_id (N,)`, `user (N, d_u)`, `product_ids (N, K)`, `products (N, K, d_p)`,
    `available (N, K)`; they are read-only, and arrays that did not change are shared from one step to the next.
    """

    def __init__(
        self,
        num_envs: int = 1,
        config: EnvConfig | Mapping[str, Any] | None = None,
        steps: int = 40_000,
        *,
        flat: bool = False,
    ) -> None:
        """Prepare shops of one configuration.

        Args:
            num_envs: Number N of shops, at least 1.
            config: As for `RecommendationEnv`.
            steps: As for `RecommendationEnv`.
            flat: Whether an observation is the visitors' features alone, `(N, d_u)`.

        Raises:
            ConfigError: an argument is invalid.
        """
        self._config = read_config(config, steps)
        context_space, action_space = make_spaces(self._config)
        user_space: Any = context_space["user"]
        super().__init__(num_envs, flat_space(user_space) if flat else context_space, action_space)
        self._flat = flat
        self._context = Context()

    def _build(self, seed: int) -> TableWorld:
        return build_world(self._config, seed=seed)

    def step(self, actions: Any) -> tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Show visitor n product `actions[n]`, then bring the next N; raises `OrderError` or `ActionError`.

        `actions (N,)` -> context, rewards `(N,)`, terminated `(N,)` all true, truncated `(N,)` all false, info with
        `final_obs (N,)` contexts, `final_info` (`step (N,)`, `feedback`: `shown (N, 1)`, `clicks (N, 1)`), `step (N,)`.
        An error in one row changes none.
        """
        chosen = self._check(actions)
        rows = list(zip(self._worlds, self._visits, chosen.tolist(), strict=True))
        rewards = np.array([earn(visit.visits, visit.place, action) for _, visit, action in rows])
        shown = np.array([visit.offer.ids[action] for _, visit, action in rows])
        feedback = {"shown": shown[:, None], "clicks": rewards[:, None] > 0}
        final_info = self._info(step=self._numbers(), feedback=self._info(**feedback))
        # Before the next visitors arrive: these are the contexts that the actions were chosen in.
        final_obs = self._rows()
        self._arrive_next()
        info = self._info(final_obs=final_obs, final_info=final_info, step=self._numbers())
        return self._observation(), rewards, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool), info

    @property
    def worlds(self) -> tuple[TableWorld, ...]:
        """Return the N worlds behind the scenes, for analysis; `world.seed` tells a row's seed."""
        return tuple(self._started())

    @property
    def ground_truths(self) -> tuple[Truth, ...]:
        """Return the truth about each row's waiting visitor, for regret and tests."""
        return tuple(world.truth(visit) for world, visit in zip(self._started(), self._visits, strict=True))

    def _check(self, actions: Any) -> IntArray:
        """Return `actions` as available indices `(N,)`, or raise `OrderError` or `ActionError`."""
        self._started()
        chosen = np.asarray(actions)
        available = self._context.available
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

    def _arrive(self, steps: list[int]) -> None:
        """Bring each row's visitor of that number; product arrays and masks stay the same objects while they can."""
        before = [visit.visits for visit in self._visits]
        self._visits = [world.arrive(step) for world, step in zip(self._worlds, steps, strict=True)]
        users = [world.users[visit.visitor] for world, visit in zip(self._worlds, self._visits, strict=True)]
        fields: dict[str, Any] = {
            **self._context,
            "user_id": frozen(np.array([visit.visitor for visit in self._visits])),
            "user": self._stack(users),
        }
        # Availability and candidates can only change where a new chunk of visits begins.
        changed = any(old is not visit.visits for old, visit in zip_longest(before, self._visits))
        if changed:
            fields["product_ids"] = self._stack([visit.offer.ids for visit in self._visits])
            fields["products"] = self._stack([visit.offer.products for visit in self._visits])
            fields["available"] = self._stack([visit.visits.available for visit in self._visits])
        self._context = Context(**fields)

    def _observation(self) -> Any:
        return flattened(self._context.user) if self._flat else self._context

    def _rows(self) -> np.ndarray:
        """Return the current observations one by one, as an object array `(N,)` of views."""
        rows = np.empty(self.num_envs, object)
        if self._flat:
            for n, features in enumerate(self._observation()):
                rows[n] = features
            return rows
        arrays = list(self._context.values())
        user_ids = arrays[0].tolist()
        for n, values in enumerate(zip(user_ids, *arrays[1:], strict=True)):
            rows[n] = Context(zip(self._context, values, strict=True))
        return rows

    @staticmethod
    def _stack(arrays: list[Any]) -> Any:
        return frozen(np.stack(arrays))
