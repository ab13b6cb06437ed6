"""Eight templates over a base ranker's scores: who finds the right one for each kind of visit?"""

from zoosim.arena.experiment import Experiment
from zoosim.worlds.search.shifts import SAVING, TRADING_UP

WIDTHS: dict[str, dict[str, dict[str, float]]] = {
    "template-greedy": {"simple": {}, "rich": {}, "rich-oracle": {}},
    "template-linucb": {"simple": {"alpha": 4.0}, "rich": {"alpha": 3.0}, "rich-oracle": {"alpha": 3.0}},
    "template-ts": {"simple": {"alpha": 1.0}, "rich": {"alpha": 1.0}, "rich-oracle": {"alpha": 0.7}},
}
"""Width of exploration of each learner by what it sees: the best for the last quarter over seeds 0 to 19.

`zoosim run template-widths` compares them.
"""

LEARNERS = {"template-greedy": "greedy", "template-linucb": "LinUCB", "template-ts": "Thompson sampling"}
"""Names of learners in figures."""

TEMPLATE_BANDITS = Experiment(
    name="template-bandits",
    summary="20,000 visits to a search shop, eight ranking templates, static and learning, by what they see",
    question="Which template should each search be ranked with, and what does it take to find out?",
    kind="search",
    steps=20_000,
    tail=0.25,
    policies={
        **{
            f"template-{name}": {}
            for name in (
                "neutral",
                "cm2",
                "private-label",
                "popularity",
                "premium",
                "budget",
                "discount",
                "strategic",
            )
        },
        **{
            f"{name}-{context}": {"type": name, "context": context, **params}
            for name, widths in WIDTHS.items()
            for context, params in widths.items()
        },
    },
    features={f"{name}-{context}": (LEARNERS[name], context) for name, widths in WIDTHS.items() for context in widths},
)

FADING: dict[str, dict[str, float]] = {
    "template-linucb": {"alpha": 2.0, "discount": 1 - 1 / 1_500},
    "template-ts": {"alpha": 0.7, "discount": 1 - 1 / 1_500},
}
"""Width and memory of the learners that follow the market: the best for all visits over seeds 0 to 11."""

MARKET_SHIFTS = Experiment(
    name="market-shifts",
    summary="30,000 visits to a search shop whose market shifts twice, templates that never change and learners",
    question="Which template should each search be ranked with when the market moves, and who notices?",
    kind="search",
    steps=30_000,
    shocks=(SAVING, TRADING_UP),
    tail=1 / 6,
    policies={
        "template-premium": {},
        "template-private-label": {},
        "template-linucb": {"context": "simple", "alpha": 5.0},
        "template-ts": {"context": "simple", "alpha": 1.0},
        "template-linucb-fading": {"type": "template-linucb", "context": "simple", **FADING["template-linucb"]},
        "template-ts-fading": {"type": "template-ts", "context": "simple", **FADING["template-ts"]},
    },
)
