"""The gauntlet in one and the same world, again and again with other networks."""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.recommendation.shocks import LOUD, SILENT

NETWORK_SEEDS = Experiment(
    name="network-seeds",
    summary="the gauntlet in one fixed world; seeds tell networks and draws of the policies apart",
    question="How much does a policy's result hang on the random weights that its network began with?",
    steps=40_000,
    shocks=(LOUD, SILENT),
    world_seed=1_000,
    seeds=16,
    policies={
        "neural-linear-online": {"alpha": 0.2},
        "neural-linear-stable": {"alpha": 0.3},
        "neural-ucb": {},
        "neural-ts": {},
        "neural-linear": {},
        "adaptive": {},
        "d-linucb": {},
    },
)
