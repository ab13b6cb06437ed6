"""Many search shops at once: one world a row, all advancing one visit a step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoosim.core.errors import ActionError
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, Later, LazyContext, LazyDict
from zoosim.envs.search_env import SearchEnv, SearchTemplatesEnv, info_of
from zoosim.envs.world_env import flattened
from zoosim.envs.world_vector import WorldVectorEnv
from zoosim.ranking.product_table import ProductTable
from zoosim.worlds.search.boosts import SearchView, table_of
from zoosim.worlds.search.shop import FinishedVisit, SearchVisit
from zoosim.worlds.search.world import SearchWorld


class SearchVectorEnv(WorldVectorEnv):
    """N search worlds side by side; row n is what `SearchEnv` with that row's seed gives.

    Every visit ends its episode, so every step resets in the same step (`AutoresetMode.SAME_STEP`): what comes back is
    already the next visitor's context. Observations are batched; `boost_features (N, K, 10)` and what `info` holds of
    the visits that ended, `final_obs` and `final_info`, is made when it is asked for.
    """

    single: type[SearchEnv] = SearchEnv

    def __init__(
        self, num_envs: int = 1, config: SearchConfig | Mapping[str, Any] | None = None, *, flat: bool = False
    ) -> None:
        """Prepare shops of one configuration.

        Args:
            num_envs: Number N of shops, at least 1.
            config: As for `SearchEnv`.
            flat: Whether an observation is the visits' features alone, a row each.

        Raises:
            ConfigError: an argument is invalid.
        """
        self._one = self.single(config, flat=flat)
        super().__init__(num_envs, self._one.observation_space, self._one.action_space)
        self._flat = flat

    def _build(self, seed: int) -> SearchView:
        return self._one.build(seed)

    def step(self, actions: Any) -> tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Rank for visitor n with `actions[n]`, then bring the next N; raises `OrderError` or `ActionError`.

        `actions (N, 10)` boosts or `(N,)` templates -> context, rewards `(N,)`, terminated `(N,)` all true, truncated
        `(N,)` all false, and info. An error in one row changes none.
        """
        views = self._started()
        count = len(actions) if isinstance(actions, Sequence | np.ndarray) and np.ndim(actions) else 0
        if count != self.num_envs:
            raise ActionError(f"step: got {count} actions, expected {self.num_envs}, one for each environment")
        # All rankings first: an invalid action is refused before any visitor is served.
        rankings = [self._rank(n, action) for n, action in enumerate(actions)]
        served = [
            (view, visit, view.shop.serve(visit, ranking))
            for view, visit, ranking in zip(views, self._visits, rankings, strict=True)
        ]
        rewards = np.array([result.reward for _, _, result in served])
        final_info = self._final(served)
        self._arrive_next()
        return self._observation(), rewards, np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool), final_info

    def _rank(self, n: int, action: Any) -> IntArray:
        try:
            ranking: IntArray = self._worlds[n].rank(self._visits[n], action)
        except ActionError as error:
            raise ActionError(f"row {n}: {error}") from None
        return ranking

    def _arrive(self, steps: list[int]) -> None:
        self._base = np.empty((self.num_envs, self._one.n_products))
        rows = zip(self._worlds, steps, self._base, strict=True)
        self._visits = [view.shop.arrive(step, scores) for view, step, scores in rows]
        self._base.flags.writeable = False

    def _observation(self) -> Any:
        """Return what the shops know of their visitors."""
        if self._flat:
            features = [view.shop.features(visit) for view, visit in zip(self._worlds, self._visits, strict=True)]
            return flattened(np.stack(features))
        return self._contexts(self._worlds, self._visits)

    def _contexts(self, views: list[SearchView], visits: list[SearchVisit]) -> Context:
        """Return the contexts of some visits as one, a row each; large arrays are made when they are asked for."""
        rows = [(view.shop, visit) for view, visit in zip(views, visits, strict=True)]
        return LazyContext(
            user_id=np.array([visit.user for visit in visits]),
            features=np.stack([shop.features(visit) for shop, visit in rows]),
            product_ids=Later(
                lambda: np.stack([shop.world.markets[visit.market].catalogue.ids for shop, visit in rows])
            ),
            product_table=Later(lambda: _stacked([table_of(shop, visit) for shop, visit in rows])),
            base_scores=self._base,
            boost_features=Later(lambda: np.stack([shop.boost_features(visit) for shop, visit in rows])),
        )

    def _final(self, served: list[tuple[SearchView, SearchVisit, FinishedVisit]]) -> dict[str, Any]:
        """Return the info of a step: observations and infos of the visits that ended, made when asked for."""

        # From the visits that were served: when these arrays are asked for, the rows have long moved on.
        def rows(make: Any) -> Any:
            out = np.empty(len(served), object)
            for n, row in enumerate(served):
                out[n] = make(*row)
            return out

        final_obs = Later(lambda: rows(lambda view, visit, result: self._one.observation(view, visit)))
        return self._info(final_obs=final_obs, final_info=Later(lambda: rows(info_of)), step=self._numbers() + 1)

    def _info(self, **values: Any) -> LazyDict:
        return LazyDict(**super()._info(**values))

    @property
    def worlds(self) -> tuple[SearchWorld, ...]:
        """Return the N worlds behind the scenes, for analysis; `world.seed` tells a row's seed."""
        return tuple(view.shop.world for view in self._started())


def _stacked(tables: list[ProductTable]) -> ProductTable:
    """Return the tables of N shops as one, with columns `(N, K)`."""
    return ProductTable(*(np.stack(columns) for columns in zip(*tables, strict=True)))


class SearchTemplatesVectorEnv(SearchVectorEnv):
    """The same shops with templates for actions, as `SearchTemplatesEnv`."""

    single = SearchTemplatesEnv

    def _contexts(self, views: list[SearchView], visits: list[SearchVisit]) -> Context:
        """Return the contexts of some visits as one, a row each."""
        contexts = [view.context(visit) for view, visit in zip(views, visits, strict=True)]
        return Context(**{name: np.stack([context[name] for context in contexts]) for name in contexts[0]})
