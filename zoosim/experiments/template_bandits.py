"""Eight templates over a base ranker's scores: who finds the right one for each kind of visit?"""

from zoosim.experiments.experiment import Experiment

WIDTHS: dict[str, dict[str, dict[str, float]]] = {
    "template-greedy": {"simple": {}, "rich": {}, "rich-oracle": {}},
    "template-linucb": {"simple": {"alpha": 4.0}, "rich": {"alpha": 3.0}, "rich-oracle": {"alpha": 3.0}},
    "template-ts": {"simple": {"alpha": 1.0}, "rich": {"alpha": 1.0}, "rich-oracle": {"alpha": 0.7}},
}
"""How widely each learner explores on what it sees: the best for the last quarter over seeds 0 to 19.

`zoosim run template-widths` compares them.
"""

LEARNERS = {"template-greedy": "greedy", "template-linucb": "LinUCB", "template-ts": "Thompson sampling"}
"""What learners are called in figures."""

TEMPLATE_BANDITS = Experiment(
    name="template-bandits",
    summary="20,000 visits to a search shop, eight ranking templates, static and learning, by what they see",
    question="Which template should each search be ranked with, and what does it take to find out?",
    kind="search",
    steps=20_000,
    tail=5_000,
    reward_name="reward",
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
