"""Search shops drawn at random: what products cost and earn, who comes, and what a visitor responds to."""

from zoosim.arena.experiment import Experiment
from zoosim.experiments.suite.template_bandits import WIDTHS

SEARCH_SHOPS = Experiment(
    name="search-shops",
    summary="1,000 visits in each of 20 search shops drawn at random: prices, tastes, behaviour, rewards, changes",
    question="Which policy ranks well in a search shop of which nothing is known beforehand?",
    kind="search-shops",
    steps=1_000,
    seeds=20,
    policies={
        "item-critic": {},
        "q-ensemble": {},
        "rank-guardrail": {},
        "random-boosts": {},
        "template-ts": {"context": "simple", **WIDTHS["template-ts"]["simple"]},
        "template-neutral": {},
    },
)
