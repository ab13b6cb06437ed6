"""Visitors who come back by what they were shown: what is it worth to look ahead?"""

from zoosim.arena.experiment import Experiment

LONG_TERM = Experiment(
    name="long-term",
    kind="sessions",
    summary="5,000 visitors of some seven decisions a visit and three visits, who return by what they were shown",
    question="How much of what visitors bring in all do policies get that look at the next click, and who looks ahead?",
    steps=5_000,
    seeds=4,
    env={"observe": "state"},
    policies={
        "random": {},
        "linucb": {},
        "d-linucb": {},
        "product-linucb": {},
        "adaptive": {},
        "q-table": {},
        "dqn": {},
        "ppo": {},
        "planner": {},
    },
)
