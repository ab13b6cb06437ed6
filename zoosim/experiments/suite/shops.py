"""Shops of all kinds, drawn at random: small and large, quick and slow to pay, standing still and drifting."""

from zoosim.arena.experiment import Experiment

SHOPS = Experiment(
    name="shops",
    summary="20,000 visits in each of 40 shops drawn at random: sizes, click rates, tastes, drift, delays, revenue",
    question="Which policy is the one to take in a shop of which nothing is known beforehand?",
    kind="shops",
    steps=20_000,
    seeds=40,
    policies={
        "random": {},
        "greedy": {},
        "linucb": {},
        "d-linucb": {},
        "neural-linear": {},
        "adaptive": {},
    },
)
