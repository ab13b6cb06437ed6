"""Eight templates over a base ranker's scores: who finds the right one for each kind of visit?"""

from zoosim.experiments.experiment import Experiment

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
            f"{name}-{context}": {"type": name, "context": context}
            for name in ("template-greedy", "template-linucb", "template-ts")
            for context in ("simple", "rich", "rich-oracle")
        },
    },
)
