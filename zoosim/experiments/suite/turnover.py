"""A shop whose products come and go, without any market shock."""

from zoosim.arena.experiment import Experiment
from zoosim.experiments.suite.gauntlet import BASELINES, GAUNTLET

TURNOVER = Experiment(
    name="turnover",
    summary="40,000 visitors, a tenth of the products replaced by new ones every 4,000 visits",
    question="Which policy loses what it knows when products leave, and how soon is a new product known?",
    steps=40_000,
    env={"turnover": {"share": 0.1, "every": 4_000}},
    policies={name: params for name, params in GAUNTLET.policies.items() if name not in BASELINES},
)
