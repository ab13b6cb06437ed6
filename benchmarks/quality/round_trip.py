"""Q12: is a policy behind the HTTP API as good as the same policy in the arena?

The gauntlet's visitors come through the API of a service, one after another, and their clicks are told to it 100 visits
later. The same policy meets the same visitors in the arena with rewards 100 visits late, and 300: between the two lies
what the service's own delay, a few tenths of a second, comes to.
"""

import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from studies.writing import written
from tests.serving.process import serving
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.feedback import Feedback
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.policies.model import Catalogue, Model, save_model
from zoosim.policies.registry import find_class
from zoosim.schema.encoder import Encoder
from zoosim.schema.number_columns import VectorColumn
from zoosim.schema.schema import FittedSchema
from zoosim.serving.client import Client
from zoosim.worlds.base import World
from zoosim.worlds.recommendation.shocks import LOUD, SILENT
from zoosim.worlds.recommendation.world import build_world

SEEDS, STEPS, DELAY, LATER = range(1000, 1004), 20_000, 100, 300
POLICY = "adaptive"


def main() -> None:
    """Print the share of the best choices' clicks through the API and in the arena, by seed and in the mean."""
    differences = []
    for seed in SEEDS:
        world = build_world(EnvConfig(shocks=[LOUD, SILENT]), seed=seed)
        served = through_api(world, seed)
        arena = {delay: in_arena(world, seed, delay) for delay in (DELAY, LATER)}
        differences.append(served - arena[DELAY])
        print(
            f"Q12 {POLICY}, seed {seed}, {STEPS:,} visits: {100 * served:.2f}% of oracle through the API, "
            f"{100 * arena[DELAY]:.2f}% in the arena {DELAY} visits late, {100 * arena[LATER]:.2f}% {LATER} late",
            flush=True,
        )
    points = written(mean_interval([100 * difference for difference in differences]), 2, sign=True)
    print(f"Q12 {POLICY}: {points} points through the API, {len(differences)} seeds")


def in_arena(world: World, seed: int, delay: int) -> float:
    """Return what a policy's choices are worth, over the best."""
    policy = new_policy(world, seed)
    blocks = list(play(world, policy, STEPS, feedback=Feedback(delay=delay)))
    return float(
        sum(block.expected_rewards.sum() for block in blocks) / sum(block.best_rewards.sum() for block in blocks)
    )


def through_api(world: World, seed: int) -> float:
    """Return the same of a service's choices."""
    expected, best = 0.0, 0.0
    waiting: deque[tuple[str, float]] = deque()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        products = save_untrained(world, seed, folder / "model.zoosim")
        with (
            serving(folder / "service", folder / "model.zoosim", exploration=0.0) as service,
            Client(service.url) as shop,
        ):
            for step in range(STEPS):
                visit = world.arrive(step)
                context = world.context(visit)
                candidates = [products[int(product)] for product in context.product_ids[context.available]]
                decision = shop.decide({"visitor": context.user.tolist()}, candidates)
                action = int(np.flatnonzero(context.product_ids == int(decision.product))[0])
                truth = world.truth(visit)
                expected += truth.expected_reward(action)
                best += truth.best_reward
                waiting.append((decision.id, world.serve(visit, action).reward))
                if len(waiting) > DELAY:
                    decision_id, reward = waiting.popleft()
                    shop.give_feedback(decision_id, {"click": reward})
    return expected / best


def new_policy(world: World, seed: int) -> Any:
    """Return a policy that has learned nothing."""
    return find_class(POLICY)(world.spec(STEPS), stream(seed, "policy"))


def save_untrained(world: World, seed: int, path: Path) -> dict[int, str]:
    """Write a model that takes features as they are, and has learned nothing; return its products' names by id."""
    listed = world.all_products()
    assert listed is not None
    names = {int(product): f"{product}" for product in listed.ids}
    policy = new_policy(world, seed)
    visitors, products = (
        Encoder(columns=(VectorColumn(name=name, missing=False, length=length, scale=1.0),))
        for name, length in (("visitor", policy.spec.user_dim), ("product", policy.spec.product_dim))
    )
    fitted = FittedSchema(visitors=visitors, products=products, weights={"click": 1.0})
    save_model(Model(policy, fitted, Catalogue(tuple(names.values()), listed.features)), path)
    return names
