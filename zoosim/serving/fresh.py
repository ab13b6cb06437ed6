"""Begin without a model: a policy that knows nothing stands in until there are requests enough to infer a schema.

What a request lists first is shown, and some of the rest at random.
"""

import numpy as np

from zoosim.core.rng import stream
from zoosim.core.types import REWARD, PolicySpec
from zoosim.policies.model import ID, Catalogue, Model
from zoosim.policies.products.adaptive import Adaptive
from zoosim.policies.products.random import Random
from zoosim.schema.columns import CategoryColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.schema import FittedSchema
from zoosim.serving.arm_replica import WARM_UP

FIRST_REQUESTS = 200
"""Requests from which the first schema is inferred; and with something new of a column, for it to grow."""

EXPLORATION = 0.2
"""The least share of the first requests that are answered evenly at random: they are what the policy grows from."""


def warm_up_model() -> Model:
    """Return a model that knows nothing, until there is a schema."""
    products = Encoder(columns=(CategoryColumn(name=ID),))
    fitted = FittedSchema(products=products, weights={REWARD: 1.0})
    policy = Random(PolicySpec(user_dim=0, product_dim=products.width), stream(0, "policy", "random"))
    facts = {"rows": 0, "policy": "random", WARM_UP: FIRST_REQUESTS}
    return Model(policy, fitted, Catalogue((), np.zeros((0, products.width))), facts)


def compile_policy() -> None:
    """Compile what the policy that grows will need, so that no request waits for it."""
    # Code is compiled for types and not for sizes, so any widths will do.
    Adaptive(PolicySpec(user_dim=2, product_dim=2), stream(0, "policy", "adaptive")).prepare()
