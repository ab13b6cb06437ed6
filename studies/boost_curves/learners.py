"""The learners of the study of boost learning, and the shops that they learn in: constants only."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from zoosim.core.search_config import SEGMENTS, Segment
from zoosim.core.search_names import LIBRARY_NAMES
from zoosim.experiments.suite.template_bandits import WIDTHS
from zoosim.policies.registry import PolicyEntry, make_entry


class Learner(NamedTuple):
    """A learner: the built-in `policy` with its `params`, and the `library` of templates that it chooses among."""

    policy: str
    params: Mapping[str, Any]
    library: str = ""

    def entry(self, name: str) -> PolicyEntry:
        """Return it as a policy to run under that name."""
        return make_entry(self.policy, name, dict(self.params))


PRINTED = "q-ensemble-printed"
PRINTED_LOG = "q-ensemble-printed-log"
PLAIN_LOOP: dict[str, Any] = {
    "hidden": "64-64",
    "learning_rate": 3e-3,
    "view": "boosts",
    "explore": "ucb",
    "beta": 2.0,
    "decay": 3.0,
    "anywhere": 0.0,
    "scaled": False,
    "averaged": False,
    "bootstrap": False,
}
"""The loop as it was published: five networks of 64 and 64 units over boosts, beta = 2 exp(-3 t / T), nothing more."""

LEARNERS: dict[str, Learner] = {
    "item-critic": Learner("item-critic", {}),
    "q-ensemble": Learner("q-ensemble", {}),
    PRINTED: Learner("q-ensemble", PLAIN_LOOP),
    PRINTED_LOG: Learner("q-ensemble", {**PLAIN_LOOP, "schedule": "logarithmic", "beta": 1.0}),
    **{
        f"{name}-{library}": Learner(
            f"template-{name}",
            {"context": "simple", "library": library, **WIDTHS[f"template-{name}"]["simple"]},
            library,
        )
        for library in LIBRARY_NAMES[::-1]
        for name in ("ts", "linucb", "greedy")
    },
}
"""The learners, in the order of the page.

`q-ensemble-printed` is `PLAIN_LOOP`, and `q-ensemble-printed-log` the same with beta = sqrt(log t). Bandits over
templates explore as widely as is best on other seeds of another shop.
"""

DEFAULT = "default"
CHANGED = "changed"
CHANGED_BEHAVIOUR: dict[str, Any] = {
    "behaviour": {"price": 0.0, "private_label": 0.8, "category": 1.0, "purchase_slope": 0.9, "purchase_bias": -0.2},
    "query_types": {
        "category": {"share": 0.6, "specificity": 0.7, "bias": [0.9, 0.9, 0.6, 0.6, 0.3, 0.1]},
        "brand": {"share": 0.2, "specificity": 1.0, "bias": [2.0, 0.6, 0.6, 0.2, 0.2, 0.0]},
        "generic": {"share": 0.2, "specificity": 0.4, "bias": [0.8, 0.7, 0.6, 0.5, 0.4, 0.3]},
    },
}
"""Other behaviour parameters of visitors, which nothing was tuned on: no interaction with price, other weights, and
other biases of examination by position."""

SAVVY = "savvy"
SAVVY_SHOPPER = Segment(
    share=0.2,
    price_taste_mean=-1.0,
    price_taste_sd=0.3,
    label_taste_sd=0.2,
    discount=2.0,
    category_tastes={"dog_food": 0.3, "cat_food": 0.3, "litter": 0.2, "toys": 0.2},
)
"""Visitors who mind prices a little and like discounts: their best boosts, near discount +.2 and price +.1, lie between
the vectors discount or budget and premium."""

SAVVY_SEGMENTS = {
    **{name: segment.model_copy(update={"share": 0.8 * segment.share}) for name, segment in SEGMENTS.items()},
    "savvy_shopper": SAVVY_SHOPPER,
}
SHOP: dict[str, Any] = {"n_products": 1_000, "a_max": 0.5}
SHOPS: dict[str, dict[str, Any]] = {
    DEFAULT: SHOP,
    CHANGED: SHOP | CHANGED_BEHAVIOUR,
    SAVVY: SHOP | {"segments": {name: segment.model_dump() for name, segment in SAVVY_SEGMENTS.items()}},
}
OTHER_VISITS = 1_000
"""The most visits that learners serve in the other shops than the default one."""
