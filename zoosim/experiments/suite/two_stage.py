"""A catalogue of which a policy can look at a part: does it matter by what that part is retrieved?"""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.catalogue.config import TasteShock

CANDIDATES = {"candidates": 200}

TWO_STAGE = Experiment(
    name="two-stage",
    kind="catalogue",
    summary="4,000 visitors, 10,000 products with tastes of their own, of which 200 are retrieved; a shock, newcomers",
    question="What does it cost to rank 200 of 10,000 products, by what they are retrieved?",
    steps=4_000,
    env={
        "n_products": 10_000,
        "arrivals": [{"step": 3_000, "share": 0.1, "new_category": True, "appeal": 1.0}],
        "run_outs": [{"step": 1_000, "until": 1_500, "share": 0.2}],
    },
    shocks=(TasteShock(step=2_000, name="winter", size=2.5),),
    policies={
        "two-stage": CANDIDATES,
        "one-stage": {"type": "two-stage", "retrieval": "draws"},
        "fixed-retriever": {"type": "two-stage-fixed", "trained_on": 500, **CANDIDATES},
        "category-rule": {},
        "popularity": {},
        "cluster-linucb": {},
    },
)
