"""Put upper limits on single rewards in the search shop, and count how often they hold, overall and by segment."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from studies.calibration.conformal import UpperLimits, calibrate_limits, fit_quantiles
from studies.calibration.visits import Visits, random_visits
from studies.held_out import open_shop
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

TRAINED, FITTED, HELD, TESTED = 4_000, 4_000, 6_000, 10_000
"""Visits to train on, to fit quantiles on, to calibrate limits on, and to judge them."""

EPOCHS, BINS = 10, 5
ALL = "all"


@dataclass(frozen=True)
class Limits:
    """How often limits at 95% hold for the rewards of held-out `visits` of a segment, or of `all`.

    `zeros` is the share of rewards of 0; `normal` that within 1.96 std of the ensemble's mean, `plain` that below the
    conformal limit, `exact` the same with ties broken by chance; `limit` is the mean upper limit in EUR.
    """

    seed: int
    segment: str
    visits: int
    zeros: float
    normal: float
    plain: float
    exact: float
    limit: float


def limits_of(config: SearchConfig, seed: int) -> list[Limits]:
    """Let an ensemble learn from random boosts in a seed's shop, and judge its limits by further visits."""
    shop = open_shop(config, seed)
    visits = random_visits(shop, TRAINED + FITTED + HELD + TESTED, seed)
    ends = np.cumsum([0, TRAINED, FITTED, HELD, TESTED]).tolist()
    trained, fitted, held, tested = (visits.part(a, b) for a, b in pairwise(ends))
    q = QEnsembleRegressor(trained.states.shape[1], trained.actions.shape[1], QEnsembleConfig(seed=seed))
    q.update_batch(trained.states, trained.actions, trained.rewards, n_epochs=EPOCHS)
    return _judged(seed, list(shop.world.config.segments), q, _limits(q, fitted, held), tested)


def _limits(q: QEnsembleRegressor, fitted: Visits, held: Visits) -> UpperLimits:
    mean, _ = q.predict(fitted.states, fitted.actions)
    quantiles = fit_quantiles(mean, fitted.rewards, fitted.segments, BINS)
    return calibrate_limits(quantiles, held.rewards, q.members(held.states, held.actions), held.segments)


def _judged(seed: int, names: list[str], q: QEnsembleRegressor, limits: UpperLimits, tested: Visits) -> list[Limits]:
    members = q.members(tested.states, tested.actions)
    mean, std = q.predict(tested.states, tested.actions)
    covered = {
        "zeros": tested.rewards == 0,
        "normal": np.abs(tested.rewards - mean) <= 1.96 * std,
        "plain": limits.covered(tested.rewards, members, tested.segments),
        "exact": limits.covered(tested.rewards, members, tested.segments, rng=stream(seed, "ties")),
        "limit": limits.of(members, tested.segments),
    }
    groups = {ALL: np.ones(len(tested.rewards), bool)} | {name: tested.segments == g for g, name in enumerate(names)}
    return [
        Limits(seed, name, int(chosen.sum()), **{key: float(values[chosen].mean()) for key, values in covered.items()})
        for name, chosen in groups.items()
    ]
