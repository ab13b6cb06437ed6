"""Q12: is a policy behind the HTTP API as good as the same policy in the arena?

The gauntlet's visitors come through the API of a service, one after another, and their clicks are told to it 100 visits
later. The same policy meets the same visitors in the arena with rewards 100 visits late, and 300: between the two lies
what the service's own delay, a few tenths of a second, comes to.
"""

import tempfile
from pathlib import Path

from studies.writing import written
from tests.serving.process import serving
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.policies.base import Policy
from zoosim.policies.model import Catalogue, Model, save_model
from zoosim.policies.registry import find_class
from zoosim.schema.encoder import Encoder
from zoosim.schema.number_columns import NumberColumn
from zoosim.schema.schema import FittedSchema
from zoosim.serving.through import PRODUCT, VISITOR, ThroughService
from zoosim.worlds.base import World
from zoosim.worlds.recommendation.shocks import LOUD, SILENT
from zoosim.worlds.recommendation.world import build_world

SEEDS, STEPS, DELAY, LATER = range(1000, 1004), 20_000, 100, 300
POLICY = "adaptive"
FARTHEST = 1e9
"""Features up to this size are taken as they are."""


def main() -> None:
    """Print the share of the best choices' clicks through the API and in the arena, by seed and in the mean."""
    shares = []
    for seed in SEEDS:
        world = build_world(EnvConfig(shocks=[LOUD, SILENT]), seed=seed)
        served = through_api(world, seed)
        arena = {delay: oracle_share(world, new_policy(world, seed), delay) for delay in (DELAY, LATER)}
        shares.append((served, arena[DELAY]))
        print(
            f"Q12 {POLICY}, seed {seed}, {STEPS:,} visits: {served:.2f}% of oracle through the API, "
            f"{arena[DELAY]:.2f}% in the arena {DELAY} visits late, {arena[LATER]:.2f}% {LATER} late",
            flush=True,
        )
    means = [sum(column) / len(shares) for column in zip(*shares, strict=True)]
    points = written(mean_interval([served - in_arena for served, in_arena in shares]), 2, sign=True)
    print(
        f"Q12 {POLICY}, seeds {SEEDS[0]} to {SEEDS[-1]}: {means[0]:.2f}% through the API, {means[1]:.2f}% in the arena "
        f"{DELAY} visits late; difference {points} points"
    )


def oracle_share(world: World, policy: Policy, delay: int) -> float:
    """Return what a policy's choices are worth, in percent of the best, with rewards some visits late."""
    blocks = list(play(world, policy, STEPS, feedback=FeedbackTiming(delay=delay)))
    expected = sum(block.expected_rewards.sum() for block in blocks)
    return float(100.0 * expected / sum(block.best_rewards.sum() for block in blocks))


def through_api(world: World, seed: int) -> float:
    """Return the same of a service's choices."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_untrained(world, seed, folder / "model.zoosim")
        with serving(folder / "service", folder / "model.zoosim", exploration=0.0) as service:
            policy = ThroughService(world.spec(STEPS), stream(seed, "policy"), url=service.url, run=f"{seed}")
            return oracle_share(world, policy, DELAY)


def new_policy(world: World, seed: int) -> Policy:
    """Return a policy that has learned nothing."""
    return find_class(POLICY)(world.spec(STEPS), stream(seed, "policy"))


def save_untrained(world: World, seed: int, path: Path) -> None:
    """Write a model that takes features as they are, and has learned nothing."""
    listed = world.all_products()
    assert listed is not None
    policy = new_policy(world, seed)
    fitted = FittedSchema(
        visitors=plain_encoder(VISITOR, policy.spec.user_dim),
        products=plain_encoder(PRODUCT, policy.spec.product_dim),
        weights={"click": 1.0},
    )
    names = tuple(f"{product}" for product in listed.ids)
    save_model(Model(policy, fitted, Catalogue(names, listed.features)), path)


def plain_encoder(kind: str, length: int) -> Encoder:
    """Return an encoder that changes nothing of `length` columns as `ThroughService` sends them."""
    return Encoder(
        columns=tuple(
            NumberColumn(
                name=f"{kind}_{number}", missing=False, low=-FARTHEST, high=FARTHEST, center=0.0, scale=1.0, log=False
            )
            for number in range(length)
        )
    )
