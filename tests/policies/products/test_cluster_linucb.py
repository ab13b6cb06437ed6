"""A bandit on a graph of clusters and products: its bound by plain loops, exact probabilities, and bounded memory."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.types import Context, PolicySpec, frozen
from zoosim.policies.products.cluster_linucb import KEPT, ClusterLinUCB
from zoosim.policies.requests import dense_propensities

N_PRODUCTS = 30
SPEC = PolicySpec(user_dim=2, product_dim=3)
FEATURES = frozen(np.random.default_rng(1).normal(size=(N_PRODUCTS, 3)).astype(np.float32))
IDS = frozen(np.arange(100, 100 + N_PRODUCTS))
ALL = frozen(np.ones(N_PRODUCTS, bool))
VISITS = 400
SMALL = {"clusters": 4, "memberships": 2, "listed": 5, "period": 50}
Visit = tuple[np.ndarray, int, float]


def request(user: Any = (0.5, -1.0), **changes: Any) -> Context:
    """Return a request for all products."""
    fields = {"user": frozen(np.array(user)), "product_ids": IDS, "products": FEATURES, "available": ALL}
    return Context(user_id=0, **{**fields, **changes})


def taught(visits: int = VISITS, **params: Any) -> tuple[ClusterLinUCB, list[Visit]]:
    """Return a policy that has learned from its own decisions, and what it was told."""
    policy = ClusterLinUCB(SPEC, np.random.default_rng(0), **{**SMALL, **params})
    rng = np.random.default_rng(2)
    told = []
    for _ in range(visits):
        user = rng.normal(size=2)
        place = policy.select_action(request(user))
        reward = float(rng.random() < 1 / (1 + np.exp(-FEATURES[place, :2] @ user - FEATURES[place, 2])))
        policy.update(request(user), place, reward)
        told.append((user, place, reward))
    return policy, told


def plain_weights(policy: ClusterLinUCB, user: np.ndarray) -> dict[int, float]:
    """Return the two nearest clusters, nearest first, weighed by the inverse of their squared distances."""
    distances = {c: sum((mean - user) ** 2) for c, mean in enumerate(policy.means)}
    nearest = sorted(distances, key=distances.__getitem__)[:2]
    total = sum(1 / distances[c] for c in nearest)
    return {c: 1 / distances[c] / total for c in nearest}


def plain_bounds(policy: ClusterLinUCB, told: list[Visit], user: np.ndarray) -> dict[int, float]:
    """Return the bound of each listed product by its place, from all that was told after the first period."""
    squares: dict[tuple[int, int], float] = {}
    rewards: dict[tuple[int, int], float] = {}
    for visitor, place, reward in told[50:]:
        for c, weight in plain_weights(policy, visitor).items():
            squares[c, place] = squares.get((c, place), 1.0) + weight**2
            rewards[c, place] = rewards.get((c, place), 0.0) + weight * reward
    bounds: dict[int, float] = {}
    graph = policy.graph.reshape(3, 4)
    weights = plain_weights(policy, user)
    for c in weights:
        scores = FEATURES @ (np.append(1.0, policy.means[c]) @ graph)[1:]
        for place in np.argsort(-scores)[:5].tolist():
            known = [each for each in weights if (each, place) in squares]
            mean = sum(weights[each] * rewards[each, place] / squares[each, place] for each in known)
            variance = sum(weights[each] ** 2 / squares[each, place] for each in known)
            is_new = (c, place) not in squares or bounds.get(place) == np.inf
            bounds[place] = np.inf if is_new else mean + 0.5 * np.sqrt(variance)
    return bounds


@pytest.mark.parametrize("visits", [60, VISITS])
def test_the_bound_is_that_of_plain_loops(visits: int) -> None:
    """Soon after the first lists, when most of them was never tried, and later."""
    policy, told = taught(visits, explore=0.0)
    n_new = 0
    for user in np.random.default_rng(3).normal(size=(50, 2)):
        bounds = plain_bounds(policy, told, user)
        best = policy.select_action(request(user))
        assert best == max(bounds, key=bounds.__getitem__)
        n_new += bounds[best] == np.inf
    assert n_new > 25 if visits == 60 else n_new < 25


def test_decisions_are_spread_evenly_before_there_are_lists_and_by_explore_from_then_on() -> None:
    policy, _ = taught(49, explore=0.3)
    np.testing.assert_allclose(dense_propensities(policy, request()), 1 / N_PRODUCTS)
    policy.update(request(), 3, 1.0)
    chances = dense_propensities(policy, request())
    shown = np.bincount([policy.select_action(request()) for _ in range(2_000)], minlength=N_PRODUCTS)
    best = int(shown.argmax())
    assert chances[best] == pytest.approx(0.7 + 0.3 / N_PRODUCTS)
    np.testing.assert_allclose(np.delete(chances, best), 0.3 / N_PRODUCTS)
    # 2,000 draws of .71, of which 4.5 standard errors are 91.
    assert abs(shown[best] - 2_000 * chances[best]) < 91
    assert (shown > 0).all()


def test_clusters_and_edges_are_bounded_and_the_latest_edges_are_kept() -> None:
    policy, _ = taught(clusters=2, memberships=1, listed=1, explore=1.0)
    assert len(policy.means) == 2
    assert policy.visitors.sum() == 50
    assert len(policy.edges) == len(policy.sums) == KEPT * 2
    policy.update(request(), 7, 1.0)
    assert policy.edges[-1, 1] == IDS[7]
    assert len(np.unique(policy.edges, axis=0)) == len(policy.edges) == KEPT * 2


def test_a_product_that_is_gone_is_not_shown_and_a_new_one_is_listed_at_once() -> None:
    policy, _ = taught(explore=0.1)
    best = policy.select_action(request())
    without = frozen(np.arange(N_PRODUCTS) != best)
    chances = dense_propensities(policy, request(available=without))
    assert chances[best] == 0.0
    assert best not in [policy.select_action(request(available=without)) for _ in range(200)]
    # What the model scores far above all others heads each list, and was tried in no cluster.
    graph = policy.graph.reshape(3, 4)
    ideal = 100.0 * (np.array([1.0, 0.5, -1.0]) @ graph)[1:]
    more = request(
        product_ids=np.append(IDS, 7), products=np.vstack([FEATURES, ideal]), available=np.ones(N_PRODUCTS + 1, bool)
    )
    assert dense_propensities(policy, more)[N_PRODUCTS] > 0.9


def test_products_without_features_are_refused() -> None:
    with pytest.raises(PolicyError, match="cluster-linucb: lists products by their features, and they have none"):
        ClusterLinUCB(PolicySpec(user_dim=2, product_dim=0), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("key", "change", "flaw"),
    [
        ("edges", lambda edges: edges + np.array([4, 0]), "edges holds a cluster that is none of the 4"),
        ("edges", lambda edges: edges - np.array([4, 0]), "edges holds a cluster that is none of the 4"),
        ("edges", lambda edges: edges[[0, *range(len(edges) - 1)]], "edges holds one twice"),
        ("edges", lambda edges: edges[:-1], "sums is of shape"),
        ("sums", lambda sums: -1.0 - sums, "sums holds a negative sum of squares"),
        ("sums", lambda sums: sums * np.nan, "sums holds nan"),
        ("means", lambda means: means * np.inf, "means holds"),
        ("means", lambda means: np.vstack([means, means]), "means is of shape"),
        ("visitors", lambda visitors: visitors * 0, "visitors holds 0"),
        ("graph", lambda graph: graph[:-1], "graph is of shape"),
        ("decisions", lambda decisions: decisions - 10_000, "decisions holds"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(key: str, change: Any, flaw: str) -> None:
    policy, _ = taught()
    good = policy.state_dict()
    with pytest.raises(ConfigError, match=flaw):
        policy.load_state_dict({**good, key: change(good[key])})
    assert all(map(np.array_equal, good.values(), policy.state_dict().values()))


def test_a_state_without_clusters_after_visits_is_refused() -> None:
    policy, _ = taught(0)
    with pytest.raises(ConfigError, match="means are missing"):
        policy.load_state_dict({**policy.state_dict(), "updates": np.array([50])})
