"""Neural-Linear that begins with a log, whole or with a network that stays as the log left it, against from scratch."""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.recommendation.shocks import LOUD

LOGGED = 20_000
"""Visits of a random past that pre-trained policies learn from."""

PRETRAINED = Experiment(
    name="pretrained",
    summary="20,000 visitors, one loud shock, Neural-Linear from scratch and trained on 20,000 logged visits before",
    question="What is a log worth to a bandit, and is tuning the last layer of a trained network enough?",
    steps=20_000,
    shocks=(LOUD,),
    policies={
        "static-mlp": {"past_visits": LOGGED},
        "linucb": {},
        "linucb-log": {"type": "linucb", "past_visits": LOGGED},
        "neural-linear": {},
        "neural-linear-log": {"type": "neural-linear", "past_visits": LOGGED},
        "neural-linear-log-head": {"type": "neural-linear", "past_visits": LOGGED, "tune": "head"},
        "random-layer-head": {"type": "neural-linear", "tune": "head"},
    },
)
