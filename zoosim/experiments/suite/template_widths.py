"""Widths of exploration of bandits over templates, by what they see: the experiment that tunes `template-bandits`."""

from zoosim.arena.experiment import Experiment

WIDTHS = {
    "template-linucb": (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0),
    "template-ts": (0.0, 0.1, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0),
}
CONTEXTS = ("simple", "rich", "rich-oracle")

FORMS = {
    f"{learner}-{context}-{width:g}": (learner, context, width)
    for learner, widths in WIDTHS.items()
    for context in CONTEXTS
    for width in widths
}

TEMPLATE_WIDTHS = Experiment(
    name="template-widths",
    summary="template-bandits for two learners on three sets of features, by how widely they explore",
    question="How widely should a bandit over templates explore, on what it sees?",
    kind="search",
    steps=20_000,
    tail=0.25,
    seeds=20,
    policies={
        name: {"type": learner, "context": context, "alpha": width} for name, (learner, context, width) in FORMS.items()
    },
)
