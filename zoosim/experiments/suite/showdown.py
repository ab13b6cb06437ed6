"""Twenty thousand visitors and one shock: what sharing a representation buys."""

from zoosim.arena.experiment import Experiment, Hypothesis
from zoosim.worlds.recommendation.shocks import LOUD

SHOWDOWN = Experiment(
    name="showdown",
    summary="20,000 visitors, one loud shock, LinUCB against both published Neural-Linear forms",
    question="Does a shared neural representation recover faster from a shock than one linear model per product?",
    steps=20_000,
    shocks=(LOUD,),
    policies={
        "static-mlp": {},
        "greedy": {},
        "linucb": {"alpha": 0.2},
        "neural-linear-online": {"alpha": 0.2},
        "neural-linear-stable": {"alpha": 0.2},
        "neural-ucb": {},
        "neural-ts": {},
        "neural-linear": {},
        "adaptive": {},
    },
    hypotheses=tuple(
        Hypothesis(text, better, worse, phase)
        for shared in ("neural-linear-online", "neural-linear-stable")
        for text, better, worse, phase in (
            ("before the shock one linear model per product earns more", "linucb", shared, 0),
            ("after the shock a shared representation earns more", shared, "linucb", 1),
        )
    ),
)
