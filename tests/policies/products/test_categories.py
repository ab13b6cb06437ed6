"""Categories are numbered as they come up, and keep their numbers when the assortment changes."""

from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.core.id_table import use_slot
from zoosim.core.types import FloatArray
from zoosim.policies.products.categories import Categories, count, new_categories, number
from zoosim.policies.products.category_heads import HeadsPolicy
from zoosim.policies.products.dropout_ts import DropoutTS
from zoosim.policies.products.neural_linear import NeuralLinear

BOTH = pytest.mark.parametrize("cls", [NeuralLinear, DropoutTS])
KINDS = np.arange(12) % 5


def context(products: FloatArray, user: FloatArray | None = None) -> Context:
    ids = np.arange(len(products))
    seen = np.ones(2) if user is None else user
    return Context(user_id=0, user=seen, product_ids=ids, products=products, available=np.ones(len(ids), bool))


def numbered(categories: Categories, products: Any, most: int = 8) -> list[int]:
    _, numbers, _, _ = number(categories, np.array(products, float), most)
    return list(map(int, numbers))


def test_categories_get_numbers_in_the_order_they_come_up() -> None:
    categories = new_categories(8, 2)
    assert numbered(categories, [[1, 1], [1, 1], [0, 1]]) == [1, 1, 2]
    assert numbered(categories, [[1, 0], [0, 1], [0, 0]]) == [3, 2, 4]
    assert numbered(categories, [[0, 1], [1, 0]]) == [2, 3]
    assert count(categories) == 5


def test_minus_zero_is_zero() -> None:
    categories = new_categories(4, 2)
    assert numbered(categories, [[0.0, 1.0], [1.0, -0.0]]) == [1, 2]
    assert numbered(categories, [[-0.0, 1.0], [1.0, 0.0]]) == [1, 2]
    dense = new_categories(4, 1)
    assert numbered(dense, [[0.0], [0.5]]) == numbered(dense, [[-0.0], [0.5]]) == [1, 2]


def test_only_binary_columns_count_unless_there_are_none() -> None:
    categories = new_categories(4, 3)
    assert numbered(categories, [[0, 0.3, 1], [0, 0.7, 1], [1, 0.3, 1]]) == [1, 1, 2]
    assert categories.binary.tolist() == [True, False, True]
    dense = new_categories(4, 2)
    assert numbered(dense, [[0.5, 2], [0.1, 2], [0.5, 2]]) == [1, 2, 1]
    assert not dense.binary.any()


def test_a_column_that_turns_out_to_hold_other_numbers_is_shed() -> None:
    """Then all are numbered anew; a column that was dense once never counts again."""
    categories = new_categories(4, 2)
    assert number(categories, np.array([[0.0, 1.0], [1.0, 0.0]]), 4)[3] is False
    _, numbers, new, anew = number(categories, np.array([[1.0, 0.5], [0.0, 0.2]]), 4)
    assert (numbers.tolist(), new.tolist(), anew) == ([1, 2], [1, 2], True)
    assert count(categories) == 3
    _, numbers, new, anew = number(categories, np.array([[0.0, 1.0], [1.0, 1.0]]), 4)
    assert (numbers.tolist(), new.tolist(), anew) == ([2, 1], [], False)


def test_room_doubles_up_to_the_most_and_numbers_stay() -> None:
    categories, numbers, new, _ = number(new_categories(2, 6), np.eye(6)[:1], 6)
    assert (len(categories.table.ids), numbers.tolist(), new.tolist()) == (2, [1], [1])
    categories, numbers, new, _ = number(categories, np.eye(6)[[1, 0]], 6)
    assert (len(categories.table.ids), numbers.tolist(), new.tolist()) == (4, [2, 1], [2])
    categories, numbers, new, _ = number(categories, np.eye(6)[[3, 2]], 6)
    assert (len(categories.table.ids), numbers.tolist(), new.tolist()) == (6, [3, 4], [3, 4])


def test_the_category_shown_longest_ago_makes_room_for_a_new_one() -> None:
    """What finds no room in one request together with the others gets number 0."""
    categories = new_categories(3, 4)
    assert numbered(categories, np.eye(4)[[0, 1]], 3) == [1, 2]
    use_slot(categories.table, 1)
    _, numbers, new, _ = number(categories, np.eye(4)[[2]], 3)
    assert (numbers.tolist(), new.tolist()) == ([2], [2])
    assert numbered(categories, np.eye(4)[[0, 2, 3]], 3) == [1, 2, 0]


def taught(cls: type[HeadsPolicy], best: int = 3) -> Any:
    """Return a policy that learned from 600 visits that category `best` earns 1 and no other does."""
    params: dict[str, Any] = {"alpha": 0.0} if cls is NeuralLinear else {}
    policy = cls(PolicySpec(user_dim=2, product_dim=5), np.random.default_rng(0), **params)
    rng = np.random.default_rng(1)
    for visit in range(600):
        shown = context(np.eye(5)[KINDS], rng.normal(size=2))
        policy.update(shown, visit % 12, float(KINDS[visit % 12] == best))
    return policy


@pytest.mark.parametrize("change", ["permuted", "without the first", "without the last"])
@BOTH
def test_what_was_learned_of_a_category_stays_its_own(cls: type[HeadsPolicy], change: str) -> None:
    """12 products of 5 categories, then in another order, or of 4 of them: heads, memory and choices stay."""
    policy = taught(cls)
    head_of = dict(zip(KINDS.tolist(), policy.attach(context(np.eye(5)[KINDS])).group_of.tolist(), strict=True))
    kinds = {"permuted": KINDS[::-1], "without the first": 1 + KINDS % 4, "without the last": KINDS % 4}[change]
    before = policy.state_dict()
    chosen = [policy.select_action(context(np.eye(5)[kinds], np.array([0.3, u]))) for u in np.linspace(-1, 1, 100)]
    after = policy.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before if name.startswith(("ridge", "learner")))
    assert [head_of[kind] for kind in kinds.tolist()] == policy.attach(context(np.eye(5)[kinds])).group_of.tolist()
    assert np.mean(kinds[chosen] == 3) > (0.99 if cls is NeuralLinear else 0.9)


@BOTH
def test_ever_new_dense_products_are_learned_through_one_head(cls: type[HeadsPolicy]) -> None:
    """10 fresh products a visit, a click where the middle of 3 columns is above .8 of (-1, 1): .1 by chance."""
    policy, rng, hits = (
        cls(PolicySpec(user_dim=2, product_dim=3), np.random.default_rng(0), train_every=10),
        np.random.default_rng(1),
        [],
    )
    for _ in range(1_500):
        shown = context(rng.uniform(-1, 1, (10, 3)), rng.normal(size=2))
        action = policy.select_action(shown)
        hits.append(float(shown.products[action, 1] > 0.8))
        policy.update(shown, action, hits[-1])
    assert policy.state.joint[0]
    assert np.mean(hits[-500:]) > 0.5  # .65 = 1 - .9^10 visits have such a product


@pytest.mark.parametrize("saved_at", [20, 60], ids=["before", "after"])
@BOTH
def test_a_loaded_policy_decides_alike_across_the_change(cls: type[HeadsPolicy], saved_at: int) -> None:
    """One-hot products for 40 visits, dense ones then; the other had met products of its own before it loaded."""
    spec = PolicySpec(user_dim=2, product_dim=3)
    policy, other = (cls(spec, np.random.default_rng(seed), train_every=10) for seed in range(2))
    rng = np.random.default_rng(2)
    strange = context(np.random.default_rng(9).normal(size=(10, 3)))
    other.update(strange, other.select_action(strange), 1.0)
    for visit in range(100):
        products = np.eye(3)[rng.integers(3, size=10)] if visit < 40 else rng.normal(size=(10, 3))
        if visit == saved_at:
            other.load_state_dict(policy.state_dict())
        shown = context(products, rng.normal(size=2))
        action = policy.select_action(shown)
        if visit >= saved_at:
            assert other.select_action(shown) == action
            other.update(shown, action, float(action % 2))
        policy.update(shown, action, float(action % 2))
    one, two = policy.state_dict(), other.state_dict()
    assert bool(policy.state.joint[0])
    learned = [name for name in one if not name.endswith(".places")]  # ids may be found at another of their places
    assert all(np.array_equal(one[name], two[name]) for name in learned)


def test_one_request_never_merges_categories() -> None:
    """A full table of 63: a newcomer takes the number of one that is no candidate now."""
    patterns = np.array([[float(bit) for bit in f"{n:07b}"] for n in range(100)])
    categories = new_categories(64, 7)
    categories, first, _, _ = number(categories, patterns[:63], 64)
    assert sorted(first) == list(range(1, 64))
    categories, mixed, new, anew = number(categories, patterns[[0, 1, 2, 80]], 64)
    assert mixed[:3].tolist() == first[:3].tolist()
    assert len(set(mixed.tolist())) == 4
    assert (new.tolist(), anew) == ([mixed[3]], False)
