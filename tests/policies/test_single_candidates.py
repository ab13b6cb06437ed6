"""What is derived from one product is kept by the identity of its arrays, and derived anew where the state changes."""

import numpy as np

from zoosim.core.types import Context, PolicySpec, frozen
from zoosim.policies.products.adaptive import Adaptive


def single(number: int) -> Context:
    return Context(
        user_id=0,
        user=frozen(np.zeros(1)),
        product_ids=frozen(np.array([number])),
        products=frozen(np.array([[0.0, 1.0]])),
        available=frozen(np.ones(1, bool)),
    )


def test_one_product_is_derived_once_and_anew_where_the_state_changes() -> None:
    policy = Adaptive(PolicySpec(user_dim=1, product_dim=2), np.random.default_rng(0))
    first, second = single(1), single(1)
    derived = policy.attach(first)
    assert policy.attach(first) is derived
    assert policy.attach(second) is not derived
    assert policy.attach(first) is derived
    assert not policy._attached
    policy.load_state_dict(policy.state_dict())
    assert policy.attach(first) is not derived
    derived = policy.attach(first)
    policy._forget_candidates()
    assert policy.attach(first) is not derived


def test_few_single_products_are_kept_and_none_that_may_change() -> None:
    policy = Adaptive(PolicySpec(user_dim=1, product_dim=2), np.random.default_rng(0))
    contexts = [single(number) for number in range(policy.most_singles + 10)]
    for context in contexts:
        policy.attach(context)
    assert len(policy._singles) == policy.most_singles
    products = np.array([[0.0, 1.0]])
    changing = Context({**contexts[0], "products": products})
    before = policy.attach(changing).products.tolist()
    products[:] = 0.5
    assert policy.attach(changing).products.tolist() != before
