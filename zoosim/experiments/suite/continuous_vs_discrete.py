"""Boosts against templates of both kinds in one search shop: does choosing ten numbers beat choosing one of eight?"""

from zoosim.arena.experiment import Experiment
from zoosim.experiments.suite.template_bandits import WIDTHS

CONTINUOUS_VS_DISCRETE = Experiment(
    name="continuous-vs-discrete",
    summary="3,000 visits to a search shop of 1,000 products, policies that boost and policies that choose a template",
    question="Do continuous boosts beat a choice among ranking templates, and after how many visits?",
    kind="search",
    steps=3_000,
    tail=1 / 3,
    env={"n_products": 1_000, "a_max": 0.5, "templates": "vectors"},
    policies={
        "item-critic": {},
        "q-ensemble": {},
        "rank-guardrail": {},
        "random-boosts": {},
        "template-ts": {"context": "simple", **WIDTHS["template-ts"]["simple"]},
        "template-linucb": {"context": "simple", **WIDTHS["template-linucb"]["simple"]},
        "template-premium": {},
        "template-ts-rules": {"type": "template-ts", "library": "rules", "context": "simple"},
        "template-premium-rule": {"type": "template", "template": "premium", "library": "rules"},
        "template-neutral": {},
    },
)
