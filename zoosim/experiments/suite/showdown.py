"""Twenty thousand visitors and one shock: what sharing a representation buys."""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.recommendation.shocks import LOUD

SHOWDOWN = Experiment(
    name="showdown",
    summary="20,000 visitors, one loud shock, LinUCB against both published Neural-Linear forms",
    question="Does a shared neural representation recover faster from a shock than one linear model per product?",
    steps=20_000,
    shocks=(LOUD,),
    policies={
        "greedy": {},
        "linucb": {"alpha": 0.2},
        "neural-linear-online": {"alpha": 0.2},
        "neural-linear-stable": {"alpha": 0.2},
        "neural-ucb": {},
        "neural-ts": {},
        "neural-linear": {},
        "adaptive": {},
    },
)
