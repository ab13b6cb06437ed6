"""Real data: a labelled table becomes a bandit, one product a class."""

from zoosim.arena.experiment import Experiment

LABELLED = Experiment(
    name="labelled",
    summary="the shuffled rows of a labelled table, each once (handwritten digits, or --data FILE --label COLUMN)",
    question="How close does a policy that only learns whether its one guess was right come to a trained classifier?",
    kind="labelled",
    steps=10_000,
    tail=0.2,
    policies={
        "random": {},
        "greedy": {},
        "linucb": {},
        "d-linucb": {},
        "neural-linear": {},
        "shared-linucb": {},
        "product-linucb": {},
        "adaptive": {},
    },
)
