"""Shops that nobody tuned a policy on: click tables and shocks drawn anew for every seed."""

from typing import Any

from zoosim.arena.experiment import Experiment

COMPETING: dict[str, dict[str, Any]] = {"random": {}, "greedy": {}, "d-linucb": {}, "neural-linear": {}, "adaptive": {}}

ROBUSTNESS = Experiment(
    name="robustness",
    summary="40,000 visitors, click tables and shock times drawn anew for each seed",
    question="Does what holds in the gauntlet hold in shops that nobody tuned a policy on?",
    steps=40_000,
    env={
        "random_personas": {"personas": 4, "categories": 5},
        "random_shocks": {"count": 2, "seed": "each"},
    },
    policies={**COMPETING, "linucb": {}},
)

LARGE_WORLD = Experiment(
    name="large-world",
    summary="500 products in 25 categories, 10 personas, three shocks, all drawn anew for each seed",
    question="Which policy carries over, untuned, to a shop ten times the size?",
    steps=40_000,
    env={
        "n_products": 500,
        "random_personas": {"personas": 10, "categories": 25},
        "random_shocks": {"count": 3, "seed": "each"},
    },
    policies=COMPETING,
)
