"""Forty thousand visitors and two market shocks, one loud and one silent."""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.recommendation.shocks import LOUD, SILENT

BASELINES: dict[str, dict[str, float]] = {
    "neural-linear-online": {"alpha": 0.2},
    "neural-linear-stable": {"alpha": 0.3},
    "dropout-ts": {},
}
"""Policies that compete as they were published, with their faults."""

GAUNTLET = Experiment(
    name="gauntlet",
    summary="40,000 visitors, a loud and a silent market shock",
    question="Which policy learns a shop quickly, and keeps up when the market shifts twice under it?",
    steps=40_000,
    shocks=(LOUD, SILENT),
    policies={
        "random": {},
        "static-mlp": {},
        "greedy": {},
        "linucb": {"alpha": 0.2},
        **BASELINES,
        "d-linucb": {},
        "neural-ucb": {},
        "neural-ts": {},
        "neural-linear": {},
        "shared-linucb": {},
        "shared-lin-ts": {},
        "product-linucb": {},
        "product-lin-ts": {},
        "adaptive": {},
    },
)
