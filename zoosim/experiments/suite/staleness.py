"""The gauntlet for one policy in many forms: what sums cost that a network has left behind."""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.recommendation.shocks import LOUD, SILENT

TRAINING_STEPS = (1, 2, 4, 10)
FORMS = {"stale": False, "fresh": True}

STALENESS = Experiment(
    name="staleness",
    summary="the gauntlet for neural-linear-stable, sums stale or recomputed, by training steps",
    question="What does it cost to keep sums over embeddings that the network has left behind?",
    steps=40_000,
    shocks=(LOUD, SILENT),
    policies={
        f"{form}-{steps}": {"type": "neural-linear-stable", "training_steps": steps, "recompute": recompute}
        for steps in TRAINING_STEPS
        for form, recompute in FORMS.items()
    },
)
