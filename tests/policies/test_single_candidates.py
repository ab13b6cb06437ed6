"""What is derived from one product is kept by the identity of its arrays, and that of several once they come again."""

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


def test_candidates_are_kept_once_they_come_again_and_decided_alike_before() -> None:
    policy = Adaptive(PolicySpec(user_dim=1, product_dim=2), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    features = rng.integers(2, size=(6, 2)).astype(float)

    def request(*numbers: int) -> Context:
        ids = np.array(numbers)
        return Context(
            user_id=0,
            user=rng.normal(size=1),
            product_ids=ids,
            products=features[ids],
            available=np.ones(len(ids), bool),
        )

    for _ in range(200):
        context = request(*rng.permutation(6)[:4].tolist())
        policy.update(context, 0, float(rng.random() < features[context.product_ids[0], 0]))
    policy._attached.clear()
    context = request(5, 1, 2, 0)
    at_first = policy.propensities(context)
    assert not policy._attached
    assert policy.propensities(context).tolist() == at_first.tolist()
    assert len(policy._attached) == 1
    assert np.count_nonzero(at_first) > 1
    # What a decision would make room for first is not decided in passing: a number in a column of 0 and 1.
    numbers = Context({**request(0, 3), "products": np.array([[0.0, 0.5], [1.0, 2.0]])})
    assert policy.propensities(numbers).sum() == 1.0
