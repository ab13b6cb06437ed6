"""Visitors whom discounts lure and disappoint: what do boosts bring that look at one visit alone?"""

from zoosim.arena.experiment import Experiment

LURE = Experiment(
    name="lure",
    kind="lure",
    summary="2,000 visitors of some three visits, who buy by the discount and return by what they got",
    question="How much of what visitors bring in all do boosts get that are learned from one visit at a time?",
    steps=2_000,
    policies={"random-boosts": {}, "constant-boosts": {}, "item-critic": {}, "q-ensemble": {}, "actor-critic": {}},
)
