"""Sixty thousand visitors in a world that stands still: learning online against learning from a log."""

from zoosim.arena.experiment import Experiment

HEAD_TO_HEAD = Experiment(
    name="head-to-head",
    summary="60,000 visitors, no shock, an offline-trained MLP against bandits that start from nothing",
    question="When does a bandit that starts from nothing overtake a model trained on 200,000 logged visits?",
    steps=60_000,
    policies={"random": {}, "static-mlp": {}, "greedy": {}, "linucb": {"alpha": 1.5}, "neural-linear": {}},
)
