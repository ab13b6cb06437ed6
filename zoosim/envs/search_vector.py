"""Many search shops at once: one world a row, all advancing one visit a step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import BoolArray, FloatArray, IntArray, Later, LazyContext, LazyDict
from zoosim.envs.search_env import SearchEnv, SearchTemplatesEnv, context_of, info_of, table_of
from zoosim.ranking.product_table import ProductTable
from zoosim.worlds.search.shop import Result, SearchShop, Visit
from zoosim.worlds.search.world import SearchWorld, build_search_world


class SearchVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """N search worlds side by side; row n is what `SearchEnv` with that row's seed gives.

    Every visit ends its episode, so every step resets in the same step (`AutoresetMode.SAME_STEP`): what comes back is
    already the next visitor's context. Observations are batched; `boost_features (N, K, 10)` and what `info` holds of
    the visits that ended, `final_obs` and `final_info`, is made when it is asked for.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 (as in VectorEnv)
    single: type[SearchEnv] = SearchEnv

    def __init__(self, num_envs: int = 1, config: SearchConfig | Mapping[str, Any] | None = None) -> None:
        """Prepare `num_envs` shops of one `config`; raises `ConfigError`."""
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ConfigError(f"num_envs: got {num_envs!r}, expected a whole number of at least 1")
        self.num_envs, one = num_envs, self.single(config)
        self._one, self._config = one, one._config
        self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._shops: list[SearchShop] = []
        self._steps = np.zeros(0, np.int64)
        self._visits: list[Visit] = []

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[LazyContext, dict[str, Any]]:
        """Bring the next N visitors. A `seed` s starts worlds s to s + N - 1 again; a list, each row's own.

        A row whose seed is None goes on to its next visitor; its very first reset draws a seed (see `worlds`).
        `options` are not used.
        """
        seeds = self._seeds(seed)
        fresh = [given is not None for given in seeds]
        self._steps = np.where(fresh, 0, self._steps + 1) if self._shops else np.zeros(self.num_envs, np.int64)
        self._shops = [
            self._shops[n] if given is None else SearchShop(build_search_world(self._config, seed=given))
            for n, given in enumerate(seeds)
        ]
        return self._arrive(), self._info(step=self._steps.copy())

    def step(self, actions: Any) -> tuple[LazyContext, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Rank for visitor n with `actions[n]`, then bring the next N; raises `OrderError` or `ActionError`.

        `actions (N, 10)` boosts or `(N,)` templates -> context, rewards `(N,)`, terminated `(N,)` all true, truncated
        `(N,)` all false, and info. An error in one row changes none.
        """
        shops, visits = self._started(), self._visits
        count = len(actions) if isinstance(actions, Sequence | np.ndarray) and np.ndim(actions) else 0
        if count != self.num_envs:
            raise ActionError(f"step: got {count} actions, expected {self.num_envs}, one for each environment")
        rankings = [self._rank(n, action) for n, action in enumerate(actions)]
        served = zip(shops, visits, rankings, strict=True)
        results = [shop.serve(visit, ranking) for shop, visit, ranking in served]
        rewards = np.array([result.reward for result in results])
        info = self._final(list(zip(shops, visits, results, strict=True)))
        self._steps = self._steps + 1
        context = self._arrive()
        return context, rewards, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool), info

    def _rank(self, n: int, action: Any) -> IntArray:
        try:
            return self._one._rank(self._shops[n], self._visits[n], action)
        except ActionError as error:
            raise ActionError(f"row {n}: {error}") from None

    def _arrive(self) -> LazyContext:
        """Bring each row's visitor and return what the shops know of them."""
        base = np.empty((self.num_envs, self._config.n_products))
        rows = zip(self._shops, self._steps.tolist(), base, strict=True)
        self._visits = [shop.arrive(step, row) for shop, step, row in rows]
        shops, visits = self._shops, self._visits
        base.flags.writeable = False
        return LazyContext(
            user_id=np.array([visit.user for visit in visits]),
            features=np.stack([shop.features(visit) for shop, visit in zip(shops, visits, strict=True)]),
            product_ids=Later(lambda: np.stack([shop.world.catalogue.ids for shop in shops])),
            product_table=Later(lambda: _stacked([table_of(*row) for row in zip(shops, visits, strict=True)])),
            base_scores=base,
            boost_features=Later(
                lambda: np.stack([shop.boost_features(visit) for shop, visit in zip(shops, visits, strict=True)])
            ),
        )

    def _final(self, served: list[tuple[SearchShop, Visit, Result]]) -> dict[str, Any]:
        """Return the info of a step: contexts and infos of the visits that ended, row by row, made when asked for."""

        def rows(make: Any) -> IntArray:
            out = np.empty(len(served), object)
            for n, row in enumerate(served):
                out[n] = make(*row)
            return out

        final_obs = Later(lambda: rows(lambda shop, visit, result: context_of(shop, visit, shared=False)))
        return self._info(final_obs=final_obs, final_info=Later(lambda: rows(info_of)), step=self._steps + 1)

    def _info(self, **values: Any) -> LazyDict:
        """Put beside each value the mask `_name` of the rows that have it, as Gymnasium does: all of them."""
        masks = {f"_{name}": np.ones(self.num_envs, bool) for name in values}
        return LazyDict(**values, **masks)

    @property
    def worlds(self) -> tuple[SearchWorld, ...]:
        """Return the N worlds behind the scenes, for analysis; `world.seed` tells a row's seed."""
        return tuple(shop.world for shop in self._started())

    def _started(self) -> list[SearchShop]:
        if not self._shops:
            raise OrderError("the shops are not open yet; call reset() first")
        return self._shops

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
        if self._shops:
            return seeds
        return [int(np.random.SeedSequence().generate_state(1)[0]) if given is None else given for given in seeds]


def _stacked(tables: list[ProductTable]) -> ProductTable:
    """Return the tables of N shops as one, with columns `(N, K)`."""
    return ProductTable(*(np.stack(columns) for columns in zip(*tables, strict=True)))


class SearchTemplatesVectorEnv(SearchVectorEnv):
    """The same shops with templates for actions, as `SearchTemplatesEnv`."""

    single = SearchTemplatesEnv
