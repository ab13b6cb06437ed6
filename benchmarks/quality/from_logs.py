"""Q3: what pessimism buys when all there is is a log that covers few boosts: 3,000 visits around the static best."""

import numpy as np

from studies.held_out import HeldOut, boosts_reward, draw_held_out, open_shop, spec_of
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray
from zoosim.policies.boosts.q_offline import PESSIMISM, QOffline
from zoosim.worlds.search.boosts import context_of
from zoosim.worlds.search.shop import SearchShop

SEEDS, VISITS, HELD_OUT_VISITS = range(1000, 1006), 3_000, 100
STATIC = 0.5 * np.eye(10)[5]
"""Full weight on the price alone."""

SPREADS = (0.05, 0.15)


def main() -> None:
    """Print what the log's own policy and each critic's picks earn in expectation, with 95% intervals over seeds."""
    for spread in SPREADS:
        found = [_rewards(seed, spread) for seed in SEEDS]
        for name in found[0]:
            mean, low, high = mean_interval([row[name] for row in found])
            print(f"Q3 log spread {spread:g}, {name}: {mean:.2f} EUR a visit ({low:.2f} to {high:.2f})")


def _rewards(seed: int, spread: float) -> dict[str, float]:
    shop = open_shop({"n_products": 1_000, "a_max": 0.5}, seed)
    log, held_out = log_of(shop, spread, VISITS), draw_held_out(shop, np.tile(STATIC, (4, 1)), HELD_OUT_VISITS)
    found = {"the log's own": float(held_out.shares @ held_out.baseline.mean(axis=1))}
    for name in PESSIMISM:
        policy = QOffline(spec_of(shop, VISITS), stream(seed, "policy"), pessimism=name)
        policy.fit(log)
        found[name] = _reward(shop, held_out, policy)
    return found


def log_of(shop: SearchShop, spread: float, n: int) -> dict[str, FloatArray]:
    """Serve n visits with the static best and normal noise of a `spread`, and keep what a log has."""
    rng = stream(shop.world.seed, "log")
    features, rewards = np.empty((n, shop.n_features)), np.empty(n)
    actions = np.clip(STATIC + rng.normal(0.0, spread, (n, len(STATIC))), -0.5, 0.5)
    for step, action in enumerate(actions):
        visit = shop.arrive(step)
        features[step], rewards[step] = shop.features(visit), shop.serve(visit, shop.rank(visit, action)).reward
    return {"features": features, "action": actions, "reward": rewards}


def _reward(shop: SearchShop, held_out: HeldOut, policy: QOffline) -> float:
    worth = [
        [boosts_reward(shop, visit, policy.recommend(context_of(shop, visit))) for visit in part]
        for part in held_out.visits
    ]
    return float(held_out.shares @ np.mean(worth, axis=1))
