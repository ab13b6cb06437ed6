"""Many worlds at once, as Gymnasium's vector environments: one world a row, all advancing one decision a step."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from zoosim.core.errors import ConfigError, OrderError
from zoosim.core.types import IntArray
from zoosim.envs.world_env import checked_seeds


class WorldVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """N worlds side by side; where a visitor has gone, the next one comes in the same step."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 (as in VectorEnv)

    def __init__(self, num_envs: int, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        """Prepare rows without worlds.

        Args:
            num_envs: Number N of rows, at least 1.
            observation_space: Space of the observations of one row.
            action_space: Space of the actions of one row.

        Raises:
            ConfigError: `num_envs` is no whole number of at least 1.
        """
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ConfigError(f"num_envs: got {num_envs!r}, expected a whole number of at least 1")
        self.num_envs = num_envs
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self._worlds: list[Any] = []
        self._visits: list[Any] = []

    @abstractmethod
    def _build(self, seed: int) -> Any:
        """Return the world of a seed."""

    @abstractmethod
    def _arrive(self, steps: list[int]) -> None:
        """Bring each row's visitor of that number."""

    @abstractmethod
    def _observation(self) -> Any:
        """Return what is observed of the waiting visits, a row each."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Bring the next N visitors. A `seed` s starts worlds s to s + N - 1 again; a list, each row's own.

        A row whose seed is None goes on to its next visitor; its very first reset draws a seed (see `worlds`).
        `options` are not used.
        """
        seeds = checked_seeds(seed, self.num_envs, fresh=not self._worlds)
        # Before worlds are replaced, so that rows which go on know where they were.
        following = self._numbers() + 1 if self._worlds else np.zeros(self.num_envs, np.int64)
        self._worlds = [self._worlds[n] if given is None else self._build(given) for n, given in enumerate(seeds)]
        numbers = zip(following.tolist(), seeds, strict=True)
        self._arrive([number if given is None else 0 for number, given in numbers])
        return self._observation(), self._waiting_info()

    def _numbers(self) -> IntArray:
        """Return the number of the visitor who waits in each row."""
        return np.array([visit.step for visit in self._visits])

    def _waiting_info(self) -> dict[str, Any]:
        """Return the info of the visitors who wait."""
        return self._info(step=self._numbers())

    def _arrive_next(self) -> None:
        """Bring each row's next visitor."""
        self._arrive((self._numbers() + 1).tolist())

    def _info(self, **values: Any) -> dict[str, Any]:
        """Put beside each value the mask `_name` of the rows that have it, as Gymnasium does: all of them."""
        masks = {f"_{name}": np.ones(self.num_envs, bool) for name in values}
        return {**values, **masks}

    def _started(self) -> list[Any]:
        if not self._worlds:
            raise OrderError("the shops are not open yet; call reset() first")
        return self._worlds
