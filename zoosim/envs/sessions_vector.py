"""Many shops whose visitors come back at once: one world a row, all advancing one decision a step in compiled code."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.errors import ActionError
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, frozen
from zoosim.envs.sessions_env import SessionsEnv, build_sessions
from zoosim.envs.world_env import FLAT
from zoosim.envs.world_vector import WorldVectorEnv
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.rows import Decisions, Rows, decide, first_rows, observe_rows, offer_rows
from zoosim.worlds.sessions.visitors import STEP, VISIT, VISITOR
from zoosim.worlds.sessions.world import Sessions

NUMBERS = {"visitor": VISITOR, "visit": VISIT, "step": STEP}
"""What `info` counts of the visitors who wait, by its place among their numbers."""


class SessionsVectorEnv(WorldVectorEnv):
    """N shops side by side; row n is what `SessionsEnv` with that row's seed gives.

    Where a visitor has gone or is cut off, the next one comes in the same step (`AutoresetMode.SAME_STEP`): the row's
    observation is the next visitor's, and `info["final_obs"]`, `info["final_info"]` hold the last one of the visitor
    before, from which learners bootstrap where `truncated`. They are there if an episode ended in any row, and
    `info["_final_obs"]` says in which. Observations `(N, d)` are arrays of their own at each step.
    """

    def __init__(
        self,
        num_envs: int = 1,
        config: SessionConfig | Mapping[str, Any] | None = None,
        max_steps: int | None = None,
        *,
        flat: bool = True,
    ) -> None:
        """Prepare shops of one configuration.

        Args:
            num_envs: Number N of shops, at least 1.
            config: As for `SessionsEnv`.
            max_steps: As for `SessionsEnv`.
            flat: Whether an observation is the visitors' features alone, `(N, d)`.

        Raises:
            ConfigError: an argument is invalid.
        """
        single = SessionsEnv(config, max_steps, flat=flat)
        super().__init__(num_envs, single.observation_space, single.action_space)
        self._config = single.config
        self._max_steps = single.max_steps
        self._flat = flat
        self._rows: Rows
        self._observations: np.ndarray
        example = build_sessions(single.config, 0)
        self._shop = example.arrays
        self._width = len(example.user_columns)
        products = example.all_products()
        self._products = len(products.ids)
        self._sells_out = single.config.sold_out > 0.0
        self._available = self._shared(np.ones(self._products, bool))
        self._offer = {
            "product_ids": self._shared(products.ids),
            "products": self._shared(products.features),
        }

    def _shared(self, row: np.ndarray) -> np.ndarray:
        """Return one row as that of all, read-only."""
        return frozen(np.repeat(row[np.newaxis], self.num_envs, axis=0))

    def step(self, actions: Any) -> tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Show visitor n product `actions[n]`; raises `OrderError` or `ActionError`.

        Args:
            actions: Whole numbers `(N,)`.

        Returns:
            Observation, rewards `(N,)`, terminated `(N,)`, truncated `(N,)`, and info: what `SessionsEnv` says, `(N,)`
            each, beside `final_obs (N,)` and `final_info`. An error in one row changes none.
        """
        chosen = self._check(actions)
        self._observations = self._empty()
        decisions = decide(self._shop, self._rows, chosen, self._max_steps, self._observations)
        self._available = self._there(self._rows)
        info = self._waiting_info()
        info["visit_ended"] = decisions.ended
        over = decisions.terminated | decisions.truncated
        if over.any():
            info = self._final(decisions, over) | info
        return self._observation(), decisions.rewards, decisions.terminated, decisions.truncated, info

    def action_masks(self) -> Any:
        """Return which actions may be taken now, `(N, K)` of 0 and 1."""
        return self._available.astype(np.int8)

    @property
    def worlds(self) -> tuple[Sessions, ...]:
        """The N worlds behind the scenes, for analysis; `world.seed` tells a row's seed."""
        return tuple(build_sessions(self._config, seed) for seed in self._started())

    def _check(self, actions: Any) -> IntArray:
        """Return `actions` as products `(N,)`, or raise `OrderError` or `ActionError`."""
        self._started()
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise ActionError(f"step: got actions {actions!r}, expected {self.num_envs} whole numbers")
        outside = (chosen < 0) | (chosen >= self._products)
        if outside.any():
            n = int(outside.argmax())
            raise ActionError(f"step: got action {chosen[n]} in row {n}, expected 0 to {self._products - 1}")
        missing = ~self._available[np.arange(self.num_envs), chosen]
        if missing.any():
            n = int(missing.argmax())
            raise ActionError(f"step: got action {chosen[n]} in row {n}, a product that is not available")
        return chosen.astype(np.int64, copy=False)

    def _there(self, rows: Rows) -> BoolArray:
        """Return which products are there for each row's visitor, `(N, K)`."""
        if not self._sells_out:
            return self._available
        available = np.ones((self.num_envs, self._products), bool)
        offer_rows(self._shop, rows, available)
        return frozen(available)

    def _build(self, seed: int) -> int:
        """Return what tells a row's draws: its seed, since arrays of all rows stand for the worlds."""
        return seed

    def _arrive(self, steps: list[int]) -> None:
        self._rows = first_rows(self._shop, self._worlds, steps)
        self._observations = self._empty()
        observe_rows(self._shop, self._rows, self._observations)
        self._available = self._there(self._rows)

    def _empty(self) -> np.ndarray:
        return np.empty((self.num_envs, self._width), FLAT if self._flat else np.float64)

    def _numbers(self) -> IntArray:
        return self._rows.places[:, VISITOR]

    def _waiting_info(self) -> dict[str, Any]:
        # Copies, since the next step changes these arrays.
        numbers = {name: self._rows.places[:, place].copy() for name, place in NUMBERS.items()}
        return self._info(**numbers, visit_ended=np.zeros(self.num_envs, bool), action_mask=self.action_masks())

    def _observation(self) -> Any:
        if self._flat:
            return self._observations
        number = self._rows.places[:, VISITOR].copy()
        return Context(user_id=number, user=frozen(self._observations), **self._offer, available=self._available)

    def _final(self, decisions: Decisions, over: BoolArray) -> dict[str, Any]:
        """Return the last observations and infos of the visitors who are `over (N,)`, and nothing in other rows."""
        rows = np.flatnonzero(over).tolist()
        last_observed: Any = decisions.last_observed[rows]
        available = self._there(Rows(decisions.last_places, self._rows.keys))
        if not self._flat:
            last_observed = [
                self._last_context(decisions, n, features, available[n])
                for n, features in zip(rows, last_observed, strict=True)
            ]
        observations = np.full(self.num_envs, None, object)
        for n, observed in zip(rows, last_observed, strict=True):
            observations[n] = observed
        numbers = np.where(over[:, np.newaxis], decisions.last_places, 0)
        infos: dict[str, Any] = {name: numbers[:, place] for name, place in NUMBERS.items()}
        infos["visit_ended"] = decisions.last_ended & over
        infos["action_mask"] = (available & over[:, np.newaxis]).astype(np.int8)
        final_info = infos | {f"_{name}": over.copy() for name in infos}
        return {"final_obs": observations, "_final_obs": over, "final_info": final_info, "_final_info": over.copy()}

    def _last_context(self, decisions: Decisions, n: int, features: FloatArray, available: BoolArray) -> Context:
        offer = {name: rows[n] for name, rows in self._offer.items()}
        number = int(decisions.last_places[n, VISITOR])
        return Context(user_id=number, user=frozen(features), **offer, available=available)
